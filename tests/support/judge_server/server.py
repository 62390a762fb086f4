"""The HTTP/1.1 server: callbacks of one protocol, without a task of its own."""

from __future__ import annotations

import asyncio
import re
import socket
import struct
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import orjson

from tests.support.deadlines import WAIT_SECONDS
from tests.support.judge_server.replies import Reply, Request, error, reply_to

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

Script: TypeAlias = "Callable[[Request], Reply]"

CONTENT_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
AT_ONCE = struct.pack("ii", 1, 0)
"""SO_LINGER: closing sends a reset in place of what is still unsent."""

MID_BODY_PAUSE = 0.02
"""In seconds, so that the client reads what came before the reset."""

LOOK_SECONDS = 0.005
"""Between two looks at the condition of a reply."""


@dataclass(slots=True)
class Counts:
    """What a server saw; the tokens are those of replies that were sent whole."""

    requests: int = 0
    replies: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    embedding_tokens: int = 0
    in_flight: int = 0
    most_in_flight: int = 0
    connections: int = 0


class JudgeServer:
    """Serves on a free port of 127.0.0.1 from entering to leaving."""

    def __init__(
        self, script: Script = reply_to, *, latency: float = 0.0, keep_requests: bool = True
    ) -> None:
        """Does not serve yet."""
        self.script, self.latency = script, latency
        self.counts = Counts()
        self.requests: list[Request] = []
        self.origin = self.base_url = ""
        self._keep_requests = keep_requests
        self._connections: set[_Connection] = set()
        self._times_seen: Counter[int] = Counter()
        self._changed = asyncio.Event()
        self._script_error: Exception | None = None

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: _Connection(self), "127.0.0.1", 0, backlog=4096
        )
        self.origin = "http://{}:{}".format(*self._server.sockets[0].getsockname())
        self.base_url = f"{self.origin}/v1"
        return self

    async def __aexit__(self, kind: object, *_: object) -> None:
        self._server.close()
        for connection in self._connections:
            connection.transport.abort()
        await self.until(lambda: not self._connections)
        await self._server.wait_closed()
        if self._script_error is not None and kind is None:
            raise self._script_error

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for something to be true of `counts` or `requests`."""
        while not condition():
            self._changed.clear()
            await self._changed.wait()

    def connected(self, connection: _Connection) -> None:
        """A connection was opened or closed."""
        self._connections ^= {connection}
        self.counts.connections = len(self._connections)
        self._changed.set()

    def answer(self, head: bytes, raw: bytes) -> Reply:
        """What the script says to a request."""
        path, _, query = head.split(b" ", 2)[1].decode("latin-1").partition("?")
        counts, seen = self.counts, hash(raw)
        attempt, self._times_seen[seen] = self._times_seen[seen], self._times_seen[seen] + 1
        now, body = (
            asyncio.get_running_loop().time(),
            orjson.loads(raw) if raw[:1] == b"{" else None,
        )
        request = Request(path, query, head, raw, body, counts.requests, attempt, now)
        if self._keep_requests:
            self.requests.append(request)
        counts.requests += 1
        try:
            return self.script(request)
        except Exception as problem:  # noqa: BLE001  (raised when the server is left)
            self._script_error = problem
            return error(500, f"the script raised {problem!r}")
        finally:
            counts.in_flight += 1
            counts.most_in_flight = max(counts.most_in_flight, counts.in_flight)
            self._changed.set()

    def finished(self, reply: Reply | None) -> None:
        """A request has had its reply, or its connection is gone."""
        counts = self.counts
        counts.in_flight -= 1
        if reply is not None:
            counts.replies += 1
            if reply.usage is not None and b'"embedding"' in reply.body:
                counts.embedding_tokens += reply.usage[0]
            elif reply.usage is not None:
                counts.input_tokens += reply.usage[0]
                counts.output_tokens += reply.usage[1]
        self._changed.set()


class _Connection(asyncio.Protocol):
    """One connection: a request at a time."""

    transport: asyncio.Transport
    _timer: asyncio.TimerHandle | None = None
    _is_answering = False

    def __init__(self, server: JudgeServer) -> None:
        self._server = server
        self._buffer = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self._server.connected(self)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        if self._timer is not None:
            self._timer.cancel()
        if self._is_answering:
            self._server.finished(None)
        self._server.connected(self)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        end = self._buffer.find(b"\r\n\r\n")
        if self._is_answering or end < 0:
            return
        length = CONTENT_LENGTH.search(self._buffer, 0, end)
        whole = end + 4 + (int(length[1]) if length else 0)
        if len(self._buffer) < whole:
            return
        head, raw = bytes(self._buffer[:end]), bytes(self._buffer[end + 4 : whole])
        del self._buffer[:whole]
        self._is_answering = True
        self._answer(self._server.answer(head, raw))

    def _answer(self, reply: Reply) -> None:
        latency = self._server.latency if reply.latency is None else reply.latency
        match reply.how:
            case "reset":
                self._reset()
            case "cut":
                self.transport.write(reply.head + reply.body[: len(reply.body) // 2])
                self._after(MID_BODY_PAUSE, self._reset)
            case "" if reply.once is not None:
                self._look(reply, asyncio.get_running_loop().time() + WAIT_SECONDS)
            case "" if latency > 0:
                self._after(latency, self._send, reply)
            case "":
                self._send(reply)

    def _after(self, seconds: float, call: Callable[..., None], *arguments: Any) -> None:
        self._timer = asyncio.get_running_loop().call_later(seconds, call, *arguments)

    def _send(self, reply: Reply) -> None:
        self.transport.write(reply.head + reply.body)
        self._finish(reply)

    def _finish(self, reply: Reply) -> None:
        self._server.finished(reply)
        self._is_answering = False

    def _look(self, reply: Reply, end: float) -> None:
        assert reply.once is not None
        if reply.once() or asyncio.get_running_loop().time() > end:
            self._send(reply)
        else:
            self._after(LOOK_SECONDS, self._look, reply, end)

    def _reset(self) -> None:
        self.transport.get_extra_info("socket").setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, AT_ONCE
        )
        self.transport.abort()
