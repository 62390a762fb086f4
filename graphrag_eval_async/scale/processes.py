"""Worker processes: each does one piece of work at a time, and its death is told for that piece.

What they reply is large. It goes through a file in memory rather than through the connection: its small
buffer would have the processes wait for each other.
"""

from __future__ import annotations

import asyncio
import gc
import os
import pickle
import signal
import socket
import tempfile
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import anyio.to_thread

from graphrag_eval_async.errors import GraphragEvalError, WorkerError

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection
    from multiprocessing.context import SpawnProcess

Function: TypeAlias = "Callable[[Any, Callable[[Any], object]], Any]"

IGNORED = (signal.SIGINT, signal.SIGTERM)
"""Ctrl-C, and service managers, signal all processes of a group; the parent decides what becomes of it."""

GUARD = (
    " before it began. Each worker imports the script that starts it: put the call under"
    ' `if __name__ == "__main__":`'
)

EXIT_SECONDS = 5.0
"""Seconds to wait for the exit code of a process that closed its connection."""


class Workers:
    """Up to `jobs` processes, started on demand, that call the same picklable function.

    It is called with an item and with what takes the parts of its reply, which have a `text`.

    Not an executor of `concurrent.futures`, which breaks as a whole when one process dies, and whose
    processes outlive a parent that is killed.
    """

    def __init__(self, function: Function, jobs: int) -> None:
        self._function = pickle.dumps(function)
        self._threads = ThreadPoolExecutor(jobs, thread_name_prefix="graphrag-eval-async-worker")
        self._lock = Lock()
        self._workers: list[_Worker] = []
        self._idle: list[_Worker] = []
        self._closed = False

    def submit(self, item: Any) -> asyncio.Future[tuple[list[Any], Any]]:
        """Return the parts that the function emits for `item`, and its return value."""
        return asyncio.get_running_loop().run_in_executor(self._threads, self._call, item)

    def _call(self, item: Any) -> tuple[list[Any], Any]:
        with self._lock:
            if self._closed:
                raise WorkerError(f"{item}: not evaluated, since the run has ended")
            if self._idle:
                worker = self._idle.pop()
            else:
                self._workers.append(worker := _Worker(self._function))
        reply = worker.call(item)
        with self._lock:
            self._idle.append(worker)
        return reply

    async def aclose(self) -> None:
        """Kill the processes and wait until they have ended."""
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(self._close)

    def _close(self) -> None:
        with self._lock:
            self._closed = True
        for worker in self._workers:
            worker.kill()
        self._threads.shutdown(cancel_futures=True)
        for worker in self._workers:
            worker.close()


class _Worker:
    """A process and the only connection to it; it ends when its parent does."""

    def __init__(self, function: bytes) -> None:
        from multiprocessing import get_context  # Here, since importing it takes some milliseconds.

        # A fork would copy the locks of threads and event loops in whatever state they are.
        context = get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process: SpawnProcess = context.Process(target=serve, args=(theirs,), daemon=True)
        # Blocked until it ignores them, or a Ctrl-C would end it while it starts.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, IGNORED)
        try:
            self._process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            theirs.close()
        self._file = _memory()
        self._function: bytes | None = function
        self._answered = False

    def call(self, item: Any) -> tuple[list[Any], Any]:
        """Return the parts of a process's reply, and the reply.

        Raises a `WorkerError` if the process died or its work raised what it should not.
        """
        try:
            if self._function is not None:
                _send_file(self._connection, self._file)
                self._connection.send_bytes(self._function)
                self._function = None
            self._connection.send(item)
            message: _Message = self._connection.recv()
        except (EOFError, OSError) as error:
            self._process.join(EXIT_SECONDS)
            death = _death(self._process.exitcode)
            if not self._answered and self._process.exitcode == 1:
                death += GUARD
            raise WorkerError(f"{item}: {death}") from error
        self._answered = True
        if message.failure is not None:
            raise WorkerError(f"{item}: {message.failure}")
        if message.error is not None:
            raise message.error
        return [self._read(*part) for part in message.parts], message.reply

    def _read(self, part: Any, start: int, length: int) -> Any:
        return part._replace(text=os.pread(self._file, length, start))

    def kill(self) -> None:
        self._process.kill()

    def close(self) -> None:
        self._process.join()
        self._process.close()
        self._connection.close()
        os.close(self._file)


class _Message(NamedTuple):
    """A reply, or the error that took its place.

    Each part has everything but its text, and where that is in the file.
    """

    parts: list[tuple[Any, int, int]]
    reply: Any = None
    error: GraphragEvalError | None = None
    failure: str | None = None


def _death(code: int | None) -> str:
    if code is not None and code < 0:
        cause = ", perhaps since memory ran out" if code == -signal.SIGKILL else ""
        return f"the worker process was killed by {signal.Signals(-code).name}{cause}"
    return f"the worker process ended with exit code {code}"


def serve(connection: Connection[Any, Any]) -> None:
    """Run a worker process: answer each item until the parent is gone."""
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, IGNORED)
    try:
        file = _receive_file(connection)
        function = pickle.loads(connection.recv_bytes())  # noqa: S301  (from the parent)
        gc.freeze()  # What was imported and loaded stays.
        while True:
            connection.send(_answer(function, connection.recv(), file))
    except (EOFError, OSError):
        return


def _answer(function: Function, item: Any, file: int) -> _Message:
    parts: list[tuple[Any, int, int]] = []
    end = 0

    def emit(part: Any) -> None:
        nonlocal end
        start, rest = end, memoryview(part.text)
        while rest:
            written = os.pwrite(file, rest, end)
            rest, end = rest[written:], end + written
        parts.append((part._replace(text=b""), start, end - start))

    try:
        return _Message(parts, function(item, emit))
    except GraphragEvalError as error:
        return _Message([], error=error)
    except Exception as error:  # noqa: BLE001  (the parent tells of it)
        return _Message([], failure=f"{type(error).__name__}: {error}")


def _memory() -> int:
    """Return the descriptor of an unnamed file, in memory if the system supports it."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("graphrag-eval-async")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def _send_file(connection: Connection[Any, Any], file: int) -> None:
    with socket.socket(fileno=os.dup(connection.fileno())) as sender:
        socket.send_fds(sender, [b"f"], [file])


def _receive_file(connection: Connection[Any, Any]) -> int:
    with socket.socket(fileno=os.dup(connection.fileno())) as receiver:
        _, files, _, _ = socket.recv_fds(receiver, 1, 1)
    if not files:
        raise EOFError
    return files[0]
