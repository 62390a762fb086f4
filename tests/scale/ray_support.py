"""Judges and comparators that workers of Ray can import, and a driver that a test kills."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphrag_eval_async import (
    JudgeUnavailable,
    RunningAggregates,
    TokenUsage,
    evaluate_dataset,
    evaluate_stream,
    load_reference,
)
from tests.conftest import answer, templates

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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


def response(number: int) -> dict[str, Any]:
    """A response; some are errors, and some have a wrong step."""
    given = answer(number % QUESTIONS, number=number, actual_answer=f"It is. NUMBER {number}")
    if number % 11 == 3:
        return {"question_id": given["question_id"], "number": number, "error": "TimeoutError"}
    if number % 5 == 1:
        given["actual_steps"][0]["output"] = "41"
    return given | {"elapsed_sec": number / 7}


class Judge:
    """Appends a line to a file for each call; kills its process when it finds the file `kill`."""

    model = "scripted"

    def __init__(self, folder: Path, delay: float = 0.0, *, poison: int = -1, refuses: bool = False) -> None:
        self.folder, self.delay, self.poison, self.refuses = str(folder), delay, poison, refuses

    async def complete(
        self, messages: Sequence[Mapping[str, str]], _: Mapping[str, Any]
    ) -> tuple[Any, TokenUsage]:
        if self.refuses:
            raise JudgeUnavailable("wrong key")
        number = messages[-1]["content"].rpartition("NUMBER ")[2].split()[0]
        with open(os.path.join(self.folder, "calls"), "a") as calls:
            calls.write(f"{number}\n")
        kill = os.path.join(self.folder, "kill")
        if int(number) == self.poison or (int(number) % 50 == 40 and os.path.exists(kill)):
            if os.path.exists(kill):
                os.unlink(kill)
            os.kill(os.getpid(), signal.SIGKILL)
        await asyncio.sleep(self.delay)
        found = [{"reference": 0, "actual": 0}] if int(number) % 3 else []
        reply = {"reference_claims": ["a"], "actual_claims": ["a"], "reason": "", "matches": found}
        return reply, TokenUsage(100, 20)

    async def embed(self, _: Any) -> Any:
        raise NotImplementedError


def in_one_process(source: Any, **options: Any) -> tuple[list[dict[str, Any]], RunningAggregates, list[Any]]:
    """Results without what a worker does not know, their aggregates, and rejects, of one stream."""
    aggregates = RunningAggregates(templates=REFERENCE.templates, steps=REFERENCE.step_names)
    results: list[dict[str, Any]] = []
    rejects: list[Any] = []

    async def run() -> None:
        stream = evaluate_stream(REFERENCE, source, on_reject=rejects.append, **options)
        async with stream:
            async for result in stream:
                del result["sample"]
                aggregates.add(result)
                results.append(result)

    asyncio.run(run())
    aggregates.finish()
    return results, aggregates, rejects


def start() -> None:
    """Start Ray on two cores, as far as it believes."""
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    import ray

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    ray.data.DataContext.get_current().enable_progress_bars = False


def drive(given: Mapping[str, str]) -> None:
    """Evaluate slowly, until killed."""
    start()
    evaluate_dataset(
        REFERENCE,
        given["responses"],
        results=given["results"],
        concurrency=2,
        batch_size=20,
        config=CONFIG,
        judge=Judge(Path(given["folder"]), 0.2),
    )
