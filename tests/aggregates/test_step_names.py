"""Steps of any number of names are counted in bounded memory, exactly, and in any order."""

from __future__ import annotations

import random
from collections import Counter
from hashlib import blake2b
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphrag_eval_async import Reference, RunningAggregates, evaluate_stream
from graphrag_eval_async.aggregates import group, running, steps
from tests.aggregates.made import aggregated
from tests.support.cpu import affordable

LONG = "x" * 201
NAMES = [*"abcdefghijklmnop", "\ud800", "other", LONG]
EXPECTED = ["a", "o", LONG]

kinds = st.sampled_from(["success", "error"])
step = st.builds(lambda name, status: {"name": name, "status": status}, st.sampled_from(NAMES), kinds)
results = st.builds(
    lambda template, taken: {"template_id": template, "status": "success", "actual_steps": taken},
    st.sampled_from(["t", "u"]),
    st.lists(step, max_size=8),
)


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> int:
    """So many names are kept that hypothesis soon exceeds them."""
    for module in (steps, group):
        monkeypatch.setattr(module, "MOST_NAMES", 3)
    monkeypatch.setattr(running, "BATCH", 2)
    return 3


def oracle(some: list[dict[str, Any]], most: int) -> dict[str, Any]:
    """What a snapshot shows of the steps of some results, from counts of all names."""
    counts: dict[str, Counter[str]] = {count: Counter() for count in steps.STEP_COUNTS}
    for result in some:
        taken = result["actual_steps"]
        counts["total"].update(each["name"] for each in taken)
        counts["once_per_sample"].update({each["name"] if each["name"] != LONG else "" for each in taken})
        counts["errors"].update(each["name"] for each in taken if each["status"] == "error")
    counts["once_per_sample"][LONG] = counts["once_per_sample"].pop("", 0)
    others = sorted(counts["total"].keys() - {"a", "o", LONG}, key=rank)
    gone = {*others[most:], LONG}
    shown = {
        count: {name: total[name] for name in sorted(total) if total[name] and name not in gone}
        for count, total in counts.items()
    }
    shown["other"] = {
        count: rest for count, total in counts.items() if (rest := sum(total[name] for name in gone))
    }
    return {key: part for key, part in shown.items() if part}


def rank(name: str) -> bytes:
    return blake2b(name.encode(errors="surrogatepass"), digest_size=16).digest()


def aggregate(some: list[dict[str, Any]], **options: Any) -> RunningAggregates:
    return aggregated(some, steps=EXPECTED, **options)


def steps_of(aggregates: RunningAggregates) -> dict[str, Any]:
    snapshot = aggregates.snapshot()
    groups = {"micro": snapshot["micro"], **snapshot["per_template"]}
    return {name: shown.get("steps", {}) for name, shown in groups.items()}


def expected_of(some: list[dict[str, Any]], most: int) -> dict[str, Any]:
    shown = {"micro": oracle(some, most)}
    for name in sorted({result["template_id"] for result in some}):
        shown[name] = oracle([result for result in some if result["template_id"] == name], most)
    return shown


@pytest.mark.usefixtures("few")
@settings(deadline=None)
@given(st.lists(results, max_size=20), st.data())
def test_names_are_those_of_an_oracle_however_results_are_split(
    some: list[dict[str, Any]], data: st.DataObject
) -> None:
    whole = aggregate(some)
    assert steps_of(whole) == expected_of(some, 3)
    shuffled = data.draw(st.permutations(some))
    cut = data.draw(st.integers(0, len(some)))
    parts = [aggregate(shuffled[:cut]), aggregate(shuffled[cut:])]
    merged = RunningAggregates.from_bytes(parts[1].to_bytes()).merge(parts[0])
    assert merged.to_bytes() == whole.to_bytes()
    assert steps_of(merged) == steps_of(whole)


def test_a_million_names() -> None:
    names = [f"step {number}" for number in range(200_000)]
    random.Random(1).shuffle(names)
    aggregates = RunningAggregates(steps=["step 7", "never"])
    with affordable(sum(map(len, names))):
        for start in range(0, len(names), 100):
            taken = [{"name": name} for name in names[start : start + 100]]
            aggregates.add({"template_id": "t", "status": "success", "actual_steps": taken})
        shown = aggregates.snapshot()["micro"]["steps"]
    first = sorted((name for name in names if name != "step 7"), key=rank)[:1000]
    assert shown["total"] == dict.fromkeys(sorted([*first, "step 7"]), 1)
    assert shown["other"] == {"total": 198_999, "once_per_sample": 198_999}
    assert len(aggregates.to_bytes()) < 50_000


async def test_a_stream_expects_the_names_of_its_reference_set(few: int) -> None:
    wanted = [[{"name": "wanted", "output": "1"}, {"name": "iri_discovery", "output": "urn:x:y"}]]
    question = {"id": "q", "question_text": "?", "reference_steps": wanted}
    reference = Reference([{"template_id": "t", "questions": [question]}])
    assert reference.step_names == {"wanted", "iri_discovery", "autocomplete_search", "sparql_query"}
    names = [*map(str, range(100)), *reference.step_names]
    taken = [{"name": name, "args": {}, "id": name, "status": "error", "error": "x"} for name in names]
    stream = evaluate_stream(reference, [{"question_id": "q", "actual_steps": taken}])
    assert [result["status"] async for result in stream] == ["success"]
    shown = stream.aggregates.snapshot()["micro"]["steps"]
    assert shown["total"].keys() > reference.step_names
    assert (len(shown["total"]), shown["other"]["errors"]) == (few + 4, 100 - few)
