"""How much of what a mean should cover it covers."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, TypeAlias

from graphrag_eval_async.aggregates.exact import ONE, mean
from graphrag_eval_async.records.metrics import is_metric
from graphrag_eval_async.records.outcomes import (
    CORRECTNESS,
    NO_ANSWER,
    OUTPUTS,
    REASON,
    RESPONSE_ERROR,
    TEXT,
    Tally,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from graphrag_eval_async.aggregates.series import Series

Tallies: TypeAlias = dict[Tally, int]
"""How often a metric failed in some way, or there was some reason of failure."""


def count(tallies: Tallies, more: Iterable[Tally], times: int = 1) -> None:
    """Count `more` so many times, which may be -1."""
    for tally in more:
        if total := tallies.get(tally, 0) + times:
            tallies[tally] = total
        else:
            del tallies[tally]


def add_tallies(tallies: Tallies, others: Mapping[Tally, int]) -> None:
    """Count all that `others` has counted."""
    for tally, total in others.items():
        tallies[tally] = tallies.get(tally, 0) + total


def reasons(tallies: Tallies) -> dict[str, int]:
    """How often there was which reason of failure, by name."""
    return {kind: total for (what, kind), total in sorted(tallies.items()) if what == REASON}


def covered_metrics(series: Iterable[str], tallies: Tallies, pending: Iterable[str]) -> set[str]:
    """The metrics that have a value somewhere, or should have.

    That the agent failed does not say so of any, and an output of which there are only texts is none.
    """
    failed = {what for what, kind in tallies if kind not in (RESPONSE_ERROR, NO_ANSWER)}
    texts = {what for what, kind in tallies if kind == TEXT}
    known = (failed - texts - {REASON, OUTPUTS}) | {*series, *pending, "steps_score"}
    return known | ({*CORRECTNESS} if known.intersection(CORRECTNESS) else set())


def coverage(metric: str, values: int, tallies: Tallies, pending: int) -> dict[str, Any]:
    """How many samples a metric applies to, and what came of it in them."""
    names = {metric} if is_metric(metric) else {metric, OUTPUTS}
    failed: Counter[str] = Counter()
    for (what, kind), total in sorted(tallies.items()):
        if what in names:
            failed[kind] += total
    applied = values + failed.total() + pending
    return {"applied": applied, "values": values, "failed": dict(sorted(failed.items())), "pending": pending}


def bounds(series: Series | None, failed: int) -> dict[str, float]:
    """The mean of a metric from 0 to 1 if each of the `failed` had been 0, and if it had been 1."""
    total, values = (0, 0) if series is None else (series.units, len(series))
    low, high = (mean(total + most, values + failed, integral=False) for most in (0, failed * ONE))
    return {"low": low, "high": high}
