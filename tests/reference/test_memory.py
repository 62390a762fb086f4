"""What a loaded reference set takes of memory, and of the collector's time."""

from __future__ import annotations

import gc
import json
import tracemalloc
from typing import TYPE_CHECKING

import pytest
import yaml

from graphrag_eval_async import load_reference, run_evaluation
from tests.conftest import answer, templates

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


@pytest.mark.parametrize("suffix", [".json", ".yaml"])
def test_a_reference_set_takes_at_most_twice_its_file(tmp_path: Path, suffix: str) -> None:
    path, text = tmp_path / f"reference{suffix}", json.dumps(SET)
    path.write_text(yaml.dump(SET, Dumper=yaml.CSafeDumper) if suffix == ".yaml" else text)
    load_reference(path)  # What is imported then does not count.
    tracemalloc.start()
    reference = load_reference(path)
    gc.collect()
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(reference) == QUESTIONS
    assert taken <= 2 * len(text)
