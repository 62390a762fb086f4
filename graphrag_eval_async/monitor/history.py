"""The course of the scores of a run, recorded with each result."""

from __future__ import annotations

from array import array
from collections import defaultdict, deque
from time import time
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from graphrag_eval_async.aggregates import Last
from graphrag_eval_async.aggregates.histogram import Histogram
from graphrag_eval_async.aggregates.questions import FIRST
from graphrag_eval_async.records.metrics import ERROR_RATE, is_score

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from graphrag_eval_async.aggregates import Seconds
    from graphrag_eval_async.aggregates.histogram import Weights

POINTS, TEMPLATE_POINTS = 40, 16
"""Maximum points of the course of all results, and of a template's; both even."""

RECENT, MAX_RECENT = 200, 1000
"""How many of all results count as recent if the window is one of time; and the maximum."""

TEMPLATE_RECENT = 50
"""How many results of a template count as recent."""

PRIOR_VALUES = 10
"""How many zeros and ones are added to the values whose variance is estimated."""

MAX_TEMPLATES = 500
"""Maximum number of templates that have a course: the first ones."""

Sums: TypeAlias = "array[float]"
"""For each score in its place, the number of values so far, their sum, and that of their squares."""


class Mark(NamedTuple):
    """When a point was made, in seconds since 1970, None if earlier runs made it; and weights by score."""

    time: float | None
    weights: Mapping[str, Weights | None]


class Change(NamedTuple):
    """The mean of recent values and of those before.

    Attributes:
        counts: how many values each has.
        effective: how many zeros and ones say as much about each mean: more, if values vary less than these.
    """

    recent: float
    before: float
    counts: tuple[float, float]
    effective: tuple[float, float]


class Course(NamedTuple):
    """How scores moved until now.

    Attributes:
        places: the place of each score in `Sums`.
        points: the sums after some of the results, from none on, and after all.
        before: the sums before the recent results.
        marks: those of the points after the first.
    """

    places: Mapping[str, int]
    points: Sequence[Sums]
    before: Sums
    marks: Sequence[Mark]

    @property
    def results(self) -> int:
        return round(self.points[-1][0])

    @property
    def recent(self) -> int:
        """The number of recent results, at most half of all."""
        return self.results - round(self.before[0])

    def means(self, score: str) -> list[float | None]:
        """The mean of all values by each point after the first."""
        return [self._between(score, self.points[0], point) for point in self.points[1:]]

    def recents(self, score: str, results: int) -> list[float | None]:
        """At each point after the first, the mean of at least so many results before it, if there are."""
        start, found = 0, []
        for point in self.points[1:]:
            while self.points[start + 1][0] <= point[0] - max(1, results):
                start += 1
            found.append(self._between(score, self.points[start], point))
        return found

    def change(self, score: str) -> Change | None:
        """How recent values differ from those before; None if there are none of either."""
        before, every = self._values(score, self.before), self._values(score, self.points[-1])
        recent = every[0] - before[0], every[1] - before[1], every[2] - before[2]
        if not recent[0] or not before[0]:
            return None
        means = recent[1] / recent[0], before[1] / before[0]
        return Change(*means, (recent[0], before[0]), (_effective(*recent), _effective(*before)))

    def _between(self, score: str, start: Sums, end: Sums) -> float | None:
        (count, total, _), (first, less, _) = self._values(score, end), self._values(score, start)
        return (total - less) / (count - first) if count > first else None

    def _values(self, score: str, sums: Sums) -> tuple[float, float, float]:
        place = self.places.get(score, len(sums))
        return (sums[place], sums[place + 1], sums[place + 2]) if place < len(sums) else (0.0, 0.0, 0.0)


def _effective(count: float, total: float, squares: float) -> float:
    """The effective sample size of values from 0 to 1: that of zeros and ones with the same standard error.

    The variance is that of the values and of `PRIOR_VALUES` zeros and ones, since few values may be equal by
    chance.
    """
    mean = total / count
    most = mean * (1 - mean)  # The variance of zeros and ones.
    if most <= 0:
        return count
    variance = min(most, max(0.0, squares / count - mean * mean))
    return count * most * (count + PRIOR_VALUES) / (variance * count + most * PRIOR_VALUES)


class Courses(NamedTuple):
    """The course of all results, and those of templates."""

    overall: Course
    templates: Mapping[str, Course]


class Recorder:
    """Records a course in at most `most` points; with more, each stands for twice as many results."""

    def __init__(
        self, places: dict[str, int], most: int, recent: int, mark: Callable[[], Mark] | None = None
    ) -> None:
        self._places = places
        self._most = most
        self._step = 1
        self._now: Sums = array("d", (0.0, 0.0, 0.0))
        self._points = [self._now[:]]
        self._mark = mark
        self._marks: list[Mark] = []
        self._latest = deque(self._points, maxlen=recent + 1)

    def add(self, failed: bool, scores: Iterable[tuple[str, float]]) -> None:
        """Count one result."""
        now = self._now
        now[0] += 1
        now[1] += failed
        now[2] += failed
        for score, value in scores:
            place = self._places.setdefault(score, 3 * len(self._places))
            if place >= len(now):
                now.extend([0.0] * (place + 3 - len(now)))
            now[place] += 1
            now[place + 1] += value
            now[place + 2] += value * value
        self._latest.append(now[:])
        if not now[0] % self._step:
            self._points.append(self._latest[-1])
            if self._mark is not None:
                self._marks.append(self._mark())
            if len(self._points) > self._most:
                self._step *= 2
                del self._points[1::2], self._marks[::2]

    def course(self) -> Course:
        """The course until now, which does not change any more."""
        points, marks = [*self._points], [*self._marks]
        if points[-1][0] < self._now[0]:
            points.append(self._latest[-1])
            if self._mark is not None:
                marks.append(self._mark())
        recent = min(len(self._latest) - 1, int(self._now[0]) // 2)
        return Course(self._places, points, self._latest[-1 - recent], marks)


class History:
    """The courses of all results, and of those of each template."""

    def __init__(self, window: Last | Seconds) -> None:
        self._places = {ERROR_RATE: 0}
        self._histograms: defaultdict[str, Histogram] = defaultdict(Histogram)
        recent = min(window.count, MAX_RECENT) if isinstance(window, Last) else RECENT
        self._all = Recorder(self._places, POINTS, recent, self._mark)
        self._templates: dict[str, Recorder] = {}
        self._is_restored = False

    def add(self, short: Mapping[str, Any], *, restored: bool = False) -> None:
        """Count one result, in short; `restored` from an earlier run."""
        self._is_restored = restored
        failed = short["status"] == "error"
        scores = [(name, value) for name, value in short["metrics"].items() if is_score(name)]
        if short["sample"] in FIRST:  # Other samples are not independent of it.
            for name, value in scores:
                self._histograms[name].add((value,))
        self._all.add(failed, scores)
        template = str(short["template_id"])
        recorder = self._templates.get(template)
        if recorder is None and len(self._templates) < MAX_TEMPLATES:
            recorder = self._templates[template] = Recorder(self._places, TEMPLATE_POINTS, TEMPLATE_RECENT)
        if recorder is not None:
            recorder.add(failed, scores)

    def courses(self) -> Courses:
        """The courses until now, which do not change any more."""
        return Courses(self._all.course(), {name: each.course() for name, each in self._templates.items()})

    def _mark(self) -> Mark:
        weights = {name: each.weights() for name, each in self._histograms.items()}
        return Mark(None if self._is_restored else time(), weights)
