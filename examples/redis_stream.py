"""Evaluate the responses that agents add to a Redis stream: each entry once, even if this process
is killed.

redis-cli XADD responses '*' response '{"question_id": "settings-lindau", "actual_answer": "..."}'
python examples/redis_stream.py redis://localhost examples/reference.yaml worker-1.jsonl

The journal and the consumer have one name and belong together. Redis delivers what a consumer did
not acknowledge to that consumer again when it restarts, and the stream skips what the journal has.
So give each worker a journal of its own; `graphrag-eval-async aggregate worker-*.jsonl` merges
their results.
"""

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import ResponseError

from graphrag_eval_async import evaluate_stream

STREAM = "responses"
GROUP = "evaluation"


async def evaluate(redis: Redis, reference: str, journal: str) -> None:
    """Evaluate entries until Ctrl-C, then finish and acknowledge those that were read."""
    consumer = Path(journal).name
    stopping = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)

    async def responses() -> AsyncIterator[dict[str, Any] | str]:
        # First what an earlier run of this consumer did not acknowledge, then new entries.
        start = "0"
        while not stopping.is_set():
            reply: Any = await redis.xreadgroup(
                GROUP, consumer, {STREAM: start}, count=256, block=1000
            )
            entries = reply[0][1] if reply else []
            if not entries:
                start = ">"
                continue

            for entry_id, fields in entries:
                yield as_response(entry_id.decode(), fields)
            # Once none is in flight, the journal has all: as results, as rejects, or from an
            # earlier run.
            is_journaled = False
            while not is_journaled:
                is_journaled = stream.in_flight == 0
                # If an evaluation has failed, the stream ends the reading here.
                await asyncio.sleep(0.01)
            await redis.xack(STREAM, GROUP, *[entry_id for entry_id, _ in entries])

    await create_group(redis)
    # With "content", the stream skips entries that the journal has. Equal responses differ by their
    # entry.
    stream = evaluate_stream(reference, responses(), journal=journal, dedupe="content")
    async with stream:
        async for result in stream:
            print(
                result["metadata"]["entry"],
                result["question_id"],
                result.get("steps_score"),
                flush=True,
            )
        print(f"rejected: {stream.rejects.total}, skipped as done: {stream.skipped}")


async def create_group(redis: Redis) -> None:
    """Create the group, which begins with the first entry, unless it exists."""
    try:
        await redis.xgroup_create(STREAM, GROUP, id="0", mkstream=True)
    except ResponseError as error:
        if not str(error).startswith("BUSYGROUP"):
            raise


def as_response(entry: str, fields: dict[bytes, bytes]) -> dict[str, Any] | str:
    """Return the response of an entry with its id, or a text that the stream rejects, if it
    holds none.
    """
    try:
        return {**json.loads(fields[b"response"]), "entry": entry}
    except (KeyError, TypeError, ValueError, RecursionError):
        return f"entry {entry} holds no response: {fields!r}"


async def main(url: str, reference: str, journal: str) -> None:
    async with Redis.from_url(url, protocol=2) as redis:
        await evaluate(redis, reference, journal)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
