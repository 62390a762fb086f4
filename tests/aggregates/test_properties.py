"""Running aggregates against the batch formulas, at every prefix and however the results are split."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphrag_eval_async.aggregates import RunningAggregates, ordered, running
from tests.aggregates.oracle import batch_aggregates
from tests.aggregates.strategies import TEMPLATES, results

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


@pytest.fixture(autouse=True, scope="module", params=["small", "real"])
def sizes(request: pytest.FixtureRequest) -> Iterator[None]:
    """With chunks and batches of a few values, a short list of results exercises all of the store."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "small":
            patch.setattr(ordered, "CHUNK", 3)
            patch.setattr(ordered, "FEW", 1)
            patch.setattr(running, "BATCH", 4)
        yield


def aggregate(some: Iterable[Mapping[str, Any]], *, include_errors: bool = False) -> RunningAggregates:
    aggregates = RunningAggregates(templates=TEMPLATES, include_errors=include_errors)
    for result in some:
        aggregates.add(result)
    return aggregates


def text(aggregates: RunningAggregates) -> str:
    return json.dumps(aggregates.snapshot(), allow_nan=False)


@settings(deadline=None)
@given(st.lists(results(), max_size=25), st.booleans())
def test_every_prefix_equals_the_batch_formulas(some: list[dict[str, Any]], include_errors: bool) -> None:
    aggregates = RunningAggregates(templates=TEMPLATES, include_errors=include_errors)
    for count, result in enumerate(some, 1):
        before = json.dumps(result)
        aggregates.add(result)
        expected = batch_aggregates(some[:count], templates=TEMPLATES, include_errors=include_errors)
        assert text(aggregates) == json.dumps(expected)
        assert json.dumps(result) == before


@settings(deadline=None)
@given(st.data(), st.lists(results(), max_size=25))
def test_order_shards_and_merge_tree_do_not_matter(data: st.DataObject, some: list[dict[str, Any]]) -> None:
    expected = text(aggregate(some))
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
    assert text(shards[0]) == expected


@settings(deadline=None)
@given(st.lists(results(), max_size=25), st.integers(0, 25))
def test_serialised_state_goes_on_from_anywhere(some: list[dict[str, Any]], cut: int) -> None:
    first = aggregate(some[:cut])
    restored = RunningAggregates.from_bytes(first.to_bytes())
    assert text(restored) == text(first)
    for result in some[cut:]:
        restored.add(result)
    assert text(restored) == text(aggregate(some))
    restored.merge(first)
    first.merge(aggregate(some))
    assert text(restored) == text(first)


@settings(deadline=None)
@given(st.lists(results(), max_size=12))
def test_merging_with_itself_counts_everything_twice(some: list[dict[str, Any]]) -> None:
    aggregates = aggregate(some)
    aggregates.merge(aggregates)
    assert text(aggregates) == text(aggregate([*some, *some]))
