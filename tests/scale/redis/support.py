"""Entries in a stream, workers in this process or in others, and what they should find together."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import redis

from graphrag_eval_async import RunningAggregates, TokenUsage, evaluate_stream, load_reference
from graphrag_eval_async.scale.redis.source import RedisStream, redis_stream
from tests.conftest import answer, templates

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Mapping, Sequence

    from tests.redis_server import RedisServer

QUESTIONS = 7
REFERENCE = load_reference(
    [
        {
            **template,
            "questions": [question | {"reference_answer": "It is."} for question in template["questions"]],
        }
        for template in templates(QUESTIONS)
    ]
)
CONFIG: dict[str, Any] = {"answer_correctness": {}}
GROUP = "{responses}:eval"
SECONDS = 100.0
"""How long anything may take."""


def response(number: int, **more: Any) -> dict[str, Any]:
    """A response; some are errors, and some have a wrong step."""
    given = answer(number % QUESTIONS, number=number, actual_answer=f"It is. NUMBER {number}", **more)
    if number % 11 == 3:
        return {"question_id": given["question_id"], "number": number, "error": "TimeoutError"}
    if number % 5 == 1:
        given["actual_steps"][0]["output"] = "41"
    return given | {"elapsed_sec": number / 7}


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
    """Appends a line to a file for each call, which takes a moment."""

    model = "scripted"

    def __init__(self, calls: Path) -> None:
        self._calls = os.open(calls, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    async def complete(
        self, messages: Sequence[Mapping[str, str]], _: Mapping[str, Any]
    ) -> tuple[Any, TokenUsage]:
        number = messages[-1]["content"].rpartition("NUMBER ")[2].split()[0]
        os.write(self._calls, number.encode() + b"\n")
        await asyncio.sleep(int(number) % 10 / 100)
        found = [{"reference": 0, "actual": 0}] if int(number) % 3 else []
        reply = {"reference_claims": ["a"], "actual_claims": ["a"], "reason": "", "matches": found}
        return reply, TokenUsage(100, 20)

    async def embed(self, _: Any) -> Any:
        raise NotImplementedError


def source_at(server: RedisServer, **options: Any) -> RedisStream:
    return redis_stream(server.url, "responses", group="eval", **options)


async def work(server: RedisServer, *, calls: Path | None = None, **options: Any) -> list[dict[str, Any]]:
    """The results that one worker commits until the stream is drained."""
    options = {"drain": True, "claim_after_sec": 1.0} | options
    judged: dict[str, Any] = {} if calls is None else {"config": CONFIG, "judge": Judge(calls)}
    async with asyncio.timeout(SECONDS):
        stream = evaluate_stream(REFERENCE, source_at(server, **options), on_reject=_ignore, **judged)
        async with stream:
            return [result async for result in stream]


def _ignore(_: object) -> None:
    """It is in the stream of rejects."""


async def in_one_process(
    entries: Iterable[Mapping[str, Any]], *, calls: Path | None = None
) -> tuple[list[dict[str, Any]], RunningAggregates]:
    """The results of one stream, without what a worker does not know, and their aggregates."""
    judged: dict[str, Any] = {} if calls is None else {"config": CONFIG, "judge": Judge(calls)}

    async def one_by_one() -> AsyncIterator[Any]:
        for entry in entries:
            yield entry

    stream = evaluate_stream(REFERENCE, one_by_one(), on_reject=_ignore, **judged)
    aggregates = RunningAggregates(templates=REFERENCE.templates, steps=REFERENCE.step_names)
    results = []
    async with stream:
        async for result in stream:
            del result["sample"]
            aggregates.add(result)
            results.append(result)
    return results, aggregates


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
