"""Verdicts on which of two runs is better, overall and per template."""

from __future__ import annotations

from collections import defaultdict
from functools import lru_cache, reduce
from itertools import chain
from math import isfinite, nextafter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from graphrag_eval_async.aggregates.histogram import Histogram
from graphrag_eval_async.inference.pairs import PairSums, change_confidence, halves
from graphrag_eval_async.inference.sign_flips import SubsetMeans
from graphrag_eval_async.records.metrics import (
    BOUNDED_METRICS,
    ERROR_RATE,
    is_primary,
    is_score,
    metric_position,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from graphrag_eval_async.inference.pairs import Pair, Snapshot

NOTES = {
    "verdict": "The verdict follows from p_holm: p of the paired sign-flip permutation test of the mean "
    "difference, for one look at finished runs, corrected by Holm's procedure. The interval inverts the "
    "same test at the corrected level, so it contains 0 just if the verdict is undecided.",
    "families": "All metrics overall are corrected together, and so are all metrics of all templates: if "
    "nothing changed, there is a wrong verdict in such a family with a probability of at most 1 - level. "
    "Rows with too few changed questions to be decided do not count as tests (Tarone's modification).",
    "sign_test": "sign_test_p counts the questions in which the candidate is better or worse, not by how "
    "much. It skips questions with more values on one side than on the other, is not corrected, and decides "
    "nothing.",
    "confidence": "The confidence sequence of the mean difference is valid at any time, and so wider.",
    "without_pair": "The verdict follows from the sign test over questions with equally many results on both "
    "sides: did more of them lose their value than gain one?",
}
"""Explanations of the verdicts."""

UNDECIDED = "undecided"

Row: TypeAlias = dict[str, Any]

Rows: TypeAlias = dict[str, dict[str, Any]]
"""``overall``, rows by metric, and ``per_template``, rows by template and metric."""


@lru_cache(maxsize=4096)
def sign_test(wins: int, losses: int) -> float:
    """Return the p-value of the exact two-sided sign test, valid for one look; ties do not count.

    It is twice the binomial probability of at most as many of the rarer kind, capped at 1 (Dixon and Mood
    1946, "The statistical sign test").
    """
    n, ways, total = wins + losses, 1, 1
    for size in range(min(wins, losses)):
        ways = ways * (n - size) // (size + 1)
        total += ways
    return min(1.0, 2 * total / (1 << n))


def holm(p_values: Sequence[float], alpha: float) -> list[tuple[float, float]]:
    """Return each p-value adjusted for multiple tests, and the level at which it is compared.

    The probability that any true hypothesis gets a value below a bound is at most that bound, however the
    tests depend on each other. After the first test that does not reject at `alpha`, the procedure stops: the
    level stays. Source: Holm (1979), "A simple sequentially rejective multiple test procedure".
    """
    corrected = [(0.0, alpha)] * len(p_values)
    highest, stopped = 0.0, None
    for rank, place in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        left, p = len(p_values) - rank, p_values[place]
        highest = max(highest, min(1.0, left * p))
        level = alpha / left if stopped is None else stopped
        if p >= level:
            stopped = level
        corrected[place] = highest, level
    return corrected


def lower_is_better(metric: str) -> bool:
    """Whether lower values of a metric are better; for outputs of custom evaluations, higher ones are."""
    return metric == ERROR_RATE or not is_score(metric)


def position(metric: str) -> tuple[bool, tuple[int, str]]:
    """Return the sort key of a metric in rows."""
    return metric != ERROR_RATE, metric_position(metric)


def is_fraction(metric: str, fractions: Collection[str]) -> bool:
    """Whether a metric is from 0 to 1 by definition."""
    return metric in BOUNDED_METRICS or metric == ERROR_RATE or metric in fractions


class LiveSnapshot(NamedTuple):
    """Immutable sums of a comparison at one time; each new row takes about half a millisecond.

    Attributes:
        per_template: sums by template and metric.
        templates: by metric, the number of templates in which the baseline has it: an upper bound on the
            templates with pairs.
        fractions: outputs of custom evaluations that are from 0 to 1 by definition.
        primary: the metrics that are decided; see `is_primary` for the default.
    """

    per_template: Mapping[str, Mapping[str, Snapshot]]
    templates: Mapping[str, int]
    fractions: Collection[str]
    primary: Collection[str] | None = None

    def rows(self, level: float) -> Rows:
        """Return rows that are valid at any time: verdicts follow from confidence sequences alone.

        Rows of templates use a higher level, so that all templates of a metric together hold at `level`
        (Bonferroni's correction). The baseline fixes the number of templates, so that level is constant.
        """
        rows: Rows = {"overall": {}, "per_template": {}}
        for metric, groups in _by_metric(self.per_template).items():
            sums = reduce(PairSums.plus, [group.sums for group in groups.values()])
            together = Histogram()
            for group in groups.values():
                together.merge(group.halves)
            rows["overall"][metric] = self._row(metric, sums, together, level)
            shared = min(1 - (1 - level) / self.templates[metric], nextafter(1.0, 0.0))
            for template, group in groups.items():
                row = self._row(metric, group.sums, group.halves, shared)
                rows["per_template"].setdefault(template, {})[metric] = row
        return rows

    def _row(self, metric: str, sums: PairSums, halves: Histogram, level: float) -> Row:
        row = _counts(metric, sums)
        if sums.inside == sums.pairs and is_fraction(metric, self.fractions):
            confidence = row["confidence"] = change_confidence(halves, level)
            if is_primary(metric, self.primary, self.fractions):
                row["verdict"] = _verdict(metric, (confidence["low"] > 0) - (confidence["high"] < 0))
        return row


def finished_rows(
    per_template: Mapping[str, Mapping[str, Sequence[Pair]]], fractions: Collection[str], level: float
) -> Rows:
    """Return rows for one look at finished runs, with the sign-flip test and its interval.

    Args:
        per_template: pairs by template and metric.
        fractions: outputs of custom evaluations that are from 0 to 1 by definition.
        level: confidence level, between 0 and 1.
    """
    by_metric = _by_metric(per_template)
    overall = {("", metric): [*chain(*groups.values())] for metric, groups in by_metric.items()}
    templates = {
        (template, metric): pairs
        for metric, groups in by_metric.items()
        for template, pairs in groups.items()
    }
    rows: Rows = {"overall": {}, "per_template": {}}
    for (_, metric), row in _family(overall, fractions, level, thorough=True):
        rows["overall"][metric] = row
    for (template, metric), row in _family(templates, fractions, level):
        rows["per_template"].setdefault(template, {})[metric] = row
    return rows


def _family(
    pairs: Mapping[tuple[str, str], Sequence[Pair]],
    fractions: Collection[str],
    level: float,
    *,
    thorough: bool = False,
) -> Iterator[tuple[tuple[str, str], Row]]:
    """Yield rows that are corrected together for multiple tests.

    Rows with too few changes for any decision do not count as tests: the number of changes is independent of
    their signs (Tarone 1990, "A modified Bonferroni method for discrete data").
    """
    alpha = 1 - level
    tests = {key: SubsetMeans([pair.change for pair in own], thorough=thorough) for key, own in pairs.items()}
    counted = [
        key for key, own in pairs.items() if 2.0 ** (1 - sum(pair.change != 0 for pair in own)) < alpha
    ]
    corrected = dict(zip(counted, holm([tests[key].p for key in counted], alpha), strict=True))
    for key, own in pairs.items():
        (_, metric), test = key, tests[key]
        sums = PairSums.of(own)
        row = _counts(metric, sums)
        row["p"] = test.p
        if not test.is_exact:
            row["p_error"] = test.p_error
        row["p_holm"], own_alpha = corrected.get(key, (test.p, alpha))
        row["tested"] = key in corrected
        is_decided = row["tested"] and row["p_holm"] < alpha
        row["verdict"] = _verdict(metric, (sums.change > 0) - (sums.change < 0)) if is_decided else UNDECIDED
        bounded = is_fraction(metric, fractions) and sums.inside == sums.pairs
        low, high = test.interval(own_alpha)
        if bounded:
            low, high = max(low, -1.0), min(high, 1.0)
        if len(own) > 1 and low < high and isfinite(low) and isfinite(high):
            row["interval"] = {"level": 1 - own_alpha, "low": low, "high": high, "kind": "one_look"}
        if bounded:
            histogram = Histogram()
            histogram.add(halves(own))
            row["confidence"] = change_confidence(histogram, level)
        # If an agent is right nine times in ten, one sample mostly beats the mean of five.
        even = [pair.change for pair in own if pair.is_even]
        row["sign_test_p"] = sign_test(sum(change > 0 for change in even), sum(change < 0 for change in even))
        yield key, row


def _by_metric(per_template: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return what has pairs, by metric and template, both sorted.

    The first metric is the error rate, which all templates have.
    """
    found: defaultdict[str, dict[str, Any]] = defaultdict(dict)
    for template, group in sorted(per_template.items()):
        for metric, own in group.items():
            found[metric][template] = own
    return {metric: found[metric] for metric in sorted(found, key=position)}


def _counts(metric: str, sums: PairSums) -> Row:
    lower = lower_is_better(metric)
    wins, losses = (sums.falls, sums.rises) if lower else (sums.rises, sums.falls)
    return {
        "direction": f"{'lower' if lower else 'higher'} is better",
        "pairs": sums.pairs,
        **sums.means(),
        "wins": wins,
        "losses": losses,
        "ties": sums.pairs - wins - losses,
        "uneven": sums.pairs - sums.even,
    }


def decide_values(gained: int, lost: int, level: float) -> dict[str, Any]:
    """Test whether more questions lost a metric's value than gained one; valid for one look."""
    p = sign_test(gained, lost)
    verdict = UNDECIDED if p >= 1 - level else "better" if gained > lost else "worse"
    return {"p": p, "verdict": verdict}


def _verdict(metric: str, change: int) -> str:
    if not change:
        return UNDECIDED
    return "better" if (change < 0) == lower_is_better(metric) else "worse"
