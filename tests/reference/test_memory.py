from __future__ import annotations

import gc
import json
from typing import TYPE_CHECKING

from graphrag_eval_async import load_reference, run_evaluation
from tests.support.data import answer, templates

if TYPE_CHECKING:
    from pathlib import Path

QUESTIONS = 2_000
SET = templates(QUESTIONS, args={"query": "x" * 1_000})


async def test_the_collector_sees_little_of_a_reference_set(tmp_path: Path) -> None:
    """Before and after its questions were asked: what a set that is large prepares is not kept."""
    path = tmp_path / "reference.json"
    path.write_text(json.dumps(SET))
    gc.collect()
    before = len(gc.get_objects())
    reference = load_reference(path)
    for _ in range(2):
        gc.collect()
        assert len(gc.get_objects()) - before <= QUESTIONS * 8
        assert len(await run_evaluation(reference, [answer(i) for i in range(QUESTIONS)])) == QUESTIONS
