"""Evaluate a toy harness that runs by itself: it pushes each response into the stream when an agent
is done.

Where the library may call your agent, `evaluate_agent` does all of this: see live_harness.py.

python examples/pushing_harness.py
"""

from __future__ import annotations

import random
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import anyio

from graphrag_eval_async import Question, evaluate_stream, load_reference

if TYPE_CHECKING:
    from anyio.abc import ObjectSendStream

REFERENCE = Path(__file__).with_name("reference.yaml")
AGENTS_AT_ONCE = 3


async def toy_agent(question: Question, chance: random.Random) -> list[dict[str, Any]]:
    """Stands for your agent: thinks, then repeats the reference steps, or forgets the last one."""
    await anyio.sleep(chance.uniform(0.05, 0.2))
    steps = [
        {
            **step,
            "name": {"iri_discovery": "autocomplete_search"}.get(step["name"], step["name"]),
            "id": f"call_{number}",
            "status": "success",
        }
        for number, step in enumerate(
            step for group in question.reference_steps or () for step in group
        )
    ]
    if chance.random() < 0.5:
        steps.pop()
    return steps


async def answer(
    question: Question, responses: ObjectSendStream[dict[str, Any]], slots: anyio.Semaphore
) -> None:
    """Have the agent answer one question, and send what there is to evaluate."""
    async with slots:
        started = perf_counter()
        steps = await toy_agent(question, random.Random(question.id))
        await responses.send(
            {
                "question_id": question.id,
                "actual_steps": steps,
                "elapsed_sec": perf_counter() - started,
            }
        )


async def main() -> None:
    reference = load_reference(REFERENCE)
    send, receive = anyio.create_memory_object_stream[dict[str, Any]]()
    slots = anyio.Semaphore(AGENTS_AT_ONCE)

    async def harness() -> None:
        async with send, anyio.create_task_group() as agents:
            for question in reference:
                agents.start_soon(answer, question, send, slots)

    async with anyio.create_task_group() as tasks, evaluate_stream(reference, receive) as results:
        tasks.start_soon(harness)
        async for result in results:
            micro = results.aggregates.snapshot()["micro"]
            print(
                f"{result['question_id']:24} steps_score {result['steps_score']:.2f}"
                f"   mean of {micro['number_of_success_samples']}: "
                f"{micro['steps_score']['mean']:.2f}"
            )


if __name__ == "__main__":
    anyio.run(main)
