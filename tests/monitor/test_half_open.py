"""Clients that connect to a server of this package, and do not finish what they began."""

from __future__ import annotations

import asyncio
import socket
from contextlib import ExitStack, closing, suppress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from graphrag_eval_async import Dashboard, evaluate_stream
from graphrag_eval_async.exporters.prometheus import MetricsServer
from graphrag_eval_async.helpers import connections
from tests.cli.support import DEADLINE_SECONDS, REFERENCE, finish, response, start, until
from tests.support.dashboard import fetch
from tests.support.virtual_time import now, without_waiting

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.support import Folder

pytest.importorskip("jinja2")
pytest.importorskip("prometheus_client")
pytest.importorskip("uvicorn")

SECONDS = 10
"""Within this time, a request has to be whole."""

HALF_OPEN = 300
"""More connections than the limit of open files in the test."""

OPEN_FILES = 256
STDERR_BYTES = 2000

PARTS = {
    "nothing": [b""],
    "a line": [b"GET / HTTP/1.1\r\n"],
    "no end of headers": [b"GET / HTTP/1.1\r\nHost: localhost\r\n"],
    "byte by byte": [b"%c" % byte for byte in b"GET /?" + b"x" * 200],
    "header by header": [b"GET / HTTP/1.1\r\n", *[b"X-%d: x\r\n" % i for i in range(200)]],
    "no end of body": [b"POST /events HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nx"],
    "half of a chunk": [
        b"GET / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nx"
    ],
    "half of a second request": [b"GET /icon.svg HTTP/1.1\r\nHost: localhost\r\n\r\n", b"GET"],
    "a second one byte by byte": [
        b"GET /icon.svg HTTP/1.1\r\nHost: localhost\r\n\r\n",
        *[b"%c" % byte for byte in b"GET /?" + b"x" * 200],
    ],
}
"""What a client sends, with half a second between the parts."""


def read_all(client: socket.socket) -> None:
    """Read what a server sends until the end of a connection."""
    while client.recv(1 << 16):
        pass


async def end_of(reader: asyncio.StreamReader) -> bytes:
    """What a server sent until the end of a connection."""
    received = b""
    with suppress(ConnectionError):
        while data := await reader.read(1 << 16):
            received += data
    return received


@pytest.mark.parametrize("parts", PARTS.values(), ids=PARTS)
def test_a_request_that_is_never_whole(parts: list[bytes]) -> None:
    @without_waiting
    async def check() -> None:
        stream = evaluate_stream(REFERENCE, [response("q1")])
        async with Dashboard(stream, port=0) as dashboard:
            address = urlsplit(dashboard.url)
            reader, writer = await asyncio.open_connection(address.hostname, address.port)
            began = now()
            ending = asyncio.create_task(end_of(reader))
            for part in parts:
                writer.write(part)
                await asyncio.sleep(0.5)
                if ending.done():
                    break
            await ending
            # A second request may begin half a second after the first one.
            assert now() - began <= SECONDS + 1.5
            writer.close()

    check()


@without_waiting
async def test_a_slow_request_that_becomes_whole_is_answered() -> None:
    stream = evaluate_stream(REFERENCE, [response("q1")])
    async with Dashboard(stream, port=0) as dashboard:
        address = urlsplit(dashboard.url)
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        for _ in range(5):
            for line in (b"GET /icon.svg HTTP/1.1\r\n", b"Host: localhost\r\n", b"\r\n"):
                writer.write(line)
                await asyncio.sleep(3)
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200 ")
            length = int(head.lower().partition(b"content-length: ")[2].split()[0])
            await reader.readexactly(length)
        writer.close()


@without_waiting
async def test_a_response_that_nobody_reads() -> None:
    stream = evaluate_stream(REFERENCE, [response("q1")])
    async with Dashboard(stream, port=0) as dashboard:
        address = urlsplit(dashboard.url)
        with closing(socket.socket()) as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.connect((address.hostname, address.port))
            client.setblocking(False)
            with suppress(BlockingIOError):
                for _ in range(10_000):
                    client.send(b"GET /style.css HTTP/1.1\r\nHost: localhost\r\n\r\n")
                    await asyncio.sleep(0)
            # The server gives up after a minute.
            await asyncio.sleep(120)
            with pytest.raises(ConnectionError):
                read_all(client)


@pytest.mark.parametrize("server", ["--web", "--metrics"])
def test_half_open_connections_do_not_stop_a_run(
    folder: Folder, tmp_path: Path, server: str
) -> None:
    """New logs are read, the server answers again later, and standard error stays short."""
    logs = tmp_path / "logs"
    logs.mkdir()
    folder.lines(response("q1"), name="logs/1.jsonl")
    out = tmp_path / "out.jsonl"
    errors = tmp_path / "stderr"
    with errors.open("wb") as stderr, ExitStack() as clients:
        process = start(
            *("watch", folder.reference, f"{logs}/*.jsonl", server, "127.0.0.1:0"),
            *("-o", str(out)),
            stderr=stderr,
            open_files=OPEN_FILES,
        )
        until(process, lambda: b"http://" in errors.read_bytes(), "the address is printed")
        [url] = [word for word in errors.read_text().split() if word.startswith("http://")]
        address = urlsplit(url)
        for _ in range(HALF_OPEN):
            client = clients.enter_context(socket.socket())
            client.setblocking(False)
            with suppress(BlockingIOError):
                client.connect((address.hostname, address.port))

        for number in range(2, 40):
            folder.lines(response("q2"), name=f"logs/{number}.jsonl")
        until(process, lambda: out.read_bytes().count(b"\n") == 39, "new logs are read")
        assert fetch(url)[0] == 200
        process.terminate()
        assert finish(process)[0] == 143
    text = errors.read_text()
    assert len(text) < STDERR_BYTES
    assert text.count("connections are open") == 1
    assert "Traceback" not in text


def test_scrapes_that_are_never_whole(capfd: pytest.CaptureFixture[str]) -> None:
    with MetricsServer("127.0.0.1", 0) as server, ExitStack() as stack:
        address = urlsplit(server.address)
        clients = []
        for name in ("nothing", "a line", "no end of headers"):
            client = socket.create_connection((address.hostname, address.port), DEADLINE_SECONDS)
            client.sendall(PARTS[name][0])
            clients.append(stack.enter_context(client))
        assert fetch(server.address)[0] == 200
        for client in clients:
            read_all(client)
    assert "Traceback" not in capfd.readouterr().err


def test_a_warning_about_connections_comes_once_a_minute(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    seconds = 0
    monkeypatch.setattr(connections, "monotonic", lambda: seconds)
    notes = connections.ConnectionNotes("live page")
    for seconds in range(150):
        notes.warn(f"problem {seconds}")
    assert caplog.messages == [f"live page: problem {second}" for second in (0, 60, 120)]
