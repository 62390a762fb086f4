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
        """Return the mean of a score over all results until the end of each span.

        The mean is None if there are no values until then.
        """
        return [_mean(NO_VALUES, span.sums.get(score, NO_VALUES)) for span in self.spans]

    def recent_means(self, score: str) -> list[float | None]:
        """Return the mean of a score over the results that were recent at the end of each span.

        The mean is None if there are no recent values.
        """
        if isinstance(self.window, Last):
            sums_before_window = self._sums_before_last_results(self.window.count)
        else:
            sums_before_window = self._sums_before_last_seconds(self.window.seconds)
        means = []
        for span, sums_before in zip(self.spans, sums_before_window, strict=True):
            before = sums_before.get(score, NO_VALUES)
            after = span.sums.get(score, NO_VALUES)
            means.append(_mean(before, after))
        return means

    def _sums_before_last_results(self, count: int) -> list[Mapping[str, ScoreSum]]:
        """Return for each span the sums of all results before the last `count` until its end.

        Sums are known at the ends of spans only, so that a few more results may count as the last.
        """
        # Sums are known at the start, after the restored results, and at the end of each span.
        results = [0, self.restored, *(span.results for span in self.spans)]
        sums = [{}, self.restored_sums, *(span.sums for span in self.spans)]
        sums_before = []
        for span in self.spans:
            # The latest of these points that has at least `count` results between it and the end of
            # the span. If there are fewer results in all, it is the start.
            point = bisect_right(results, span.results - count) - 1
            sums_before.append(sums[max(point, 0)])
        return sums_before

    def _sums_before_last_seconds(self, seconds: float) -> list[Mapping[str, ScoreSum]]:
        """Return for each span the sums of all results before the last `seconds` until its end."""
        ends = [span.end for span in self.spans]
        # The sums after the restored results, then those at the end of each span.
        sums = [self.restored_sums, *(span.sums for span in self.spans)]
        sums_before = []
        for span in self.spans:
            window_start = span.end - seconds
            ended_spans = bisect_right(ends, window_start)
            sums_before.append(sums[ended_spans])
        return sums_before


def _mean(before: ScoreSum, after: ScoreSum) -> float | None:
    """Return the mean of the values that came between two sums; None if none came.

    Args:
        before: the sum of all values before them.
        after: the sum of all values, them included.
    """
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
        """Count a result.

        Args:
            seen: the result.
            restored: whether it is of an earlier run, and was restored. Otherwise it arrived now.
        """
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
            # Only the latest span still changes.
            spans[-1] = replace(spans[-1], sums=spans[-1].sums.copy())
        return Timeline(self._restored, self._restored_sums.copy(), spans, self._window)

    def _span_of(self, now: float) -> Span:
        """Return the span in which a result that arrives now counts.

        It is the latest span or, if that is over, a new one, which is appended. If there are too
        many spans then, they are merged.

        Args:
            now: the time in seconds since 1970.
        """
        if not self._spans:
            first = Span(now, now, self._restored, self._restored_sums.copy())
            self._spans.append(first)
            return first

        latest = self._spans[-1]
        # The clock of the system may be set back, but spans stay in order.
        now = max(now, latest.end)
        if self._span_number(now) == self._span_number(latest.start):
            latest.end = now
            return latest
        # A new span begins with the sums of all results before it.
        new = Span(now, now, latest.results, latest.sums.copy())
        self._spans.append(new)
        if len(self._spans) > MAX_SPANS:
            self._merge_spans()
        return self._spans[-1]

    def _span_number(self, moment: float) -> int:
        """Return the number of the span to which a moment belongs, from 0.

        All spans have the same length, and the first one begins with the first result.
        """
        return int((moment - self._spans[0].start) / self._span_seconds)

    def _merge_spans(self) -> None:
        """Double the length of spans, and merge them, until there are at most `MAX_SPANS` / 2."""
        while len(self._spans) > MAX_SPANS // 2:
            self._span_seconds *= 2
            span_by_number: dict[int, Span] = {}
            for span in self._spans:
                number = self._span_number(span.start)
                earlier = span_by_number.get(number)
                if earlier is None:
                    span_by_number[number] = span
                else:
                    # The sums of the later span include those of the earlier one.
                    span_by_number[number] = replace(span, start=earlier.start)
            self._spans = [*span_by_number.values()]


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
    """Return the index and the name of each score among the metrics of a result.

    Retrieval metrics are left out: they are metrics of steps, of which a result may have several.
    """
    return tuple(
        (place, name)
        for place, name in enumerate(metrics)
        if is_score(name) and name not in RETRIEVAL_METRICS
    )
