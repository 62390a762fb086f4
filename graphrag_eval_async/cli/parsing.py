"""Parses the texts of options; a wrong one is a `ValueError`."""

from __future__ import annotations

import re

from graphrag_eval_async.catalogue.conditions import to_float

LOOPBACK = "127.0.0.1"

RESUMED = "\0"
"""The value of ``--resume`` without one, which no command line can hold."""

_ADDRESS = re.compile(r"(?:(?P<host>[^\s:/\[\]]+|\[[^\s\]]+\])?:)?(?P<port>\d{1,5})", re.ASCII)


def parse_address(text: str) -> tuple[str, int]:
    """The host and port of ``HOST:PORT``, or ``PORT`` on this machine; brackets hold an IPv6
    address.
    """
    match = _ADDRESS.fullmatch(text)
    if match is None or int(match["port"]) > 65_535:
        raise ValueError(f"{text!r}: expected HOST:PORT, such as 127.0.0.1:8080")
    return (match["host"] or LOOPBACK).strip("[]"), int(match["port"])


def parse_web(text: str) -> tuple[str, int]:
    """The host and port of ``--web``."""
    try:
        return parse_address(text)
    except ValueError as error:
        raise ValueError(f"{error}; name the other arguments before --web") from None


def parse_natural(text: str, least: int = 0) -> int:
    if not (text.isascii() and text.isdecimal() and int(text) >= least):
        raise ValueError(f"{text!r}: expected a whole number of at least {least}")
    return int(text)


def parse_count(text: str) -> int:
    return parse_natural(text, 1)


def parse_resume(text: str) -> str:
    if text not in (RESUMED, "force"):
        raise ValueError(f"{text!r}: expected --resume or --resume=force")
    return text


def parse_level(text: str) -> float:
    level = to_float(text)
    if not 0 < level < 1:
        raise ValueError(f"{text!r}: expected a number between 0 and 1, such as 0.95")
    return level


def parse_until(text: str) -> str:
    from graphrag_eval_async.inference.until import Until

    return Until(text).condition


def parse_interval(text: str) -> str:
    kind = text.replace("-", "_")
    if kind not in ("one_look", "anytime"):
        raise ValueError(f"{text!r}: expected one_look or anytime")
    return kind


def parse_step_name(text: str) -> tuple[str, str]:
    tool, equals, step = text.partition("=")
    if not (tool and equals and step):
        raise ValueError(f"{text!r}: expected TOOL=STEP, such as run_sparql=sparql_query")
    return tool, step


def parse_format(text: str) -> str:
    from graphrag_eval_async.traces import TraceFormat

    return TraceFormat(name=text).name


def parse_table_format(text: str) -> str:
    if text not in ("text", "markdown", "html", "latex"):
        raise ValueError(f"{text!r}: expected text, markdown, html or latex")
    return text


def parse_positive(text: str) -> float:
    value = to_float(text)
    if not 0 < value < 1e300:
        raise ValueError(f"{text!r}: expected a number above 0, such as 0.05")
    return value
