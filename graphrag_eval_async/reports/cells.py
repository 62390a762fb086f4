"""Marks the cells in which two tables differ, for a person who compares them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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


def mark_differences(
    expected: Grid, actual: Grid, actual_by_expected: Mapping[str, str] | None = None
) -> tuple[Marks, Marks]:
    """Return the marks of the cells of the expected table, and of those of the actual table.

    Rows may be in any order. A row without an equal row in the other table is compared with the
    closest row there that has no equal row either.

    Args:
        expected: the expected table.
        actual: the table of the agent.
        actual_by_expected: the name of the actual column by that of the expected column, as the
            steps were scored. Without it, columns are paired by name, or by the values that they
            share, whichever leaves fewer rows that differ.
    """
    pairs = _pair_columns(expected, actual, actual_by_expected)
    expected_keys = [_key(row, [pair.expected for pair in pairs]) for row in expected.rows]
    actual_keys = [_key(row, [pair.actual for pair in pairs]) for row in actual.rows]
    missing_rows = _rows_without_equal(expected_keys, actual_keys)
    extra_rows = _rows_without_equal(actual_keys, expected_keys)

    # An expected column without a partner is missing in all rows. An additional column of the agent
    # is no mistake.
    paired_columns = {pair.expected for pair in pairs}
    usual_expected_marks = [
        "" if column in paired_columns else MISSING for column in range(len(expected.names))
    ]
    usual_actual_marks = [""] * len(actual.names)

    # Rows without an equal row are marked whole.
    expected_marks = [usual_expected_marks.copy() for _ in expected.rows]
    for row in missing_rows:
        expected_marks[row] = [MISSING] * len(expected.names)
    actual_marks = [usual_actual_marks.copy() for _ in actual.rows]
    for row in extra_rows:
        actual_marks[row] = [UNEXPECTED] * len(actual.names)

    # If two such rows differ in some cells only, just these cells are marked.
    candidates = extra_rows[:MAX_UNMATCHED]
    for row in missing_rows[:MAX_UNMATCHED]:
        closest = _closest_row(expected_keys[row], actual_keys, candidates)
        if closest is None:
            continue
        candidates.remove(closest)
        expected_marks[row] = usual_expected_marks.copy()
        actual_marks[closest] = usual_actual_marks.copy()
        for place, pair in enumerate(pairs):
            if expected_keys[row][place] != actual_keys[closest][place]:
                expected_marks[row][pair.expected] = WRONG
                actual_marks[closest][pair.actual] = WRONG
    return expected_marks, actual_marks


class ColumnPair(NamedTuple):
    """The index of an expected column, and that of the actual column that holds the same thing."""

    expected: int
    actual: int


def _pair_columns(
    expected: Grid, actual: Grid, actual_by_expected: Mapping[str, str] | None
) -> list[ColumnPair]:
    """Return pairs of an expected and an actual column that hold the same thing."""
    if actual_by_expected:
        return _pair_by_name(expected, actual, actual_by_expected)
    by_equal_names = _pair_by_name(expected, actual, {name: name for name in expected.names})
    by_values = _pair_by_name(expected, actual, {})
    if _count_differing(expected, actual, by_values) < _count_differing(
        expected, actual, by_equal_names
    ):
        return by_values
    return by_equal_names


def _count_differing(expected: Grid, actual: Grid, pairs: Sequence[ColumnPair]) -> int:
    """Return how many expected rows differ from all actual rows if columns are paired so.

    All rows differ if an expected column has no partner.
    """
    if len(pairs) < len(expected.names):
        return len(expected.rows)
    expected_keys = [_key(row, [pair.expected for pair in pairs]) for row in expected.rows]
    actual_keys = [_key(row, [pair.actual for pair in pairs]) for row in actual.rows]
    return len(_rows_without_equal(expected_keys, actual_keys))


def _pair_by_name(
    expected: Grid, actual: Grid, actual_by_expected: Mapping[str, str]
) -> list[ColumnPair]:
    """Return pairs of columns: first those that are named, then those that share most values.

    Args:
        expected: the expected table.
        actual: the table of the agent.
        actual_by_expected: the name of the actual column by that of the expected column.
    """
    pairs = []
    free_columns = list(range(len(actual.names)))
    unpaired_columns = []
    for column, name in enumerate(expected.names):
        partner_name = actual_by_expected.get(name)
        partners = [free for free in free_columns if actual.names[free] == partner_name]
        if partners:
            pairs.append(ColumnPair(column, partners[0]))
            free_columns.remove(partners[0])
        else:
            unpaired_columns.append(column)

    actual_values = {
        free: Counter(_value(row[free]) for row in actual.rows) for free in free_columns
    }
    for column in unpaired_columns:
        expected_values = Counter(_value(row[column]) for row in expected.rows)
        best = None
        most_shared = 0
        for free in free_columns:
            # The intersection of two counters has each value as often as both columns have it.
            shared = (expected_values & actual_values[free]).total()
            if shared > most_shared:
                best = free
                most_shared = shared
        if best is not None:
            pairs.append(ColumnPair(column, best))
            free_columns.remove(best)
    return pairs


def _key(row: Sequence[Cell], columns: Sequence[int]) -> tuple[object, ...]:
    """Return the values of some columns of a row. Rows with equal keys count as equal."""
    return tuple(_value(row[column]) for column in columns)


def _value(cell: Cell) -> object:
    """Return the value by which a cell is compared: a number if its text is one, or else its text.

    An empty cell is None.
    """
    if cell is None:
        return None
    try:
        return float(cell)
    except ValueError:
        return cell.strip()


def _rows_without_equal(
    keys: Sequence[tuple[object, ...]], other_keys: Sequence[tuple[object, ...]]
) -> list[int]:
    """Return the indices of the rows of a table that have no equal row in another table.

    A row of the other table counts as equal to one row only.

    Args:
        keys: the key of each row of the table; rows with equal keys are equal.
        other_keys: the keys of the rows of the other table.
    """
    available = Counter(other_keys)
    rows = []
    for row, key in enumerate(keys):
        if available[key] > 0:
            available[key] -= 1
        else:
            rows.append(row)
    return rows


def _closest_row(
    key: tuple[object, ...], keys: Sequence[tuple[object, ...]], candidates: Sequence[int]
) -> int | None:
    """Return the row that has most values in common with a row of another table.

    Args:
        key: the values of the row of the other table.
        keys: for each row, its values.
        candidates: the indices of the rows to choose from.

    Returns:
        the index of the row; None if no candidate has a value in common with `key`.
    """
    closest = None
    most_equal = 0
    for candidate in candidates:
        value_pairs = zip(key, keys[candidate], strict=True)
        equal = sum(value == candidate_value for value, candidate_value in value_pairs)
        if equal > most_equal:
            closest = candidate
            most_equal = equal
    return closest
