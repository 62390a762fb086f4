"""Verdicts on which of two runs is better, overall and per template, or no worse by more than a
margin.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from functools import lru_cache
from itertools import chain
from math import isfinite, nextafter
from typing import TYPE_CHECKING, Any, TypeAlias

from graphrag_eval_async.catalogue.conditions import check_bound
from graphrag_eval_async.catalogue.metrics import (
    BOUNDED_METRICS,
    ERROR_RATE,
    is_primary,
    lower_is_better,
    metric_position,
    range_of,
)
from graphrag_eval_async.errors import UsageError, describe
from graphrag_eval_async.helpers.text import did_you_mean
from graphrag_eval_async.inference.one_look import change_interval
from graphrag_eval_async.inference.pairs import PairSums
from graphrag_eval_async.inference.power import detectable_change
from graphrag_eval_async.inference.sign_flips import least_p, sign_flip_test

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from graphrag_eval_async.inference.pairs import Drop, Pair

NOTES = {
    "verdict": "A verdict needs both: p_adjusted below 1 - level, and an interval that excludes "
    "0. p is of the paired sign-flip permutation test of the mean difference, for one look at "
    "finished runs. If p_adjusted is not below 1 - level, the interval is extended to 0; if the "
    "interval contains 0, p_adjusted is at least 1 - level.",
    "primary": "Only primary metrics have a verdict. They share the error budget: those overall, "
    "and those of all templates. A metric takes no share, and is not decidable, if the questions "
    "in which it differs are too few for any verdict (Tarone 1990). p_adjusted is p times the "
    "number of shares, and the intervals are at a level that is higher accordingly: with a "
    "probability of at least level, no verdict is wrong, and no interval of a decidable metric. "
    "The interval of any other metric holds for itself alone.",
    "no_change": "The verdict if each question has the same value in both runs.",
    "detectable": "The change that a comparison of as many questions, with the spread of these "
    "changes, "
    "decides with a power of 80%; null if they are too few for any.",
    "confidence": (
        "The confidence sequence of the mean difference is valid at any time, and so wider."
    ),
    "without_pair": "The verdict follows from the sign test over questions with equally many "
    "results on both "
    "sides: did more of them lose their value than gain one?",
    "non_inferior": "The interval of a metric from 0 to 1 is not that of its row: it is also over "
    "three more changes, two losses and one gain of 1, for questions that were not asked. Errors "
    "count as 0 in metrics up to 1.",
    "regressions": "A question is right if all of its first samples are, of which as many count "
    "as the side with fewer samples has.",
}
"""Explanations of the verdicts."""

UNDECIDED = "undecided"
"""The verdict on a change that may be due to chance."""

NO_CHANGE = "no_change"
"""The verdict on a metric that has the same value in both runs for each question."""

BETTER, WORSE = "better", "worse"
"""The verdicts on a change that is not due to chance."""

NON_INFERIOR = "non_inferior"
"""The verdict on a metric that is worse by less than a margin, if at all."""

UNSEEN_CHANGES = (-1.0, -1.0, 1.0)
"""Changes that `non_inferiority` adds to those of a metric from 0 to 1, if higher is better.

They stand for questions that were not asked. Without the two losses, a candidate that loses
everything in few questions would pass too often, since none of these may have been asked.
"""

ADDS_UNSEEN = (
    "not that of the change alone: three questions are added for those that were not asked, two "
    "lose 1 and one gains 1"
)
AND_NOT_SHARED = "; that of the change shares its error with other metrics"
NOT_SHARED = "not that of the change, which shares its error with other metrics"
"""Why the interval that `non_inferiority` needs differs from that of the row of the metric."""

Row: TypeAlias = dict[str, Any]

Rows: TypeAlias = dict[str, dict[str, Any]]
"""``overall``, rows by metric, and ``per_template``, rows by template and metric."""


@lru_cache(maxsize=4096)
def sign_test(wins: int, losses: int) -> float:
    """Return the p-value of the exact two-sided sign test, valid for one look; ties do not count.

    Take the smaller of the two counts. If wins and losses were equally likely, it would be that
    small or smaller with some binomial probability. The p-value is twice that, but at most 1
    (Dixon and Mood 1946, "The statistical sign test").
    """
    count = wins + losses
    ways = 1  # The number of ways to choose `size` questions, first 0 of them.
    ways_in_all = 1
    for size in range(min(wins, losses)):
        ways = ways * (count - size) // (size + 1)
        ways_in_all += ways
    return min(1.0, 2 * ways_in_all / (1 << count))


def position(metric: str) -> tuple[bool, tuple[int, str]]:
    """Return the sort key of a metric in rows, of which the error rate is the first."""
    return metric != ERROR_RATE, metric_position(metric)


def check_known(option: str, names: Iterable[str], known: Collection[str]) -> None:
    """Check that results have the metrics that an option names.

    Args:
        option: the option, for messages.
        names: the metrics that it names.
        known: the metrics that results have.

    Raises:
        UsageError: results do not have one of the metrics.
    """
    for name in names:
        if name not in known:
            hint = did_you_mean(name, sorted(known, key=position))
            raise UsageError(f"{option}: no result has the metric {name!r}; {hint}")


def is_fraction(metric: str, fractions: Collection[str]) -> bool:
    """Whether a metric is from 0 to 1 by definition."""
    return metric in BOUNDED_METRICS or metric == ERROR_RATE or metric in fractions


def number_of_shares(least_p_values: Sequence[float], alpha: float) -> int:
    """Return how many tests share an error budget: those that can use their share.

    The number k is the smallest for which at most k of the tests can have a p-value below
    ``alpha / k``. A test that cannot, since it has too few questions that differ, does not count:
    Tarone (1990), "A modified Bonferroni method for discrete data".

    Args:
        least_p_values: for each test, the smallest p-value that it can have.
        alpha: the error budget, 1 minus the level.
    """
    for shares in range(1, len(least_p_values)):
        tests_that_can_decide = sum(shares * least < alpha for least in least_p_values)
        if tests_that_can_decide <= shares:
            return shares
    return max(1, len(least_p_values))


def finished_rows(
    per_template: Mapping[str, Mapping[str, Sequence[Pair]]],
    fractions: Collection[str],
    level: float,
    primary: Collection[str] | None,
    lower_outputs: Collection[str],
) -> Rows:
    """Return rows for one look at finished runs; those of primary metrics have a verdict.

    The verdicts on all questions share one error budget evenly, and those on templates share
    another one. An even share holds for intervals as well as for verdicts: Dunn (1961, "Multiple
    comparisons among means").

    Args:
        per_template: the pairs of values, by template and metric.
        fractions: names of outputs of custom evaluations that are from 0 to 1.
        level: with this probability, no verdict is wrong.
        primary: the metrics to decide; see `is_primary` for the default.
        lower_outputs: names of outputs of custom evaluations of which lower values are better.
    """
    pairs_by_metric = _group_by_metric(per_template)
    all_pairs = {metric: [*chain(*groups.values())] for metric, groups in pairs_by_metric.items()}
    decided = [metric for metric in pairs_by_metric if is_primary(metric, primary, fractions)]

    # Among how many tests the error budget is shared, overall and for templates.
    alpha = 1 - level
    shares_overall = number_of_shares([_least_p(all_pairs[metric]) for metric in decided], alpha)
    least_p_of_templates = [
        _least_p(pairs) for metric in decided for pairs in pairs_by_metric[metric].values()
    ]
    shares_of_templates = number_of_shares(least_p_of_templates, alpha)

    # None as the number of shares stands for a metric without a verdict.
    rows: Rows = {"overall": {}, "per_template": {}}
    for metric, groups in pairs_by_metric.items():
        is_decided_metric = metric in decided
        lower = metric in lower_outputs or lower_is_better(metric)
        is_bounded = is_fraction(metric, fractions)
        rows["overall"][metric] = _finished_row(
            all_pairs[metric],
            lower=lower,
            is_fraction=is_bounded,
            level=level,
            shares=shares_overall if is_decided_metric else None,
        )
        for template, pairs in groups.items():
            row = _finished_row(
                pairs,
                lower=lower,
                is_fraction=is_bounded,
                level=level,
                shares=shares_of_templates if is_decided_metric else None,
            )
            rows["per_template"].setdefault(template, {})[metric] = row
    return rows


def rows_of_comparisons(
    comparisons: Mapping[str, Mapping[str, Sequence[Pair]]],
    *,
    fractions: Collection[str],
    level: float,
    primary: Collection[str] | None,
    lower_outputs: Collection[str],
) -> dict[str, dict[str, Row]]:
    """Return a row for each comparison and primary metric, all of which share an error budget.

    With a probability of `level`, no verdict in all of these rows is wrong.

    Args:
        comparisons: the pairs of values, by comparison and metric.
        fractions: names of outputs of custom evaluations that are from 0 to 1.
        level: confidence level of all verdicts together.
        primary: the metrics to decide; see `is_primary` for the default.
        lower_outputs: names of outputs of which lower values are better.
    """
    # The primary metrics of each comparison, with their pairs.
    decided = {
        name: {
            metric: pairs_by_metric[metric]
            for metric in sorted(pairs_by_metric, key=position)
            if is_primary(metric, primary, fractions)
        }
        for name, pairs_by_metric in comparisons.items()
    }
    least_p_values = [
        _least_p(pairs)
        for pairs_by_metric in decided.values()
        for pairs in pairs_by_metric.values()
    ]
    shares = number_of_shares(least_p_values, 1 - level)
    return {
        name: {
            metric: _finished_row(
                pairs,
                lower=metric in lower_outputs or lower_is_better(metric),
                is_fraction=is_fraction(metric, fractions),
                level=level,
                shares=shares,
            )
            for metric, pairs in pairs_by_metric.items()
        }
        for name, pairs_by_metric in decided.items()
    }


def _least_p(pairs: Sequence[Pair]) -> float:
    """Return the smallest p-value that changes of these sizes can have."""
    return least_p([pair.change for pair in pairs])


def _finished_row(
    pairs: Sequence[Pair], *, lower: bool, is_fraction: bool, level: float, shares: int | None
) -> Row:
    """Return the row of a metric in a comparison: its means, counts, interval and verdict.

    Args:
        pairs: the values of the metric in the two runs, for each question.
        lower: whether lower values are better.
        is_fraction: whether the metric is from 0 to 1 by definition.
        level: confidence level of all tests that share the error budget together.
        shares: number of tests that share the error budget; None if the metric has no verdict.
    """
    sums = PairSums.of(pairs)
    changes = [pair.change for pair in pairs]
    row = _means_and_counts(sums, lower=lower)
    # A journal may hold values that the metric does not allow.
    is_bounded = is_fraction and sums.inside == sums.pairs
    shared_level = level_of_share(level, shares or 1)
    ends = change_interval(changes, shared_level, bounded=is_bounded)

    if shares is not None:
        row["p"] = sign_flip_test(changes)
        row["decidable"] = shares * least_p(changes) < 1 - level
        detectable = detectable_change(changes, shared_level, bounded=is_bounded)
        if detectable is not None:
            # JSON has no infinity: None says that so few questions detect no change at all.
            row["detectable"] = detectable if isfinite(detectable) else None
        ends = _add_verdict(row, ends, lower=lower, alpha=1 - level, shares=shares)

    if ends is not None and all(map(isfinite, ends)):
        low, high = ends
        row["interval"] = {"level": shared_level, "low": low, "high": high, "kind": "one_look"}
    if is_bounded:
        row["confidence"] = sums.confidence(level)
    return row


def level_of_share(level: float, shares: int) -> float:
    """Return the confidence level of a single test, if several tests share the error of a level.

    It is below 1, even if `level` is the highest double below 1.
    """
    return min(1 - (1 - level) / shares, nextafter(1.0, 0.0))


def _add_verdict(
    row: Row,
    ends: tuple[float, float] | None,
    *,
    lower: bool,
    alpha: float,
    shares: int,
) -> tuple[float, float] | None:
    """Add `p_adjusted` and `verdict` to a row, and return an interval that agrees with them.

    A verdict needs both a small p-value and an interval that excludes 0. If there is only one of
    the two, the other is changed: the p-value is raised, or the interval is extended to 0.

    Args:
        row: the row of the metric, with its `p` and its counts.
        ends: the interval of its change; None if it has none.
        lower: whether lower values are better.
        alpha: the error budget.
        shares: number of tests that share it.
    """
    change = row["difference"]
    if ends is None:
        # Without an interval, the p-value alone decides, unless the change is 0.
        low = change
        high = change
    else:
        low, high = ends
    adjusted = min(1.0, shares * row["p"])
    if low <= 0 <= high:
        adjusted = max(adjusted, alpha)
    row["p_adjusted"] = adjusted
    if adjusted < alpha:
        row["verdict"] = _verdict_on_change(change, lower=lower)
        return ends
    row["verdict"] = NO_CHANGE if row["ties"] == row["pairs"] else UNDECIDED
    if ends is None:
        return None
    return min(low, 0.0), max(high, 0.0)


def _group_by_metric(
    per_template: Mapping[str, Mapping[str, Sequence[Pair]]],
) -> dict[str, dict[str, Sequence[Pair]]]:
    """Regroup pairs that are given by template and metric; return them by metric and template.

    Metrics and templates are sorted. The first metric is the error rate, which all templates have.
    """
    groups: defaultdict[str, dict[str, Sequence[Pair]]] = defaultdict(dict)
    for template, pairs_by_metric in sorted(per_template.items()):
        for metric, pairs in pairs_by_metric.items():
            groups[metric][template] = pairs
    return {metric: groups[metric] for metric in sorted(groups, key=position)}


def _means_and_counts(sums: PairSums, *, lower: bool) -> Row:
    """Return the first keys of a row: the direction, the means, and counts of wins and losses.

    Args:
        sums: sums over the pairs of values of a metric.
        lower: whether lower values are better, so that a fall is a win.
    """
    wins = sums.falls if lower else sums.rises
    losses = sums.rises if lower else sums.falls
    return {
        "direction": "lower is better" if lower else "higher is better",
        "pairs": sums.pairs,
        **sums.means(),
        "wins": wins,
        "losses": losses,
        "ties": sums.pairs - wins - losses,
    }


def is_decided(row: Mapping[str, Any]) -> bool:
    """Tell whether a row, or the `without_pair` of a metric, has the verdict better or worse."""
    return row.get("verdict") in (BETTER, WORSE)


def decide_values(gained: int, lost: int, level: float) -> dict[str, Any]:
    """Test whether the candidate has a value of a metric for more or for fewer questions.

    Args:
        gained: number of questions that have a value only in the candidate.
        lost: number of questions that have a value only in the baseline.
        level: the confidence level.

    Returns:
        a dict with `p`, the p-value of a sign test for one look, and the `verdict`.
    """
    p = sign_test(gained, lost)
    if p >= 1 - level:
        verdict = UNDECIDED
    elif gained > lost:
        verdict = BETTER
    else:
        verdict = WORSE
    return {"p": p, "verdict": verdict}


def _verdict_on_change(change: float, *, lower: bool) -> str:
    """Return the verdict on a change of a metric that is not due to chance.

    Args:
        change: the change.
        lower: whether lower values are better.
    """
    if change == 0:
        return UNDECIDED
    is_better = change < 0 if lower else change > 0
    return BETTER if is_better else WORSE


def check_margins(margins: object) -> None:
    """Check the margins of a non-inferiority test, by metric.

    Raises:
        UsageError: a margin is not above 0, or is larger than the metric can change.
    """
    if not isinstance(margins, Mapping):
        raise UsageError(
            f"non_inferior: expected a dict of margins by metric, got {describe(margins)}"
        )
    for metric, margin in margins.items():
        if not isinstance(margin, int | float) or not margin > 0:
            raise UsageError(
                f"non_inferior: {metric}: expected a margin above 0, got {describe(margin)}"
            )
        low, high = range_of(metric)
        check_bound(f"non_inferior: a change of {metric}", margin, (0, high - low))


def non_inferiority(
    drop: Drop,
    metric: str,
    margin: float,
    level: float,
    *,
    bounded: bool,
    row: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return whether a metric is shown to be worse by less than a margin.

    The whole interval of the mean change must be better than the margin. So a candidate that is
    worse by the margin passes at most (1 - level) / 2 of comparisons. If several metrics must all
    pass, the same holds for all together: Berger (1982), "Multiparameter hypothesis testing and
    acceptance sampling".

    Args:
        drop: how the metric changed.
        metric: its name.
        margin: above 0.
        level: confidence level of the interval; the error is not shared with other metrics.
        bounded: whether values of the metric are from 0 to 1.
        row: the metric's row in `overall`, if it has one.

    Returns:
        a row with `verdict`, `margin`, `level`, number of `pairs`, means and `interval`. It has an
        `interval_note` if the interval differs from that of `row`, and a `reason` if the interval
        cannot decide.
    """
    result: dict[str, Any] = {"margin": margin, "level": level, "pairs": len(drop.changes)}
    result |= {"verdict": UNDECIDED, **(drop.means or {})}
    interval = _interval_of_margin(drop, level, bounded=bounded)
    if interval is None:
        result["reason"] = "too few questions have it on both sides, or all changes agree"
        return result

    # Say so if this interval differs from the one in the row of the metric.
    interval_of_row = None if row is None else row.get("interval")
    if bounded:
        result["interval_note"] = ADDS_UNSEEN
        if interval_of_row is not None and interval_of_row["level"] != level:
            result["interval_note"] += AND_NOT_SHARED
    elif interval_of_row is not None and interval_of_row["level"] == level:
        # The row has an interval of the same changes and the same level: show that one.
        interval = interval_of_row
    elif interval_of_row is not None:
        result["interval_note"] = NOT_SHARED
    result["interval"] = interval

    lacking = drop.lacking(metric)
    if lacking:
        result["reason"] = lacking
        return result
    # The metric is non-inferior if even the worst end of the interval is within the margin.
    worst_change = interval["low"]
    if drop.lower_is_better:
        worst_change = -interval["high"]
    if worst_change > -margin:
        result["verdict"] = NON_INFERIOR
    return result


def _interval_of_margin(drop: Drop, level: float, *, bounded: bool) -> Mapping[str, Any] | None:
    """Return the interval of the mean change for a test of non-inferiority.

    It is Hall's interval, see `change_interval`. If the metric is `bounded`, from 0 to 1, the
    interval is over the changes and `UNSEEN_CHANGES`, so that it holds even if losses are rare and
    large.

    Returns:
        None if there are too few changes, or if all are equal.
    """
    if not drop.changes:
        return None
    changes = [*drop.changes]
    if bounded:
        sign = -1.0 if drop.lower_is_better else 1.0
        changes += [sign * change for change in UNSEEN_CHANGES]
    ends = change_interval(changes, level, bounded=False)
    if ends is None:
        return None
    low, high = ends
    return {"level": level, "low": low, "high": high, "kind": "one_look"}
