"""Running aggregates against the batch formulas: at every prefix, however they are split, in every window."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphrag_eval_async import Last, RunningAggregates, Seconds
from graphrag_eval_async.aggregates import ordered, running, window
from tests.aggregates.made import aggregated, bits
from tests.aggregates.oracle import batch_aggregates
from tests.aggregates.strategies import TEMPLATES, judged, results, scored

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


@pytest.fixture(autouse=True, scope="module", params=["small", "real"])
def sizes(request: pytest.FixtureRequest) -> Iterator[None]:
    """With chunks and batches of a few values, a short list of results exercises all of the store."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "small":
            patch.setattr(ordered, "CHUNK", 3)
            patch.setattr(running, "BATCH", 4)
        yield


def aggregate(some: Iterable[Mapping[str, Any]], *, include_errors: bool = False) -> RunningAggregates:
    return aggregated(some, templates=TEMPLATES, include_errors=include_errors)


def text(aggregates: RunningAggregates) -> str:
    return json.dumps(aggregates.snapshot(), allow_nan=False)


KINDS = st.lists(results(), max_size=25) | st.lists(scored(), max_size=25) | st.lists(judged(), max_size=12)


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
@given(st.data(), KINDS)
def test_order_shards_and_merge_tree_do_not_matter(data: st.DataObject, some: list[dict[str, Any]]) -> None:
    parts = data.draw(st.lists(st.sampled_from(some), max_size=5)) if some else []
    some = [*some, *({**part, "question_id": "pending", "pending": ["answer_correctness"]} for part in parts)]
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
    assert (bits(shards[0]) == bits(whole), shards[0].to_bytes() == whole.to_bytes()) == (True, True)


@settings(deadline=None)
@given(KINDS, st.integers(0, 25))
def test_serialised_state_goes_on_from_anywhere(some: list[dict[str, Any]], cut: int) -> None:
    first = aggregate(some[:cut])
    restored = RunningAggregates.from_bytes(first.to_bytes())
    assert bits(restored) == bits(first)
    for result in some[cut:]:
        restored.add(result)
    assert bits(restored) == bits(aggregate(some))
    restored.merge(first)
    first.merge(aggregate(some))
    assert text(restored) == text(first)


@settings(deadline=None)
@given(KINDS)
def test_merging_with_itself_counts_everything_twice(some: list[dict[str, Any]]) -> None:
    aggregates = aggregate(some)
    aggregates.merge(aggregates)
    assert text(aggregates) == text(aggregate([*some, *some]))


class Clock:
    """In quarters of seconds, which doubles hold exactly."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


moments = st.lists(
    results()
    | scored()
    | judged()
    | st.sampled_from([0.25, 1.0, 10.0]).map(lambda seconds: {"wait": seconds})
    | st.just({"look": True}),
    max_size=40,
)


@settings(deadline=None)
@given(moments, st.integers(1, 12).map(Last) | st.sampled_from([0.25, 1.0, 5.0]).map(Seconds), st.booleans())
def test_a_window_is_as_if_nothing_else_had_ever_counted(
    story: list[dict[str, Any]], span: Last | Seconds, include_errors: bool
) -> None:
    clock = Clock()
    counted: list[tuple[float, dict[str, Any]]] = []
    windowed = RunningAggregates(templates=TEMPLATES, include_errors=include_errors, window=span)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(window, "monotonic", clock)
        for moment in [*story, {"look": True}]:
            if "wait" in moment:
                clock.now += moment["wait"]
            elif "look" in moment:
                if isinstance(span, Last):
                    inside = [result for _, result in counted[-span.count :]]
                else:
                    inside = [result for came, result in counted if clock.now - came < span.seconds]
                same = bits(windowed) == bits(aggregate(inside, include_errors=include_errors))
                assert same  # pytest would compare the texts for minutes.
            else:
                windowed.add(moment)
                counted.append((clock.now, moment))
