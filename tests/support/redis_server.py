"""A redis-server of a test's own."""

from __future__ import annotations

import shutil
import subprocess
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from redis import Redis
from redis.exceptions import ConnectionError as NotConnected

from tests.support.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SECONDS = 60.0
"""Until it must answer."""


@contextmanager
def redis_server(directory: Path) -> Iterator[int]:
    """Run a server with its data in a directory, and yield its port.

    Skips the test where redis-server is not installed.
    """
    if shutil.which("redis-server") is None:
        pytest.skip("needs redis-server")
    port = free_port()
    command = ["redis-server", "--bind", "127.0.0.1", "--port", f"{port}", "--dir", f"{directory}"]
    process = subprocess.Popen([*command, "--save", ""], stdout=subprocess.DEVNULL)
    try:
        end = time.monotonic() + SECONDS
        while not _answers(port):
            assert process.poll() is None, "redis-server ended"
            assert time.monotonic() < end, "redis-server does not answer"
            time.sleep(0.01)
        yield port
    finally:
        process.kill()
        process.wait(SECONDS)


def _answers(port: int) -> bool:
    with Redis(port=port, socket_timeout=1, socket_connect_timeout=1) as client:
        try:
            return bool(client.ping())
        except NotConnected:
            return False
