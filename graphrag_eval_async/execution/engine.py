"""A process that runs SPARQL queries on a graph in memory.

pyoxigraph cannot be interrupted: it has no limits of its own, overflows the stack on deeply nested
queries, and follows SERVICE. So it runs in a process, where a query can do no harm.
"""

from __future__ import annotations

import io
import os
import re
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from graphrag_eval_async.execution.worker import Reply, Request, Setup, serve, short_message

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

BASE = "http://localhost/"
"""Base of relative IRIs in the graph and in queries."""

XSD = "http://www.w3.org/2001/XMLSchema#"

TYPES_WITHOUT_CAST = frozenset(
    {
        *("byte", "int", "long", "short"),
        *("unsignedByte", "unsignedInt", "unsignedLong", "unsignedShort"),
        *("negativeInteger", "nonNegativeInteger", "nonPositiveInteger", "positiveInteger"),
        *("anyURI", "language", "normalizedString", "token"),
        *("base64Binary", "dateTimeStamp", "hexBinary"),
    }
)
"""The types of XML Schema to which many stores cast, and pyoxigraph does not."""

_UNKNOWN_FUNCTION = re.compile(r"custom function <([^>]*)> is not supported")


def main() -> None:
    """Load the graph, and answer requests until the end of the input."""
    serve(_load)


def _load(setup: Setup) -> Callable[[Request], Reply]:
    """Load the graph, if the setup has one, and return a function that answers a request."""
    import pyoxigraph

    store = pyoxigraph.Store()
    prefixes: dict[str, str] = {}
    if setup.graph is not None:
        extension = os.path.splitext(setup.graph)[1][1:].lower()
        rdf_format = pyoxigraph.RdfFormat.from_extension(extension)
        parser = pyoxigraph.parse(path=setup.graph, format=rdf_format, base_iri=BASE)
        store.bulk_extend(_with_stable_labels(parser))
        # Only some formats declare prefixes.
        prefixes = dict(getattr(parser, "prefixes", None) or {})
    return partial(_answer, store, prefixes | setup.prefixes, setup)


def _with_stable_labels(quads: Iterable[Any]) -> Iterator[Any]:
    """Yield quads with blank nodes whose labels are the same in all processes.

    Parsers give blank nodes random labels. The new labels are numbers in the order of the quads.
    """
    from pyoxigraph import BlankNode, Quad, Triple

    labels: dict[Any, BlankNode] = {}

    def with_stable_label(term: Any) -> Any:
        """Return a term with new labels of its blank nodes, and add these to `labels`."""
        if isinstance(term, BlankNode):
            return labels.setdefault(term, BlankNode(f"b{len(labels)}"))
        if isinstance(term, Triple):
            return Triple(*map(with_stable_label, term))
        return term

    for quad in quads:
        yield Quad(*map(with_stable_label, quad))


def _answer(store: Any, prefixes: Mapping[str, str], setup: Setup, request: Request) -> Reply:
    """Run a query and return the reply; without a graph, only parse the query."""
    only_parses = setup.graph is None
    try:
        results = store.query(
            request.query, base_iri=BASE, prefixes={**prefixes, **request.prefixes}
        )
        if only_parses:
            return Reply()
        return Reply(_results_as_text(results, setup))
    except SyntaxError as error:
        return Reply(_syntax_message(error), failure="invalid")
    except MemoryError:
        return Reply("it needs too much memory", failure="failed")
    except (OSError, ValueError, RuntimeError) as error:
        if only_parses:
            # The query parses. Whether it can be run is not asked.
            return Reply()
        lacking_cast = _lacking_cast(error)
        if lacking_cast is not None:
            return Reply(lacking_cast, failure="unavailable")
        return Reply(short_message(error), failure="failed")


def _lacking_cast(error: Exception) -> str | None:
    """Return a message if pyoxigraph lacks a cast such as ``xsd:int(...)``; None for other errors.

    Many stores have all casts to types of XML Schema, so a query that calls one is not to blame. A
    query that calls any other unknown function is.
    """
    match = _UNKNOWN_FUNCTION.search(str(error))
    if match is None or not match[1].startswith(XSD):
        return None
    name = match[1].removeprefix(XSD)
    if name not in TYPES_WITHOUT_CAST:
        return None
    return f"pyoxigraph, which runs queries on a file, has no function xsd:{name}"


class _LimitedBytes(io.BytesIO):
    """Bytes in memory, up to a limit."""

    def __init__(self, max_bytes: int) -> None:
        super().__init__()
        self._max_bytes = max_bytes

    def write(self, data: Any) -> int:
        """Add bytes, and return their number.

        Raises:
            ValueError: all bytes together are more than the limit.
        """
        if self.tell() + len(data) > self._max_bytes:
            raise ValueError(f"it returns more than {self._max_bytes:,} bytes")
        return super().write(data)


def _results_as_text(results: Any, setup: Setup) -> str:
    """Return the results of a query as text: SPARQL results in JSON, or sorted N-Triples.

    Raises:
        ValueError: there are too many rows, triples or bytes.
    """
    import pyoxigraph

    sink = _LimitedBytes(setup.max_bytes)
    if isinstance(results, pyoxigraph.QueryTriples):
        results.serialize(sink, format=pyoxigraph.RdfFormat.N_TRIPLES)
        lines = set(sink.getvalue().decode().split("\n")) - {""}
        text = "".join(f"{line}\n" for line in sorted(lines))
        _check_count(len(lines), "triples", setup)
        return text
    results.serialize(sink, format=pyoxigraph.QueryResultsFormat.JSON)
    text = sink.getvalue().decode()
    # The answer to ASK has neither results nor bindings.
    bindings = msgspec.json.decode(text).get("results", {}).get("bindings", ())
    _check_count(len(bindings), "rows", setup)
    return text


def _check_count(count: int, noun: str, setup: Setup) -> None:
    """Raise a ValueError if a query returns more rows or triples than the setup allows."""
    if count > setup.max_rows:
        raise ValueError(f"it returns more than {setup.max_rows:,} {noun}")


def _syntax_message(error: SyntaxError) -> str:
    """Return why a query does not parse, without the parser's long list of expected tokens."""
    message = short_message(error)
    place, _, reason = message.partition(": ")
    if "Prefix not found" in reason:
        return f"{place}: a prefix is not declared"
    # The list begins with a bracket. Only the place before it is of use.
    if "[" in reason:
        return place
    return message


if __name__ == "__main__":
    main()
