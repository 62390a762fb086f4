"""Processes that run queries on a graph in memory, and are killed if a query takes too long."""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

import msgspec

from graphrag_eval_async.errors import ExecutionUnavailable
from graphrag_eval_async.execution import engine
from graphrag_eval_async.execution.answer import GRAPH_FORMS, Answer, QueryFailed, now
from graphrag_eval_async.execution.engine import LENGTH, Reply, Request, Setup, frame
from graphrag_eval_async.records.shapes import SPARQL_RESULTS
from graphrag_eval_async.steps.tokens import form_of

if TYPE_CHECKING:
    from asyncio.subprocess import Process

    from graphrag_eval_async.execution.answer import Kind

N_TRIPLES = "application/n-triples"

LOADING_SECONDS = 600.0
"""Seconds for loading the graph."""

_DIED = "the query engine died: the query needs too much memory, or nests too deep"


class Processes:
    """Up to `limit` processes, started on demand; each runs one query at a time.

    Attributes:
        where: the key and the path, for errors.
    """

    def __init__(self, setup: Setup, limit: int, where: str) -> None:
        self.where = where
        self._setup = setup
        self._idle: list[_Process] = []
        self._all: set[_Process] = set()
        self._slots = asyncio.Semaphore(limit)
        self._is_closed = False

    async def open(self) -> None:
        """Start a process, which loads the graph."""
        async with self._slots:
            self._idle.append(await self._start())

    async def run(self, query: str, *, of_agent: bool = False) -> Answer:  # noqa: ARG002  (as `Endpoint`)
        """Run a query."""
        at = now()
        reply = await self._call(Request(query))
        if reply.kind is not None:
            raise QueryFailed(cast("Kind", reply.kind), reply.message)
        media_type = N_TRIPLES if form_of(query) in GRAPH_FORMS else SPARQL_RESULTS
        return Answer(reply.output, media_type, at)

    async def parse(self, query: str, prefixes: dict[str, str]) -> str | None:
        """Return why a query does not parse; None if it does, or if that is not known in time."""
        try:
            reply = await self._call(Request(query, prefixes, parse=True))
        except QueryFailed:
            return None
        return reply.message if reply.kind == "invalid" else None

    async def _call(self, request: Request) -> Reply:
        async with self._slots:
            try:
                process = self._living() or await self._start()
            except ExecutionUnavailable as error:  # The file was changed since, say.
                raise QueryFailed("unavailable", str(error)) from None
            is_done = False
            try:
                reply = await process.call(request, self._setup.seconds)
                is_done = True
                return reply
            finally:
                if is_done and not self._is_closed:
                    self._idle.append(process)
                else:
                    await self._end(process)

    def _living(self) -> _Process | None:
        """An idle process; those that somebody ended since, such as the system, are left out."""
        while self._idle:
            if (process := self._idle.pop()).is_alive:
                return process
            self._all.discard(process)
        return None

    async def _start(self) -> _Process:
        process = _Process()
        self._all.add(process)
        try:
            await process.start(self._setup, self.where)
        except BaseException:
            await self._end(process)
            raise
        return process

    async def _end(self, process: _Process) -> None:
        self._all.discard(process)
        await process.kill()

    async def aclose(self) -> None:
        """Kill all processes, and wait for their end."""
        self._is_closed = True
        self._idle.clear()
        for process in [*self._all]:
            await self._end(process)


class _Process:
    """A process and its pipes."""

    def __init__(self) -> None:
        self._process: Process | None = None

    @property
    def is_alive(self) -> bool:
        """Whether the process has not ended, as far as is known."""
        return self._process is not None and self._process.returncode is None

    async def start(self, setup: Setup, where: str) -> None:
        """Start the process and wait until it has loaded the graph."""
        command = sys.executable, "-P", "-m", engine.__name__
        self._process = await asyncio.create_subprocess_exec(
            *command, env=_environment(), stdin=PIPE, stdout=PIPE, stderr=DEVNULL, limit=1 << 20
        )
        try:
            reply = await self._exchange(setup, LOADING_SECONDS)
        except (TimeoutError, EOFError):
            what = "the process that loads it died, or took too long"
            raise ExecutionUnavailable(f"{where}: {what}") from None
        if reply.kind is not None:
            raise ExecutionUnavailable(f"{where}: cannot be read: {reply.message}")

    async def call(self, request: Request, seconds: float) -> Reply:
        """Return the reply to a request.

        Raises:
            QueryFailed: the process took too long or died; it must be killed, as after any exception.
        """
        try:
            return await self._exchange(request, seconds)
        except TimeoutError:
            raise QueryFailed("failed", f"it took more than {seconds:g} s", is_slow=True) from None
        except EOFError:
            raise QueryFailed("failed", _DIED) from None

    async def _exchange(self, message: Any, seconds: float) -> Reply:
        process = self._process
        assert process is not None and process.stdin is not None and process.stdout is not None  # noqa: PT018, S101
        async with asyncio.timeout(seconds):
            try:
                process.stdin.write(frame(message))
                await process.stdin.drain()
                [size] = LENGTH.unpack(await process.stdout.readexactly(LENGTH.size))
                return msgspec.msgpack.decode(await process.stdout.readexactly(size), type=Reply)
            except (ConnectionError, asyncio.IncompleteReadError):
                raise EOFError from None

    async def kill(self) -> None:
        """Kill the process, and wait until it has ended, even if this is cancelled."""
        process, self._process = self._process, None
        if process is not None:
            with suppress(ProcessLookupError):
                process.kill()
            await asyncio.shield(_ended(process))


def _environment() -> dict[str, str]:
    """The environment of a process: enough to find the same packages, without secrets."""
    package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(engine.__file__))))
    kept = {
        name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH", "SYSTEMROOT") if name in os.environ
    }
    return kept | {"PYTHONPATH": os.pathsep.join([*filter(os.path.isabs, sys.path), package])}


async def _ended(process: Process) -> None:
    if process.stdin is not None:
        process.stdin.close()
    if process.stdout is not None:
        while await process.stdout.read(1 << 20):  # Its pipe closes once all of it is read.
            pass
    await process.wait()
