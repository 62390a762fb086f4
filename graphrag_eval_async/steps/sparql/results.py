"""Checks SPARQL 1.1 Query Results JSON and converts it to columns of cells.

https://www.w3.org/TR/sparql11-results-json/
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import count, repeat
from operator import itemgetter
from types import NoneType
from typing import TYPE_CHECKING, Any, TypeVar

import orjson

from graphrag_eval_async.errors import ComparisonBudgetExceeded, MalformedStep
from graphrag_eval_async.records.outputs import unwrapped
from graphrag_eval_async.steps.sparql.columns import Column, values_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

T = TypeVar("T")

_PLAIN = {str, type(None)}

# Tables with more cells than this per bound cell are checked for variables that are never bound.
_WORTH_A_LOOK = 4
# A larger table with more cells than this per bound cell is refused.
FEW_CELLS, _CELLS_PER_BOUND = 1_000_000, 50


@dataclass(slots=True, eq=False)
class SparqlResults:
    """Immutable results of a query: `boolean` for ASK, otherwise `row_count` rows.

    `columns` has a column for each of the `variables` that is bound in at least one row; others would waste
    memory. `flaw` describes a mistake that was tolerated in reading, if any. `has_blanks`: whether unbound
    cells may be empty texts, which formats such as CSV cannot tell from them.
    """

    variables: Collection[str] = ()
    columns: Sequence[Column] = ()
    row_count: int = 0
    boolean: bool | None = None
    flaw: str | None = None
    has_blanks: bool = False
    _distinct: SparqlResults | None = field(default=None, init=False)
    _blanked: SparqlResults | None = field(default=None, init=False)

    def named(self, names: Iterable[str]) -> list[Column]:
        """The columns of these variables, except variables without a column."""
        columns = {column.name: column for column in self.columns}
        return [columns[name] for name in names if name in columns]

    def distinct(self) -> SparqlResults:
        """The results without repeated rows, computed on first use. There must be columns."""
        if self._distinct is None:
            cells = (column.cells() if column.types - _PLAIN else column.texts for column in self.columns)
            rows = dict(zip(zip(*cells, strict=True), count())).values()
            columns = [column.at(rows) for column in self.columns]
            self._distinct = SparqlResults(self.variables, columns, len(rows))
        return self._distinct

    def blanked(self) -> SparqlResults:
        """The results with empty texts unbound, as CSV has them, computed on first use."""
        if self._blanked is None:
            columns = [column.blanked() if "" in column.texts else column for column in self.columns]
            bound = [column for column in columns if column.types != {NoneType}]
            changed = any(one is not other for one, other in zip(columns, self.columns, strict=True))
            self._blanked = replace(self, columns=bound) if changed else self
        return self._blanked


def read_document(output: Any) -> dict[str, Any]:
    """The object of SPARQL results JSON, from text or already decoded. Its contents are not checked.

    Results may be wrapped once more: see `unwrapped`.
    """
    document = output
    if isinstance(output, (str, bytes)):
        try:
            document = orjson.loads(output)
        except orjson.JSONDecodeError as error:
            raise _malformed("", str(error)) from None
    is_alone = isinstance(document, dict) and len(document) == 1 and "boolean" not in document
    if is_alone or isinstance(document, str):
        inner = unwrapped(document)
        if not isinstance(inner, dict) or "head" in inner:
            document = inner
    if not isinstance(document, dict):
        raise _malformed("", f"expected an object, got {type(document).__name__}")
    return document


def results_in(output: Any) -> dict[str, Any] | None:
    """The object of an output that is JSON with the keys of SPARQL results; None if it is something else."""
    if isinstance(output, str) and '"bindings"' not in output and '"boolean"' not in output:
        return None
    try:
        document = read_document(output)
    except MalformedStep:
        return None
    results = document.get("results")
    is_table = isinstance(results, dict) and isinstance(results.get("bindings"), list)
    is_answer = isinstance(document.get("boolean"), bool)
    return document if isinstance(document.get("head"), dict) and (is_table or is_answer) else None


def is_same_table(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether both have the same variables and equal rows; `one` is known to be SPARQL results."""
    if "results" not in one or "boolean" in other:
        return False
    try:
        if one["results"]["bindings"] != other["results"]["bindings"]:
            return False
        variables, others = one["head"]["vars"], other["head"]["vars"]
        return variables == others or sorted(variables) == sorted(others)
    except (KeyError, TypeError):  # The other one is not SPARQL results.
        return False


def results_of(document: dict[str, Any]) -> SparqlResults:
    """The results in a document.

    Variables listed twice in `head.vars` count once. What a row binds to a variable that `head.vars` does
    not list must be well formed, and is ignored. Either is noted as the results' `flaw`.

    Raises:
        MalformedStep: it is something else; the message says where.
        ComparisonBudgetExceeded: the table is so sparse that columns of its cells cannot be afforded.
    """
    head = _member(document, "head", dict)
    if "boolean" in document:
        if "results" in document:
            raise _malformed("", "both boolean and results")
        return SparqlResults(boolean=_member(document, "boolean", bool))
    for index, name in enumerate(names := _member(head, "vars", list, "head.")):
        if not isinstance(name, str):
            _checked(name, str, f"head.vars[{index}]")
    variables = dict.fromkeys(names)
    bindings = _member(_member(document, "results", dict), "bindings", list, "results.")
    columns, flaw = None, None
    with suppress(KeyError, TypeError, ValueError):  # Anything out of the ordinary.
        columns = _columns(variables, bindings) if variables else None
    if columns is None:
        columns, flaw = _read_with_care(variables, bindings)
    if len(variables) < len(names):
        flaw = f"head.vars: {Counter(names).most_common(1)[0][0]!r} is listed twice"
    return SparqlResults(variables, columns, len(bindings), flaw=flaw)


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


_VALUE = itemgetter("value")
_STRING = frozenset({str})


def _columns(variables: Collection[str], rows: list[dict[str, Any]]) -> list[Column]:
    """The columns of bound variables. Raises KeyError, TypeError or ValueError unless all rows are plain."""
    bound = sum(map(len, rows))
    if len(variables) * len(rows) >= bound * _WORTH_A_LOOK:
        variables = _without_unbound(variables, rows, bound)
    columns = [_column(name, list(map(dict.get, rows, repeat(name)))) for name in variables]
    unbound = [column.texts.count(None) for column in columns]
    if len(columns) * len(rows) - sum(unbound) != bound:
        raise ValueError("a null in place of a term, or a variable that is not listed")
    if len(rows) in unbound:
        return [column for column, number in zip(columns, unbound, strict=True) if number < len(rows)]
    return columns


def _without_unbound(
    variables: Iterable[str], rows: Collection[dict[str, Any]], bound: int
) -> Collection[str]:
    used = set().union(*map(dict.keys, rows))
    names = [name for name in variables if name in used]
    if len(names) * len(rows) > max(FEW_CELLS, bound * _CELLS_PER_BOUND):
        raise ComparisonBudgetExceeded(
            f"{len(names)} columns of {len(rows)} rows: too sparse, only {bound} bound cells"
        )
    return names


def _column(name: str, cells: list[Any]) -> Column:
    """A column of terms, None if unbound. Raises KeyError, TypeError or ValueError unless all are plain."""
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
    spread = _spread(texts, cells)
    return Column(name, spread, spread if values is texts else _spread(values, cells))


def _spread(bound: Iterable[T], cells: list[Any]) -> list[T | None]:
    supply = iter(bound)
    return [None if cell is None else next(supply) for cell in cells]


def _read_with_care(variables: Collection[str], bindings: list[Any]) -> tuple[list[Column], str | None]:
    """The columns, read term by term, and the first bound variable that is not listed."""
    rows = [_row(row, f"results.bindings[{index}]") for index, row in enumerate(bindings)]
    unlisted = (
        f"results.bindings[{index}].{name}: not among head.vars"
        for index, row in enumerate(rows)
        for name in row
        if name not in variables
    )
    listed = [{name: term for name, term in row.items() if name in variables} for row in rows]
    return _columns(variables, listed), next(unlisted, None)


def _row(row: Any, where: str) -> dict[str, Any]:
    return {name: _term(term, f"{where}.{name}") for name, term in _checked(row, dict, where).items()}


def _term(term: Any, where: str) -> dict[str, Any]:
    """The term normalized for `_column`, which takes only plain terms."""
    text = _member(_checked(term, dict, where), "value", object, f"{where}.")
    if isinstance(text, dict) and term.get("type") == "triple":
        try:
            text = orjson.dumps(text, option=orjson.OPT_SORT_KEYS).decode()
        except orjson.JSONEncodeError as error:
            raise _malformed(f"{where}.value", str(error)) from None
    datatype = term.get("datatype")
    if datatype is not None:
        _checked(datatype, str, f"{where}.datatype")
    return {"value": str(_checked(text, str, f"{where}.value")), "datatype": datatype}
