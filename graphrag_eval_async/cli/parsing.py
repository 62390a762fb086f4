"""Parses the texts of options; a wrong one is a `ValueError` that quotes it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from graphrag_eval_async.catalogue.conditions import to_float

if TYPE_CHECKING:
    from graphrag_eval_async.inference.running import Interval
    from graphrag_eval_async.reports.systems import Format

LOOPBACK = "127.0.0.1"
"""The address that only this machine can reach."""

RESUMED = "\0"
"""The value of ``--resume`` without one, which no command line can hold."""

MAX_PORT = 65_535

_ADDRESS = re.compile(r"(?:(?P<host>[^\s:/\[\]]+|\[[^\s\]]+\])?:)?(?P<port>\d{1,5})", re.ASCII)
"""An optional host, with brackets round an IPv6 address, and a port."""


def parse_address(text: str) -> tuple[str, int]:
    """Return the host and the port of an address.

    Args:
        text: ``HOST:PORT``, with brackets round an IPv6 address; or ``PORT`` on this machine.
    """
    match = _ADDRESS.fullmatch(text)
    if match is None or int(match["port"]) > MAX_PORT:
        raise ValueError(f"{text!r}: expected HOST:PORT, such as 127.0.0.1:8080")
    host = match["host"] or LOOPBACK
    return host.strip("[]"), int(match["port"])


def parse_web(text: str) -> tuple[str, int]:
    """Return the host and the port of ``--web``, whose value may be missing.

    If another argument follows ``--web``, it is taken for the address: the error says so.
    """
    try:
        return parse_address(text)
    except ValueError as error:
        raise ValueError(f"{error}; name the other arguments before --web") from None


def parse_natural(text: str, least: int = 0) -> int:
    """Return a whole number of at least `least`, written in the digits 0 to 9."""
    is_whole_number = text.isascii() and text.isdecimal()
    if not is_whole_number or int(text) < least:
        raise ValueError(f"{text!r}: expected a whole number of at least {least}")
    return int(text)


def parse_count(text: str) -> int:
    """Return a whole number of at least 1."""
    return parse_natural(text, 1)


def parse_resume(text: str) -> str:
    """Return the value of ``--resume``: `RESUMED` or "force"."""
    if text not in (RESUMED, "force"):
        raise ValueError(f"{text!r}: expected --resume or --resume=force")
    return text


def parse_level(text: str) -> float:
    """Return a confidence level, between 0 and 1."""
    level = to_float(text)
    if not 0 < level < 1:
        raise ValueError(f"{text!r}: expected a number between 0 and 1, such as 0.95")
    return level


def parse_until(text: str) -> str:
    """Return a condition that can end a run."""
    from graphrag_eval_async.inference.until import Until

    return Until(text).condition


def parse_interval(text: str) -> Interval:
    """Return a kind of intervals, which may be written with a hyphen."""
    match text.replace("-", "_"):
        case "one_look":
            return "one_look"
        case "anytime":
            return "anytime"
    raise ValueError(f"{text!r}: expected one_look or anytime")


def parse_step_name(text: str) -> tuple[str, str]:
    """Return the name of a tool and that of a step, written as ``TOOL=STEP``."""
    tool, equals, step = text.partition("=")
    if not tool or not equals or not step:
        raise ValueError(f"{text!r}: expected TOOL=STEP, such as run_sparql=sparql_query")
    return tool, step


def parse_format(text: str) -> str:
    """Return the name of a format of traces."""
    from graphrag_eval_async.traces import TraceFormat

    return TraceFormat(name=text).name


def parse_table_format(text: str) -> Format:
    """Return the format of the tables of ``compare``."""
    match text:
        case "text" | "markdown" | "html" | "latex":
            return text
    raise ValueError(f"{text!r}: expected text, markdown, html or latex")


def parse_positive(text: str) -> float:
    """Return a number above 0."""
    value = to_float(text)
    # Keeps out infinity and numbers close to it; the bound is chosen.
    if not 0 < value < 1e300:
        raise ValueError(f"{text!r}: expected a number above 0, such as 0.05")
    return value
