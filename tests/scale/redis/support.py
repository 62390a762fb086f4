"""Entries in a stream, workers in this process or in others, and what they should find together."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import orjson
import redis

from graphrag_eval_async import evaluate_stream
from graphrag_eval_async.scale import redis_stream
from tests.scale.responses import CONFIG, REFERENCE, Judge

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

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


def source_at(server: RedisServer, **options: Any) -> RedisStream:
    return redis_stream(server.url, "responses", group="eval", **options)


async def work(
    server: RedisServer,
    *,
    folder: Path | None = None,
    held_from: int | None = None,
    max_in_flight: int = 256,
    **options: Any,
) -> list[dict[str, Any]]:
    """The results that one worker commits until the stream is drained; with a `folder`, a judge is asked."""
    options = {"drain": True, "claim_after_sec": 1.0} | options
    judged: dict[str, Any] = {}
    if folder is not None:
        judged = {"config": CONFIG, "judge": Judge(folder, held_from=held_from)}
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


async def start_worker(server: RedisServer, folder: Path, **options: Any) -> asyncio.subprocess.Process:
    """The same in a process of its own."""
    given = orjson.dumps(options).decode()
    run = "from tests.scale.redis.support import main; main()"  # So that it has the same judge as others.
    return await asyncio.create_subprocess_exec(
        sys.executable, "-c", run, f"{server.port}", str(folder), given
    )


def stored(server: RedisServer, kind: str = "result") -> list[dict[str, Any]]:
    """All results on the server, or with "reject", the rejects."""
    with client(server) as open_client:
        entries = open_client.xrange(f"{GROUP}:{kind}s")
        return [orjson.loads(fields[kind.encode()]) for _, fields in entries]


def number_of(result: Mapping[str, Any]) -> int:
    """The number of the response."""
    return int(result["metadata"]["number"])


def main() -> None:
    """Be such a process."""
    _, port, folder, given = sys.argv
    place: Any = SimpleNamespace(url=f"redis://127.0.0.1:{port}")
    asyncio.run(work(place, folder=Path(folder), **orjson.loads(given)))
