"""Results without numbers of samples, as those of shards and of the workers of a queue."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from graphrag_eval_async import RunningAggregates

RESULTS = st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("pqrs"), st.integers(0, 4)), max_size=20)


def aggregates(results: list[tuple[str, str, int]]) -> RunningAggregates:
    running = RunningAggregates()
    for template, question, score in results:
        name = template + question
        running.add({"template_id": template, "question_id": name, "steps_score": score / 4})
    return running


def shown(group: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = group["steps_score"]
    return found


@given(RESULTS)
def test_confidence_needs_independent_samples(results: list[tuple[str, str, int]]) -> None:
    """Of a question that was answered several times, nobody knows the first sample."""
    running = aggregates(results)
    running.finish()
    found = running.snapshot(detail=True)
    for template, group in [("ab", found["micro"]), *found["per_template"].items()]:
        own = [template_ + question for template_, question, _ in results if template_ in template]
        if own:
            is_repeated = len({*own}) < len(own)
            assert ("confidence" in shown(group)) is not is_repeated
            if is_repeated:
                interval = shown(group).get("interval", {"kind": "one_look", "low": 0.0, "high": 1.0})
                assert interval["kind"] == "one_look"
                assert 0 <= interval["low"] <= interval["high"] <= 1
            assert (running.overall()["steps_score"]["weights"] is None) is (
                len({(a, b) for a, b, _ in results}) < len(results)
            )
