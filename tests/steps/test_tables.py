"""Tables that agree, in whole or in part: what the docs say of cells, rows and columns, and what it costs."""

from __future__ import annotations

import random
import threading
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag_eval_async.errors import ComparisonBudgetExceeded, MalformedStep
from graphrag_eval_async.steps.budget import QUICK_STEPS, Budget
from graphrag_eval_async.steps.tables.columns import values_of
from graphrag_eval_async.steps.tables.comparison import agree, prepare_reference
from graphrag_eval_async.steps.tables.partial import compare_in_part
from tests.steps.support import XSD, encode, literal, read_results
from tests.steps.test_oracle import MANY, Case
from tests.support.cases import each
from tests.support.cpu import affordable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from graphrag_eval_async.steps.differences import Agreement
    from tests.steps.support import Table, Term


def term(cell: Any) -> Term:
    if cell is None or isinstance(cell, dict):
        return cell
    return literal(*cell) if isinstance(cell, tuple) else literal(cell)


def table(rows: list[list[Any]], prefix: str = "v") -> dict[str, Any]:
    """Rows of terms, or of texts (None: unbound), or of (text, datatype), in variables numbered from 0."""
    names = [f"{prefix}{index}" for index in range(len(rows[0]))]
    bindings = []
    for row in rows:
        terms = map(term, row)
        bindings.append({name: cell for name, cell in zip(names, terms, strict=True) if cell is not None})
    return {"head": {"vars": names}, "results": {"bindings": bindings}}


class How(TypedDict, total=False):
    ordered: bool
    ignore_duplicates: bool


WAYS: list[How] = [{}, {"ordered": True}, {"ignore_duplicates": False}]


def score(
    expected: dict[str, Any],
    actual: dict[str, Any],
    required: list[str] | None = None,
    budget: Budget | None = None,
    **how: Unpack[How],
) -> float:
    options: Any = {"ordered": False, "ignore_duplicates": True, **how}
    reference = prepare_reference(read_results(expected), required_columns=required, **options)
    return float(agree(reference, read_results(actual), budget or Budget()))


def test_required_columns() -> None:
    expected = table([["a", "b", "c"]])
    assert score(expected, table([["c"]], "w"), ["v2"]) == 1.0
    assert score(expected, table([["c"]], "w"), ["v1"]) == 0.0
    assert score(expected, table([["c", "a", "b"]], "w"), []) == 1.0
    for required in (["v0", "v0"], ["x"], ["v0", "x", "x"]):
        with pytest.raises(MalformedStep, match="required_columns: "):
            score(expected, expected, required)


@each("how", WAYS)
def test_variables_never_bound_are_counted_rather_than_compared(how: How) -> None:
    expected, many = table([["a", None]] * 3), table([["a"]] * 3)
    assert score(expected, many, **how) == 0.0
    many["head"]["vars"] += [f"w{index}" for index in range(100_000)]
    assert score(expected, many, **how) == score(many, many, **how) == 1.0
    assert score(many, expected, **how) == 0.0
    assert score(many, expected, ["w7", "v0"], **how) == 1.0
    assert score(many, expected, ["w7", "w8"], **how) == 0.0
    assert score(table([[None]] * 3), expected, **how) == 1.0
    assert score(table([[None]]), table([["a"]]), **how) == 0.0


def shuffled(rows: list[list[Any]], rng: random.Random) -> list[list[Any]]:
    order = rng.sample(range(len(rows[0])), len(rows[0]))
    return rng.sample([[row[index] for index in order] for row in rows], len(rows))


def permuted_columns(height: int) -> list[list[Any]]:
    columns = [random.Random(column).sample(range(height), height) for column in range(14)]
    return [[str(cell) for cell in row] for row in zip(*columns, strict=True)]


def few_values(height: int, values: int) -> list[list[Any]]:
    rng = random.Random(5)
    return [[(str(rng.randrange(values)), "integer") for _ in range(14)] for _ in range(height)]


LOOKALIKES = {
    "permutations of the same": permuted_columns(100),
    "two values": few_values(100, 2),
    "all equal": [["a"] * 14] * 100,
    "one of each": [["1" if row == column else "0" for column in range(14)] for row in range(14)],
}
REQUIRED = [f"v{index}" for index in range(10)]


@each(("name", "ignore_duplicates"), [(name, flag) for name in LOOKALIKES for flag in (True, False)])
def test_lookalike_columns_are_paired(name: str, ignore_duplicates: bool) -> None:
    rows = LOOKALIKES[name]
    actual = shuffled(rows * 2 if ignore_duplicates else rows, random.Random(6))
    required = None if ignore_duplicates else REQUIRED
    found = score(table(rows), table(actual, "w"), required, ignore_duplicates=ignore_duplicates)
    assert found == 1.0


def dependent_columns(seed: int) -> list[list[Any]]:
    """Columns that are linear functions over GF(2): all that are independent look alike."""
    masks = random.Random(seed).sample(range(1, 256), 14)
    return [[str((row & mask).bit_count() % 2) for mask in masks] for row in range(256)]


def test_the_search_is_bounded_and_reports_it() -> None:
    tables, budget = (table(dependent_columns(1)), table(dependent_columns(2), "w")), Budget(1_000_000)
    with pytest.raises(ComparisonBudgetExceeded, match=r"10 columns of 256 rows, 14 of 256 .*exhausted"):
        score(*tables, REQUIRED, budget)


def test_stopping_a_budget_from_another_thread_ends_a_comparison() -> None:
    budget = Budget(10**9)
    timer = threading.Timer(0.05, budget.stop)
    timer.start()
    with affordable(2**18), pytest.raises(ComparisonBudgetExceeded, match="stopped"):
        score(table(dependent_columns(1)), table(dependent_columns(2), "w"), REQUIRED, budget)
    timer.join()


# Partial credit

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


@each(("expected", "actual", "how", "wanted"), PARTS)
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


@each(("height", "times"), [(5, 100), (90, 4)])  # The best pairs of rows are found of short tables alone.
def test_the_order_of_rows_does_not_change_what_differs(height: int, times: int) -> None:
    rng = random.Random(2)
    for _ in range(times):
        expected, actual = random_tables(rng, height, 3, 4 if height == 5 else 12)
        shown = set()
        for _ in range(4):
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


@each("height", [50, 4000])
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


# Tables made to take long: each is compared in time, or refused

SHARED = 2**61 - 1
"""Multiples of it share their hash."""

N = 1 << 20
NEARLY_NUMBERS = {
    "digits": "1" * N,
    "two points": "0" * (N // 2) + "." + "0" * (N // 2) + ".",
    "spaces": " " * (N // 2) + "x" + " " * (N // 2),
}


@each("kind", ["integer", "decimal", "double", "boolean"])
@each("name", NEARLY_NUMBERS)
def test_a_cell_that_is_nearly_a_number_takes_linear_time(name: str, kind: str) -> None:
    text = NEARLY_NUMBERS[name]
    with affordable(2 * N):
        [alone] = values_of([text], [XSD + kind])
        assert values_of([text, "plain"], [XSD + kind, None]) == [alone, "plain"]
    assert alone == text or kind == "double"


@each("how", WAYS)
def test_integers_that_share_a_hash_are_compared_in_time(how: How) -> None:
    rows = [
        [
            *((str((32 * row + column + 1) * SHARED), "integer") for column in range(32)),
            (f"{row}.5", "double"),
        ]
        for row in range(300)
    ]
    actual = table(rows, "w")
    with affordable(len(orjson.dumps(actual))):
        assert score(table(rows), actual, **how) == 1.0
        assert score(table(rows), table([*rows[:-1], rows[0]], "w"), **how) == 0.0


def assert_lookalikes_are_compared_in_time(values: int, width: int) -> None:
    """Columns with the same few values have billions of pairings; columns of the same name come first."""
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


def test_partial_credit_for_lookalike_columns_ends_in_time() -> None:
    assert_lookalikes_are_compared_in_time(values=2, width=14)


@pytest.mark.soak
@each(("values", "width"), [(values, width) for values in (1, 2, 5, 1000) for width in (14, 200)])
def test_partial_credit_for_any_lookalike_columns_ends_in_time(values: int, width: int) -> None:
    """Columns of few values and of many, few columns and many, are compared in time or refused. 10 s."""
    assert_lookalikes_are_compared_in_time(values, width)
