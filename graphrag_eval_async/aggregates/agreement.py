"""How well several judges agree on the scores of a metric, from exact sums."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.aggregates.exact import mean, to_fixed_point

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(slots=True)
class JudgeSums:
    """Exact sums over the scores that one judge gave.

    Attributes:
        count: the number of scores.
        exact_sum: the sum of the scores, as a multiple of 2**-1074.
        squares: the sum of the squared scores, as a multiple of 2**-2148.
    """

    count: int = 0
    exact_sum: int = 0
    squares: int = 0

    def add(self, other: JudgeSums) -> None:
        """Add the sums over other scores."""
        self.count += other.count
        self.exact_sum += other.exact_sum
        self.squares += other.squares


class Agreement:
    """How well several judges agree on the scores of one metric.

    Add only results that at least two judges have scored.

    Attributes:
        sums: the sums over the scores of each judge.
        differences: the sum of the squared differences between any two scores of the same result,
            as a multiple of 2**-2148, by the number of judges that have scored the result.
    """

    __slots__ = ("differences", "sums")

    def __init__(self) -> None:
        self.sums: defaultdict[str, JudgeSums] = defaultdict(JudgeSums)
        self.differences: defaultdict[int, int] = defaultdict(int)

    def add(self, scores: Mapping[str, float]) -> None:
        """Add the scores of one result.

        Args:
            scores: the score that each judge gave, by name of judge.
        """
        total = JudgeSums()
        for judge, score in scores.items():
            exact_score = to_fixed_point(score)
            sums = JudgeSums(count=1, exact_sum=exact_score, squares=exact_score**2)
            self.sums[judge].add(sums)
            total.add(sums)
        # The sum of (x - y)**2 over all pairs of n values is n * sum(x**2) - sum(x)**2.
        self.differences[total.count] += total.count * total.squares - total.exact_sum**2

    def merge(self, other: Agreement) -> None:
        """Add the scores of other results."""
        for judge, sums in other.sums.items():
            self.sums[judge].add(sums)
        for judges, differences in other.differences.items():
            self.differences[judges] += differences

    @property
    def alpha(self) -> float | None:
        """Krippendorff's alpha for squared differences of scores, at most 1.

        Alpha is 1 - D_o / D_e. D_o is the mean disagreement of two scores of the same result. D_e
        is the mean disagreement of any two scores. Alpha is None if there are no scores, or if all
        are equal. Source: Krippendorff (2011), "Computing Krippendorff's Alpha-Reliability".
        """
        total = JudgeSums()
        for sums in self.sums.values():
            total.add(sums)
        # The sum of (x - y)**2 over all pairs of n values is n * sum(x**2) - sum(x)**2.
        expected = total.count * total.squares - total.exact_sum**2
        if expected == 0:
            return None
        # The factors that turn the two sums into means are joined into `total.count - 1`.
        return float(1 - (total.count - 1) * self._observed / expected)

    @property
    def kappa(self) -> float | None:
        """Cohen's kappa of two judges with squared weights, at most 1.

        If all scores are 0 or 1, it equals the unweighted kappa. It is None if all scores are equal
        or if the number of judges is not two. Source: Cohen (1968), "Weighted kappa".
        """
        if len(self.sums) != 2:
            return None
        first, second = self.sums.values()
        results = first.count
        # The sum of (x - y)**2 over all scores x of the first judge and all y of the second.
        squares = first.squares + second.squares
        expected = results * squares - 2 * first.exact_sum * second.exact_sum
        if expected == 0:
            return None
        return float(1 - results * self._observed / expected)

    @property
    def _observed(self) -> Fraction:
        """The sum of squared differences between scores of the same result.

        The sum of a result is divided by its number of judges minus 1, so that results with many
        judges do not dominate.
        """
        return sum(
            (Fraction(exact_sum, judges - 1) for judges, exact_sum in self.differences.items()),
            start=Fraction(0),
        )

    def snapshot(self) -> dict[str, Any]:
        """Return the mean score of each judge, Krippendorff's alpha and, for two judges, Cohen's
        kappa.
        """
        means = {
            judge: mean(sums.exact_sum, sums.count, integral=False)
            for judge, sums in sorted(self.sums.items())
        }
        snapshot: dict[str, Any] = {"judges": means, "krippendorff_alpha": self.alpha}
        if len(means) == 2:
            snapshot["cohen_kappa"] = self.kappa
        return snapshot
