"""Durations and windows, as options name them."""

from __future__ import annotations

import math
import re

from graphrag_eval_async.aggregates import Last, Seconds

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)?", re.ASCII)
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def parse_duration(text: str) -> float:
    """A duration in seconds, more than 0: such as 30, 30s, 5m, 1.5h or 500ms.

    Raises:
        ValueError: it is something else.
    """
    match = _DURATION.fullmatch(text)
    seconds = float(match[1]) * _SECONDS[match[2] or "s"] if match else 0.0
    if not 0 < seconds < math.inf:
        raise ValueError(f"{text!r}: expected a duration over 0, such as 30s, 5m, 1h or 500ms")
    return seconds


def parse_window(text: str) -> Last | Seconds:
    """The last so many, such as 200, or those of the last so long, such as 5m.

    Raises:
        ValueError: it is neither.
    """
    try:
        if text.isascii() and text.isdecimal():
            return Last(_positive(int(text)))
        if text[-1:].isalpha():
            return Seconds(parse_duration(text))
    except ValueError:
        pass
    raise ValueError(f"{text!r}: expected a number, such as 200, or a duration with a unit, such as 5m")


def duration_name(seconds: float) -> str:
    """A duration as `parse_duration` reads it, in the largest unit that it is a whole number of."""
    for unit, size in reversed(_SECONDS.items()):
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:.0f}{unit}"
    return f"{seconds:g}s"


def window_facts(window: Last | Seconds) -> dict[str, float]:
    """A window as JSON has it."""
    return {"last": window.count} if isinstance(window, Last) else {"seconds": window.seconds}


def _positive(number: int) -> int:
    if number < 1:
        raise ValueError(number)
    return number
