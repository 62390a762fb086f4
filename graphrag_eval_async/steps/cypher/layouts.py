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
    """Return the names of columns and the rows in an object; None unless it has both."""
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

    Then it has an object for each column, with the numbers of rows as keys.
    """
    columns = list(value.values())
    if not columns or not all(isinstance(column, Mapping) and column for column in columns):
        return False
    numbers = [str(number) for number in range(len(columns[0]))]
    return all(list(map(str, column)) == numbers for column in columns)
