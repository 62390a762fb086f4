"""Responses, judged or not, and what one process finds in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphrag_eval_async import RunningAggregates, TokenUsage, evaluate_stream, load_reference
from tests.support.data import answer, templates

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


def response(number: int, **more: Any) -> dict[str, Any]:
    """A response; some are errors, and some have a wrong step."""
    given = answer(number % QUESTIONS, number=number, actual_answer=f"It is. NUMBER {number}", **more)
    if number % 11 == 3:
        return {"question_id": given["question_id"], "number": number, "error": "TimeoutError"}
    if number % 5 == 1:
        given["actual_steps"][0]["output"] = "41"
    return given | {"elapsed_sec": number / 7}


def number_in(messages: Sequence[Mapping[str, str]]) -> int:
    """The number of the response that a judge is asked about."""
    return int(messages[-1]["content"].rpartition("NUMBER ")[2].split()[0])


def reply(number: int) -> tuple[Any, TokenUsage]:
    """What a judge says of a response; two thirds are right."""
    found = [{"reference": 0, "actual": 0}] if number % 3 else []
    claims = {"reference_claims": ["a"], "actual_claims": ["a"], "reason": "", "matches": found}
    return claims, TokenUsage(100, 20)


async def in_one_process(source: Any, **options: Any) -> tuple[list[dict[str, Any]], RunningAggregates]:
    """The results of one stream, without what a worker does not know, and their aggregates."""
    aggregates = RunningAggregates(templates=REFERENCE.templates, steps=REFERENCE.step_names)
    results = []
    async with evaluate_stream(REFERENCE, source, **options) as stream:
        async for result in stream:
            del result["sample"]
            aggregates.add(result)
            results.append(result)
    return results, aggregates
