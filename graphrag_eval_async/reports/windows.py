"""Parses windows of recent results, and says them in words."""

from __future__ import annotations

import math
import re
from contextlib import suppress

from graphrag_eval_async.aggregates import Last, Seconds

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)?", re.ASCII)
"""A duration: a number, and optionally a unit."""

SECONDS_BY_UNIT = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def parse_duration(text: str) -> float:
    """Return the seconds of a duration such as 30, 30s, 5m, 1.5h or 500ms.

    Raises:
        ValueError: it is no duration, or not over 0.
    """
    seconds = 0.0
    match = _DURATION.fullmatch(text)
    if match is not None:
        seconds = float(match[1]) * SECONDS_BY_UNIT[match[2] or "s"]
    if not 0 < seconds < math.inf:
        raise ValueError(f"{text!r}: expected a duration over 0, such as 30s, 5m, 1h or 500ms")
    return seconds


def parse_window(text: str) -> Last | Seconds:
    """Return the window of the last n results, such as 200, or of the last seconds, such as 5m.

    Raises:
        ValueError: it is neither a number over 0 nor a duration with a unit.
    """
    # Python refuses to read numbers of thousands of digits.
    with suppress(ValueError):
        is_number = text.isascii() and text.isdecimal()
        if is_number and int(text) > 0:
            return Last(int(text))
        has_unit = text[-1:].isalpha()
        if has_unit:
            return Seconds(parse_duration(text))
    raise ValueError(
        f"{text!r}: expected a number, such as 200, or a duration with a unit, such as 5m"
    )


def duration_name(seconds: float) -> str:
    """Return a duration as `parse_duration` reads it, in the largest unit that gives a whole
    number: "5m" for 300.
    """
    for unit, size in reversed(SECONDS_BY_UNIT.items()):
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:.0f}{unit}"
    return f"{seconds:g}s"


def window_facts(window: Last | Seconds) -> dict[str, float]:
    """Return a window as JSON has it: its number of results, or its seconds."""
    if isinstance(window, Last):
        return {"last": window.count}
    return {"seconds": window.seconds}
