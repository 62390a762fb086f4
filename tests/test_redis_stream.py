"""`examples/redis_stream.py` beside a real server, through kills at the worst moments."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections import Counter
from pathlib import Path
from runpy import run_path
from typing import TYPE_CHECKING, Any

from redis import Redis
from redis.asyncio import Redis as AsyncRedis

from graphrag_eval_async import compute_aggregates, run_evaluation
from tests.support.deadlines import WAIT_SECONDS, until
from tests.support.redis_server import redis_server

if TYPE_CHECKING:
    from collections.abc import Iterable

EXAMPLES = Path(__file__).parents[1] / "examples"
EXAMPLE = EXAMPLES / "redis_stream.py"
REFERENCE = EXAMPLES / "reference.yaml"
LINES = (EXAMPLES / "responses.jsonl").read_bytes().splitlines()

UNREADABLE = [
    b"{",
    b"{",
    b"[1]",
    b'{"question_id": "\xff"}',
    b'{"question_id":\n"' + b"[" * 100_000,
]
UNKNOWN = b'{"question_id": "nobody"}'


class DyingRedis(AsyncRedis):
    """Kills its process when a command has taken entries, or before it acknowledges them."""

    dies_at = ""

    async def execute_command(self, *args: Any, **options: Any) -> Any:
        if args[0] == self.dies_at == "XACK":
            os.kill(os.getpid(), signal.SIGKILL)
        redis: Any = super()  # Its types differ between versions.
        reply = await redis.execute_command(*args, **options)
        if args[0] == self.dies_at == "XREADGROUP" and reply and reply[0][1]:
            os.kill(os.getpid(), signal.SIGKILL)
        return reply


def main() -> None:
    """Run the example with a client that dies."""
    _, port, journal, DyingRedis.dies_at = sys.argv
    client = DyingRedis(port=int(port), protocol=2)
    asyncio.run(run_path(str(EXAMPLE))["evaluate"](client, str(REFERENCE), journal))


async def killed_at(command: str, port: int, journal: Path) -> None:
    script = "from tests.test_redis_stream import main; main()"
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", script, f"{port}", journal, command
    )
    async with asyncio.timeout(WAIT_SECONDS):
        assert await process.wait() == -signal.SIGKILL


async def start(port: int, journal: Path) -> asyncio.subprocess.Process:
    """Run the example as a user does."""
    arguments = f"redis://127.0.0.1:{port}", str(REFERENCE), str(journal)
    output = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(sys.executable, EXAMPLE, *arguments, stdout=output)


def add(client: Redis, responses: Iterable[bytes]) -> list[str]:
    """Add entries to the stream; return their ids."""
    pipeline = client.pipeline(transaction=False)
    for response in responses:
        pipeline.xadd("responses", {"response": response})
    return [entry.decode() for entry in pipeline.execute()]


def pending(client: Redis) -> int:
    return int(client.xpending("responses", "evaluation")["pending"])


def is_drained(client: Redis) -> bool:
    [group] = client.xinfo_groups("responses")
    return bool(group["lag"] == 0 and group["pending"] == 0)


def records(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


async def test_each_entry_counts_once_through_kills(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    journal = tmp_path / "worker-1.jsonl"
    with (
        redis_server(data) as port,
        Redis(port=port, protocol=2, socket_timeout=WAIT_SECONDS) as client,
    ):
        readable = add(client, LINES * 10)
        unreadable = add(client, UNREADABLE)
        unknown = add(client, [UNKNOWN])
        unreadable.append(client.xadd("responses", {"other": "{}"}).decode())
        taken = len(readable + unreadable + unknown)

        await killed_at("XREADGROUP", port, journal)
        assert (pending(client), records(journal)) == (taken, []), "taken, not evaluated"
        await killed_at("XACK", port, journal)
        assert (pending(client), len(records(journal))) == (taken, len(readable)), (
            "not acknowledged"
        )

        readable += add(client, LINES * 100)
        process = await start(port, journal)
        assert process.stdout is not None
        async with asyncio.timeout(WAIT_SECONDS):
            for _ in range(300):  # More than one batch of entries, and less than all.
                assert await process.stdout.readline()
            process.kill()
            await process.communicate()
        assert not is_drained(client), "killed before it was done"

        process = await start(port, journal)
        await until(lambda: is_drained(client), "acknowledged entries")
        process.send_signal(signal.SIGINT)
        async with asyncio.timeout(WAIT_SECONDS):
            output, _ = await process.communicate()
        assert process.returncode == 0
        assert f"rejected: {len(unreadable + unknown)}, " in output.decode().splitlines()[-1]

    results = records(journal)
    assert Counter(result["metadata"]["entry"] for result in results) == Counter(readable)
    rejects = records(Path(f"{journal}.rejects"))
    reasons = {"invalid_json": len(unreadable), "unknown_question_id": len(unknown)}
    assert Counter(reject["reason"] for reject in rejects) == reasons
    places = [f"entry {entry}" for entry in unreadable]
    places += [f'{{"question_id":"nobody","entry":"{entry}"}}' for entry in unknown]
    contents = [reject["content"].partition(" holds no response: ")[0] for reject in rejects]
    assert Counter(contents) == Counter(places)
    responses = [json.loads(line) for line in LINES * 110]
    in_one_process = await run_evaluation(REFERENCE, responses, missing="skip")
    assert compute_aggregates(results) == compute_aggregates(in_one_process)
