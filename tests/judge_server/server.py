"""The HTTP/1.1 server: callbacks of one protocol, without a task of its own."""

from __future__ import annotations

import asyncio
import re
import socket
import struct
from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import orjson

from tests.deadlines import WAIT_SECONDS
from tests.judge_server.messages import CutOff, Drip, Never, Once, Reply, Request, Reset
from tests.judge_server.replies import error, json_reply, reply_to

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Self

    from tests.judge_server.messages import Fault

Script: TypeAlias = "Callable[[Request], Reply | Fault]"

CONTENT_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
AT_ONCE = struct.pack("ii", 1, 0)
"""SO_LINGER: closing sends a reset in place of what is still unsent."""

MID_BODY_PAUSE = 0.02
"""In seconds, so that the client reads what came before the reset."""

LOOK_SECONDS = 0.005
"""Between two looks at the condition of a reply."""


@dataclass(slots=True)
class Counts:
    """What a server saw."""

    requests: int = 0
    replies: int = 0
    statuses: Counter[int] = field(default_factory=Counter)
    completions: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    embeddings: int = 0
    embedding_tokens: int = 0
    in_flight: int = 0
    most_in_flight: int = 0
    connections: int = 0
    most_connections: int = 0


class JudgeServer:
    """Serves on a free port of 127.0.0.1 from entering to leaving."""

    def __init__(
        self, script: Script = reply_to, *, latency: float = 0.0, keep_requests: bool = True
    ) -> None:
        """Does not serve yet."""
        self.script = script
        self.latency = latency
        self.counts = Counts()
        self.requests: list[Request] = []
        self._keep_requests = keep_requests
        self._connections: set[_Connection] = set()
        self._times_seen: Counter[int] = Counter()
        self._changed = asyncio.Event()
        self._script_error: Exception | None = None
        self._server: asyncio.Server
        self.origin = ""
        self.base_url = ""

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Connection(self), "127.0.0.1", 0, backlog=4096)
        self.origin = "http://{}:{}".format(*self._server.sockets[0].getsockname())
        self.base_url = f"{self.origin}/v1"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        for connection in self._connections:
            connection.transport.abort()
        await self.until(lambda: not self._connections)
        await self._server.wait_closed()
        if self._script_error is not None and kind is None:
            raise self._script_error

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for something to be true of `counts` or `requests`."""
        try:
            while not condition():
                self._changed.clear()
                await self._changed.wait()
        except asyncio.CancelledError as error:  # Such as by the deadline of the test.
            error.add_note(f"The server has {self.counts}.")
            raise

    def opened(self, connection: _Connection) -> None:
        self._connections.add(connection)
        self.counts.connections += 1
        self.counts.most_connections = max(self.counts.most_connections, self.counts.connections)
        self._changed.set()

    def closed(self, connection: _Connection) -> None:
        self._connections.discard(connection)
        self.counts.connections -= 1
        self._changed.set()

    def answer(self, head: bytes, raw: bytes) -> Reply | Fault:
        """What to do about a request; one for /stats leaves no trace in them."""
        method, target, _ = head[: head.index(b"\r\n")].decode("latin-1").split(" ", 2)
        path, _, query = target.partition("?")
        if path == "/stats":
            return json_reply(asdict(self.counts) | {"statuses": _texts(self.counts.statuses)}, latency=0.0)
        counts = self.counts
        seen = hash(raw)
        attempt, self._times_seen[seen] = self._times_seen[seen], self._times_seen[seen] + 1
        now = asyncio.get_running_loop().time()
        body = orjson.loads(raw) if raw else None
        request = Request(method, path, query, head, raw, body, counts.requests, attempt, now)
        counts.requests += 1
        if self._keep_requests:
            self.requests.append(request)
        try:
            return self.script(request)
        except Exception as problem:  # noqa: BLE001  (raised when the server is left)
            self._script_error = problem
            return error(500, f"the script raised {problem!r}")

    def started(self) -> None:
        self.counts.in_flight += 1
        self.counts.most_in_flight = max(self.counts.most_in_flight, self.counts.in_flight)
        self._changed.set()

    def finished(self, reply: Reply | None, *, is_embedding: bool) -> None:
        """A request has had its reply, or its connection is gone."""
        counts = self.counts
        counts.in_flight -= 1
        if reply is not None:
            counts.replies += 1
            counts.statuses[reply.status] += 1
            if reply.usage is not None and is_embedding:
                counts.embeddings += 1
                counts.embedding_tokens += reply.usage[0]
            elif reply.usage is not None:
                counts.completions += 1
                counts.input_tokens += reply.usage[0]
                counts.output_tokens += reply.usage[1]
        self._changed.set()


class _Connection(asyncio.Protocol):
    """One connection: a request at a time."""

    transport: asyncio.Transport

    def __init__(self, server: JudgeServer) -> None:
        self._server = server
        self._buffer = bytearray()
        self._answering = False
        self._counted = False
        self._is_embedding = False
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self._server.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        if self._timer is not None:
            self._timer.cancel()
        self._finish(None)
        self._server.closed(self)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if not self._answering:
            self._next()

    def _next(self) -> None:
        """Answer the request in the buffer, if it is whole."""
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        length = CONTENT_LENGTH.search(self._buffer, 0, end)
        whole = end + 4 + (int(length[1]) if length else 0)
        if len(self._buffer) < whole:
            return
        head, raw = bytes(self._buffer[:end]), bytes(self._buffer[end + 4 : whole])
        del self._buffer[:whole]
        self._answering = True
        self._answer(head, raw)

    def _answer(self, head: bytes, raw: bytes) -> None:
        server = self._server
        answer = server.answer(head, raw)
        self._counted = not head.startswith(b"GET /stats")
        if self._counted:
            self._is_embedding = b"/embeddings" in head[: head.index(b"\r\n")]
            server.started()
        match answer:
            case Reply(latency=own):
                self._after(server.latency if own is None else own, self._send, answer)
            case Reset():
                self._reset()
            case CutOff(reply):
                self.transport.write(reply.head + reply.body[: len(reply.body) // 2])
                self._after(MID_BODY_PAUSE, self._reset)
            case Drip(reply):
                self.transport.write(reply.head)
                self._drip(answer, 0)
            case Once():
                self._send_once(answer, asyncio.get_running_loop().time() + WAIT_SECONDS)
            case Never():
                pass

    def _after(self, seconds: float, call: Callable[..., None], *arguments: Any) -> None:
        if seconds > 0:
            self._timer = asyncio.get_running_loop().call_later(seconds, call, *arguments)
        else:
            call(*arguments)

    def _send(self, reply: Reply) -> None:
        self.transport.write(reply.head + reply.body)
        self._finish(reply)
        self._answering = False
        if self._buffer:
            self._next()

    def _send_once(self, answer: Once, end: float) -> None:
        if answer.condition() or asyncio.get_running_loop().time() > end:
            self._send(answer.reply)
        else:
            self._after(LOOK_SECONDS, self._send_once, answer, end)

    def _drip(self, drip: Drip, sent: int) -> None:
        self.transport.write(drip.reply.body[sent : sent + 1])
        if sent + 1 < len(drip.reply.body):
            self._after(drip.interval, self._drip, drip, sent + 1)
        else:
            self._finish(drip.reply)
            self._answering = False

    def _reset(self) -> None:
        self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, AT_ONCE)
        self.transport.abort()

    def _finish(self, reply: Reply | None) -> None:
        if self._counted:
            self._counted = False
            self._server.finished(reply, is_embedding=self._is_embedding)


def _texts(statuses: Counter[int]) -> dict[str, int]:
    return {str(status): count for status, count in statuses.items()}
