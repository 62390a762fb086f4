"""Outputs made to take long: each is compared in time, or refused."""

from __future__ import annotations

import orjson
import pytest

from graphrag_eval_async.errors import ComparisonBudgetExceeded
from graphrag_eval_async.steps.sparql.columns import values_of
from tests.cpu import affordable
from tests.steps.test_sparql_compare import XSD, How, score, table

SHARED = 2**61 - 1
"""Multiples of it share their hash."""

N = 1 << 20
NEARLY_NUMBERS = {
    "trailing sign": "0" * N + "+",
    "digits": "1" * N,
    "two points": "0" * (N // 2) + "." + "0" * (N // 2) + ".",
    "leading zeros": "0." + "0" * N + "1",
    "huge exponent": "1e" + "9" * N + "x",
    "padded exponent": "1e-" + "0" * N + "1",
    "spaces": " " * (N // 2) + "x" + " " * (N // 2),
    "underscores": "1_" * (N // 2) + "1",
}
WAYS: list[How] = [{}, {"ordered": True}, {"ignore_duplicates": False}]


@pytest.mark.parametrize("kind", ["integer", "decimal", "double", "boolean"])
@pytest.mark.parametrize("text", NEARLY_NUMBERS.values(), ids=NEARLY_NUMBERS)
def test_a_cell_that_is_nearly_a_number_takes_linear_time(text: str, kind: str) -> None:
    with affordable(2 * N):
        [alone] = values_of([text], [XSD + kind])
        assert values_of([text, "plain"], [XSD + kind, None]) == [alone, "plain"]
    assert alone == text or kind == "double"


@pytest.mark.parametrize("how", WAYS, ids=str)
def test_integers_that_share_a_hash_across_columns_are_refused(how: How) -> None:
    width, height = 32, 300
    rows = [
        [
            *((str((width * row + column + 1) * SHARED), "integer") for column in range(width)),
            (f"{row}.5", "double"),
        ]
        for row in range(height)
    ]
    expected, actual = table(rows), table(rows, "w")
    with affordable(len(orjson.dumps(actual))), pytest.raises(ComparisonBudgetExceeded, match="hashes"):
        score(expected, actual, **how)


@pytest.mark.parametrize("how", WAYS, ids=str)
def test_columns_that_share_a_hash_are_refused(how: How) -> None:
    actual = table([[(str((column + 1) * SHARED), "integer") for column in range(3000)]], "w")
    with affordable(len(orjson.dumps(actual))), pytest.raises(ComparisonBudgetExceeded, match="hashes"):
        score(table([[(str(SHARED), "integer")]]), actual, **how)


@pytest.mark.parametrize("how", WAYS, ids=str)
def test_columns_with_the_same_cells_in_another_order_that_share_a_hash_are_refused(how: How) -> None:
    """Their signatures are equal, so that only their contents tell them apart."""
    numbers = [(str((row + 1) * SHARED), "integer") for row in range(40)]
    columns = [numbers[column % 40 :] + numbers[: column % 40] for column in range(40)]
    swapped = [
        [*column[:i], column[i + 1], column[i], *column[i + 2 :]] for column in columns for i in range(39)
    ]
    actual = table([list(row) for row in zip(*swapped, strict=True)], "w")
    expected = table([[number] for number in numbers])
    with affordable(len(orjson.dumps(actual))), pytest.raises(ComparisonBudgetExceeded, match="hashes"):
        score(expected, actual, **how)


@pytest.mark.parametrize("how", WAYS, ids=str)
def test_many_columns_of_ordinary_integers_are_compared(how: How) -> None:
    row = [(str(column), "integer") for column in range(3000)]
    assert score(table([row]), table([row[::-1]], "w"), **how) == 1.0
