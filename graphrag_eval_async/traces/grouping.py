"""Groups spans by trace as they arrive; pure, without a clock or I/O."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import asdict, dataclass, field, replace
from hashlib import blake2b
from math import inf, isfinite
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from graphrag_eval_async.errors import UsageError
from graphrag_eval_async.text import plural
from graphrag_eval_async.traces.spans import size_of, size_of_value

if TYPE_CHECKING:
    from collections.abc import Iterable

    from graphrag_eval_async.traces.spans import Span

GRACE = 10.0
"""Seconds to wait for late spans after the root span: SDKs export every 5 s, each service for itself."""

TRACE_IDLE = 60.0
"""Seconds without a span after which a trace is complete without its root span."""

MAX_TRACES = 10_000
MAX_BYTES = 256 * 1024**2

REMEMBERED = 100_000
"""Number of traces to remember after they were returned, to recognise late spans."""

KEPT_BYTES = 32 * 1024**2
"""About how much memory traces take that were returned, and are kept for late spans."""

LISTED = 20
"""How many ids of late traces are kept."""

P = TypeVar("P")

Reason = Literal["root", "idle", "full", "end", "late"]


@dataclass(slots=True, eq=False)
class LateSpans:
    """Spans that came after their trace was evaluated. They change no result.

    Attributes:
        file: the file to which the whole responses of their traces are appended, if there is one.
        spans: number of late spans.
        traces: number of their traces.
        dropped: number of late spans that came so late that their trace was forgotten.
        trace_ids: ids of the first 20 traces.
    """

    file: str | None = None
    spans: int = 0
    traces: int = 0
    dropped: int = 0
    trace_ids: list[str] = field(default_factory=list)

    def facts(self) -> dict[str, Any] | None:
        """The attributes, and `text`, which tells them; None if no span was late."""
        ids = ", ".join(self.trace_ids) + (", ..." if self.traces > len(self.trace_ids) else "")
        text = f"{plural(self.spans, 'span')} of {plural(self.traces, 'trace')}"
        text += f" came after the trace was evaluated: {ids}. "
        if self.file is None:
            text += "With a file of results (-o), or `late` of TraceFormat, their responses are written whole"
        else:
            text += f"Evaluate the whole responses in {self.file}"
        text += f", but for {self.dropped} spans that came too late" if self.dropped else ""
        return {**asdict(self), "text": f"{text}; or wait longer (--grace)"} if self.spans else None


@dataclass(slots=True, eq=False)
class TraceGroup(Generic[P]):
    """The spans of one trace.

    Attributes:
        trace_id: id of the trace; empty for spans without one.
        place: place of the line with its first span.
        spans: the spans in order of arrival.
        reason: why it is complete: its root span came ("root"), no span came for a while ("idle"), too many
            traces were open ("full"), the source ended ("end"), or it was returned before and has late spans
            ("late"). None while it is open; whoever makes nothing of it sets it to None again.
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
    memory, the oldest is returned as it is. A trace that was returned is opened again by late spans, and
    returned once more, after `trace_idle` seconds or at the end; only those of the last 32 MiB can be.

    The caller passes the time in seconds, of any clock. A time before an earlier one counts as the earlier.

    Attributes:
        evicted: number of traces that were returned early because too many were open.
        late: counts spans that came after their trace was returned.

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
        late: LateSpans | None = None,
    ) -> None:
        options = {"trace_idle": trace_idle, "max_traces": max_traces, "max_bytes": max_bytes}
        for name, value in {**options, "grace": grace}.items():
            if not isfinite(value) or value < 0 or (value == 0 and name != "grace"):
                raise UsageError(f"{name}: must be a positive number, not {value!r}")
        self.evicted = 0
        self.late = late or LateSpans()
        self._grace, self._idle = grace, trace_idle
        self._max_traces, self._max_bytes = max_traces, max_bytes
        self._bytes = 0
        self._now = -inf
        self._open: OrderedDict[str, TraceGroup[P]] = OrderedDict()
        # When each was last added to and when its root came, the longest ago first.
        self._added: OrderedDict[str, float] = OrderedDict()
        self._ended: OrderedDict[str, float] = OrderedDict()
        # Those that were returned, whether spans of them were late; and the last of these.
        self._given: OrderedDict[bytes, bool] = OrderedDict()
        self._kept: OrderedDict[str, TraceGroup[P]] = OrderedDict()
        self._kept_bytes = 0

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
            if span.trace_id and not self._takes(span.trace_id):
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

    def finish_late(self) -> list[TraceGroup[P]]:
        """The traces that late spans have opened again."""
        late = [trace_id for trace_id, group in self._open.items() if group.reason is not None]
        return [self._give(trace_id, "end") for trace_id in late]

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
        group.reason = reason if group.reason is None else "late"
        group.resources.clear()
        self._bytes -= group.size
        self._added.pop(trace_id, None)
        self._ended.pop(trace_id, None)
        if trace_id:
            self._given.setdefault(_digest(trace_id), False)
            self._kept[trace_id] = group
            self._kept_bytes += group.size
            while self._kept_bytes > KEPT_BYTES:
                self._kept_bytes -= self._kept.popitem(last=False)[1].size
            if len(self._given) > REMEMBERED:
                self._given.popitem(last=False)
        return group

    def _takes(self, trace_id: str) -> bool:
        """Whether a trace takes one more span; one that was returned is opened again, if it is kept."""
        group = self._open.get(trace_id)
        if group is not None and group.reason is None:
            return True
        key = _digest(trace_id)
        if group is None:
            if key not in self._given:
                return True
            if (group := self._kept.pop(trace_id, None)) is not None:
                # Another, since the caller may be about to use the one that was returned.
                self._open[trace_id] = group = replace(group, spans=[*group.spans])
                self._bytes += group.size
                self._kept_bytes -= group.size
                if group.reason is None:
                    return True
        self.late.spans += 1
        self.late.dropped += group is None
        if self._given.get(key) is False:
            self._given[key] = True
            self.late.traces += 1
            self.late.trace_ids += [trace_id[:40]] if len(self.late.trace_ids) < LISTED else []
        return group is not None


def _digest(trace_id: str) -> bytes:
    return blake2b(trace_id.encode(errors="surrogatepass"), digest_size=16).digest()
