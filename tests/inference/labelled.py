"""Results of a judge and labels of people."""

from __future__ import annotations

from typing import Any


def result(question: int | str, score: float | None = None, **more: Any) -> dict[str, Any]:
    question_id = question if isinstance(question, str) else f"q{question}"
    scores = {} if score is None else {"answer_f1": score}
    return {"template_id": "t", "question_id": question_id, "status": "success", **scores, **more}


def label(question: int | str, value: Any, **more: Any) -> dict[str, Any]:
    question_id = question if isinstance(question, str) else f"q{question}"
    return {"question_id": question_id, "metric": "answer_f1", "value": value, **more}
