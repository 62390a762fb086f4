"""Agreement of judges, against formulas over the whole table of scores, and worked examples."""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag_eval_async import RunningAggregates
from tests.aggregates.made import aggregated, result

if TYPE_CHECKING:
    from collections.abc import Sequence

SCORES = st.sampled_from([0.0, 0.1, 0.25, 1 / 3, 0.5, 1.0, 1])
ITEMS = st.lists(
    st.dictionaries(st.sampled_from("abcd"), SCORES, min_size=2), min_size=1, max_size=20
)

# Krippendorff (2011), sections A and E; a dot is a missing value.


def judged(items: Sequence[dict[str, float]]) -> list[dict[str, Any]]:
    return [
        result(
            faithfulness=0.5,
            faithfulness_by={judge: {"faithfulness": score} for judge, score in item.items()},
        )
        for item in items
    ]


def agreement(aggregates: RunningAggregates) -> dict[str, Any]:
    shown: dict[str, Any] = aggregates.snapshot()["agreement"]["faithfulness"]
    return shown


def alpha(items: Sequence[dict[str, float]]) -> float | None:
    """1 - D_o / D_e, pair by pair."""
    ratings = [score for item in items for score in item.values()]
    expected = sum((a - b) ** 2 for a, b in permutations(ratings, 2)) / (len(ratings) - 1)
    if not expected:
        return None
    observed = [
        sum((a - b) ** 2 for a, b in permutations(item.values(), 2)) / (len(item) - 1)
        for item in items
    ]
    return 1 - sum(observed) / expected


def test_kappa_of_a_textbook() -> None:
    """Cohen (1960): 2 x 2 table with cells 20, 5, 10 and 15 has kappa 0.4."""
    table = {(1, 1): 20, (1, 0): 5, (0, 1): 10, (0, 0): 15}
    items = [
        {"a": float(a), "b": float(b)} for (a, b), count in table.items() for _ in range(count)
    ]
    assert agreement(aggregated(judged(items))) == {
        "judges": {"a": 0.5, "b": 0.6},
        "krippendorff_alpha": pytest.approx(1 - 99 * 15 / (55 * 45)),
        "cohen_kappa": pytest.approx(0.4),
    }


@given(ITEMS, st.randoms(use_true_random=False), st.integers(0, 20))
def test_alpha_is_that_of_all_pairs_in_any_order_and_parts(
    items: list[dict[str, float]], random: Any, split: int
) -> None:
    whole, shuffled = aggregated(judged(items)), random.sample(judged(items), len(items))
    found = agreement(whole)
    assert found["krippendorff_alpha"] == pytest.approx(alpha(items), abs=1e-9)
    judges = sorted({judge for item in items for judge in item})
    scores = {judge: [item[judge] for item in items if judge in item] for judge in judges}
    assert found["judges"] == pytest.approx(
        {judge: sum(own) / len(own) for judge, own in scores.items()}
    )
    assert ("cohen_kappa" in found) is (len(judges) == 2)
    other = RunningAggregates.from_bytes(aggregated(shuffled[split:]).to_bytes())
    merged = aggregated(shuffled[:split]).merge(other)
    assert merged.snapshot() == whole.snapshot()
    assert merged.to_bytes() == whole.to_bytes()
