"""The course of the scores of a run: points for charts, and starts from which on results are
compared.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from functools import lru_cache
from math import nextafter, pi
from time import time
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from graphrag_eval_async.aggregates import Last
from graphrag_eval_async.aggregates.histogram import BINS
from graphrag_eval_async.aggregates.questions import FIRST_SAMPLE_NUMBERS
from graphrag_eval_async.catalogue.metrics import (
    BOUNDED_METRICS,
    ERROR_RATE,
    RETRIEVAL_METRICS,
    is_score,
)
from graphrag_eval_async.inference.confidence import gap, mean_of
from graphrag_eval_async.text import plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from graphrag_eval_async.aggregates import Seconds
    from graphrag_eval_async.aggregates.histogram import Weights
    from graphrag_eval_async.records.evaluation import Evaluation

# most points of the course of all results, and of a template's; both even
POINTS, TEMPLATE_POINTS = (
    40,
    16,
)
RECENT = 200  # how many of all results count as recent if the window is one of time
EVERY = 50  # after how many results there is a start
# how many starts are kept of all results, and of a template: the latest
STARTS, TEMPLATE_STARTS = (
    200,
    10,
)
MAX_TEMPLATES = 500  # templates that have a course: the first ones

NOTHING = (0, 0.0)

Row: TypeAlias = "tuple[tuple[tuple[int, str], ...], Sequence[float], float, bool]"
"""The scores of a result and their places among its numbers; these; if it failed; if it is a
first sample.
"""


class Point(NamedTuple):
    """By score, the number of values so far and their sum, and the weights of first samples."""

    results: int
    sums: Mapping[str, tuple[int, float]]
    time: float | None  # In seconds since 1970; None if earlier runs made the point.
    weights: Mapping[str, Weights]


class Start(NamedTuple):
    """Which start this is, from 1 on; the number of results before it, and the weights of their
    values.
    """

    place: int
    results: int
    weights: Mapping[str, Weights]


class Course(NamedTuple):
    """How scores moved until now."""

    points: Sequence[Point]  # From none on, and after all results.
    recent: int  # How many of all results count as recent, at most half of them; 0 for a template.
    starts: Sequence[Start]  # The latest.
    weights: Mapping[str, Weights]  # Those of all values, by score.

    @property
    def results(self) -> int:
        return self.points[-1].results

    def means(self, score: str) -> list[float | None]:
        """The mean of all values by each point after the first."""
        return [_between(score, self.points[0], point) for point in self.points[1:]]

    def recents(self, score: str, results: int) -> list[float | None]:
        """At each point after the first, the mean of at least so many results before it, if
        there are.
        """
        start, found = 0, []
        for point in self.points[1:]:
            while self.points[start + 1].results <= point.results - max(1, results):
                start += 1
            found.append(_between(score, self.points[start], point))
        return found


def _between(score: str, start: Point, end: Point) -> float | None:
    (count, total), (first, less) = end.sums.get(score, NOTHING), start.sums.get(score, NOTHING)
    return (total - less) / (count - first) if count > first else None


class Courses(NamedTuple):
    """The course of all results, and those of templates."""

    overall: Course
    templates: Mapping[str, Course]


class Recorder:
    """Records a course in at most `most` points; with more, each stands for twice as many
    results.
    """

    def __init__(self, most: int, starts: int, recent: int = 0, *, is_whole: bool = False) -> None:
        """Record; only the points of a course that `is_whole` have times, and weights of first
        samples.
        """
        self._most, self._recent, self._is_whole = most, recent, is_whole
        self._step = self._due = 1
        self._results = 0
        self._waiting: list[Row] = []
        self._values: dict[str, list[float]] = {}
        self._first: dict[str, list[float]] = {}
        self._sums: dict[str, tuple[int, float]] = {}
        self._points = [Point(0, {}, None, {})]
        self._starts: deque[Start] = deque(maxlen=starts)

    def add(self, row: Row, restored: bool) -> None:
        """Queue one result. Results are counted in batches, which costs far less."""
        self._waiting.append(row)
        if len(self._waiting) >= self._due:
            self._settle(restored)
            if not self._results % EVERY:
                self._starts.append(
                    Start(self._results // EVERY, self._results, _weights(self._values))
                )

    def _settle(self, restored: bool) -> None:
        waiting, self._waiting = self._waiting, []
        while waiting:
            count = self._step - self._results % self._step
            self._count(waiting[:count])
            del waiting[:count]
            if not self._results % self._step:
                self._points.append(self._point(restored))
                if len(self._points) > self._most:
                    self._step *= 2
                    del self._points[1::2]
        due = EVERY - self._results % EVERY
        self._due = min(due, self._step - self._results % self._step) if self._is_whole else due

    def _count(self, rows: Sequence[Row]) -> None:
        found: defaultdict[str, list[float]] = defaultdict(list)
        first: defaultdict[str, list[float]] = defaultdict(list)
        for scores, numbers, failed, is_first in rows:
            found[ERROR_RATE].append(failed)
            for place, score in scores:
                found[score].append(numbers[place])
                if is_first and self._is_whole:
                    first[score].append(numbers[place])
        self._results += len(rows)
        for score, values in found.items():
            count, total = self._sums.get(score, NOTHING)
            self._sums[score] = count + len(values), total + sum(values)
            _spread(self._values, score, values)
        for score, values in first.items():
            _spread(self._first, score, values)

    def _point(self, restored: bool) -> Point:
        when = None if restored or not self._is_whole else time()
        return Point(self._results, self._sums.copy(), when, _weights(self._first))

    def course(self, restored: bool) -> Course:
        """An immutable copy of the course so far."""
        self._settle(restored)
        points = [*self._points]
        if points[-1].results < self._results:
            points.append(self._point(restored))
        recent = min(self._recent, self._results // 2)
        return Course(points, recent, [*self._starts], _weights(self._values))


def _spread(weights: dict[str, list[float]], score: str, values: Sequence[float]) -> None:
    """Add values to the weights of a score as `Weights` has them; if any is not from 0 to 1, it
    has none.
    """
    if score not in weights:
        weights[score] = [0.0] * (BINS + 1)
    own = weights[score]
    if min(values) < 0 or max(values) > 1:
        own.clear()
    for value, count in Counter(values).items() if own else ():  # Faster if few values differ.
        place = min(int(value * BINS), BINS - 1)
        upper = value * BINS - place
        own[place] += count * (1 - upper)
        own[place + 1] += count * upper


def _weights(found: Mapping[str, Sequence[float]]) -> dict[str, Weights]:
    return {score: tuple(weights) for score, weights in found.items() if weights}


@lru_cache(1000)
def _scores_of(metrics: tuple[str, ...]) -> tuple[tuple[int, str], ...]:
    """The scores of a result, not of its steps, with their places among its metrics."""
    names = [(i, name) for i, name in enumerate(metrics) if is_score(name)]
    return tuple((i, name) for i, name in names if name not in RETRIEVAL_METRICS)


class History:
    """The courses of all results, and of those of each template."""

    def __init__(self, window: Last | Seconds) -> None:
        recent = window.count if isinstance(window, Last) else RECENT
        self._all = Recorder(POINTS, STARTS, recent, is_whole=True)
        self._templates: dict[str, Recorder] = {}
        self._is_restored = False

    def add(self, seen: Evaluation, restored: bool = False) -> None:
        """Count one result; `restored` from an earlier run."""
        self._is_restored = restored
        row = (
            _scores_of(seen.metrics),
            seen.numbers,
            float(seen.failed),
            seen.sample in FIRST_SAMPLE_NUMBERS,
        )
        self._all.add(row, restored)
        recorder = self._templates.get(seen.template_id)
        if recorder is None:
            if len(self._templates) >= MAX_TEMPLATES:
                return
            recorder = self._templates[seen.template_id] = Recorder(
                TEMPLATE_POINTS, TEMPLATE_STARTS
            )
        recorder.add(row, restored)

    def courses(self) -> Courses:
        """An immutable copy of the courses so far."""
        restored = self._is_restored
        templates = {name: each.course(restored) for name, each in self._templates.items()}
        return Courses(self._all.course(restored), templates)


SHOWN = 4  # Maximum number of changes that are named.
# The share of the error probability that the error rate has; the scores share the rest.
OF_ERRORS = 0.1


class Change(NamedTuple):
    """A score or the error rate that changed, and whether for the worse."""

    gap: float  # between the confidence intervals before and after the change
    is_loss: bool
    told: str  # both means, in words


def getting_worse(courses: Courses, scores: Sequence[str], level: float) -> str:
    """Which results became clearly worse; the level holds for all looks and all of these together.

    Half of the error probability is for all results, and half for the templates, in the order in
    which they appeared. A tenth of that is for the error rate, the rest for the `scores`. What each
    has is divided among its starts. Results must come in random order.
    """
    if not courses.overall.starts:
        return f"too early to say, after {plural(courses.overall.results, 'result')}"
    alpha = (1 - level) / 2
    changes = [*_changes("", courses.overall, scores, alpha)]
    if len(courses.templates) > 1:
        for place, (name, course) in enumerate(courses.templates.items(), 1):
            changes += _changes(f"template {name}: ", course, scores, alpha * _share(place))
    worse, better = (
        [each.told for each in changes if each.is_loss is loss] for loss in (True, False)
    )
    told = [f"yes: {_listed(worse)}"] if worse else []
    told += [f"{'better' if worse else 'no, better'}: {_listed(better)}"] if better else []
    return ". ".join(told) or "no clear change"


def _share(place: int) -> float:
    """Return a share for a place from 1 on; those of all places together are 1."""
    return 6 / (pi * place) ** 2


def _changes(prefix: str, course: Course, scores: Sequence[str], alpha: float) -> Iterator[Change]:
    """Yield the clearest change of each score, if there is one."""
    parts = {ERROR_RATE: OF_ERRORS}
    parts |= {name: (1 - OF_ERRORS) / len(scores) for name in scores if name in BOUNDED_METRICS}
    for name, part in parts.items():
        found = []
        for place, results, weights in course.starts:
            if name in course.weights and (before := weights.get(name)) is not None:
                after = tuple(
                    max(0.0, a - b) for a, b in zip(course.weights[name], before, strict=True)
                )
                level = min(1 - alpha * part * _share(place) / 2, nextafter(1.0, 0.0))
                if any(after) and (apart := gap(before, after, level)) > 0:
                    found.append((apart, results, mean_of(before), mean_of(after)))
        if found:
            apart, results, old, new = max(found)
            when = f"the first {plural(results, 'result')}"
            told = f"{name} {new:.3f} after {when}, {old:.3f} before"
            if name == ERROR_RATE:
                told = f"errors in {new:.1%} of the results after {when}, {old:.1%} before"
            yield Change(apart, (new < old) != (name == ERROR_RATE), prefix + told)


def _listed(found: Sequence[str]) -> str:
    more = f"; and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    return "; ".join(found[:SHOWN]) + more
