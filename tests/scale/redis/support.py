"""Entries in a stream, workers in this process or in others, and what they should find together."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import redis

from graphrag_eval_async import evaluate_stream
from graphrag_eval_async.scale.redis.source import RedisStream, redis_stream
from tests.scale.responses import CONFIG, REFERENCE, number_in, reply

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from graphrag_eval_async import TokenUsage
    from tests.support.redis_server import RedisServer

GROUP = "{responses}:eval"
SECONDS = 100.0
"""How long anything may take."""


def client(server: RedisServer) -> redis.Redis:
    return redis.Redis(port=server.port, socket_timeout=SECONDS, protocol=2)


def fill(server: RedisServer, entries: Iterable[Any]) -> None:
    """Add entries to the stream `responses`."""
    with client(server) as open_client:
        pipeline = open_client.pipeline(transaction=False)
        for entry in entries:
            data = entry if isinstance(entry, bytes) else orjson.dumps(entry)
            pipeline.xadd("responses", {"response": data})
        pipeline.execute()


class Judge:
    """Appends a line to a file for each call, which takes a moment.

    From the number `held_from` on, it answers once there is a file `go` beside that one.
    """

    model = "scripted"

    def __init__(self, calls: Path, *, seconds: float | None = None, held_from: int | None = None) -> None:
        """Each call takes `seconds`, or by its number up to 0.09 s."""
        self._calls = os.open(calls, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._go = calls.with_name("go")
        self._seconds, self._held_from = seconds, held_from

    async def complete(
        self, messages: Sequence[Mapping[str, str]], _: Mapping[str, Any]
    ) -> tuple[Any, TokenUsage]:
        number = number_in(messages)
        os.write(self._calls, b"%d\n" % number)
        await asyncio.sleep(number % 10 / 100 if self._seconds is None else self._seconds)
        if self._held_from is not None and number >= self._held_from:
            while not self._go.exists():  # noqa: ASYNC110  (another process makes it)
                await asyncio.sleep(0.02)
        return reply(number)

    async def embed(self, _: Any) -> Any:
        raise NotImplementedError


def source_at(server: RedisServer, **options: Any) -> RedisStream:
    return redis_stream(server.url, "responses", group="eval", **options)


async def work(
    server: RedisServer, *, calls: Path | None = None, judge: dict[str, Any] | None = None, **options: Any
) -> list[dict[str, Any]]:
    """The results that one worker commits until the stream is drained; `judge` has options of a `Judge`."""
    options = {"drain": True, "claim_after_sec": 1.0} | options
    judged: dict[str, Any] = {} if calls is None else {"config": CONFIG, "judge": Judge(calls, **judge or {})}
    async with asyncio.timeout(SECONDS):
        stream = evaluate_stream(REFERENCE, source_at(server, **options), on_reject=_ignore, **judged)
        async with stream:
            return [result async for result in stream]


def _ignore(_: object) -> None:
    """It is in the stream of rejects."""


def stored(server: RedisServer) -> list[dict[str, Any]]:
    """All results on the server."""
    with client(server) as open_client:
        return [orjson.loads(fields[b"result"]) for _, fields in open_client.xrange(f"{GROUP}:results")]


def rejected(server: RedisServer) -> list[dict[str, Any]]:
    """All rejects on the server."""
    with client(server) as open_client:
        return [orjson.loads(fields[b"reject"]) for _, fields in open_client.xrange(f"{GROUP}:rejects")]


def alike(results: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Results in one order, without their places."""
    shown = [{key: value for key, value in result.items() if key != "source"} for result in results]
    return sorted(shown, key=number_of)


def number_of(result: Mapping[str, Any]) -> int:
    """The number of the response."""
    return int(result["metadata"]["number"])


async def start_worker(server: RedisServer, calls: Path | str, **options: Any) -> asyncio.subprocess.Process:
    """A worker in a process of its own, that runs until the stream is drained."""
    given = orjson.dumps(options).decode()
    command = ("-m", "tests.scale.redis.support", f"{server.port}", f"{calls}", given)
    return await asyncio.create_subprocess_exec(sys.executable, *command)


class _At:
    def __init__(self, port: str) -> None:
        self.url = f"redis://127.0.0.1:{port}"


if __name__ == "__main__":
    _, port, path, given = sys.argv
    place: Any = _At(port)
    asyncio.run(work(place, calls=Path(path) if path else None, **orjson.loads(given)))
