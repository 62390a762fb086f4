"""SPARQL 1.1 Query Results JSON, and the columns of the results in it.

https://www.w3.org/TR/sparql11-results-json/
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from itertools import chain, repeat
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import orjson

from graphrag_eval_async.errors import ComparisonBudgetExceeded, MalformedStep
from graphrag_eval_async.steps.formats.terms import VIRTUOSO_NODE, XSD
from graphrag_eval_async.steps.tables.columns import BLANK, Column, values_of
from graphrag_eval_async.steps.tables.temporal import PARTS_OF_DATES, without_utc

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from graphrag_eval_async.steps.tables.columns import Value

S = TypeVar("S", bound=msgspec.Struct)

_VALUE, _DATATYPE, _TYPE = attrgetter("value"), attrgetter("datatype"), attrgetter("type")

_PARTS_OF_DATES = frozenset(XSD + name for name in PARTS_OF_DATES)

# A larger table with more cells than this per bound cell is refused.
_FEW_CELLS, _CELLS_PER_BOUND = 1_000_000, 50


class _Term(msgspec.Struct, gc=False):
    value: str | dict[str, Any]
    datatype: str | None = None
    type: Any = None


class _Head(msgspec.Struct, gc=False):
    vars: list[str]


class _Bindings(msgspec.Struct, gc=False):
    bindings: list[dict[str, _Term]]


class _Select(msgspec.Struct, gc=False):
    head: _Head
    results: _Bindings


class _Ask(msgspec.Struct, gc=False):
    head: dict[str, Any]
    boolean: bool


class _PlainTerm(msgspec.Struct, gc=False):
    value: str
    datatype: str | None = None


class _PlainBindings(msgspec.Struct, gc=False):
    bindings: list[dict[str, _PlainTerm]]


class _Plain(msgspec.Struct, gc=False):
    head: _Head
    results: _PlainBindings
    boolean: msgspec.Raw | None = None


_decode_plain = msgspec.json.Decoder(_Plain).decode


def are_plain(output: Any, required: Collection[str]) -> bool:
    """Whether text is SPARQL results with the required columns and nothing wrong or unusual.

    Much quicker than reading them; of what is not plain, reading tells whether it is right, and
    what is not.
    """
    if isinstance(output, str) and output[:1] == "\ufeff":  # Only this decoder skips it.
        return False
    try:
        document = _decode_plain(output)
    except (TypeError, ValueError, RecursionError):
        return False
    rows, listed = document.results.bindings, document.head.vars
    variables = frozenset(listed)
    return (
        document.boolean is None
        and len(listed) * len(rows) <= _FEW_CELLS
        and len(variables) == len(listed)
        and len(frozenset(required)) == len(required)
        and variables.issuperset(required)
        and variables.issuperset(chain.from_iterable(rows))
    )


@dataclass(slots=True, eq=False)
class SparqlResults:
    """Immutable results of a query: `boolean` for ASK, otherwise `row_count` rows."""

    variables: Collection[str] = ()
    columns: Sequence[Column] = ()  # Of the variables that are bound in at least one row.
    row_count: int = 0
    boolean: bool | None = None
    flaw: str | None = None  # A mistake that was tolerated in reading.

    def named(self, names: Iterable[str]) -> list[Column]:
        """The columns of these variables, except variables without a column."""
        columns = {column.name: column for column in self.columns}
        return [columns[name] for name in names if name in columns]


class _TypedTerm(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    value: str
    type: str | None = None
    datatype: str | None = None
    lang: str | None = msgspec.field(default=None, name="xml:lang")


class _TypedHead(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    vars: list[str]
    link: list[str] = []


class _TypedBindings(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    bindings: list[dict[str, _TypedTerm]]
    distinct: bool = False  # Virtuoso writes this and the next, which say nothing of the rows.
    ordered: bool = False


class TypedTable(msgspec.Struct, gc=False):
    """SPARQL results whose parts have nothing unusual: read and compared faster than dicts."""

    head: _TypedHead
    results: _TypedBindings
    boolean: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET  # Even null makes it no table.

    def is_same(self, other: TypedTable) -> bool:
        """Whether both have the same variables and equal rows."""
        if self.boolean is not msgspec.UNSET or other.boolean is not msgspec.UNSET:
            return False
        if self.results.bindings != other.results.bindings:
            return False
        variables = self.head.vars
        others = other.head.vars
        return variables == others or sorted(variables) == sorted(others)


_decode_typed_table = msgspec.json.Decoder(TypedTable).decode


def read_typed_table(text: str) -> TypedTable | None:
    """Return the results in a text; None if anything in it is unusual."""
    try:
        return _decode_typed_table(text)
    except (ValueError, RecursionError):
        return None


class _ResultsAlone(msgspec.Struct, gc=False):
    """The members of a document that are SPARQL results. All others are passed over."""

    head: dict[str, Any]
    results: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    boolean: Any = msgspec.UNSET


_decode_results_alone = msgspec.json.Decoder(_ResultsAlone).decode


def read_results_alone(text: str) -> dict[str, Any] | None:
    """Return the SPARQL results in JSON text, without other members; None if there are none.

    It reads what `read_typed_table` reads: a store may add a member whose value Python cannot hold,
    such as a number beyond a double, and the results are right all the same.
    """
    try:
        document = _decode_results_alone(text)
    except (ValueError, RecursionError):
        return None
    members: dict[str, Any] = msgspec.to_builtins(document)
    return members


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


def results_of(
    document: dict[str, Any], *, has_blanks: bool = False, strict_types: bool = False
) -> SparqlResults:
    """The results in a document; if it is compared with one that `has_blanks`, empty texts are
    unbound. With `strict_types`, an IRI is no literal of the same text.

    Raises `MalformedStep` with the place, or `ComparisonBudgetExceeded` for a large table that is
    too sparse.
    """
    if "boolean" in document:
        if "results" in document:
            raise _malformed("both boolean and results")
        return SparqlResults(boolean=_checked(document, _Ask).boolean)
    select = _checked(document, _Select)
    names, rows = select.head.vars, select.results.bindings
    if has_blanks:
        rows = [{name: term for name, term in row.items() if term.value != ""} for row in rows]
    variables, used = dict.fromkeys(names), set().union(*rows)
    bound = [name for name in variables if name in used]
    cells = len(bound) * len(rows)
    if cells > _FEW_CELLS and cells > (few := sum(map(len, rows))) * _CELLS_PER_BOUND:
        what = f"{len(bound)} columns of {len(rows)} rows"
        raise ComparisonBudgetExceeded(f"{what}: too sparse, only {few} bound cells")
    flaw = None
    if len(variables) < len(names):
        flaw = f"head.vars: {Counter(names).most_common(1)[0][0]!r} is listed twice"
    elif len(bound) < len(used):
        name = min(used.difference(variables))
        flaw = f"results.bindings: {name!r} is bound but not among head.vars"
    columns = [_column(name, [*map(dict.get, rows, repeat(name))]) for name in bound]
    if strict_types:
        for column in columns:
            _mark_iris(column, rows)
    return SparqlResults(variables, columns, len(rows), flaw=flaw)


def _checked(document: dict[str, Any], kind: type[S]) -> S:
    try:
        return msgspec.convert(document, kind)
    except (ValueError, msgspec.ValidationError, RecursionError) as error:
        raise _malformed(_explained(document, error)) from None


def _explained(document: dict[str, Any], error: Exception) -> str:
    """What msgspec found wrong, where, and what is right."""
    problem, _, path = str(error).rstrip("`").partition(" - at `$.")
    if "[...]" in path:  # It does not say which variable of the row.
        row = document["results"]["bindings"][int(path.split("[")[1].partition("]")[0])]
        path = path.replace(
            "[...]", next((f".{name}" for name, term in row.items() if not _is_term(term)), "")
        )
    example = "" if "boolean" in document else f"; write it as {_EXAMPLE}"
    if missing := re.fullmatch("Object missing required field `([a-z]+)`?", problem):
        return f"{f'{path}.{missing[1]}'.lstrip('.')} is missing{example}"
    return f"{path}: {problem.lower().replace('`', '')}{example}" if path else problem


def _is_term(value: Any) -> bool:
    try:
        return bool(msgspec.convert(value, _Term))
    except msgspec.ValidationError:
        return False


_EXAMPLE = (
    '{"head": {"vars": ["x"]}, "results": {"bindings": [{"x": {"type": "literal", "value": "5"}}]}}'
)


def _malformed(problem: str) -> MalformedStep:
    return MalformedStep(f"not SPARQL JSON: {problem}")


def _column(name: str, cells: list[_Term | None]) -> Column:
    bound = [*filter(None, cells)]
    texts: list[Any] = [*map(_VALUE, bound)]
    if dict in set(map(type, texts)):
        texts = [_text(cell) for cell in bound]
    if VIRTUOSO_NODE in "".join(texts):
        _mark_blank_nodes_of_virtuoso(bound)
    datatypes = [*map(_DATATYPE, bound)]
    if not _PARTS_OF_DATES.isdisjoint(datatypes):
        pairs = zip(texts, datatypes, strict=True)
        texts = [without_utc(text) if kind in _PARTS_OF_DATES else text for text, kind in pairs]
    values = values_of(texts, datatypes)
    if "bnode" in map(_TYPE, bound):
        return _column_with_blank_nodes(name, cells, texts, values)
    if len(bound) == len(cells):
        return Column(name, texts, values)
    spread = _spread(texts, cells)
    return Column(name, spread, spread if values is texts else _spread(values, cells))


def _mark_blank_nodes_of_virtuoso(terms: list[_Term]) -> None:
    """Give the type of blank nodes to terms that Virtuoso writes as IRIs, such as nodeID://b1."""
    for term in terms:
        if isinstance(term.value, str) and term.value.startswith(VIRTUOSO_NODE):
            term.type = "bnode"


def _mark_iris(column: Column, rows: Sequence[dict[str, _Term]]) -> None:
    """Give the IRIs in a column values of their own, which no literal has."""
    values = list(column.values)
    for index, row in enumerate(rows):
        term = row.get(column.name)
        if term is not None and term.type == "uri":
            values[index] = f"<{values[index]}>"
    column.values = values


def _column_with_blank_nodes(
    name: str, cells: list[_Term | None], bound_texts: list[Any], bound_values: Sequence[Value]
) -> Column:
    """Return a column some of whose cells are blank nodes."""
    texts = _spread(bound_texts, cells)
    values = _spread(bound_values, cells)
    labels: list[str | None] = [None] * len(cells)
    for row, cell in enumerate(cells):
        if cell is not None and cell.type == "bnode":
            labels[row] = texts[row].removeprefix("_:")
            texts[row] = f"_:{labels[row]}"
            values[row] = BLANK
    return Column(name, texts, values, labels)


def _text(term: _Term) -> str:
    """The text of a term; of a triple, its canonical JSON."""
    if isinstance(term.value, str):
        return term.value
    try:
        if term.type != "triple":
            raise _malformed(
                "results.bindings: the value of a term is an object, and it is no triple"
            )
        return orjson.dumps(term.value, option=orjson.OPT_SORT_KEYS).decode()
    except orjson.JSONEncodeError as error:
        raise _malformed(f"results.bindings: a triple: {error}") from None


def _spread(bound: Iterable[Any], cells: list[_Term | None]) -> list[Any]:
    supply = iter(bound)
    return [None if cell is None else next(supply) for cell in cells]
