"""Converts complete files of JSON lines to CSV or Parquet."""

from __future__ import annotations

import csv
from itertools import islice
from typing import TYPE_CHECKING, Any

import orjson

from graphrag_eval_async.errors import check_extra
from graphrag_eval_async.records.tabular import escape_formula, flat_row
from graphrag_eval_async.sinks.files import check_replaceable, drafted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

SUFFIXES = (".csv", ".parquet")

ROWS = 1000
"""Rows written per batch."""


def is_table(path: str | None) -> bool:
    """Whether the suffix of a path is that of a table."""
    return path is not None and path.endswith(SUFFIXES)


def check_table(path: str) -> None:
    """Raise a `UsageError` if a table cannot be written."""
    if path.endswith(".parquet"):
        check_extra(f"{path!r}: Parquet", "table", "pyarrow")
    check_replaceable(path)


def write_table(lines: str, path: str) -> None:
    """Write the results in a file of JSON lines as a table: CSV or Parquet, by the suffix of
    `path`.

    Each complete result is a row, and each key of any result a column. Lists and dicts become JSON
    text. The write is atomic. Reads the results twice, and holds few of them in memory.
    """
    columns = _columns(lines)
    write = _write_csv if path.endswith(".csv") else _write_parquet
    with drafted(path) as draft:
        write(draft, columns, _rows(lines))


def _rows(lines: str) -> Iterator[dict[str, Any]]:
    with open(lines, "rb") as file:
        for line in file:
            result = orjson.loads(line)
            if "pending" not in result:
                yield flat_row(result)


def _columns(lines: str) -> dict[str, str]:
    """Return the types of columns by name: bool, int64, double or string."""
    kinds: dict[str, set[str]] = {}
    for row in _rows(lines):
        for name, value in row.items():
            kinds.setdefault(name, set()).update(_kinds(value))
    for found in kinds.values():
        if found == {"int64", "double"}:
            found.remove("int64")
    return {name: found.pop() if len(found) == 1 else "string" for name, found in kinds.items()}


def _kinds(value: Any) -> tuple[str, ...]:
    if type(value) is int:
        return ("int64",) if abs(value) < 1 << 63 else ("string",)
    return {bool: ("bool",), float: ("double",), str: ("string",)}.get(type(value), ())


def _write_csv(path: str, columns: Mapping[str, str], rows: Iterable[Mapping[str, Any]]) -> None:
    with open(path, "w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(map(escape_formula, columns))
        for row in rows:
            cells = (row.get(name) for name in columns)
            table.writerow(
                escape_formula(cell) if isinstance(cell, str) else cell for cell in cells
            )


def _write_parquet(
    path: str, columns: Mapping[str, str], rows: Iterator[Mapping[str, Any]]
) -> None:
    import pyarrow
    from pyarrow import parquet

    kinds = {"bool": pyarrow.bool_, "int64": pyarrow.int64, "double": pyarrow.float64}
    fields = [(name, kinds.get(kind, pyarrow.string)()) for name, kind in columns.items()]
    schema = pyarrow.schema(fields)
    with parquet.ParquetWriter(path, schema) as writer:
        while batch := [*islice(rows, ROWS)]:
            cells = {
                name: [_cell(row.get(name), kind) for row in batch]
                for name, kind in columns.items()
            }
            writer.write_table(pyarrow.table(cells, schema=schema))


def _cell(value: Any, kind: str) -> Any:
    is_text = value is None or isinstance(value, str)
    return value if is_text or kind != "string" else orjson.dumps(value).decode()
