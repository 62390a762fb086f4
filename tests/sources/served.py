"""An HTTP server that serves one file, and can misbehave."""

from __future__ import annotations

import re
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class Served:
    """A file on a server."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.status: int | None = None  # Of all replies, if not that of success.
        self.ranges = True  # Whether they are served.
        self.address = ""


@contextmanager
def serving(content: bytes, name: str = "log.jsonl") -> Iterator[Served]:
    served = Served(content)

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

        def do_HEAD(self) -> None:
            self._reply(served.status or 200, b"", len(served.content))

        def do_GET(self) -> None:
            asked = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
            if served.status:
                self._reply(served.status, b"no", 2)
            elif asked and served.ranges:
                first, last = int(asked[1]), min(int(asked[2]), len(served.content) - 1)
                part = served.content[first : last + 1]
                self._reply(206, part, len(part), f"bytes {first}-{last}/{len(served.content)}")
            else:
                self._reply(200, served.content, len(served.content))

        def _reply(self, status: int, body: bytes, size: int, range_: str | None = None) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(size))
            self.send_header("ETag", f"{hash(served.content)}")
            self.send_header("Accept-Ranges", "bytes" if served.ranges else "none")
            if range_:
                self.send_header("Content-Range", range_)
            self.end_headers()
            self.wfile.write(body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    served.address = f"http://127.0.0.1:{server.server_address[1]}/{name}"
    try:
        yield served
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)
