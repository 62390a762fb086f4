"""What the benchmarks of the judges evaluate, and how they are configured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:
    from collections.abc import Iterator

QUESTIONS = 100
DOCUMENTS = 5
QUESTION = (
    "Which substations are within {} km of the transformer of Varna, and of which voltage are they?"
)
REFERENCE_ANSWER = "There are three, all of 110 kV: Varna, Burgas and Plovdiv, {} km away at most."
ANSWER = (
    "Two substations were found (response {}): Varna, of 110 kV, and Sofia, whose voltage is not "
    "known."
)
CUSTOM = {
    "name": "tone",
    "inputs": ["question", "actual_answer"],
    "instructions": "Judge the tone of the answer.",
    "outputs": {"tone_fitness": "fraction 0-1: how well it fits", "tone_reason": "why"},
}
ALL_METRICS: dict[str, Any] = {
    "answer_correctness": {},
    "answer_relevance": {"strictness": 3},
    "retrieval_answer": {},
    "retrieval_context": {},
    "ragas_answer_correctness": {},
    "custom_evaluations": [CUSTOM],
}


def config(base_url: str, metrics: dict[str, Any] | None = None, **limits: Any) -> dict[str, Any]:
    """A configuration whose models a server has; answer correctness is judged if no metrics are
    given.
    """
    llm = {
        "generation": {
            "provider": "openai",
            "model": "gpt-4o-mini",
            "base_url": base_url,
            "api_key": "none",
        },
        "embedding": {"provider": "openai", "model": "text-embedding-3-small"},
        "limits": limits,
    }
    return {"llm": llm, **({"answer_correctness": {}} if metrics is None else metrics)}


def reference() -> list[dict[str, Any]]:
    """Questions with an answer and a step that retrieves documents."""
    return [
        {
            "template_id": "substations",
            "questions": [
                {
                    "id": f"question {number}",
                    "question_text": QUESTION.format(number),
                    "reference_answer": REFERENCE_ANSWER.format(number),
                    "reference_steps": [[reference_step(number)]],
                }
                for number in range(QUESTIONS)
            ],
        }
    ]


def retrieval(whose: str, number: int) -> dict[str, Any]:
    documents = [
        {"id": f"document {i}", "text": f"Text {i} of {whose} {number} about Varna."}
        for i in range(DOCUMENTS)
    ]
    output = orjson.dumps(documents).decode()
    return {"name": "retrieval", "args": {"query": QUESTION}, "output": output, "status": "success"}


def reference_step(number: int) -> dict[str, Any]:
    step = retrieval("reference", number)
    del step["status"]
    return step


def response(number: int, **more: Any) -> dict[str, Any]:
    """A response with an answer like no other's."""
    question = f"question {number % QUESTIONS}"
    return {
        "question_id": question,
        "status": "success",
        "actual_answer": ANSWER.format(number),
        **more,
    }


def lines(count: int) -> Iterator[bytes]:
    """Responses with an answer, without steps, as JSON."""
    return (orjson.dumps(response(number)) + b"\n" for number in range(count))
