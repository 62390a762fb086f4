"""Entries in a stream, workers in this process or in others, and what they should find together."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import orjson
import redis

from graphrag_eval_async import evaluate_stream
from graphrag_eval_async.scale import redis_stream
from tests.scale.responses import CONFIG, REFERENCE, number_in, reply

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from graphrag_eval_async import TokenUsage
    from graphrag_eval_async.scale.redis.source import RedisStream
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
    """Appends a line to a file for each call.

    From the number `held_from` on, it answers once there is a file `go` beside that one.
    """

    model = "scripted"

    def __init__(self, calls: Path, *, held_from: int | None = None) -> None:
        self._calls = os.open(calls, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._go, self._held_from = calls.with_name("go"), held_from

    async def complete(
        self, messages: Sequence[Mapping[str, str]], _: Mapping[str, Any]
    ) -> tuple[Any, TokenUsage]:
        number = number_in(messages)
        os.write(self._calls, b"%d\n" % number)
        if self._held_from is not None and number >= self._held_from:
            while not self._go.exists():  # noqa: ASYNC110  (another process makes it)
                await asyncio.sleep(0.02)
        return reply(number)

    async def embed(self, _: Any) -> Any:
        raise NotImplementedError


def source_at(server: RedisServer, **options: Any) -> RedisStream:
    return redis_stream(server.url, "responses", group="eval", **options)


async def work(
    server: RedisServer,
    *,
    calls: Path | None = None,
    held_from: int | None = None,
    max_in_flight: int = 256,
    **options: Any,
) -> list[dict[str, Any]]:
    """The results that one worker commits until the stream is drained; with `calls`, a judge is asked."""
    options = {"drain": True, "claim_after_sec": 1.0} | options
    judged: dict[str, Any] = {}
    if calls is not None:
        judged = {"config": CONFIG, "judge": Judge(calls, held_from=held_from)}
    async with asyncio.timeout(SECONDS):
        stream = evaluate_stream(
            REFERENCE,
            source_at(server, **options),
            on_reject=lambda _: None,
            max_in_flight=max_in_flight,
            **judged,
        )
        async with stream:
            return [result async for result in stream]


async def start_worker(server: RedisServer, calls: Path, **options: Any) -> asyncio.subprocess.Process:
    """The same in a process of its own."""
    given = orjson.dumps(options).decode()
    run = "from tests.scale.redis.support import main; main()"  # So that it has the same judge as others.
    return await asyncio.create_subprocess_exec(
        sys.executable, "-c", run, f"{server.port}", str(calls), given
    )


def stored(server: RedisServer, kind: str = "result") -> list[dict[str, Any]]:
    """All results on the server, or with "reject", the rejects."""
    with client(server) as open_client:
        entries = open_client.xrange(f"{GROUP}:{kind}s")
        return [orjson.loads(fields[kind.encode()]) for _, fields in entries]


def alike(results: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Results in one order, without their places."""
    shown = [{key: value for key, value in result.items() if key != "source"} for result in results]
    return sorted(shown, key=number_of)


def number_of(result: Mapping[str, Any]) -> int:
    """The number of the response."""
    return int(result["metadata"]["number"])


def main() -> None:
    """Be such a process."""
    _, port, calls, given = sys.argv
    place: Any = SimpleNamespace(url=f"redis://127.0.0.1:{port}")
    asyncio.run(work(place, calls=Path(calls), **orjson.loads(given)))
