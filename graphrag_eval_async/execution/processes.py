"""Processes that run queries on a file, and are killed if a query takes too long."""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from graphrag_eval_async.catalogue.media_types import CYPHER_RESULTS, SPARQL_RESULTS
from graphrag_eval_async.errors import ExecutionUnavailable
from graphrag_eval_async.execution.outcomes import Answer, QueryFailed, now
from graphrag_eval_async.execution.worker import LENGTH, Reply, Request, Setup, framed
from graphrag_eval_async.steps.tokens import GRAPH_FORMS, form_of, tokens

if TYPE_CHECKING:
    from asyncio.subprocess import Process
    from collections.abc import Callable

    from graphrag_eval_async.execution.outcomes import Query

N_TRIPLES = "application/n-triples"

LOADING_SECONDS = 600.0
"""Maximum seconds for loading the graph."""

PIPE_BYTES = 1 << 20
"""About how many bytes of a reply are read ahead."""


@dataclass(frozen=True)
class Engine:
    """A program that runs queries.

    Attributes:
        module: the module that is run as a process.
        media_type: takes a query, and returns the media type of its result.
    """

    module: str
    media_type: Callable[[str], str]


def _media_type_of_sparql(query: str) -> str:
    """Return the media type of the result of a SPARQL query, which is a graph or a table."""
    if form_of(query) in GRAPH_FORMS:
        return N_TRIPLES
    return SPARQL_RESULTS


def _media_type_of_cypher(_query: str) -> str:
    """Return the media type of the result of any Cypher query."""
    return CYPHER_RESULTS


OXIGRAPH = Engine("graphrag_eval_async.execution.engine", _media_type_of_sparql)
LADYBUG = Engine("graphrag_eval_async.execution.ladybug_engine", _media_type_of_cypher)


class Processes:
    """Up to `limit` processes, started on demand; each runs one query at a time."""

    def __init__(self, setup: Setup, limit: int, where: str, engine: Engine = OXIGRAPH) -> None:
        """Prepare processes, without starting one.

        Args:
            setup: the settings that each process gets at its start.
            limit: maximum number of processes.
            where: the key of the configuration and the path of the graph, for errors.
            engine: the program that each process runs.
        """
        self._setup = setup
        self._limit = limit
        self._where = where
        self._engine = engine
        # Idle processes; the one that was used last is taken first. None stands for a process that
        # can still be started.
        self._idle: asyncio.LifoQueue[Process | None] = asyncio.LifoQueue()
        for _ in range(limit):
            self._idle.put_nowait(None)

    async def open(self) -> None:
        """Start a process, which loads the graph.

        Raises:
            ExecutionUnavailable: the graph cannot be read.
        """
        await self._call(None)

    async def run(self, query: Query, *, of_agent: bool = False) -> Answer:  # noqa: ARG002
        """Run a query.

        A failure on a file is always that of the query, so `of_agent` makes no difference.

        Raises:
            QueryFailed: the query has no answer.
        """
        start_time = now()
        try:
            request = Request(query.text, dict(query.prefixes), query.parameters)
            reply = await self._call(request)
        except ExecutionUnavailable as error:
            # For example, the file was changed since the first process loaded it.
            raise QueryFailed("unavailable", str(error)) from None
        if reply.failure is not None:
            raise QueryFailed(reply.failure, reply.text, is_slow=reply.is_slow)
        return Answer(reply.text, self._engine.media_type(query.text), start_time)

    async def parse(self, query: str) -> str | None:
        """Return why a SPARQL query does not parse; prefixes need not be declared.

        Returns:
            None if the query parses, or if parsing it takes too long.
        """
        # Declare whatever may be a prefix.
        names = {token.text.partition(":")[0] for token in tokens(query) if token.kind == "name"}
        prefixes = {name: f"urn:prefix:{name}:" for name in names}
        try:
            reply = await self._call(Request(query, prefixes))
        except (QueryFailed, ExecutionUnavailable):
            return None
        if reply.failure != "invalid":
            return None
        return reply.text

    async def _call(self, request: Request | None) -> Reply:
        """Send a request to an idle process, and return the reply.

        If all processes are busy, wait for one. If anything fails, or if this is cancelled, the
        process is killed.

        Args:
            request: the request; None to start a process without asking for anything.

        Raises:
            QueryFailed: the process died, or took too long.
            ExecutionUnavailable: a process had to be started, and the graph cannot be read.
        """
        process = await self._idle.get()
        try:
            # The system may have ended the process while it was idle.
            if process is not None and process.returncode is not None:
                process = None
            if process is None:
                process = await self._start()
                await self._load(process)
            reply = Reply()
            if request is not None:
                reply = await _exchange(process, request, self._setup.seconds)
        except BaseException:
            try:
                if process is not None:
                    await _kill(process)
            finally:
                self._idle.put_nowait(None)
            raise
        self._idle.put_nowait(process)
        return reply

    async def _start(self) -> Process:
        """Start a process that runs the engine and has not loaded the graph yet."""
        return await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",
            "-m",
            self._engine.module,
            stdin=PIPE,
            stdout=PIPE,
            stderr=DEVNULL,
            limit=PIPE_BYTES,
            env=_environment(),
            # Ctrl-C is not for the process, even while it starts.
            start_new_session=True,
        )

    async def _load(self, process: Process) -> None:
        """Let a process load the graph.

        Raises:
            ExecutionUnavailable: the process cannot load it.
        """
        try:
            reply = await _exchange(process, self._setup, LOADING_SECONDS)
        except QueryFailed:
            message = "the process that loads it died, or took too long"
            reply = Reply(message, failure="unavailable")
        if reply.failure is not None:
            raise ExecutionUnavailable(f"{self._where}: cannot be read: {reply.text}")

    async def aclose(self) -> None:
        """Wait for running queries to end, and kill all processes."""
        # With a limit of 0, a second call has nothing to wait for.
        limit = self._limit
        self._limit = 0
        for _ in range(limit):
            process = await self._idle.get()
            if process is not None:
                await _kill(process)


async def _exchange(process: Process, message: msgspec.Struct, seconds: float) -> Reply:
    """Send a message to a process, and return the reply.

    Raises:
        QueryFailed: no reply comes in time, or the process died.
    """
    assert process.stdin is not None and process.stdout is not None  # noqa: PT018, S101
    try:
        async with asyncio.timeout(seconds):
            process.stdin.write(framed(message))
            await process.stdin.drain()
            [size] = LENGTH.unpack(await process.stdout.readexactly(LENGTH.size))
            data = await process.stdout.readexactly(size)
            return msgspec.msgpack.decode(data, type=Reply)
    except TimeoutError:
        raise QueryFailed("failed", f"it took more than {seconds:g} s", is_slow=True) from None
    except (ConnectionError, asyncio.IncompleteReadError):
        died = "the query engine died: the query needs too much memory, or nests too deep"
        raise QueryFailed("failed", died) from None


async def _kill(process: Process) -> None:
    """Kill a process, and wait until it has ended; it is waited for even if this is cancelled."""

    async def wait_for_end() -> None:
        """Read all that `process` still wrote, since its pipe closes only then, and wait."""
        assert process.stdin is not None and process.stdout is not None  # noqa: PT018, S101
        process.stdin.close()
        while await process.stdout.read(PIPE_BYTES):
            pass
        await process.wait()

    with suppress(ProcessLookupError):
        process.kill()
    await asyncio.shield(wait_for_end())


def _environment() -> dict[str, str]:
    """Return the environment of a process: enough to find the same packages, without secrets."""
    package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    absolute_paths = filter(os.path.isabs, sys.path)
    environment = {"PYTHONPATH": os.pathsep.join([*absolute_paths, package])}
    for name in ("PATH", "LD_LIBRARY_PATH", "SYSTEMROOT"):
        if name in os.environ:
            environment[name] = os.environ[name]
    return environment
