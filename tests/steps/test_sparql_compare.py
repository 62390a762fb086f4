"""Tables that agree and that do not, by what the docs say of cells, rows and columns."""

from __future__ import annotations

import random
import threading
from typing import Any, TypedDict, Unpack

import pytest

from graphrag_eval_async.errors import ComparisonBudgetExceeded, MalformedStep
from graphrag_eval_async.steps.budget import Budget
from graphrag_eval_async.steps.tables.comparison import agree, prepare_reference
from tests.steps.results import XSD, read_results
from tests.support.cases import each
from tests.support.cpu import affordable


def term(text: str | None, datatype: str | None = None, kind: str = "literal") -> dict[str, str] | None:
    if text is None:
        return None
    return {"type": kind, "value": text} | ({"datatype": XSD + datatype} if datatype else {})


def table(rows: list[list[Any]], prefix: str = "v", width: int | None = None) -> dict[str, Any]:
    """Rows of terms, or of texts (None: unbound), or of (text, datatype), in variables numbered from 0."""
    names = [f"{prefix}{index}" for index in range(len(rows[0]) if width is None else width)]
    bindings = []
    for row in rows:
        terms = [c if isinstance(c, dict) else term(*c) if isinstance(c, tuple) else term(c) for c in row]
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


AGREE = [
    (("5", "integer"), ("+05", "long")),
    (("5", "integer"), ("5.0", "decimal")),
    (("1", "boolean"), ("true", "boolean")),
    (("1", "boolean"), ("1", "integer")),
    (("true", "boolean"), "true"),
    (("5", "integer"), "5"),
    ("urn:x", term("urn:x", kind="uri")),
    ({"type": "literal", "value": "a", "xml:lang": "en"}, {"type": "bnode", "value": "a"}),
    (None, None),
    ("\ud800", "\ud800"),
]
DIFFER = [
    (("100000000", "integer"), ("100000001", "integer")),
    (("5", "integer"), "05"),
    (("1" + "0" * 18, "integer"), ("+1" + "0" * 18, "integer")),
    (("1", "boolean"), ("0", "boolean")),
    ("a", "A"),
    (None, ""),
    (None, ("0", "integer")),
]


@each(("one", "other", "agrees"), [*((*pair, True) for pair in AGREE), *((*pair, False) for pair in DIFFER)])
def test_cells(one: Any, other: Any, agrees: bool) -> None:
    """Whatever they are asked for: alone, the other way round, in order or in a multiset."""
    for how in WAYS:
        for left, right in ((one, other), (other, one)):
            assert score(table([[left]]), table([[right]], "w"), **how) == agrees


def test_required_columns() -> None:
    expected = table([["a", "b", "c"]])
    assert score(expected, table([["c"]], "w"), ["v2"]) == 1.0
    assert score(expected, table([["c"]], "w"), ["v1"]) == 0.0
    assert score(expected, table([["c", "a", "b"]], "w"), []) == 1.0
    for required in (["v0", "v0"], ["x"], ["v0", "x", "x"]):
        with pytest.raises(MalformedStep, match="required_columns: "):
            score(expected, expected, required)


@pytest.mark.parametrize("how", WAYS, ids=str)
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


@pytest.mark.parametrize("ignore_duplicates", [True, False])
@pytest.mark.parametrize("rows", LOOKALIKES.values(), ids=LOOKALIKES)
def test_lookalike_columns_are_paired(rows: list[list[Any]], ignore_duplicates: bool) -> None:
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
