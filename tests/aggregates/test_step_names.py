"""Steps of any number of names are counted in bounded memory, exactly, and in any order."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from graphrag_eval_async import Reference, RunningAggregates, evaluate_stream
from tests.aggregates.made import aggregated, result

MOST = 1000


@pytest.mark.parametrize("names", [900, 1100, 5000])
def test_counts_are_kept_however_results_are_split(names: int) -> None:
    rnd = random.Random(names)
    population = [*(f"step {number}" for number in range(names)), "\ud800", "other"]
    some = [
        result(
            actual_steps=[
                {"name": name, "status": "error"} for name in rnd.choices(population, k=80)
            ]
        )
        for _ in range(150)
    ]
    expected = {"step 7", f"step {names - 1}"}
    taken = Counter(step["name"] for one in some for step in one["actual_steps"])
    whole = aggregated(some, steps=expected)
    shown = whole.snapshot()["micro"]["steps"]
    named = shown["errors"]
    assert len(named.keys() - expected) == min(MOST, len(taken.keys() - expected))
    assert named.keys() >= expected & taken.keys()
    assert named == {name: taken[name] for name in sorted(named)} == shown["total"]
    assert shown.get("other", {}).get("errors", 0) == taken.total() - sum(named.values())
    rnd.shuffle(some)
    parts = [aggregated(some[start::3], steps=expected) for start in range(3)]
    parts[0].snapshot()
    merged = RunningAggregates.from_bytes(parts[1].to_bytes()).merge(parts[0]).merge(parts[2])
    assert merged.to_bytes() == whole.to_bytes()
    assert len(whole.to_bytes()) < 200_000


async def test_a_stream_expects_the_names_of_its_reference_set() -> None:
    wanted = [[{"name": "wanted", "output": "1"}, {"name": "iri_discovery", "output": "urn:x:y"}]]
    question = {"id": "q", "question_text": "?", "reference_steps": wanted}
    reference = Reference([{"template_id": "t", "questions": [question]}])
    assert reference.step_names == {
        "wanted",
        "iri_discovery",
        "autocomplete_search",
        "sparql_query",
    }
    names = [*map(str, range(1200)), *reference.step_names]
    steps = [
        {"name": name, "args": {}, "id": name, "status": "error", "error": "x"} for name in names
    ]
    responses = [{"question_id": "q", "actual_steps": some} for some in (steps[:600], steps[600:])]
    stream = evaluate_stream(reference, responses)
    assert [one["status"] async for one in stream] == ["success"] * 2
    shown = stream.aggregates.snapshot()["micro"]["steps"]
    assert shown["total"].keys() > reference.step_names
    assert (len(shown["total"]), shown["other"]["errors"]) == (MOST + 4, 200)
