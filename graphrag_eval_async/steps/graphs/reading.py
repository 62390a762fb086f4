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
from graphrag_eval_async.steps.formats.envelopes import open_envelopes
from graphrag_eval_async.steps.graphs.statements import (
    is_rdf_json,
    statements_of_rdf_json,
    statements_of_table,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from graphrag_eval_async.steps.budget import Budget

MAX_DEPTH = 100  # Maximum levels of JSON-LD and RDF/XML, and of triple terms.
MAX_CONTEXT_ENTRIES = 500  # Maximum members of the contexts of a JSON-LD document, at all levels.
MAX_CONTEXTS_BYTES = 64 * 1024  # Maximum size of a JSON-LD document with more than one context.

MAX_START_TAG = 4096
"""Maximum characters of the names and values of an XML element's attributes and namespaces."""

_, _N_TRIPLES, _N_QUADS, _TRIG, _XML, _JSON_LD, _N3 = GRAPHS
_NAMES = "Turtle", "N-Triples", "N-Quads", "TriG", "RDF/XML", "JSON-LD", "N3"
_TITLES = dict(zip(GRAPHS, _NAMES, strict=True))

_STATEMENTS = 1000
"""How many are parsed at a time, so that other threads can run and the budget can be stopped."""

# JSON and XML take longer.
_CHARACTERS_PER_STEP, _NESTED_CHARACTERS_PER_STEP = 8, 4

_TRIPLE_TERM_ENDS = re.compile(r"<<|>>")


class Graph(NamedTuple):
    """Statements, each once, in the order of the text."""

    statements: Sequence[str]


def read_graph(
    output: Any,
    media_type: str | None,
    budget: Budget,
    *,
    lenient: bool = True,
    union: bool = False,
) -> Graph:
    """Read a graph, or a dataset with the names of its graphs, or the union of them.

    If `lenient`, it may be in any format if `media_type` is none of RDF, in the envelopes of tools
    and protocols, and as RDF/JSON or a table of subject, predicate and object.
    """
    if lenient:
        return _read_leniently(output, media_type, budget, union=union)
    return _read_exactly(output, media_type, budget, union=union)


def _read_leniently(output: Any, media_type: str | None, budget: Budget, *, union: bool) -> Graph:
    """Read a graph as it is or, if that fails, without its envelopes or in another form."""
    value = open_envelopes(output, allow_broken_json=True).value
    if is_rdf_json(value):  # Which can be read as JSON-LD, too, and means something else there.
        return _parse(statements_of_rdf_json(value), _N_TRIPLES, budget, union=union)
    problem: MalformedStep | None = None
    for candidate in (output, value):
        try:
            graph = _read_exactly(candidate, media_type, budget, union=union)
        except MalformedStep as error:
            problem = problem or error
            continue
        if graph.statements:
            return graph
        problem = None
    statements = statements_of_table(value)
    if statements is not None:
        return _parse(statements, _N_TRIPLES, budget, union=union)
    if problem is not None:
        raise problem
    return Graph([])


def _read_exactly(output: Any, media_type: str | None, budget: Budget, *, union: bool) -> Graph:
    """Read a graph of this media type, or in any format if that is none of RDF."""
    if not isinstance(output, str | dict | list):
        raise MalformedStep(f"not RDF: expected text, got {type(output).__name__}")
    known = plain_type(media_type)
    known = known if known in GRAPHS else None
    if isinstance(output, str):
        budget.spend(len(output) // _CHARACTERS_PER_STEP)
        output = output.lstrip("\ufeff \t\r\n")
        candidates = (known,) if known else _candidates(output)
    elif known in (None, _JSON_LD):
        candidates = (_JSON_LD,)
    else:
        raise MalformedStep(f"not RDF: {known} must be text")
    problem = ""
    for candidate in candidates:
        try:
            graph = _parse(output, candidate, budget, union=union)
        except MalformedStep as error:
            problem = problem or str(error)
            continue
        if graph.statements or known or candidate != _JSON_LD or _says_nothing(output):
            return graph
        problem = problem or "JSON without any statement"
    raise MalformedStep(problem if known else f"not RDF in any known format: {problem}")


def _candidates(text: str) -> tuple[str, ...]:
    """Formats to try, the likeliest first. Turtle and N-Triples are also TriG."""
    if text.startswith(("{", "[")):
        return _JSON_LD, _TRIG, _N3
    if text.startswith(("<?xml", "<!", "<rdf:")):
        return _XML, _TRIG
    return _TRIG, _N_QUADS, _N3, _XML


def _says_nothing(output: Any) -> bool:
    """Whether JSON is an empty object or array, as JSON-LD writes an empty graph."""
    return not output or (isinstance(output, str) and output.strip("[]{} \t\r\n") == "")


def _parse(output: Any, media_type: str, budget: Budget, *, union: bool) -> Graph:
    ox = import_pyoxigraph()
    nested = media_type in (_JSON_LD, _XML)
    data = _json_ld(output) if media_type == _JSON_LD else output.encode(errors="replace")
    budget.spend(len(data) // _NESTED_CHARACTERS_PER_STEP if nested else 0)
    if media_type == _XML:
        _check_xml(output)
    elif media_type != _JSON_LD:
        _check_triple_terms(output)
    file_format = ox.RdfFormat.from_media_type(media_type)
    statements: dict[str, None] = {}
    try:
        quads: Iterator[Any] = ox.parse(data, format=file_format)
        if union:
            quads = (quad.triple for quad in quads)
        while text := ox.serialize(islice(quads, _STATEMENTS), format=ox.RdfFormat.N_QUADS):
            budget.spend(0)
            statements |= dict.fromkeys(text.decode().removesuffix(" .\n").split(" .\n"))
    except (SyntaxError, MemoryError, ValueError) as error:
        raise MalformedStep(f"not {_TITLES[media_type]}: {_described(error)}") from None
    return Graph(list(statements))


def _described(error: Exception) -> str:
    text = str(error.msg if isinstance(error, SyntaxError) else error)
    if "LoadDocumentCallback" in text:
        return "a remote @context, which is never fetched; put its terms into the document"
    return text.removeprefix("Parser error at ")


def import_pyoxigraph() -> Any:
    """Return the package that reads RDF."""
    try:
        import pyoxigraph
    except ImportError:
        raise MalformedStep(f"output_media_type: a graph {needs('rdf')}") from None
    return pyoxigraph


def _check_triple_terms(text: str) -> None:
    """Refuse triple terms that nest too deep. Texts in literals also count."""
    if text.count("<<") <= MAX_DEPTH:
        return
    depth = 0
    for end in _TRIPLE_TERM_ENDS.finditer(text):
        depth += 1 if end[0] == "<<" else -1
        if depth > MAX_DEPTH:
            raise MalformedStep(f"triple terms nest more than {MAX_DEPTH} deep")


def _json_ld(output: Any) -> bytes:
    """JSON-LD, given as text or decoded, as plain JSON that is safe to parse."""
    try:
        value = orjson.loads(output) if isinstance(output, str) else output
        if not isinstance(value, dict | list):
            raise MalformedStep("not JSON-LD: neither an object nor an array")
        if nests_deeper(value, MAX_DEPTH):
            raise MalformedStep(f"not JSON-LD: nests more than {MAX_DEPTH} deep")
        data = msgspec.json.encode(value)
    except (ValueError, TypeError, RecursionError) as error:
        raise MalformedStep(f"not JSON: {error}") from None
    contexts = data.count(b'"@context"')
    if contexts > 1 and len(data) > MAX_CONTEXTS_BYTES:
        raise MalformedStep(
            f"JSON-LD of more than {MAX_CONTEXTS_BYTES // 1024} KiB may have one @context, not "
            f"{contexts}"
        )
    entries, pending = 0, [(value, False)] if contexts else []
    while pending:
        node, within = pending.pop()
        if isinstance(node, dict):
            entries += len(node) if within else 0
            pending += [(child, within or key == "@context") for key, child in node.items()]
        elif isinstance(node, list):
            pending += [(child, within) for child in node]
    if entries > MAX_CONTEXT_ENTRIES:
        raise MalformedStep(f"the JSON-LD contexts have more than {MAX_CONTEXT_ENTRIES} members")
    return data


def _check_xml(text: str) -> None:
    """Refuse XML that is not well-formed, nests too deep, or has nested entities or many
    attributes.
    """
    depth = 0

    def start(_tag: str, attributes: dict[str, str]) -> None:
        nonlocal depth
        depth += 1
        if depth > MAX_DEPTH:
            raise MalformedStep(f"not RDF/XML: nests more than {MAX_DEPTH} deep")
        if (
            attributes
            and sum(map(len, attributes)) + sum(map(len, attributes.values())) > MAX_START_TAG
        ):
            raise MalformedStep(
                f"not RDF/XML: the attributes of an element have more than {MAX_START_TAG} "
                "characters"
            )

    def end(_tag: str) -> None:
        nonlocal depth
        depth -= 1

    def entity(name: str, _parameter: bool, value: str | None, *_: object) -> None:
        if value is None or "&" in value or len(value) > MAX_START_TAG:
            raise MalformedStep(f"not RDF/XML: the entity {name!r} is external, nested or too long")

    parser = expat.ParserCreate("utf-8")
    parser.StartElementHandler, parser.EndElementHandler, parser.EntityDeclHandler = (
        start,
        end,
        entity,
    )
    try:
        parser.Parse(text.encode(errors="replace"), True)
    except expat.ExpatError as error:
        raise MalformedStep(f"not RDF/XML: {error}") from None
