"""A WSGI server in threads for scrapes, which clients cannot exhaust."""

from __future__ import annotations

import io
import socket
from contextlib import suppress
from socketserver import ThreadingMixIn
from time import monotonic, sleep
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from graphrag_eval_async.helpers.connections import (
    ERROR_PAUSE_SECONDS,
    FULL_PAUSE_SECONDS,
    REQUEST_SECONDS,
    REQUEST_SECONDS_WHEN_FULL,
    ConnectionNotes,
    connection_limit,
)

MAX_SCRAPES = 32
"""Maximum number of open connections, each of which has a thread. Chosen: scrapers are few."""


class ScrapeHandler(WSGIRequestHandler):
    """Answers one request, and logs nothing."""

    timeout = REQUEST_SECONDS
    """How long the client may take to read the response, in seconds."""

    def log_message(self, *arguments: object) -> None:
        """Log nothing: the lines would appear amid the view of a run."""

    def get_stderr(self) -> io.StringIO:
        """Return a file that nobody reads, for tracebacks about clients that went away."""
        return io.StringIO()


class ScrapeServer(ThreadingMixIn, WSGIServer):
    """Answers each connection in a thread.

    A connection is closed if its request is not complete within `REQUEST_SECONDS`. Beyond
    `MAX_SCRAPES`, or a share of the file descriptors of the process, further clients wait.
    """

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, host: str, port: int) -> None:
        """Listen on a host and a port.

        Raises:
            OSError: the host or the port cannot be used.
        """
        [(family, _, _, _, address), *_] = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        self.address_family = family
        self._limit = min(MAX_SCRAPES, connection_limit())
        self._notes = ConnectionNotes("metrics")
        self._accepted_at: dict[Any, float] = {}
        super().__init__(address[:2], ScrapeHandler)  # type: ignore[arg-type]

    def get_request(self) -> tuple[Any, Any]:
        """Accept a connection.

        Raises:
            OSError: there is none, or no more can be open; the server will try again.
        """
        if len(self._accepted_at) >= self._limit:
            self._notes.warn(f"{self._limit} connections are open; further clients wait")
            sleep(FULL_PAUSE_SECONDS)
            raise BlockingIOError
        try:
            connection, address = super().get_request()
        except OSError as error:
            self._notes.warn(f"cannot accept connections: {error.strerror}; retrying")
            sleep(ERROR_PAUSE_SECONDS)
            raise
        self._accepted_at[connection] = monotonic()
        return connection, address

    def service_actions(self) -> None:
        """Read no more from clients that did not send their request in time.

        Called between connections, at least every half second.
        """
        request_seconds = REQUEST_SECONDS
        if len(self._accepted_at) >= self._limit:
            request_seconds = REQUEST_SECONDS_WHEN_FULL
        for connection, accepted_at in list(self._accepted_at.items()):
            if monotonic() - accepted_at >= request_seconds:
                with suppress(OSError):
                    # The thread of the connection reads an end of file, and ends.
                    connection.shutdown(socket.SHUT_RD)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection."""
        self._accepted_at.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print no traceback: only errors of the connection come here."""
