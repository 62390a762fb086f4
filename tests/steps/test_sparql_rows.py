"""Rows whose cells form chains, against plain ways to cover and to pair them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphrag_eval_async.errors import ComparisonBudgetExceeded
from graphrag_eval_async.steps.sparql.budget import Budget
from graphrag_eval_async.steps.sparql.columns import near
from graphrag_eval_async.steps.sparql.rows import rows_cover, rows_pair_off

if TYPE_CHECKING:
    import random

    from graphrag_eval_async.steps.sparql.columns import Cell
    from graphrag_eval_async.steps.sparql.rows import Row


def number(steps: int) -> Cell:
    """Cells up to two steps apart are near."""
    return float, steps * 0.45e-8, f"{steps}"


SEVERAL = settings(deadline=None, derandomize=True, max_examples=200)
"""By chance, no examples may pair off, or all may."""

OTHERS: list[Cell] = [(str, "3", "3"), (int, 0, "0"), (tuple, (False,), "0"), (tuple, (False,), "false")]


def tables(width: int, most: int) -> st.SearchStrategy[list[Row]]:
    cell = (
        st.integers(0, most).map(number) | st.sampled_from(OTHERS)
        if width > 1
        else st.integers(0, most).map(number)
    )
    row = st.tuples(st.integers(0, 1), *[cell] * width) if width > 1 else st.tuples(st.just(0), cell)
    return st.lists(row, max_size=40)


def agree(one: Row, other: Row) -> bool:
    return one[0] == other[0] and all(map(near, one[1:], other[1:]))


def augment(item: int, partners: list[list[int]], owner: dict[int, int], seen: set[int]) -> bool:
    """Kuhn's algorithm."""
    for partner in partners[item]:
        if partner not in seen:
            seen.add(partner)
            if partner not in owner or augment(owner[partner], partners, owner, seen):
                owner[partner] = item
                return True
    return False


def pair_off(left: list[Row], right: list[Row]) -> bool:
    partners = [[index for index, other in enumerate(right) if agree(row, other)] for row in left]
    owner: dict[int, int] = {}
    return len(left) == len(right) and all(augment(item, partners, owner, set()) for item in range(len(left)))


def moved(rows: list[Row], steps: list[int]) -> list[Row]:
    """Rows like these, with numbers a few steps away."""
    found = []
    for row, step in zip(rows, steps, strict=False):
        cells = [number(int(c[2]) + step) if c[0] is float else c for c in row[1:]]
        found.append((row[0], *cells))
    return found


STEPS = st.lists(st.integers(-2, 2) | st.integers(-3, 3), min_size=40, max_size=40)


@pytest.mark.parametrize(("width", "most"), [(1, 30), (1, 8), (2, 6)])
def test_rows_pair_as_by_kuhns_algorithm(width: int, most: int) -> None:
    seen = set()

    @SEVERAL
    @given(tables(width, most), STEPS)
    def check(left: list[Row], steps: list[int]) -> None:
        right = moved(left, steps)
        wanted = pair_off(left, right)
        seen.add(wanted)
        assert rows_pair_off(Counter(left), Counter(right), Budget(10**9)) == wanted

    check()
    assert seen == {True, False}


@pytest.mark.parametrize(("width", "most"), [(1, 30), (2, 6)])
def test_rows_cover_each_other_as_by_checking_all_pairs(width: int, most: int) -> None:
    seen = set()

    @SEVERAL
    @given(tables(width, most), STEPS, tables(width, most))
    def check(left: list[Row], steps: list[int], more: list[Row]) -> None:
        right = moved(left, steps) + more[:3]
        wanted = all(any(agree(row, other) for other in right) for row in left) and all(
            any(agree(row, other) for other in left) for row in right
        )
        seen.add(wanted)
        assert rows_cover(left, right, Budget(10**9)) == wanted

    check()
    assert seen == {True, False}


def cell(step: int, kind: type) -> Cell:
    """Cells around 1e8, where any two up to two steps apart are near unless both are integers."""
    return kind, 10**8 + step * 9 // 20 if kind is int else 1e8 + step * 0.45, f"{kind} {step}"


@pytest.mark.parametrize(
    ("left_kinds", "right_kinds"),
    [
        ([float], [float]),
        ([int], [float]),
        ([int, float], [float]),
        ([float], [int, float]),
        ([int, float],) * 2,
    ],
)
@pytest.mark.parametrize("most", [8, 40])
def test_a_single_column_pairs_as_by_kuhns_algorithm(
    left_kinds: list[type], right_kinds: list[type], most: int
) -> None:
    seen = set()
    moves = st.integers(-2, 2) | st.integers(-3, 3)
    steps = st.lists(st.tuples(st.integers(0, most), moves), max_size=40)

    @SEVERAL
    @given(steps, st.randoms())
    def check(steps: list[tuple[int, int]], rng: random.Random) -> None:
        left = [(0, cell(step, rng.choice(left_kinds))) for step, _ in steps]
        right = [(0, cell(step + move, rng.choice(right_kinds))) for step, move in steps]
        wanted = pair_off(left, right)
        seen.add(wanted)
        assert rows_pair_off(Counter(left), Counter(right), Budget(10**9)) == wanted

    check()
    assert seen == {True, False}


def test_a_long_chain_of_rows_moves_up() -> None:
    left = Counter((0, number(2 * step)) for step in range(500))
    right = Counter((0, number(2 * step)) for step in range(1, 501))
    assert rows_pair_off(left, right, Budget(10**6))
    right[0, number(1000)], right[0, number(1004)] = 0, 1
    assert not rows_pair_off(+left, +right, Budget(10**6))


def test_rows_of_many_kinds_are_matched_as_often_as_they_occur() -> None:
    for width in (1, 2):
        zero, two, four = ((0, *[number(steps)] * width) for steps in (0, 2, 4))
        left = Counter({zero: 1000, two: 2000})
        assert rows_pair_off(left, Counter({two: 2500, four: 500}), Budget(4000))
        assert not rows_pair_off(left, Counter({two: 999, four: 2001}), Budget(4000))


def test_the_work_is_charged() -> None:
    left = Counter((0, number(step)) for step in range(100))
    right = Counter((0, number(step)) for step in range(1, 101))
    with pytest.raises(ComparisonBudgetExceeded, match="search budget"):
        rows_pair_off(left, right, Budget(10))
