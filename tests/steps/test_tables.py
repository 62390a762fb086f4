"""Tables too large for the oracle: lookalike columns, the order of rows, long tables, and what
is refused.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

from graphrag_eval_async.errors import ComparisonBudgetExceeded, MalformedStep
from graphrag_eval_async.steps import Budget, prepare_step
from graphrag_eval_async.steps.actual import ActualStep
from graphrag_eval_async.steps.budget import QUICK_STEPS
from tests.steps.support import query, texts
from tests.support.cpu import affordable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from graphrag_eval_async.steps.differences import Agreement

ABC = "abcdefghijklmn"


def compare_tables(
    expected: list[list[str]],
    actual: list[list[str]],
    names: str = ABC[::-1],
    budget: Budget | None = None,
    **keys: Any,
) -> Agreement:
    """Rows of plain literals, compared under the names a, b, ... and the given ones."""
    output = texts(*actual, names=names)
    return prepare_step(query(texts(*expected), **keys)).compare(
        ActualStep({"output": output}, budget)
    )


def test_required_columns() -> None:
    expected = [["a", "b", "c"]]
    for actual, required, score in (
        ([["c"]], ["c"], 1),
        ([["c"]], ["b"], 0),
        ([["c", "a", "b"]], [], 1),
    ):
        assert compare_tables(expected, actual, required_columns=required).score == score
    for required in (["a", "a"], ["x"], ["a", "x", "x"]):
        with pytest.raises(MalformedStep, match="required_columns: "):
            compare_tables(expected, expected, required_columns=required)


@pytest.mark.parametrize(
    "keys",
    [
        pytest.param({}, id="default"),
        pytest.param({"score": "f1"}, id="f1"),
        pytest.param({"ignore_duplicates": False}, id="with duplicates"),
        pytest.param({"ordered": True}, id="ordered"),
    ],
)
def test_rows_without_columns_are_not_those_of_any_table(keys: dict[str, Any]) -> None:
    """`SELECT *` of a pattern without variables returns them."""
    assert compare_tables([[]], [[]], **keys).score == 1
    assert compare_tables([[]], [["a"]], **keys).score == 0
    assert compare_tables([], [["a"]], names="", **keys).score == 0


def shuffled(rows: list[list[str]], rng: random.Random) -> list[list[str]]:
    order = rng.sample(range(len(rows[0])), len(rows[0]))
    return rng.sample([[row[index] for index in order] for row in rows], len(rows))


def few_values(height: int, values: int) -> list[list[str]]:
    rng = random.Random(5)
    return [[str(rng.randrange(values)) for _ in range(14)] for _ in range(height)]


PERMUTED = [random.Random(column).sample(range(100), 100) for column in range(14)]
LOOKALIKES = {
    "permutations of the same": [[*map(str, row)] for row in zip(*PERMUTED, strict=True)],
    "two values": few_values(100, 2),
    "all equal": [["a"] * 14] * 100,
    "one of each": [["1" if row == column else "0" for column in range(14)] for row in range(14)],
}
REQUIRED = [*ABC[:10]]


@pytest.mark.parametrize(
    ("name", "ignore_duplicates"), [(name, flag) for name in LOOKALIKES for flag in (True, False)]
)
def test_lookalike_columns_are_paired(name: str, ignore_duplicates: bool) -> None:
    rows = LOOKALIKES[name]
    actual = shuffled(rows * 2 if ignore_duplicates else rows, random.Random(6))
    keys: dict[str, Any] = {} if ignore_duplicates else {"required_columns": REQUIRED}
    assert compare_tables(rows, actual, ignore_duplicates=ignore_duplicates, **keys).score == 1


def dependent_columns(seed: int) -> list[list[str]]:
    """Columns that are linear functions over GF(2): all that are independent look alike."""
    masks = random.Random(seed).sample(range(1, 256), 14)
    return [[str((row & mask).bit_count() % 2) for mask in masks] for row in range(256)]


def test_the_search_is_bounded_and_reports_it() -> None:
    tables = dependent_columns(1), dependent_columns(2)
    with pytest.raises(
        ComparisonBudgetExceeded, match=r"10 columns of 256 rows, 14 of 256 .*exhausted"
    ):
        compare_tables(*tables, budget=Budget(1_000_000), required_columns=REQUIRED)


def random_tables(rng: random.Random, height: int, width: int, values: int) -> Any:
    """Two tables; about half of the cells in each row of the second are those of the first."""
    expected = [[str(rng.randrange(values)) for _ in range(width)] for _ in range(height)]
    actual = [
        [cell if rng.random() < 0.5 else str(rng.randrange(values)) for cell in row]
        for row in expected
    ]
    return expected, rng.sample(actual, len(actual))


def in_part(*tables: Any, **more: Any) -> Agreement:
    return compare_tables(*tables, score="f1", ignore_duplicates=False, **more)


def listed(agreement: Agreement) -> Iterable[str]:
    return sorted(
        repr(each | {"row": None} if "column" in each else each) for each in agreement.differences
    )


@pytest.mark.parametrize(
    ("height", "times"), [(5, 100), (90, 4)]
)  # The best pairs of rows are found of short tables alone.
def test_the_order_of_rows_does_not_change_what_differs(height: int, times: int) -> None:
    rng = random.Random(2)
    for _ in range(times):
        expected, actual = random_tables(rng, height, 3, 4 if height == 5 else 12)
        shown = set()
        for _ in range(4):
            rng.shuffle(expected)
            rng.shuffle(actual)
            shown.add((*listed(in_part(expected, actual, names=ABC)),))
        assert len(shown) == 1, (expected, actual)


def test_scores_on_an_event_loop_are_those_of_a_thread() -> None:
    rng = random.Random(4)
    seen = []
    for _ in range(60):
        tables = random_tables(rng, rng.randint(5, 45), rng.randint(1, 3), 20)
        try:
            found = in_part(*tables, names=ABC, budget=Budget(QUICK_STEPS, quick=True))
        except ComparisonBudgetExceeded:
            seen.append(False)
        else:
            assert found == in_part(*tables, names=ABC)
            seen.append(True)
    assert min(seen.count(True), seen.count(False)) > 5


@pytest.mark.parametrize("height", [50, 4000])
def test_in_long_tables_most_of_what_is_in_order_is_found(height: int) -> None:
    rng = random.Random(1)
    expected = [[str(rng.randrange(10**6)) for _ in "ab"] for _ in range(height)]
    actual = [row if rng.random() < 0.9 else [row[0], "-1"] for row in expected]
    right = sum(row.count("-1") == 0 for row in actual)
    wanted = (height + right) / (2 * height)
    assert in_part(expected, actual, ordered=True).score == wanted
    moved = [*actual[height // 10 :], *actual[: height // 10]]
    assert in_part(expected, moved, ordered=True).score > 0.8 * wanted


def test_partial_credit_for_lookalike_columns_ends_in_time() -> None:
    """Columns with the same few values have billions of pairings; columns of the same name come
    first.
    """
    rows = few_values(1000, 2)
    wrong = [[*row] for row in rows]
    wrong[17][3] = "wrong"
    for actual, names, least in (
        (wrong, ABC, 1 - 2 / 14_000),
        ([row[::-1] for row in wrong], ABC.upper(), 0),
    ):
        with affordable(2**21):
            assert least <= in_part(rows, actual, names=names).score < 1
