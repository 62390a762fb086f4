"""A server that keeps what is posted to it."""

from __future__ import annotations

import json
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator


class Post(NamedTuple):
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def facts(self) -> Any:
        return json.loads(self.body)


@contextmanager
def hook(*statuses: int) -> Iterator[tuple[str, list[Post]]]:
    """A host that answers with these statuses, and with the last one from then on; and what it is sent."""
    posts: list[Post] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            posts.append(Post(self.path, {key.lower(): value for key, value in self.headers.items()}, body))
            status = statuses[min(len(posts), len(statuses)) - 1]
            self.send_response(status, "<b>\x1b[31m")
            if 300 <= status < 400:
                self.send_header("Location", f"http://{host}/moved")
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_GET = do_POST  # noqa: N815  (a redirect that is followed would come here)

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        host = f"127.0.0.1:{server.server_port}"
        thread = Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield host, posts
        finally:
            server.shutdown()
            thread.join()
