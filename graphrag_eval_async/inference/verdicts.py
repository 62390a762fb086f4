"""Which of two runs is better, overall and in each template: confidence sequences and sign tests."""

from __future__ import annotations

from collections import defaultdict
from functools import lru_cache, reduce
from math import nextafter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from graphrag_eval_async.inference.pairs import PairSums
from graphrag_eval_async.records.metrics import COST, ERROR_RATE, RESOURCES, is_bounded, metric_position

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

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

Rows: TypeAlias = dict[str, dict[str, Any]]
"""``overall``, rows by metric, and ``per_template``, rows by template and metric."""

BITS = 1300
"""Fractional bits of the weights in a sign test: the rounding error is below the smallest double."""


@lru_cache(maxsize=4096)
def sign_test(wins: int, losses: int) -> float:
    """The p-value, for one look only, of the exact two-sided sign test; ties are not counted.

    Twice the binomial probability of at most so many of the rarer kind, at most 1 (Dixon and Mood 1946, "The
    statistical sign test").
    """
    n, rarer = wins + losses, min(wins, losses)
    # Binomial coefficients relative to the largest, as integers, since the errors of doubles would add up.
    weight = 1 << BITS
    tail = lower = 0
    for size in range(n // 2, -1, -1):
        lower += weight
        if size <= rarer:
            tail += weight
        weight = weight * size // (n - size + 1)
        if not weight:
            break
    total = 2 * lower - (0 if n % 2 else 1 << BITS)
    return min(1.0, 2 * tail / total)


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusted p-values: of the hypotheses that are true, any is below a bound with at most that probability,
    however the tests depend on each other.

    Source: Holm (1979), "A simple sequentially rejective multiple test procedure".
    """
    adjusted = [0.0] * len(p_values)
    highest = 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[place]))
        adjusted[place] = highest
    return adjusted


def is_score(metric: str) -> bool:
    """Whether a metric says how good answers are, rather than what they cost."""
    return metric not in RESOURCES and not metric.endswith(COST)


def lower_is_better(metric: str) -> bool:
    """Whether less of a metric is better; of outputs of custom evaluations, more is."""
    return metric == ERROR_RATE or not is_score(metric)


def position(metric: str) -> tuple[bool, tuple[int, str]]:
    """A sort key: the order of metrics in rows."""
    return metric != ERROR_RATE, metric_position(metric)


class LiveSums(NamedTuple):
    """Immutable sums that rows are made of; each new row takes about half a millisecond.

    Attributes:
        per_template: sums by template and metric.
        templates: by metric, in how many templates the baseline has it: the most that may ever have pairs.
        fractions: outputs of custom evaluations that are from 0 to 1 by definition.
    """

    per_template: Mapping[str, Mapping[str, PairSums]]
    templates: Mapping[str, int]
    fractions: Collection[str]

    def look(self, level: float) -> Rows:
        """Rows that may be looked at again and again: verdicts are by confidence sequences alone.

        Those of templates have a higher level, so that all templates of a metric hold together at `level`
        (Bonferroni's correction). The baseline fixes how many there are, so the level stays the same.
        """
        rows: Rows = {"overall": {}, "per_template": {}}
        for metric, groups in self._by_metric().items():
            rows["overall"][metric] = self._row(metric, reduce(PairSums.plus, groups.values()), level)
            shared = min(1 - (1 - level) / self.templates[metric], nextafter(1.0, 0.0))
            for template, sums in groups.items():
                rows["per_template"].setdefault(template, {})[metric] = self._row(metric, sums, shared)
        return rows

    def decide(self, level: float) -> Rows:
        """Rows for one look at finished runs: with p-values, and verdicts by them."""
        rows: Rows = {"overall": {}, "per_template": {}}
        for metric, groups in self._by_metric().items():
            sums = reduce(PairSums.plus, groups.values())
            row = rows["overall"][metric] = self._tested(metric, sums, level)
            if row.get("verdict", UNDECIDED) == UNDECIDED:
                row["verdict"] = _by_test(metric, sums, row["p"], level)
            for template, row in self._corrected(metric, groups, level).items():
                rows["per_template"].setdefault(template, {})[metric] = row
        return rows

    def _by_metric(self) -> dict[str, dict[str, PairSums]]:
        """Sums of one pair or more, by metric and template, each in their order.

        The first metric is the error rate, which all templates have.
        """
        found: defaultdict[str, dict[str, PairSums]] = defaultdict(dict)
        for template, group in sorted(self.per_template.items()):
            for metric, sums in group.items():
                if sums.pairs:
                    found[metric][template] = sums
        return {metric: found[metric] for metric in sorted(found, key=position)}

    def _row(self, metric: str, sums: PairSums, level: float) -> Row:
        lower = lower_is_better(metric)
        wins, losses = (sums.falls, sums.rises) if lower else (sums.rises, sums.falls)
        row: Row = {
            "direction": f"{'lower' if lower else 'higher'} is better",
            "pairs": sums.pairs,
            **sums.means(),
            "wins": wins,
            "losses": losses,
            "ties": sums.pairs - wins - losses,
            "uneven": sums.pairs - sums.even,
        }
        is_fraction = is_bounded(metric) or metric == ERROR_RATE or metric in self.fractions
        if is_fraction and (confidence := sums.confidence(level)):
            row["confidence"] = confidence
            row["verdict"] = _verdict(metric, (confidence["low"] > 0) - (confidence["high"] < 0))
        return row

    def _tested(self, metric: str, sums: PairSums, level: float) -> Row:
        return {**self._row(metric, sums, level), "p": sign_test(sums.even_rises, sums.even_falls)}

    def _corrected(self, metric: str, groups: Mapping[str, PairSums], level: float) -> dict[str, Row]:
        """The rows of one metric in all templates, corrected for there being several tests.

        Templates that could not be decided, however their questions had changed, do not count: the number of
        changes says nothing about wins and losses (Tarone 1990, "A modified Bonferroni method for discrete
        data").
        """
        rows = {template: self._tested(metric, sums, level) for template, sums in groups.items()}
        counted = [
            template
            for template, sums in groups.items()
            if sign_test(sums.even_rises + sums.even_falls, 0) < 1 - level
        ]
        p_holm = dict(zip(counted, holm([rows[template]["p"] for template in counted]), strict=True))
        for template, row in rows.items():
            row["p_holm"] = p_holm.get(template, row["p"])
            row["tested"] = template in p_holm
            row["verdict"] = _by_test(metric, groups[template], row["p_holm"], level)
        return rows


def decide_values(gained: int, lost: int, level: float) -> dict[str, Any]:
    """Whether more questions lost their value of a metric than gained one, for one look."""
    p = sign_test(gained, lost)
    verdict = UNDECIDED if p >= 1 - level else "better" if gained > lost else "worse"
    return {"p": p, "verdict": verdict}


def _by_test(metric: str, sums: PairSums, p: float, level: float) -> str:
    """The verdict of a sign test, if the mean difference points the same way: few large wins may outweigh
    many small losses.
    """
    rises, falls = sums.even_rises, sums.even_falls
    agree = sums.change > 0 if rises > falls else sums.change < 0
    return _verdict(metric, rises - falls) if p < 1 - level and agree else UNDECIDED


def _verdict(metric: str, change: int) -> str:
    if not change:
        return UNDECIDED
    return "better" if (change < 0) == lower_is_better(metric) else "worse"
