"""Which of two runs is better, in each row of a comparison."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from graphrag_eval_async.records.metrics import COST, ERROR_RATE, RESOURCES, is_bounded

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphrag_eval_async.inference.pairs import PairSums

NOTES = {
    "overall": "The verdict is by the confidence sequence of the mean difference, which holds at all times "
    "at once, or by p, that of the sign test, which is for one look at finished runs: either is enough.",
    "per_template": "The verdict is by p_holm: the p of the sign test, corrected by Holm's procedure for "
    "there being a test of the same metric for each template, but for templates in which so few questions "
    "changed that none could be decided (Tarone's modification). The confidence sequences are not corrected.",
    "sign_test": "It asks in how many questions the candidate is better or worse, not by how much; so it "
    "decides only where the mean difference points the same way. It leaves out questions of which one side "
    "has more values than the other.",
    "without_pair": "The verdict is by the sign test over the questions that have as many results on both "
    "sides: whether more of them lost their value than gained one.",
    "several": "Without any change, each verdict is worse with a probability of at most 1 - level, and "
    "likewise better; together, the templates of a metric count as one verdict. Different metrics are not "
    "corrected for: whoever reads many rows should take a higher level, such as 0.99.",
}
"""How verdicts come about."""

UNDECIDED = "undecided"

Row: TypeAlias = dict[str, Any]


def is_score(metric: str) -> bool:
    """Whether a metric says how good answers are, rather than what they take."""
    return metric not in RESOURCES and not metric.endswith(COST)


def lower_is_better(metric: str) -> bool:
    """Whether less of a metric is better; of outputs of custom evaluations, more is."""
    return metric == ERROR_RATE or not is_score(metric)


def look_at(metric: str, sums: PairSums, level: float) -> Row:
    """What may be looked at again and again: of a metric from 0 to 1, also whether it is decided."""
    rises, falls = sums.changes()
    wins, losses = (falls, rises) if lower_is_better(metric) else (rises, falls)
    row: Row = {
        "direction": f"{'lower' if lower_is_better(metric) else 'higher'} is better",
        "pairs": sums.pairs,
        **sums.means(),
        "wins": wins,
        "losses": losses,
        "ties": sums.pairs - wins - losses,
        "uneven": sums.uneven,
    }
    bounded = is_bounded(metric) or metric == ERROR_RATE or sums.are_fractions
    if bounded and (confidence := sums.confidence(level)):
        row["confidence"] = confidence
        row["verdict"] = _verdict(metric, (confidence["low"] > 0) - (confidence["high"] < 0))
    return row


def decide(
    overall: Mapping[str, PairSums], per_template: Mapping[str, Mapping[str, PairSums]], level: float
) -> tuple[dict[str, Row], dict[str, dict[str, Row]]]:
    """The rows of all and of templates, with what is for one look: p-values, and verdicts by them."""
    rows = {metric: _decided(metric, sums, level) for metric, sums in overall.items()}
    of_templates: dict[str, dict[str, Row]] = {template: {} for template in per_template}
    for metric in overall:
        groups = {template: group[metric] for template, group in per_template.items() if metric in group}
        for template, row in _corrected(metric, groups, level).items():
            of_templates[template][metric] = row
    return rows, of_templates


def decide_values(gained: int, lost: int, level: float) -> dict[str, Any]:
    """Whether more questions lost their value of a metric than gained one, for one look."""
    from graphrag_eval_async.inference.signs import sign_test

    p = sign_test(gained, lost)
    verdict = UNDECIDED if p >= 1 - level else "better" if gained > lost else "worse"
    return {"p": p, "verdict": verdict}


def _decided(metric: str, sums: PairSums, level: float) -> Row:
    row = _tested(metric, sums, level)
    if row.get("verdict", UNDECIDED) == UNDECIDED:
        row["verdict"] = _by_test(metric, sums, row["p"], level)
    return row


def _corrected(metric: str, groups: Mapping[str, PairSums], level: float) -> dict[str, Row]:
    """The rows of templates. Those in which nothing could be decided, however questions had changed, do not
    count in the correction: how many changed says nothing of whether they won or lost. It is the idea of
    Tarone (1990, "A modified Bonferroni method for discrete data").
    """
    from graphrag_eval_async.inference.signs import holm, sign_test

    rows = {template: _tested(metric, sums, level) for template, sums in groups.items()}
    counted = [t for t, sums in groups.items() if sign_test(sum(sums.even_changes()), 0) < 1 - level]
    p_holm = dict(zip(counted, holm([rows[template]["p"] for template in counted]), strict=True))
    for template, row in rows.items():
        row["p_holm"] = p_holm.get(template, row["p"])
        row["tested"] = template in p_holm
        row["verdict"] = _by_test(metric, groups[template], row["p_holm"], level)
    return rows


def _tested(metric: str, sums: PairSums, level: float) -> Row:
    from graphrag_eval_async.inference.signs import sign_test

    return {**look_at(metric, sums, level), "p": sign_test(*sums.even_changes())}


def _by_test(metric: str, sums: PairSums, p: float, level: float) -> str:
    """By a sign test, if the mean difference points the same way: many small losses may be made up for by
    few large wins.
    """
    rises, falls = sums.even_changes()
    difference = sums.means()["difference"]
    agree = difference > 0 if rises > falls else difference < 0
    return _verdict(metric, rises - falls) if p < 1 - level and agree else UNDECIDED


def _verdict(metric: str, change: int) -> str:
    if not change:
        return UNDECIDED
    return "better" if (change < 0) == lower_is_better(metric) else "worse"
