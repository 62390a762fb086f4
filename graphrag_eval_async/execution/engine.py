"""A process that runs queries on a graph in memory, until it is killed; started by `processes`.

pyoxigraph cannot be interrupted: it has no limits of its own, overflows the stack on deeply nested
queries, and follows SERVICE. So it runs here, where a query can do no harm: with limited memory,
without files or sockets to open, and with an alarm that ends the process if nobody else does.

Messages on standard input and output are 4 bytes, the length in bytes, and as much MessagePack.
"""

from __future__ import annotations

import io
import os
import signal
import sys
from contextlib import suppress
from struct import Struct
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

LENGTH = Struct(">I")

BASE = "http://localhost/"  # Base of relative IRIs in the graph and in queries.

GRACE_SECONDS = 5.0
"""Seconds after the limit at which the process ends itself, if its parent has not killed it."""


class Setup(msgspec.Struct, frozen=True):
    """The path of the graph, prefixes that queries need not declare, and the limits of one
    query.
    """

    graph: str | None  # None if queries are only parsed.
    prefixes: dict[str, str]
    seconds: float
    max_rows: int
    max_bytes: int
    max_memory_bytes: int  # Besides the graph.


Request: TypeAlias = tuple[str, dict[str, str]]  # A query, and prefixes that it need not declare.

Reply: TypeAlias = tuple[str | None, str]
"""How a query failed, and the message; or None, and what the query returned."""


def main() -> None:
    """Read the setup, load the graph, and answer requests until the end of the input."""
    for number in (signal.SIGINT, signal.SIGTERM):  # The parent handles Ctrl-C.
        signal.signal(number, signal.SIG_IGN)
    source, sink = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    setup = _receive(source, Setup)
    if setup is None:
        return
    import pyoxigraph

    store = pyoxigraph.Store()
    try:
        prefixes = _load(store, setup.graph) | setup.prefixes
    except (OSError, SyntaxError, ValueError) as error:
        _send(sink, ("unavailable", _message(error)))
        return
    _limit(setup.max_memory_bytes)
    _send(sink, (None, ""))
    while (request := _receive(source, Request)) is not None:
        _set_alarm(setup.seconds + GRACE_SECONDS)
        reply = _answer(store, request[0], prefixes | request[1], setup)
        _set_alarm(0)
        _send(sink, reply)


def frame(message: Any) -> bytes:
    """Return a message as it is sent."""
    data = msgspec.msgpack.encode(message)
    return LENGTH.pack(len(data)) + data


def _receive(source: BinaryIO, kind: Any) -> Any:
    """The next message; None at the end of the input."""
    head = source.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    return msgspec.msgpack.decode(source.read(*LENGTH.unpack(head)), type=kind)


def _send(sink: BinaryIO, message: Any) -> None:
    sink.write(frame(message))
    sink.flush()


def _load(store: Any, path: str | None) -> dict[str, str]:
    """Load a file; returns the prefixes that it declares."""
    import pyoxigraph

    if path is None:
        return {}
    rdf_format = pyoxigraph.RdfFormat.from_extension(os.path.splitext(path)[1][1:].lower())
    parser = pyoxigraph.parse(path=path, format=rdf_format, base_iri=BASE)
    store.bulk_extend(_labelled(parser))
    return dict(getattr(parser, "prefixes", None) or {})


def _labelled(quads: Iterable[Any]) -> Iterator[Any]:
    """Yield quads whose blank nodes have the same labels in all processes; parsers give random
    ones.
    """
    from pyoxigraph import BlankNode, Quad, Triple

    labels: dict[Any, BlankNode] = {}

    def labelled(term: Any) -> Any:
        if isinstance(term, BlankNode):
            return labels.setdefault(term, BlankNode(f"b{len(labels)}"))
        return Triple(*map(labelled, term)) if isinstance(term, Triple) else term

    for quad in quads:
        yield Quad(*map(labelled, quad))


def _limit(memory_bytes: int) -> None:
    """Limit the resources of this process from now on, as far as the system can."""
    try:
        import resource
    except ImportError:
        return
    # Open files stay open; no socket can be.
    limits = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_NOFILE: 0,
    }
    with suppress(OSError), open("/proc/self/statm", "rb") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
        limits[resource.RLIMIT_AS] = used + memory_bytes
    for limit, value in limits.items():
        hard = resource.getrlimit(limit)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(limit, (value, value))


def _set_alarm(seconds: float) -> None:
    if hasattr(signal, "setitimer"):
        # Ends the process even if it holds the interpreter.
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, seconds)


def _answer(store: Any, query: str, prefixes: Mapping[str, str], setup: Setup) -> Reply:
    """Run a query; return its output, or how it failed."""
    parses = setup.graph is None
    try:
        results = store.query(query, base_iri=BASE, prefixes=prefixes)
        return None, "" if parses else _written(results, setup)
    except SyntaxError as error:
        return "invalid", _syntax(_message(error))
    except MemoryError:
        return "failed", "it needs too much memory"
    except (OSError, ValueError, RuntimeError) as error:
        return None if parses else "failed", _message(error)


class _Limited(io.BytesIO):
    """Collects at most so many bytes."""

    def __init__(self, max_bytes: int) -> None:
        super().__init__()
        self._max_bytes = max_bytes

    def write(self, data: Any) -> int:
        if self.tell() + len(data) > self._max_bytes:
            raise ValueError(f"it returns more than {self._max_bytes:,} bytes")
        return super().write(data)


def _written(results: Any, setup: Setup) -> str:
    """Results as text: SPARQL results in JSON, or N-Triples in a fixed order."""
    import pyoxigraph

    sink = _Limited(setup.max_bytes)
    if isinstance(results, pyoxigraph.QueryTriples):
        results.serialize(sink, format=pyoxigraph.RdfFormat.N_TRIPLES)
        lines = sorted(set(sink.getvalue().decode().split("\n")) - {""})
        text, count, what = "".join(f"{line}\n" for line in lines), len(lines), "triples"
    else:
        results.serialize(sink, format=pyoxigraph.QueryResultsFormat.JSON)
        text, what = sink.getvalue().decode(), "rows"
        count = len(msgspec.json.decode(text).get("results", {}).get("bindings", ()))
    if count > setup.max_rows:
        raise ValueError(f"it returns more than {setup.max_rows:,} {what}")
    return text


def _syntax(message: str) -> str:
    """A message of the parser without the characters that it would have accepted."""
    where, _, expected = message.partition(": ")
    if "Prefix not found" in expected:
        return f"{where}: a prefix is not declared"
    return where if "[" in expected else message


def _message(error: BaseException) -> str:
    return " ".join(str(error).split())[:500]


if __name__ == "__main__":
    main()
