"""Gates on the comparison with a baseline."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from graphrag_eval_async.cli import options
from graphrag_eval_async.inference.comparison import RIGHT, RunningComparison
from graphrag_eval_async.inference.verdicts import lower_is_better
from graphrag_eval_async.monitor.summary import CheckedGate
from graphrag_eval_async.monitor.wording import change_of, missing, regressions
from graphrag_eval_async.records.conditions import check_bound, to_float
from graphrag_eval_async.records.metrics import ERROR_RATE, range_of
from graphrag_eval_async.text import number


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


@dataclass(frozen=True, kw_only=True)
class RegressionGates:
    """The options of a command that may fail because a run got worse."""

    max_drop: Annotated[
        list[MaxDrop],
        options.gate_option(
            "--max-drop",
            parser=options.parser(parse_max_drop),
            metavar="METRIC=X",
            help="Fail if the mean of METRIC got worse by more than X, however uncertain. In scores up "
            "to 1, an error counts as 0. Repeatable.",
            **options.REPEATABLE,
        ),
    ]
    max_regressions: Annotated[
        int | None,
        options.gate_option(
            "--max-regressions",
            min=0,
            metavar="N",
            help="Fail if more than N questions were right in the baseline and no longer are.",
        ),
    ] = None
    fail_on_regression: Annotated[
        bool,
        options.gate_option(
            "--fail-on-regression",
            help="Fail if a primary metric got worse by more than chance, overall or in a template, "
            "if questions lost its values, or if there is no primary score to compare.",
        ),
    ] = False
    allow_missing: Annotated[
        bool,
        options.gate_option(
            "--allow-missing",
            help="Let these gates hold even if the run lacks questions of the baseline.",
        ),
    ] = False

    @property
    def regression_gates(self) -> dict[str, object]:
        """These options, true if they are given."""
        return {
            "--max-drop": self.max_drop,
            "--max-regressions": self.max_regressions is not None,
            "--fail-on-regression": self.fail_on_regression,
            "--allow-missing": self.allow_missing,
        }

    def check_regressions(
        self, comparison: RunningComparison, snapshot: Mapping[str, Any]
    ) -> list[CheckedGate]:
        gates = [gate.check(comparison, snapshot["overall"]) for gate in self.max_drop]
        if (most := self.max_regressions) is not None:
            count = len(snapshot["regressions"])
            told = f"{count} regression{'s' * (count != 1)}, at most {most} allowed"
            if not (decided := RIGHT.keys() & snapshot["overall"].keys()):
                told += f", but no question has any of these on both sides: {', '.join(RIGHT)}"
            lacking = "".join(comparison.drop(metric).lacking(metric) for metric in RIGHT)
            holds = count <= most and bool(decided) and not lacking
            gates.append(CheckedGate("--max-regressions", holds, told + lacking))
        if self.fail_on_regression:
            name, reasons = "--fail-on-regression", regressions(snapshot)
            gates += [CheckedGate(name, False, reason) for reason in reasons]
            gates += [CheckedGate(name, True, "no regression by more than chance")] * (not reasons)
        if self.allow_missing or not (lacking := missing(snapshot)):
            return gates
        return [
            gate._replace(holds=False, told=f"{gate.told}, but {lacking}") if gate.holds else gate
            for gate in gates
        ]
