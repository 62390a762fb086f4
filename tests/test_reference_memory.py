from __future__ import annotations

import gc
import json
from typing import TYPE_CHECKING

from graphrag_eval_async import evaluate_stream, load_reference
from tests.conftest import answer, templates

if TYPE_CHECKING:
    from pathlib import Path

QUESTIONS = 2_000
PER_QUESTION = 8


async def test_the_collector_sees_little_of_a_reference_set(tmp_path: Path) -> None:
    """Before and after its questions were asked: what a set that is large prepares is not kept."""
    path = tmp_path / "reference.json"
    path.write_text(json.dumps(templates(QUESTIONS, args={"query": "x" * 1_000})))
    gc.collect()
    before = len(gc.get_objects())
    reference = load_reference(path)
    gc.collect()
    assert len(reference) == QUESTIONS
    assert len(gc.get_objects()) - before <= QUESTIONS * PER_QUESTION
    async with evaluate_stream(reference, [answer(i) for i in range(QUESTIONS)]) as results:
        scores = [result["steps_score"] async for result in results]
    assert scores == [1.0] * QUESTIONS
    del results
    gc.collect()
    assert len(gc.get_objects()) - before <= QUESTIONS * PER_QUESTION
