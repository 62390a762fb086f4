"""Parses windows of recent results, and records the trends of their means."""

from __future__ import annotations

import math
import re
from collections import defaultdict, deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.aggregates import Last, Seconds

if TYPE_CHECKING:
    from collections.abc import Mapping

POINTS_PER_WINDOW = 8
POINTS = 64

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


class Trends:
    """The history of each value of a window: a point per eighth of a window, over eight windows."""

    def __init__(self, window: Last | Seconds) -> None:
        self._size = window.count if isinstance(window, Last) else window.seconds
        self._counts = isinstance(window, Last)
        self._points: defaultdict[Any, deque[float | None]] = defaultdict(
            lambda: deque(maxlen=POINTS)
        )
        self._due = 0.0

    def add_to(self, facts: Mapping[str, Any]) -> None:
        """Give each value in `facts` its `trend`, from the oldest to the present one."""
        now = facts["overall"]["samples"]["total"] if self._counts else facts["elapsed_sec"]
        if is_due := now >= self._due:
            self._due = now + self._size / POINTS_PER_WINDOW
        for template, group in [(None, facts["overall"]), *facts["templates"].items()]:
            totals = {name: group[name] for name in ("samples", "errors", "cost") if name in group}
            metrics = {("metric", name): value for name, value in group["metrics"].items()}
            for key, value in (*totals.items(), *metrics.items()):
                points = self._points[template, key]
                if is_due:
                    points.append(value["window"])
                value["trend"] = [*points] if is_due else [*points, value["window"]]
