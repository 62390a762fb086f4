"""Spans that come one by one, grouped to traces; no clock and no I/O."""

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
"""Seconds that a trace stays open after its root span has come."""

TRACE_IDLE = 60.0
"""Seconds without a span after which a trace is given out without its root span."""

MAX_TRACES = 10_000
MAX_BYTES = 256 * 1024**2

REMEMBERED = 100_000
"""How many traces that were given out are remembered, to tell late spans."""

P = TypeVar("P")

Reason = Literal["root", "idle", "full", "end"]


@dataclass(slots=True, eq=False)
class TraceGroup(Generic[P]):
    """The spans of one trace.

    Attributes:
        trace_id: empty for spans without one.
        place: of the line that brought its first span.
        spans: in the order in which they came.
        reason: why it was given out: its "root" has ended, nothing came for a while ("idle"), there were too
            many open traces ("full"), or "end". None while it is open.
    """

    trace_id: str
    place: P
    spans: list[Span] = field(default_factory=list)
    reason: Reason | None = None
    size: int = 0
    resources: dict[int, object] = field(default_factory=dict)


class TraceGroups(Generic[P]):
    """Gives out traces once they are complete.

    A trace is complete when its root span has come and `grace` seconds have passed, or when no span of it has
    come for `trace_idle` seconds. If there are more than `max_traces`, or they take about more than
    `max_bytes` of memory, the oldest is given out as it is. Spans of a trace that was given out are dropped
    and counted.

    Times are those of a clock of the caller's, in seconds. A time before an earlier one counts as that one.

    Attributes:
        evicted: how many traces were given out early for want of room.
        late: how many spans came after their trace was given out.

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
        """The traces that are complete by now."""
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
                "A span came after its trace %.40r was given out; it and later ones are dropped and counted. "
                "A longer grace (now %g s) or trace_idle (now %g s) waits for them.",
                span.trace_id,
                self._grace,
                self._idle,
            )


def _digest(trace_id: str) -> bytes:
    return blake2b(trace_id.encode(errors="surrogatepass"), digest_size=16).digest()
