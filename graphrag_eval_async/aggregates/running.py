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
from graphrag_eval_async.aggregates.group import Group
from graphrag_eval_async.aggregates.pending import Pending
from graphrag_eval_async.aggregates.questions import values_by_metric
from graphrag_eval_async.aggregates.series import series_of
from graphrag_eval_async.aggregates.snapshot import (
    DetailOptions,
    cached_detail_of,
    snapshot_of,
    variance_of,
)
from graphrag_eval_async.aggregates.steps import checked_names
from graphrag_eval_async.aggregates.tags import TagGroups
from graphrag_eval_async.aggregates.waiting import Batch
from graphrag_eval_async.aggregates.window import Last, Seconds, Sliding
from graphrag_eval_async.catalogue.conditions import RIGHT_CONDITIONS
from graphrag_eval_async.catalogue.metrics import is_score, metric_position
from graphrag_eval_async.catalogue.outcomes import NO_ANSWER
from graphrag_eval_async.errors import UsageError, describe
from graphrag_eval_async.records.evaluation import Evaluation, Traits
from graphrag_eval_async.records.results import observe
from graphrag_eval_async.removed import without_removed

if TYPE_CHECKING:
    from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence

    from graphrag_eval_async.aggregates.questions import QuestionScore
    from graphrag_eval_async.aggregates.series import Series
    from graphrag_eval_async.aggregates.snapshot import Intervals, Variance
    from graphrag_eval_async.aggregates.waiting import Batches
    from graphrag_eval_async.catalogue.conditions import Condition

BATCH = 2048
"""Maximum results to count at once, which takes about two milliseconds."""

MANY_STEPS = 16
"""Number of steps whose names take as much memory, while they wait, as the rest of a result."""


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
    some have left, a snapshot counts all of them anew: 15 milliseconds for 5,000. Windows cannot be
    merged or converted to bytes.

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
        self._is_finished = False
        self._right_conditions: tuple[Condition, ...] = RIGHT_CONDITIONS

        # By name of template: its place, and its results.
        self._order: dict[str, int] = {}
        self._groups: dict[str, Group] = {}
        # The values of each metric in all templates.
        self._micro: dict[str, Series] = {}
        self._tags = TagGroups(RIGHT_CONDITIONS)
        # The names of steps that are always counted by name; the groups share the set.
        self._expected: set[str] = set()
        # By metric, the scores of results with several judges.
        self._agreement: defaultdict[str, Agreement] = defaultdict(Agreement)
        # Outputs of custom evaluations that are from 0 to 1.
        self._fractions: set[str] = set()
        self._pending = Pending()

        # Results that are not counted yet, and how much memory they take, in results.
        self._waiting: Batches = {}
        self._waiting_size = 0

        self.order_templates(templates)
        self.expect_steps(steps)

    def order_templates(self, templates: Iterable[str]) -> None:
        """List `templates` in this order in snapshots, before all others.

        A template that already has a place keeps the lower one. Ties are sorted by name.
        """
        names = checked_names(templates, "templates")
        self._place_templates([(name, place) for place, name in enumerate(names)])

    def expect_steps(self, names: Iterable[str]) -> None:
        """Always count steps with these names by name.

        Of all other names, each group counts the 1,000 with the smallest BLAKE2 hashes by name. It
        counts the rest, and names of more than 200 characters, together as `other`. Call this
        before adding or merging results: steps counted as `other` stay there.
        """
        self._expected.update(checked_names(names, "steps"))
        for group in self._groups.values():
            group.invalidate()

    def _decide_by(self, conditions: Iterable[Condition]) -> None:
        """Set the conditions of right results, before adding any.

        Such aggregates are not to be merged.
        """
        self._right_conditions = tuple(conditions)
        self._tags = TagGroups(self._right_conditions)

    def _step_names(self) -> dict[str, tuple[list[str], Collection[str]]]:
        """Return the names of actual steps that are counted by name, and the questions, by
        template.
        """
        self._flush()
        return {
            template: (list(group.steps.by_name), group.places)
            for template, group in self._groups.items()
        }

    def _answers(self) -> int:
        """Return how many successful results without a judge have an answer."""
        self._flush()
        return sum(
            group.successes - group.outcomes["answer_relevance", NO_ANSWER]
            for group in self._groups.values()
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
        # An evaluation that did not fail is what `observe` would return.
        if type(result) is Evaluation and not result.failed:
            self._count(result, age)
        else:
            self._count(observe(result), age)

    def _count(self, evaluation: Evaluation, age: float = 0.0) -> None:
        """Add an observed result with all metrics and steps that it has.

        This runs for each result. Those whose traits are known were not judged: nothing of them is
        pending, and they have no votes.
        """
        self._is_finished = False
        traits: Traits | None = evaluation.alike
        if traits is None:
            if evaluation.pending is not None:
                self._pending.add(evaluation)
                return
            self._count_judged(evaluation)
            traits = Traits(
                template_id=evaluation.template_id,
                failed=evaluation.failed,
                metrics=evaluation.metrics,
                steps=evaluation.steps,
                outcomes=evaluation.outcomes,
                tags=evaluation.tags,
            )
        if self._pending.results:
            self._pending.remove(evaluation)
        if self._sliding is not None:
            self._sliding.add(evaluation, traits, age=age)
            return

        batch = self._waiting.get(traits)
        if batch is None:
            batch = self._waiting[traits] = Batch()
            self._waiting_size += len(traits.steps) // MANY_STEPS
        batch.numbers.append(evaluation.numbers)
        batch.question_ids.append(evaluation.question_id)
        batch.samples.append(evaluation.sample)
        self._waiting_size += 1
        if self._waiting_size >= BATCH:
            self._flush()

    def _count_judged(self, evaluation: Evaluation) -> None:
        """Count what only judged results have, if this is one."""
        if evaluation.fractions:
            self._fractions.update(evaluation.fractions)
        if self._sliding is None:
            for metric, votes in evaluation.votes:
                self._agreement[metric].add(votes)

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
            template: snapshot_of(self._groups[template])
            for template in self._in_order(self._groups)
        }
        return self._with_totals(per_template, detail=None)

    def question_scores(self, metric: str, template: str | None = None) -> Iterator[QuestionScore]:
        """Yield the mean of a score for each question of one template, or of all if it is None.

        An error counts as 0; nothing is yielded if no result has the metric. Results may be added
        meanwhile.
        """
        self._flush()
        if metric not in self._micro:
            return
        for name, group in list(self._groups.items()):
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
        if series is None:
            return [0] * len(bounds)
        return [series.values.rank(bound) for bound in bounds]

    def overall(self) -> dict[str, Any]:
        """Return `micro` of a detailed snapshot, with `weights` of each metric in place of
        intervals.

        This is fast, however many templates there are; each interval takes half a millisecond.
        """
        self._flush()
        return snapshot_of(self._total(), self._detail(intervals=None))

    def variances(self) -> dict[str, Variance]:
        """Return by score a function that computes its `variance` of a detailed snapshot.

        Scores of which no question has two values are absent.
        """
        self._flush()
        variances: dict[str, Variance] = {}
        for metric, series in self._micro.items():
            if is_score(metric):
                variance = variance_of(series, self._groups.values(), metric)
                if variance is not None:
                    variances[metric] = variance
        return variances

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
        detail = self._detail(intervals=None)
        return {
            template: cached_detail_of(group, detail_of_group)
            for template, group, detail_of_group in self._groups_in_detail(detail, templates)
        }

    def per_tag(self) -> dict[str, Any]:
        """Return what a snapshot shows of tags, each as `overall` is. Do not change it: it is
        cached.
        """
        self._flush()
        detail = self._detail(intervals=None).with_pending({})
        return self._tags.snapshot(lambda group: cached_detail_of(group, detail))

    def prepare(self, templates: Container[str] | None = None) -> Iterator[None]:
        """Do the slow part of `per_template` and `per_tag` in steps; results may be added
        between steps.
        """
        detail = self._detail(intervals=None)
        groups = [
            (group, detail_of_group)
            for _, group, detail_of_group in self._groups_in_detail(detail, templates)
        ]
        if templates is None:
            detail_of_tags = detail.with_pending({})
            groups += [(group, detail_of_tags) for group in self._tags.groups.values()]
        for group, detail_of_group in groups:
            self._flush()
            cached_detail_of(group, detail_of_group)
            yield

    def _details(self, intervals: Intervals | None = None) -> dict[str, Any]:
        """Return a detailed snapshot; see `DetailOptions` for `intervals`."""
        self._flush()
        detail = self._detail(intervals)
        per_template = {
            template: snapshot_of(group, detail_of_group)
            for template, group, detail_of_group in self._groups_in_detail(detail)
        }
        return self._with_totals(per_template, detail)

    def _with_totals(
        self, per_template: dict[str, Any], detail: DetailOptions | None
    ) -> dict[str, Any]:
        """Return a snapshot with these templates; it is detailed if there are options for it."""
        micro = snapshot_of(self._total(), detail)
        metrics = self._micro if detail is None else detail.metrics
        macro = {}
        for name in micro:
            if name in metrics:
                macro_stats = macro_of(name, per_template)
                if macro_stats:
                    macro[name] = macro_stats

        # The complete results of a tag are not known while some are pending.
        detail_of_tags = None if detail is None else detail.with_pending({})
        tags = self._tags.snapshot(lambda group: snapshot_of(group, detail_of_tags))
        snapshot = {"per_template": per_template, **tags, "micro": micro, "macro": macro}
        if self._agreement:
            snapshot["agreement"] = {
                metric: self._agreement[metric].snapshot()
                for metric in sorted(self._agreement, key=metric_position)
            }
        return snapshot

    def _detail(self, intervals: Intervals | None) -> DetailOptions:
        """Return the options to show all results in detail."""
        pending = Counter[str]()
        for pending_of_template in self._pending.by_template().values():
            pending += pending_of_template
        outcomes = {outcome for group in self._groups.values() for outcome in group.outcomes}
        return DetailOptions(
            intervals=intervals,
            metrics=covered_metrics(self._micro, outcomes, pending),
            fractions=frozenset(self._fractions),
            pending=pending,
        )

    def _total(self) -> Group:
        """Return all groups as one, to take a snapshot of."""
        return Group.total_of(self._groups.values(), self._micro, self._expected)

    def _groups_in_detail(
        self, detail: DetailOptions, templates: Container[str] | None = None
    ) -> Iterator[tuple[str, Group, DetailOptions]]:
        """Yield the templates in order, with their groups and the options to show these in detail.

        They include templates whose results are all pending, which have an empty group.

        Args:
            detail: the options to show all results in detail.
            templates: the templates to yield; None for all.
        """
        pending = self._pending.by_template()
        for template in self._in_order(self._groups.keys() | pending):
            if templates is None or template in templates:
                group = self._groups.get(template) or Group()
                yield template, group, detail.with_pending(pending.get(template, {}))

    def _demote(self, result: Evaluation) -> None:
        """Count a first sample, which was added, as a later one: another process has an earlier
        one.
        """
        self._flush()
        groups = [self._groups[result.template_id]]
        groups += [self._tags.groups[tag] for tag in result.tags if tag in self._tags.groups]
        for metric, values in values_by_metric(result.metrics, [result.numbers]):
            for series in (*[group.series[metric] for group in groups], self._micro[metric]):
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
        self._is_finished = False

        self._place_templates(other._order.items())
        self.expect_steps(other._expected)
        for template, group in other._groups.items():
            self._group(template).merge(group)
        for metric, series in other._micro.items():
            series_of(self._micro, metric).merge(series)
        self._tags.merge(other._tags)
        self._pending.merge(other._pending)
        self._fractions |= other._fractions
        for metric, agreement in other._agreement.items():
            self._agreement[metric].merge(agreement)
        return self

    def to_bytes(self) -> bytes:
        """Return the complete state as bytes, to continue elsewhere; a snapshot holds less.

        Raises:
            UsageError: the aggregates have a window.
        """
        if self._sliding:
            raise UsageError("window: aggregates with a window cannot be converted to bytes")
        self._flush()
        contents = state.Contents(
            order=self._order,
            expected=self._expected,
            groups=self._groups,
            micro=self._micro,
            tags=self._tags,
            pending=self._pending,
            fractions=self._fractions,
            agreement=self._agreement,
        )
        return state.dump(contents)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Return aggregates restored from the output of `to_bytes`.

        Raises:
            AggregationError: `data` is corrupt, of another version, or not from `to_bytes`.
        """
        contents = state.load(data)
        aggregates = cls()
        aggregates._order = contents.order
        aggregates._expected = contents.expected
        aggregates._groups = contents.groups
        aggregates._micro = contents.micro
        aggregates._tags = contents.tags
        aggregates._pending = contents.pending
        aggregates._fractions = contents.fractions
        aggregates._agreement = contents.agreement
        return aggregates

    def _flush(self) -> None:
        """Count the results that wait, or of a window those that have changed."""
        if self._sliding is not None:
            self._collect_changes(self._sliding)
        waiting = self._waiting
        self._waiting = {}
        self._waiting_size = 0

        tagged = {traits: batch for traits, batch in waiting.items() if traits.tags}
        if tagged:
            self._tags.add(tagged)
            # In groups of templates, tags make no difference, and few large batches are faster.
            for traits, batch in tagged.items():
                del waiting[traits]
                untagged = traits.without_tags()
                waiting.setdefault(untagged, Batch()).extend(batch)
        for traits, batch in waiting.items():
            self._group(traits.template_id).add(traits, batch, self._micro)

    def _collect_changes(self, sliding: Sliding) -> None:
        """Let the results of a window wait that are to be counted; forget all if some have left."""
        changes = sliding.take_changes()
        if changes.are_all:
            self._groups = {}
            self._micro = {}
            self._tags = TagGroups(self._right_conditions)
        for result in changes.results:
            batch = self._waiting.setdefault(result.traits, Batch())
            batch.numbers.append(result.numbers)
            batch.question_ids.append(result.question_id)
            batch.samples.append(result.sample)

    def _group(self, template: str) -> Group:
        """Return the group of a template; create it if needed."""
        group = self._groups.get(template)
        if group is None:
            conditions = [
                condition
                for condition in self._right_conditions
                if condition.template in (None, template)
            ]
            group = self._groups[template] = Group(self._expected, conditions)
        return group

    def _in_order(self, templates: Iterable[str]) -> list[str]:
        """Return templates in the order of snapshots."""
        return sorted(templates, key=lambda name: (self._order.get(name, inf), name))

    def _place_templates(self, places: Iterable[tuple[str, int]]) -> None:
        """Give templates a place in the order of snapshots, unless they have a lower one."""
        for template, place in places:
            self._order[template] = min(place, self._order.get(template, place))
