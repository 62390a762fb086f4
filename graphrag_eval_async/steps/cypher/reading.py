"""Reads the names and rows of Cypher results in all forms that databases and tools write.

Forms are lists of records, names with rows, the JSON of Neo4j's HTTP APIs, rows alone, text of
Neo4j's driver, CSV and tables with pipes, each perhaps in envelopes of protocols and frameworks.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from graphrag_eval_async.errors import MalformedStep
from graphrag_eval_async.records.decoding import MAX_DEPTH, nests_deeper
from graphrag_eval_async.steps.cypher.entities import value_of
from graphrag_eval_async.steps.cypher.envelopes import open_cypher_envelopes
from graphrag_eval_async.steps.cypher.layouts import is_pandas_frame, names_and_rows_in
from graphrag_eval_async.steps.cypher.literals import OBJECT_STARTS, Record, read_literal
from graphrag_eval_async.steps.cypher.transactional import transactional_row
from graphrag_eval_async.steps.cypher.typed import is_typed, typed_value
from graphrag_eval_async.steps.cypher.values import (
    PLAIN_TYPES,
    CypherTable,
    Node,
    Relationship,
    UntypedText,
    Value,
    walk,
    with_ends,
)
from graphrag_eval_async.steps.formats.json_tables import says_error
from graphrag_eval_async.steps.formats.reading import read_table
from graphrag_eval_async.steps.formats.row_counts import says_no_rows
from graphrag_eval_async.steps.formats.table import AmbiguousStep

BEGINNING = 80
"""Characters of an output that an error quotes."""

NULL_TEXTS = frozenset({"null", "NULL", "None", "nan", "NaN", "<NA>", "NaT"})
"""Cells of CSV and tables with pipes that stand for null."""

LITERAL_STARTS = (
    "{",
    "[",
    "(",
    "<",
    "datetime.",
    "neo4j.",
    "WGS84Point(",
    "CartesianPoint(",
    "point(",
)
"""How a cell of CSV or of a table with pipes may begin that is more than a text or a number."""


def read_cypher_table(output: Any, *, media_type: str | None = None) -> CypherTable:
    """Return the names and rows in an output, in whichever form and envelope.

    Args:
        output: a value of JSON, or text.
        media_type: what the step says of its output. Then a header alone is a table of CSV.

    Raises:
        MalformedStep: it holds no table. The message quotes its beginning.
    """
    try:
        table = _read(output, media_type)
    except MalformedStep as error:
        beginning = " ".join(str(output)[:BEGINNING].split())
        raise MalformedStep(f"no table: {error}; it begins with {beginning!r}") from None
    if len(set(table.names)) < len(table.names):
        raise MalformedStep("a column is repeated")
    return _with_known_ends(table)


def _read(output: Any, media_type: str | None) -> CypherTable:
    """Return the table in an output, of whose relationships only the ids of nodes may be known."""
    payload = open_cypher_envelopes(output)
    value = payload.value
    if nests_deeper(value, MAX_DEPTH):
        raise MalformedStep("nested too deep")
    if isinstance(value, str):
        table = _read_text(value, media_type)
    elif isinstance(value, Mapping):
        table = _read_object(value)
    elif isinstance(value, list | tuple):
        table = _read_list(list(value))
    elif isinstance(value, Record):
        table = _read_records([value])
    elif isinstance(value, bool | int | float):
        table = _read_list([value])
    else:
        raise MalformedStep("null")
    unread = "\n".join(text for text in (payload.unread, table.unread) if text)
    return replace(table, unread=unread)


def _with_known_ends(table: CypherTable) -> CypherTable:
    """Return a table whose relationships have the nodes at their ends, if it holds these nodes."""
    nodes: dict[str, Node] = {}
    has_relationships = False
    for row in table.rows:
        for cell in row:
            for value in () if isinstance(cell, PLAIN_TYPES) else walk(cell):
                if isinstance(value, Node) and value.id is not None:
                    nodes[value.id] = value
                elif isinstance(value, Relationship):
                    has_relationships = True
    if not has_relationships:
        return table
    return replace(table, rows=[[with_ends(cell, nodes) for cell in row] for row in table.rows])


def _read_object(value: Mapping[str, Any]) -> CypherTable:
    """Read an object: names with rows, columns as pandas writes them, or one record."""
    has_only_errors = value.keys() in ({"error"}, {"errors"})
    if has_only_errors or says_error(dict(value)):
        raise MalformedStep("the tool says that it failed")
    table = names_and_rows_in(value)
    if table is not None:
        return _read_names_and_rows(table.names, table.rows)
    if is_pandas_frame(value):
        columns = [cells.values() for cells in value.values()]
        rows = [list(row) for row in zip(*columns, strict=True)]
        return _read_names_and_rows(list(value), rows)
    return _read_records([value])


def _read_names_and_rows(names: list[str], rows: list[Any]) -> CypherTable:
    """Read rows whose columns have known names.

    They are lists of cells, records, or rows of the transactional API.
    """
    if rows and all(isinstance(row, Mapping) and "row" in row for row in rows):
        has_graph = all("graph" in row and "meta" in row for row in rows)
        cells = [transactional_row(row) for row in rows]
        return _table(names, cells, tells_kinds=has_graph)
    if rows and all(isinstance(row, Mapping | Record) for row in rows):
        return _read_records(rows, names=names)
    if not all(isinstance(row, list | tuple) for row in rows):
        raise MalformedStep("rows that are neither lists nor records")
    if rows and all(is_typed(cell) for row in rows for cell in row):
        typed_rows = [[typed_value(cell) for cell in row] for row in rows]
        return _table(names, typed_rows, tells_kinds=True)
    values = [[value_of(cell) for cell in row] for row in rows]
    return _table(names, values)


def _read_list(items: list[Any]) -> CypherTable:
    """Read a list of records, of rows, or of the cells of one column.

    The first of several rows may be the header. Other columns are numbered.
    """
    if not items:
        return CypherTable((), [])
    if all(isinstance(item, Mapping | Record) for item in items):
        return _read_records(items)
    if all(isinstance(item, list | tuple) for item in items):
        if len(items) > 1 and _is_header(items[0], items[1:]):
            return _read_names_and_rows(list(items[0]), items[1:])
        names = [f"column_{number}" for number in range(len(items[0]))]
        return _read_names_and_rows(names, items)
    if any(isinstance(item, Mapping | Record | list | tuple) for item in items):
        raise MalformedStep("a list of rows that are written in several ways")
    return _read_names_and_rows(["column_0"], [[item] for item in items])


def _is_header(names: Any, rows: list[Any]) -> bool:
    """Return whether the first of several rows has the names of columns: texts above other values.

    Args:
        names: the first row.
        rows: those below.
    """
    if not all(isinstance(name, str) for name in names):
        return False
    return any(not isinstance(cell, str | None) for row in rows for cell in row)


def _read_records(items: list[Any], *, names: list[str] | None = None) -> CypherTable:
    """Read rows that have their cells by name; a name that a row lacks is null in it.

    Args:
        items: objects of JSON, or records of Neo4j's driver.
        names: the names that the output lists first, if it lists any.
    """
    is_of_driver = all(isinstance(item, Record) for item in items)
    records = [item.fields if isinstance(item, Record) else item for item in items]
    all_names = dict.fromkeys(names or ())
    for record in records:
        all_names.update(dict.fromkeys(record))
    if not all(isinstance(name, str) for name in all_names):
        raise MalformedStep("records with keys that are no text")
    rows = [[value_of(record.get(name)) for name in all_names] for record in records]
    return _table(list(all_names), rows, tells_kinds=is_of_driver)


def _table(names: list[str], rows: list[list[Value]], *, tells_kinds: bool = False) -> CypherTable:
    """Return a table of these names and rows.

    Args:
        names: the names of its columns.
        rows: the cells of each row.
        tells_kinds: whether its form always distinguishes nodes, relationships, points and maps.

    Raises:
        MalformedStep: a row has more or fewer cells than there are names.
    """
    for index, row in enumerate(rows):
        if len(row) != len(names):
            raise MalformedStep(f"row {index}: expected {len(names)} cells, got {len(row)}")
    return CypherTable(tuple(names), rows, tells_kinds=tells_kinds)


def _read_text(text: str, media_type: str | None) -> CypherTable:
    """Read text that is a table, such as CSV, whose cells are text.

    Args:
        text: the text.
        media_type: what the step says of it; None if it says nothing.

    Raises:
        MalformedStep: it is no table.
    """
    if says_no_rows(text):
        return CypherTable((), [])
    try:
        table = read_table(text, media_type=media_type)
    except AmbiguousStep:
        raise
    except MalformedStep as error:
        if error.problems[0].endswith("an empty table"):
            raise  # It is only a header, and the error says what to do.
        raise MalformedStep("neither JSON, CSV, a printed table nor what Python shows") from None
    document = table.document
    if "boolean" in document:
        return _read_list([document["boolean"]])  # The text is only `true` or `false`.
    names = document["head"]["vars"]
    rows = [
        [_value_of_cell(row.get(name)) for name in names] for row in document["results"]["bindings"]
    ]
    return CypherTable(tuple(names), rows, has_types=False, unread=table.unread)


def _value_of_cell(term: Mapping[str, Any] | None) -> Value:
    """Return the value in a cell of CSV, TSV or a table with pipes.

    Args:
        term: the cell as the reader of that format returns it, an RDF term; None if it is empty.
    """
    if term is None or term["value"] in NULL_TEXTS:
        return None
    text = str(term["value"])
    if term.get("type") == "bnode":
        text = f"_:{text}"
    elif f"<{text}".startswith(OBJECT_STARTS):
        text = f"<{text}>"  # The other reader took an object of Neo4j's driver for an IRI.
    if text.startswith(LITERAL_STARTS):
        # Otherwise, it is text that begins like a literal.
        with suppress(MalformedStep):
            return value_of(read_literal(text))
    return value_of(UntypedText(text))
