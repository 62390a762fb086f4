"""Reads JSON in which databases wrap each row, or write the names of columns apart.

BigQuery and Athena have an object for each cell, the drivers and the HTTP interface of Neo4j one
for each row. Snowflake and Athena write the names among the metadata. FalkorDB returns a list of
the names, the rows, and statistics.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class NamesAndRows(NamedTuple):
    """The names of columns, and a list of cells for each row."""

    names: list[str]
    rows: list[list[Any]]


def is_store_table(value: Any) -> bool:
    """Return whether a value of JSON is a table in the manner of one of these databases."""
    return read_store_table(value) is not None


def read_store_table(value: Any) -> NamesAndRows | None:
    """Return the names and rows of a table as these databases write it; None if it is none."""
    if isinstance(value, list):
        return _read_falkordb(value)
    if not isinstance(value, Mapping):
        return None
    for read in (_read_athena, _read_snowflake, _read_bigquery, _read_neo4j):
        table = read(value)
        if table is not None:
            return table
    return None


def _read_athena(value: Mapping[str, Any]) -> NamesAndRows | None:
    """Read `ResultSet.Rows[].Data[].VarCharValue`, of which the first row may have the names."""
    result_set = value.get("ResultSet")
    if not isinstance(result_set, Mapping):
        return None
    rows = _cells_of_rows(result_set.get("Rows"), row_key="Data", cell_key="VarCharValue")
    if not rows:
        return None
    metadata = result_set.get("ResultSetMetadata")
    columns = metadata.get("ColumnInfo") if isinstance(metadata, Mapping) else None
    names = _names_of(columns, key="Name")
    if names is None:
        if not all(isinstance(name, str) for name in rows[0]):
            return None
        return NamesAndRows(rows[0], rows[1:])
    if rows[0] == names:
        rows = rows[1:]
    return NamesAndRows(names, rows)


def _read_snowflake(value: Mapping[str, Any]) -> NamesAndRows | None:
    """Read `data`, a list of lists, whose names stand in `resultSetMetaData.rowType`."""
    metadata = value.get("resultSetMetaData", value)
    rows = value.get("data")
    if not isinstance(metadata, Mapping) or not isinstance(rows, list):
        return None
    names = _names_of(metadata.get("rowType") or metadata.get("rowtype"), key="name")
    if names is None or not all(isinstance(row, list) for row in rows):
        return None
    return NamesAndRows(names, rows)


def _read_bigquery(value: Mapping[str, Any]) -> NamesAndRows | None:
    """Read `rows[].f[].v`, whose names stand in `schema.fields`."""
    schema = value.get("schema")
    if not isinstance(schema, Mapping):
        return None
    names = _names_of(schema.get("fields"), key="name")
    rows = _cells_of_rows(value.get("rows"), row_key="f", cell_key="v")
    if names is None or not rows:
        return None
    return NamesAndRows(names, rows)


def _read_neo4j(value: Mapping[str, Any]) -> NamesAndRows | None:
    """Read `columns` with `data[].row` of the HTTP interface, or `records[]._fields` of drivers.

    Drivers write the names as `keys`, beside all records or in each of them.
    """
    data = value.get("data")
    columns = value.get("columns")
    if isinstance(columns, list) and isinstance(data, list) and data:
        rows = [item.get("row") if isinstance(item, Mapping) else None for item in data]
        if all(isinstance(row, list) for row in rows):
            return NamesAndRows(columns, [list(row or ()) for row in rows])

    records = value.get("records")
    if not isinstance(records, list) or not records:
        return None
    if not all(isinstance(record, Mapping) for record in records):
        return None
    fields = [record.get("_fields") for record in records]
    names = value.get("keys") or records[0].get("keys")
    if not isinstance(names, list) or not all(isinstance(row, list) for row in fields):
        return None
    return NamesAndRows(names, [list(row or ()) for row in fields])


def _read_falkordb(value: list[Any]) -> NamesAndRows | None:
    """Read a list of the names, the rows, and texts of statistics such as "Nodes created: 1"."""
    if len(value) != 3 or not all(isinstance(part, list) for part in value):
        return None
    names, rows, statistics = value
    if not names or not all(isinstance(name, str) for name in names):
        return None
    if not all(isinstance(row, list) and len(row) == len(names) for row in rows):
        return None
    if not statistics or not all(isinstance(line, str) and ": " in line for line in statistics):
        return None
    return NamesAndRows(names, rows)


def _names_of(columns: Any, *, key: str) -> list[str] | None:
    """Return the names of columns that are objects with a name under a key.

    None if the columns are no such objects.
    """
    if not isinstance(columns, list) or not columns:
        return None
    names = [column.get(key) if isinstance(column, Mapping) else None for column in columns]
    texts = [name for name in names if isinstance(name, str)]
    return texts if len(texts) == len(names) else None


def _cells_of_rows(rows: Any, *, row_key: str, cell_key: str) -> list[list[Any]] | None:
    """Return the values of rows that are objects with a list of objects; None if they are not.

    Args:
        rows: the rows.
        row_key: the key of the list of cells in a row.
        cell_key: the key of the value in a cell. A cell without it is null.
    """
    if not isinstance(rows, list):
        return None
    values = []
    for row in rows:
        cells = row.get(row_key) if isinstance(row, Mapping) else None
        if not isinstance(cells, list) or not all(isinstance(cell, Mapping) for cell in cells):
            return None
        values.append([cell.get(cell_key) for cell in cells])
    return values
