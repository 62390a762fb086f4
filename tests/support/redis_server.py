"""A redis-server of a test's own."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from tests.support.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SECONDS = 60.0
"""Until it must answer."""


class RedisServer:
    """On a port of its own, with its data in a directory; keeps all it was told through `kill` and `start`.

    Attributes:
        port: of 127.0.0.1.
    """

    def __init__(self, directory: Path, *options: str) -> None:
        self._directory = directory
        self._options = options
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    def start(self, *, keep: bool = True) -> None:
        """Start it, and wait until it answers; `keep` decides whether each write is kept."""
        lasting = ["--appendonly", "yes", "--appendfsync", "always"] if keep else ["--appendonly", "no"]
        place = ["--bind", "127.0.0.1", "--port", f"{self.port}", "--dir", f"{self._directory}"]
        command = ["redis-server", *place, *lasting, "--save", "", *self._options]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        end = time.monotonic() + SECONDS
        while not self._answers():
            assert self._process.poll() is None, "redis-server ended"
            assert time.monotonic() < end, "redis-server does not answer"
            time.sleep(0.01)

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), 1) as connection:
                connection.sendall(b"PING\r\n")
                return connection.recv(64).startswith((b"+PONG", b"-NOAUTH"))
        except OSError:
            return False

    def kill(self) -> None:
        """End it at once, without a chance to write anything."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(SECONDS)
            self._process = None


@contextmanager
def redis_server(directory: Path, *options: str, keep: bool = True) -> Iterator[RedisServer]:
    """Run a server; skip the test where redis-server is not installed."""
    if shutil.which("redis-server") is None:
        pytest.skip("needs redis-server")
    server = RedisServer(directory, *options)
    server.start(keep=keep)
    try:
        yield server
    finally:
        server.kill()
