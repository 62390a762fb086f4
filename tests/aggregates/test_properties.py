"""Running aggregates against the batch formulas: at every prefix, and however they are split and
merged.
"""

from __future__ import annotations

import json
import math
import random
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

from graphrag_eval_async import RunningAggregates, compute_aggregates
from tests.aggregates.made import aggregated, bits, result
from tests.aggregates.oracle import batch_aggregates
from tests.aggregates.strategies import TEMPLATES, judged, results, scored

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def aggregate(some: Iterable[Mapping[str, Any]]) -> RunningAggregates:
    return aggregated(some, templates=TEMPLATES)


def text(aggregates: RunningAggregates) -> str:
    return json.dumps(aggregates.snapshot(), allow_nan=False)


KINDS = (
    st.lists(results(), max_size=25)
    | st.lists(scored(), max_size=25)
    | st.lists(judged(), max_size=12)
)


@settings(deadline=None)
@given(st.lists(results(), max_size=25))
def test_values_of_errors_count_on_demand(some: list[dict[str, Any]]) -> None:
    """As graphrag-eval 5.3 and later count them."""
    found = compute_aggregates(some, include_errors=True)
    assert json.dumps(found) == json.dumps(batch_aggregates(some, include_errors=True))


@settings(deadline=None)
@given(st.lists(results(), max_size=25))
def test_every_prefix_equals_the_batch_formulas(some: list[dict[str, Any]]) -> None:
    aggregates = RunningAggregates(templates=TEMPLATES)
    for count in range(len(some) + 1):
        expected = batch_aggregates(some[:count], templates=TEMPLATES)
        assert text(aggregates) == json.dumps(expected)
        for one in some[count : count + 1]:
            before = json.dumps(one)
            aggregates.add(one)
            assert json.dumps(one) == before


def many(count: int) -> list[dict[str, Any]]:
    """Enough results for several batches and chunks; of each question one, some or many."""
    rnd = random.Random(count)
    return [
        result(
            rnd.choice("ab"),
            question_id=f"q{rnd.choice([i, i % 1000, i % 3])}",
            sample=rnd.randrange(1, 4),
            steps_score=rnd.choice([0.0, 1.0, rnd.random()]),
            elapsed_sec=rnd.choice([rnd.random(), i, rnd.paretovariate(0.1)]),
            input_tokens=rnd.choice([0, i, 2**53 + i]),
            output_tokens=-i,
            x_cost=rnd.choice([0, 0.5, 1]),
        )
        for i in range(count)
    ]


def test_many_results_equal_the_batch_formulas() -> None:
    some = many(9000)
    aggregates = RunningAggregates()
    for count, one in enumerate(some, 1):
        aggregates.add(one)
        if count in (2000, 2100, 5500, 9000):
            same = text(aggregates) == json.dumps(batch_aggregates(some[:count]))
            assert same
    for metric, bounds in (
        ("elapsed_sec", [0.1, 5.0, 5000.0, math.inf]),
        ("x_cost", [-1.0, 0.0, 0.5, 1.0]),
    ):
        counts = [sum(one[metric] <= bound for one in some) for bound in bounds]
        assert aggregates.cumulative_counts(metric, bounds) == counts
    shuffled = random.Random(1).sample(some, len(some))
    merged = aggregated(shuffled[:2500]).merge(aggregated(shuffled[2500:]))
    assert merged.to_bytes() == aggregates.to_bytes()
    assert bits(merged) == bits(aggregates)


@settings(deadline=None)
@given(st.data(), KINDS)
def test_order_shards_and_merge_tree_do_not_matter(
    data: st.DataObject, some: list[dict[str, Any]]
) -> None:
    parts = data.draw(st.lists(st.sampled_from(some), max_size=5)) if some else []
    some = [
        *some,
        *({**part, "question_id": "pending", "pending": ["answer_correctness"]} for part in parts),
    ]
    whole = aggregate(some)
    shuffled = data.draw(st.permutations(some))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(some)), max_size=4)))
    shards = [aggregate(shuffled[i:j]) for i, j in zip([0, *cuts], [*cuts, len(some)], strict=True)]
    while len(shards) > 1:
        other = shards.pop(data.draw(st.integers(0, len(shards) - 1)))
        into = data.draw(st.sampled_from(shards))
        if data.draw(st.booleans()):
            into.snapshot()
        unchanged = text(other)
        into.merge(other)
        assert text(other) == unchanged
    assert (bits(shards[0]) == bits(whole), shards[0].to_bytes() == whole.to_bytes()) == (
        True,
        True,
    )


@settings(max_examples=60, deadline=None)
@given(KINDS, st.integers(0, 25))
def test_serialised_state_goes_on_from_anywhere(some: list[dict[str, Any]], cut: int) -> None:
    first = aggregate(some[:cut])
    restored = RunningAggregates.from_bytes(first.to_bytes())
    assert bits(restored) == bits(first)
    for one in some[cut:]:
        restored.add(one)
    assert bits(restored) == bits(aggregate(some))
    restored.merge(restored)
    assert text(restored) == text(aggregate([*some, *some]))
