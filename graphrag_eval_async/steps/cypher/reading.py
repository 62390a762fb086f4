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
"""How cells of CSV or of tables with pipes begin if they may show a list, a map or an object."""


def read_cypher_table(output: Any, *, media_type: str | None = None) -> CypherTable:
    """Read the table in an output, which may have any of the known forms and envelopes.

    Args:
        output: a value of JSON, or text.
        media_type: the media type that the step declares; None if it declares none. If it is CSV, a
            header alone is a table.

    Raises:
        MalformedStep: the output holds no table. The message quotes its beginning.
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
    """Read the table in an output, in which relationships may have only the ids of their nodes."""
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
        # No other value of JSON is left.
        raise MalformedStep("null")
    unread = "\n".join(text for text in (payload.unread, table.unread) if text)
    return replace(table, unread=unread)


def _with_known_ends(table: CypherTable) -> CypherTable:
    """Return a table whose relationships have the nodes at their ends, if any cell holds these."""
    # Collect the nodes by their internal ids.
    nodes: dict[str, Node] = {}
    has_relationships = False
    for row in table.rows:
        for cell in row:
            if isinstance(cell, PLAIN_TYPES):
                continue
            for value in walk(cell):
                if isinstance(value, Node) and value.id is not None:
                    nodes[value.id] = value
                elif isinstance(value, Relationship):
                    has_relationships = True

    # Give these nodes to the relationships.
    if not has_relationships:
        return table
    return replace(table, rows=[[with_ends(cell, nodes) for cell in row] for row in table.rows])


def _read_object(value: Mapping[str, Any]) -> CypherTable:
    """Read an object: names of columns with rows, columns as pandas writes them, or one record.

    Raises:
        MalformedStep: the object is an error, or its rows cannot be read.
    """
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
    """Read rows below the names of their columns.

    Args:
        names: the names.
        rows: lists of cells, records, or rows of the transactional API.

    Raises:
        MalformedStep: the rows are something else, or do not fit the names.
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

    The first of several rows may have the names of the columns. Columns without names are numbered.

    Raises:
        MalformedStep: the list has items of several of these kinds.
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
    """Return whether the first row has the names of columns.

    It does if all its cells are texts, and if some cell below is something else.

    Args:
        names: the cells of the first row.
        rows: the rows below it.
    """
    if not all(isinstance(name, str) for name in names):
        return False
    return any(not isinstance(cell, str | None) for row in rows for cell in row)


def _read_records(items: list[Any], *, names: list[str] | None = None) -> CypherTable:
    """Read rows whose cells have names; a row is null in the columns that it lacks.

    Args:
        items: objects of JSON, or records of Neo4j's driver.
        names: the first names of columns; None if the output does not list them. Further names in
            the records are put behind them.

    Raises:
        MalformedStep: a name is no text.
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
    """Return a table, after checking that each row has a cell for each name.

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
    """Read a text that is a table, such as CSV, whose cells have no types.

    Args:
        text: the text.
        media_type: the media type that the step declares; None if it declares none.

    Raises:
        MalformedStep: the text is no table.
    """
    if says_no_rows(text):
        return CypherTable((), [])
    try:
        table = read_table(text, media_type=media_type)
    except AmbiguousStep:
        raise
    except MalformedStep as error:
        if error.problems[0].endswith("an empty table"):
            # The text is only a header, and the error says what to do about that.
            raise
        raise MalformedStep("neither JSON, CSV, a printed table nor what Python shows") from None
    document = table.document
    if "boolean" in document:
        # The text is only `true` or `false`.
        return _read_list([document["boolean"]])
    names = document["head"]["vars"]
    rows = [
        [_value_of_cell(row.get(name)) for name in names] for row in document["results"]["bindings"]
    ]
    return CypherTable(tuple(names), rows, has_types=False, unread=table.unread)


def _value_of_cell(term: Mapping[str, Any] | None) -> Value:
    """Return the value of Cypher in a cell of CSV, TSV or a table with pipes.

    Args:
        term: the cell as the reader of these formats for SPARQL returns it, as an RDF term; None if
            the cell is empty.
    """
    if term is None or term["value"] in NULL_TEXTS:
        return None

    # Restore the text of the cell. The reader removes `_:` from what looks like a blank node, and
    # the angle brackets from what looks like an IRI, as ``<Node ...>`` of Neo4j's driver does.
    text = str(term["value"])
    if term.get("type") == "bnode":
        text = f"_:{text}"
    elif f"<{text}".startswith(OBJECT_STARTS):
        text = f"<{text}>"

    if text.startswith(LITERAL_STARTS):
        # A text that begins like a literal and cannot be read as one stays a text.
        with suppress(MalformedStep):
            return value_of(read_literal(text))
    return value_of(UntypedText(text))
