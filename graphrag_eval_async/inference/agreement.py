"""Agreement of raters, corrected for chance: Cohen's kappa and Krippendorff's alpha."""

from __future__ import annotations

from collections import Counter
from itertools import chain
from math import fsum
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence


def cohen_kappa(pairs: Sequence[tuple[Hashable, Hashable]]) -> float | None:
    """Return kappa of two raters, 1 at most: (p_o - p_e) / (1 - p_e).

    p_o is the share of items that get the same category from both. p_e is that share if each rater kept their
    own frequencies of categories, but assigned them at random. Source: Cohen (1960), "A Coefficient of
    Agreement for Nominal Scales".

    Args:
        pairs: the two raters' categories of each item.

    Returns:
        kappa; None if there is no item, or if both raters give all items the same category.
    """
    n = len(pairs)
    one, other = Counter(first for first, _ in pairs), Counter(second for _, second in pairs)
    by_chance = sum(count * other[category] for category, count in one.items())
    if by_chance == n * n:
        return None
    observed = sum(first == second for first, second in pairs)
    return (observed * n - by_chance) / (n * n - by_chance)


def krippendorff_alpha(
    items: Iterable[Sequence[float | str]], kind: Literal["nominal", "interval"] = "nominal"
) -> float | None:
    """Return alpha of any number of raters, 1 at most: 1 - D_o / D_e.

    D_o is the mean disagreement of two ratings of the same item, D_e that of any two ratings. Two ratings
    disagree by 1 if they differ ("nominal"), or by the square of their difference ("interval"). Items with a
    single rating do not count. Source: Krippendorff (2011), "Computing Krippendorff's Alpha-Reliability".

    Args:
        items: the ratings of each item, in any order, without missing ones.
        kind: "nominal" for categories, "interval" for numbers.

    Returns:
        alpha; None if no item has two ratings, or if all ratings agree.
    """
    disagreement = _differing if kind == "nominal" else _squares
    pairable = [item for item in items if len(item) > 1]
    ratings = [*chain.from_iterable(pairable)]
    expected = disagreement(ratings)
    if not expected:
        return None
    observed = fsum(disagreement(item) / (len(item) - 1) for item in pairable)
    return 1 - (len(ratings) - 1) * observed / expected


def _differing(ratings: Sequence[float | str]) -> float:
    """Return the number of ordered pairs that differ."""
    return len(ratings) ** 2 - sum(count * count for count in Counter(ratings).values())


def _squares(ratings: Sequence[float | str]) -> float:
    """Return the sum of the squared differences over ordered pairs."""
    numbers = [*map(float, ratings)]
    if len({*numbers}) < 2:
        return 0.0
    mean = fsum(numbers) / len(numbers)
    return 2 * len(numbers) * fsum((number - mean) ** 2 for number in numbers)
