"""Durations: text such as 5m, and the seconds that it stands for."""

from __future__ import annotations

import math
import re

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


def duration_name(seconds: float) -> str:
    """Return a duration as `parse_duration` reads it, in the largest unit that gives a whole
    number: "5m" for 300.
    """
    for unit, size in reversed(SECONDS_BY_UNIT.items()):
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:.0f}{unit}"
    return f"{seconds:g}s"
