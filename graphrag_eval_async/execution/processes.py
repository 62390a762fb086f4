"""Processes that run queries on a graph in memory, and are killed if a query takes too long."""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

import msgspec

from graphrag_eval_async.catalogue.media_types import SPARQL_RESULTS
from graphrag_eval_async.errors import ExecutionUnavailable
from graphrag_eval_async.execution import engine
from graphrag_eval_async.execution.engine import LENGTH, Reply, Setup, frame
from graphrag_eval_async.execution.outcomes import Answer, QueryFailed, now
from graphrag_eval_async.steps.tokens import GRAPH_FORMS, form_of, tokens

if TYPE_CHECKING:
    from asyncio.subprocess import Process

    from graphrag_eval_async.execution.outcomes import Kind

N_TRIPLES = "application/n-triples"

LOADING_SECONDS = 600.0  # Seconds for loading the graph.


class Processes:
    """Up to `limit` processes, started on demand; each runs one query at a time."""

    def __init__(self, setup: Setup, limit: int, where: str) -> None:
        """Prepare processes; `where` is the key and the path, for errors."""
        self._setup, self._limit, self._where = setup, limit, where
        # Idle processes, those used last on top, and None in place of those that can still be
        # started.
        self._idle: asyncio.LifoQueue[Process | None] = asyncio.LifoQueue()
        for _ in range(limit):
            self._idle.put_nowait(None)

    async def open(self) -> None:
        """Start a process, which loads the graph."""
        await self._call()

    async def run(self, query: str, *, of_agent: bool = False) -> Answer:  # noqa: ARG002  (as `Endpoint`)
        """Run a query."""
        at = now()
        try:
            kind, text = await self._call(query, {})
        except ExecutionUnavailable as error:  # The file was changed since, say.
            raise QueryFailed("unavailable", str(error)) from None
        if kind is not None:
            raise QueryFailed(cast("Kind", kind), text)
        return Answer(text, N_TRIPLES if form_of(query) in GRAPH_FORMS else SPARQL_RESULTS, at)

    async def parse(self, query: str) -> str | None:
        """Return why a query does not parse, whatever its prefixes; None also if that takes too
        long.
        """
        names = {token.text.partition(":")[0] for token in tokens(query) if token.kind == "name"}
        prefixes = {name: f"urn:prefix:{name}:" for name in names}
        try:
            kind, problem = await self._call(query, prefixes)
        except (QueryFailed, ExecutionUnavailable):
            return None
        return problem if kind == "invalid" else None

    async def _call(self, *request: Any) -> Reply:
        """The reply of an idle process to a request, or only that it has loaded the graph."""
        process = await self._idle.get()
        try:
            # Somebody ended it, such as the system.
            if process is None or process.returncode is not None:
                process = None
                command = sys.executable, "-P", "-m", engine.__name__
                pipes: dict[str, Any] = {
                    "stdin": PIPE,
                    "stdout": PIPE,
                    "stderr": DEVNULL,
                    "limit": 1 << 20,
                }
                # Ctrl-C is not for it, even while it starts.
                process = await asyncio.create_subprocess_exec(
                    *command, env=_environment(), start_new_session=True, **pipes
                )
                await self._load(process)
            reply = (
                await _exchange(process, request, self._setup.seconds) if request else (None, "")
            )
        except BaseException:
            try:
                if process is not None:
                    await _kill(process)
            finally:
                self._idle.put_nowait(None)
            raise
        self._idle.put_nowait(process)
        return reply

    async def _load(self, process: Process) -> None:
        try:
            kind, problem = await _exchange(process, self._setup, LOADING_SECONDS)
        except QueryFailed:
            kind, problem = "unavailable", "the process that loads it died, or took too long"
        if kind is not None:
            raise ExecutionUnavailable(f"{self._where}: cannot be read: {problem}")

    async def aclose(self) -> None:
        """Kill all processes, once their queries have ended, and wait for their end."""
        limit, self._limit = self._limit, 0
        for _ in range(limit):
            if (process := await self._idle.get()) is not None:
                await _kill(process)


async def _exchange(process: Process, message: Any, seconds: float) -> Reply:
    """Send a message and return the reply, if one comes in time."""
    assert process.stdin is not None and process.stdout is not None  # noqa: PT018, S101
    try:
        async with asyncio.timeout(seconds):
            process.stdin.write(frame(message))
            await process.stdin.drain()
            [size] = LENGTH.unpack(await process.stdout.readexactly(LENGTH.size))
            data = await process.stdout.readexactly(size)
            reply: Reply = msgspec.msgpack.decode(data, type=Reply)
            return reply
    except TimeoutError:
        raise QueryFailed("failed", f"it took more than {seconds:g} s", is_slow=True) from None
    except (ConnectionError, asyncio.IncompleteReadError):
        died = "the query engine died: the query needs too much memory, or nests too deep"
        raise QueryFailed("failed", died) from None


async def _kill(process: Process) -> None:
    """Kill a process, and wait until it has ended, even if this is cancelled."""

    async def end() -> None:
        assert process.stdin is not None and process.stdout is not None  # noqa: PT018, S101
        process.stdin.close()
        while await process.stdout.read(1 << 20):
            pass  # Its pipe closes once all of it is read.
        await process.wait()

    with suppress(ProcessLookupError):
        process.kill()
    await asyncio.shield(end())


def _environment() -> dict[str, str]:
    """The environment of a process: enough to find the same packages, without secrets."""
    package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(engine.__file__))))
    names = ("PATH", "LD_LIBRARY_PATH", "SYSTEMROOT")
    kept = {name: os.environ[name] for name in names if name in os.environ}
    return kept | {"PYTHONPATH": os.pathsep.join([*filter(os.path.isabs, sys.path), package])}
