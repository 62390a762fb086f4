"""Converts complete files of JSON lines to CSV or Parquet."""

from __future__ import annotations

import csv
from itertools import islice
from typing import TYPE_CHECKING, Any

import orjson

from graphrag_eval_async.catalogue.result_columns import COLUMN_TYPES
from graphrag_eval_async.errors import check_extra
from graphrag_eval_async.records.tabular import escape_formula, flat_row
from graphrag_eval_async.sinks.files import check_replaceable, drafted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Set

SUFFIXES = (".csv", ".parquet")
"""Suffixes of tables."""

ROWS = 1000
"""Rows written per batch."""

MAX_INTEGER = (1 << 63) - 1
"""Greatest integer that a column of Parquet can hold. Greater ones are written as text."""


def is_table(path: str | None) -> bool:
    """Return whether a path has the suffix of a table, ``.csv`` or ``.parquet``."""
    return path is not None and path.endswith(SUFFIXES)


def check_table(path: str) -> None:
    """Check that a table can be written to `path`.

    Raises:
        UsageError: it cannot, or it needs a package that is not installed.
    """
    if path.endswith(".parquet"):
        check_extra(f"{path!r}: Parquet", "table", "pyarrow")
    check_replaceable(path)


def write_table(lines: str, path: str) -> None:
    """Convert a file of results to a table, whose format the suffix of its path says.

    Each complete result becomes a row. The columns are those of `COLUMN_TYPES`, and one for each
    other key of any result. Lists and dicts become JSON text. The table is written atomically. The
    results are read twice, to find the columns first, and few of them are in memory at once.

    Args:
        lines: path of the file of results, as JSON lines.
        path: path of the table.
    """
    types = _column_types(lines)
    with drafted(path) as draft:
        if path.endswith(".csv"):
            _write_csv(draft, types, _read_rows(lines))
        else:
            _write_parquet(draft, types, _read_rows(lines))


def _read_rows(lines: str) -> Iterator[dict[str, Any]]:
    """Yield each complete result in a file of JSON lines as a flat row."""
    with open(lines, "rb") as file:
        for line in file:
            result = orjson.loads(line)
            if "pending" not in result:
                yield flat_row(result)


def _column_types(lines: str) -> dict[str, str]:
    """Return the type of each column in a table of results: bool, int64, double or string.

    The columns of `COLUMN_TYPES` come first. They have their types even if they have no values.

    Args:
        lines: path of the file of results, as JSON lines.
    """
    types_by_column = {name: {type_} for name, type_ in COLUMN_TYPES.items()}
    for row in _read_rows(lines):
        for name, value in row.items():
            types = types_by_column.setdefault(name, set())
            value_type = _type_of(value)
            if value_type is not None:
                types.add(value_type)
    return {name: _common_type(types) for name, types in types_by_column.items()}


def _type_of(value: Any) -> str | None:
    """Return the type of column that a value needs; None for null, which any column can hold."""
    if type(value) is int:
        return "int64" if abs(value) <= MAX_INTEGER else "string"
    return _TYPES.get(type(value))


_TYPES = {bool: "bool", float: "double", str: "string"}


def _common_type(types: Set[str]) -> str:
    """Return the type of a column that can hold values of all of these types."""
    if types == {"int64", "double"}:
        return "double"
    if len(types) == 1:
        (only_type,) = types
        return only_type
    return "string"


def _write_csv(path: str, types: Mapping[str, str], rows: Iterable[Mapping[str, Any]]) -> None:
    """Write rows to a CSV file, with the keys of `types` as columns."""
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([escape_formula(name) for name in types])
        for row in rows:
            writer.writerow([_csv_cell(row.get(name)) for name in types])


def _csv_cell(value: Any) -> Any:
    """Return the value of a cell; text that could be a formula is escaped."""
    if isinstance(value, str):
        return escape_formula(value)
    return value


def _write_parquet(path: str, types: Mapping[str, str], rows: Iterator[Mapping[str, Any]]) -> None:
    """Write rows to a Parquet file.

    Args:
        path: path of the file.
        types: the type of each column, by name.
        rows: the rows; a column that a row lacks is null in it.
    """
    import pyarrow
    from pyarrow import parquet

    arrow_types = {
        "bool": pyarrow.bool_(),
        "int64": pyarrow.int64(),
        "double": pyarrow.float64(),
        "string": pyarrow.string(),
    }
    schema = pyarrow.schema([(name, arrow_types[type_]) for name, type_ in types.items()])
    with parquet.ParquetWriter(path, schema) as writer:
        # Parquet stores columns, so rows are collected in batches and transposed.
        while batch := list(islice(rows, ROWS)):
            columns = {
                name: [_parquet_cell(row.get(name), type_) for row in batch]
                for name, type_ in types.items()
            }
            writer.write_table(pyarrow.table(columns, schema=schema))


def _parquet_cell(value: Any, type_: str) -> Any:
    """Return a value as it is stored in a column of a type.

    A column of strings may have other values, too, if they have no common type. They become JSON.
    """
    if value is None or isinstance(value, str):
        return value
    if type_ == "double":
        # pyarrow refuses integers that a float does not represent exactly.
        return float(value)
    if type_ != "string":
        return value
    return orjson.dumps(value).decode()
