"""What all processes have in common that run queries on a file; `processes` starts them.

An engine in such a process can be killed, whatever it does: it has limited memory, can open no
files or sockets once it has the graph, and an alarm ends it if nobody else does.

Messages on standard input and output are 4 bytes, the length in bytes, and as much MessagePack.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from struct import Struct
from typing import TYPE_CHECKING, BinaryIO, TypeVar

import msgspec

from graphrag_eval_async.execution.outcomes import Kind  # noqa: TC001  (msgspec reads it)

if TYPE_CHECKING:
    from collections.abc import Callable

M = TypeVar("M", bound=msgspec.Struct)

LENGTH = Struct(">I")
"""The format of the length before a message: four bytes, the highest first."""

GRACE_SECONDS = 5.0
"""Seconds after the limit at which the process ends itself, if its parent has not killed it."""


class Setup(msgspec.Struct, frozen=True):
    """Settings that a process gets before its first query.

    Attributes:
        graph: path of the file with the graph; None if queries are only parsed.
        prefixes: prefixes that SPARQL queries need not declare, with their IRIs.
        seconds: maximum time of a query.
        max_rows: maximum number of rows or triples that a query returns.
        max_bytes: maximum number of bytes that a query returns.
        max_memory_bytes: maximum memory of the process besides the graph.
    """

    graph: str | None
    prefixes: dict[str, str]
    seconds: float
    max_rows: int
    max_bytes: int
    max_memory_bytes: int


class Request(msgspec.Struct, frozen=True):
    """A query to run or to parse.

    Attributes:
        query: its text.
        prefixes: prefixes that it need not declare, besides those of the `Setup`.
        parameters: the values of its parameters, as a JSON object.
    """

    query: str
    prefixes: dict[str, str] = {}
    parameters: str = "{}"


class Reply(msgspec.Struct, frozen=True):
    """Message of a process to its parent, after it has loaded the graph and after each request.

    Attributes:
        text: the result of the query, or why the query or the loading failed.
        failure: how the query or the loading failed; None if it succeeded.
        is_slow: whether the query failed since it took all its time.
    """

    text: str = ""
    failure: Kind | None = None
    is_slow: bool = False


def serve(load: Callable[[Setup], Callable[[Request], Reply]]) -> None:
    """Answer requests on standard input until it ends.

    Args:
        load: loads the graph, and returns a function that answers a request. If it raises
            an OSError, a SyntaxError, a ValueError or a RuntimeError, the process tells its parent
            that the graph cannot be read, and ends.
    """
    # Ignore Ctrl-C, which the parent handles.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    source = sys.stdin.buffer
    # Send what an engine prints to standard error, so that it does not get between the messages.
    sink = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)

    # Load the graph, and then limit what the process may do.
    setup = _receive(source, Setup)
    if setup is None:
        return
    try:
        answer = load(setup)
    except (OSError, SyntaxError, ValueError, RuntimeError) as error:
        _send(sink, Reply(short_message(error), failure="unavailable"))
        return
    _limit_resources(setup.max_memory_bytes)
    _send(sink, Reply())

    # Answer requests, each within its time.
    while True:
        request = _receive(source, Request)
        if request is None:
            return
        _set_alarm(setup.seconds + GRACE_SECONDS)
        reply = answer(request)
        _set_alarm(0)
        _send(sink, reply)


def framed(message: msgspec.Struct) -> bytes:
    """Return the bytes of a message as it is sent, with its length before it."""
    data = msgspec.msgpack.encode(message)
    return LENGTH.pack(len(data)) + data


def short_message(error: BaseException) -> str:
    """Return the message of an exception on one line, cut after 500 characters."""
    return " ".join(str(error).split())[:500]


def _receive(source: BinaryIO, kind: type[M]) -> M | None:
    """Read the next message, which must be of the type `kind`; None at the end of the input."""
    head = source.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    [size] = LENGTH.unpack(head)
    return msgspec.msgpack.decode(source.read(size), type=kind)


def _send(sink: BinaryIO, message: msgspec.Struct) -> None:
    """Send a message to the parent."""
    sink.write(framed(message))
    sink.flush()


def _limit_resources(memory_bytes: int) -> None:
    """Limit the memory and the files of this process from now on, as far as the system can."""
    try:
        import resource
    except ImportError:
        # This is Windows.
        return
    # Open files stay open, but no further file or socket can be opened.
    limits = {resource.RLIMIT_CORE: 0, resource.RLIMIT_NOFILE: 0}
    with suppress(OSError), open("/proc/self/statm", "rb") as file:
        used_pages = int(file.read().split()[0])
        limits[resource.RLIMIT_AS] = used_pages * resource.getpagesize() + memory_bytes
    for limit, value in limits.items():
        _, hard_limit = resource.getrlimit(limit)
        # Only the administrator may raise a hard limit.
        if hard_limit != resource.RLIM_INFINITY:
            value = min(value, hard_limit)
        resource.setrlimit(limit, (value, value))


def _set_alarm(seconds: float) -> None:
    """Let the system, if it can, end this process after some seconds; 0 cancels that."""
    if hasattr(signal, "setitimer"):
        # The default action ends the process even if a query holds the interpreter.
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, seconds)
