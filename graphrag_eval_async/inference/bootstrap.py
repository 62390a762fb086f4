"""Bootstrap intervals of the agreement between judges, or between people."""

from __future__ import annotations

from collections import defaultdict
from random import Random
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

RESAMPLES, GROUPS, SEED = 1_999, 400, 20
LEAST = 10
"""Questions that an interval needs."""


def intervals(votes: Iterable[tuple[str, Mapping[str, float]]], level: float) -> dict[str, dict[str, Any]]:
    """Return the intervals of `alpha` and, for two judges, of `kappa`; see `Agreement`.

    They are the percentiles of `RESAMPLES` draws of as many questions with replacement: Efron and
    Tibshirani (1993), "An Introduction to the Bootstrap", section 13.3. More than `GROUPS` questions are
    drawn in groups, so the work is bounded. There is no interval for fewer than `LEAST` questions, if
    all scores agree in one draw of twenty, or if all draws give the same.

    Args:
        votes: the question of each result, and two or more scores by judge.
        level: confidence level, between 0 and 1.
    """
    by_question: defaultdict[str, list[tuple[float, ...]]] = defaultdict(list)
    for question, own in votes:
        judges, values = len(own), [float(own[judge]) for judge in sorted(own)]
        total, squares = sum(values), sum(value * value for value in values)
        apart = (judges * squares - total * total) / (judges - 1)
        by_question[question].append((judges, total, squares, apart, values[0]))
    random, questions = Random(SEED), sorted(by_question)  # noqa: S311
    random.shuffle(questions)
    groups = [questions[start::GROUPS] for start in range(min(GROUPS, len(questions)))]
    sums = [_added(sorted(each for name in group for each in by_question[name])) for group in groups]
    draws: dict[str, list[float]] = {"alpha": [], "kappa": []}
    for _ in range(RESAMPLES if len(questions) >= LEAST else 0):
        n, total, squares, apart, first = _added(random.choices(sums, k=len(sums)))
        for name, count, expected in (
            ("alpha", n - 1, n * squares - total * total),
            ("kappa", n / 2, n / 2 * squares - 2 * first * (total - first)),
        ):
            if expected > 1e-9 * n * squares:
                draws[name].append(1 - count * apart / expected)
    found = {}
    for name, values in draws.items():
        values.sort()
        last = int((len(values) + 1) * (1 - level) / 2) or 1
        if len(values) > 0.95 * RESAMPLES and (low := values[last - 1]) < (high := values[-last]):
            found[name] = {"level": level, "low": low, "high": high, "kind": "one_look"}
    return found


def _added(rows: Sequence[Sequence[float]]) -> list[float]:
    return [*map(sum, zip(*rows, strict=True))]
