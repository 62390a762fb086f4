"""Tables that agree and that do not, by what the docs say of cells, rows and columns."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypedDict, Unpack

import pytest

from graphrag_eval_async.errors import ComparisonBudgetExceeded, MalformedStep
from graphrag_eval_async.steps.budget import Budget
from graphrag_eval_async.steps.tables.comparison import agree, prepare_reference
from tests.cases import each
from tests.steps.results import XSD, read_results


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


def cells_agree(one: Any, other: Any) -> bool:
    """Whatever the two cells are asked for: alone, the other way round, in order or in a multiset."""
    scores = {
        score(table([[left]]), table([[right]], prefix), **how)
        for left, right in ((one, other), (other, one))
        for prefix in "vw"
        for how in WAYS
    }
    assert len(scores) == 1
    return scores.pop() == 1.0


HUGE = "1" + "0" * 400


@each(
    ("one", "other"),
    [
        (("5", "integer"), ("+05", "long")),
        (("5", "integer"), ("5.0", "decimal")),
        (("5", "int"), ("5.00000001", "double")),
        (("0.1", "decimal"), ("1e-1", "float")),
        (("0", "double"), ("1e-8", "double")),
        (("-0.0", "double"), ("0", "integer")),
        (("100000000", "integer"), ("100000000.5", "decimal")),
        (("INF", "double"), ("+INF", "float")),
        (("1", "boolean"), ("true", "boolean")),
        (("0", "boolean"), ("false", "boolean")),
        (("1", "boolean"), ("1", "integer")),
        (("true", "boolean"), "true"),
        (("5", "integer"), "5"),
        (("5.0", "double"), ("5.0", "date")),
        (("NaN", "double"), "NaN"),
        (("NaN", "double"), ("NaN", "float")),
        (("1e400", "double"), ("1.0e400", "float")),
        (("-1e400", "double"), ("-INF", "float")),
        (("INF", "double"), (HUGE, "double")),
        (("abc", "integer"), "abc"),
        ((HUGE, "integer"), (HUGE, "decimal")),
        ((HUGE, "double"), HUGE),
        ((HUGE, "integer"), HUGE),
        ((HUGE, "integer"), (HUGE, "double")),
        (("9" * 299, "integer"), ("9" * 299, "decimal")),
        (("2024-01-01", "date"), "2024-01-01"),
        ("urn:x", term("urn:x", kind="uri")),
        ({"type": "literal", "value": "a", "xml:lang": "en"}, {"type": "bnode", "value": "a"}),
        (None, None),
        ("\ud800", "\ud800"),
    ],
)
def test_cells_agree(one: Any, other: Any) -> None:
    assert cells_agree(one, other)


@each(
    ("one", "other"),
    [
        (("100000000", "integer"), ("100000001", "integer")),
        (("100000000", "integer"), ("100000002", "decimal")),
        (("0", "double"), ("1.1e-8", "double")),
        (("5", "integer"), "05"),
        (("5", "integer"), "5.0"),
        (("INF", "double"), ("-INF", "double")),
        (("INF", "double"), ("1e308", "double")),
        (("-INF", "double"), ("1e400", "double")),
        (("1e400", "decimal"), ("1e401", "decimal")),
        ((HUGE, "decimal"), ("INF", "double")),
        ((HUGE, "integer"), ("+" + HUGE, "integer")),
        (("NaN", "double"), ("nan", "double")),
        (("1", "boolean"), ("0", "boolean")),
        (("true", "boolean"), ("1", "integer")),
        (("true", "boolean"), "1"),
        (("1", "boolean"), ("1.0", "decimal")),
        (("1e1", "decimal"), ("10", "decimal")),
        (("P1D", "duration"), ("PT24H", "duration")),
        (("2024-01-01Z", "date"), ("2024-01-01+00:00", "date")),
        ("a", "A"),
        (None, ""),
        (None, ("0", "integer")),
    ],
)
def test_cells_differ(one: Any, other: Any) -> None:
    assert not cells_agree(one, other)


@each(
    ("expected", "actual", "wanted"),
    [
        ([["ab", "c"]], [["a", "bc"]], 0.0),
        ([["a", "b"], ["c", "d"]], [["d", "c"], ["b", "a"]], 1.0),
        ([["a", "b"], ["c", "d"]], [["a", "d"], ["c", "b"]], 0.0),
        ([["a"], ["b"]], [["x", "a"], ["y", "b"]], 1.0),
        ([["a", "a"]], [["a", "b"]], 0.0),
        ([["a", "a"]], [["a", "b", "a"]], 1.0),
        ([["a"], ["a"], ["b"]], [["b"], ["a"]], 1.0),
        ([["a", None]], [[None, "a"]], 1.0),
        ([["a", None]], [["a", ""]], 0.0),
        ([["a", "b"], ["b", "c"], ["c", "a"]], [["a", "c"], ["b", "a"], ["c", "b"]], 1.0),
        ([["a", "b"], ["b", "a"], ["c", "c"]], [["a", "b"], ["b", "c"], ["c", "a"]], 0.0),
    ],
)
def test_sets(expected: list[list[Any]], actual: list[list[Any]], wanted: float) -> None:
    assert score(table(expected), table(actual, "w")) == score(table(expected), table(actual)) == wanted


def test_multisets_count() -> None:
    once, twice, swapped = ([["a"], ["b"]], [["a"], ["a"], ["b"]], [["a"], ["b"], ["b"]])
    assert score(table(twice), table(once)) == 1.0
    assert score(table(twice), table(once), ignore_duplicates=False) == 0.0
    assert score(table(twice), table(swapped), ignore_duplicates=False) == 0.0
    assert score(table(twice), table(twice[::-1]), ignore_duplicates=False) == 1.0


def test_ordered_takes_precedence_over_duplicates() -> None:
    rows = [["a"], ["a"], ["b"]]
    for ignore_duplicates in (True, False):
        how: How = {"ordered": True, "ignore_duplicates": ignore_duplicates}
        assert score(table(rows), table(rows, "w"), **how) == 1.0
        assert score(table(rows), table(rows[::-1], "w"), **how) == 0.0
        assert score(table(rows), table(rows[1:], "w"), **how) == 0.0


def test_required_columns() -> None:
    expected = table([["a", "b", "c"]])
    assert score(expected, table([["c"]], "w"), ["v2"]) == 1.0
    assert score(expected, table([["c"]], "w"), ["v1"]) == 0.0
    assert score(expected, table([["c", "a"]], "w")) == 0.0
    assert score(expected, table([["c", "a", "b"]], "w"), []) == 1.0


@pytest.mark.parametrize("required", [["v0", "v0"], ["x"], ["v0", "x", "x"]])
def test_required_columns_must_be_variables_once(required: list[str]) -> None:
    with pytest.raises(MalformedStep, match="required_columns: "):
        score(table([["a"]]), table([["a"]]), required)


@pytest.mark.parametrize("how", WAYS, ids=str)
def test_empty_tables(how: How) -> None:
    assert score(table([], width=2), table([], "w", width=2), **how) == 1.0
    assert score(table([], width=2), table([], "w", width=1), **how) == 0.0
    assert score(table([], width=2), table([], "w", width=1), ["v0"], **how) == 1.0
    assert score(table([], width=1), table([["a"]], "w"), **how) == 0.0
    assert score(table([["a"]]), table([], "w", width=1), **how) == 0.0
    assert score(table([[], []]), table([["a"], ["b"]], "w"), **how) == 1.0
    assert score(table([[], []]), table([], width=0), **how) == 0.0


def test_rows_of_no_columns_count_unless_they_are_a_set() -> None:
    assert score(table([[], []]), table([[]])) == 1.0
    assert score(table([[], []]), table([[]]), ignore_duplicates=False) == 0.0


@pytest.mark.parametrize("how", WAYS, ids=str)
def test_variables_never_bound_are_counted_rather_than_compared(how: How) -> None:
    expected, many = table([["a", None]] * 3), table([["a"]] * 3)
    assert score(expected, many, **how) == 0.0
    many["head"]["vars"] += [f"w{index}" for index in range(100_000)]
    assert score(expected, many, **how) == 1.0
    assert score(many, many, **how) == 1.0
    assert score(many, expected, **how) == 0.0
    assert score(many, expected, ["w7", "v0"], **how) == 1.0
    assert score(many, expected, ["w7", "w8"], **how) == 0.0
    assert score(table([[None]] * 3), expected, **how) == 1.0
    assert score(table([[None]]), table([["a"]]), **how) == 0.0


def test_ask() -> None:
    yes, no = ({"head": dict[str, Any](), "boolean": answer} for answer in (True, False))
    assert score(yes, yes) == score(no, no) == 1.0
    assert score(yes, no) == score(no, yes) == 0.0
    for select in (table([], width=0), table([], width=1), table([[]]), table([["a"]])):
        assert score(select, no) == score(no, select) == 0.0
        assert score(select, yes) == score(yes, select) == 0.0


def random_table(
    height: int, values: int, rng: random.Random, *, datatype: str | None = None
) -> list[list[Any]]:
    texts = [[str(rng.randrange(values)) for _ in range(14)] for _ in range(height)]
    return [[(text, datatype) for text in row] for row in texts]


def permuted_columns(height: int, rng: random.Random) -> list[list[Any]]:
    columns = [rng.sample(range(height), height) for _ in range(14)]
    return [[str(cell) for cell in row] for row in zip(*columns, strict=True)]


def shuffled(rows: list[list[Any]], rng: random.Random) -> list[list[Any]]:
    order = rng.sample(range(len(rows[0])), len(rows[0]))
    return rng.sample([[row[index] for index in order] for row in rows], len(rows))


RNG = random.Random(5)
LOOKALIKES = {
    "permutations of the same": permuted_columns(100, RNG),
    "many permutations of the same": permuted_columns(2000, RNG),
    "cyclic shifts": [[str((row + column) % 50) for column in range(14)] for row in range(50)],
    "two values": random_table(100, 2, RNG),
    "two values, many rows": random_table(2000, 2, RNG),
    "three values": random_table(300, 3, RNG, datatype="integer"),
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


@pytest.mark.parametrize("name", ["permutations of the same", "cyclic shifts", "three values"])
def test_lookalike_columns_that_belong_to_other_rows(name: str) -> None:
    rng = random.Random(7)
    rows = LOOKALIKES[name]
    column = rng.sample([row[0] for row in rows], len(rows))
    other = [[cell, *row[1:]] for cell, row in zip(column, rows, strict=True)]
    required = [f"v{index}" for index in range(14)]
    assert score(table(rows), table(shuffled(other, rng), "w"), required) == 0.0


def dependent_columns(seed: int) -> list[list[Any]]:
    """Columns that are linear functions over GF(2): all that are independent look alike."""
    masks = random.Random(seed).sample(range(1, 256), 14)
    return [[str((row & mask).bit_count() % 2) for mask in masks] for row in range(256)]


def test_the_search_is_bounded_and_reports_it() -> None:
    for ignore_duplicates in (True, False):
        with pytest.raises(ComparisonBudgetExceeded, match=r"10 columns of 256 rows, 14 of 256 .*exhausted"):
            score(
                table(dependent_columns(1)),
                table(dependent_columns(2), "w"),
                REQUIRED,
                Budget(1_000_000),
                ignore_duplicates=ignore_duplicates,
            )


def test_comparisons_share_a_budget() -> None:
    rows = LOOKALIKES["cyclic shifts"]
    expected, actual = table(rows), table(shuffled(rows, random.Random(6)), "w")
    budget = Budget(30_000)
    assert score(expected, actual, REQUIRED, budget, ignore_duplicates=False) == 1.0
    assert budget.left < 15_000
    with pytest.raises(ComparisonBudgetExceeded, match="exhausted"):
        score(expected, actual, REQUIRED, budget, ignore_duplicates=False)


def test_a_limit_restores_what_is_beyond_it() -> None:
    budget = Budget(100)
    with budget.limited(50):
        budget.spend(50)
        with pytest.raises(ComparisonBudgetExceeded):
            budget.spend(1)
    budget.spend(50)
    with pytest.raises(ComparisonBudgetExceeded):
        budget.spend(1)


class Recorder(Budget):
    """Stops itself, as if from another thread, once so many steps are spent, and counts what follows."""

    __slots__ = ("later", "until_stop")

    def __init__(self, steps: int) -> None:
        super().__init__()
        self.until_stop = steps
        self.later = 0

    def spend(self, steps: int) -> None:
        self.later += self.until_stop < 0
        self.until_stop -= steps
        if self.until_stop < 0:
            self.stop()
        super().spend(steps)


@pytest.mark.parametrize("steps", [0, 1_000_000])
@pytest.mark.parametrize("ignore_duplicates", [True, False])
def test_a_stopped_budget_ends_a_comparison(steps: int, ignore_duplicates: bool) -> None:
    budget, tables = Recorder(steps), (table(dependent_columns(1)), table(dependent_columns(2), "w"))
    with pytest.raises(ComparisonBudgetExceeded, match="stopped"):
        score(*tables, REQUIRED, budget, ignore_duplicates=ignore_duplicates)
    assert budget.later <= 1


def test_results_are_shared_between_threads() -> None:
    rows = random_table(50, 3, random.Random(9), datatype="double")
    reference = prepare_reference(
        read_results(table(rows)), required_columns=REQUIRED, ordered=False, ignore_duplicates=True
    )
    actual = read_results(table(shuffled(rows * 2, random.Random(10)), "w"))
    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(lambda _: agree(reference, actual, Budget()), range(32))) == {True}


def test_numbers_that_differ_in_their_last_digits_agree() -> None:
    rng = random.Random(11)
    numbers = [rng.uniform(0, 1e-3) for _ in range(4000)]
    moved = [number * rng.uniform(1 - 1e-13, 1 + 1e-13) for number in rng.sample(numbers, 4000)]
    expected = table([[(repr(number), "double")] for number in numbers])
    for last, wanted in ((moved[0], 1.0), (2e-3, 0.0)):
        actual = table([[(repr(number), "double")] for number in (*moved[1:], last)], "w")
        assert score(expected, actual, ignore_duplicates=False) == wanted
