"""Charts of scores as paths of SVG, which templates draw."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from graphrag_eval_async.reports.timeline import Timeline

SPARK_WIDTH = 96
SPARK_HEIGHT = 20

CHART_WIDTH = 400
CHART_HEIGHT = 140
"""Size of a chart in the units of its paths, which are about CSS pixels."""

LEFT = 30
RIGHT = 392
TOP = 16
BOTTOM = 116
"""Edges of the area in which lines are drawn; labels stand outside."""

MAX_TICKS = 5
"""Maximum number of labels on an axis of time."""

TICK_SECONDS = (
    *(1, 2, 5, 10, 15, 30),
    *(60 * minutes for minutes in (1, 2, 5, 10, 15, 30)),
    *(3600 * hours for hours in (1, 2, 3, 6, 12)),
    *(86400 * days for days in (1, 2, 7, 14, 28, 56, 112, 364)),
)
"""Distances between labels on an axis of time that a person finds round."""

GAP_SPACINGS = 8
"""A time without results is a gap if it is so many times as long as the usual one: chosen so that
results which arrive at random are rarely interrupted."""

GAP_SHARE = 1 / 20
"""Least share of the axis that a gap takes. A shorter one could not be seen."""


@dataclass(frozen=True, slots=True)
class Label:
    """A text at a place of an axis."""

    place: float
    text: str


@dataclass(frozen=True, slots=True)
class ChangeMark:
    """A change that a chart marks: its name, and when it was, in seconds since 1970."""

    name: str
    moment: float


@dataclass(frozen=True, slots=True)
class Gap:
    """A time without results, from one place on the axis of time to another."""

    left: float
    right: float
    text: str

    @property
    def width(self) -> float:
        """The width in units of the chart."""
        return self.right - self.left


@dataclass(frozen=True, slots=True)
class TimeChart:
    """A chart of a score from 0 to 1 over time.

    Attributes:
        recent: path of the mean of recent results.
        so_far: path of the mean of all results so far.
        last: place of the latest recent mean.
        gaps: times without results, in which both paths are interrupted.
        ticks: labels of the axis of time.
        change: the label at which the score changed; None if it did not, or nobody knows when.
        text: what the chart shows, for people who do not see it.
    """

    recent: str
    so_far: str
    last: tuple[float, float]
    gaps: Sequence[Gap]
    ticks: Sequence[Label]
    change: Label | None
    text: str


def sparkline(values: Sequence[float | None]) -> str:
    """Return the path of values from 0 to 1, the latest on the right.

    All sparklines have the same axis, so that they can be compared. The path is empty if there are
    fewer than two values.
    """
    if sum(value is not None for value in values) < 2:
        return ""
    last_place = len(values) - 1
    points = []
    for place, value in enumerate(values):
        x = place / last_place * SPARK_WIDTH
        points.append((x, None if value is None else _height(value, 1, SPARK_HEIGHT - 1)))
    return _path(points)


def time_chart(
    timeline: Timeline,
    score: str,
    *,
    recent: float | None,
    until: float | None = None,
    change: ChangeMark | None = None,
) -> TimeChart | None:
    """Return the chart of a score, or of the error rate.

    Args:
        timeline: how the scores of the run moved.
        score: its name.
        recent: the recent mean that is shown beside the chart, where the line ends.
        until: where the axis of time ends, in seconds since 1970, if later than the latest result.
        change: when the score of all results or of a template changed; None if it did not.

    Returns:
        None if the score has had no two different means in this run: a level line says nothing.
    """
    spans = timeline.spans
    recent_means = timeline.recent_means(score)
    means_so_far = timeline.means_so_far(score)
    if recent is not None and recent_means:
        recent_means[-1] = recent
    different = {round(mean, 3) for mean in (*recent_means, *means_so_far) if mean is not None}
    if len(different) < 2 or len(spans) < 2:
        return None

    axis = TimeAxis(spans[0].start, max(spans[-1].end, until or 0.0))
    silences = _silences(timeline, axis)
    # The mean of a span is that at its end.
    places = [axis.place(span.end) for span in spans]
    ends_of_silences = {silence.end for silence in silences}
    after_gap = [span.start in ends_of_silences for span in spans]
    gaps = [_gap(axis, silence) for silence in silences]

    label = None
    if change is not None and axis.start <= change.moment <= axis.end:
        text = f"{change.name} since {axis.time_text(change.moment)}"
        label = Label(axis.place(change.moment), text)
    return TimeChart(
        recent=_interrupted_path(places, recent_means, after_gap),
        so_far=_interrupted_path(places, means_so_far, after_gap),
        last=_last_point(places, recent_means),
        gaps=gaps,
        ticks=axis.ticks(),
        change=label,
        text=_chart_in_words(score, recent_means, axis, gaps),
    )


@dataclass(frozen=True, slots=True)
class TimeAxis:
    """The axis of time of a chart, from `start` to `end` in seconds since 1970."""

    start: float
    end: float

    def place(self, moment: float) -> float:
        """Return the place of a moment, in units of the chart."""
        length = max(self.end - self.start, 1e-9)
        return LEFT + (moment - self.start) / length * (RIGHT - LEFT)

    def ticks(self) -> list[Label]:
        """Return labels at round times, at most `MAX_TICKS`."""
        length = self.end - self.start
        step = next(
            (seconds for seconds in TICK_SECONDS if length / seconds <= MAX_TICKS - 1),
            TICK_SECONDS[-1],
        )
        moment = -(-self.start // step) * step
        labels: list[Label] = []
        while moment <= self.end and len(labels) < MAX_TICKS:
            labels.append(Label(self.place(moment), self._tick_text(moment, step)))
            moment += step
        return labels

    def time_text(self, moment: float) -> str:
        """Return the time of a moment in UTC; with the date if the axis spans several days."""
        when = datetime.fromtimestamp(moment, UTC)
        if self.end - self.start < 120:
            return f"{when:%H:%M:%S}"
        first_day = datetime.fromtimestamp(self.start, UTC).date()
        last_day = datetime.fromtimestamp(self.end, UTC).date()
        return f"{when:%H:%M}" if first_day == last_day else f"{when:%d %b %H:%M}"

    def _tick_text(self, moment: float, step: float) -> str:
        """Return the label of a tick; `step` is the distance of ticks in seconds."""
        when = datetime.fromtimestamp(moment, UTC)
        if step < 60:
            return f"{when:%H:%M:%S}"
        is_midnight = moment % 86400 == 0
        return f"{when:%d %b}" if is_midnight else f"{when:%H:%M}"


@dataclass(frozen=True, slots=True)
class Silence:
    """A time without results, from `start` to `end` in seconds since 1970."""

    start: float
    end: float


def _silences(timeline: Timeline, axis: TimeAxis) -> list[Silence]:
    """Return the times without results that are long enough to be shown as gaps."""
    silences = [Silence(before.end, after.start) for before, after in pairwise(timeline.spans)]
    usual = median(silence.end - silence.start for silence in silences)
    least = max(GAP_SPACINGS * usual, GAP_SHARE * (axis.end - axis.start))
    silences.append(Silence(timeline.spans[-1].end, axis.end))
    return [silence for silence in silences if silence.end - silence.start >= least]


def _gap(axis: TimeAxis, silence: Silence) -> Gap:
    """Return the gap that shows a time without results."""
    text = f"no results from {axis.time_text(silence.start)} to {axis.time_text(silence.end)}"
    return Gap(axis.place(silence.start), axis.place(silence.end), text)


def _interrupted_path(
    places: Sequence[float], means: Sequence[float | None], after_gap: Sequence[bool]
) -> str:
    """Return the path of means from 0 to 1, which begins anew after each gap."""
    points: list[tuple[float, float | None]] = []
    for place, mean, is_after_gap in zip(places, means, after_gap, strict=True):
        if is_after_gap:
            points.append((place, None))
        points.append((place, None if mean is None else _height(mean, TOP, BOTTOM)))
    return _path(points)


def _last_point(places: Sequence[float], means: Sequence[float | None]) -> tuple[float, float]:
    """Return the place of the latest mean, of which there is at least one."""
    points = [(place, mean) for place, mean in zip(places, means, strict=True) if mean is not None]
    place, mean = points[-1]
    return place, _height(mean, TOP, BOTTOM)


def _height(value: float, top: float, bottom: float) -> float:
    """Return where a value stands on an axis from 0 at the `bottom` to 1 at the `top`."""
    share = min(1.0, max(0.0, value))
    return bottom - share * (bottom - top)


def _path(points: Iterable[tuple[float, float | None]]) -> str:
    """Return a path through points; one without a height interrupts it."""
    commands = []
    is_drawing = False
    for x, y in points:
        if y is None:
            is_drawing = False
        elif is_drawing:
            commands.append(f"L{x:.4g} {y:.4g}")
        else:
            # Without a line, which may have no length, a point by itself would not be drawn.
            commands.append(f"M{x:.4g} {y:.4g}h0")
            is_drawing = True
    return "".join(commands)


def _chart_in_words(
    score: str, means: Sequence[float | None], axis: TimeAxis, gaps: Sequence[Gap]
) -> str:
    """Return what a chart shows, for people who do not see it."""
    present = [mean for mean in means if mean is not None]
    begin = axis.time_text(axis.start)
    end = axis.time_text(axis.end)
    text = (
        f"{score}, recent mean from {begin} to {end} UTC: {present[0]:.2f} at first, "
        f"lowest {min(present):.2f}, highest {max(present):.2f}, now {present[-1]:.2f}"
    )
    if gaps:
        text += f"; {'; '.join(gap.text for gap in gaps)}"
    return text
