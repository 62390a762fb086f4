"""Groups spans by trace as they arrive; pure, without a clock or I/O."""

from __future__ import annotations

import logging
from collections import OrderedDict
from dataclasses import dataclass, field
from hashlib import blake2b
from math import inf, isfinite
from typing import TYPE_CHECKING, Generic, Literal, TypeVar

from graphrag_eval_async.errors import UsageError
from graphrag_eval_async.traces.spans import size_of, size_of_value

if TYPE_CHECKING:
    from collections.abc import Iterable

    from graphrag_eval_async.traces.spans import Span

LOGGER = logging.getLogger("graphrag_eval_async.traces")

GRACE = 2.0
"""Seconds to wait for late spans after the root span."""

TRACE_IDLE = 60.0
"""Seconds without a span after which a trace is complete without its root span."""

MAX_TRACES = 10_000
MAX_BYTES = 256 * 1024**2

REMEMBERED = 100_000
"""Number of traces to remember after they were returned, to recognise late spans."""

P = TypeVar("P")

Reason = Literal["root", "idle", "full", "end"]


@dataclass(slots=True, eq=False)
class TraceGroup(Generic[P]):
    """The spans of one trace.

    Attributes:
        trace_id: id of the trace; empty for spans without one.
        place: place of the line with its first span.
        spans: the spans in order of arrival.
        reason: why it is complete: its root span came ("root"), no span came for a while ("idle"), too many
            traces were open ("full"), or the source ended ("end"). None while it is open.
    """

    trace_id: str
    place: P
    spans: list[Span] = field(default_factory=list)
    reason: Reason | None = None
    size: int = 0
    resources: dict[int, object] = field(default_factory=dict)


class TraceGroups(Generic[P]):
    """Groups spans by trace and returns complete traces.

    A trace is complete `grace` seconds after its root span came, or when none of its spans came for
    `trace_idle` seconds. If more than `max_traces` are open, or they take more than about `max_bytes` of
    memory, the oldest is returned as it is. Spans that come after their trace was returned are dropped and
    counted.

    The caller passes the time in seconds, of any clock. A time before an earlier one counts as the earlier.

    Attributes:
        evicted: number of traces that were returned early because too many were open.
        late: number of spans that came after their trace was returned.

    Raises:
        UsageError: an option is not a positive number.
    """

    def __init__(
        self,
        *,
        grace: float = GRACE,
        trace_idle: float = TRACE_IDLE,
        max_traces: int = MAX_TRACES,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        options = {"trace_idle": trace_idle, "max_traces": max_traces, "max_bytes": max_bytes}
        for name, value in {**options, "grace": grace}.items():
            if not isfinite(value) or value < 0 or (value == 0 and name != "grace"):
                raise UsageError(f"{name}: must be a positive number, not {value!r}")
        self.evicted = 0
        self.late = 0
        self._grace, self._idle = grace, trace_idle
        self._max_traces, self._max_bytes = max_traces, max_bytes
        self._bytes = 0
        self._now = -inf
        self._open: OrderedDict[str, TraceGroup[P]] = OrderedDict()
        # When each was last added to and when its root came, the longest ago first.
        self._added: OrderedDict[str, float] = OrderedDict()
        self._ended: OrderedDict[str, float] = OrderedDict()
        self._given: OrderedDict[bytes, None] = OrderedDict()

    def __len__(self) -> int:
        """How many traces are open."""
        return len(self._open)

    @property
    def next_due(self) -> float | None:
        """When the next trace is complete if no span comes; None if none is open."""
        due = [next(iter(self._ended.values())) + self._grace] if self._ended else []
        due += [next(iter(self._added.values())) + self._idle] if self._added else []
        return min(due, default=None)

    def add(self, spans: Iterable[Span], place: P, now: float) -> list[TraceGroup[P]]:
        """Add the spans of the line at `place`, and return the traces that are complete or have no room."""
        given = self.due(now)
        for span in spans:
            if span.trace_id and _digest(span.trace_id) in self._given:
                self._drop(span)
                continue
            self._add(span, place)
            while len(self._open) > self._max_traces or self._bytes > self._max_bytes:
                self.evicted += 1
                given.append(self._give(next(iter(self._open)), "full"))
        return given

    def due(self, now: float) -> list[TraceGroup[P]]:
        """Return the traces that are complete now."""
        self._now = max(self._now, now)
        given = []
        while self._ended and next(iter(self._ended.values())) + self._grace <= self._now:
            given.append(self._give(next(iter(self._ended)), "root"))
        while self._added and next(iter(self._added.values())) + self._idle <= self._now:
            given.append(self._give(next(iter(self._added)), "idle"))
        return given

    def finish(self, *, only_ended: bool = False) -> list[TraceGroup[P]]:
        """All traces that are still open, the oldest first, or only those whose root span has come."""
        ending = [trace_id for trace_id in self._open if not only_ended or trace_id in self._ended]
        return [self._give(trace_id, "end") for trace_id in ending]

    def _add(self, span: Span, place: P) -> None:
        trace_id = span.trace_id
        group = self._open.get(trace_id)
        if group is None:
            group = self._open[trace_id] = TraceGroup(trace_id, place)
        size = size_of(span)
        if id(span.resource) not in group.resources:
            group.resources[id(span.resource)] = span.resource
            size += size_of_value(span.resource)
        group.spans.append(span)
        group.size += size
        self._bytes += size
        self._added[trace_id] = self._now
        self._added.move_to_end(trace_id)
        if span.is_root and trace_id:
            self._ended.setdefault(trace_id, self._now)

    def _give(self, trace_id: str, reason: Reason) -> TraceGroup[P]:
        group = self._open.pop(trace_id)
        group.reason = reason
        group.resources.clear()
        self._bytes -= group.size
        self._added.pop(trace_id, None)
        self._ended.pop(trace_id, None)
        if trace_id:
            self._given[_digest(trace_id)] = None
            if len(self._given) > REMEMBERED:
                self._given.popitem(last=False)
        return group

    def _drop(self, span: Span) -> None:
        self.late += 1
        if self.late == 1:
            LOGGER.warning(
                "A span came after its trace %.40r was evaluated. Such spans are dropped and counted; a "
                "longer grace (now %g s) or trace_idle (now %g s) waits for them.",
                span.trace_id,
                self._grace,
                self._idle,
            )


def _digest(trace_id: str) -> bytes:
    return blake2b(trace_id.encode(errors="surrogatepass"), digest_size=16).digest()
