"""Intervals of how far judges, or people, agree, by a bootstrap over questions."""

from __future__ import annotations

from collections import defaultdict
from random import Random
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphrag_eval_async.records.evaluation import Evaluation

RESAMPLES, GROUPS, SEED = 1_999, 400, 20
LEAST = 10
"""Questions from which on there is an interval."""


class VotesByQuestion:
    """What several judges or people said of results, by question: 2 or more values of each result."""

    def __init__(self) -> None:
        self._sums: defaultdict[str, list[tuple[float, ...]]] = defaultdict(list)

    def add(self, question: object, votes: Mapping[str, float]) -> None:
        """Add the values of one result, by judge."""
        n, values = len(votes), [float(votes[judge]) for judge in sorted(votes)]
        total, squares = sum(values), sum(value * value for value in values)
        apart = (n * squares - total * total) / (n - 1)
        self._sums[str(question)].append((n, total, squares, apart, values[0]))

    def intervals(self, level: float) -> dict[str, dict[str, Any]]:
        """Return the intervals of `alpha` and, for two judges, of `kappa`; see `Agreement`.

        They are the percentiles of `RESAMPLES` draws of as many questions with replacement: Efron and
        Tibshirani (1993), "An Introduction to the Bootstrap", section 13.3. More than `GROUPS` questions are
        drawn in groups, so the work is bounded. There is none for fewer than `LEAST` questions, if all scores
        agree in one draw of twenty, or if all draws give the same.
        """
        random, questions = Random(SEED), sorted(self._sums)  # noqa: S311
        random.shuffle(questions)
        groups = [questions[start::GROUPS] for start in range(min(GROUPS, len(questions)))]
        sums = [_added(sorted(own for name in group for own in self._sums[name])) for group in groups]
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


class PanelVotes:
    """The scores that several judges gave the results of a run, by metric."""

    def __init__(self) -> None:
        self._metrics: defaultdict[str, VotesByQuestion] = defaultdict(VotesByQuestion)

    def add(self, seen: Evaluation) -> None:
        """Add an observed result."""
        for metric, votes in seen.votes or () if seen.pending is None else ():
            self._metrics[metric].add(seen.question_id, votes)

    def add_intervals(self, snapshot: Mapping[str, Any], level: float) -> None:
        """Add intervals to the `agreement` of a snapshot of the aggregates of these results."""
        keys = {"alpha": "krippendorff_alpha", "kappa": "cohen_kappa"}
        for metric, own in snapshot.get("agreement", {}).items():
            found = self._metrics[metric].intervals(level)
            own.update({f"{keys[name]}_interval": ends for name, ends in found.items() if keys[name] in own})
