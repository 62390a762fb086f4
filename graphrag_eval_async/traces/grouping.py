"""Groups spans by trace as they arrive; pure, without a clock or I/O."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import asdict, dataclass, field, replace
from math import inf, isfinite
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from graphrag_eval_async.errors import UsageError
from graphrag_eval_async.text import plural

if TYPE_CHECKING:
    from collections.abc import Iterable

    from graphrag_eval_async.traces.spans import Span

GRACE = 10.0
"""Seconds to wait for late spans after the root span: SDKs export every 5 s, each service for
itself.
"""

TRACE_IDLE = 60.0  # Seconds without a span after which a trace is complete without its root span.

MAX_TRACES, MAX_BYTES = 10_000, 256 * 1024**2
"""How many traces may be open, and about how much memory they may take."""

REMEMBERED, KEPT_BYTES = 100_000, 32 * 1024**2
"""How many traces are remembered after they were returned, for late spans, and how much of them
is kept.
"""

LISTED = 20  # How many ids of late traces are kept.

P = TypeVar("P")

Reason = Literal["root", "idle", "full", "end", "late"]


@dataclass(slots=True, eq=False)
class LateSpans:
    """How many spans came after their trace was evaluated, and of how many traces. They change
    no result.
    """

    file: str | None = None  # Where the whole responses of their traces are appended.
    spans: int = 0
    traces: int = 0
    dropped: int = 0  # Spans that came so late that their trace was forgotten.
    trace_ids: list[str] = field(default_factory=list)  # Of the first `LISTED`.

    def facts(self) -> dict[str, Any] | None:
        """The attributes, and `text`, which tells them; None if no span was late."""
        if not self.spans:
            return None
        ids = ", ".join(self.trace_ids) + (", ..." if self.traces > len(self.trace_ids) else "")
        what = f"{plural(self.spans, 'span')} of {plural(self.traces, 'trace')}"
        cure = (
            "With a file of results (-o), or `late` of TraceFormat, their responses are written "
            "whole"
        )
        cure = cure if self.file is None else f"Evaluate the whole responses in {self.file}"
        cure += f", but for {self.dropped} spans that came too late" if self.dropped else ""
        text = f"{what} came after the trace was evaluated: {ids}. {cure}; or wait longer (--grace)"
        return {**asdict(self), "text": text}


@dataclass(slots=True, eq=False)
class TraceGroup(Generic[P]):
    """The spans of one trace, in order of arrival.

    It is complete because its root span came ("root"), no span came for a while ("idle"), too many
    were open ("full"), the source ended ("end"), or it was returned before and has late spans
    ("late"). The reason is None while it is open; whoever makes nothing of it sets it to None
    again.
    """

    trace_id: str
    place: P  # Of the line with its first span.
    spans: list[Span] = field(default_factory=list)
    size: int = 0
    reason: Reason | None = None


class TraceGroups(Generic[P]):
    """Groups spans by trace and returns complete traces.

    A trace is complete `grace` seconds after its root span came, or when none of its spans came for
    `trace_idle` seconds. If more than `max_traces` are open, or they take more than about
    `max_bytes` of memory, the oldest is returned as it is. A trace that was returned is opened
    again by late spans, and returned once more, after `trace_idle` seconds or at the end; only
    those of the last 32 MiB can be.

    The caller passes the time in seconds, of any clock. A time before an earlier one counts as the
    earlier.
    """

    def __init__(
        self,
        *,
        grace: float = GRACE,
        trace_idle: float = TRACE_IDLE,
        max_traces: int = MAX_TRACES,
        max_bytes: int = MAX_BYTES,
        late: LateSpans | None = None,
    ) -> None:
        options = {"trace_idle": trace_idle, "max_traces": max_traces, "max_bytes": max_bytes}
        for name, value in {**options, "grace": grace}.items():
            if not isfinite(value) or value < 0 or (value == 0 and name != "grace"):
                raise UsageError(f"{name}: must be a positive number, not {value!r}")
        self.late = late or LateSpans()
        self._grace, self._idle, self._now = grace, trace_idle, -inf
        self._max_traces, self._max_bytes = max_traces, max_bytes
        self._bytes = self._kept_bytes = 0
        self._open: OrderedDict[str, TraceGroup[P]] = OrderedDict()
        # When each is complete by its root, and by its last span; the earliest first.
        self._due: dict[Reason, OrderedDict[str, float]] = {
            "root": OrderedDict(),
            "idle": OrderedDict(),
        }
        # Those that were returned, and whether spans of them were late; the last of them are kept.
        self._returned: OrderedDict[str, bool] = OrderedDict()
        self._kept: OrderedDict[str, TraceGroup[P]] = OrderedDict()

    def __len__(self) -> int:
        """How many traces are open."""
        return len(self._open)

    @property
    def next_due(self) -> float | None:
        """When the next trace is complete if no span comes; None if none is open."""
        return min((next(iter(due.values())) for due in self._due.values() if due), default=None)

    def add(self, spans: Iterable[Span], place: P, now: float) -> list[TraceGroup[P]]:
        """Add the spans of the line at `place`, and return the traces that are complete or have
        no room.
        """
        complete = self.due(now)
        for span in spans:
            group = self._group_of(span.trace_id, place)
            if group is None:
                continue
            group.spans.append(span)
            group.size += span.size
            self._bytes += span.size
            self._due["idle"].pop(span.trace_id, None)
            self._due["idle"][span.trace_id] = self._now + self._idle
            if span.is_root and span.trace_id:
                self._due["root"].setdefault(span.trace_id, self._now + self._grace)
            while len(self._open) > self._max_traces or self._bytes > self._max_bytes:
                complete.append(self._give(next(iter(self._open)), "full"))
        return complete

    def due(self, now: float) -> list[TraceGroup[P]]:
        """Return the traces that are complete now."""
        self._now = max(self._now, now)
        complete = []
        for reason, due in self._due.items():
            while due and next(iter(due.values())) <= self._now:
                complete.append(self._give(next(iter(due)), reason))
        return complete

    def finish(self, *, only_ended: bool = False, only_late: bool = False) -> list[TraceGroup[P]]:
        """All open traces, the oldest first, or only those whose root has come, or that late
        spans opened.
        """
        ending = [
            trace_id
            for trace_id, group in self._open.items()
            if (not only_ended or trace_id in self._due["root"])
            and (not only_late or group.reason is not None)
        ]
        return [self._give(trace_id, "end") for trace_id in ending]

    def _group_of(self, trace_id: str, place: P) -> TraceGroup[P] | None:
        """The group of one more span, which may open it again; None if it was returned and is
        not kept.
        """
        group = self._open.get(trace_id)
        if group is None and trace_id not in self._returned:
            group = self._open[trace_id] = TraceGroup(trace_id, place)
        elif group is None and (kept := self._kept.pop(trace_id, None)) is not None:
            # Another, since the caller may be about to use the one that was returned.
            group = self._open[trace_id] = replace(kept, spans=[*kept.spans])
            self._bytes += group.size
            self._kept_bytes -= group.size
        if group is None or group.reason is not None:
            self.late.spans += 1
            self.late.dropped += group is None
            if not self._returned.get(trace_id, True):
                self._returned[trace_id] = True
                self.late.traces += 1
                self.late.trace_ids += [trace_id[:40]] if len(self.late.trace_ids) < LISTED else []
        return group

    def _give(self, trace_id: str, reason: Reason) -> TraceGroup[P]:
        group = self._open.pop(trace_id)
        group.reason = reason if group.reason is None else "late"
        self._bytes -= group.size
        for due in self._due.values():
            due.pop(trace_id, None)
        if trace_id:
            self._returned.setdefault(trace_id, False)
            self._kept[trace_id] = group
            self._kept_bytes += group.size
            while self._kept_bytes > KEPT_BYTES:
                self._kept_bytes -= self._kept.popitem(last=False)[1].size
            if len(self._returned) > REMEMBERED:
                self._returned.popitem(last=False)
        return group
