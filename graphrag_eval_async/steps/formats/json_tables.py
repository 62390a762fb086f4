"""Reads decoded JSON that is a table, under whichever keys: SPARQL results, or names and rows."""

from __future__ import annotations

from math import isinf, isnan
from typing import TYPE_CHECKING, Any, TypeAlias

from graphrag_eval_async.errors import MalformedStep
from graphrag_eval_async.steps.formats.store_tables import read_store_table
from graphrag_eval_async.steps.formats.table import (
    AmbiguousStep,
    Table,
    answer,
    column_name,
    document_of_bindings,
    document_of_rows,
)
from graphrag_eval_async.steps.formats.terms import (
    boolean_term,
    infinity_term,
    read_term,
    untyped_term,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphrag_eval_async.steps.formats.terms import Term

ANY_COLUMNS = 50
"""Number of columns of an empty list, which is an empty table with whatever columns are wanted."""

NAMES_KEYS = (
    "columns", "column_names", "columnNames", "fields", "names", "header", "headers", "vars",
    "variables", "selected", "keys", "cols", "schema",
)  # fmt: skip
"""Keys under which stores and tools write the names of columns."""

ROWS_KEYS = (
    "rows", "data", "values", "res", "records", "bindings", "results", "result", "items", "tuples",
)  # fmt: skip
"""Keys under which they write the rows."""

ANSWER_KEYS = frozenset(
    {"boolean", "bool", "_askresult", "askresult", "ask_result", "__ask_retval", "ask"}
    | {"result", "answer"}
)
"""Names, in lower case, below which they write the answer to ASK."""

KEYS_BESIDE_ANSWER = frozenset(
    {"head", "link", "type", "meta", "metadata", "status", "success", "ok", "error", "errors"}
    | {"query", "message", "time", "elapsed_ms", "took", "duration"}
)
"""Keys that may stand beside the answer to ASK. An object with others is a row."""

ANSWERS = {"true": True, "1": True, "false": False, "0": False}
"""The texts of booleans, in lower case."""

KEYS_OF_COLUMNS = frozenset({"names", "fields", "keys", "values"})
"""Keys that may hold the names of columns or the rows, but also the cells of a column."""

TERM_KEYS = frozenset(
    {"value", "type", "datatype", "xml:lang", "lang", "language", "termType", "direction"}
)
"""Keys of a term in SPARQL results JSON and in RDF/JS."""

TYPES_OF_RDFJS = {"BlankNode": "bnode", "NamedNode": "uri", "Literal": "literal"}
"""The types of terms in SPARQL results JSON, by how RDF/JS calls them."""

NOT_A_NUMBER = "NaN"
"""How XML Schema writes the double that is no number. pandas means an unbound cell by it."""

Row: TypeAlias = "list[Any] | tuple[Any, ...]"


def says_error(value: dict[str, Any]) -> bool:
    """Return whether an object says that a tool failed. Then its other members are no result."""
    if value.get("isError") is True or value.get("is_error") is True:
        return True
    if value.get("success") is False or value.get("ok") is False:
        return True
    exit_code = value.get("exit_code", value.get("returncode"))
    if "stdout" in value and exit_code not in (None, 0):
        return True
    status = value.get("status")
    is_failed = isinstance(status, str) and status.lower() in ("error", "failed", "failure")
    has_error = bool(value.get("error")) or bool(value.get("errors"))
    # An object with nothing but `error` may also be a row or a column of that name.
    return is_failed or (has_error and len(value) > 1)


def is_table(value: dict[str, Any]) -> bool:
    """Return whether an object has the keys of SPARQL results, or of names and rows."""
    if "boolean" in value or ("head" in value and "results" in value):
        return True
    return _bindings_in(value) is not None or _names_and_rows(value) is not None


def read_json_table(value: Any) -> Table:
    """Read the table, or the answer to ASK, in decoded JSON.

    Raises:
        MalformedStep: the value is no table, or has cells that are neither terms nor plain values.
    """
    if isinstance(value, bool):
        return Table(answer(value), typed=True)
    if isinstance(value, dict) and says_error(value):
        raise MalformedStep("the tool says that it failed")
    store_table = read_store_table(value)
    if store_table is not None:
        return _read_names_and_rows(store_table.names, store_table.rows, has_terms=False)
    if isinstance(value, list | tuple):
        return _read_list(value)
    if isinstance(value, dict):
        return _read_object(value)
    raise MalformedStep("neither SPARQL results nor a table")


def _read_object(value: dict[str, Any]) -> Table:
    """Read the table, or the answer to ASK, in an object.

    Raises:
        MalformedStep: the object has no content or no table.
    """
    if value.get("content") == []:
        raise MalformedStep("no content, so the tool returned nothing")
    boolean = _answer_in(value)
    if boolean is not None:
        return Table(answer(boolean), typed=True)
    head = value.get("head")
    if isinstance(head, dict) and "vars" in head:
        return Table(value, typed=True)
    bindings = _bindings_in(value)
    if bindings is not None:
        return _read_bindings(bindings)
    names_and_rows = _names_and_rows(value)
    if names_and_rows is not None:
        names, rows = names_and_rows
        # QLever writes terms in Turtle's syntax under these keys.
        has_terms = "selected" in value and "res" in value
        return _read_names_and_rows(names, rows, has_terms=has_terms)
    if "head" in value or "boolean" in value:
        # When these are checked later, the error says what is wrong with them.
        return Table(value, typed=True)
    return _read_columns(value)


def _answer_in(value: dict[str, Any]) -> bool | None:
    """Return the answer to ASK in an object; None if there is none."""
    keys = [key for key in value if key.lower() in ANSWER_KEYS]
    if len(keys) != 1:
        return None
    [key] = keys
    if not value.keys() - {key} <= KEYS_BESIDE_ANSWER:
        return None  # The object is a row that also has other cells.
    boolean = value[key]
    if isinstance(boolean, bool):
        return boolean
    if isinstance(boolean, str):
        return ANSWERS.get(boolean.lower())
    return None


def answer_below(name: str, text: str) -> bool | None:
    """Return the answer to ASK in a table of one cell.

    None if the name of the column is not usual for answers, or if the cell is no boolean.
    """
    if name.lower() not in ANSWER_KEYS:
        return None
    return ANSWERS.get(text.lower())


def _bindings_in(value: dict[str, Any]) -> list[Any] | None:
    """Return the rows of SPARQL results in an object; None if it has no list of rows.

    The list stands under `results` and `bindings`, or under `bindings` alone.
    """
    results = value.get("results")
    holder = results if isinstance(results, dict) else value
    bindings = holder.get("bindings")
    if not isinstance(bindings, list) or not all(isinstance(row, dict) for row in bindings):
        return None
    return bindings


def _read_bindings(bindings: list[dict[str, Any]]) -> Table:
    """Read rows of SPARQL results that lack the list of variables, so the rows name them."""
    if not bindings:
        return empty_table()
    names = dict.fromkeys(name for row in bindings for name in row)
    return _read_objects(bindings, list(names))


def _names_and_rows(value: dict[str, Any]) -> tuple[list[str], list[Any]] | None:
    """Return the names of columns and the rows in an object; None unless it has both.

    Raises:
        AmbiguousStep: the names and the rows may as well be the cells of two columns.
    """
    for names_key in NAMES_KEYS:
        names = _names_in(value.get(names_key))
        if names is None:
            continue
        for rows_key in ROWS_KEYS:
            rows = value.get(rows_key)
            if rows_key == names_key or not isinstance(rows, list):
                continue
            has_keys_of_columns = len(value) == 2 and {names_key, rows_key} <= KEYS_OF_COLUMNS
            if has_keys_of_columns and _are_columns(names, rows):
                continue
            return names, rows
    return None


def _are_columns(names: list[str], rows: list[Any]) -> bool:
    """Return whether two lists are the cells of two columns, not names of columns and rows.

    Rows of several columns are lists or objects, so plain values are cells.

    Raises:
        AmbiguousStep: each list holds one plain value, which may be either.
    """
    if len(names) != len(rows) or any(isinstance(row, list | tuple | dict) for row in rows):
        return False
    if len(names) == 1:
        raise AmbiguousStep(
            "two lists of one value each may be a name and a row, or two columns; write the rows "
            "as lists or objects"
        )
    return True


def _names_in(value: Any) -> list[str] | None:
    """Return the names of columns in a list, or in the list under `fields` of an object.

    Each item of the list is a name, or an object with a `name`. None if the value has no such list.
    """
    if isinstance(value, dict):
        value = value.get("fields")
    if not isinstance(value, list):
        return None
    names = [item.get("name") if isinstance(item, dict) else item for item in value]
    texts = [name for name in names if isinstance(name, str)]
    if len(texts) < len(names):
        return None
    return [column_name(name) for name in texts]


def _read_names_and_rows(names: list[str], rows: list[Any], *, has_terms: bool) -> Table:
    """Read rows that are objects or lists or, in a table of one column, plain values.

    Args:
        names: the names of columns.
        rows: the rows.
        has_terms: whether cells are terms in Turtle's syntax.

    Raises:
        MalformedStep: rows are of another kind, or lists of another length than there are names.
    """
    if all(isinstance(row, dict) for row in rows):
        return _read_objects(rows, names) if rows else _table(names, [])
    if not any(isinstance(row, list | tuple) for row in rows) and len(names) == 1:
        rows = [[cell] for cell in rows]
    if not all(isinstance(row, list | tuple) for row in rows):
        raise MalformedStep("rows that are neither lists nor objects")
    read = _read_turtle_cell if has_terms else _read_cell
    return _table(names, [[read(cell) for cell in row] for row in rows])


def _read_list(rows: Row) -> Table:
    """Read a list of rows, or of the cells of one column.

    Rows are objects, or lists of which the first may be the header. An empty list is a table
    without rows, which equals any other table without rows.
    """
    if not rows:
        return empty_table()
    if all(isinstance(row, dict) for row in rows):
        return _read_objects(list(rows), list(dict.fromkeys(name for row in rows for name in row)))
    if all(isinstance(row, list | tuple) for row in rows):
        header = rows[0]
        if len(rows) > 1 and _is_header(header, list(rows[1:])):
            return _read_names_and_rows(list(header), list(rows[1:]), has_terms=False)
        names = [f"column_{number}" for number in range(len(header))]
        return _read_names_and_rows(names, list(rows), has_terms=False)
    if any(isinstance(row, list | tuple | dict) for row in rows):
        raise MalformedStep("not a list of objects")
    return _table(["column_0"], [[_read_cell(cell)] for cell in rows])


def _is_header(names: Row, rows: list[Row]) -> bool:
    """Return whether the first row of a table holds the names of the columns.

    All its cells must be texts, and none an IRI. The rows of a database cursor are tuples without a
    header, so a tuple is a header only if some cell below it is neither text nor null.

    Args:
        names: the first row.
        rows: the other rows.
    """
    if not all(isinstance(name, str) for name in names):
        return False
    if any("://" in name for name in names):
        return False
    has_other_values = any(not isinstance(cell, str | None) for row in rows for cell in row)
    return has_other_values or not isinstance(names, tuple)


def _read_objects(rows: list[dict[str, Any]], names: list[str]) -> Table:
    """Read rows that are objects with a cell for each name; null is an unbound cell.

    The columns are the listed names, then all other names in the rows.

    Raises:
        MalformedStep: the rows have no names, or are JSON-LD.
    """
    every_name = dict.fromkeys([*names, *(name for row in rows for name in row)])
    if not every_name or not all(isinstance(name, str) for name in every_name):
        raise MalformedStep("a list of objects without keys")
    if any(name.startswith("@") for name in every_name):
        raise MalformedStep("JSON-LD, not a list of rows")
    is_typed = True
    bindings: list[dict[str, Term]] = []
    for row in rows:
        terms = {name: _read_cell(cell) for name, cell in row.items()}
        bindings.append({name: term for name, term in terms.items() if term is not None})
        is_typed = is_typed and all(isinstance(cell, dict) for cell in row.values())
    return Table(document_of_bindings(list(every_name), bindings), typed=is_typed)


def _read_columns(value: dict[str, Any]) -> Table:
    """Read an object with the cells of each column by name, or one row of plain values.

    The cells of a column are a list, or an object with the number of each row, as pandas writes
    them by default. Rows may also stand under their numbers.
    """
    columns = list(value.values())
    if not columns or any(name.startswith("@") for name in value):
        # When this is checked later, the error says what SPARQL results must have.
        return Table(value, typed=True)
    if all(isinstance(column, list) for column in columns):
        if len({len(column) for column in columns}) > 1:
            raise MalformedStep("columns of different lengths")
        return _read_names_and_rows(list(value), _transpose(columns), has_terms=False)
    if all(isinstance(column, dict) for column in columns):
        if _are_numbers(value):
            return _read_list(columns)
        if all(_are_numbers(column) and column.keys() == columns[0].keys() for column in columns):
            cells = [list(column.values()) for column in columns]
            return _read_names_and_rows(list(value), _transpose(cells), has_terms=False)
        if all(is_term_object(column) for column in columns):
            return _read_objects([value], list(value))
    if not any(isinstance(column, dict | list) for column in columns):
        return _read_objects([value], list(value))
    return Table(value, typed=True)


def _transpose(columns: list[list[Any]]) -> list[Any]:
    """Return the rows of columns of equal length."""
    return [list(row) for row in zip(*columns, strict=True)]


def _are_numbers(value: Mapping[str, Any]) -> bool:
    """Return whether the keys of an object are the numbers of rows, from 0."""
    return bool(value) and all(key == str(number) for number, key in enumerate(value))


def are_numbered_columns(value: dict[str, Any]) -> bool:
    """Return whether an object has columns as pandas writes them, with plain values.

    A column is an object with the number of each row.
    """
    for column in value.values():
        if not isinstance(column, dict) or not _are_numbers(column):
            return False
        if any(isinstance(cell, dict | list) for cell in column.values()):
            return False
    return bool(value)


def _read_cell(value: Any) -> Term | None:
    """Return the term that a value of JSON stands for; None if it is unbound.

    Raises:
        MalformedStep: the value is a list, an object that is no term, or a number that is too long.
    """
    if value is None:
        return None
    if isinstance(value, float) and isnan(value):
        return untyped_term(NOT_A_NUMBER)
    if isinstance(value, bool):
        return boolean_term(value)
    if isinstance(value, float) and isinf(value):
        return infinity_term(is_negative=value < 0)
    if isinstance(value, dict):
        return _read_term_object(value)
    if not isinstance(value, str | int | float):
        raise MalformedStep("a list of objects that are not flat")
    try:
        return untyped_term(str(value))
    except ValueError:  # Too many digits for Python.
        raise MalformedStep("a number is too long") from None


def _read_turtle_cell(value: Any) -> Term | None:
    """Return the term in a cell that is written in Turtle's syntax; None if it is unbound."""
    term = read_term(value) if isinstance(value, str) else None
    return _read_cell(value) if term is None else term


def is_term_object(value: Any) -> bool:
    """Return whether a value is a term as SPARQL results and RDF/JS write it."""
    return isinstance(value, dict) and "value" in value and value.keys() <= TERM_KEYS


def _read_term_object(value: dict[str, Any]) -> Term | None:
    """Return the term in an object of SPARQL results, RDF/JS or JSON-LD; None if it is unbound.

    Raises:
        MalformedStep: the object is no term.
    """
    if value.keys() == {"@id"} and isinstance(value["@id"], str):
        label = value["@id"]
        if label.startswith("_:"):
            return {"type": "bnode", "value": label.removeprefix("_:")}
        return {"type": "uri", "value": label}
    if "@value" in value:
        return _read_cell(value["@value"])
    if not is_term_object(value):
        raise MalformedStep("a list of objects that are not flat")
    inner = value["value"]
    if isinstance(inner, dict | list):
        # The value of a triple is an object, which is checked later.
        return value
    datatype = value.get("datatype")
    if isinstance(datatype, dict):  # RDF/JS writes the datatype as a term of its own.
        datatype = datatype.get("value")
    term = _read_cell(inner)
    if term is None or not isinstance(inner, str):
        return term
    kind = TYPES_OF_RDFJS.get(str(value.get("termType")), value.get("type"))
    term = {"type": kind, "value": inner}
    if isinstance(datatype, str):
        term["datatype"] = datatype
    return term


def _table(names: Sequence[str], rows: Sequence[Sequence[Term | None]]) -> Table:
    """Return a table without types, with a cell for each name in each row; None is unbound."""
    return Table(document_of_rows(names, rows), typed=False)


def empty_table() -> Table:
    """Return a table without rows, and with so many columns that it has all that are wanted."""
    return _table([f"column_{number}" for number in range(ANY_COLUMNS)], [])
