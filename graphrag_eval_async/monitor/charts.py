"""Lines of values as SVG, drawn so that a strict content security policy allows them."""

from __future__ import annotations

from datetime import UTC, datetime
from math import ceil, floor, log10
from typing import TYPE_CHECKING, Any, NamedTuple

from graphrag_eval_async.inference.confidence import confidence_sequence
from graphrag_eval_async.records.metrics import BOUNDED_METRICS, ERROR_RATE, is_score, own_interval

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from markupsafe import Markup

    from graphrag_eval_async.monitor.history import Course

SPARK_WIDTH, SPARK_HEIGHT = 96, 20
CHART_WIDTH, CHART_HEIGHT = 320, 90
LEAST_SPAN = 0.2
"""The least height of a sparkline, so that noise of a few hundredths looks flat."""

LEAST_RANGE = 0.1
"""The least height of a chart."""


def sparkline(points: Sequence[float | None]) -> Markup | str:
    """The recent values of a metric, the latest on the right; nothing if there are less than two."""
    from markupsafe import Markup

    known = [value for value in points if value is not None]
    if len(known) < 2:
        return ""
    low, high = min(known), max(known)
    span = max(high - low, LEAST_SPAN if high <= 1 else abs(high) * LEAST_SPAN)
    low = (low + high - span) / 2
    places = [i / (len(points) - 1) * SPARK_WIDTH for i in range(len(points))]
    line = _Axes(places, low, low + span, SPARK_HEIGHT).line(points)
    return Markup('<svg class="spark" viewBox="0 0 {} {}" aria-hidden="true"><path d="{}"/></svg>').format(
        SPARK_WIDTH, SPARK_HEIGHT, line
    )


def charts_of(course: Course, overall: Mapping[str, Any], level: float) -> dict[str, Markup | str]:
    """A chart of each score of all results; `overall` is their state."""
    if len(course.points) < 3:
        return {}
    names = [ERROR_RATE, *filter(is_score, overall["metrics"])]
    metrics = overall["metrics"]
    shown = {name: own_interval(metrics[name], "confidence") if name in metrics else None for name in names}
    return {name: drawn for name, ends in shown.items() if (drawn := _chart(name, course, ends, level))}


def _chart(name: str, course: Course, final: Mapping[str, float] | None, level: float) -> Markup | str:
    """The mean of a score since the start of the run, with intervals unless `final` is None; recent means."""
    from markupsafe import Markup

    means, recents = course.means(name), course.recents(name, course.recent)
    counts = [point[0] for point in course.points[1:]]
    known = [(count, mean) for count, mean in zip(counts, means, strict=True) if mean is not None]
    if len(known) < 2:
        return ""
    ends = [
        None if final is None or weights is None else confidence_sequence(weights, level=level)
        for weights in (mark.weights.get(name) for mark in course.marks)
    ]
    # An interval of few values would leave no room for the lines.
    low, high = _range([*means, *recents], bounded=name == ERROR_RATE or name in BOUNDED_METRICS)
    axes = _Axes([n / counts[-1] * CHART_WIDTH for n in counts], low, high, CHART_HEIGHT)
    first, last = known[0], known[-1]
    return Markup(
        '<div class="chart"><svg viewBox="0 0 {w} {h}" preserveAspectRatio="none" role="img" '
        'aria-label="{name}: mean {first:.3g} of the first {begin:.0f} results, {last:.3g} of all {end:.0f}">'
        '<path class="grid" d="M0 .5H{w}M0 {middle}H{w}M0 {bottom}H{w}"/>'
        '<path class="band" d="{band}"/><path class="mean" d="{means}"/><path class="recent" d="{recents}"/>'
        '</svg><span class="top">{high:.3g}</span><span class="bottom">{low:.3g}</span></div>'
        '<p class="axis">{ticks}</p>'
    ).format(
        w=CHART_WIDTH,
        h=CHART_HEIGHT,
        name=name,
        first=first[1],
        begin=first[0],
        last=last[1],
        end=last[0],
        middle=CHART_HEIGHT // 2,
        bottom=CHART_HEIGHT - 0.5,
        band=axes.band(ends),
        means=axes.line(means),
        recents=axes.line(recents),
        high=high,
        low=low,
        ticks=Markup("").join(Markup("<span>{}</span>").format(tick) for tick in _ticks(course)),
    )


def _ticks(course: Course) -> Iterator[str]:
    """The number of results at the first point, in the middle and at the end, with their times."""
    places = sorted({0, len(course.marks) // 2, len(course.marks) - 1})
    times = [mark.time for mark in course.marks]
    days = {datetime.fromtimestamp(time, UTC).date() for time in times if time is not None}
    for place in places:
        time = times[place]
        form = "%H:%M" if len(days) < 2 else "%d %b %H:%M"
        when = "restored" if time is None else f"{datetime.fromtimestamp(time, UTC):{form}}"
        yield f"{course.points[place + 1][0]:.0f}: {when}"


def _range(values: Sequence[float | None], *, bounded: bool) -> tuple[float, float]:
    """Round ends of an axis for values, at least one of which is known; from 0 to 1 at most if `bounded`."""
    known = [value for value in values if value is not None]
    low, high = min(known), max(known)
    middle, span = (low + high) / 2, max(high - low, LEAST_RANGE)
    step = 10.0 ** floor(log10(span)) / 2
    low, high = floor((middle - span / 2) / step) * step, ceil((middle + span / 2) / step) * step
    return (max(0.0, low), min(1.0, high)) if bounded else (low, high)


class _Axes(NamedTuple):
    """Where points are drawn, from left to right, and which values are at the bottom and at the top."""

    places: Sequence[float]
    low: float
    high: float
    height: int

    def line(self, values: Sequence[float | None]) -> str:
        """The path through values; gaps interrupt it."""
        path, is_down = [], False
        for x, value in zip(self.places, values, strict=True):
            if value is not None:
                path.append(f"{'L' if is_down else 'M'}{x:.0f} {self._y(value)}")
            is_down = value is not None
        return "".join(path)

    def band(self, ends: Sequence[tuple[float, float] | None]) -> str:
        """The area between ends, where they are known."""
        known = [(x, each) for x, each in zip(self.places, ends, strict=True) if each is not None]
        if len(known) < 2:
            return ""
        above = [f"{x:.0f} {self._y(end)}" for x, (_, end) in known]
        below = [f"{x:.0f} {self._y(end)}" for x, (end, _) in known]
        return f"M{'L'.join([*above, *reversed(below)])}Z"

    def _y(self, value: float) -> str:
        share = min(1.0, max(0.0, (value - self.low) / (self.high - self.low)))
        return f"{1 + (1 - share) * (self.height - 2):.0f}"
