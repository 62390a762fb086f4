"""A uvicorn server for an event loop that does other work as well; needs the extra ``web``.

Clients cannot harm the other work: the number of connections is limited, clients that do not send
their request or do not read the response are disconnected, and little of it is logged.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import uvicorn

from graphrag_eval_async.helpers.connections import (
    ERROR_PAUSE_SECONDS,
    FULL_PAUSE_SECONDS,
    REQUEST_SECONDS,
    REQUEST_SECONDS_WHEN_FULL,
    ConnectionNotes,
    connection_limit,
)

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator

READING_SECONDS = 60.0
"""Time after which a client that does not read the whole response is disconnected, in seconds."""

TIMEOUT_RESPONSE = (
    b"HTTP/1.1 408 Request Timeout\r\n"
    b"content-type: text/plain; charset=utf-8\r\n"
    b"connection: close\r\n"
    b"\r\n"
    b"the request was not complete in time\n"
)

UVICORN_LOGGER = logging.getLogger("graphrag_eval_async.http.uvicorn")
"""Logs what uvicorn says of connections: errors of the server, but no warnings about clients.

uvicorn logs a line for each invalid request, which anybody may send.
"""
UVICORN_LOGGER.setLevel(logging.ERROR)


@dataclass
class ConnectionCheck:
    """What the last check of a connection found.

    Attributes:
        cycle: uvicorn's object for the latest request whose head is complete; None without one.
        awaits_body: whether the server waits for the rest of the body of that request.
        served_at: when the server last had something to do for the client, instead of waiting for
            the rest of a request. In seconds of the event loop.
        read_at: when the client had last read all that was sent to it.
    """

    cycle: Any
    awaits_body: bool
    served_at: float
    read_at: float


class WebServer(uvicorn.Server):
    """Serves an ASGI application; leaves signals and the configuration of logging as they are."""

    def __init__(self, app: Any, listening: socket.socket, name: str) -> None:
        """Create a server, which accepts connections while `serve` runs.

        Args:
            app: the ASGI application.
            listening: a socket that listens. The caller has to close it.
            name: what warnings call the server.
        """
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            server_header=False,
            lifespan="off",
            ws="none",
            timeout_graceful_shutdown=1,
        )
        super().__init__(config)
        # The caller may close its socket at any time, which would break an event loop that still
        # waits for the same file descriptor.
        self._listening = listening.dup()
        self._listening.setblocking(False)
        self._limit = connection_limit()
        self._notes = ConnectionNotes(name)
        self._checks: dict[Any, ConnectionCheck] = {}
        self._accepting: asyncio.Task[None] | None = None

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signal handlers as they are."""
        yield

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:  # noqa: ARG002
        """Accept connections and answer requests until `should_exit` is set."""
        try:
            # uvicorn itself accepts no connections, since it would not limit their number.
            await super().serve(sockets=[])
        finally:
            self._stop_accepting()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to accept connections."""
        await super().startup(sockets)
        self._accepting = asyncio.create_task(self._accept_connections())

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept no more connections, and end those that are open."""
        self._stop_accepting()
        await super().shutdown(sockets)

    async def on_tick(self, counter: int) -> bool:
        """Disconnect clients that are too slow; return whether the server has to exit.

        uvicorn calls this ten times a second.
        """
        self._check_connections()
        return await super().on_tick(counter)

    def _stop_accepting(self) -> None:
        """Stop accepting connections, and close the socket that listens."""
        if self._accepting is not None:
            self._accepting.cancel()
        self._listening.close()

    async def _accept_connections(self) -> None:
        """Accept connections until cancelled, but never more than the limit at the same time.

        Further clients wait in the queue of the system, where they need no file descriptor.
        """
        loop = asyncio.get_running_loop()
        while True:
            while len(self.server_state.connections) >= self._limit:
                self._notes.warn(f"{self._limit} connections are open; further clients wait")
                await asyncio.sleep(FULL_PAUSE_SECONDS)
            try:
                connection, _ = await loop.sock_accept(self._listening)
            except ConnectionError:
                # The client has gone again.
                continue
            except OSError as error:
                self._notes.warn(f"cannot accept connections: {error.strerror}; retrying")
                await asyncio.sleep(ERROR_PAUSE_SECONDS)
                continue
            await loop.connect_accepted_socket(self._make_protocol, connection)

    def _make_protocol(self) -> asyncio.Protocol:
        """Return uvicorn's protocol for a connection."""
        protocol: Any = self.config.http_protocol_class(
            config=self.config,  # type: ignore[call-arg]
            server_state=self.server_state,
            app_state=self.lifespan.state,
        )
        protocol.logger = UVICORN_LOGGER
        return protocol  # type: ignore[no-any-return]

    def _check_connections(self) -> None:
        """Disconnect the clients that did not send a whole request, or read a response, in time."""
        now = asyncio.get_running_loop().time()
        checks = {}
        connections: set[Any] = {*self.server_state.connections}
        request_seconds = REQUEST_SECONDS
        if len(connections) >= self._limit:
            request_seconds = REQUEST_SECONDS_WHEN_FULL
        for connection in connections:
            check = self._checks.get(connection)
            if check is None:
                check = ConnectionCheck(cycle=None, awaits_body=False, served_at=now, read_at=now)
            checks[connection] = check
            _update(check, connection, now)

            if now - check.read_at >= READING_SECONDS:
                connection.transport.abort()
                self._notes.warn("disconnected a client that did not read the response")
            elif now - check.served_at >= request_seconds:
                _end_with_timeout(connection)
                self._notes.warn("disconnected a client that did not send its request in time")
        self._checks = checks


def _update(check: ConnectionCheck, connection: Any, now: float) -> None:
    """Set the attributes of `check` to what a connection of uvicorn does at the time `now`."""
    cycle = connection.cycle
    # After a response, uvicorn itself ends a connection that is idle for 5 seconds.
    is_idle = connection.timeout_keep_alive_task is not None
    awaits_body = cycle is not None and not cycle.response_complete and cycle.more_body
    awaits_head = cycle is None or cycle.response_complete

    # The body of a request may take what its head left of the time. All other changes mean that
    # a request was complete.
    is_same_request = cycle is check.cycle and awaits_body == check.awaits_body
    is_head_complete_now = awaits_body and not check.awaits_body
    is_waiting = not is_idle and (awaits_body or awaits_head)
    if not is_waiting or not (is_same_request or is_head_complete_now):
        check.served_at = now
    check.cycle = cycle
    check.awaits_body = awaits_body

    if connection.transport.get_write_buffer_size() == 0:
        check.read_at = now


def _end_with_timeout(connection: Any) -> None:
    """End a connection of uvicorn whose request is incomplete, with a response 408 if possible."""
    transport = connection.transport
    cycle = connection.cycle
    is_in_response = cycle is not None and cycle.response_started and not cycle.response_complete
    if transport.is_closing() or is_in_response:
        transport.abort()
        return
    transport.write(TIMEOUT_RESPONSE)
    transport.close()
