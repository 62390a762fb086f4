"""Ask a toy agent every question of a reference set, three at a time, and evaluate it while it
answers.

python examples/live_harness.py
"""

import asyncio
from pathlib import Path
from random import Random
from typing import Any

from graphrag_eval_async import Question, evaluate_agent

REFERENCE = Path(__file__).with_name("reference.yaml")


async def toy_agent(question: Question) -> list[dict[str, Any]]:
    """Stands for your agent: thinks, then takes the last of the reference steps, or none."""
    chance = Random(question.id)
    await asyncio.sleep(chance.uniform(0.05, 0.2))
    steps = [step for group in question.reference_steps or () for step in group][-1:]
    return [{**step, "status": "success"} for step in steps if chance.random() < 0.5]


async def main() -> None:
    async with evaluate_agent(REFERENCE, toy_agent, max_concurrency=3, timeout=60) as stream:
        async for result in stream:
            print(f"{result['question_id']:24} {result['status']} {result.get('steps_score')}")
    print("mean", stream.aggregates.snapshot()["micro"]["steps_score"]["mean"])


if __name__ == "__main__":
    asyncio.run(main())
