"""Parses windows of recent results, and says them in words."""

from __future__ import annotations

import math
import re
from contextlib import suppress

from graphrag_eval_async.aggregates import Last, Seconds

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)?", re.ASCII)
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def parse_duration(text: str) -> float:
    """A duration in seconds, over 0, from text such as 30, 30s, 5m, 1.5h or 500ms."""
    match = _DURATION.fullmatch(text)
    seconds = float(match[1]) * _SECONDS[match[2] or "s"] if match else 0.0
    if not 0 < seconds < math.inf:
        raise ValueError(f"{text!r}: expected a duration over 0, such as 30s, 5m, 1h or 500ms")
    return seconds


def parse_window(text: str) -> Last | Seconds:
    """A window of the last n results, such as 200, or of the last seconds, such as 5m."""
    with suppress(ValueError):
        if text.isascii() and text.isdecimal() and int(text):
            return Last(int(text))
        if text[-1:].isalpha():
            return Seconds(parse_duration(text))
    raise ValueError(
        f"{text!r}: expected a number, such as 200, or a duration with a unit, such as 5m"
    )


def duration_name(seconds: float) -> str:
    """A duration as `parse_duration` reads it, in the largest unit that gives a whole number."""
    for unit, size in reversed(_SECONDS.items()):
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:.0f}{unit}"
    return f"{seconds:g}s"


def window_facts(window: Last | Seconds) -> dict[str, float]:
    return {"last": window.count} if isinstance(window, Last) else {"seconds": window.seconds}
