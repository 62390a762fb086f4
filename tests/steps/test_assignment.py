"""The best pairs of rows and columns of weights, against all pairings."""

from __future__ import annotations

from itertools import combinations, permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag_eval_async.errors import ComparisonBudgetExceeded
from graphrag_eval_async.steps.sparql.assignment import align, assign
from graphrag_eval_async.steps.sparql.budget import Budget

SIZES = st.tuples(st.integers(1, 5), st.integers(1, 5))
WEIGHTS = SIZES.flatmap(
    lambda size: st.lists(
        st.lists(st.integers(0, 4), min_size=size[1], max_size=size[1]), min_size=size[0], max_size=size[0]
    )
)


@pytest.mark.parametrize(("find", "choose"), [(assign, permutations), (align, combinations)])
def test_the_sum_is_the_greatest(find: object, choose: object) -> None:
    assert callable(find)
    assert callable(choose)

    @given(WEIGHTS)
    def check(weights: list[list[int]]) -> None:
        height, width = len(weights), len(weights[0])
        pairs = find(weights, Budget())
        assert len({row for row, _ in pairs}) == len({column for _, column in pairs}) == len(pairs)
        if find is align:
            assert pairs == sorted(pairs)
            assert [column for _, column in pairs] == sorted(column for _, column in pairs)
        assert sum(weights[row][column] for row, column in pairs) == max(
            sum(weights[row][column] for row, column in zip(rows, columns, strict=True))
            for size in range(min(height, width) + 1)
            for rows in combinations(range(height), size)
            for columns in choose(range(width), size)
        )

    check()


def test_a_stopped_budget_ends_the_search() -> None:
    for find in (assign, align):
        budget = Budget()
        budget.stop()
        with pytest.raises(ComparisonBudgetExceeded, match="stopped"):
            find([[1, 2], [2, 1]], budget)
