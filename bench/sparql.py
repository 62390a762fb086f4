"""Reading, preparing and comparing wide SPARQL results, in units of `orjson.loads` of both."""

from __future__ import annotations

import random
from time import perf_counter
from typing import TYPE_CHECKING

import orjson

from graphrag_eval_async.errors import ComparisonBudgetExceeded
from graphrag_eval_async.steps.budget import Budget
from graphrag_eval_async.steps.formats.reading import read_document
from graphrag_eval_async.steps.formats.results import results_of
from graphrag_eval_async.steps.tables.comparison import agree
from graphrag_eval_async.steps.tables.partial import compare_in_part
from graphrag_eval_async.steps.tables.rules import Rows, TableRules, prepare_reference

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ROWS, COLUMNS, REQUIRED, REPEATS = 10_000, 14, 10, 3
TARGET, PARTIAL_TARGET = "at most 6x", "at most 10x"
_XSD = "http://www.w3.org/2001/XMLSchema#"

Table = list[list[str]]

KINDS: dict[str, tuple[str | None, Callable[[random.Random], str]]] = {
    "text": (None, lambda rng: f"urn:uuid:{rng.getrandbits(64):016x}"),
    "integer": (f"{_XSD}integer", lambda rng: str(rng.getrandbits(40))),
    "double": (f"{_XSD}double", lambda rng: repr(rng.uniform(0, 1000))),
}


def encode(table: Sequence[Sequence[str]], prefix: str, datatype: str | None = None) -> str:
    """The rows of literals as SPARQL results JSON, variables numbered after the prefix."""
    extra = {"datatype": datatype} if datatype else {}
    names = [f"{prefix}{index}" for index in range(len(table[0]))]
    bindings = [
        {
            name: {"type": "literal", "value": text, **extra}
            for name, text in zip(names, row, strict=True)
        }
        for row in table
    ]
    return orjson.dumps({"head": {"vars": names}, "results": {"bindings": bindings}}).decode()


def score(expected: str, actual: str, *, ignore_duplicates: bool = True) -> float | None:
    """The whole way from bytes to score; None where the search budget ran out."""
    results = results_of(read_document(expected))
    required = tuple(column.name for column in results.columns)[:REQUIRED]
    rows = Rows.AS_SET if ignore_duplicates else Rows.AS_MULTISET
    reference = prepare_reference(results, TableRules(rows, required))
    try:
        return float(agree(reference, results_of(read_document(actual)), Budget()))
    except ComparisonBudgetExceeded:
        return None


def score_in_part(expected: str, actual: str) -> float:
    """The same with partial credit."""
    results = results_of(read_document(expected))
    required = tuple(column.name for column in results.columns)[:REQUIRED]
    reference = prepare_reference(results, TableRules(required_columns=required))
    return compare_in_part(reference, results_of(read_document(actual)), Budget()).score


def shuffled(table: Table, rng: random.Random) -> Table:
    order = rng.sample(range(len(table[0])), len(table[0]))
    rows = [[row[index] for index in order] for row in table]
    rng.shuffle(rows)
    return rows


def last_row_differs(table: Table) -> Table:
    return [*table[:-1], ["1" + table[-1][0], *table[-1][1:]]]


def two_cells_swapped(table: Table) -> Table:
    """Every column keeps its values: only whole rows tell the difference."""
    first, *rest, last = sorted(table)
    return [[last[0], *first[1:]], *rest, [first[0], *last[1:]]]


def some_wrong(
    table: Table, share: float, cell: Callable[[random.Random], str], rng: random.Random
) -> Table:
    """About that share of the cells replaced."""
    return [[cell(rng) if rng.random() < share else text for text in row] for row in table]


def permutations(rows: int, rng: random.Random) -> Table:
    columns = [rng.sample(range(rows), rows) for _ in range(COLUMNS)]
    return [[str(cell) for cell in row] for row in zip(*columns, strict=True)]


def few_values(rows: int, values: int, rng: random.Random) -> Table:
    return [[str(rng.randrange(values)) for _ in range(COLUMNS)] for _ in range(rows)]


def lookalikes(rng: random.Random) -> list[tuple[str, Table]]:
    return [
        *((f"each a permutation, {rows} rows", permutations(rows, rng)) for rows in (100, ROWS)),
        *(
            (f"{values} values, {rows} rows", few_values(rows, values, rng))
            for values in (2, 5)
            for rows in (20, 100, 1000, ROWS)
        ),
        ("all equal", [["x"] * COLUMNS] * ROWS),
    ]


def near(table: Table, rng: random.Random) -> Table:
    """The same numbers but for the last digits."""
    return [
        [repr(float(cell) * rng.uniform(1 - 1e-12, 1 + 1e-12)) for cell in row] for row in table
    ]


def best(function: Callable[[], object]) -> float:
    times = []
    for _ in range(REPEATS):
        start = perf_counter()
        function()
        times.append(perf_counter() - start)
    return min(times)


def ratio(
    expected: str,
    actual: str,
    wanted: float,
    scorer: Callable[[str, str], float | None] = score,
    tolerance: float = 0,
) -> str:
    found = scorer(expected, actual)
    assert found is not None and abs(found - wanted) <= tolerance, found  # noqa: S101, PT018
    floor = best(lambda: (orjson.loads(expected), orjson.loads(actual)))
    return f"{best(lambda: scorer(expected, actual)) / floor:.2f}x"


def rows() -> list[tuple[str, str, str]]:
    """What was measured, the ratio, and the target."""
    rng = random.Random(7)
    size = f"{REQUIRED} of {COLUMNS} columns, {ROWS:,} rows"
    found = []
    for kind, (datatype, cell) in KINDS.items():
        table = [[cell(rng) for _ in range(COLUMNS)] for _ in range(ROWS)]
        expected = encode(table, "v", datatype)
        for what, other, wanted in (
            ("last row different", last_row_differs(table), 0.0),
            ("two cells swapped", two_cells_swapped(table), 0.0),
            ("columns shuffled", shuffled(table, rng), 1.0),
        ):
            measured = ratio(expected, encode(other, "w", datatype), wanted)
            found.append((f"SPARQL, {size}, {kind}, {what}", measured, TARGET))
        for share in (0.03, 0.5):
            other = shuffled(some_wrong(table, share, cell, rng), rng)
            measured = ratio(expected, encode(other, "w", datatype), 1 - share, score_in_part, 0.01)
            what = f"partial credit, {share:.0%} of the cells wrong"
            found.append((f"SPARQL, {size}, {kind}, {what}", measured, PARTIAL_TARGET))
    return found


def worst_cases() -> list[tuple[str, float | None, float]]:
    """Lookalike columns: what, the score (None: out of budget) and the seconds it took."""
    rng = random.Random(7)
    found = []
    for what, table in lookalikes(rng):
        expected = encode(table, "v")
        for change, other in (
            ("shuffled", shuffled(table, rng)),
            ("swapped", two_cells_swapped(table)),
        ):
            actual = encode(shuffled(other, rng), "w")
            found += both_ways(f"{what}, {change}", expected, actual)
    for columns in (1, 2, COLUMNS):
        for most in (1e-7, 1e-6):
            table = [[repr(rng.uniform(0, most)) for _ in range(columns)] for _ in range(ROWS)]
            expected = encode(table, "v", KINDS["double"][0])
            actual = encode(shuffled(near(table, rng), rng), "w", KINDS["double"][0])
            what = f"{columns} columns of doubles up to {most}, {ROWS} rows, near"
            found += both_ways(what, expected, actual)
    return found


def both_ways(what: str, expected: str, actual: str) -> list[tuple[str, float | None, float]]:
    found = []
    for ignore_duplicates in (True, False):
        start = perf_counter()
        result = score(expected, actual, ignore_duplicates=ignore_duplicates)
        rows_as = "set" if ignore_duplicates else "multiset"
        found.append((f"{what}, as {rows_as}", result, perf_counter() - start))
    return found


if __name__ == "__main__":
    for what, measured, target in rows():
        print(f"{what:75} {measured:>6}  {target}")
    for what, result, seconds in worst_cases():
        print(f"{what:75} {result!s:>6}  {seconds:.3f} s")
