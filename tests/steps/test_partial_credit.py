"""Partial credit for tables: what is counted, and that neither order nor effort changes it."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag_eval_async.errors import ComparisonBudgetExceeded
from graphrag_eval_async.steps.budget import QUICK_STEPS, Budget
from graphrag_eval_async.steps.tables.comparison import prepare_reference
from graphrag_eval_async.steps.tables.partial import compare_in_part
from tests.steps.results import read_results
from tests.steps.test_sparql_oracle import MANY, Case, Table, Term, encode, literal

if TYPE_CHECKING:
    from collections.abc import Iterable

    from graphrag_eval_async.steps.differences import Agreement

ABC = "abcdefghijklmn"


def in_part(
    expected: Table,
    actual: Table,
    names: str = ABC,
    other: str = ABC[::-1],
    budget: Budget | None = None,
    **how: Any,
) -> Agreement:
    how = {"required_columns": None, "ordered": False, "ignore_duplicates": False} | how
    width, wide = (
        len(table[0]) if table else len(given) for table, given in ((expected, names), (actual, other))
    )
    reference = prepare_reference(read_results(encode(expected, names[:width])), **how)
    return compare_in_part(reference, read_results(encode(actual, other[:wide])), budget or Budget())


def rows(*texts: str) -> Table:
    """Rows of one-letter cells; a dot is unbound."""
    return [[None if text == "." else literal(text) for text in row] for row in texts]


def random_tables(rng: random.Random, height: int, width: int, values: int) -> tuple[Table, Table]:
    """Two tables; about half of the cells in each row of the second are those of the first."""

    def cell() -> Term:
        return literal(str(rng.randrange(values)))

    expected = [[cell() for _ in range(width)] for _ in range(height)]
    actual = [[term if rng.random() < 0.5 else cell() for term in row] for row in expected]
    return expected, rng.sample(actual, len(actual))


PARTS: list[tuple[Table, Table, dict[str, Any], float]] = [
    # A missing row, an extra row, a wrong cell.
    (rows("ax", "by", "cz"), rows("ax", "by"), {}, 0.8),
    (rows("ax", "by"), rows("ax", "by", "cz"), {}, 0.8),
    (rows("ax", "by", "cz"), rows("ax", "by", "cy"), {}, 5 / 6),
    # Columns in another order, and one too many, cost nothing; one too few costs its cells.
    (rows("ax", "by"), rows("qya", "qxb"), {}, 0.5),
    (rows("ax", "by"), rows("a", "b"), {}, 0.5),
    (rows("ax", "by"), rows("xqa", "yqb"), {"required_columns": ["a"]}, 1.0),
    (rows("a", "b", "c"), rows("a", "a", "a", "b"), {"ignore_duplicates": True}, 0.8),
    # Unbound agrees only with unbound.
    (rows("a.", "b."), rows("ax", "b."), {}, 0.75),
    (rows("a.", "b."), rows("a", "b"), {}, 0.5),
    (rows("a"), rows("b"), {}, 0.0),
    ([], rows("a"), {}, 0.0),
    # In order.
    (rows("a", "b", "c", "d"), rows("b", "c", "d", "a"), {"ordered": True}, 0.75),
    (rows("a", "b", "c", "d"), rows("q", "a", "b", "c", "d"), {"ordered": True}, 8 / 9),
    (rows("a", "b", "c"), rows("c", "b", "a"), {"ordered": True}, 1 / 3),
    (rows("ax", "by", "cz"), rows("ax", "bq", "cz"), {"ordered": True}, 5 / 6),
]


@pytest.mark.parametrize(("expected", "actual", "how", "wanted"), PARTS)
def test_parts(expected: Table, actual: Table, how: dict[str, Any], wanted: float) -> None:
    assert in_part(expected, actual, **how).score == pytest.approx(wanted, abs=1e-15)


def listed(agreement: Agreement) -> Iterable[str]:
    return sorted(repr(each | {"row": None} if "column" in each else each) for each in agreement.differences)


def test_neither_the_order_of_rows_nor_that_of_columns_counts() -> None:
    @MANY
    @given(st.randoms(use_true_random=True))
    def check(rng: random.Random) -> None:
        case = Case(rng)
        case.spoil(rng)
        case.how["ordered"] = False
        before = compare_in_part(*case.prepared(), Budget())
        rng.shuffle(case.expected)
        rng.shuffle(case.actual)
        after = compare_in_part(*case.prepared(), Budget())
        assert before.score == after.score, vars(case)
        assert listed(before) == listed(after), vars(case)
        order = rng.sample(range(case.width), case.width)
        case.actual = [[row[column] for column in order] for row in case.actual]
        assert before.score == compare_in_part(*case.prepared(), Budget()).score, vars(case)

    check()


@pytest.mark.parametrize("exact", [True, False])
def test_the_order_of_rows_does_not_change_what_differs(exact: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not exact:
        monkeypatch.setattr("graphrag_eval_async.steps.tables.rows.EXACT_STEPS", 0)
    rng = random.Random(2)
    for _ in range(400):
        expected, actual = random_tables(rng, 5, 3, 4)
        shown = set()
        for _ in range(5):
            rng.shuffle(expected)
            rng.shuffle(actual)
            shown.add((*listed(in_part(expected, actual, other=ABC)),))
        assert len(shown) == 1, (expected, actual)


def test_scores_on_an_event_loop_are_those_of_a_thread() -> None:
    rng = random.Random(4)
    seen = []
    for _ in range(60):
        tables = random_tables(rng, rng.randint(5, 45), rng.randint(1, 3), 20)
        try:
            found = in_part(*tables, other=ABC, budget=Budget(QUICK_STEPS, quick=True))
        except ComparisonBudgetExceeded:
            seen.append(False)
        else:
            assert found == in_part(*tables, other=ABC)
            seen.append(True)
    assert min(seen.count(True), seen.count(False)) > 5


@pytest.mark.parametrize("height", [50, 4000])
def test_in_long_tables_most_of_what_is_in_order_is_found(height: int) -> None:
    rng = random.Random(1)
    expected = [[literal(str(rng.randrange(10**6))) for _ in "ab"] for _ in range(height)]
    actual = [row if rng.random() < 0.9 else [row[0], literal("-1")] for row in expected]
    wanted = sum(
        one == other for pair in zip(expected, actual, strict=True) for one, other in zip(*pair, strict=True)
    )
    assert in_part(expected, actual, ordered=True).score == wanted / (2 * height)
    moved = [*actual[height // 10 :], *actual[: height // 10]]
    assert in_part(expected, moved, ordered=True).score > 0.8 * wanted / (2 * height)
