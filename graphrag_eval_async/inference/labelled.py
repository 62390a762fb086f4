"""Two runs whose judge is corrected by labels of people: both means, and the change."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.errors import AggregationError, describe
from graphrag_eval_async.inference.calibration import (
    Calibration,
    corrected_mean,
    estimate,
    interval_of,
    too_few,
)
from graphrag_eval_async.inference.labels import read_label
from graphrag_eval_async.inference.pairs import SIDES
from graphrag_eval_async.text import plural

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphrag_eval_async.inference.pairs import Side


class LabelledRuns:
    """Corrects the scores of a baseline and a candidate. Add all labels before the first result."""

    def __init__(self, level: float = 0.95) -> None:
        self._level = level
        self._sides = {side: Calibration(level=level) for side in SIDES}

    def add_label(self, label: Mapping[str, Any]) -> None:
        """Add a label, which is for the run with the line of its `sha256`, perhaps for both."""
        if (read := read_label(label)).sha256 is None or read.mark is None:
            told = "needs `sha256` and `drawn`, which sample-for-labels adds"
            raise AggregationError(f"label of question {describe(read.question_id)}: {told}")
        for calibration in self._sides.values():
            calibration.add_label(label)

    def add(self, side: Side, result: Mapping[str, Any]) -> None:
        """Add a result of one side."""
        self._sides[side].add_result(result)

    def snapshot(self) -> dict[str, Any]:
        """Return, by metric, both corrected means and their difference, or why there is none.

        They are over the results of the questions that have scores on both sides. The variance of the
        difference is clustered by question, since both sides ask the same ones.
        """
        baseline, candidate = self._sides.values()
        baseline.check_scored(candidate)
        shared = set.intersection(*({*own.scored} for own in self._sides.values()))
        row: dict[str, Any] = {"labels": {}, "warnings": []}
        known = {}
        for side, own in self._sides.items():
            pairs, scores, warnings = own.sample(shared)
            row["labels"][side] = len(pairs)
            row["warnings"] += [f"{side}: {told}" for told in warnings]
            if reason := too_few(len(pairs)):
                row.setdefault("reason", f"{side}: {reason}")
            else:
                known[side] = estimate(pairs, scores)
                row[side] = corrected_mean(known[side], self._level)
        if unused := (baseline.unused & candidate.unused).total():
            told = "not used: neither run has a score in the line of `sha256`"
            row["warnings"].append(f"{plural(unused, 'label')} {told}")
        if "reason" not in row:
            one, other = known["baseline"], known["candidate"]
            change, apart = other.mean - one.mean, Counter(other.deviations)
            apart.subtract(one.deviations)
            labelled = min(one.labelled, other.labelled)
            ends = interval_of(change, apart.values(), labelled, self._level, (-1.0, 1.0))
            if one == other:
                ends = {"reason": "no interval, since both runs have the same scores and labels"}
            row["difference"] = {"mean": change, **ends}
        return {own.metric(): row}
