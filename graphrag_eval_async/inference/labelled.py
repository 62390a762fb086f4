"""Two runs whose judge is corrected by labels of people: both means, and the change."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.errors import AggregationError, UsageError, describe
from graphrag_eval_async.inference.calibration import Calibration, corrected_mean, estimate, interval_of
from graphrag_eval_async.inference.labels import ALIASES, read_label
from graphrag_eval_async.inference.pairs import SIDES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphrag_eval_async.inference.pairs import Side


class LabelledRuns:
    """Corrects the scores of a baseline and a candidate. Add all labels before the first result."""

    def __init__(self, *, level: float = 0.95, chosen_at_random: bool = False) -> None:
        """See `compare`."""
        self._level, self._declared = level, chosen_at_random
        self._metrics: dict[str, dict[Side, Calibration]] = {}

    def add_label(self, label: Mapping[str, Any]) -> None:
        """Add a label, which is for the run with the line of its `sha256`, perhaps for both."""
        read = read_label(label)
        if read.sha256 is None:
            told = "needs `sha256`, which says which run's answer it is for; sample-for-labels adds it"
            raise AggregationError(f"label of question {describe(read.question_id)}: {told}")
        if read.value is not None:
            metric = ALIASES.get(read.metric, read.metric)
            if metric not in self._metrics:
                more: dict[str, Any] = {"level": self._level, "chosen_at_random": self._declared}
                self._metrics[metric] = {side: Calibration(metric, **more) for side in SIDES}
            for calibration in self._metrics[metric].values():
                calibration.add_label(label)

    def add(self, side: Side, result: Mapping[str, Any]) -> None:
        """Add a result of one side."""
        for sides in self._metrics.values():
            sides[side].add_result(result)

    def snapshot(self) -> dict[str, Any]:
        """Return, by metric, both corrected means and their difference, or why there is none.

        They are over the results of the questions that both sides have scores of. The variance of the
        difference is clustered by question, since both sides ask the same ones.
        """
        if not self._metrics:
            raise UsageError("labels: none has a value; fill in `value`")
        return {metric: self._row(sides) for metric, sides in sorted(self._metrics.items())}

    def _row(self, sides: Mapping[Side, Calibration]) -> dict[str, Any]:
        shared = set.intersection(*({*own.scored} for own in sides.values()))
        known = {side: own.sample(shared) for side, own in sides.items()}
        found: dict[str, Any] = {"labels": {side: len(pairs) for side, (pairs, _, _) in known.items()}}
        if not shared:
            return found | {"reason": "no question has it on both sides"}
        found["warnings"] = [f"{side}: {told}" for side, own in sides.items() for told in own.warnings]
        for side, (_, _, reason) in known.items():
            if reason is not None:
                return found | {"reason": f"{side}: {reason}"}
        one, other = (estimate(pairs, scores) for pairs, scores, _ in known.values())
        for side, (pairs, scores, _) in known.items():
            found[side] = corrected_mean(pairs, scores, self._level)
        apart = Counter(other.deviations)
        apart.subtract(one.deviations)
        change, labelled = other.mean - one.mean, min(one.labelled, other.labelled)
        ends = interval_of(change, apart.values(), labelled, self._level, (-1.0, 1.0))
        return found | {"difference": {"mean": change, **ends}}
