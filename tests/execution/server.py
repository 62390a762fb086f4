"""A SPARQL endpoint on 127.0.0.1: a real HTTP server that queries a real store, and fails on demand."""

from __future__ import annotations

import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

import pyoxigraph

from tests.deadlines import WAIT_SECONDS, wait

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType
    from typing import Self

    from tests.execution.support import Clock

    Script = Callable[["Handler", str], bool]

JSON = "application/sparql-results+json"


class Handler(BaseHTTPRequestHandler):
    """Answers queries as the protocol says."""

    endpoint: EndpointServer
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        form = parse_qs(self.rfile.read(int(self.headers["content-length"])).decode())
        [query] = form["query"]
        server = self.endpoint
        with server.lock:
            server.queries.append(query)
            server.headers.append({key.lower(): value for key, value in self.headers.items()})
            server.in_flight += 1
            server.most_in_flight = max(server.most_in_flight, server.in_flight)
        try:
            if not any(script(self, query) for script in server.scripts):
                self.answer(query)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True
        finally:
            with server.lock:
                server.in_flight -= 1

    def answer(
        self, query: str, status: int = 200, headers: Mapping[str, str] = {}, mark: bytes = b""
    ) -> None:
        """Answer a query; `mark` comes before the body."""
        try:
            results = self.endpoint.store.query(query)
        except SyntaxError as error:
            self.reply(400, f"Malformed query: {error}".encode(), "text/plain")
            return
        if isinstance(results, pyoxigraph.QueryTriples):
            data, kind = results.serialize(format=pyoxigraph.RdfFormat.N_TRIPLES), "application/n-triples"
        else:
            data, kind = (
                results.serialize(format=pyoxigraph.QueryResultsFormat.JSON),
                f"{JSON}; charset=utf-8",
            )
        self.reply(status, mark + (data or b""), kind, **headers)

    def reply(self, status: int, body: bytes = b"", kind: str = "text/plain", **headers: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


class EndpointServer:
    """Serves from entering to leaving.

    Attributes:
        scripts: called with each request; the first that returns True has answered it.
        queries: all that came.
        headers: of all requests.
        released: set when the server is left, for scripts that wait.
    """

    def __init__(self, turtle: str, *scripts: Script) -> None:
        self.store = pyoxigraph.Store()
        self.store.load(turtle, format=pyoxigraph.RdfFormat.TURTLE)
        self.scripts = [*scripts]
        self.queries: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.lock = threading.Lock()
        self.released = threading.Event()
        self.in_flight = self.most_in_flight = 0
        handler = type("_Handler", (Handler,), {"endpoint": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = False
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/sparql"

    @property
    def asked(self) -> Counter[str]:
        """How often each query came, except the first look."""
        return Counter(query for query in self.queries if query != "ASK {}")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.released.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def failing(status: int, *, times: int = 10**9, first: bool = False, **headers: str) -> Script:
    """Fail the first `times` requests; not those that only look whether it answers, unless `first`."""
    left = [times]

    def script(handler: Handler, query: str) -> bool:
        if left[0] <= 0 or (query == "ASK {}" and not first):
            return False
        left[0] -= 1
        handler.reply(status, b"no such luck", **headers)
        return True

    return script


def slow(seconds: float, part: str = "") -> Script:
    """Take long over queries that contain `part`."""

    def script(_: Handler, query: str) -> bool:
        if query != "ASK {}" and part in query:
            time.sleep(seconds)
        return False

    return script


def together(count: int, part: str) -> Script:
    """Answer queries that contain `part` when so many of them are there."""
    barrier = threading.Barrier(count)

    def script(_: Handler, query: str) -> bool:
        if part in query:
            barrier.wait(WAIT_SECONDS)
        return False

    return script


def never(part: str, clock: Clock) -> Script:
    """Never answer queries that contain `part`, for which half a minute passes at once."""

    def script(handler: Handler, query: str) -> bool:
        if part in query:
            clock.skip(31)
            wait(handler.endpoint.released)
        return part in query

    return script
