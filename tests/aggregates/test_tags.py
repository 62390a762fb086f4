"""Results grouped by the tags of their questions."""

from __future__ import annotations

import random
from typing import Any

import pytest

from graphrag_eval_async import AggregationError, RunningAggregates
from tests.aggregates.made import aggregated, bits, result


@pytest.mark.parametrize(
    ("tags", "shown"),
    [
        pytest.param(None, {}, id="none"),
        pytest.param(["hard", "spatial"], {"hard": ["true"], "spatial": ["true"]}, id="names"),
        pytest.param(
            {"hops": 2, "share": 0.5, "easy": False},
            {"easy": ["false"], "hops": ["2"], "share": ["0.5"]},
            id="values",
        ),
        pytest.param({" hops ": " 2 "}, {"hops": ["2"]}, id="spaces"),
    ],
)
def test_tags_become_text(tags: Any, shown: dict[str, list[str]]) -> None:
    per_tag = aggregated([result(tags=tags)]).snapshot().get("per_tag", {})
    assert {key: [*values] for key, values in per_tag.items()} == shown


@pytest.mark.parametrize(
    ("tags", "problem"),
    [
        pytest.param("hard", "tags: expected an object or a list of names, got 'hard'", id="text"),
        pytest.param([2], "tags: expected an object or a list of names, got list", id="a number"),
        pytest.param(
            {"a": 1, " a ": 2},
            "tags.a: given twice; spaces around it do not count",
            id="given twice",
        ),
        pytest.param(
            {"a=b": 1}, "tags: expected a key without =, [ and ], got 'a=b'", id="an equals sign"
        ),
        pytest.param(
            {"a": None}, "tags.a: expected a string, a number or a boolean, got None", id="null"
        ),
    ],
)
def test_a_result_with_invalid_tags_is_not_counted(tags: Any, problem: str) -> None:
    aggregates = RunningAggregates()
    with pytest.raises(AggregationError) as caught:
        aggregates.add(result(tags=tags))
    assert str(caught.value) == f"question 'q1': {problem}"
    assert "per_tag" not in aggregates.snapshot()


@pytest.mark.parametrize(
    "tags",
    [
        pytest.param({f"k{i:02}": 0 for i in range(22)}, id="many keys"),
        pytest.param({}, id="one key"),
    ],
)
def test_the_same_tags_count_beyond_the_limits_in_any_order(tags: dict[str, int]) -> None:
    some = [
        result(question_id=f"q{i}", steps_score=1, tags={**tags, "n": i - 115, "x": i % 2})
        for i in range(230)
    ]
    whole = aggregated(some)
    random.Random(0).shuffle(some)
    merged = RunningAggregates()
    for start in range(0, 230, 50):
        part = aggregated(some[start : start + 50])
        assert "tags_are_cut" not in part.snapshot() or tags
        merged.merge(RunningAggregates.from_bytes(part.to_bytes()))
    assert bits(merged) == bits(whole)
    assert merged.to_bytes() == whole.to_bytes()
    shown = merged.snapshot()
    assert shown["tags_are_cut"]
    assert [*shown["per_tag"]] == ([*tags][:20] or ["n", "x"])
    assert [*shown["per_tag"].get("n", {})] == ([] if tags else [str(i) for i in range(-115, -15)])
