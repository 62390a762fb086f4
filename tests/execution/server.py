"""A SPARQL endpoint on 127.0.0.1: a real HTTP server that queries a real store, and fails on demand."""

from __future__ import annotations

import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

import pyoxigraph

from tests.execution.support import TURTLE
from tests.support.deadlines import wait

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Self

    Act = Callable[["Handler"], object]
    Script = Callable[["Handler", str], bool]

JSON = "application/sparql-results+json"
PROBE = "ASK {}"


class Handler(BaseHTTPRequestHandler):
    """Answers queries as the protocol says."""

    server: EndpointServer
    protocol_version = "HTTP/1.1"
    wbufsize = -1

    def do_POST(self) -> None:
        form = parse_qs(self.rfile.read(int(self.headers["content-length"])).decode())
        [query] = form["query"]
        self.server.queries.append(query)
        self.server.headers.append({key.lower(): value for key, value in self.headers.items()})
        try:
            if not any(script(self, query) for script in self.server.scripts):
                self.answer(query)
            self.wfile.flush()
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def answer(
        self, query: str, status: int = 200, mark: bytes = b"", headers: Mapping[str, str] = {}
    ) -> None:
        try:
            results = self.server.store.query(query)
        except SyntaxError as error:
            self.reply(400, f"Malformed query: {error}".encode())
            return
        if isinstance(results, pyoxigraph.QueryTriples):
            data, kind = results.serialize(format=pyoxigraph.RdfFormat.N_TRIPLES), "application/n-triples"
        else:
            data = results.serialize(format=pyoxigraph.QueryResultsFormat.JSON)
            kind = f"{JSON}; charset=utf-8"
        self.reply(status, mark + (data or b""), kind, **headers)

    def reply(self, status: int, body: bytes = b"", kind: str = "text/plain", **headers: str) -> None:
        self.send_response(status)
        all_headers = {"Content-Type": kind, "Content-Length": str(len(body)), **headers}
        for name, value in all_headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


class EndpointServer(ThreadingHTTPServer):
    """Serves from entering to leaving; the first of `scripts` that returns True has answered a request."""

    daemon_threads = False

    def __init__(self, *scripts: Script) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.store = pyoxigraph.Store()
        self.store.load(TURTLE, format=pyoxigraph.RdfFormat.TURTLE)
        self.scripts = [*scripts]
        self.queries: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.released = threading.Event()  # Set when the server is left, for scripts that wait.
        self.url = f"http://127.0.0.1:{self.server_port}/sparql"
        self._thread = threading.Thread(target=self.serve_forever, args=(0.02,))

    @property
    def asked(self) -> Counter[str]:
        """How often each query came, except the first look."""
        return Counter(query for query in self.queries if query != PROBE)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.released.set()
        self.shutdown()
        self._thread.join()
        self.server_close()


def on(part: str, act: Act, *, times: int = 10**9) -> Script:
    """Act on the first requests whose query contains `part`; not on those that only look if it answers."""
    left = [times]

    def script(handler: Handler, query: str) -> bool:
        if left[0] <= 0 or part not in query or (query == PROBE and part != PROBE):
            return False
        left[0] -= 1
        act(handler)
        return True

    return script


def replying(status: int, body: bytes = b"no such luck", kind: str = "text/plain", **headers: str) -> Act:
    return lambda handler: handler.reply(status, body, kind, **headers)


def hang(handler: Handler) -> None:
    """Never answer."""
    wait(handler.server.released)
