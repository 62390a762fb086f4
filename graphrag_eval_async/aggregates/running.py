"""Aggregates of a stream of results, up to date after each result."""

from __future__ import annotations

import copy
from collections import Counter, defaultdict
from heapq import nsmallest
from math import inf
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, Self

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
    cache_detailed_snapshot,
    detailed_snapshot,
    plain_snapshot,
    variance_of,
)
from graphrag_eval_async.aggregates.steps import checked_names
from graphrag_eval_async.aggregates.tags import TagGroups
from graphrag_eval_async.aggregates.waiting import Batch
from graphrag_eval_async.aggregates.window import Last, Seconds, SlidingWindow
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
"""Number of steps whose names take as much memory as the rest of a result that waits."""


class _GroupToShow(NamedTuple):
    """A template with its results and the options for a detailed snapshot of it."""

    template: str
    group: Group
    options: DetailOptions


class Aggregates:
    """Statistics per template, micro (over all results) and macro (over the means of the
    templates).

    Sums and means are exact and rounded once, as by `math.fsum` and `statistics.mean`. So the
    snapshot is the same, bit for bit, however results are ordered, split and merged. A value takes
    16 bytes, 8 for its template and 8 for micro, and O(log n) time to add. A snapshot only reads
    what was added since the last one.

    `templates` sets the order of templates in a snapshot; others follow by name. `steps` is passed
    to `expect_steps`. The metrics and steps of results with ``status: error`` do not count.

    With a `window`, only the results in the window count. Templates, metrics and steps without such
    results are absent. The window stores its results; one with five metrics takes about half a
    kilobyte. Once results have left the window, the next snapshot counts all others anew, which
    takes 15 milliseconds for 5,000. Windows cannot be merged or converted to bytes.

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
        self._sliding = None if window is None else SlidingWindow(window)
        self._is_finished = False
        self._right_conditions: tuple[Condition, ...] = RIGHT_CONDITIONS

        # The position of each template in snapshots, by name of template.
        self._order: dict[str, int] = {}
        # The results of each template.
        self._groups: dict[str, Group] = {}
        # The values of each metric over all templates, for micro statistics.
        self._micro: dict[str, Series] = {}
        self._tags = TagGroups(RIGHT_CONDITIONS)
        # The names of steps that are always counted by name; the groups share the set.
        self._expected: set[str] = set()
        # The scores of results that several judges scored, by metric.
        self._agreement: defaultdict[str, Agreement] = defaultdict(Agreement)
        # The names of outputs of custom evaluations that are from 0 to 1.
        self._fractions: set[str] = set()
        # Results that do not count until their judged version arrives.
        self._pending = Pending()

        # Results that were added and are not counted yet, and their number, in which a result with
        # many steps counts several times.
        self._waiting: Batches = {}
        self._waiting_size = 0

        self.order_templates(templates)
        self.expect_steps(steps)

    def order_templates(self, templates: Iterable[str]) -> None:
        """List `templates` in this order in snapshots, before all other templates.

        A template that already has a position keeps the earlier one. Templates with the same
        position are sorted by name.
        """
        names = checked_names(templates, "templates")
        self._set_positions([(name, position) for position, name in enumerate(names)])

    def expect_steps(self, names: Iterable[str]) -> None:
        """Count steps with these names separately, however many names there are.

        For each template, 1,000 other names are counted separately: those with the smallest BLAKE2
        hashes. All remaining names, and names of more than 200 characters, are counted together as
        `other`. Call this before adding or merging results, since steps that were counted as
        `other` stay there.
        """
        self._expected.update(checked_names(names, "steps"))
        for group in self._groups.values():
            group.invalidate()

    def _set_right_conditions(self, conditions: Iterable[Condition]) -> None:
        """Set the conditions that a result must meet to count as right.

        Call this before adding results, and do not merge aggregates with other conditions.
        """
        self._right_conditions = tuple(conditions)
        self._tags = TagGroups(self._right_conditions, self._tags.first_keys)

    def _count_tags_first(self, keys: Iterable[str]) -> None:
        """Count the tags of these keys before others, if there are more tags than are counted.

        Call this before adding or merging results.
        """
        self._tags.first_keys = frozenset(keys)

    def _step_names(self) -> dict[str, tuple[list[str], Collection[str]]]:
        """Return, for each template, the names of the agent's steps and the ids of its questions.

        The names of steps that are counted together as `other` are missing.
        """
        self._flush()
        return {
            template: (list(group.steps.by_name), group.index_by_question)
            for template, group in self._groups.items()
        }

    def _count_answers(self) -> int:
        """Return the number of successful results that have an answer.

        The results must not have been judged: then answer relevance has an outcome only where there
        is no answer.
        """
        self._flush()
        answers = 0
        for group in self._groups.values():
            answers += group.successes - group.outcomes["answer_relevance", NO_ANSWER]
        return answers

    def add(self, result: Mapping[str, Any] | Evaluation, *, age: float = 0.0) -> None:
        """Add one result: a dict with the keys of an evaluated result.

        A result with metrics in `pending` does not count, since its complete version follows.

        Args:
            result: the result; it is not changed.
            age: how many seconds ago the result arrived, for a window of `Seconds`; add the oldest
                first.

        Raises:
            AggregationError: `result` is not a result, or one of its metrics is not a finite number
                of at most 64 bits. Then nothing of it is counted.
        """
        # `observe` returns an evaluation that did not fail as it is, so it need not be called.
        if type(result) is Evaluation and not result.failed:
            self._count(result, age)
        else:
            self._count(observe(result), age)

    def _count(self, evaluation: Evaluation, age: float = 0.0) -> None:
        """Put a result into the batch of results that share its traits, to be counted with them.

        This runs for each result, so it does as little as possible.

        Args:
            evaluation: the result, with only those metrics and steps that count.
            age: how many seconds ago the result arrived, for a window of `Seconds`.
        """
        self._is_finished = False
        traits: Traits | None = evaluation.shared_traits
        if traits is None:
            if evaluation.pending is not None:
                self._pending.add(evaluation)
                return
            # Only judged results can have these; results with `shared_traits` were not judged.
            self._add_fractions_and_votes(evaluation)
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
            # The batch also keeps the names of the steps in memory.
            self._waiting_size += len(traits.steps) // MANY_STEPS
        # As `Batch.add` does, without the time of a call.
        batch.numbers.append(evaluation.numbers)
        batch.question_ids.append(evaluation.question_id)
        batch.samples.append(evaluation.sample)
        self._waiting_size += 1
        if self._waiting_size >= BATCH:
            self._flush()

    def _add_fractions_and_votes(self, evaluation: Evaluation) -> None:
        """Add the names of outputs that are from 0 to 1, and the scores that several judges gave.

        In a window, the scores are not added, since they could not be removed when it moves on.
        """
        if evaluation.fractions:
            self._fractions.update(evaluation.fractions)
        if self._sliding is None:
            for metric, scores_by_judge in evaluation.votes:
                self._agreement[metric].add(scores_by_judge)

    def finish(self) -> None:
        """Record that all results were added, and that their values did not decide when to stop.

        After this, a detailed snapshot shows confidence intervals that are valid for a single look.
        They are narrower than intervals that are valid at any time. Adding another result undoes
        this. A stream calls it at its end, unless `until`, `stop()` or leaving its loop ended it.
        """
        self._is_finished = True

    def snapshot(self) -> dict[str, Any]:
        """Return `per_template`, `micro` and `macro` over the results that count, as a new dict.

        Each metric has its `mean` over all values. It also has its `mean_of_questions`, unless a
        result does not name its question: the mean of the questions' means. If several judges gave
        scores, `agreement` has for each metric the mean score of each judge and how well the judges
        agree. It is absent for a window.
        """
        self._flush()
        per_template = {
            template: plain_snapshot(self._groups[template])
            for template in self._in_order(self._groups)
        }
        return self._assemble_snapshot(
            per_template=per_template,
            per_tag=self._tags.snapshot(plain_snapshot),
            micro=plain_snapshot(self._total()),
            metrics=self._micro,
        )

    def question_scores(self, metric: str, template: str | None = None) -> Iterator[QuestionScore]:
        """Yield the mean of a score for each question, in which each error counts as 0.

        Yields nothing if no result has the metric. Results may be added during the iteration.

        Args:
            metric: the name of the score.
            template: the template whose questions to yield; None for those of all templates.
        """
        self._flush()
        if metric not in self._micro:
            return
        for name, group in list(self._groups.items()):
            if template is None or name == template:
                yield from group.question_scores(name, metric)

    def lowest(self, metric: str, count: int) -> list[QuestionScore]:
        """Return the `count` questions with the lowest means of a score, the lowest first."""
        return nsmallest(count, self.question_scores(metric), key=attrgetter("rank"))

    def cumulative_counts(self, metric: str, bounds: Sequence[float]) -> list[int]:
        """Return, for each bound, how many values of a metric are less than or equal to it."""
        self._flush()
        series = self._micro.get(metric)
        if series is None:
            return [0] * len(bounds)
        return [series.values.rank(bound) for bound in bounds]

    def overall(self) -> dict[str, Any]:
        """Return `micro` of a detailed snapshot, without confidence intervals.

        Each metric has `weights` instead, from which its intervals can be computed. So this is
        fast, however many templates there are; an interval takes half a millisecond.
        """
        self._flush()
        return detailed_snapshot(self._total(), self._detail_options(intervals=None))

    def variances(self) -> dict[str, Variance]:
        """Return, for each score, a function that computes its variance between and within
        questions.

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
        """The templates in the order of snapshots, even those whose results are all pending."""
        self._flush()
        return self._in_order(self._groups.keys() | self._pending.by_template())

    def per_template(self, templates: Container[str] | None = None) -> dict[str, dict[str, Any]]:
        """Return a detailed snapshot of each template, without confidence intervals.

        The snapshots are cached, so the caller must not change them.

        Args:
            templates: the templates to return; None for all.
        """
        self._flush()
        return {
            item.template: cache_detailed_snapshot(item.group, item.options)
            for item in self._groups_to_show(intervals=None, templates=templates)
        }

    def per_tag(self) -> dict[str, Any]:
        """Return a detailed snapshot of each tag, without confidence intervals.

        The snapshots are cached, so the caller must not change them.
        """
        self._flush()
        options = self._detail_options_of_tags(intervals=None)
        return self._tags.snapshot(lambda group: cache_detailed_snapshot(group, options))

    def prepare(self, templates: Container[str] | None = None) -> Iterator[None]:
        """Compute and cache the snapshots that `per_template` and `per_tag` return, one a step.

        The caller may add results between the steps. Only groups that these belong to are then
        computed again.

        Args:
            templates: the templates to prepare, without tags; None for all templates and tags.
        """
        groups = [
            (item.group, item.options)
            for item in self._groups_to_show(intervals=None, templates=templates)
        ]
        if templates is None:
            options_of_tags = self._detail_options_of_tags(intervals=None)
            groups += [(group, options_of_tags) for group in self._tags.groups.values()]
        for group, options in groups:
            # Count the results that the caller has added since the last step.
            self._flush()
            cache_detailed_snapshot(group, options)
            yield

    def _detailed_snapshot(self, intervals: Intervals) -> dict[str, Any]:
        """Return a detailed snapshot of all templates and tags.

        Args:
            intervals: computes the confidence intervals of a score.
        """
        self._flush()
        per_template = {
            item.template: detailed_snapshot(item.group, item.options)
            for item in self._groups_to_show(intervals)
        }
        options = self._detail_options(intervals)
        options_of_tags = self._detail_options_of_tags(intervals)
        return self._assemble_snapshot(
            per_template=per_template,
            per_tag=self._tags.snapshot(lambda group: detailed_snapshot(group, options_of_tags)),
            micro=detailed_snapshot(self._total(), options),
            metrics=options.metrics,
        )

    def _assemble_snapshot(
        self,
        *,
        per_template: dict[str, Any],
        per_tag: dict[str, Any],
        micro: dict[str, Any],
        metrics: Container[str],
    ) -> dict[str, Any]:
        """Return a complete snapshot from its parts; add macro means and agreement of judges.

        Args:
            per_template: the snapshot of each template.
            per_tag: the keys of the snapshot that are about tags.
            micro: the snapshot of all results.
            metrics: the metrics that `micro` may show, besides counts.
        """
        macro = {}
        for name in micro:
            if name in metrics:
                macro_stats = macro_of(name, per_template)
                if macro_stats:
                    macro[name] = macro_stats

        snapshot = {"per_template": per_template, **per_tag, "micro": micro, "macro": macro}
        if self._agreement:
            snapshot["agreement"] = {
                metric: self._agreement[metric].snapshot()
                for metric in sorted(self._agreement, key=metric_position)
            }
        return snapshot

    def _detail_options(self, intervals: Intervals | None) -> DetailOptions:
        """Return the options for a detailed snapshot of all results.

        Args:
            intervals: computes the confidence intervals of a score; None to show `weights` instead.
        """
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

    def _detail_options_of_tags(self, intervals: Intervals | None) -> DetailOptions:
        """Return the options for a detailed snapshot of a tag.

        They have no pending values: the tags of a result are not known until it is complete.

        Args:
            intervals: computes the confidence intervals of a score; None to show `weights` instead.
        """
        return self._detail_options(intervals).with_pending({})

    def _total(self) -> Group:
        """Return a group that stands for the results of all templates, to take a snapshot of."""
        return Group.total_of(self._groups.values(), self._micro, self._expected)

    def _groups_to_show(
        self, intervals: Intervals | None, templates: Container[str] | None = None
    ) -> Iterator[_GroupToShow]:
        """Yield the group of each template in the order of snapshots, with its detail options.

        A template whose results are all pending has an empty group.

        Args:
            intervals: computes the confidence intervals of a score; None to show `weights` instead.
            templates: the templates to yield; None for all.
        """
        options = self._detail_options(intervals)
        pending = self._pending.by_template()
        for template in self._in_order(self._groups.keys() | pending):
            if templates is None or template in templates:
                yield _GroupToShow(
                    template=template,
                    group=self._groups.get(template) or Group(),
                    options=options.with_pending(pending.get(template, {})),
                )

    def _recount_as_later_sample(self, result: Evaluation) -> None:
        """Remove the values of a result from the histograms, which have first samples only.

        The result was added as the first sample of its question. Then another process turned out
        to have an earlier sample of the same question.
        """
        self._flush()
        groups = [self._groups[result.template_id]]
        groups += [self._tags.groups[tag] for tag in result.tags if tag in self._tags.groups]
        for metric, values in values_by_metric(result.metrics, [result.numbers]):
            all_series = [group.series[metric] for group in groups]
            all_series.append(self._micro[metric])
            for series in all_series:
                if series.histogram is not None:
                    series.histogram.remove(values)

    def merge(self, other: Aggregates) -> Self:
        """Add the results of other aggregates, and adopt their order of templates.

        Returns:
            these aggregates; `other` does not change.

        Raises:
            UsageError: one of the two has a window; or both lack tags, and other keys of tags came
                first.
        """
        if self._sliding or other._sliding:
            raise UsageError("window: aggregates with a window cannot be merged")
        if other is self:
            # A dict cannot be changed while it is read.
            other = copy.deepcopy(self)
        self._flush()
        other._flush()
        self._is_finished = False

        self._set_positions(other._order.items())
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
        """Return the complete state as bytes, from which `from_bytes` restores it.

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
        """Return aggregates with the state that `to_bytes` returned.

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
        """Count the results that were added and are not counted yet."""
        if self._sliding is not None:
            self._queue_changes_of_window(self._sliding)
        waiting = self._waiting
        self._waiting = {}
        self._waiting_size = 0

        tagged = {traits: batch for traits, batch in waiting.items() if traits.tags}
        if tagged:
            self._tags.add(tagged)
            # The groups of templates ignore tags. Joining batches that differ only in tags makes
            # them larger, which is faster.
            for traits, batch in tagged.items():
                del waiting[traits]
                untagged = traits.without_tags()
                waiting.setdefault(untagged, Batch()).extend(batch)
        for traits, batch in waiting.items():
            self._group(traits.template_id).add(traits, batch, self._micro)

    def _queue_changes_of_window(self, sliding: SlidingWindow) -> None:
        """Queue the new results of a sliding window for counting.

        If results have left the window, this resets all counts and queues every result that is
        still in the window.
        """
        changes = sliding.take_changes()
        if changes.must_recount:
            self._groups = {}
            self._micro = {}
            self._tags = TagGroups(self._right_conditions, self._tags.first_keys)
        for result in changes.results_to_count:
            batch = self._waiting.setdefault(result.traits, Batch())
            batch.add(numbers=result.numbers, question_id=result.question_id, sample=result.sample)

    def _group(self, template: str) -> Group:
        """Return the group of a template; add an empty one if there is none."""
        group = self._groups.get(template)
        if group is None:
            # A condition without a template is on all templates.
            conditions_on_template = [
                condition
                for condition in self._right_conditions
                if condition.template in (None, template)
            ]
            group = Group(expected=self._expected, right_conditions=conditions_on_template)
            self._groups[template] = group
        return group

    def _in_order(self, templates: Iterable[str]) -> list[str]:
        """Return templates in the order of snapshots: those with a position, then by name."""
        return sorted(templates, key=lambda name: (self._order.get(name, inf), name))

    def _set_positions(self, positions: Iterable[tuple[str, int]]) -> None:
        """Set the positions of templates in snapshots; a template keeps an earlier position."""
        for template, position in positions:
            self._order[template] = min(position, self._order.get(template, position))
