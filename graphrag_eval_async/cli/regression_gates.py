"""Gates on the comparison of two runs: how much a metric may fall, and how many questions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from graphrag_eval_async.catalogue.conditions import (
    LEAST_RIGHT_VALUES,
    CheckedGate,
    check_bound,
    to_float,
)
from graphrag_eval_async.catalogue.metrics import ERROR_RATE, range_of
from graphrag_eval_async.cli.command_table import OptionValues
from graphrag_eval_async.errors import UsageError
from graphrag_eval_async.helpers.text import number, percent, plural
from graphrag_eval_async.inference.verdicts import NON_INFERIOR
from graphrag_eval_async.monitor.alerts import check_known
from graphrag_eval_async.reports.comparison_words import change_of, ends, missing, regressions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphrag_eval_async.inference.comparison import RunningComparison
    from graphrag_eval_async.inference.pairs import Drop

ROUNDING = 1e-12
"""A drop that is larger than allowed by so little is rounding."""


class MaxDrop(NamedTuple):
    """A gate: the mean of a metric may get worse by at most `most`."""

    metric: str
    most: float


def parse_max_drop(text: str) -> MaxDrop:
    """Parse the value of ``--max-drop``, which is written as ``METRIC=X``.

    Raises:
        ValueError: the text has another form, or X is more than the metric can change.
    """
    name, _, value = text.rpartition("=")
    metric = name.strip()
    most = to_float(value)
    if not metric or not 0 <= most < math.inf:
        raise ValueError(
            f"{text!r}: expected METRIC=X, with X not negative, such as steps_score=0.02"
        )
    if any(character in name for character in ":[]"):
        raise ValueError(
            f"{text!r}: expected a metric without a template or tag, since all results count"
        )
    low, high = range_of(metric)
    check_bound(f"a change of {metric}", most, (0, high - low))
    return MaxDrop(metric, most)


@dataclass(frozen=True, kw_only=True)
class RegressionOptions(OptionValues):
    """The options of gates on the comparison with a baseline."""

    max_drop: list[MaxDrop]
    non_inferior: list[MaxDrop]
    max_regressions: int | None
    fail_on_regression: bool
    allow_missing: bool

    def margin_by_metric(self) -> dict[str, float]:
        """Return the margins of ``--non-inferior`` by metric.

        Raises:
            UsageError: two margins are of the same metric.
        """
        margins = dict(self.non_inferior)
        if len(margins) < len(self.non_inferior):
            raise UsageError(
                "--non-inferior: a metric is given twice; expected one margin for each"
            )
        return margins


def check_regressions(
    options: RegressionOptions, comparison: RunningComparison, snapshot: Mapping[str, Any]
) -> list[CheckedGate]:
    """Check the gates on the comparison with a baseline.

    All gates fail if the candidate lacks questions of the baseline, unless `options` allow it.

    Args:
        options: the gates.
        comparison: the comparison of both runs.
        snapshot: the snapshot of the comparison.
    """
    gates = [_check_drop(gate, comparison, snapshot) for gate in options.max_drop]
    for metric, row in snapshot.get("non_inferior", {}).items():
        gates.append(_check_margin(metric, row, comparison.drop(metric)))
    if options.max_regressions is not None:
        gates.append(_check_count(options.max_regressions, comparison, snapshot))
    if options.fail_on_regression:
        gates += _check_verdicts(snapshot)

    lacking = missing(snapshot)
    if options.allow_missing or not lacking:
        return gates
    checked_gates = []
    for gate in gates:
        checked = gate
        if gate.holds:
            checked = CheckedGate(gate.name, False, f"{lacking}; {gate.explanation}")
        checked_gates.append(checked)
    return checked_gates


def _check_drop(
    gate: MaxDrop, comparison: RunningComparison, snapshot: Mapping[str, Any]
) -> CheckedGate:
    """Check a gate ``--max-drop``: how much the mean of a metric got worse.

    Whether the drop may be due to chance does not matter.

    Raises:
        UsageError: no result of either run has the metric.
    """
    name = f"--max-drop {gate.metric}={number(gate.most)}"
    drop = comparison.drop(gate.metric)
    if drop.means is None:
        check_known("--max-drop", None, gate.metric, (), comparison.metrics)
        shared_metrics = ", ".join(snapshot["overall"]) or "none"
        explanation = (
            f"{gate.metric}: no question has it on both sides; metrics on both sides: "
            f"{shared_metrics}"
        )
        return CheckedGate(name, False, explanation)

    difference = drop.means["difference"]
    loss = difference if drop.lower_is_better else -difference
    lacking = drop.lacking(gate.metric)
    # `ROUNDING` allows for errors of floating point in the means.
    holds = loss <= gate.most + ROUNDING and not lacking
    explanation = (
        f"{gate.metric} {change_of(drop.means)}: may get worse by at most {number(gate.most)}"
        f"{_errors_in_words(gate.metric, drop)}"
    )
    return CheckedGate(name, holds, _join_sentences(lacking, explanation))


def _check_margin(metric: str, row: Mapping[str, Any], drop: Drop) -> CheckedGate:
    """Check a gate ``--non-inferior``: whether a metric is worse by less than its margin.

    Args:
        metric: name of the metric.
        row: its row of `non_inferior` in a snapshot.
        drop: how it changed.
    """
    margin = number(row["margin"])
    is_shown = row["verdict"] == NON_INFERIOR
    explanation = metric
    if "difference" in row:
        explanation += f" {change_of(row)}"
    if "interval" in row:
        explanation += f", {percent(row['level'])} interval {ends(row['interval'])}"
    if "interval_note" in row:
        explanation += f" ({row['interval_note']})"
    explanation += f": {'not' if is_shown else 'may be'} worse by more than {margin}"
    if "reason" in row:
        explanation += f"; {row['reason']}"
    explanation += _errors_in_words(metric, drop)
    return CheckedGate(f"--non-inferior {metric}={margin}", is_shown, explanation)


def _errors_in_words(metric: str, drop: Drop) -> str:
    """Return how many errors a drop counts or leaves out, as the end of a sentence.

    It is "" if neither run has errors, or if the metric is the error rate itself.
    """
    errors_before = drop.baseline.errors
    errors_after = drop.candidate.errors
    if metric == ERROR_RATE or errors_before + errors_after == 0:
        return ""
    rule = "count as 0" if drop.errors_are_zeros else "are left out"
    return f"; errors {rule}, {errors_before} in the baseline and {errors_after} in the candidate"


def _check_count(
    most: int, comparison: RunningComparison, snapshot: Mapping[str, Any]
) -> CheckedGate:
    """Check the gate ``--max-regressions``.

    A regression is a question that is right in the baseline and not in the candidate.

    Args:
        most: the greatest number of regressions that is allowed.
        comparison: the comparison.
        snapshot: its snapshot.
    """
    count = len(snapshot["regressions"])
    explanation = f"{plural(count, 'regression')}, at most {most} allowed"
    # Only some metrics have a value from which on a question is right.
    can_be_right = any(metric in snapshot["overall"] for metric in LEAST_RIGHT_VALUES)
    if not can_be_right:
        metrics = ", ".join(LEAST_RIGHT_VALUES)
        explanation = f"no question has any of these on both sides: {metrics}; {explanation}"
    # If the candidate lacks values that the baseline has, the gate does not hold.
    lacking_by_metric = [comparison.drop(metric).lacking(metric) for metric in LEAST_RIGHT_VALUES]
    lacking = _join_sentences(*lacking_by_metric)
    holds = count <= most and can_be_right and not lacking
    return CheckedGate("--max-regressions", holds, _join_sentences(lacking, explanation))


def _check_verdicts(snapshot: Mapping[str, Any]) -> list[CheckedGate]:
    """Return a failed gate for each significant regression, or one that holds if there is none."""
    name = "--fail-on-regression"
    failed = [CheckedGate(name, False, reason) for reason in regressions(snapshot)]
    return failed or [CheckedGate(name, True, "no significant regression")]


def _join_sentences(*sentences: str) -> str:
    """Return the sentences that are not empty, with semicolons between them."""
    return "; ".join(filter(None, sentences))
