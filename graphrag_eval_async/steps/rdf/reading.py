"""Reads RDF in any of its formats into statements, each written as in N-Quads."""

from __future__ import annotations

from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from graphrag_eval_async.errors import MalformedStep
from graphrag_eval_async.records.shapes import GRAPHS, plain_type
from graphrag_eval_async.steps.rdf.graph import Graph
from graphrag_eval_async.steps.rdf.safety import check_json_ld, check_triple_terms, check_xml
from graphrag_eval_async.steps.sparql.tables import without_fence

if TYPE_CHECKING:
    from collections.abc import Iterator

    from graphrag_eval_async.steps.sparql.budget import Budget

INSTALL = "pip install 'graphrag-eval-async[rdf]'"

_, _, _N_QUADS, _TRIG, _XML, _JSON_LD, _N3 = GRAPHS
_NAMES = "Turtle", "N-Triples", "N-Quads", "TriG", "RDF/XML", "JSON-LD", "N3"
_TITLES = dict(zip(GRAPHS, _NAMES, strict=True))

_CHUNK = 1000
_CHARACTERS_PER_STEP = 2
_STEPS_PER_DEEP_CHARACTER = 4


class Source(NamedTuple):
    """The output of a step, and what is known of how to read it.

    `lenient`: the output may be in any format if `media_type` is none of RDF, and in a Markdown code fence.
    """

    output: Any
    media_type: str | None
    budget: Budget
    lenient: bool = True


def steps_to_read(output: Any) -> int:
    """Approximate number of steps of a `Budget` that reading an output as RDF takes."""
    text = output.lstrip() if isinstance(output, str) else orjson.dumps(output, default=str).decode()
    if text.startswith(("{", "[", "<?", "<rdf:RDF", "<!")):
        return len(text) * _STEPS_PER_DEEP_CHARACTER
    return len(text) // _CHARACTERS_PER_STEP


def read_dataset(source: Source, *, ignore_graph_names: bool = False) -> Graph:
    """Read a graph, or a dataset with the names of its graphs unless they are ignored."""
    output, media_type, budget, lenient = source
    if not isinstance(output, str | dict | list):
        raise MalformedStep(f"not RDF: expected text, got {type(output).__name__}")
    media_type = _known(media_type)
    if not isinstance(output, str):
        if media_type not in (None, _JSON_LD):
            raise MalformedStep(f"not RDF: {media_type} must be text")
        candidates: tuple[str, ...] = (_JSON_LD,)
    else:
        output = without_fence(output.lstrip("\ufeff \t\r\n")) if lenient else output
        candidates = (media_type,) if media_type else _candidates(output)
    problems = []
    for candidate in candidates:
        try:
            graph = _parse(output, candidate, budget, ignore_graph_names=ignore_graph_names)
        except MalformedStep as error:
            problems.append(str(error))
            continue
        if graph.statements or media_type or (not isinstance(output, dict | list) and candidate != _JSON_LD):
            return graph
        if _says_nothing(output):
            return graph
        problems.append("JSON without any statement")
    raise MalformedStep(problems[0] if media_type else f"not RDF in any known format: {problems[0]}")


read_union = partial(read_dataset, ignore_graph_names=True)
"""Reads the union of all graphs of a dataset; raises what `read_dataset` raises."""


def _known(media_type: Any) -> str | None:
    name = plain_type(media_type)
    return name if name in GRAPHS else None


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


def _parse(output: Any, media_type: str, budget: Budget, *, ignore_graph_names: bool) -> Graph:
    ox = import_pyoxigraph()
    if media_type == _JSON_LD:
        data = check_json_ld(output)
    else:
        check_triple_terms(output)
        if media_type == _XML:
            check_xml(output)
        data = output.encode(errors="replace")
    file_format = ox.RdfFormat.from_media_type(media_type)
    statements: dict[str, None] = {}
    try:
        quads: Iterator[Any] = ox.parse(data, format=file_format)
        if ignore_graph_names:
            quads = (quad.triple for quad in quads)
        while text := ox.serialize(islice(quads, _CHUNK), format=ox.RdfFormat.N_QUADS):
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
        raise MalformedStep(f"output_media_type: graphs need pyoxigraph: {INSTALL}") from None
    return pyoxigraph
