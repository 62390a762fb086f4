"""Marks the cells in which two tables differ, for a person who compares them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

MISSING = "missing"
"""Mark of what is expected but absent."""

UNEXPECTED = "unexpected"
"""Mark of what is present but not expected."""

WRONG = "wrong"
"""Mark of a cell that differs from the one beside it."""

MAX_UNMATCHED = 200
"""Maximum number of rows on each side whose closest row is looked for. The rest is marked whole."""

Cell: TypeAlias = "str | None"
"""The text of a cell; None if it is empty."""

Marks: TypeAlias = "list[list[str]]"
"""For each row, the mark of each cell; empty for a cell that does not differ."""


@dataclass(frozen=True, slots=True)
class Grid:
    """A table as texts: the names of its columns, and its rows."""

    names: Sequence[str]
    rows: Sequence[Sequence[Cell]]


def mark_differences(expected: Grid, actual: Grid) -> tuple[Marks, Marks]:
    """Return the marks of the expected and of the actual cells that differ.

    Columns are paired by name, or else by the values that they share. Rows may be in any order. A
    row without an equal one is compared with the closest row that has none either.
    """
    pairs = _pair_columns(expected, actual)
    expected_keys = [_key(row, [column for column, _ in pairs]) for row in expected.rows]
    actual_keys = [_key(row, [column for _, column in pairs]) for row in actual.rows]
    missing_rows = _rows_without_equal(expected_keys, actual_keys)
    extra_rows = _rows_without_equal(actual_keys, expected_keys)

    # An agent may return more columns than expected, but not fewer.
    paired = {column for column, _ in pairs}
    row_of_marks = ["" if column in paired else MISSING for column in range(len(expected.names))]
    expected_marks = [row_of_marks.copy() for _ in expected.rows]
    actual_marks = [[""] * len(actual.names) for _ in actual.rows]
    for row in missing_rows:
        expected_marks[row] = [MISSING] * len(expected.names)
    for row in extra_rows:
        actual_marks[row] = [UNEXPECTED] * len(actual.names)

    # Of rows that differ in some cells only, these cells are marked instead.
    candidates = extra_rows[:MAX_UNMATCHED]
    for row in missing_rows[:MAX_UNMATCHED]:
        closest = _closest_row(expected_keys[row], actual_keys, candidates)
        if closest is None:
            continue
        candidates.remove(closest)
        expected_marks[row] = row_of_marks.copy()
        actual_marks[closest] = [""] * len(actual.names)
        for place, (expected_column, actual_column) in enumerate(pairs):
            if expected_keys[row][place] != actual_keys[closest][place]:
                expected_marks[row][expected_column] = WRONG
                actual_marks[closest][actual_column] = WRONG
    return expected_marks, actual_marks


def _pair_columns(expected: Grid, actual: Grid) -> list[tuple[int, int]]:
    """Return the columns that hold the same thing: places of expected and of actual ones."""
    pairs = []
    free = list(range(len(actual.names)))
    unpaired = []
    for column, name in enumerate(expected.names):
        same = [place for place in free if actual.names[place] == name]
        if same:
            pairs.append((column, same[0]))
            free.remove(same[0])
        else:
            unpaired.append(column)

    values = {place: Counter(_value(row[place]) for row in actual.rows) for place in free}
    for column in unpaired:
        expected_values = Counter(_value(row[column]) for row in expected.rows)
        shared = {place: (expected_values & values[place]).total() for place in free}
        best = max(shared, key=lambda place: shared[place], default=None)
        if best is not None and shared[best] > 0:
            pairs.append((column, best))
            free.remove(best)
    return pairs


def _key(row: Sequence[Cell], columns: Sequence[int]) -> tuple[object, ...]:
    """Return the values of some columns of a row, by which it is compared."""
    return tuple(_value(row[column]) for column in columns)


def _value(cell: Cell) -> object:
    """Return what a cell is compared by: the number that it is, or its text."""
    if cell is None:
        return None
    try:
        return float(cell)
    except ValueError:
        return cell.strip()


def _rows_without_equal(
    keys: Sequence[tuple[object, ...]], other_keys: Sequence[tuple[object, ...]]
) -> list[int]:
    """Return the places of keys for which there is no equal one among others, each used once."""
    available = Counter(other_keys)
    places = []
    for place, key in enumerate(keys):
        if available[key] > 0:
            available[key] -= 1
        else:
            places.append(place)
    return places


def _closest_row(
    key: tuple[object, ...], keys: Sequence[tuple[object, ...]], candidates: Sequence[int]
) -> int | None:
    """Return the candidate with most cells as in `key`; None if no cell of any is."""
    closest = None
    most_equal = 0
    for candidate in candidates:
        equal = sum(value == other for value, other in zip(key, keys[candidate], strict=True))
        if equal > most_equal:
            closest = candidate
            most_equal = equal
    return closest
