"""How well several judges agree on the scores of a metric, from exact sums."""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.aggregates.exact import mean, to_units

if TYPE_CHECKING:
    from collections.abc import Mapping


class Agreement:
    """The scores that judges gave one metric, summed up; only results with two scores or more
    count.

    Attributes:
        sums: by judge, the number of its scores, their sum in units of 2**-1074, and that of the
            squares of these.
        apart: by number of judges of a result, the sum of the squared differences of all pairs of
            scores.
    """

    __slots__ = ("apart", "sums")

    def __init__(self) -> None:
        self.sums: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
        self.apart: defaultdict[int, int] = defaultdict(int)

    def add(self, scores: Mapping[str, float]) -> None:
        """Count the scores that judges gave one result, by judge."""
        units = {judge: to_units(score) for judge, score in scores.items()}
        for judge, value in units.items():
            self._add(judge, (1, value, value * value))
        n, squares = len(units), sum(value * value for value in units.values())
        self.apart[n] += n * squares - sum(units.values()) ** 2

    def _add(self, judge: str, sums: tuple[int, ...] | list[int]) -> None:
        self.sums[judge] = [
            known + more for known, more in zip(self.sums[judge], sums, strict=True)
        ]

    def merge(self, other: Agreement) -> None:
        for judge, sums in other.sums.items():
            self._add(judge, sums)
        for judges, apart in other.apart.items():
            self.apart[judges] += apart

    @property
    def alpha(self) -> float | None:
        """Krippendorff's alpha for squared differences of scores, 1 at most: 1 - D_o / D_e.

        D_o is the mean disagreement of two scores of the same result, D_e that of any two scores.
        None if all scores are equal, or there are none. Source: Krippendorff (2011), "Computing
        Krippendorff's Alpha-Reliability".
        """
        n, total, squares = map(sum, zip((0, 0, 0), *self.sums.values(), strict=True))
        expected = n * squares - total**2
        return float(1 - (n - 1) * self._observed / expected) if expected else None

    @property
    def kappa(self) -> float | None:
        """Cohen's kappa of two judges with squared weights, 1 at most; of scores 0 and 1, the plain
        kappa.

        None if all scores are equal, or if there are not two judges. Source: Cohen (1968),
        "Weighted kappa".
        """
        if len(self.sums) != 2:
            return None
        (n, one, squares), (_, other, more) = self.sums.values()
        expected = n * (squares + more) - 2 * one * other
        return float(1 - n * self._observed / expected) if expected else None

    @property
    def _observed(self) -> Fraction:
        return sum(
            (Fraction(apart, judges - 1) for judges, apart in self.apart.items()), Fraction(0)
        )

    def snapshot(self) -> dict[str, Any]:
        """Return the mean score of each judge, alpha and, for two judges, kappa."""
        means = {
            judge: mean(total, n, integral=False)
            for judge, (n, total, _) in sorted(self.sums.items())
        }
        found: dict[str, Any] = {"judges": means, "krippendorff_alpha": self.alpha}
        return found | ({"cohen_kappa": self.kappa} if len(means) == 2 else {})
