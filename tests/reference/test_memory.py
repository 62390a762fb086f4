"""What a loaded reference set takes of memory, and of the collector's time."""

from __future__ import annotations

import gc
import json
import tracemalloc
from typing import TYPE_CHECKING

import pytest
import yaml

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


@pytest.mark.parametrize("suffix", [".json", ".yaml", None])
def test_a_reference_set_takes_at_most_twice_its_file(tmp_path: Path, suffix: str | None) -> None:
    """Of memory, once it is loaded; without a suffix, it is made of dicts."""
    dicts = templates(QUESTIONS, args={"query": "x" * 1_000})
    text = json.dumps(dicts)
    path = tmp_path / f"reference{suffix}"
    path.write_text(yaml.dump(dicts, Dumper=yaml.CSafeDumper) if suffix == ".yaml" else text)
    load_reference(path if suffix else dicts)  # What is imported then does not count.
    tracemalloc.start()
    reference = load_reference(path if suffix else dicts)
    gc.collect()
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(reference) == QUESTIONS
    assert taken <= 2 * len(text)
