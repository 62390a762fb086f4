"""The aggregates of a stream of results, up to date after each of them."""

from __future__ import annotations

import copy
from collections import Counter, defaultdict
from math import inf
from typing import TYPE_CHECKING, Any, Self

from graphrag_eval_async.aggregates import state
from graphrag_eval_async.aggregates.coverage import covered_metrics
from graphrag_eval_async.aggregates.group import (
    Detail,
    Group,
    add_detail,
    bounded_sums,
    macro_of,
    metric,
    show_micro,
    slide,
    tallies_of,
)
from graphrag_eval_async.aggregates.pending import Pending
from graphrag_eval_async.aggregates.steps import checked_names
from graphrag_eval_async.aggregates.window import Alike, Last, Sample, Seconds, Sliding
from graphrag_eval_async.errors import UsageError, describe
from graphrag_eval_async.records.evaluation import Evaluation
from graphrag_eval_async.records.results import observe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from graphrag_eval_async.aggregates.exact import Sums
    from graphrag_eval_async.aggregates.group import Detailed
    from graphrag_eval_async.aggregates.series import Series

# So many results wait, at most, to be counted together; that takes about a millisecond.
BATCH = 1024


class Aggregates:
    """Statistics per template, micro (over all results) and macro (over the means of the templates).

    They are exact: sums and means are those of the numbers themselves, rounded once, as by `math.fsum` and
    `statistics.mean`. So results may come in any order, and be split and merged in any way: the snapshot is
    the same to the last bit. A value takes 16 bytes, 8 for its template and 8 for micro, and O(log n) to add;
    a snapshot only reads what was added since the last one.

    `templates` is the order in which the templates stand in a snapshot; others come after them, by name.
    `expect_steps` is called with `steps`. With `include_errors`, the metrics and steps that results with
    ``status: error`` have count as well.

    With a `window`, only its results count; a template, metric or step without any is absent. To forget a
    result in time, what counts of it is kept: about half a kilobyte, values included, if it has five metrics.
    Windows do not merge, and are not kept as bytes.

    Raises:
        UsageError: an argument has a value it cannot have.
    """

    __slots__ = (
        *("_expected", "_fractions", "_groups", "_include_errors", "_micro", "_order", "_pending"),
        *("_results", "_sliding", "_waiting"),
    )

    def __init__(
        self,
        *,
        include_errors: bool = False,
        templates: Iterable[str] = (),
        steps: Iterable[str] = (),
        window: Last | Seconds | None = None,
    ) -> None:
        if not isinstance(window, Last | Seconds | None):
            raise UsageError(f"window: expected Last(...) or Seconds(...), got {describe(window)}")
        self._include_errors = include_errors
        self._sliding = None if window is None else Sliding(window)
        self._expected: set[str] = set()  # The groups refer to it.
        self._groups: dict[str, Group] = {}
        self._micro: dict[str, Series] = {}
        self._order: dict[str, int] = {}
        self._pending = Pending()
        self._fractions: set[str] = set()
        # The values of results that have all else in common.
        self._waiting: dict[Alike, list[tuple[float, ...]]] = {}
        self._results = 0
        self.order_templates(templates)
        self.expect_steps(steps)

    def order_templates(self, templates: Iterable[str]) -> None:
        """Let a snapshot list `templates` in this order, before all others.

        A template that has a place already keeps the lower one; names decide between equal places.
        """
        places: dict[str, int] = {}
        for place, template in enumerate(checked_names(templates, "templates")):
            places.setdefault(template, place)
        self._place(places)

    def expect_steps(self, names: Iterable[str]) -> None:
        """Count steps of these names by name, however many others there are.

        Of all other names, each group counts the 1,000 with the smallest BLAKE2 hashes by name and the rest
        together, as `other`; so it does with names of more than 200 characters. Call this before results are
        added or merged: what is counted as `other` stays there.
        """
        self._expected.update(checked_names(names, "steps"))
        for group in self._groups.values():
            group.touch()

    def add(self, result: Mapping[str, Any] | Evaluation, *, age: float = 0.0) -> None:
        """Count one result: a dict with the keys that an evaluation gives it.

        One with metrics in `pending` is not counted: it comes again, whole.

        Args:
            result: is not changed.
            age: how many seconds ago it came, for a window of `Seconds`; add the oldest result first.

        Raises:
            AggregationError: it is not a result, or a metric of it is not a finite number of at most 64 bits;
                nothing of it has been counted then.
        """
        seen = result if type(result) is Evaluation else observe(result, include_errors=self._include_errors)
        if seen.pending is not None:
            self._pending.add(seen)
            return
        if self._pending.results:
            self._pending.remove(seen)
        if seen.fractions:
            self._fractions.update(seen.fractions)
        if seen is result and seen.failed and not self._include_errors:
            seen = seen.without_values()
        alike = (seen.template_id, seen.failed, seen.metrics, seen.steps, seen.tallies)
        if self._sliding is not None:
            self._sliding.add(alike, seen.numbers, age)
        elif (same := self._waiting.get(alike)) is not None:
            same.append(seen.numbers)
        else:
            self._waiting[alike] = [seen.numbers]
        self._results += 1 + len(seen.steps) // 16  # Until they are counted, all their names are kept.
        if self._results >= BATCH:
            self._flush()

    def snapshot(self) -> dict[str, Any]:
        """`per_template`, `micro` and `macro` over the results that count; the dict is the caller's own."""
        self._flush()
        per_template = {name: self._groups[name].snapshot() for name in self._in_order(self._groups)}
        micro = show_micro(self._groups.values(), self._micro, self._expected)
        macro = {metric: macro_of(metric, per_template) for metric in micro if metric in self._micro}
        return {"per_template": per_template, "micro": micro, "macro": macro}

    def overall(self) -> Detailed:
        """The `micro` of a detailed snapshot without `confidence`, and what that is made of for each metric.

        This takes little time, however many templates there are; an interval takes half a millisecond.
        """
        self._flush()
        return self._detailed_micro(self._detail(None)), bounded_sums(self._micro, self._fractions)

    def per_template(self) -> dict[str, Detailed]:
        """The same of each template, not to be changed; it is made again only of those that have changed."""
        self._flush()
        groups = self._groups_of(self._detail(None))
        return {name: group.detailed(own) for name, (group, own) in groups.items()}

    def prepare(self) -> Iterator[None]:
        """Make in steps what takes `per_template` long; results may come between them."""
        for group, own in self._groups_of(self._detail(None)).values():
            self._flush()
            group.detailed(own)
            yield

    def _details(self, confidence: Callable[[Sums], dict[str, float]] | None = None) -> dict[str, Any]:
        """A snapshot in detail; `confidence` shows the sums of a metric from 0 to 1 as an interval."""
        self._flush()
        detail = self._detail(confidence)
        per_template = {name: group.snapshot(own) for name, (group, own) in self._groups_of(detail).items()}
        micro = self._detailed_micro(detail)
        macro = {
            metric: shown
            for metric in micro
            if metric in detail.metrics
            if (shown := macro_of(metric, per_template))
        }
        return {"per_template": per_template, "micro": micro, "macro": macro}

    def _detail(self, confidence: Callable[[Sums], dict[str, float]] | None) -> Detail:
        """What is shown of all results."""
        pending = sum(self._pending.by_template().values(), Counter[str]())
        metrics = covered_metrics(self._micro, tallies_of(self._groups.values()), pending)
        return Detail(confidence, metrics, frozenset(self._fractions), pending)

    def _detailed_micro(self, detail: Detail) -> dict[str, Any]:
        groups = self._groups.values()
        micro = show_micro(groups, self._micro, self._expected)
        return add_detail(micro, self._micro, tallies_of(groups), detail)

    def _groups_of(self, detail: Detail) -> dict[str, tuple[Group, Detail]]:
        """The templates in their order, also if all results are pending, and what is shown of each."""
        pending = self._pending.by_template()
        groups = {name: Group() for name in pending} | self._groups
        details = {name: detail._replace(pending=pending.get(name, {})) for name in groups}
        return {name: (groups[name], details[name]) for name in self._in_order(groups)}

    def merge(self, other: Aggregates) -> Self:
        """Count all that `other` has counted, and take over its order of templates.

        Returns:
            these aggregates; `other` stays as it is.

        Raises:
            UsageError: only one of the two includes the metrics of errors, or either has a window.
        """
        if self._sliding or other._sliding:
            raise UsageError("window: windows do not merge")
        if self._include_errors != other._include_errors:
            raise UsageError("include_errors: must be the same in aggregates that are merged")
        if other is self:
            other = copy.deepcopy(self)
        self._flush()
        other._flush()
        self._place(other._order)
        self.expect_steps(other._expected)
        for name, group in other._groups.items():
            self._group(name).merge(group)
        for name, series in other._micro.items():
            metric(self._micro, name).merge(series)
        self._pending.merge(other._pending)
        self._fractions |= other._fractions
        return self

    def to_bytes(self) -> bytes:
        """All that is known, to go on from elsewhere; a snapshot has less.

        Raises:
            UsageError: there is a window.
        """
        if self._sliding:
            raise UsageError("window: windows are not kept as bytes")
        self._flush()
        order, pending = self._order, self._pending
        return state.dump(self._include_errors, order, self._groups, pending, self._fractions, self._expected)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """What `to_bytes` was called on.

        Raises:
            AggregationError: `data` is damaged, of another version, or something else altogether.
        """
        loaded = state.load(data)
        aggregates = cls(include_errors=loaded.include_errors)
        aggregates._groups, aggregates._micro = loaded.groups, loaded.micro
        aggregates._pending, aggregates._fractions = loaded.pending, loaded.fractions
        aggregates._place(loaded.order)
        aggregates._expected = loaded.expected
        return aggregates

    def _flush(self) -> None:
        self._results = 0
        if self._sliding:
            self._slide(self._sliding)
            return
        waiting, self._waiting = self._waiting, {}
        for (template, failed, metrics, steps, tallies), rows in waiting.items():
            group = self._group(template)
            group.count(failed, steps, tallies, len(rows))
            for name, values in zip(metrics, zip(*rows, strict=True), strict=bool(metrics)):
                metric(group.series, name).add(values)
                metric(self._micro, name).add(values)

    def _slide(self, sliding: Sliding) -> None:
        new, gone = sliding.slide()
        if len(gone) > len(sliding.samples):  # It is less work to begin again than to remove them.
            self._groups, self._micro = {}, {}
            new, gone = [*sliding.samples], []
        slide(self._micro, new, gone)
        changes: defaultdict[str, tuple[list[Sample], list[Sample]]] = defaultdict(lambda: ([], []))
        for side, samples in enumerate((new, gone)):
            for sample in samples:
                changes[sample.template][side].append(sample)
        for name, (came, went) in changes.items():
            group = self._group(name)
            group.slide(came, went)
            if not group.errors + group.successes:
                del self._groups[name]

    def _group(self, name: str) -> Group:
        group = self._groups.get(name)
        if group is None:
            group = self._groups[name] = Group(self._expected)
        return group

    def _in_order(self, templates: Iterable[str]) -> list[str]:
        return sorted(templates, key=lambda name: (self._order.get(name, inf), name))

    def _place(self, places: Mapping[str, int]) -> None:
        for template, place in places.items():
            self._order[template] = min(place, self._order.get(template, place))
