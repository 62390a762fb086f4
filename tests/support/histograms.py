"""Histograms of values that tests choose."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphrag_eval_async.aggregates.histogram import Histogram

if TYPE_CHECKING:
    from collections.abc import Iterable

    from graphrag_eval_async.aggregates.histogram import Weights


def weights_of(values: Iterable[float]) -> Weights:
    """Return how many of these values are in each bin of a histogram."""
    histogram = Histogram()
    histogram.add(values)
    weights = histogram.weights()
    assert weights is not None
    return weights
