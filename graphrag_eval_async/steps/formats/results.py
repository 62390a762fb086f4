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
from graphrag_eval_async.steps.tables.quoted_triples import read_quoted_triple
from graphrag_eval_async.steps.tables.temporal import PARTS_OF_DATES, without_utc

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from graphrag_eval_async.steps.tables.columns import Value

S = TypeVar("S", bound=msgspec.Struct)

_VALUE, _DATATYPE, _TYPE = attrgetter("value"), attrgetter("datatype"), attrgetter("type")

_PARTS_OF_DATES = frozenset(XSD + name for name in PARTS_OF_DATES)

_FEW_CELLS = 1_000_000
"""Cells of a table that are laid out as columns however many of them are unbound."""

_CELLS_PER_BOUND = 50
"""Maximum cells of a larger table for each bound cell."""


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
    """Return whether text is SPARQL results that surely are a valid reference.

    They have the required columns, and nothing unusual. This is much quicker than reading them. If
    it returns False, the results may still be valid, which only reading them decides.
    """
    if isinstance(output, str) and output[:1] == "\ufeff":
        return False  # Other decoders refuse a byte order mark, which this one would skip.
    try:
        document = _decode_plain(output)
    except (TypeError, ValueError, RecursionError):
        return False
    rows = document.results.bindings
    variables = document.head.vars
    distinct_variables = frozenset(variables)
    return (
        document.boolean is None
        and len(variables) * len(rows) <= _FEW_CELLS
        and len(distinct_variables) == len(variables)
        and len(frozenset(required)) == len(required)
        and distinct_variables.issuperset(required)
        and distinct_variables.issuperset(chain.from_iterable(rows))
    )


@dataclass(slots=True, eq=False)
class SparqlResults:
    """Results of a query, which do not change after they were read.

    Attributes:
        variables: the names of all columns.
        columns: the columns of those variables that are bound in at least one row.
        row_count: the number of rows.
        boolean: the answer to ASK; None for a table.
        flaw: a mistake that was tolerated in reading; None if there was none.
    """

    variables: Collection[str] = ()
    columns: Sequence[Column] = ()
    row_count: int = 0
    boolean: bool | None = None
    flaw: str | None = None

    def named(self, names: Iterable[str]) -> list[Column]:
        """Return the columns of some variables, without those that are bound in no row."""
        columns_by_name = {column.name: column for column in self.columns}
        return [columns_by_name[name] for name in names if name in columns_by_name]


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
    distinct: bool = False  # Virtuoso writes `distinct` and `ordered`, which do not matter here.
    ordered: bool = False


class TypedTable(msgspec.Struct, gc=False):
    """SPARQL results whose parts have nothing unusual: read and compared faster than dicts."""

    head: _TypedHead
    results: _TypedBindings
    boolean: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET  # Even null makes it no table.

    def is_same(self, other: TypedTable) -> bool:
        """Return whether two tables have the same variables, in any order, and equal rows in order.

        False if one of them is an answer to ASK.
        """
        if self.boolean is not msgspec.UNSET or other.boolean is not msgspec.UNSET:
            return False
        if self.results.bindings != other.results.bindings:
            return False
        variables = self.head.vars
        other_variables = other.head.vars
        return variables == other_variables or sorted(variables) == sorted(other_variables)


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

    A store may add another member whose value Python cannot hold, such as a number beyond a double.
    The results are right all the same, so other members are skipped without being decoded.
    """
    try:
        document = _decode_results_alone(text)
    except (ValueError, RecursionError):
        return None
    members: dict[str, Any] = msgspec.to_builtins(document)
    return members


def is_same_table(table: dict[str, Any], other: dict[str, Any]) -> bool:
    """Return whether two documents are tables with the same variables, and equal rows in order.

    Args:
        table: SPARQL results that were checked.
        other: a document that may hold anything.
    """
    if "results" not in table or "boolean" in other:
        return False
    try:
        if table["results"]["bindings"] != other["results"]["bindings"]:
            return False
        variables = table["head"]["vars"]
        other_variables = other["head"]["vars"]
        return variables == other_variables or sorted(variables) == sorted(other_variables)
    except (KeyError, TypeError):  # The other document is not SPARQL results.
        return False


def results_of(
    document: dict[str, Any], *, has_blanks: bool = False, strict_types: bool = False
) -> SparqlResults:
    """Return the results in a document of SPARQL results JSON, as columns.

    Args:
        document: SPARQL results as decoded JSON.
        has_blanks: whether this or the other table cannot tell unbound cells from empty texts. Then
            empty texts are read as unbound.
        strict_types: whether an IRI differs from a literal of the same text.

    Raises:
        MalformedStep: the document is not SPARQL results; the message says where.
        ComparisonBudgetExceeded: the table is large and too sparse.
    """
    if "boolean" in document:
        if "results" in document:
            raise _malformed("both boolean and results")
        return SparqlResults(boolean=_checked(document, _Ask).boolean)

    select = _checked(document, _Select)
    names = select.head.vars
    rows = select.results.bindings
    if has_blanks:
        rows = [{name: term for name, term in row.items() if term.value != ""} for row in rows]

    # Compare the names in the head with those in the rows.
    variables = dict.fromkeys(names)
    names_in_rows = set[str]().union(*rows)
    bound_names = [name for name in variables if name in names_in_rows]
    _check_density(rows, width=len(bound_names))
    flaw = None
    if len(variables) < len(names):
        flaw = f"head.vars: {Counter(names).most_common(1)[0][0]!r} is listed twice"
    elif len(bound_names) < len(names_in_rows):
        name = min(names_in_rows.difference(variables))
        flaw = f"results.bindings: {name!r} is bound but not among head.vars"

    columns = [_column(name, [*map(dict.get, rows, repeat(name))]) for name in bound_names]
    if strict_types:
        for column in columns:
            _mark_iris(column, rows)
    return SparqlResults(variables, columns, len(rows), flaw=flaw)


def _check_density(rows: Sequence[dict[str, _Term]], *, width: int) -> None:
    """Check that few cells of a large table are unbound: its columns would take too much memory.

    Raises:
        ComparisonBudgetExceeded: too many cells are unbound.
    """
    cells = width * len(rows)
    if cells <= _FEW_CELLS:
        return
    bound_cells = sum(map(len, rows))
    if cells > bound_cells * _CELLS_PER_BOUND:
        size = f"{width} columns of {len(rows)} rows"
        raise ComparisonBudgetExceeded(f"{size}: too sparse, only {bound_cells} bound cells")


def _checked(document: dict[str, Any], kind: type[S]) -> S:
    """Return a document as an instance of a class; raise `MalformedStep` if it does not fit."""
    try:
        return msgspec.convert(document, kind)
    except (ValueError, msgspec.ValidationError, RecursionError) as error:
        raise _malformed(_explain(document, error)) from None


def _explain(document: dict[str, Any], error: Exception) -> str:
    """Return what msgspec found wrong in a document and where, with an example of what is right."""
    # A message of msgspec ends with the path, such as "... - at `$.head.vars`".
    problem, _, path = str(error).rstrip("`").partition(" - at `$.")
    if "[...]" in path:
        path = _path_with_variable(document, path)
    example = ""
    if "boolean" not in document:
        example = f"; write it as {_EXAMPLE}"

    missing = re.fullmatch("Object missing required field `([a-z]+)`?", problem)
    if missing is not None:
        place = f"{path}.{missing[1]}".lstrip(".")
        return f"{place} is missing{example}"
    if not path:
        return problem
    return f"{path}: {problem.lower().replace('`', '')}{example}"


def _path_with_variable(document: dict[str, Any], path: str) -> str:
    """Return a path of msgspec in which the variable whose term is wrong is named.

    msgspec writes [...] in its place.
    """
    row_number = int(path.split("[")[1].partition("]")[0])
    row = document["results"]["bindings"][row_number]
    for name, term in row.items():
        if not _is_term(term):
            return path.replace("[...]", f".{name}")
    return path.replace("[...]", "")


def _is_term(value: Any) -> bool:
    """Return whether a value is a term as SPARQL results JSON writes it."""
    try:
        return bool(msgspec.convert(value, _Term))
    except msgspec.ValidationError:
        return False


_EXAMPLE = (
    '{"head": {"vars": ["x"]}, "results": {"bindings": [{"x": {"type": "literal", "value": "5"}}]}}'
)


def _malformed(problem: str) -> MalformedStep:
    """Return the error for a document that is not SPARQL results JSON."""
    return MalformedStep(f"not SPARQL JSON: {problem}")


def _column(name: str, cells: list[_Term | None]) -> Column:
    """Return the column of a variable.

    Args:
        name: the variable.
        cells: the term in each row; None if the variable is unbound there.
    """
    bound_cells = [*filter(None, cells)]
    texts: list[Any] = [*map(_VALUE, bound_cells)]
    if dict in set(map(type, texts)):
        # The value of a triple is an object.
        texts = [_text(cell) for cell in bound_cells]
    # A search in all texts at once is quicker than one in each text.
    if VIRTUOSO_NODE in "".join(texts):
        _mark_blank_nodes_of_virtuoso(bound_cells)

    datatypes = [*map(_DATATYPE, bound_cells)]
    if not _PARTS_OF_DATES.isdisjoint(datatypes):
        pairs = zip(texts, datatypes, strict=True)
        texts = [without_utc(text) if kind in _PARTS_OF_DATES else text for text, kind in pairs]
    values = values_of(texts, datatypes)

    # A list, since a wrong type may be an object, which is in no set.
    types = [*map(_TYPE, bound_cells)]
    if "bnode" in types or "triple" in types:
        return _column_with_blank_nodes(name, cells, texts, values)
    if len(bound_cells) == len(cells):
        return Column(name, texts, values)
    texts_with_unbound = _spread(texts, cells)
    if values is texts:
        # All values are texts, so one list serves for both.
        return Column(name, texts_with_unbound, texts_with_unbound)
    return Column(name, texts_with_unbound, _spread(values, cells))


def _mark_blank_nodes_of_virtuoso(terms: list[_Term]) -> None:
    """Give the type of blank nodes to terms that Virtuoso writes as IRIs, such as nodeID://b1."""
    for term in terms:
        if isinstance(term.value, str) and term.value.startswith(VIRTUOSO_NODE):
            term.type = "bnode"


def _mark_iris(column: Column, rows: Sequence[dict[str, _Term]]) -> None:
    """Put the IRIs in a column into angle brackets, so that they differ from all literals.

    Their texts change, too, since tables may also be compared by these.
    """
    texts = list(column.texts)
    values = list(column.values)
    for index, row in enumerate(rows):
        term = row.get(column.name)
        if term is not None and term.type == "uri":
            texts[index] = f"<{texts[index]}>"
            values[index] = f"<{values[index]}>"
    column.texts = texts
    column.values = values


def _column_with_blank_nodes(
    name: str, cells: list[_Term | None], bound_texts: list[Any], bound_values: Sequence[Value]
) -> Column:
    """Return the column of a variable some of whose cells are blank nodes or quoted triples.

    The label of a triple with blank nodes is its JSON.

    Args:
        name: the variable.
        cells: the term of each cell; None if it is unbound.
        bound_texts: the texts of bound cells.
        bound_values: the values of bound cells.
    """
    texts = _spread(bound_texts, cells)
    values = _spread(bound_values, cells)
    # The labels count where blank nodes are compared; their texts are shown to people.
    labels: list[str | None] = [None] * len(cells)
    for row, cell in enumerate(cells):
        if cell is not None and cell.type == "bnode":
            labels[row] = texts[row].removeprefix("_:")
            texts[row] = f"_:{labels[row]}"
            values[row] = BLANK
        elif cell is not None and cell.type == "triple":
            triple = read_quoted_triple(texts[row])
            if triple.labels:
                labels[row] = texts[row]
                values[row] = triple.template
    return Column(name, texts, values, labels)


def _text(term: _Term) -> str:
    """Return the text of a term; of a triple, its JSON with sorted keys.

    Raises:
        MalformedStep: the value is an object, and the term is no triple.
    """
    if isinstance(term.value, str):
        return term.value
    if term.type != "triple":
        raise _malformed("results.bindings: the value of a term is an object, and it is no triple")
    try:
        return orjson.dumps(term.value, option=orjson.OPT_SORT_KEYS).decode()
    except orjson.JSONEncodeError as error:
        raise _malformed(f"results.bindings: a triple: {error}") from None


def _spread(bound: Iterable[Any], cells: list[_Term | None]) -> list[Any]:
    """Return what belongs to the bound cells of a column, with None for its unbound cells."""
    next_of_bound = iter(bound)
    return [None if cell is None else next(next_of_bound) for cell in cells]
