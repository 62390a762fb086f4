"""A server in a process of its own: prints its base URL and serves until its standard input is closed.

GET /stats of its host tells what it saw.
"""

from __future__ import annotations

import argparse
import asyncio
import sys

from tests.judge_server import JudgeServer, random_faults


async def serve(latency: float, faults: float, seed: int, names: list[str] | None) -> None:
    """Until there is no more input."""
    script = random_faults(faults, seed=seed, names=names)
    async with JudgeServer(script, latency=latency, keep_requests=False) as server:
        print(server.base_url, flush=True)  # noqa: T201
        await asyncio.to_thread(sys.stdin.read)


def main() -> None:
    """Of the command line."""
    parser = argparse.ArgumentParser("judge_server", description=__doc__)
    parser.add_argument("--latency", type=float, default=0.0, help="of each reply, in seconds")
    parser.add_argument("--faults", type=float, default=0.0, help="the share of requests that fail")
    parser.add_argument("--seed", type=int, default=0, help="which they are")
    parser.add_argument("--names", type=lambda text: text.split(","), help="of faults, parted by commas")
    options = parser.parse_args()
    asyncio.run(serve(options.latency, options.faults, options.seed, options.names))


if __name__ == "__main__":
    main()
