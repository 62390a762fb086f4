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

RECENT = 200
"""How many of all results count as recent if the window is one of time."""

EVERY = 50
"""After how many results there is a start, from which on results are compared with those before."""

STARTS, TEMPLATE_STARTS = 200, 10
"""How many starts are kept of all results, and of a template: the latest."""

MAX_TEMPLATES = 500
"""Maximum number of templates that have a course: the first ones."""

Sums: TypeAlias = "array[float]"
"""For each score in its place, the number of values so far, and their sum."""


class Mark(NamedTuple):
    """When a point was made, in seconds since 1970, None if earlier runs made it; and weights by score."""

    time: float | None
    weights: Mapping[str, Weights | None]


class Start(NamedTuple):
    """Which start this is, from 1 on; the number of results before it, and the weights of their values."""

    place: int
    results: int
    weights: Mapping[str, Weights]


class Course(NamedTuple):
    """How scores moved until now.

    Attributes:
        places: the place of each score in `Sums`.
        points: the sums after some of the results, from none on, and after all.
        recent: how many of all results count as recent, at most half of them; 0 for a template.
        marks: those of the points after the first.
        starts: the latest starts.
        weights: those of all values, by score.
    """

    places: Mapping[str, int]
    points: Sequence[Sums]
    recent: int
    marks: Sequence[Mark]
    starts: Sequence[Start]
    weights: Mapping[str, Weights]

    @property
    def results(self) -> int:
        return round(self.points[-1][0])

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

    def _between(self, score: str, start: Sums, end: Sums) -> float | None:
        (count, total), (first, less) = self._values(score, end), self._values(score, start)
        return (total - less) / (count - first) if count > first else None

    def _values(self, score: str, sums: Sums) -> tuple[float, float]:
        place = self.places.get(score, len(sums))
        return (sums[place], sums[place + 1]) if place < len(sums) else (0.0, 0.0)


class Courses(NamedTuple):
    """The course of all results, and those of templates."""

    overall: Course
    templates: Mapping[str, Course]


class Recorder:
    """Records a course in at most `most` points; with more, each stands for twice as many results."""

    def __init__(
        self,
        places: dict[str, int],
        most: int,
        starts: int,
        recent: int = 0,
        mark: Callable[[], Mark] | None = None,
    ) -> None:
        self._places = places
        self._most = most
        self._recent = recent
        self._step = 1
        self._now: Sums = array("d", (0.0, 0.0))
        self._points = [self._now[:]]
        self._mark = mark
        self._marks: list[Mark] = []
        self._histograms: defaultdict[str, Histogram] = defaultdict(Histogram)
        self._starts: deque[Start] = deque(maxlen=starts)

    def add(self, failed: bool, scores: Iterable[tuple[str, float]]) -> None:
        """Count one result."""
        now = self._now
        for score, value in ((ERROR_RATE, float(failed)), *scores):
            place = self._places.setdefault(score, 2 * len(self._places))
            if place >= len(now):
                now.extend([0.0] * (place + 2 - len(now)))
            now[place] += 1
            now[place + 1] += value
            self._histograms[score].add((value,))
        results = int(now[0])
        if not results % EVERY:
            self._starts.append(Start(results // EVERY, results, self._weights()))
        if not results % self._step:
            self._points.append(now[:])
            if self._mark is not None:
                self._marks.append(self._mark())
            if len(self._points) > self._most:
                self._step *= 2
                del self._points[1::2], self._marks[::2]

    def _weights(self) -> dict[str, Weights]:
        weights = {name: each.weights() for name, each in self._histograms.items()}
        return {name: each for name, each in weights.items() if each is not None}

    def course(self) -> Course:
        """The course until now, which does not change any more."""
        points, marks = [*self._points], [*self._marks]
        if points[-1][0] < self._now[0]:
            points.append(self._now[:])
            if self._mark is not None:
                marks.append(self._mark())
        recent = min(self._recent, int(self._now[0]) // 2)
        return Course(self._places, points, recent, marks, [*self._starts], self._weights())


class History:
    """The courses of all results, and of those of each template."""

    def __init__(self, window: Last | Seconds) -> None:
        self._places = {ERROR_RATE: 0}
        self._histograms: defaultdict[str, Histogram] = defaultdict(Histogram)
        recent = window.count if isinstance(window, Last) else RECENT
        self._all = Recorder(self._places, POINTS, STARTS, recent, self._mark)
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
            recorder = self._templates[template] = Recorder(self._places, TEMPLATE_POINTS, TEMPLATE_STARTS)
        if recorder is not None:
            recorder.add(failed, scores)

    def courses(self) -> Courses:
        """The courses until now, which do not change any more."""
        return Courses(self._all.course(), {name: each.course() for name, each in self._templates.items()})

    def _mark(self) -> Mark:
        weights = {name: each.weights() for name, each in self._histograms.items()}
        return Mark(None if self._is_restored else time(), weights)
