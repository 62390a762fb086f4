"""The judge of the benchmarks: the tests' server in a process of its own, with replies that fit our
metrics.

python -m bench.judge_process --latency 0.1
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tests.support.judge_server import NEVER, JudgeServer, completion, reply_to

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.judge_server import Reply, Request

CLAIMS = {
    "reference_claims": [
        "Varna is a substation.",
        "Burgas is a substation.",
        "Plovdiv is a substation.",
    ],
    "actual_claims": ["Varna is a substation.", "Sofia is a substation."],
    "reason": "Both name Varna; the actual answer leaves out Burgas and Plovdiv, and adds Sofia.",
    "matches": [{"reference": 0, "actual": 0}],
}
PINNED = {
    "AnswerClaims": completion(CLAIMS, usage=(900, 80)),
    # A committal one: for others ragas needs no embeddings.
    "AnswerRelevanceOutput": completion(
        {"question": "Which substations are there?", "noncommittal": 0}
    ),
}
"""By the name of the schema; other replies are the server's own."""


def reply(request: Request) -> Reply:
    """The script of the server."""
    described = request.body.get("response_format", {}).get("json_schema", {})
    return PINNED.get(described.get("name")) or reply_to(request)


def never(_: Request) -> Reply:
    """The script of one that leaves all requests waiting."""
    return NEVER


@contextmanager
def serving(*arguments: str) -> Iterator[str]:
    """The base URL of a server in another process, to whose command line the arguments go."""
    command = [sys.executable, "-m", "bench.judge_process", *arguments]
    pipe = subprocess.PIPE
    # leaving closes its input
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as server:
        assert server.stdout is not None  # noqa: S101
        yield server.stdout.readline().strip()


async def _serve(latency: float, *, answers: bool) -> None:
    async with JudgeServer(
        reply if answers else never, latency=latency, keep_requests=False
    ) as server:
        print(server.base_url, flush=True)
        await asyncio.to_thread(sys.stdin.read)


def main() -> None:
    parser = argparse.ArgumentParser("judge_process", description=__doc__)
    parser.add_argument("--latency", type=float, default=0.0, help="of each reply, in seconds")
    parser.add_argument("--never", action="store_true", help="reply to nothing")
    options = parser.parse_args()
    asyncio.run(_serve(options.latency, answers=not options.never))


if __name__ == "__main__":
    main()
