"""The course of the scores of a run: points for charts, and checkpoints between which results are
compared.
"""

from __future__ import annotations

from functools import lru_cache
from time import time
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from graphrag_eval_async.aggregates.histogram import BINS
from graphrag_eval_async.catalogue.metrics import ERROR_RATE, RETRIEVAL_METRICS, is_score

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphrag_eval_async.aggregates.histogram import Weights
    from graphrag_eval_async.records.evaluation import Evaluation

MAX_POINTS = 40
"""Most points of the course of all results; even, since points are halved."""

MAX_TEMPLATE_POINTS = 16
"""Most points of the course of a template; even, since points are halved."""

EVERY = 50
"""Number of results between two checkpoints."""

DENSE_CHECKPOINTS = 16
"""How many of the latest checkpoints are all kept; of older ones, only some."""

MAX_TEMPLATES = 500
"""Number of templates that have a course: the first ones."""

MAX_CHECKED_TEMPLATES = 200
"""Number of templates that checkpoints tell apart: the first ones. They bound the memory."""

OTHER_TEMPLATES = None
"""In checkpoints, the key of all templates after the first `MAX_CHECKED_TEMPLATES`."""

NO_VALUES = (0, 0.0)
"""The number and the sum of no values."""


class ScoredResult(NamedTuple):
    """What the course of scores needs of a result.

    Attributes:
        scores: the names of its scores, each with its index in `numbers`.
        numbers: the values of all its metrics.
        failed: 1.0 if the agent failed, otherwise 0.0.
    """

    scores: tuple[tuple[int, str], ...]
    numbers: Sequence[float]
    failed: float


class Point(NamedTuple):
    """A point of a course.

    Attributes:
        results: number of results up to the point.
        sums: for each score, the number of its values up to the point, and their sum.
    """

    results: int
    sums: Mapping[str, tuple[int, float]]


class Course(NamedTuple):
    """How the scores of a group of results moved until now.

    Attributes:
        points: the points, from one before all results to one after them.
    """

    points: Sequence[Point]

    @property
    def results(self) -> int:
        """Number of results so far."""
        return self.points[-1].results

    def recents(self, score: str, results: int) -> list[float | None]:
        """Return the mean of recent values of a score at each point after the first one.

        The recent values of a point begin at the nearest earlier point with at least `results`
        results in between. If there is no such point, all values up to the point count.

        Args:
            score: the name of the score.
            results: the least number of recent results.
        """
        means = []
        # Later points have later starts, so the search continues where it stopped.
        start_index = 0
        for point in self.points[1:]:
            results_before_recent = point.results - max(1, results)
            while self.points[start_index + 1].results <= results_before_recent:
                start_index += 1
            means.append(_mean_between(score, self.points[start_index], point))
        return means


def _mean_between(score: str, start: Point, end: Point) -> float | None:
    """Return the mean of the values of a score between two points; None if there are none."""
    count_at_start, sum_at_start = start.sums.get(score, NO_VALUES)
    count_at_end, sum_at_end = end.sums.get(score, NO_VALUES)
    if count_at_end == count_at_start:
        return None
    return (sum_at_end - sum_at_start) / (count_at_end - count_at_start)


class ScoreValues(NamedTuple):
    """The values of a score, each from 0 to 1, in a group of results.

    Attributes:
        size: number of values.
        total: sum of the values.
        squares: sum of the squares of the values.
        weights: histogram of the values.
    """

    size: int
    total: float
    squares: float
    weights: Weights


ValuesByTemplate: TypeAlias = "Mapping[str | None, Mapping[str, ScoreValues]]"
"""For each template, or `OTHER_TEMPLATES`, the values of each score that are all from 0 to 1.

The error rate is among the scores: its value is 1 for an error, and 0 for any other result.
"""


class Checkpoint(NamedTuple):
    """The results of a run up to some number of them.

    Attributes:
        number: which checkpoint this is, from 0 on.
        results: number of results up to it.
        time: when the first result after it came, in seconds since 1970; None if there is none, or
            if an earlier run made it.
        values: the values of the scores of these results, by template.
    """

    number: int
    results: int
    time: float | None
    values: ValuesByTemplate


class Courses(NamedTuple):
    """How the scores of a run moved until now.

    Attributes:
        overall: the course of all results.
        templates: the course of each template.
        checkpoints: the checkpoints that are kept, the latest last.
    """

    overall: Course
    templates: Mapping[str, Course]
    checkpoints: Sequence[Checkpoint]


class CourseRecorder:
    """Records a course. If there are too many points, each comes to stand for twice as many
    results.
    """

    def __init__(self, max_points: int) -> None:
        """Start without results.

        Args:
            max_points: most points; an even number.
        """
        self._max_points = max_points
        # Number of results from one point to the next.
        self._step = 1
        # Results that wait to be counted: in batches, that takes far less time.
        self._waiting: list[ScoredResult] = []
        self._results = 0
        self._sums: dict[str, tuple[int, float]] = {}
        self._points = [Point(results=0, sums={})]

    def add(self, result: ScoredResult) -> None:
        """Add a result."""
        self._waiting.append(result)
        if len(self._waiting) >= EVERY:
            self._count_waiting()

    def course(self) -> Course:
        """Return the course so far, which does not change any more."""
        self._count_waiting()
        points = self._points.copy()
        if points[-1].results < self._results:
            points.append(self._point())
        return Course(points)

    def _count_waiting(self) -> None:
        """Count the results that wait, and add the points that they complete."""
        waiting = self._waiting
        self._waiting = []
        while waiting:
            batch = waiting[: self._results_to_next_point()]
            del waiting[: len(batch)]
            self._count(batch)
            if self._results % self._step == 0:
                self._points.append(self._point())
                if len(self._points) > self._max_points:
                    self._step *= 2
                    del self._points[1::2]

    def _results_to_next_point(self) -> int:
        """Return the number of results that the next point still needs."""
        return self._step - self._results % self._step

    def _count(self, batch: Sequence[ScoredResult]) -> None:
        """Count results, up to the next point at most."""
        self._results += len(batch)
        for score, values in _values_by_score(batch).items():
            count, total = self._sums.get(score, NO_VALUES)
            self._sums[score] = (count + len(values), total + sum(values))

    def _point(self) -> Point:
        """Return a point after all results that are counted."""
        return Point(results=self._results, sums=self._sums.copy())


def _values_by_score(results: Sequence[ScoredResult]) -> dict[str, list[float]]:
    """Return the values of each score in some results, among them those of the error rate."""
    values: dict[str, list[float]] = {ERROR_RATE: [result.failed for result in results]}
    for result in results:
        for index, score in result.scores:
            values.setdefault(score, []).append(result.numbers[index])
    return values


class ScoreCounter:
    """Counts values of a score."""

    __slots__ = ("_count", "_is_outside", "_squares", "_total", "_weights")

    def __init__(self) -> None:
        self._count = 0
        self._total = 0.0
        self._squares = 0.0
        self._weights = [0.0] * (BINS + 1)
        # Whether a value is not from 0 to 1, so that there is no histogram.
        self._is_outside = False

    def add(self, value: float) -> None:
        """Count a value."""
        if not 0 <= value <= 1:
            self._is_outside = True
            return
        self._count += 1
        self._total += value
        self._squares += value * value
        # The two points of the grid beside the value share its weight of 1; see `Weights`.
        place = value * BINS
        lower_point = min(int(place), BINS - 1)
        upper_share = place - lower_point
        self._weights[lower_point] += 1 - upper_share
        self._weights[lower_point + 1] += upper_share

    def values(self) -> ScoreValues | None:
        """Return the values so far, a copy; None if one of them is not from 0 to 1."""
        if self._is_outside:
            return None
        return ScoreValues(self._count, self._total, self._squares, tuple(self._weights))


class ScoreCounters:
    """Counts the values of all scores of a group of results, and its errors."""

    def __init__(self) -> None:
        self._by_score: dict[str, ScoreCounter] = {}
        # The values so far; None if results were added since they were asked for.
        self._values: dict[str, ScoreValues] | None = {}

    def add(self, result: ScoredResult) -> None:
        """Count the scores of a result, and whether it is an error."""
        self._values = None
        self._counter(ERROR_RATE).add(result.failed)
        for index, score in result.scores:
            self._counter(score).add(result.numbers[index])

    def _counter(self, score: str) -> ScoreCounter:
        """Return the counter of a score, which is new if this is its first value."""
        counter = self._by_score.get(score)
        if counter is None:
            counter = ScoreCounter()
            self._by_score[score] = counter
        return counter

    def values(self) -> Mapping[str, ScoreValues]:
        """Return the values of each score, which do not change any more.

        Scores with a value that is not from 0 to 1 are left out. Without further results, the
        return value is the same object.
        """
        if self._values is None:
            self._values = {}
            for score, counter in self._by_score.items():
                values = counter.values()
                if values is not None:
                    self._values[score] = values
        return self._values


class CheckpointRecorder:
    """Records checkpoints, `EVERY` results apart: all of late, and fewer the older they are."""

    def __init__(self) -> None:
        self._results = 0
        self._counters: dict[str | None, ScoreCounters] = {}
        # The templates with results after the latest checkpoint, in the order in which they came.
        self._changed: dict[str | None, None] = {}
        self._values: dict[str | None, Mapping[str, ScoreValues]] = {}
        self._checkpoints = [Checkpoint(number=0, results=0, time=None, values={})]

    def add(self, template: str, result: ScoredResult, *, restored: bool) -> None:
        """Add a result of a template; `restored` says that it is from an earlier run."""
        is_first_after_checkpoint = self._results % EVERY == 0
        if is_first_after_checkpoint and not restored:
            self._checkpoints[-1] = self._checkpoints[-1]._replace(time=time())
        self._results += 1

        key: str | None = template
        counters = self._counters.get(template)
        if counters is None:
            if len(self._counters) >= MAX_CHECKED_TEMPLATES:
                key = OTHER_TEMPLATES
            counters = self._counters.setdefault(key, ScoreCounters())
        counters.add(result)
        self._changed[key] = None
        if self._results % EVERY == 0:
            self._add_checkpoint()

    def checkpoints(self) -> list[Checkpoint]:
        """Return the checkpoints that are kept, the latest last."""
        return self._checkpoints.copy()

    def _add_checkpoint(self) -> None:
        """Add a checkpoint after the results so far, and drop old ones."""
        for template in self._changed:
            self._values[template] = self._counters[template].values()
        self._changed.clear()
        latest = Checkpoint(
            number=self._results // EVERY,
            results=self._results,
            time=None,
            values=self._values.copy(),
        )
        kept = [old for old in self._checkpoints if _is_kept(old.number, latest.number)]
        self._checkpoints = [*kept, latest]


def _is_kept(number: int, latest: int) -> bool:
    """Return whether a checkpoint is still kept when the `latest` one has been made.

    All of the latest `DENSE_CHECKPOINTS` are. Before these, each time the age doubles, so does the
    distance from one checkpoint to the next.
    """
    age = latest - number
    distance = 1
    while age >= DENSE_CHECKPOINTS * distance:
        distance *= 2
    return number % distance == 0


@lru_cache(1000)
def _scores_of(metrics: tuple[str, ...]) -> tuple[tuple[int, str], ...]:
    """Return the scores among the metrics of a result, without those of its steps.

    Returns:
        the name of each score, after its index among the metrics.
    """
    scores = []
    for index, name in enumerate(metrics):
        if is_score(name) and name not in RETRIEVAL_METRICS:
            scores.append((index, name))
    return tuple(scores)


class History:
    """Records how the scores of all results, and of each template, move."""

    def __init__(self) -> None:
        self._overall = CourseRecorder(MAX_POINTS)
        self._templates: dict[str, CourseRecorder] = {}
        self._checkpoints = CheckpointRecorder()

    def add(self, evaluation: Evaluation, *, restored: bool = False) -> None:
        """Add a result; `restored` says that it is from an earlier run."""
        result = ScoredResult(
            scores=_scores_of(evaluation.metrics),
            numbers=evaluation.numbers,
            failed=float(evaluation.failed),
        )
        template = evaluation.template_id
        self._overall.add(result)
        self._checkpoints.add(template, result, restored=restored)
        recorder = self._templates.get(template)
        if recorder is None:
            if len(self._templates) >= MAX_TEMPLATES:
                return
            recorder = CourseRecorder(MAX_TEMPLATE_POINTS)
            self._templates[template] = recorder
        recorder.add(result)

    def courses(self) -> Courses:
        """Return the courses so far, which do not change any more."""
        return Courses(
            overall=self._overall.course(),
            templates={name: recorder.course() for name, recorder in self._templates.items()},
            checkpoints=self._checkpoints.checkpoints(),
        )
