"""How objects of JSON lay out tables: names with rows, or columns as pandas writes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

NAMES_KEYS = ("fields", "columns", "keys", "column_names", "columnNames", "header", "headers")
"""Keys under which an object has the names of columns."""

ROWS_KEYS = ("values", "data", "rows", "records", "results")
"""Keys under which an object has the rows."""


class NamesAndRows(NamedTuple):
    """The names of columns, and rows that are not read yet."""

    names: list[str]
    rows: list[Any]


def names_and_rows_in(value: Mapping[str, Any]) -> NamesAndRows | None:
    """Return the names of columns and the rows in an object; None if it lacks one of them.

    If several keys may hold them, the first of `NAMES_KEYS` and the first of `ROWS_KEYS` count.
    """
    for names_key in NAMES_KEYS:
        names = value.get(names_key)
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            continue
        for rows_key in ROWS_KEYS:
            rows = value.get(rows_key)
            if isinstance(rows, list):
                return NamesAndRows(names, rows)
    return None


def is_pandas_frame(value: Mapping[str, Any]) -> bool:
    """Return whether an object is a data frame as pandas writes it by default.

    Such an object has an object for each column, whose keys are the numbers of the rows:
    ``{"title": {"0": "Playtime", "1": "Traffic"}}``.
    """
    columns = list(value.values())
    if not columns:
        return False
    for column in columns:
        is_object_with_rows = isinstance(column, Mapping) and len(column) > 0
        if not is_object_with_rows:
            return False
    row_numbers = [str(number) for number in range(len(columns[0]))]
    return all([str(key) for key in column] == row_numbers for column in columns)
