"""Reads RDF in any of its formats into statements, each written as in N-Quads.

The parser itself has no limits. Nested triple terms and terms of a JSON-LD context that refer to
each other exhaust its stack. Nested XML entities, XML elements with many attributes, deep nesting,
and contexts within JSON-LD contexts take quadratic time or more. So texts are checked first. All
limits are on sizes, never on time, so that a score does not depend on the machine.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple
from xml.parsers import expat

import msgspec
import orjson

from graphrag_eval_async.catalogue.media_types import GRAPHS, plain_type
from graphrag_eval_async.errors import MalformedStep, needs
from graphrag_eval_async.records.decoding import nests_deeper
from graphrag_eval_async.steps.budget import Budget
from graphrag_eval_async.steps.formats.envelopes import open_envelopes
from graphrag_eval_async.steps.formats.table import AmbiguousStep
from graphrag_eval_async.steps.formats.terms import is_rdf_json
from graphrag_eval_async.steps.graphs.statements import (
    lines_of_statements,
    statements_of_rdf_json,
    statements_of_table,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MAX_DEPTH = 100
"""Maximum levels of JSON-LD and RDF/XML, and of triple terms."""

MAX_CONTEXT_ENTRIES = 500
"""Maximum members of the contexts of a JSON-LD document, at all levels."""

MAX_CONTEXTS_BYTES = 64 * 1024
"""Maximum size of a JSON-LD document with more than one context."""

MAX_START_TAG = 4096
"""Maximum characters of the names and values of an XML element's attributes and namespaces."""

_TURTLE, _N_TRIPLES, _N_QUADS, _TRIG, _XML, _JSON_LD, _N3 = GRAPHS

_TITLES = {
    _TURTLE: "Turtle",
    _N_TRIPLES: "N-Triples",
    _N_QUADS: "N-Quads",
    _TRIG: "TriG",
    _XML: "RDF/XML",
    _JSON_LD: "JSON-LD",
    _N3: "N3",
}
"""How errors call the formats, by media type."""

_STATEMENTS_AT_A_TIME = 1000
"""How many statements are parsed before other threads can run and the budget can be stopped."""

_CHARACTERS_PER_STEP = 8
"""Characters of text that are parsed for each step of a budget."""

_NESTED_CHARACTERS_PER_STEP = 4
"""Characters of JSON and XML, which take longer, for each further step of a budget."""

_TRIPLE_TERM_ENDS = re.compile(r"<<|>>")


class Graph(NamedTuple):
    """Statements, each once, in the order of the text."""

    statements: Sequence[str]

    is_table: bool = False
    """Whether they stood in a table of subject, predicate and object."""


def read_graph(
    output: Any,
    media_type: str | None,
    budget: Budget,
    *,
    lenient: bool = True,
    union: bool = False,
) -> Graph:
    """Return the graph, or the dataset with named graphs, in an output.

    Args:
        output: text, or decoded JSON.
        media_type: the media type of the output. If it is no media type of RDF, all formats are
            tried.
        budget: what may be spent.
        lenient: whether the output may also be in the envelopes of tools and protocols, RDF/JSON,
            or a table of subject, predicate and object.
        union: whether the names of graphs are dropped, so that all statements are in one graph.

    Raises:
        MalformedStep: the output is no graph.
        ComparisonBudgetExceeded: the output is too long for the budget.
    """
    if lenient:
        return _read_leniently(output, media_type, budget, union=union)
    return _read_exactly(output, media_type, budget, union=union)


def _read_leniently(output: Any, media_type: str | None, budget: Budget, *, union: bool) -> Graph:
    """Return the graph in an output that may have envelopes, or may be no RDF.

    The output is read, in this order, as RDF/JSON, as RDF with its envelopes, as RDF without them,
    and as a table of subject, predicate and object. For the arguments and errors, see `read_graph`.
    """
    ambiguity: AmbiguousStep | None = None
    content = output
    try:
        content = open_envelopes(output, allow_broken_json=True).value
    except AmbiguousStep as error:
        # The literals of a graph may hold code fences, so it is read first as it is.
        ambiguity = error
    lines = lines_of_statements(content)
    if lines is not None:
        content = "\n".join(lines)
    if is_rdf_json(content):
        # It can be read as JSON-LD, too, and means something else there.
        return _parse(statements_of_rdf_json(content), _N_QUADS, budget, union=union)

    first_error: MalformedStep | None = None
    for candidate in (output, content):
        try:
            graph = _read_exactly(candidate, media_type, budget, union=union)
        except MalformedStep as error:
            first_error = first_error or error
            continue
        if graph.statements:
            return graph
        # The graph is empty, so no error is to be raised. Another reading may find statements.
        first_error = None

    table = statements_of_table(content)
    if table is not None:
        return _parse(table, _N_QUADS, budget, union=union)._replace(is_table=True)
    if ambiguity is not None:
        raise ambiguity
    if first_error is not None:
        raise first_error
    return Graph([])


def describe_wrong_statement(output: Any) -> str | None:
    """Return what is wrong with a statement in RDF/JSON or in a table of statements.

    Args:
        output: text, or decoded JSON; maybe in the envelopes of tools and protocols.

    Returns:
        None if nothing is wrong, or if the output is something else.
    """
    try:
        content = open_envelopes(output, allow_broken_json=True).value
    except AmbiguousStep as error:
        return None if _is_graph(output) else str(error)
    try:
        if is_rdf_json(content):
            statements: str | None = statements_of_rdf_json(content)
        else:
            statements = statements_of_table(content)
        if statements is not None:
            _parse(statements, _N_QUADS, Budget(), union=False)
    except MalformedStep as error:
        return str(error)
    return None


def _is_graph(output: Any) -> bool:
    """Return whether an output is RDF as it is, without envelopes."""
    try:
        _read_exactly(output, None, Budget(), union=False)
    except MalformedStep:
        return False
    return True


def _read_exactly(output: Any, media_type: str | None, budget: Budget, *, union: bool) -> Graph:
    """Return the graph in an output without envelopes.

    If the media type is no media type of RDF, the likely formats are tried one by one. For the
    arguments and errors, see `read_graph`.
    """
    if not isinstance(output, str | dict | list):
        raise MalformedStep(f"not RDF: expected text, got {type(output).__name__}")
    known_type = plain_type(media_type)
    if known_type not in GRAPHS:
        # Another media type says nothing about the format.
        known_type = None

    # Choose the formats to try.
    candidates: tuple[str, ...]
    if isinstance(output, str):
        budget.spend(len(output) // _CHARACTERS_PER_STEP)
        # The byte order mark and white space would hide how the text begins.
        output = output.lstrip("\ufeff \t\r\n")
        candidates = (known_type,) if known_type else _likely_formats(output)
    elif known_type in (None, _JSON_LD):
        candidates = (_JSON_LD,)
    else:
        raise MalformedStep(f"not RDF: {known_type} must be text")

    first_problem = ""
    for candidate in candidates:
        try:
            graph = _parse(output, candidate, budget, union=union)
        except MalformedStep as error:
            first_problem = first_problem or str(error)
            continue
        # Nearly all JSON can be read as JSON-LD without any statement, so that means nothing.
        is_any_json = candidate == _JSON_LD and not graph.statements and not _is_blank_json(output)
        if known_type or not is_any_json:
            return graph
        first_problem = first_problem or "JSON without any statement"
    if known_type:
        raise MalformedStep(first_problem)
    raise MalformedStep(f"not RDF in any known format: {first_problem}")


def _likely_formats(text: str) -> tuple[str, ...]:
    """Return the media types to try for a text, the likeliest first.

    Turtle and N-Triples are not listed: the parser of TriG reads them, too.
    """
    if text.startswith(("{", "[")):
        return _JSON_LD, _TRIG, _N3
    if text.startswith(("<?xml", "<!", "<rdf:")):
        return _XML, _TRIG
    return _TRIG, _N_QUADS, _N3, _XML


def _is_blank_json(output: Any) -> bool:
    """Return whether JSON is an empty object or array, which is an empty graph in JSON-LD.

    JSON of nothing but brackets counts as empty, too.
    """
    if isinstance(output, str):
        return output.strip("[]{} \t\r\n") == ""
    return not output


def _parse(output: Any, media_type: str, budget: Budget, *, union: bool) -> Graph:
    """Return the graph in an output whose media type is one of RDF.

    For the other arguments and the errors, see `read_graph`.
    """
    pyoxigraph = import_pyoxigraph()
    # Refuse what would exhaust the parser's stack or take it too long.
    if media_type == _JSON_LD:
        data = _safe_json_ld(output)
        budget.spend(len(data) // _NESTED_CHARACTERS_PER_STEP)
    else:
        data = output.encode(errors="replace")
        if media_type == _XML:
            budget.spend(len(data) // _NESTED_CHARACTERS_PER_STEP)
            _check_xml(output)
        else:
            _check_triple_terms(output)

    # Parse, and write each statement as N-Quads. A dict keeps each once, in the order of the text.
    file_format = pyoxigraph.RdfFormat.from_media_type(media_type)
    n_quads = pyoxigraph.RdfFormat.N_QUADS
    statements: dict[str, None] = {}
    try:
        quads: Iterator[Any] = pyoxigraph.parse(data, format=file_format)
        if union:
            # A triple is a quad without the name of its graph.
            quads = (quad.triple for quad in quads)
        while True:
            some_quads = islice(quads, _STATEMENTS_AT_A_TIME)
            lines = pyoxigraph.serialize(some_quads, format=n_quads).decode()
            if not lines:
                break
            # Called for its error: the budget may have been stopped.
            budget.spend(0)
            statements |= dict.fromkeys(lines.removesuffix(" .\n").split(" .\n"))
    except (SyntaxError, MemoryError, ValueError) as error:
        # The parser raises MemoryError for a term that is longer than its buffer.
        raise MalformedStep(f"not {_TITLES[media_type]}: {_describe_error(error)}") from None
    return Graph(list(statements))


def _describe_error(error: Exception) -> str:
    """Return what the RDF parser found wrong, as our error messages say it."""
    text = str(error)
    if isinstance(error, SyntaxError):
        # Its text would name the place twice, since the message has it already.
        text = str(error.msg)
    # The parser would have to load a remote context by a callback, which we do not give it.
    if "LoadDocumentCallback" in text:
        return "a remote @context, which is never fetched; put its terms into the document"
    return text.removeprefix("Parser error at ")


def import_pyoxigraph() -> Any:
    """Return the package that reads RDF.

    Raises:
        MalformedStep: the package is not installed. The message says how to install it.
    """
    try:
        import pyoxigraph
    except ImportError:
        raise MalformedStep(f"output_media_type: a graph {needs('rdf')}") from None
    return pyoxigraph


def _check_triple_terms(text: str) -> None:
    """Raise `MalformedStep` if triple terms nest too deep for the parser.

    Double angle brackets within literals count as triple terms, too.
    """
    if text.count("<<") <= MAX_DEPTH:
        # Most texts have too few to nest so deep.
        return
    depth = 0
    for end in _TRIPLE_TERM_ENDS.finditer(text):
        if end[0] == "<<":
            depth += 1
        else:
            depth -= 1
        if depth > MAX_DEPTH:
            raise MalformedStep(f"triple terms nest more than {MAX_DEPTH} deep")


def _safe_json_ld(output: Any) -> bytes:
    """Check that the parser can read JSON-LD in reasonable time, and return it as plain JSON.

    Args:
        output: text, or the decoded value.

    Raises:
        MalformedStep: the output is no JSON object or array, nests too deep, or has too large
            contexts.
    """
    try:
        value = orjson.loads(output) if isinstance(output, str) else output
        if not isinstance(value, dict | list):
            raise MalformedStep("not JSON-LD: neither an object nor an array")
        if nests_deeper(value, MAX_DEPTH):
            raise MalformedStep(f"not JSON-LD: nests more than {MAX_DEPTH} deep")
        data = msgspec.json.encode(value)
    except (ValueError, TypeError, RecursionError) as error:
        raise MalformedStep(f"not JSON: {error}") from None

    # Contexts that refer to each other, or are nested, take quadratic time or more.
    contexts = data.count(b'"@context"')
    if contexts > 1 and len(data) > MAX_CONTEXTS_BYTES:
        raise MalformedStep(
            f"JSON-LD of more than {MAX_CONTEXTS_BYTES // 1024} KiB may have one @context, not "
            f"{contexts}"
        )
    if contexts > 0 and _count_context_members(value) > MAX_CONTEXT_ENTRIES:
        raise MalformedStep(f"the JSON-LD contexts have more than {MAX_CONTEXT_ENTRIES} members")
    return data


def _count_context_members(document: Any) -> int:
    """Return the number of members of all objects in the contexts of a JSON-LD document.

    Objects at all levels of a context count.
    """
    members = 0
    # Each value that is not counted yet, and whether it is in a context.
    pending = [(document, False)]
    while pending:
        value, is_in_context = pending.pop()
        if isinstance(value, dict):
            if is_in_context:
                members += len(value)
            for key, child in value.items():
                pending.append((child, is_in_context or key == "@context"))
        elif isinstance(value, list):
            pending += [(child, is_in_context) for child in value]
    return members


def _check_xml(text: str) -> None:
    """Check that the parser of RDF can read XML in reasonable time.

    Raises:
        MalformedStep: the XML is not well-formed, nests too deep, or has nested entities or long
            attributes.
    """
    checker = _XmlChecker()
    parser = expat.ParserCreate("utf-8")
    parser.StartElementHandler = checker.start_element
    parser.EndElementHandler = checker.end_element
    parser.EntityDeclHandler = checker.declare_entity
    try:
        parser.Parse(text.encode(errors="replace"), True)
    except expat.ExpatError as error:
        raise MalformedStep(f"not RDF/XML: {error}") from None


class _XmlChecker:
    """Handlers of an XML parser that raise `MalformedStep` where the RDF parser would take long."""

    def __init__(self) -> None:
        """Begin outside of all elements."""
        self._depth = 0

    def start_element(self, _tag: str, attributes: dict[str, str]) -> None:
        """Check that an element is not too deep, and that its attributes together are not long."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise MalformedStep(f"not RDF/XML: nests more than {MAX_DEPTH} deep")
        if not attributes:
            return
        characters = sum(map(len, attributes)) + sum(map(len, attributes.values()))
        if characters > MAX_START_TAG:
            raise MalformedStep(
                f"not RDF/XML: the attributes of an element have more than {MAX_START_TAG} "
                "characters"
            )

    def end_element(self, _tag: str) -> None:
        self._depth -= 1

    def declare_entity(self, name: str, _is_parameter: bool, value: str | None, *_: object) -> None:
        """Check that the value of an entity is in the document, short, and has no entities in it.

        Args:
            name: the name of the entity.
            value: its value; None if it is in another document.
        """
        if value is None or "&" in value or len(value) > MAX_START_TAG:
            raise MalformedStep(f"not RDF/XML: the entity {name!r} is external, nested or too long")
