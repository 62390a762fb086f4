"""The best pairs of rows, against all pairings."""

from __future__ import annotations

import random
from operator import eq

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphrag_eval_async.steps.budget import Budget
from graphrag_eval_async.steps.tables import rows
from graphrag_eval_async.steps.tables.rows import pair_in_order, pair_rows
from tests.steps.test_sparql_oracle import most_cells

ROWS = st.integers(1, 3).flatmap(
    lambda width: st.tuples(*[st.lists(st.tuples(*[st.integers(0, 2)] * width), min_size=1, max_size=5)] * 2)
)
Rows = list[tuple[int, ...]]


@pytest.mark.parametrize("exact", [True, False])
@settings(deadline=None)
@given(tables=ROWS)
def test_rows_are_paired_once_and_agree_in_most_cells(exact: bool, tables: tuple[Rows, Rows]) -> None:
    left, right = tables
    with pytest.MonkeyPatch.context() as patch:
        if not exact:
            patch.setattr(rows, "EXACT_STEPS", 0)
        for ordered in (True, False):
            found = pair_in_order(left, right, Budget()) if ordered else pair_rows(left, right, Budget())
            assert all(cells == sum(map(eq, left[one], right[other])) > 0 for one, other, cells in found)
            assert len({one for one, _, _ in found}) == len({other for _, other, _ in found}) == len(found)
            if ordered:
                assert [other for _, other, _ in sorted(found)] == sorted(other for _, other, _ in found)
            best = most_cells(left, right, ordered=ordered)
            cells = sum(pair.cells for pair in found)
            assert cells == best if exact else (cells > 0 or ordered or not best)


@pytest.mark.parametrize("height", [50, 4000])
def test_in_long_tables_most_of_what_is_in_order_is_found(height: int) -> None:
    rng = random.Random(1)
    left = [(rng.randrange(10**6), rng.randrange(10**6)) for _ in range(height)]
    right = [row if rng.random() < 0.9 else (row[0], -1) for row in left]
    moved = [*right[height // 10 :], *right[: height // 10]]
    wanted = sum(sum(map(eq, one, other)) for one, other in zip(left, right, strict=True))
    assert sum(pair.cells for pair in pair_in_order(left, right, Budget())) == wanted
    assert sum(pair.cells for pair in pair_in_order(left, moved, Budget())) > 0.8 * wanted
