"""The TEXT2SPARQL endpoint of the examples, on a port of this machine."""

from __future__ import annotations

import socket
from contextlib import contextmanager
from threading import Thread
from typing import TYPE_CHECKING

import uvicorn

from examples.text2sparql_server import create_app
from tests.support.deadlines import join

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def endpoint(agent: str = "grammar") -> Iterator[str]:
    """Yield the host and port at which an agent answers; the socket queues connections until it
    does.
    """
    server = uvicorn.Server(uvicorn.Config(create_app(agent), log_level="error", ws="none"))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield f"127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            join(thread)
