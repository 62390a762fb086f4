"""A scripted server that speaks Bolt 4.4 and 5: enough for Neo4j's driver.

A script says for each query what the server does. Without one, each query returns 1.
Messages: https://neo4j.com/docs/bolt/current/bolt/message/.
"""

from __future__ import annotations

import asyncio
import struct
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

MAGIC = bytes.fromhex("6060b017")
VERSION = (5, 4)
"""The version of Bolt that the server chooses."""

# Tags of requests.
HELLO = 0x01
GOODBYE = 0x02
RESET = 0x0F
RUN = 0x10
BEGIN = 0x11
COMMIT = 0x12
ROLLBACK = 0x13
DISCARD = 0x2F
PULL = 0x3F
TELEMETRY = 0x54
ROUTE = 0x66
LOGON = 0x6A
LOGOFF = 0x6B

# Tags of responses.
SUCCESS = 0x70
RECORD = 0x71
IGNORED = 0x7E
FAILURE = 0x7F


class Structure(NamedTuple):
    """A structure of PackStream, such as a node: its tag, and its fields."""

    tag: int
    fields: Sequence[Any]


@dataclass(frozen=True)
class Reply:
    """What the server does with a query.

    Attributes:
        fields: the names of the columns.
        rows: the rows.
        code: status code of a failure; "" if the query succeeds.
        message: message of the failure.
        seconds: time before the first row.
        seconds_per_row: time before each other row.
        resets: whether the server closes the connection instead.
    """

    fields: Sequence[str] = ("x",)
    rows: Sequence[Sequence[Any]] = ((1,),)
    code: str = ""
    message: str = "no such luck"
    seconds: float = 0.0
    seconds_per_row: float = 0.0
    resets: bool = False


class BoltQuery(NamedTuple):
    """A query that came, with its parameters and what else the driver said about it."""

    text: str
    parameters: dict[str, Any]
    extra: dict[str, Any]


@dataclass
class BoltServer:
    """The server, as an async context manager.

    Attributes:
        address: the address, such as "bolt://127.0.0.1:7687".
        script: returns the reply to a query; None for the default.
        password: the password of the user `me`; None if everybody may come.
        is_silent: whether it accepts connections and never answers.
        queries: the queries that came, in their order.
        most_running: the maximum number of queries at a time.
        open_connections: the number of connections that are open.
    """

    script: Callable[[BoltQuery], Reply | None] = lambda _query: None
    address: str = ""
    password: str | None = None
    is_silent: bool = False
    queries: list[BoltQuery] = field(default_factory=list)
    most_running: int = 0
    open_connections: int = 0
    _running: int = 0
    _server: asyncio.Server | None = None
    _connections: set[asyncio.Task[None]] = field(default_factory=set)

    async def __aenter__(self) -> BoltServer:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        host, port = self._server.sockets[0].getsockname()
        self.address = f"bolt://{host}:{port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    def texts(self) -> list[str]:
        """Return the texts of the queries that came, without probes."""
        return [query.text for query in self.queries if query.text != "RETURN 1"]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection until it ends."""
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)
        self.open_connections += 1
        try:
            await _Connection(self, reader, writer).serve()
        except (asyncio.IncompleteReadError, ConnectionError):
            # The driver has gone.
            pass
        finally:
            self.open_connections -= 1
            writer.close()


class _Connection:
    """One connection of a server."""

    def __init__(
        self, server: BoltServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._server = server
        self._reader = reader
        self._writer = writer
        self._reply = Reply()
        self._sent_rows = 0
        # After a failure, all requests but RESET are ignored.
        self._has_failed = False
        self._requests: asyncio.Queue[Structure] = asyncio.Queue()
        self._is_closed = asyncio.Event()

    async def serve(self) -> None:
        """Shake hands, and answer requests until the driver says goodbye or goes."""
        handshake = await self._reader.readexactly(20)
        if handshake[:4] != MAGIC:
            # The driver begins with TLS, which this server does not speak.
            return
        if self._server.is_silent:
            await self._reader.read()
            return
        major, minor = VERSION
        self._writer.write(bytes([0, 0, minor, major]))
        await self._writer.drain()
        reading = asyncio.create_task(self._read_requests())
        try:
            while await self._answer(await self._requests.get()):
                pass
        finally:
            reading.cancel()

    async def _read_requests(self) -> None:
        """Read requests until the driver goes, which counts as a goodbye."""
        try:
            while True:
                self._requests.put_nowait(_unpack(await self._read_message()))
        except (asyncio.IncompleteReadError, ConnectionError):
            self._is_closed.set()
            self._requests.put_nowait(Structure(GOODBYE, []))

    async def _sleep(self, seconds: float) -> None:
        """Wait for so many seconds.

        Raises:
            ConnectionError: the driver has gone meanwhile.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._is_closed.wait()
            raise ConnectionError

    async def _answer(self, request: Structure) -> bool:
        """Answer a request; return whether the connection stays open."""
        if request.tag == GOODBYE:
            return False
        if self._has_failed and request.tag != RESET:
            await self._send(IGNORED)
        elif request.tag == HELLO:
            await self._send(SUCCESS, {"server": "Neo4j/5.26.0", "connection_id": "bolt-1"})
        elif request.tag == LOGON:
            await self._log_on(request.fields[0])
        elif request.tag == RUN:
            return await self._run(BoltQuery(*request.fields))
        elif request.tag == PULL:
            await self._pull(request.fields[0]["n"])
        elif request.tag == ROUTE:
            await self._send(SUCCESS, {"rt": self._routing_table()})
        elif request.tag == RESET:
            self._has_failed = False
            await self._send(SUCCESS, {})
        else:
            assert request.tag in {BEGIN, COMMIT, ROLLBACK, DISCARD, TELEMETRY, LOGOFF}
            await self._send(SUCCESS, {})
        return True

    def _routing_table(self) -> dict[str, Any]:
        """Return the table of a cluster: this server, and for writing one that does not exist."""
        host_and_port = self._server.address.removeprefix("bolt://")
        servers = [
            {"role": "ROUTE", "addresses": [host_and_port]},
            {"role": "READ", "addresses": [host_and_port]},
            {"role": "WRITE", "addresses": ["writer.invalid:7687"]},
        ]
        return {"ttl": 300, "db": "neo4j", "servers": servers}

    async def _log_on(self, credentials: dict[str, Any]) -> None:
        """Check the password."""
        password = self._server.password
        if password is None or credentials.get("credentials") == password:
            await self._send(SUCCESS, {})
        else:
            await self._fail(
                "Neo.ClientError.Security.Unauthorized", "The client is unauthorized: s3cret-word"
            )

    async def _run(self, query: BoltQuery) -> bool:
        """Begin to run a query; return whether the connection stays open."""
        server = self._server
        server.queries.append(query)
        self._reply = server.script(query) or Reply()
        self._sent_rows = 0
        server._running += 1
        server.most_running = max(server.most_running, server._running)
        try:
            await self._sleep(self._reply.seconds)
        finally:
            server._running -= 1
        if self._reply.resets:
            self._writer.transport.abort()
            return False
        if self._reply.code:
            await self._fail(self._reply.code, self._reply.message)
        else:
            await self._send(SUCCESS, {"fields": [*self._reply.fields], "t_first": 0})
        return True

    async def _pull(self, count: int) -> None:
        """Send so many rows; all if the count is -1."""
        rows = self._reply.rows[self._sent_rows :]
        if count >= 0:
            rows = rows[:count]
        for row in rows:
            await self._sleep(self._reply.seconds_per_row)
            await self._send(RECORD, [*row])
        self._sent_rows += len(rows)
        has_more = self._sent_rows < len(self._reply.rows)
        await self._send(SUCCESS, {"has_more": True} if has_more else {"type": "r", "db": "neo4j"})

    async def _fail(self, code: str, message: str) -> None:
        """Send a failure."""
        self._has_failed = True
        await self._send(FAILURE, {"code": code, "message": message})

    async def _read_message(self) -> bytes:
        """Return the next message, joined from its chunks."""
        message = b""
        while True:
            [size] = struct.unpack(">H", await self._reader.readexactly(2))
            if size == 0 and message:
                return message
            message += await self._reader.readexactly(size)

    async def _send(self, tag: int, *fields: Any) -> None:
        """Send a message in chunks."""
        data = pack(Structure(tag, fields))
        for start in range(0, len(data), 0xFFFF):
            chunk = data[start : start + 0xFFFF]
            self._writer.write(struct.pack(">H", len(chunk)) + chunk)
        self._writer.write(b"\x00\x00")
        await self._writer.drain()


def pack(value: Any) -> bytes:
    """Return a value in PackStream."""
    match value:
        case None:
            return b"\xc0"
        case bool():
            return b"\xc3" if value else b"\xc2"
        case int():
            return b"\xcb" + struct.pack(">q", value)
        case float():
            return b"\xc1" + struct.pack(">d", value)
        case str():
            data = value.encode()
            return b"\xd2" + struct.pack(">I", len(data)) + data
        case bytes():
            return b"\xce" + struct.pack(">I", len(value)) + value
        case Structure():
            return bytes([0xB0 + len(value.fields), value.tag]) + b"".join(map(pack, value.fields))
        case list():
            return b"\xd6" + struct.pack(">I", len(value)) + b"".join(map(pack, value))
        case dict():
            items = b"".join(pack(key) + pack(item) for key, item in value.items())
            return b"\xda" + struct.pack(">I", len(value)) + items
    raise AssertionError(value)


def _unpack(data: bytes) -> Structure:
    """Return the message that PackStream holds."""
    message = _Unpacker(data).value()
    assert isinstance(message, Structure)
    return message


class _Unpacker:
    """Reads values from PackStream."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def _take(self, size: int) -> bytes:
        """Return the next bytes."""
        self._position += size
        return self._data[self._position - size : self._position]

    def _number(self, code: str) -> Any:
        """Return a number in a format of `struct`."""
        return struct.unpack(f">{code}", self._take(struct.calcsize(code)))[0]

    def value(self) -> Any:
        """Return the next value."""
        [marker] = self._take(1)
        if marker < 0x80 or marker >= 0xF0:
            return marker if marker < 0x80 else marker - 0x100
        # Short texts, lists, maps and structures have their size in the marker.
        kind, size = marker & 0xF0, marker & 0x0F
        sizes = {0xD0: "B", 0xD1: "H", 0xD2: "I", 0xD4: "B", 0xD5: "H", 0xD6: "I"}
        sizes |= {0xD8: "B", 0xD9: "H", 0xDA: "I"}
        if marker in sizes:
            size = self._number(sizes[marker])
            kind = 0x80 if marker < 0xD4 else 0x90 if marker < 0xD8 else 0xA0
        match kind:
            case 0x80:
                return self._take(size).decode()
            case 0x90:
                return [self.value() for _ in range(size)]
            case 0xA0:
                return {self.value(): self.value() for _ in range(size)}
            case 0xB0:
                [tag] = self._take(1)
                return Structure(tag, [self.value() for _ in range(size)])
        return self._plain(marker)

    def _plain(self, marker: int) -> Any:
        """Return a value that is no container."""
        constants = {0xC0: None, 0xC2: False, 0xC3: True}
        if marker in constants:
            return constants[marker]
        numbers = {0xC1: "d", 0xC8: "b", 0xC9: "h", 0xCA: "i", 0xCB: "q"}
        return self._number(numbers[marker])
