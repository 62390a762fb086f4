"""When the results of earlier runs came."""

from __future__ import annotations

from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from graphrag_eval_async.aggregates import Last, Seconds
from graphrag_eval_async.monitor.arrivals import Arrivals

WINDOW = 200.0
STEP = WINDOW / 100
TIME = "graphrag_eval_async.monitor.arrivals.time"

RUN = st.tuples(
    st.lists(st.sampled_from([0.0, 0.1, 1.0, 30.0, 250.0]), max_size=40),  # seconds before each result
    st.booleans(),  # whether it ends in order
    st.integers(0, 40),  # how many results the next run does not find, as if they were damaged
)


@given(st.lists(RUN, min_size=1, max_size=4))
def test_the_times_of_results_outlive_kills(runs: list[tuple[list[float], bool, int]]) -> None:
    """Results of the last second before a kill may seem older; others are right to a mark or a second."""
    now, came, sure, kept = 1e9, list[float](), list[bool](), list[tuple[float, int]]()
    for gaps, in_order, damaged in runs:
        arrivals = Arrivals([Seconds(5.0), None, Last(3), Seconds(WINDOW)])
        with patch(TIME, lambda: now):  # noqa: B023
            arrivals.load(kept)
            for when, is_sure in zip(came, sure, strict=True):
                age, true = arrivals.restore(), now - when
                if is_sure:
                    assert age is None or -1e-6 <= true - age <= STEP + 1
                    assert age is not None or true >= WINDOW
                else:
                    assert age is None or age >= true - STEP - 1
            arrivals.resume()
            marked = 0
            for added, gap in enumerate(gaps, 1):
                for _ in range(int(gap)):  # Somebody looks once a second.
                    now += 1.0
                    if arrivals.note(added - 1):
                        marked = added - 1
                now += gap % 1
                came.append(now)
            if in_order:
                arrivals.note(len(gaps), last=True)
            kept = arrivals.marks()
            assert len(kept) <= 110 + len(runs)
        sure += [in_order or place < marked for place in range(len(gaps))]
        for _ in range(min(damaged, len(gaps))):  # Those are evaluated again, by a later run.
            came.pop()
            sure.pop()
        now += 7.0


def test_without_a_time_window_no_marks_are_written() -> None:
    arrivals = Arrivals([Last(3), None])
    assert not arrivals.note(5)
    assert arrivals.restore() is None
    assert arrivals.marks() == []
