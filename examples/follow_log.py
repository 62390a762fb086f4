"""An agent appends to a log, and rotates it; the log is evaluated while it grows.

The second run goes on with the journal of the first: what was evaluated is not evaluated again.
"""

import asyncio
import os
import tempfile
from pathlib import Path

from graphrag_eval_async import evaluate_stream, follow_jsonl

EXAMPLES = Path(__file__).parent


async def run_agent(log: Path, lines: list[str], done: asyncio.Event) -> None:
    """Stands for your agent: writes each line in two pieces, and begins a new file after three."""
    for number, line in enumerate(lines):
        if number == 3:
            os.rename(log, f"{log}.1")
        append(log, line[:500])
        await asyncio.sleep(0.02)
        append(log, line[500:])
    done.set()


def append(log: Path, text: str) -> None:
    with log.open("a") as file:
        file.write(text)


async def evaluate(log: Path, journal: Path, done: asyncio.Event) -> None:
    source = follow_jsonl(log, stop=done)
    async with evaluate_stream(EXAMPLES / "reference.yaml", source, journal=journal) as stream:
        async for result in stream:
            print(
                result["question_id"], result["steps_score"], "at byte", result["source"]["offset"]
            )
    micro = stream.aggregates.snapshot()["micro"]
    print(
        f"{micro['number_of_success_samples']} answers so far, steps score "
        f"{micro['steps_score']['mean']:.3f}"
    )


async def main() -> None:
    lines = (EXAMPLES / "responses.jsonl").read_text().splitlines(keepends=True)
    with tempfile.TemporaryDirectory() as folder:
        log, journal = Path(folder, "agent.jsonl"), Path(folder, "results.jsonl")
        for part in (lines[:5], lines[5:]):
            done = asyncio.Event()
            await asyncio.gather(run_agent(log, part, done), evaluate(log, journal, done))


if __name__ == "__main__":
    asyncio.run(main())
