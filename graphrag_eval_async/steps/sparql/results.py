"""SPARQL 1.1 Query Results JSON, checked and turned into columns of cells.

https://www.w3.org/TR/sparql11-results-json/
"""

from __future__ import annotations

from itertools import count, repeat
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeVar

import orjson

from graphrag_eval_async.errors import MalformedStep
from graphrag_eval_async.steps.sparql.columns import Column, values_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

T = TypeVar("T")


class SparqlResults:
    """What a query returned: `boolean` for ASK, otherwise `row_count` rows in `columns`, one per variable.

    Nothing that shows changes after construction: any number of comparisons may share one object.
    """

    __slots__ = ("_distinct", "boolean", "columns", "row_count")

    def __init__(self, columns: Sequence[Column], row_count: int, boolean: bool | None = None) -> None:
        self.columns = tuple(columns)
        self.row_count = row_count
        self.boolean = boolean
        self._distinct: SparqlResults | None = None

    def named(self, names: Iterable[str]) -> list[Column]:
        """The columns of these variables, as far as there are any."""
        columns = {column.name: column for column in self.columns}
        return [columns[name] for name in names if name in columns]

    def distinct(self) -> SparqlResults:
        """The same without repeated rows; computed when first asked for."""
        if self._distinct is None:
            cells = (column.cells() if column.typed else column.texts for column in self.columns)
            rows = dict(zip(zip(*cells, strict=True), count())).values()
            self._distinct = SparqlResults([column.at(rows) for column in self.columns], len(rows))
        return self._distinct


def read_results(output: Any) -> SparqlResults:
    """Read SPARQL results JSON: its text (`str` or `bytes`), or what that decodes to.

    Variables listed twice in `head.vars` count once. What a row binds to a variable that `head.vars` does
    not list must be well formed, and is ignored.

    Raises:
        MalformedStep: it is something else; the message says where.
    """
    document = _loads(output) if isinstance(output, (str, bytes)) else output
    if not isinstance(document, dict):
        raise _malformed("", f"expected an object, got {type(document).__name__}")
    head = _member(document, "head", dict)
    if "boolean" in document:
        if "results" in document:
            raise _malformed("", "both boolean and results")
        return SparqlResults((), 0, _member(document, "boolean", bool))
    names = _variables(_member(head, "vars", list, "head."))
    bindings = _member(_member(document, "results", dict), "bindings", list, "results.")
    columns = _read_in_bulk(names, bindings)
    return SparqlResults(_read_with_care(names, bindings) if columns is None else columns, len(bindings))


def _loads(text: str | bytes) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise _malformed("", str(error)) from None


def _malformed(where: str, problem: str) -> MalformedStep:
    return MalformedStep(f"not SPARQL JSON: {where}: {problem}" if where else f"not SPARQL JSON: {problem}")


_JSON_NAMES = {dict: "an object", list: "an array", str: "a string", bool: "a boolean"}


def _member(parent: dict[str, Any], name: str, kind: type, prefix: str = "") -> Any:
    if name not in parent:
        raise _malformed(prefix + name, "missing")
    return _checked(parent[name], kind, prefix + name)


def _checked(value: Any, kind: type, where: str) -> Any:
    if not isinstance(value, kind):
        raise _malformed(where, f"expected {_JSON_NAMES[kind]}, got {type(value).__name__}")
    return value


def _variables(names: list[Any]) -> list[str]:
    for index, name in enumerate(names):
        if not isinstance(name, str):
            _checked(name, str, f"head.vars[{index}]")
    return list(dict.fromkeys(names))


_VALUE = itemgetter("value")
_STRING = frozenset({str})


def _read_in_bulk(names: list[str], bindings: list[Any]) -> list[Column] | None:
    """Read column by column, in loops that run in C; None where anything is out of the ordinary.

    Well-formed tables that it gives up on, such as those with triple terms, are for `_read_with_care`.
    """
    if not names:
        return None
    try:
        columns = [_column(name, list(map(dict.get, bindings, repeat(name)))) for name in names]
    except (KeyError, TypeError, ValueError):
        return None
    # A null in place of a term, or a variable that is not listed, makes a difference.
    bound = sum(len(bindings) - column.texts.count(None) for column in columns)
    return columns if bound == sum(map(len, bindings)) else None


def _column(name: str, cells: list[Any]) -> Column:
    """A column of terms, None where unbound; KeyError, TypeError or ValueError for all but plain ones."""
    bound = cells if all(cells) else [cell for cell in cells if cell is not None]
    texts = list(map(_VALUE, bound))
    datatypes = list(map(dict.get, bound, repeat("datatype")))
    different = set(datatypes)
    different.discard(None)
    if not _STRING.issuperset(map(type, texts)) or not _STRING.issuperset(map(type, different)):
        raise ValueError("a value or a datatype is not a string")
    values = values_of(texts, datatypes) if different else texts
    if bound is cells:
        return Column(name, texts, values)
    return Column(name, _spread(texts, cells), _spread(values, cells))


def _spread(bound: Iterable[T], cells: list[Any]) -> list[T | None]:
    supply = iter(bound)
    return [None if cell is None else next(supply) for cell in cells]


def _read_with_care(names: list[str], bindings: list[Any]) -> list[Column]:
    """Read cell by cell, which knows the place of every problem."""
    rows = [_row(row, f"results.bindings[{index}]") for index, row in enumerate(bindings)]
    return [_column(name, [row.get(name) for row in rows]) for name in names]


def _row(row: Any, where: str) -> dict[str, Any]:
    return {name: _term(term, f"{where}.{name}") for name, term in _checked(row, dict, where).items()}


def _term(term: Any, where: str) -> dict[str, Any]:
    """The term as `_column` wants it: what is allowed but unusual, made plain."""
    text = _member(_checked(term, dict, where), "value", object, f"{where}.")
    if isinstance(text, dict) and term.get("type") == "triple":
        text = _canonical(text, f"{where}.value")
    datatype = term.get("datatype")
    if datatype is not None:
        _checked(datatype, str, f"{where}.datatype")
    return {"value": str(_checked(text, str, f"{where}.value")), "datatype": datatype}


def _canonical(triple: dict[str, Any], where: str) -> str:
    try:
        return orjson.dumps(triple, option=orjson.OPT_SORT_KEYS).decode()
    except orjson.JSONEncodeError as error:
        raise _malformed(where, str(error)) from None
