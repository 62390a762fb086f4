"""Windows: a snapshot is as if nothing else had ever counted, and what has left takes no memory."""

from __future__ import annotations

import gc
import weakref
from time import monotonic, sleep
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphrag_eval_async import Last, RunningAggregates, Seconds
from graphrag_eval_async.errors import AggregationError, UsageError
from tests.aggregates.made import aggregated, bits, result
from tests.aggregates.strategies import TEMPLATES, judged, results, scored
from tests.support.deadlines import WAIT_SECONDS

ONE = results() | scored() | judged()
AGES = st.sampled_from([0.0, 400.0, 900.0, 1100.0, 5000.0])
"""Far from the ends of the window of seconds below, since the clock goes on."""


class Step(dict[str, Any]):
    """One that can be referred to weakly."""


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(ONE, st.booleans()), max_size=30), st.integers(1, 12))
def test_the_last_results_are_as_if_nothing_else_had_ever_counted(
    story: list[tuple[dict[str, Any], bool]], count: int
) -> None:
    windowed = RunningAggregates(window=Last(count), templates=TEMPLATES)
    for place, (one, looks) in enumerate(story, 1):
        windowed.add(one)
        if looks or place == len(story):
            inside = [one for one, _ in story[max(0, place - count) : place]]
            same = bits(windowed) == bits(aggregated(inside, templates=TEMPLATES))
            assert same  # pytest would compare the texts for minutes.


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(ONE, AGES), max_size=20))
def test_results_of_the_last_seconds_by_the_age_that_they_have_when_added(
    story: list[tuple[dict[str, Any], float]],
) -> None:
    story.sort(key=lambda each: -each[1])
    windowed = RunningAggregates(window=Seconds(1000))
    for one, age in story:
        windowed.add(one, age=age)
        windowed.snapshot()
    inside = aggregated(one for one, age in story if age < 1000)
    assert bits(windowed) == bits(inside)


def test_results_leave_a_window_of_seconds_as_time_goes_by() -> None:
    windowed = RunningAggregates(window=Seconds(1000))
    for age in (999.9, 5.0):
        windowed.add(result(steps_score=1.0), age=age)
    end = monotonic() + WAIT_SECONDS
    while windowed.snapshot()["micro"]["number_of_success_samples"] != 1:
        assert monotonic() < end
        sleep(0.01)


def test_what_does_not_count_takes_no_place() -> None:
    windowed = aggregated(
        [result(elapsed_sec=1.0), result("failed", status="error")], window=Last(2)
    )
    before = windowed.snapshot()
    windowed.add(result(elapsed_sec=9.0, pending=["answer_correctness"]))
    with pytest.raises(AggregationError):
        windowed.add(result(elapsed_sec="9"))
    assert windowed.snapshot() == before


def test_what_cannot_be_done_with_windows() -> None:
    for into, other in [(Last(1), None), (None, Seconds(1)), (Last(1), Last(1))]:
        with pytest.raises(UsageError, match="cannot be merged"):
            RunningAggregates(window=into).merge(RunningAggregates(window=other))
    with pytest.raises(UsageError, match="cannot be converted to bytes"):
        RunningAggregates(window=Last(1)).to_bytes()
    for wrong in (lambda: Last(0), lambda: Seconds(0), lambda: Seconds(float("inf"))):
        with pytest.raises(UsageError, match=r"count|seconds"):
            wrong()


@pytest.mark.parametrize("status", ["success", "error"])
def test_what_has_left_takes_no_memory(status: str) -> None:
    windowed, steps = RunningAggregates(window=Last(10)), []
    for i in range(1000):
        step = Step(name="s", output="[]")
        steps.append(weakref.ref(step))
        windowed.add(result(f"t{i}", status=status, elapsed_sec=i, actual_steps=[step]))
        if i % 7 == 0:
            windowed.snapshot()
    del step
    gc.collect()
    assert not any(step() for step in steps)
    assert len(windowed.snapshot()["per_template"]) == 10
