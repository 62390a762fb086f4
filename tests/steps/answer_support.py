"""The score of one answer, for tests of answers without a judge."""

from __future__ import annotations

from typing import Any

from graphrag_eval_async import run_evaluation_sync


def result_of(match: str, reference: str, answer: str, **question: Any) -> dict[str, Any]:
    """Return the result of an answer to a question with this reference answer."""
    asked = {
        "id": "q",
        "question_text": "?",
        "reference_answer": reference,
        "match": match,
        **question,
    }
    response = {"question_id": "q", "actual_answer": answer}
    [result] = run_evaluation_sync([{"template_id": "t", "questions": [asked]}], [response])
    return result


def score_of(match: str, reference: str, answer: str) -> float:
    """Return how far an answer matches, from 0 to 1."""
    score: float = result_of(match, reference, answer)["answer_match"]
    return score
