"""Aggregates of a stream of results, up to date after each result."""

from __future__ import annotations

import copy
from collections import Counter, defaultdict
from heapq import nsmallest
from math import inf
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Self

from graphrag_eval_async.aggregates import state
from graphrag_eval_async.aggregates.agreement import Agreement
from graphrag_eval_async.aggregates.coverage import covered_metrics
from graphrag_eval_async.aggregates.exact import macro_of
from graphrag_eval_async.aggregates.group import DetailOptions, Group, metric, variance_later
from graphrag_eval_async.aggregates.pending import Pending
from graphrag_eval_async.aggregates.questions import first_values
from graphrag_eval_async.aggregates.steps import checked_names
from graphrag_eval_async.aggregates.tags import Tagged
from graphrag_eval_async.aggregates.window import Alike, Last, Row, Seconds, Sliding
from graphrag_eval_async.catalogue.conditions import RIGHT_CONDITIONS
from graphrag_eval_async.catalogue.metrics import is_score, metric_position
from graphrag_eval_async.catalogue.outcomes import NO_ANSWER
from graphrag_eval_async.errors import UsageError, describe
from graphrag_eval_async.records.evaluation import Evaluation
from graphrag_eval_async.records.results import observe
from graphrag_eval_async.removed import without_removed

if TYPE_CHECKING:
    from collections.abc import (
        Callable,
        Collection,
        Container,
        Iterable,
        Iterator,
        Mapping,
        Sequence,
    )

    from graphrag_eval_async.aggregates.group import Intervals
    from graphrag_eval_async.aggregates.questions import QuestionScore
    from graphrag_eval_async.aggregates.series import Series
    from graphrag_eval_async.catalogue.conditions import Condition

# Maximum results to count in one batch, which takes about two milliseconds.
BATCH = 2048


class Aggregates:
    """Statistics per template, micro (over all results) and macro (over the means of the
    templates).

    Sums and means are exact, rounded once, as by `math.fsum` and `statistics.mean`. So the snapshot
    is the same, bit for bit, however results are ordered, split and merged. A value takes 16 bytes,
    8 for its template and 8 for micro, and O(log n) time to add. A snapshot only reads what was
    added since the last one.

    `templates` sets the order of templates in a snapshot; others follow by name. `steps` is passed
    to `expect_steps`. The metrics and steps of results with ``status: error`` do not count.

    With a `window`, only its results count, and templates, metrics and steps without any are
    absent. The window stores its results, about half a kilobyte for one with five metrics, and once
    some have left, a
    snapshot counts all of them anew: 15 milliseconds for 5,000. Windows cannot be merged or
    converted to bytes.

    Raises:
        UsageError: an argument has an invalid value.
    """

    @without_removed("include_errors")
    def __init__(
        self,
        *,
        templates: Iterable[str] = (),
        steps: Iterable[str] = (),
        window: Last | Seconds | None = None,
    ) -> None:
        if not isinstance(window, Last | Seconds | None):
            raise UsageError(f"window: expected Last(...) or Seconds(...), got {describe(window)}")
        self._sliding = None if window is None else Sliding(window)
        self._expected: set[str] = set()  # Shared with the groups.
        self._groups: dict[str, Group] = {}
        self._micro: dict[str, Series] = {}
        self._order: dict[str, int] = {}
        self._pending = Pending()
        self._fractions: set[str] = set()
        self._right: tuple[Condition, ...] = RIGHT_CONDITIONS
        self._agreement: defaultdict[str, Agreement] = defaultdict(Agreement)
        self._tags = Tagged(RIGHT_CONDITIONS)
        # Values of results that share everything else.
        self._waiting: dict[Alike, list[Row]] = {}
        self._results = 0
        self._is_finished = False
        self.order_templates(templates)
        self.expect_steps(steps)

    def order_templates(self, templates: Iterable[str]) -> None:
        """List `templates` in this order in snapshots, before all others.

        A template that already has a place keeps the lower one. Ties are sorted by name.
        """
        self._place(
            [(name, place) for place, name in enumerate(checked_names(templates, "templates"))]
        )

    def expect_steps(self, names: Iterable[str]) -> None:
        """Always count steps with these names by name.

        Of all other names, each group counts the 1,000 with the smallest BLAKE2 hashes by name. It
        counts the rest, and names of more than 200 characters, together as `other`. Call this
        before adding or merging
        results: steps counted as `other` stay there.
        """
        self._expected.update(checked_names(names, "steps"))
        for group in self._groups.values():
            group.touch()

    def _decide_by(self, conditions: Iterable[Condition]) -> None:
        """Set the conditions of right results, before adding any; such aggregates are not to be
        merged.
        """
        self._right = (*conditions,)
        self._tags = Tagged(self._right)

    def _step_names(self) -> dict[str, tuple[list[str], Collection[str]]]:
        """Return the names of actual steps that are counted by name, and the questions, by
        template.
        """
        self._flush()
        return {
            template: ([name for name in group.steps if name is not None], group.places)
            for template, group in self._groups.items()
        }

    def _answers(self) -> int:
        """Return how many successful results without a judge have an answer."""
        self._flush()
        groups = self._groups.values()
        return sum(
            group.successes - group.outcomes["answer_relevance", NO_ANSWER] for group in groups
        )

    def add(self, result: Mapping[str, Any] | Evaluation, *, age: float = 0.0) -> None:
        """Add one result: a dict with the keys of an evaluated result.

        Results with metrics in `pending` do not count: the complete version follows.

        Args:
            result: the result; it is not changed.
            age: how many seconds ago the result arrived, for a window of `Seconds`; add the oldest
                first.

        Raises:
            AggregationError: `result` is not a result, or one of its metrics is not a finite number
                of at most 64 bits. Then nothing of it is counted.
        """
        seen = result if type(result) is Evaluation and not result.failed else observe(result)
        self._count(seen, age)

    def _count(self, seen: Evaluation, age: float = 0.0) -> None:
        """Add an observed result with all metrics and steps that it has."""
        self._is_finished = False
        if seen.pending is not None:
            self._pending.add(seen)
            return
        if self._pending.results:
            self._pending.remove(seen)
        if seen.fractions:
            self._fractions.update(seen.fractions)
        if seen.votes and self._sliding is None:
            for name, votes in seen.votes:
                self._agreement[name].add(votes)
        alike: Alike | None = seen.alike
        if alike is None:
            alike = (
                seen.template_id,
                seen.failed,
                seen.metrics,
                seen.steps,
                seen.outcomes,
                seen.tags,
            )
        row = seen.numbers, seen.question_id, seen.sample
        if self._sliding is not None:
            self._sliding.add(alike, row, age)
            return
        if (same := self._waiting.get(alike)) is not None:
            same.append(row)
        else:
            self._waiting[alike] = [row]
        self._results += 1 + len(seen.steps) // 16  # Waiting results keep all step names in memory.
        if self._results >= BATCH:
            self._flush()

    def finish(self) -> None:
        """Record that all results were added, and that the results did not decide when to stop.

        Then a detailed snapshot shows intervals for one look, which are narrower. A stream calls
        this at its end, unless `until`, `stop()` or leaving its loop ended it. Adding a result
        undoes it.
        """
        self._is_finished = True

    def snapshot(self) -> dict[str, Any]:
        """Return `per_template`, `micro` and `macro` over the results that count, as a new dict.

        `mean` is over all values, `mean_of_questions` over the questions' means; the latter is
        absent if some results do not name their question. If several judges gave scores,
        `agreement` has the mean of each judge and how well they agree, by metric; see
        `Agreement.snapshot`. Windows lack it.
        """
        self._flush()
        per_template = {
            name: self._groups[name].snapshot() for name in self._in_order(self._groups)
        }
        return self._with_micro(per_template)

    def question_scores(self, metric: str, template: str | None = None) -> Iterator[QuestionScore]:
        """Yield the mean of a score for each question, of one template or of all, if any has a
        value.

        An error counts as 0. Results may be added meanwhile.
        """
        self._flush()
        groups = [*self._groups.items()] if metric in self._micro else []
        for name, group in groups:
            if template in (None, name):
                yield from group.question_scores(name, metric)

    def lowest(self, metric: str, count: int) -> list[QuestionScore]:
        """Return the `count` questions with the lowest means of a score, sorted by `rank`."""
        return nsmallest(count, self.question_scores(metric), key=attrgetter("rank"))

    def cumulative_counts(self, metric: str, bounds: Sequence[float]) -> list[int]:
        """Return, for each bound, how many values of the metric over all results are at most the
        bound.
        """
        self._flush()
        series = self._micro.get(metric)
        return [0 if series is None else series.values.rank(bound) for bound in bounds]

    def overall(self) -> dict[str, Any]:
        """Return `micro` of a detailed snapshot, with `weights` of each metric in place of
        intervals.

        This is fast, however many templates there are; each interval takes half a millisecond.
        """
        self._flush()
        return self._total().snapshot(self._detail(None), self._groups.values())

    def variances(self) -> dict[str, Callable[[], dict[str, Any]]]:
        """Return by score what computes its `variance` of a detailed snapshot, if questions are
        repeated.
        """
        self._flush()
        scores = [(name, own) for name, own in self._micro.items() if is_score(name)]
        later = {name: variance_later(own, self._groups.values(), name) for name, own in scores}
        return {name: variance for name, variance in later.items() if variance is not None}

    @property
    def templates(self) -> list[str]:
        """The templates in order, even those whose results are all pending."""
        self._flush()
        return self._in_order(self._groups.keys() | self._pending.by_template())

    def per_template(self, templates: Container[str] | None = None) -> dict[str, dict[str, Any]]:
        """Return the same as `overall` for each template, or some. Do not change it: it is
        cached.
        """
        self._flush()
        groups = self._groups_of(self._detail(None), templates)
        return {name: group.detailed(own) for name, group, own in groups}

    def per_tag(self) -> dict[str, Any]:
        """Return what a snapshot shows of tags, each as `overall` is. Do not change it: it is
        cached.
        """
        self._flush()
        detail = self._detail(None)._replace(pending={})
        return self._tags.show(lambda group: group.detailed(detail))

    def prepare(self, templates: Container[str] | None = None) -> Iterator[None]:
        """Do the slow part of `per_template` and `per_tag` in steps; results may be added
        between steps.
        """
        detail = self._detail(None)
        groups = [(group, own) for _, group, own in self._groups_of(detail, templates)]
        if templates is None:
            groups += [(group, detail._replace(pending={})) for group in self._tags.groups.values()]
        for group, own in groups:
            self._flush()
            group.detailed(own)
            yield

    def _details(self, intervals: Intervals | None = None) -> dict[str, Any]:
        """Return a detailed snapshot; see `DetailOptions` for `intervals`."""
        self._flush()
        detail = self._detail(intervals)
        per_template = {name: group.snapshot(own) for name, group, own in self._groups_of(detail)}
        return self._with_micro(per_template, detail)

    def _with_micro(
        self, per_template: dict[str, Any], detail: DetailOptions | None = None
    ) -> dict[str, Any]:
        micro = self._total().snapshot(detail, self._groups.values())
        metrics = self._micro if detail is None else detail.metrics
        macro = {
            name: shown
            for name in micro
            if name in metrics and (shown := macro_of(name, per_template))
        }
        names = sorted(self._agreement, key=metric_position)
        agreement = (
            {"agreement": {name: self._agreement[name].snapshot() for name in names}}
            if names
            else {}
        )
        tags = self._tags.show(lambda group: group.snapshot(detail and detail._replace(pending={})))
        return {"per_template": per_template, **tags, "micro": micro, "macro": macro, **agreement}

    def _detail(self, intervals: Intervals | None) -> DetailOptions:
        """Return the options to show all results in detail."""
        pending = sum(self._pending.by_template().values(), Counter[str]())
        outcomes = {outcome for group in self._groups.values() for outcome in group.outcomes}
        metrics = covered_metrics(self._micro, outcomes, pending)
        return DetailOptions(intervals, metrics, frozenset(self._fractions), pending)

    def _total(self) -> Group:
        """Return all groups as one, but for the values by question."""
        total = Group(self._expected)
        for group in self._groups.values():
            total.add_counts(group)
        total.series = self._micro
        return total

    def _groups_of(
        self, detail: DetailOptions, templates: Container[str] | None = None
    ) -> Iterator[tuple[str, Group, DetailOptions]]:
        """Yield the templates in order, even if all their results are pending, with options for
        details.
        """
        pending = self._pending.by_template()
        for name in self._in_order(self._groups.keys() | pending):
            if templates is None or name in templates:
                own = detail._replace(pending=pending.get(name, {}))
                yield name, self._groups.get(name) or Group(), own

    def _demote(self, result: Evaluation) -> None:
        """Count a first sample, which was added, as a later one: another process has an earlier
        one.
        """
        self._flush()
        groups = [self._groups[result.template_id], *map(self._tags.groups.get, result.tags)]
        for name, values in first_values(result.metrics, [result.numbers]):
            all_series = [group.series[name] for group in groups if group is not None]
            for series in (*all_series, self._micro[name]):
                if series.histogram is not None:
                    series.histogram.remove(values)

    def merge(self, other: Aggregates) -> Self:
        """Add the counts of `other`, and adopt its order of templates.

        Returns:
            these aggregates; `other` does not change.

        Raises:
            UsageError: one of the two has a window.
        """
        if self._sliding or other._sliding:
            raise UsageError("window: aggregates with a window cannot be merged")
        if other is self:
            other = copy.deepcopy(self)
        self._flush()
        other._flush()
        self._place(other._order.items())
        self.expect_steps(other._expected)
        for name, group in other._groups.items():
            self._group(name).merge(group)
        for name, series in other._micro.items():
            metric(self._micro, name).merge(series)
        self._pending.merge(other._pending)
        self._fractions |= other._fractions
        for name, agreement in other._agreement.items():
            self._agreement[name].merge(agreement)
        self._tags.merge(other._tags)
        self._is_finished = False
        return self

    def to_bytes(self) -> bytes:
        """Return the complete state as bytes, to continue elsewhere; a snapshot holds less.

        Raises:
            UsageError: the aggregates have a window.
        """
        if self._sliding:
            raise UsageError("window: aggregates with a window cannot be converted to bytes")
        self._flush()
        return state.dump(
            state.Contents(
                self._order,
                self._groups,
                self._micro,
                self._pending,
                self._fractions,
                self._expected,
                self._agreement,
                self._tags,
            )
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Return aggregates restored from the output of `to_bytes`.

        Raises:
            AggregationError: `data` is corrupt, of another version, or not from `to_bytes`.
        """
        loaded = state.load(data)
        aggregates = cls()
        aggregates._groups, aggregates._micro = loaded.groups, loaded.micro
        aggregates._pending, aggregates._fractions = loaded.pending, loaded.fractions
        aggregates._place(loaded.order.items())
        aggregates._expected, aggregates._tags = loaded.expected, loaded.tags
        aggregates._agreement.update(loaded.agreement)
        return aggregates

    def _flush(self) -> None:
        self._results = 0
        if self._sliding is not None:
            anew, results = self._sliding.changes()
            if anew:
                self._groups, self._micro, self._tags = {}, {}, Tagged(self._right)
            for alike, row in results:
                self._waiting.setdefault(alike, []).append(row)
        waiting, self._waiting = self._waiting, {}
        if tagged := {alike: rows for alike, rows in waiting.items() if alike[-1]}:
            self._tags.add(tagged)
            for alike in tagged:  # Few large batches are quicker.
                waiting.setdefault((*alike[:-1], ()), []).extend(waiting.pop(alike))
        for alike, rows in waiting.items():
            self._group(alike[0]).add(alike, rows, self._micro)

    def _group(self, name: str) -> Group:
        group = self._groups.get(name)
        if group is None:
            right = [each for each in self._right if each.template in (None, name)]
            group = self._groups[name] = Group(self._expected, right)
        return group

    def _in_order(self, templates: Iterable[str]) -> list[str]:
        return sorted(templates, key=lambda name: (self._order.get(name, inf), name))

    def _place(self, places: Iterable[tuple[str, int]]) -> None:
        for template, place in places:
            self._order[template] = min(place, self._order.get(template, place))
