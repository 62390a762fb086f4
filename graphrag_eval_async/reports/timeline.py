"""Records when results arrived and how scores moved, for charts whose axis is time."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, replace
from functools import lru_cache
from time import time
from typing import TYPE_CHECKING

from graphrag_eval_async.aggregates import Last
from graphrag_eval_async.catalogue.metrics import ERROR_RATE, RETRIEVAL_METRICS, is_score

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphrag_eval_async.aggregates import Seconds
    from graphrag_eval_async.records.evaluation import Evaluation

MAX_SPANS = 160
"""Maximum number of spans of a timeline: about one for each three pixels of a chart."""

FIRST_SPAN_SECONDS = 0.25
"""Length of the spans of a run that has just begun."""


@dataclass(frozen=True, slots=True)
class ScoreSum:
    """The sum of the values of a score, and their number."""

    count: int = 0
    total: float = 0.0


NO_VALUES = ScoreSum()


@dataclass(slots=True)
class Span:
    """A short time in which results arrived.

    Attributes:
        start: when its first result arrived, in seconds since 1970.
        end: when its last result arrived.
        results: number of results from the beginning of the run to the end of the span.
        sums: the sums of their scores, by name.
    """

    start: float
    end: float
    results: int
    sums: dict[str, ScoreSum]


@dataclass(frozen=True, slots=True)
class Timeline:
    """How the scores of a run moved over time.

    Attributes:
        restored: number of results of earlier runs, whose times nobody knows.
        restored_sums: the sums of their scores, by name.
        spans: the times in which the results of this run arrived, in order.
        window: which results count as recent.
    """

    restored: int
    restored_sums: Mapping[str, ScoreSum]
    spans: Sequence[Span]
    window: Last | Seconds

    def means_so_far(self, score: str) -> list[float | None]:
        """Return the mean of all values of a score at the end of each span; None without values."""
        return [_mean(NO_VALUES, span.sums.get(score, NO_VALUES)) for span in self.spans]

    def recent_means(self, score: str) -> list[float | None]:
        """Return the mean of the recent values of a score at the end of each span.

        A mean is None without recent values.
        """
        if isinstance(self.window, Last):
            starts = self._starts_by_count(self.window.count)
        else:
            starts = self._starts_by_time(self.window.seconds)
        means = []
        for span, sums_at_start in zip(self.spans, starts, strict=True):
            before = sums_at_start.get(score, NO_VALUES)
            means.append(_mean(before, span.sums.get(score, NO_VALUES)))
        return means

    def _starts_by_count(self, count: int) -> list[Mapping[str, ScoreSum]]:
        """Return for each span the sums before its last `count` results, or a few more."""
        results = [0, self.restored, *(span.results for span in self.spans)]
        sums = [{}, self.restored_sums, *(span.sums for span in self.spans)]
        starts = []
        for span in self.spans:
            # The latest point that has at least `count` results after it.
            place = bisect_right(results, span.results - count) - 1
            starts.append(sums[max(place, 0)])
        return starts

    def _starts_by_time(self, seconds: float) -> list[Mapping[str, ScoreSum]]:
        """Return for each span the sums before the last `seconds` until its end."""
        ends = [span.end for span in self.spans]
        sums = [self.restored_sums, *(span.sums for span in self.spans)]
        return [sums[bisect_right(ends, span.end - seconds)] for span in self.spans]


def _mean(before: ScoreSum, after: ScoreSum) -> float | None:
    """Return the mean of the values between two sums; None if there are none."""
    count = after.count - before.count
    if count == 0:
        return None
    return (after.total - before.total) / count


class TimelineRecorder:
    """Records a timeline in at most `MAX_SPANS` spans, which grow longer with the run."""

    def __init__(self, window: Last | Seconds) -> None:
        self._window = window
        self._restored = 0
        self._restored_sums: dict[str, ScoreSum] = {}
        self._spans: list[Span] = []
        self._span_seconds = FIRST_SPAN_SECONDS

    def add(self, seen: Evaluation, *, restored: bool) -> None:
        """Count a result that has arrived now, or in an earlier run if it is `restored`."""
        if restored:
            self._restored += 1
            _add_scores(self._restored_sums, seen)
            return
        span = self._span_of(time())
        span.results += 1
        _add_scores(span.sums, seen)

    def timeline(self) -> Timeline:
        """Return the timeline so far, which later results do not change."""
        spans = self._spans.copy()
        if spans:
            spans[-1] = replace(spans[-1], sums=spans[-1].sums.copy())
        return Timeline(self._restored, self._restored_sums.copy(), spans, self._window)

    def _span_of(self, now: float) -> Span:
        """Return the span in which a result of this moment counts; begins a new one if needed."""
        if not self._spans:
            first = Span(now, now, self._restored, self._restored_sums.copy())
            self._spans.append(first)
            return first

        latest = self._spans[-1]
        # A clock may be set back.
        now = max(now, latest.end)
        if self._place(now) == self._place(latest.start):
            latest.end = now
            return latest
        latest = Span(now, now, latest.results, latest.sums.copy())
        self._spans.append(latest)
        if len(self._spans) > MAX_SPANS:
            self._merge_spans()
        return self._spans[-1]

    def _place(self, moment: float) -> int:
        """Return the number of whole spans between the first result and a moment."""
        return int((moment - self._spans[0].start) / self._span_seconds)

    def _merge_spans(self) -> None:
        """Double the length of spans until half of them are enough."""
        while len(self._spans) > MAX_SPANS // 2:
            self._span_seconds *= 2
            merged: dict[int, Span] = {}
            for span in self._spans:
                place = self._place(span.start)
                earlier = merged.get(place)
                # The sums of a span include those before it.
                merged[place] = span if earlier is None else replace(span, start=earlier.start)
            self._spans = [*merged.values()]


def _add_scores(sums: dict[str, ScoreSum], seen: Evaluation) -> None:
    """Add the scores of a result, and whether it is an error, to `sums`."""
    for place, score in _places_of_scores(seen.metrics):
        _add_value(sums, score, seen.numbers[place])
    _add_value(sums, ERROR_RATE, float(seen.failed))


def _add_value(sums: dict[str, ScoreSum], score: str, value: float) -> None:
    """Add a value of a score to `sums`."""
    before = sums.get(score, NO_VALUES)
    sums[score] = ScoreSum(before.count + 1, before.total + value)


@lru_cache(1000)
def _places_of_scores(metrics: tuple[str, ...]) -> tuple[tuple[int, str], ...]:
    """Return the scores among the metrics of a result, with their places.

    Retrieval metrics are of steps, of which a result may have several.
    """
    return tuple(
        (place, name)
        for place, name in enumerate(metrics)
        if is_score(name) and name not in RETRIEVAL_METRICS
    )
