"""Which of two runs is better, in each row of a comparison."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphrag_eval_async.aggregates.reading import is_bounded
from graphrag_eval_async.records.metrics import COST, ERROR_RATE, RESOURCES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from graphrag_eval_async.aggregates.pairs import PairSums

NOTES = {
    "overall": "The verdict is by the confidence sequence of the mean difference, which holds at all times "
    "at once; where there is none, by the sign test, which is for one look at finished runs.",
    "per_template": "The verdict is by p_holm: the p of the sign test, corrected by Holm's procedure for "
    "there being a test of the same metric for each template. The confidence sequences are not corrected.",
}
"""How rows come by their verdicts."""


def is_score(metric: str) -> bool:
    """Whether a metric says how good answers are, rather than what they take."""
    return metric not in RESOURCES and not metric.endswith(COST)


def lower_is_better(metric: str) -> bool:
    """Whether less of a metric is better; of outputs of custom evaluations, more is."""
    return metric == ERROR_RATE or not is_score(metric)


def look_at(metric: str, sums: PairSums, level: float) -> dict[str, Any]:
    """What may be looked at again and again: of a metric from 0 to 1, also whether it is decided."""
    rises, falls = sums.changes()
    wins, losses = (falls, rises) if lower_is_better(metric) else (rises, falls)
    row: dict[str, Any] = {
        "direction": f"{'lower' if lower_is_better(metric) else 'higher'} is better",
        "pairs": sums.pairs,
        **sums.means(),
        "wins": wins,
        "losses": losses,
        "ties": sums.pairs - wins - losses,
    }
    if (is_bounded(metric) or metric == ERROR_RATE) and (confidence := sums.confidence(level)):
        row["confidence"] = confidence
        sign = -1 if lower_is_better(metric) else 1
        row["verdict"] = _verdict(sign * (confidence["low"] > 0) - sign * (confidence["high"] < 0))
    return row


def decide(
    overall: Mapping[str, dict[str, Any]],
    per_template: Mapping[str, Mapping[str, dict[str, Any]]],
    level: float,
) -> None:
    """Add to rows what is for one look: p-values, and the verdicts that depend on them."""
    from graphrag_eval_async.aggregates.signs import holm, sign_test

    for row in _rows(overall, per_template):
        row["p"] = sign_test(row["wins"], row["losses"])
    for metric, row in overall.items():
        row.setdefault("verdict", _by_test(row, row["p"], level))
        rows = [group[metric] for group in per_template.values() if metric in group]
        for of_template, p in zip(rows, holm([row["p"] for row in rows]), strict=True):
            of_template["p_holm"] = p
            of_template["verdict"] = _by_test(of_template, p, level)


def _rows(
    overall: Mapping[str, dict[str, Any]], per_template: Mapping[str, Mapping[str, dict[str, Any]]]
) -> Iterable[dict[str, Any]]:
    yield from overall.values()
    for group in per_template.values():
        yield from group.values()


def _by_test(row: Mapping[str, Any], p: float, level: float) -> str:
    return _verdict((row["wins"] - row["losses"]) * (p < 1 - level))


def _verdict(sign: int) -> str:
    return "better" if sign > 0 else "worse" if sign < 0 else "undecided"
