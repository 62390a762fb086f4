"""Steps of any number of names are counted in bounded memory, exactly, and in any order."""

from __future__ import annotations

import random
from collections import Counter
from hashlib import blake2b
from typing import Any

from graphrag_eval_async import Reference, RunningAggregates, evaluate_stream
from tests.aggregates.made import aggregated, result
from tests.support.cases import each

MOST = 1000
LONG = "x" * 201
EXPECTED = {"step 7", "step 2999", LONG}


def rank(name: str) -> bytes:
    return blake2b(name.encode(errors="surrogatepass"), digest_size=16).digest()


def oracle(some: list[dict[str, Any]]) -> dict[str, Any]:
    """What a snapshot shows of the steps of some results, from counts of all names."""
    counts: dict[str, Counter[str]] = {
        count: Counter() for count in ("total", "once_per_sample", "empty_results", "errors")
    }
    for one in some:
        taken = one["actual_steps"]
        counts["total"].update(step["name"] for step in taken)
        counts["once_per_sample"].update({step["name"] for step in taken})
        counts["errors"].update(step["name"] for step in taken if step["status"] == "error")
    kept = {*sorted(counts["total"].keys() - EXPECTED, key=rank)[:MOST], *EXPECTED} - {LONG}
    shown: dict[str, Any] = {
        count: {name: total[name] for name in sorted(total.keys() & kept)} for count, total in counts.items()
    }
    shown["other"] = {
        count: rest
        for count, total in counts.items()
        if (rest := sum(n for name, n in total.items() if name not in kept))
    }
    return {key: part for key, part in shown.items() if part}


def steps_of(aggregates: RunningAggregates) -> dict[str, Any]:
    snapshot = aggregates.snapshot()
    groups = {"micro": snapshot["micro"], **snapshot["per_template"]}
    return {name: shown.get("steps", {}) for name, shown in groups.items()}


@each("names", [900, 1100, 5000])
def test_names_are_those_of_an_oracle_however_results_are_split(names: int) -> None:
    rnd = random.Random(names)
    population = [*(f"step {number}" for number in range(names)), "\ud800", "other", LONG]
    some = [
        result(
            rnd.choice("tu"),
            actual_steps=[
                {"name": name, "status": rnd.choice(["success", "error"])}
                for name in rnd.choices(population, k=rnd.randrange(80))
            ],
        )
        for _ in range(150)
    ]
    whole = aggregated(some, steps=EXPECTED)
    expected = {"micro": oracle(some)}
    for template in "tu":
        expected[template] = oracle([one for one in some if one["template_id"] == template])
    assert steps_of(whole) == expected
    rnd.shuffle(some)
    parts = [aggregated(some[start::3], steps=EXPECTED) for start in range(3)]
    parts[0].snapshot()
    merged = RunningAggregates.from_bytes(parts[1].to_bytes()).merge(parts[0]).merge(parts[2])
    assert merged.to_bytes() == whole.to_bytes()
    assert steps_of(merged) == steps_of(whole)
    assert len(whole.to_bytes()) < 200_000


async def test_a_stream_expects_the_names_of_its_reference_set() -> None:
    wanted = [[{"name": "wanted", "output": "1"}, {"name": "iri_discovery", "output": "urn:x:y"}]]
    question = {"id": "q", "question_text": "?", "reference_steps": wanted}
    reference = Reference([{"template_id": "t", "questions": [question]}])
    assert reference.step_names == {"wanted", "iri_discovery", "autocomplete_search", "sparql_query"}
    names = [[*map(str, range(start, start + 600))] for start in (0, 600)]
    taken = [
        {"name": name, "args": {}, "id": name, "status": "error", "error": "x"}
        for name in [*names[1], *reference.step_names]
    ]
    before = [one | {"name": name, "id": name} for one, name in zip(taken, names[0], strict=False)]
    responses = [{"question_id": "q", "actual_steps": steps} for steps in (before, taken)]
    stream = evaluate_stream(reference, responses)
    assert [one["status"] async for one in stream] == ["success"] * 2
    shown = stream.aggregates.snapshot()["micro"]["steps"]
    assert shown["total"].keys() > reference.step_names
    assert (len(shown["total"]), shown["other"]["errors"]) == (MOST + 4, 200)
