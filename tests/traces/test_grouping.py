from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

from graphrag_eval_async.traces.grouping import KEPT_BYTES, TraceGroup, TraceGroups
from graphrag_eval_async.traces.spans import Span

if TYPE_CHECKING:
    from collections.abc import Iterable


def child(trace: str = "a", **more: Any) -> Span:
    return Span(trace, parent_id="r", **more)


def root(trace: str = "a") -> Span:
    return Span(trace, "r")


def ids(groups: Iterable[TraceGroup[int]]) -> list[tuple[str, int, str | None]]:
    return [(group.trace_id, len(group.spans), group.reason) for group in groups]


def test_late_spans_of_forgotten_traces_are_dropped_and_counted() -> None:
    groups = TraceGroups[int](grace=2)
    groups.add([root()], 1, 0)
    groups.add([Span("b", "r", size=KEPT_BYTES + 1)], 2, 0)
    assert ids(groups.close_due(2)) == [("a", 1, "root"), ("b", 1, "root")]
    assert not groups.add([child("a"), child("b"), child("b")], 3, 3)
    assert groups.finish() == []
    assert (groups.late.spans, groups.late.traces, groups.late.dropped) == (3, 2, 3)
    # What was not used is not late.
    groups = TraceGroups[int](grace=2)
    [unused] = [*groups.add([root()], 1, 0), *groups.close_due(2)]
    unused.reason = None
    assert (groups.next_due, ids([*groups.add([child()], 2, 3), *groups.close_due(63)])) == (
        None,
        [("a", 2, "idle")],
    )
    assert groups.late.facts() is None


# What comes: after how many seconds, of which trace, and whether it is the root.
COMING = st.lists(
    st.tuples(st.sampled_from([0, 1, 2, 5, 30, 70]), st.sampled_from("abc"), st.booleans()),
    max_size=30,
)


def expected(arrivals: list[tuple[int, Span]]) -> dict[str, list[Span]]:
    """The spans of each trace that come while it is open; all arrivals are known."""
    found: dict[str, list[Span]] = {}
    for trace in {span.trace_id for _, span in arrivals}:
        kept: list[Span] = []
        closes = 10**9
        idle_from = 0
        for time, span in arrivals:
            if span.trace_id == trace:
                if kept and time >= min(closes, idle_from + 60):
                    break
                kept.append(span)
                idle_from = time
                closes = min(closes, time + 10) if span.is_root else closes
        found[trace] = kept
    return found


@settings(max_examples=300, deadline=None)
@given(COMING)
def test_against_grouping_at_the_end(coming: list[tuple[int, str, bool]]) -> None:
    arrivals: list[tuple[int, Span]] = []
    now = 0
    for wait, trace, is_root in coming:
        now += wait
        arrivals.append((now, root(trace) if is_root else child(trace)))
    groups = TraceGroups[int]()
    first, last = dict[str, list[Span]](), dict[str, list[Span]]()

    def take(given_out: list[TraceGroup[int]]) -> None:
        for group in given_out:
            assert (group.reason == "late") == (group.trace_id in first)
            assert arrivals[group.place][1] is group.spans[0]
            first.setdefault(group.trace_id, [*group.spans])
            last[group.trace_id] = [*group.spans]

    for at, (time, span) in enumerate(arrivals):
        take(groups.add([span], at, time))
    take(groups.finish())
    assert first == expected(arrivals)
    assert last == {
        trace: [span for _, span in arrivals if span.trace_id == trace] for trace in first
    }
    assert groups.late.spans == len(arrivals) - sum(map(len, first.values()))
    assert groups.late.traces == sum(first[trace] != last[trace] for trace in first)


@settings(max_examples=200, deadline=None)
@given(COMING, st.integers(1, 3), st.integers(1, 5))
def test_what_is_open_is_bounded_and_no_span_is_lost(
    coming: list[tuple[int, str, bool]], traces: int, spans: int
) -> None:
    limit = child().size * spans * 2
    groups = TraceGroups[int](max_traces=traces, max_bytes=limit)
    given_out: list[tuple[str, int, str | None]] = []
    for at, (wait, trace, is_root) in enumerate(coming):
        given_out += ids(groups.add([root(trace) if is_root else child(trace)], at, wait))
        assert len(groups) <= traces
    given_out += ids(groups.finish())
    assert sum({trace: count for trace, count, _ in given_out}.values()) == len(coming)
    assert not len(groups)
