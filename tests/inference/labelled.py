"""Results of a judge and labels of people: made up, or of the file that `GRAPHRAG_EVAL_LABELS` names."""

from __future__ import annotations

import os
import re
from functools import cache
from pathlib import Path
from typing import Any

import orjson
import pytest


def result(question: int | str, score: float | None = None, **more: Any) -> dict[str, Any]:
    question_id = question if isinstance(question, str) else f"q{question}"
    scores = {} if score is None else {"answer_f1": score}
    return {"template_id": "t", "question_id": question_id, "status": "success", **scores, **more}


def label(question: int | str, value: Any, **more: Any) -> dict[str, Any]:
    question_id = question if isinstance(question, str) else f"q{question}"
    return {"question_id": question_id, "metric": "answer_f1", "value": value, **more}


@cache
def judged_answers() -> list[tuple[dict[str, Any], bool]]:
    """Answers with a score, 1 if the reference answer is in it, and whether people call it right."""
    if "GRAPHRAG_EVAL_LABELS" not in os.environ:
        pytest.skip("GRAPHRAG_EVAL_LABELS names no file of answers with human verdicts")
    systems: dict[str, int] = {}
    found = []
    for line in Path(os.environ["GRAPHRAG_EVAL_LABELS"]).read_bytes().splitlines():
        answer = orjson.loads(line)
        wanted = filter(str.strip, re.split("[/;,]", answer["reference_answer"]))
        score = float(any(text.strip().lower() in answer["answer"].lower() for text in wanted))
        more = {
            "template_id": answer["system"],
            "sample": systems.setdefault(answer["system"], len(systems) + 1),
            "question_text": answer["question"],
            "reference_answer": answer["reference_answer"],
            "actual_answer": answer["answer"],
        }
        found.append((result(answer["question_id"], score, **more), answer["human_correct"]))
    return found
