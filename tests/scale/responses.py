"""Responses, a judge of them that several processes share, and what one process finds in them."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from graphrag_eval_async import (
    JudgeUnavailable,
    RunningAggregates,
    TokenUsage,
    evaluate_stream,
    load_reference,
)
from tests.support.data import answer, templates

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

QUESTIONS = 7
REFERENCE = load_reference(
    [
        {
            **template,
            "questions": [
                question | {"reference_answer": "It is.", "tags": {"odd": place % 2, "kind": "sum"}}
                for place, question in enumerate(template["questions"])
            ],
        }
        for template in templates(QUESTIONS)
    ]
)
CONFIG: dict[str, Any] = {"answer_correctness": {}}


def response(number: int, **more: Any) -> dict[str, Any]:
    """A response; some are errors, and some have a wrong step."""
    given = answer(
        number % QUESTIONS, number=number, actual_answer=f"It is. NUMBER {number}", **more
    )
    if number % 11 == 3:
        return {"question_id": given["question_id"], "number": number, "error": "TimeoutError"}
    if number % 5 == 1:
        given["actual_steps"][0]["output"] = "41"
    return given | {"elapsed_sec": number / 7}


class Judge:
    """Finds two thirds of the answers right; appends a line to the file `calls` in a folder for
    each.

    From the number `held_from` on, it answers once there is a file `go`. It kills its process at
    the number `poison`, and at one of 50 if there is a file `kill`, which it removes.
    """

    model = "scripted"

    def __init__(
        self, folder: Path, *, held_from: int | None = None, poison: int = -1, refuses: bool = False
    ) -> None:
        self.folder, self.held_from, self.poison, self.refuses = (
            str(folder),
            held_from,
            poison,
            refuses,
        )

    async def complete(
        self, messages: Sequence[Mapping[str, str]], _: Mapping[str, Any]
    ) -> tuple[Any, TokenUsage]:
        if self.refuses:
            raise JudgeUnavailable("wrong key")
        number = int(messages[-1]["content"].rpartition("NUMBER ")[2].split()[0])
        folder = Path(self.folder)
        with (folder / "calls").open("a") as calls:
            calls.write(f"{number}\n")
        if number == self.poison or (number % 50 == 40 and (folder / "kill").exists()):
            (folder / "kill").unlink(missing_ok=True)
            os.kill(os.getpid(), signal.SIGKILL)
        if self.held_from is not None and number >= self.held_from:
            while not (folder / "go").exists():  # noqa: ASYNC110  (another process makes it)
                await asyncio.sleep(0.02)
        found = [{"reference": 0, "actual": 0}] if number % 3 else []
        claims = {"reference_claims": ["a"], "actual_claims": ["a"], "reason": "", "matches": found}
        return claims, TokenUsage(100, 20)

    async def embed(self, _: Any) -> Any:
        raise NotImplementedError


def alike(results: Iterable[dict[str, Any]]) -> list[bytes]:
    """Results in one order, without their places."""
    shown = [{key: value for key, value in result.items() if key != "source"} for result in results]
    return sorted(orjson.dumps(result, option=orjson.OPT_SORT_KEYS) for result in shown)


async def in_one_process(
    source: Any, **options: Any
) -> tuple[list[dict[str, Any]], RunningAggregates]:
    """The results of one stream, without what a worker does not know, and their aggregates."""
    aggregates = RunningAggregates(templates=REFERENCE.templates, steps=REFERENCE.step_names)
    results = []
    async with evaluate_stream(REFERENCE, source, **options) as stream:
        async for result in stream:
            del result["sample"]
            aggregates.add(result)
            results.append(result)
    return results, aggregates
