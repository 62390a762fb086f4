"""Vectors of embeddings, in plain Python: a metric compares a handful."""

from __future__ import annotations

from math import fsum, hypot
from operator import mul
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def cosine(left: Sequence[float], right: Sequence[float]) -> float:
    """The cosine of the angle between two vectors, from -1 to 1.

    Both are finite, not zero, and of one length. Formula: https://en.wikipedia.org/wiki/Cosine_similarity
    """
    left, right = _scaled(left), _scaled(right)
    value = fsum(map(mul, left, right)) / (hypot(*left) * hypot(*right))
    return max(-1.0, min(1.0, value))


def _scaled(vector: Sequence[float]) -> list[float]:
    """The same direction, with a length whose square is neither too large nor too small for a float."""
    largest = max(map(abs, vector))
    return [value / largest for value in vector]
