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
PROBE = "ASK {}"


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
        self, query: str, status: int = 200, mark: bytes = b"", headers: Mapping[str, str] = {}
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
        return Counter(query for query in self.queries if query != PROBE)

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


def on(part: str, act: Callable[[Handler], object], *, times: int = 10**9) -> Script:
    """Act on the first requests whose query contains `part`; not on those that only look if it answers."""
    left = [times]

    def script(handler: Handler, query: str) -> bool:
        if left[0] <= 0 or part not in query or (query == PROBE and part != PROBE):
            return False
        left[0] -= 1
        act(handler)
        return True

    return script


def replying(
    status: int, body: bytes = b"no such luck", kind: str = "text/plain", headers: Mapping[str, str] = {}
) -> Callable[[Handler], object]:
    return lambda handler: handler.reply(status, body, kind, **headers)


def slow(seconds: float) -> Script:
    """Take long over all queries."""

    def script(_: Handler, query: str) -> bool:
        time.sleep(seconds if query != PROBE else 0)
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

    def act(handler: Handler) -> None:
        clock.skip(31)
        wait(handler.endpoint.released)

    return on(part, act)
