"""How well several judges agree on the scores of a metric, from exact sums."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.aggregates.exact import mean, to_units

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(slots=True)
class JudgeSums:
    """Exact sums over the scores that one judge gave."""

    count: int = 0
    units: int = 0  # The sum of the scores, in units of 2**-1074.
    squares: int = 0  # The sum of the squared scores, in units of 2**-2148.

    def add(self, other: JudgeSums) -> None:
        """Add the sums of other scores of the judge."""
        self.count += other.count
        self.units += other.units
        self.squares += other.squares


class Agreement:
    """The scores that judges gave one metric, summed up.

    Only results with two scores or more are to be added.

    Attributes:
        sums: the sums of each judge's scores.
        differences: by number of judges of a result, the sum of the squared differences of all
            pairs of scores of the same result, in units of 2**-2148.
    """

    __slots__ = ("differences", "sums")

    def __init__(self) -> None:
        self.sums: defaultdict[str, JudgeSums] = defaultdict(JudgeSums)
        self.differences: defaultdict[int, int] = defaultdict(int)

    def add(self, scores: Mapping[str, float]) -> None:
        """Count the scores that judges gave one result, by judge."""
        total = JudgeSums()
        for judge, score in scores.items():
            units = to_units(score)
            sums = JudgeSums(count=1, units=units, squares=units * units)
            self.sums[judge].add(sums)
            total.add(sums)
        # The sum of (x - y)**2 over all pairs of n values is n * sum(x**2) - sum(x)**2.
        self.differences[total.count] += total.count * total.squares - total.units**2

    def merge(self, other: Agreement) -> None:
        """Add the scores of `other`."""
        for judge, sums in other.sums.items():
            self.sums[judge].add(sums)
        for judges, differences in other.differences.items():
            self.differences[judges] += differences

    @property
    def alpha(self) -> float | None:
        """Krippendorff's alpha for squared differences of scores, 1 at most: 1 - D_o / D_e.

        D_o is the mean disagreement of two scores of the same result, D_e that of any two scores.
        None if all scores are equal, or there are none. Source: Krippendorff (2011), "Computing
        Krippendorff's Alpha-Reliability".
        """
        total = JudgeSums()
        for sums in self.sums.values():
            total.add(sums)
        expected = total.count * total.squares - total.units**2
        if expected == 0:
            return None
        return float(1 - (total.count - 1) * self._observed / expected)

    @property
    def kappa(self) -> float | None:
        """Cohen's kappa of two judges with squared weights, 1 at most.

        For scores 0 and 1, it is the plain kappa. None if all scores are equal, or if there are not
        two judges. Source: Cohen (1968), "Weighted kappa".
        """
        if len(self.sums) != 2:
            return None
        first, second = self.sums.values()
        results = first.count
        expected = results * (first.squares + second.squares) - 2 * first.units * second.units
        if expected == 0:
            return None
        return float(1 - results * self._observed / expected)

    @property
    def _observed(self) -> Fraction:
        """The disagreement within results, which a result with many judges does not dominate."""
        return sum(
            (Fraction(units, judges - 1) for judges, units in self.differences.items()),
            start=Fraction(0),
        )

    def snapshot(self) -> dict[str, Any]:
        """Return the mean score of each judge, alpha and, for two judges, kappa."""
        means = {
            judge: mean(sums.units, sums.count, integral=False)
            for judge, sums in sorted(self.sums.items())
        }
        snapshot: dict[str, Any] = {"judges": means, "krippendorff_alpha": self.alpha}
        if len(means) == 2:
            snapshot["cohen_kappa"] = self.kappa
        return snapshot
