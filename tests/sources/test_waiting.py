from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from graphrag_eval_async.sources.waiting import MAX_ARRIVALS, Backlog


def test_no_lag() -> None:
    backlog = Backlog()
    assert backlog.lag(5.0) == (0, 0.0)
    backlog.note(0, 6.0)
    assert backlog.lag(7.0) == (0, 0.0)


def test_seconds_are_those_of_the_oldest_bytes_while_more_keep_coming() -> None:
    backlog = Backlog()
    for second in range(1000):
        backlog.note(0, second, read=10)
        assert backlog.lag(second + 0.5) == ((10, 0.5) if second == 0 else (20, 1.5))
        backlog.hand_out(10 if second else 0)
        assert backlog.lag(second + 0.5) == (10, 0.5)


def test_truncated_bytes_are_no_longer_waited_for() -> None:
    backlog = Backlog()
    backlog.note(10, 1.0)
    backlog.note(30, 2.0)
    backlog.note(5, 3.0)
    assert backlog.lag(4.0) == (5, 3.0)
    backlog.note(0, 5.0, read=5)
    backlog.hand_out(5)
    assert backlog.lag(6.0) == (0, 0.0)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=30), st.integers(1, 40))
def test_against_a_list_of_bytes(steps: list[tuple[int, int]], repeat: int) -> None:
    """Exact as long as no arrivals are merged; else the lag is never said to be shorter than it is."""
    backlog = Backlog()
    waiting: list[float] = []
    now, is_exact = 0.0, True
    for found, handed_out in steps * repeat:
        now += 1
        waiting += [now] * found
        backlog.note(0, now, read=found)
        is_exact = is_exact and len(set(waiting)) <= MAX_ARRIVALS
        handed_out = min(handed_out, len(waiting))
        del waiting[:handed_out]
        backlog.hand_out(handed_out)
        lag = backlog.lag(now)
        assert lag.bytes == len(waiting)
        expected = now - waiting[0] if waiting else 0.0
        assert lag.seconds == expected if is_exact else lag.seconds >= expected
