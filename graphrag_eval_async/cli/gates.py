"""Gates: thresholds that a run has to meet."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.records.metrics import ERROR_RATE

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

    from graphrag_eval_async.reference import Reference

MISSING_RATE = "missing_rate"


@dataclass(frozen=True, slots=True)
class Gate:
    """A bound on the mean of one metric, over all results or those of one template."""

    template: str | None
    metric: str
    bound: float
    over: bool

    @property
    def name(self) -> str:
        """The metric as it was given, with its template."""
        return self.metric if self.template is None else f"{self.template}:{self.metric}"

    def holds(self, value: float) -> bool:
        """Whether `value` is on the right side of the bound, or equal to it."""
        return value <= self.bound if self.over else value >= self.bound


def parse_gate(text: str, *, over: bool) -> Gate:
    """The gate that ``[TEMPLATE:]METRIC=VALUE`` asks for; a template's name may hold colons and equals signs.

    Raises:
        ValueError: the text has another form.
    """
    name, _, value = text.rpartition("=")
    template, colon, metric = name.rpartition(":")
    if not metric:
        raise ValueError(f"{text!r}: expected METRIC=VALUE or TEMPLATE:METRIC=VALUE")
    try:
        bound = float(value)
    except ValueError:
        bound = math.nan
    if not math.isfinite(bound):
        raise ValueError(f"{text!r}: expected a finite number after the last =")
    return Gate(template if colon else None, metric, bound, over)


class Measures:
    """The values that gates check, over all results and by template."""

    def __init__(
        self, snapshot: Mapping[str, Any], reference: Reference | None, answered: Container[str]
    ) -> None:
        """The reference set and the ids of the answered questions give the missing rates."""
        self._values: dict[str | None, dict[str, float]] = {None: _means(snapshot["micro"])}
        for template, group in snapshot["per_template"].items():
            self._values[template] = _means(group)
        if reference is not None:
            self._add_missing_rates(reference, answered)

    def _add_missing_rates(self, reference: Reference, answered: Container[str]) -> None:
        questions: dict[str | None, list[bool]] = {}
        for question in reference:
            for template in (None, question.template_id):
                questions.setdefault(template, []).append(question.id not in answered)
        for template, absent in questions.items():
            self._values.setdefault(template, {})[MISSING_RATE] = sum(absent) / len(absent)

    def failure(self, gate: Gate) -> str | None:
        """Why a gate fails; None if it holds."""
        if gate.template not in self._values:
            return f"{gate.name}: no results of such a template; there are: {self._templates()}"
        values = self._values[gate.template]
        if gate.metric not in values:
            return f"{gate.name}: no values; metrics with values: {', '.join(values) or 'none'}"
        value = values[gate.metric]
        if gate.holds(value):
            return None
        return f"{gate.name}: {value} is {'over' if gate.over else 'under'} {gate.bound}"

    def _templates(self) -> str:
        return ", ".join(template for template in self._values if template is not None) or "none"


def _means(group: Mapping[str, Any]) -> dict[str, float]:
    """The means of the metrics, and the rate of errors among the samples."""
    means = {
        metric: stats["mean"]
        for metric, stats in group.items()
        if isinstance(stats, dict) and "mean" in stats
    }
    errors = group["number_of_error_samples"]
    if samples := errors + group["number_of_success_samples"]:
        means[ERROR_RATE] = errors / samples
    return means
