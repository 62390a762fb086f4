"""Lines of values, as paths of SVG that templates draw."""

from __future__ import annotations

from datetime import UTC, datetime
from math import ceil, floor, log10
from typing import TYPE_CHECKING, Any, NamedTuple

from graphrag_eval_async.catalogue.metrics import BOUNDED_METRICS, ERROR_RATE, is_score
from graphrag_eval_async.inference.confidence import confidence_sequence
from graphrag_eval_async.records.snapshots import interval_of_mean

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphrag_eval_async.reports.history import Course

SPARK_WIDTH, SPARK_HEIGHT = 96, 20
CHART_WIDTH, CHART_HEIGHT = 320, 90
LEAST_SPAN, LEAST_RANGE = 0.2, 0.1
"""The least height of a sparkline, so that noise of a few hundredths looks flat; and that of a
chart.
"""
WIDEST, MOST_TIMES = 0.5, 2
"""The widest interval that a chart shades, and how many times as wide as the latest it may be."""


class Chart(NamedTuple):
    """The paths of the mean so far, of its interval and of recent means; `first` and `last` are
    points.
    """

    first: tuple[int, float]
    last: tuple[int, float]
    band: str
    means: str
    recents: str
    low: float
    high: float
    ticks: Sequence[str]


def sparkline(values: Sequence[float | None]) -> str:
    """The path of recent values, the latest on the right; empty if there are fewer than two."""
    known = [value for value in values if value is not None]
    if len(known) < 2:
        return ""
    span = max(max(known) - min(known), LEAST_SPAN * max(1.0, abs(max(known))))
    low = (min(known) + max(known) - span) / 2
    places = [i / (len(values) - 1) * SPARK_WIDTH for i in range(len(values))]
    return _line(places, values, low, low + span, SPARK_HEIGHT)


def charts_of(course: Course, overall: Mapping[str, Any], level: float) -> dict[str, Chart]:
    """A chart of each score of all results with two known means; `overall` is their state."""
    if len(course.points) < 3:
        return {}
    metrics = overall["metrics"]
    names = [ERROR_RATE, *filter(is_score, metrics)]
    charts = {
        name: _chart(
            name,
            course,
            level,
            banded=name in metrics and interval_of_mean(metrics[name], "confidence"),
        )
        for name in names
    }
    return {name: chart for name, chart in charts.items() if chart is not None}


def _chart(name: str, course: Course, level: float, *, banded: object) -> Chart | None:
    points, means = course.points[1:], course.means(name)
    recents = course.recents(name, course.recent)
    known = [
        (point.results, mean) for point, mean in zip(points, means, strict=True) if mean is not None
    ]
    if len(known) < 2:
        return None
    places = [point.results / course.results * CHART_WIDTH for point in points]
    ends = [
        (place, *confidence_sequence(point.weights[name], level=level))
        for place, point in zip(places, points, strict=True)
        if banded and name in point.weights
    ]
    # Wider intervals, such as those of the first results, would leave no room for the lines.
    widest = min(WIDEST, MOST_TIMES * (ends[-1][2] - ends[-1][1])) if ends else 0.0
    ends = [each for each in ends if each[2] - each[1] <= widest]
    shown = [*means, *recents, *(end for each in ends for end in each[1:])]
    axis = (*_range(shown, bounded=name == ERROR_RATE or name in BOUNDED_METRICS), CHART_HEIGHT)
    band = ""
    if len(ends) > 1:
        above = _line([place for place, _, _ in ends], [high for _, _, high in ends], *axis)
        below = _line(
            [place for place, _, _ in ends[::-1]], [low for _, low, _ in ends[::-1]], *axis
        )
        band = f"{above}L{below[1:]}Z"
    lines = _line(places, means, *axis), _line(places, recents, *axis)
    return Chart(known[0], known[-1], band, *lines, axis[0], axis[1], _ticks(course))


def _ticks(course: Course) -> list[str]:
    """The number of results at the first point, in the middle and at the end, with their times."""
    points = course.points[1:]
    days = {
        datetime.fromtimestamp(point.time, UTC).date() for point in points if point.time is not None
    }
    form = "%H:%M" if len(days) < 2 else "%d %b %H:%M"
    return [
        (
            f"{results}: "
            f"{'restored' if when is None else f'{datetime.fromtimestamp(when, UTC):{form}}'}"
        )
        for results, _, when, _ in (
            points[i] for i in sorted({0, len(points) // 2, len(points) - 1})
        )
    ]


def _range(values: Sequence[float | None], *, bounded: bool) -> tuple[float, float]:
    """Round ends of an axis for values, at least one of which is known; from 0 to 1 at most if
    `bounded`.
    """
    known = [value for value in values if value is not None]
    low, high = min(known), max(known)
    middle, span = (low + high) / 2, max(high - low, LEAST_RANGE)
    step = 10.0 ** floor(log10(span)) / 2
    low, high = floor((middle - span / 2) / step) * step, ceil((middle + span / 2) / step) * step
    return (max(0.0, low), min(1.0, high)) if bounded else (low, high)


def _line(
    places: Sequence[float], values: Sequence[float | None], low: float, high: float, height: int
) -> str:
    """The path through values on an axis from `low` to `high`; gaps interrupt it."""
    path, is_down = [], False
    for x, value in zip(places, values, strict=True):
        if value is not None:
            share = min(1.0, max(0.0, (value - low) / (high - low)))
            path.append(f"{'L' if is_down else 'M'}{x:.0f} {1 + (1 - share) * (height - 2):.0f}")
        is_down = value is not None
    return "".join(path)
