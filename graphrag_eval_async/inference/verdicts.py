"""Verdicts on which of two runs is better, overall and per template: confidence sequences and sign tests."""

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
    "overall": "The verdict follows from the confidence sequence of the mean difference, which is valid at "
    "any time, or from p of the sign test, which is valid for one look at finished runs. Either is enough.",
    "per_template": "The verdict follows from p_holm: p of the sign test, corrected by Holm's procedure for "
    "testing the same metric in several templates. Templates with too few changed questions to be decided do "
    "not count as tests (Tarone's modification). The confidence sequences are not corrected.",
    "sign_test": "The test counts the questions in which the candidate is better or worse, not by how much. "
    "So it decides only if the mean difference points the same way. It skips questions with more values on "
    "one side than on the other.",
    "without_pair": "The verdict follows from the sign test over questions with equally many results on both "
    "sides: did more of them lose their value than gain one?",
    "several": 'If nothing changed, each verdict is wrongly "worse" with a probability of at most 1 - level, '
    'and likewise "better"; the templates of a metric together count as one verdict. There is no correction '
    "for several metrics: to read many rows, choose a higher level, such as 0.99.",
}
"""Explanations of the verdicts."""

UNDECIDED = "undecided"

Row: TypeAlias = dict[str, Any]

Rows: TypeAlias = dict[str, dict[str, Any]]
"""``overall``, rows by metric, and ``per_template``, rows by template and metric."""

BITS = 1300
"""Fractional bits of the weights in a sign test; keeps rounding errors below the smallest double."""


@lru_cache(maxsize=4096)
def sign_test(wins: int, losses: int) -> float:
    """Return the p-value of the exact two-sided sign test, valid for one look; ties do not count.

    It is twice the binomial probability of at most as many of the rarer kind, capped at 1 (Dixon and Mood
    1946, "The statistical sign test").
    """
    n, rarer = wins + losses, min(wins, losses)
    # Binomial coefficients relative to the largest, as integers: errors of doubles would add up.
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
    """Return p-values adjusted for multiple tests.

    The probability that any true hypothesis gets a value below a bound is at most that bound, however the
    tests depend on each other. Source: Holm (1979), "A simple sequentially rejective multiple test
    procedure".
    """
    adjusted = [0.0] * len(p_values)
    highest = 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[place]))
        adjusted[place] = highest
    return adjusted


def is_score(metric: str) -> bool:
    """Whether a metric measures the quality of answers, not their cost."""
    return metric not in RESOURCES and not metric.endswith(COST)


def lower_is_better(metric: str) -> bool:
    """Whether lower values of a metric are better; for outputs of custom evaluations, higher ones are."""
    return metric == ERROR_RATE or not is_score(metric)


def position(metric: str) -> tuple[bool, tuple[int, str]]:
    """Return the sort key of a metric in rows."""
    return metric != ERROR_RATE, metric_position(metric)


class LiveSums(NamedTuple):
    """Immutable sums from which rows are computed; each new row takes about half a millisecond.

    Attributes:
        per_template: sums by template and metric.
        templates: by metric, the number of templates in which the baseline has it: an upper bound on the
            templates with pairs.
        fractions: outputs of custom evaluations that are from 0 to 1 by definition.
    """

    per_template: Mapping[str, Mapping[str, PairSums]]
    templates: Mapping[str, int]
    fractions: Collection[str]

    def look(self, level: float) -> Rows:
        """Return rows that are valid at any time: verdicts follow from confidence sequences alone.

        Rows of templates use a higher level, so that all templates of a metric together hold at `level`
        (Bonferroni's correction). The baseline fixes the number of templates, so that level is constant.
        """
        rows: Rows = {"overall": {}, "per_template": {}}
        for metric, groups in self._by_metric().items():
            rows["overall"][metric] = self._row(metric, reduce(PairSums.plus, groups.values()), level)
            shared = min(1 - (1 - level) / self.templates[metric], nextafter(1.0, 0.0))
            for template, sums in groups.items():
                rows["per_template"].setdefault(template, {})[metric] = self._row(metric, sums, shared)
        return rows

    def decide(self, level: float) -> Rows:
        """Return rows for one look at finished runs, with p-values and verdicts that use them."""
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
        """Return the sums that have pairs, by metric and template, both sorted.

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
        """Return the rows of one metric in all templates, corrected for multiple tests.

        Templates with too few changes for any decision do not count as tests: the number of changes is
        independent of wins and losses (Tarone 1990, "A modified Bonferroni method for discrete data").
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
    """Test whether more questions lost a metric's value than gained one; valid for one look."""
    p = sign_test(gained, lost)
    verdict = UNDECIDED if p >= 1 - level else "better" if gained > lost else "worse"
    return {"p": p, "verdict": verdict}


def _by_test(metric: str, sums: PairSums, p: float, level: float) -> str:
    """Return the verdict of a sign test; undecided unless the mean difference points the same way.

    A few large wins may outweigh many small losses.
    """
    rises, falls = sums.even_rises, sums.even_falls
    agree = sums.change > 0 if rises > falls else sums.change < 0
    return _verdict(metric, rises - falls) if p < 1 - level and agree else UNDECIDED


def _verdict(metric: str, change: int) -> str:
    if not change:
        return UNDECIDED
    return "better" if (change < 0) == lower_is_better(metric) else "worse"
