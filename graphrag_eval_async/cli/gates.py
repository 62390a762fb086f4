"""Gates: conditions that a run must meet, by itself or beside a baseline."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.errors import UsageError
from graphrag_eval_async.inference.comparison import RIGHT
from graphrag_eval_async.inference.verdicts import lower_is_better
from graphrag_eval_async.monitor.alerts import NO_LINES, check_known
from graphrag_eval_async.monitor.summary import CheckedGate
from graphrag_eval_async.monitor.wording import change_of, missing, regressions
from graphrag_eval_async.records.conditions import OPERATORS, check_bound, rounded, to_float
from graphrag_eval_async.records.metrics import (
    COST,
    ERROR_RATE,
    MISSING_RATE,
    counts_of,
    mean_of_questions,
    means_of,
    range_of,
    section_of,
)
from graphrag_eval_async.text import number

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from graphrag_eval_async.cli.options import Given
    from graphrag_eval_async.config import Config
    from graphrag_eval_async.inference.comparison import RunningComparison
    from graphrag_eval_async.monitor.alerts import Alert
    from graphrag_eval_async.records.conditions import Condition
    from graphrag_eval_async.reference import Reference


def check_gates(gates: Iterable[Condition], templates: Collection[str], config: Config | None) -> None:
    """Raise a `UsageError` if no result can have the template or the metric of a gate."""
    for gate in gates:
        metric = None if gate.metric == MISSING_RATE else gate.metric
        check_names("--gate", gate.template, metric, templates, config)
        _check_output(gate, config)


def check_alerts(alerts: Iterable[Alert], templates: Collection[str], config: Config | None) -> None:
    """Raise a `UsageError` if no result can have the template or the metric of an alert."""
    for alert in alerts:
        if alert.metric != NO_LINES:
            check_names(f"--alert {alert.text!r}", alert.template, alert.metric, templates, config)
            _check_output(alert, config)


def _check_output(condition: Condition | Alert, config: Config | None) -> None:
    """Raise a `UsageError` if an output of a custom evaluation from 0 to 1 has another bound."""
    if config is not None and config.custom_evaluations:
        from graphrag_eval_async.metrics.custom import kinds_of_outputs

        if condition.metric in kinds_of_outputs(config.custom_evaluations).get("fractions", ()):
            check_bound(condition.metric, condition.bound, (0, 1))


def check_names(
    option: str, template: str | None, metric: str | None, templates: Collection[str], config: Config | None
) -> None:
    """Raise a `UsageError`, which begins with `option`, if no result can have a template and a metric."""
    evaluations = config.custom_evaluations if config is not None else ()
    outputs = {f"{evaluation.name}{COST}" for evaluation in evaluations}
    outputs.update(*(evaluation.outputs for evaluation in evaluations))
    check_known(option, template, metric, templates, outputs)
    section = None if metric is None else section_of(metric)
    if section is not None and (config is None or section not in config.metrics):
        raise UsageError(
            f"{option}: nothing judges {metric!r}; a configuration (--config) with the section "
            f"`{section}: {{}}` does"
        )


def on_missing(gates: Iterable[Condition]) -> bool:
    """Whether a gate is on the share of questions without a response."""
    return any(gate.metric == MISSING_RATE for gate in gates)


def check_each(
    gates: Iterable[Condition],
    snapshot: Mapping[str, Any],
    reference: Reference | None = None,
    missing: Collection[str] = (),
) -> list[CheckedGate]:
    """Check gates; return all in their order. `missing` has the ids of the questions without a response."""
    values: dict[str | None, dict[str, float]] = {None: _means(snapshot["micro"])}
    for template, group in snapshot["per_template"].items():
        values[template] = _means(group)
    questions: dict[str | None, list[bool]] = {}
    for question in reference or ():
        for key in (None, question.template_id):
            questions.setdefault(key, []).append(question.id in missing)
    for key, absent in questions.items():
        values.setdefault(key, {})[MISSING_RATE] = sum(absent) / len(absent)
    return [_check(gate, values) for gate in gates]


def failed_and_held(checked: Sequence[CheckedGate]) -> tuple[list[str], list[str]]:
    """Separate the lines of gates that failed from those of gates that held."""
    return [gate.told for gate in checked if not gate.holds], [gate.told for gate in checked if gate.holds]


def _check(gate: Condition, values: Mapping[str | None, Mapping[str, float]]) -> CheckedGate:
    known, holds = values.get(gate.template), False
    if known is None:
        templates = ", ".join(template for template in values if template is not None) or "none"
        told = f"no results of such a template; there are: {templates}"
    elif gate.metric not in known:
        told = f"no values; metrics with values: {', '.join(known) or 'none'}"
    else:
        value = known[gate.metric]
        holds, told = OPERATORS[gate.operator](value, gate.bound), f"the mean is {rounded(value, gate.bound)}"
    return CheckedGate(gate.text, holds, f"{gate.text}: {told}")


def _means(group: Mapping[str, Any]) -> dict[str, float]:
    """The means over questions of the metrics, and of the share of errors among the samples."""
    means = {metric: mean_of_questions(stats) for metric, stats in means_of(group).items()}
    samples, errors = counts_of(group)
    if samples:
        means[ERROR_RATE] = group.get(ERROR_RATE, errors / samples)
    return means


@dataclass(frozen=True, slots=True)
class MaxDrop:
    """A gate: the mean of a metric may get worse by at most `most`."""

    metric: str
    most: float

    def check(self, comparison: RunningComparison, known: Iterable[str]) -> CheckedGate:
        """Return whether the gate holds, and why; `known` are the metrics on both sides."""
        name = f"--max-drop {self.metric}={number(self.most)}"
        drop = comparison.drop(self.metric)
        if (means := drop.means) is None:
            others = ", ".join(known) or "none"
            told = f"{self.metric}: no question has it on both sides; metrics on both sides: {others}"
            return CheckedGate(name, False, told)
        told = f"{self.metric} {change_of(means)}: may get worse by at most {number(self.most)}"
        if self.metric != ERROR_RATE and any(drop.errors):
            told += f"; errors {'count as 0' if drop.fills else 'are left out'}, "
            told += "{} in the baseline and {} in the candidate".format(*drop.errors)
        lower = lower_is_better(self.metric)
        holds = (means["difference"] if lower else -means["difference"]) <= self.most + 1e-12
        lacking = drop.lacking(self.metric)
        return CheckedGate(name, holds and not lacking, told + lacking)


def parse_max_drop(text: str) -> MaxDrop:
    """Parse ``METRIC=X``; another form, or more than the metric can change, is a `ValueError`."""
    metric, _, value = text.rpartition("=")
    most = to_float(value)
    if not metric.strip() or not 0 <= most < math.inf:
        raise ValueError(f"{text!r}: expected METRIC=X, with X of 0 or more, such as steps_score=0.02")
    low, high = range_of(metric := metric.strip())
    check_bound(f"a change of {metric}", most, (0, high - low))
    return MaxDrop(metric, most)


def check_regressions(
    given: Given, comparison: RunningComparison, snapshot: Mapping[str, Any]
) -> list[CheckedGate]:
    """Check the gates on the comparison with a baseline."""
    gates: list[CheckedGate] = [gate.check(comparison, snapshot["overall"]) for gate in given.max_drop]
    if (most := given.max_regressions) is not None:
        count = len(snapshot["regressions"])
        told = f"{count} regression{'s' * (count != 1)}, at most {most} allowed"
        if not (decided := RIGHT.keys() & snapshot["overall"].keys()):
            told += f", but no question has any of these on both sides: {', '.join(RIGHT)}"
        lacking = "".join(comparison.drop(metric).lacking(metric) for metric in RIGHT)
        holds = count <= most and bool(decided) and not lacking
        gates.append(CheckedGate("--max-regressions", holds, told + lacking))
    if given.fail_on_regression:
        name, reasons = "--fail-on-regression", regressions(snapshot)
        gates += [CheckedGate(name, False, reason) for reason in reasons]
        gates += [CheckedGate(name, True, "no regression by more than chance")] * (not reasons)
    if given.allow_missing or not (lacking := missing(snapshot)):
        return gates
    return [
        gate._replace(holds=False, told=f"{gate.told}, but {lacking}") if gate.holds else gate
        for gate in gates
    ]
