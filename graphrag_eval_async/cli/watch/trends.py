"""How the means of windows went, and bars that show it."""

from __future__ import annotations

from collections import defaultdict, deque
from functools import partial
from math import fsum
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.aggregates import Last

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Mapping, Sequence

    from graphrag_eval_async.aggregates import Seconds

BARS = "▁▂▃▄▅▆▇█"
ASCII_BARS = "_.-:=+*#"
"""Where the encoding has no others."""

POINTS_PER_WINDOW = 8
POINTS = 64


class Trends:
    """The past of every value of a window: a point for each eighth of one, over the last eight."""

    def __init__(self, window: Last | Seconds) -> None:
        self._window = window
        self._points: dict[Hashable, deque[float | None]] = defaultdict(partial(deque, maxlen=POINTS))
        self._due = 0.0

    def add_to(self, facts: Mapping[str, Any]) -> None:
        """Give each value in `facts` its `trend`, from the oldest to the present one."""
        if isinstance(self._window, Last):
            now, step = facts["overall"]["samples"]["total"], self._window.count / POINTS_PER_WINDOW
        else:
            now, step = facts["elapsed_sec"], self._window.seconds / POINTS_PER_WINDOW
        is_due = now >= self._due
        if is_due:
            self._due = now + step
        for key, value in _values(facts):
            points = self._points[key]
            if is_due:
                points.append(value["window"])
            value["trend"] = [*points] if is_due else [*points, value["window"]]


def _values(facts: Mapping[str, Any]) -> Iterator[tuple[Hashable, dict[str, Any]]]:
    for template, group in [(None, facts["overall"]), *facts["templates"].items()]:
        for name in ("samples", "errors", "cost"):
            if name in group:
                yield (template, name), group[name]
        for metric, value in group["metrics"].items():
            yield (template, "metrics", metric), value


def sparkline(points: Sequence[float | None], width: int, *, bars: str = BARS) -> str:
    """Points as bars from the lowest to the highest of them, at most `width`, the latest on the right.

    Where there are more points, a bar stands for several; gaps are blank, and equal points half as high.
    """
    width = min(width, len(points))
    means = [_mean(points[len(points) * i // width : len(points) * (i + 1) // width]) for i in range(width)]
    known = [value for value in means if value is not None]
    if not known:
        return " " * width
    low, high = min(known), max(known)
    # Halves, since the difference of two doubles may be none.
    span = high / 2 - low / 2
    return "".join(
        " " if value is None
        else bars[len(bars) // 2 - 1] if not span
        else bars[round((value / 2 - low / 2) / span * (len(bars) - 1))]
        for value in means
    )  # fmt: skip


def _mean(points: Sequence[float | None]) -> float | None:
    known = [value for value in points if value is not None]
    return fsum(value / len(known) for value in known) if known else None
