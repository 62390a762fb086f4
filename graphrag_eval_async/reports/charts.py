"""Charts of scores as paths of SVG, which templates draw."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from math import floor, isfinite, log10
from statistics import median
from typing import TYPE_CHECKING

from graphrag_eval_async.catalogue.metrics import ERROR_RATE

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

SECONDS_OF_PRECISE_AXIS = 120
"""On a shorter axis of time, times are given to the second; chosen."""

MAX_TICKS = 5
"""Maximum number of labels on an axis of time."""

SECONDS_OF_DAY = 86400

TICK_SECONDS = (
    *(1, 2, 5, 10, 15, 30),
    *(60 * minutes for minutes in (1, 2, 5, 10, 15, 30)),
    *(3600 * hours for hours in (1, 2, 3, 6, 12)),
    *(SECONDS_OF_DAY * days for days in (1, 2, 7, 14, 28, 56, 112, 364)),
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
class ValueAxis:
    """The axis of the values of a chart, from `low` at the bottom to `high` at the top."""

    low: float = 0.0
    high: float = 1.0
    is_in_percent: bool = False

    def height(self, value: float, top: float, bottom: float) -> float:
        """Return where a value stands, given the places of the top and the bottom."""
        share = (value - self.low) / (self.high - self.low)
        share = min(1.0, max(0.0, share))
        return bottom - share * (bottom - top)

    def labels(self) -> list[Label]:
        """Return the labels of the axis: at the top, in the middle and at the bottom."""
        places = {self.high: TOP, (self.low + self.high) / 2: (TOP + BOTTOM) / 2, self.low: BOTTOM}
        return [Label(place, self._text(value)) for value, place in places.items()]

    def _text(self, value: float) -> str:
        """Return a value in a few characters, such as "0.5", "50%" or "20k"."""
        if self.is_in_percent:
            return f"{value:.0%}"
        for size, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
            if size <= abs(value) < 1000 * size:
                return f"{value / size:.3g}{suffix}"
        return f"{value:.3g}"


def fitting_axis(values: Iterable[float | None]) -> ValueAxis | None:
    """Return an axis from 0 to 1 or, if values are outside, one with round ends that holds them.

    Returns:
        None if the values are so large that their distance is no finite number.
    """
    present = [value for value in values if value is not None]
    lowest = min(present, default=0.0)
    highest = max(present, default=1.0)
    if lowest >= 0 and highest <= 1:
        return ValueAxis()
    # A level line, such as that of a single value, has room, too.
    length = max(highest - lowest, abs(highest) / 100)
    if not isfinite(10 * length):
        return None
    power = 10.0 ** floor(log10(length / 2))
    for factor in (1, 2, 2.5, 5, 10, 20):
        step = factor * power
        low = floor(lowest / step) * step
        if low + 2 * step >= highest:
            return ValueAxis(low, low + 2 * step)
    return ValueAxis(lowest, highest)


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
    """A chart of a score over time.

    Attributes:
        recent: path of the mean of recent results.
        so_far: path of the mean of all results so far.
        last: place of the latest recent mean.
        gaps: times without results, in which both paths are interrupted.
        ticks: labels of the axis of time.
        values: labels of the axis of values.
        change: the label at which the score changed; None if it did not, or nobody knows when.
        text: what the chart shows, for people who do not see it.
    """

    recent: str
    so_far: str
    last: tuple[float, float]
    gaps: Sequence[Gap]
    ticks: Sequence[Label]
    values: Sequence[Label]
    change: Label | None
    text: str


def sparkline(values: Sequence[float | None]) -> str:
    """Return the path of values, the latest on the right.

    All sparklines of values from 0 to 1 have the same axis, so that they can be compared. None
    interrupts the path. The path is empty if there are fewer than two values.
    """
    number_of_values = sum(value is not None for value in values)
    axis = fitting_axis(values)
    if axis is None or number_of_values < 2:
        return ""
    last_index = len(values) - 1
    points: list[tuple[float, float | None]] = []
    for index, value in enumerate(values):
        x = index / last_index * SPARK_WIDTH
        y = None
        if value is not None:
            # The line is not cut off at the top and the bottom: a unit stays free for its width.
            y = axis.height(value, 1, SPARK_HEIGHT - 1)
        points.append((x, y))
    return _path(points)


def time_chart(
    timeline: Timeline,
    score: str,
    *,
    recent: float | None,
    until: float | None = None,
    change: ChangeMark | None = None,
) -> TimeChart | None:
    """Return the chart of a score, or of the error rate, over time.

    Args:
        timeline: how the scores of the run moved.
        score: the name of the score, or `ERROR_RATE`.
        recent: the recent mean that is shown beside the chart, where the line ends; None if there
            is none.
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
    # Means that are equal in the three digits that pages show do not differ.
    different_means = {
        round(mean, 3) for mean in (*recent_means, *means_so_far) if mean is not None
    }
    values = fitting_axis([*recent_means, *means_so_far])
    if len(different_means) < 2 or len(spans) < 2 or values is None:
        return None
    if score == ERROR_RATE:
        values = ValueAxis(is_in_percent=True)

    axis_end = spans[-1].end
    if until is not None:
        axis_end = max(axis_end, until)
    axis = TimeAxis(spans[0].start, axis_end)

    # A mean stands where its span ends.
    places = [axis.place(span.end) for span in spans]
    silences = _silences(timeline, axis)
    gaps = [_gap(axis, silence) for silence in silences]
    ends_of_silences = {silence.end for silence in silences}
    after_gap = [span.start in ends_of_silences for span in spans]

    return TimeChart(
        recent=_interrupted_path(places, recent_means, after_gap, values),
        so_far=_interrupted_path(places, means_so_far, after_gap, values),
        last=_last_point(places, recent_means, values),
        gaps=gaps,
        ticks=axis.ticks(),
        values=values.labels(),
        change=None if change is None else _label_of_change(axis, change),
        text=_chart_in_words(score, recent_means, axis, gaps),
    )


@dataclass(frozen=True, slots=True)
class TimeAxis:
    """The axis of time of a chart, from `start` to `end` in seconds since 1970."""

    start: float
    end: float

    def place(self, moment: float) -> float:
        """Return the x coordinate of a moment, in units of the chart."""
        # The axis of results that all came at once has no length.
        length = max(self.end - self.start, 1e-9)
        return LEFT + (moment - self.start) / length * (RIGHT - LEFT)

    def ticks(self) -> list[Label]:
        """Return labels at round times, at most `MAX_TICKS`."""
        step = _tick_step(self.end - self.start)
        # The first multiple of the step on the axis: the quotient is rounded up.
        moment = -(-self.start // step) * step
        labels: list[Label] = []
        while moment <= self.end and len(labels) < MAX_TICKS:
            labels.append(Label(self.place(moment), self._tick_text(moment, step)))
            moment += step
        return labels

    def time_text(self, moment: float) -> str:
        """Return the time of a moment in UTC, as precise as the axis is.

        It has seconds on an axis of less than `SECONDS_OF_PRECISE_AXIS`. On a longer one it has the
        date, if the axis does not begin and end on the same day.
        """
        when = datetime.fromtimestamp(moment, UTC)
        if self.end - self.start < SECONDS_OF_PRECISE_AXIS:
            return f"{when:%H:%M:%S}"
        first_day = datetime.fromtimestamp(self.start, UTC).date()
        last_day = datetime.fromtimestamp(self.end, UTC).date()
        if first_day == last_day:
            return f"{when:%H:%M}"
        return f"{when:%d %b %H:%M}"

    def _tick_text(self, moment: float, step: float) -> str:
        """Return the label of a tick: its time in UTC, or its date if it is at midnight.

        Args:
            moment: the time of the tick, in seconds since 1970.
            step: the seconds between two ticks; if less than a minute, the label has seconds.
        """
        when = datetime.fromtimestamp(moment, UTC)
        if step < 60:
            return f"{when:%H:%M:%S}"
        is_midnight = moment % SECONDS_OF_DAY == 0
        if is_midnight:
            return f"{when:%d %b}"
        return f"{when:%H:%M}"


def _tick_step(length: float) -> int:
    """Return the round number of seconds between two ticks of an axis of time.

    It is the shortest one with at most `MAX_TICKS` ticks, or else the longest of all.

    Args:
        length: the length of the axis in seconds.
    """
    for seconds in TICK_SECONDS:
        if length / seconds <= MAX_TICKS - 1:
            return seconds
    return TICK_SECONDS[-1]


def _label_of_change(axis: TimeAxis, change: ChangeMark) -> Label | None:
    """Return the label of a change on an axis of time; None if it was before the axis begins."""
    is_on_axis = axis.start <= change.moment <= axis.end
    if not is_on_axis:
        return None
    text = f"{change.name} since {axis.time_text(change.moment)}"
    return Label(axis.place(change.moment), text)


@dataclass(frozen=True, slots=True)
class Silence:
    """A time without results, from `start` to `end` in seconds since 1970."""

    start: float
    end: float

    @property
    def seconds(self) -> float:
        """The length of the time."""
        return self.end - self.start


def _silences(timeline: Timeline, axis: TimeAxis) -> list[Silence]:
    """Return the times without results that are long enough to be shown as gaps."""
    silences = [Silence(before.end, after.start) for before, after in pairwise(timeline.spans)]
    usual_seconds = median(silence.seconds for silence in silences)
    least_seconds = max(GAP_SPACINGS * usual_seconds, GAP_SHARE * (axis.end - axis.start))
    # The time since the latest result does not count as usual, since it is not over.
    silences.append(Silence(timeline.spans[-1].end, axis.end))
    return [silence for silence in silences if silence.seconds >= least_seconds]


def _gap(axis: TimeAxis, silence: Silence) -> Gap:
    """Return the gap that shows a time without results."""
    text = f"no results from {axis.time_text(silence.start)} to {axis.time_text(silence.end)}"
    return Gap(axis.place(silence.start), axis.place(silence.end), text)


def _interrupted_path(
    places: Sequence[float],
    means: Sequence[float | None],
    after_gap: Sequence[bool],
    values: ValueAxis,
) -> str:
    """Return the path of means, which begins anew after each gap.

    Args:
        places: the x coordinate of each mean.
        means: the means; None interrupts the path, too.
        after_gap: for each mean, whether a gap ends before it.
        values: the axis of the means.
    """
    points: list[tuple[float, float | None]] = []
    for x, mean, is_after_gap in zip(places, means, after_gap, strict=True):
        if is_after_gap:
            points.append((x, None))
        y = None
        if mean is not None:
            y = values.height(mean, TOP, BOTTOM)
        points.append((x, y))
    return _path(points)


def _last_point(
    places: Sequence[float], means: Sequence[float | None], values: ValueAxis
) -> tuple[float, float]:
    """Return the point of the latest mean, of which there is at least one.

    Args:
        places: the x coordinate of each mean.
        means: the means; None for no mean.
        values: the axis of the means.
    """
    points = [(x, mean) for x, mean in zip(places, means, strict=True) if mean is not None]
    last_x, last_mean = points[-1]
    return last_x, values.height(last_mean, TOP, BOTTOM)


def _path(points: Iterable[tuple[float, float | None]]) -> str:
    """Return a path of SVG through points; a point whose y is None interrupts it."""
    commands = []
    is_drawing = False
    for x, y in points:
        if y is None:
            is_drawing = False
        elif is_drawing:
            commands.append(f"L{x:.4g} {y:.4g}")
        else:
            # The line `h0`, which has no length, draws a dot where a single point has no neighbour.
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
