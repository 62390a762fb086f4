"""Outputs made to take long: each is compared in time, or refused."""

from __future__ import annotations

import random

import orjson
import pytest

from graphrag_eval_async.errors import ComparisonBudgetExceeded
from graphrag_eval_async.steps.budget import Budget
from graphrag_eval_async.steps.tables.columns import values_of
from graphrag_eval_async.steps.tables.comparison import prepare_reference
from graphrag_eval_async.steps.tables.partial import compare_in_part
from tests.steps.results import XSD, read_results
from tests.steps.test_sparql_compare import WAYS, How, score, table
from tests.support.cpu import affordable

SHARED = 2**61 - 1
"""Multiples of it share their hash."""

N = 1 << 20
NEARLY_NUMBERS = {
    "digits": "1" * N,
    "two points": "0" * (N // 2) + "." + "0" * (N // 2) + ".",
    "spaces": " " * (N // 2) + "x" + " " * (N // 2),
}


@pytest.mark.parametrize("kind", ["integer", "decimal", "double", "boolean"])
@pytest.mark.parametrize("text", NEARLY_NUMBERS.values(), ids=NEARLY_NUMBERS)
def test_a_cell_that_is_nearly_a_number_takes_linear_time(text: str, kind: str) -> None:
    with affordable(2 * N):
        [alone] = values_of([text], [XSD + kind])
        assert values_of([text, "plain"], [XSD + kind, None]) == [alone, "plain"]
    assert alone == text or kind == "double"


@pytest.mark.parametrize("how", WAYS, ids=str)
def test_integers_that_share_a_hash_are_compared_in_time(how: How) -> None:
    rows = [
        [
            *((str((32 * row + column + 1) * SHARED), "integer") for column in range(32)),
            (f"{row}.5", "double"),
        ]
        for row in range(1000)
    ]
    actual = table(rows, "w")
    with affordable(len(orjson.dumps(actual))):
        assert score(table(rows), actual, **how) == 1.0
        assert score(table(rows), table([*rows[:-1], rows[0]], "w"), **how) == 0.0


@pytest.mark.parametrize("values", [1, 2, 5, 1000])
@pytest.mark.parametrize("width", [14, 200])
def test_partial_credit_for_lookalike_columns_ends_in_time(values: int, width: int) -> None:
    """14 columns with the same few values have 87 billion pairings; columns of the same name come first."""
    rng = random.Random(1)
    rows = [[str(rng.randrange(values)) for _ in range(width)] for _ in range(14_000 // width)]
    wrong = [[*row] for row in rows]
    wrong[17][3] = "wrong"
    reference = prepare_reference(
        read_results(table(rows)), required_columns=None, ordered=False, ignore_duplicates=False
    )
    for actual in (table(wrong), table([row[::-1] for row in wrong], "w")):
        with affordable(2**21):
            try:
                found = compare_in_part(reference, read_results(actual), Budget()).score
            except ComparisonBudgetExceeded:
                assert width > 14
            else:
                assert (1 - 2 / 14_000 if "v0" in actual["head"]["vars"] else 0) <= found < 1
