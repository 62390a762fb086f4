"""Precision, recall and F1 of the names of the agent's steps."""

from __future__ import annotations

import pickle
from fractions import Fraction
from itertools import product
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from graphrag_eval_async import Evaluator, RunningAggregates, evaluate_stream, run_evaluation_sync
from graphrag_eval_async.catalogue.metrics import TOOL_CALLS
from tests.steps.support import groups

IRI = {"name": "iri_discovery", "output": "urn:a"}
STEPS: dict[str, dict[str, Any]] = {name: {"name": name, "output": name} for name in "abc"}
ACCEPTED = {"iri_discovery": ("autocomplete_search", "sparql_query")}
ON: dict[str, Any] = {"steps": {"tool_calls": True}}


def result_of(reference: list[list[str]], actual: Any, mode: str = "last") -> dict[str, Any]:
    steps = [[STEPS.get(name, IRI) for name in group] for group in reference]
    taken = [
        {"name": name, "status": "error" if i % 2 else "success"} for i, name in enumerate(actual)
    ]
    config = {"steps": {"tool_calls": True, "groups": mode}}
    [result] = run_evaluation_sync(
        groups(*steps), [{"question_id": "q", "actual_steps": taken}], config=config
    )
    return result


def most(expected: list[str], actual: list[str]) -> int:
    """How many of the expected names can be paired with an actual one, whichever of its names
    each takes.
    """
    choices = product(*(ACCEPTED.get(name, (name,)) for name in expected))
    return max(sum(min(c.count(name), actual.count(name)) for name in {*c}) for c in choices)


EXPECTED = st.lists(st.sampled_from(["a", "b", "iri_discovery"]), min_size=1, max_size=3)


@given(
    EXPECTED,
    st.lists(st.sampled_from(["a", "b", "c", "sparql_query", "autocomplete_search"]), max_size=5),
)
def test_agrees_with_a_plain_oracle(expected: list[str], actual: list[str]) -> None:
    for mode, reference in (
        ("last", [expected]),
        ("all", [expected[:1], *([expected[1:]] if expected[1:] else [])]),
    ):
        found = result_of(reference, actual, mode)
        right = most(expected, actual)
        assert found["tool_calls_recall"] == right / len(expected)
        assert found["tool_calls_precision"] == (right / len(actual) if actual else None)
        f1 = Fraction(2 * right, len(expected) + len(actual))
        assert abs(found["tool_calls_f1"] - f1) < 1e-12


def test_steps_of_earlier_groups_are_neither_right_nor_wrong() -> None:
    reference = [["a"], ["b", "b"]]
    for actual, values in (
        ("abb", [1, 1, 1]),
        ("aabb", [2 / 3, 1, 0.8]),
        ("bbb", [2 / 3, 1, 0.8]),
        ("a", [None, 0, 0]),
        ("", [None, 0, 0]),
        ("abc", [0.5, 0.5, 0.5]),
    ):
        found = result_of(reference, actual)
        assert [found[name] for name in TOOL_CALLS] == values


async def test_they_are_aggregated_with_what_is_missing() -> None:
    reference, ok = groups([STEPS["a"]]), {"name": "A-", "status": "success", "output": "?"}
    responses: list[dict[str, Any]] = [
        {"actual_steps": [ok, ok]}, {"actual_steps": []}, {},
        {"actual_steps": [ok], "error": "timeout"},
    ]  # fmt: skip
    given = [{"question_id": "q", **each} for each in responses]
    async with evaluate_stream(reference, given, config=ON) as stream:
        results = [result async for result in stream]
    read = RunningAggregates()
    for result in results:
        read.add(result)
    for aggregates in (stream.aggregates, read):
        found = aggregates.snapshot(detail=True)["micro"]
        assert [found[name]["mean"] for name in TOOL_CALLS] == [0.5, 0.5, 1 / 3]
        for name, failed in zip(
            TOOL_CALLS, ({"no_steps": 2}, {"no_steps": 1}, {"no_steps": 1}), strict=True
        ):
            assert found[name]["coverage"]["failed"] == failed | {"response_error": 1}
    again = pickle.loads(pickle.dumps(Evaluator(reference, config=ON)))  # noqa: S301
    assert (await again.evaluate(given[0]))["tool_calls_precision"] == 0.5
    off = Evaluator(reference)
    assert not {*TOOL_CALLS} & {*(await off.evaluate(given[0]))}
    assert off.fingerprints() != again.fingerprints()
