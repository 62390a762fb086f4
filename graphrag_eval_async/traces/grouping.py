"""Groups spans by trace as they arrive; pure, without a clock or I/O."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import asdict, dataclass, field, replace
from math import inf, isfinite
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from graphrag_eval_async.errors import UsageError
from graphrag_eval_async.helpers.text import plural

if TYPE_CHECKING:
    from collections.abc import Iterable

    from graphrag_eval_async.traces.spans import Span

GRACE = 10.0
"""Seconds to wait for late spans after the root span: SDKs export every 5 s, each service for
itself.
"""

TRACE_IDLE = 60.0
"""Seconds without a span after which a trace is complete without its root span."""

MAX_TRACES = 10_000
"""How many traces may be open."""

MAX_BYTES = 256 * 1024**2
"""About how much memory the open traces may take."""

REMEMBERED = 100_000
"""How many ids of traces are remembered after these were returned, to tell late spans."""

KEPT_BYTES = 32 * 1024**2
"""About how much memory the traces take that are kept after they were returned, for late spans."""

LISTED = 20
"""How many ids of late traces are kept."""

_SHOWN_ID_CHARACTERS = 40
"""How many characters of an id of a late trace are kept."""

P = TypeVar("P")

Reason = Literal["root", "idle", "full", "end", "late"]
"""Why a trace was returned: see `TraceGroup`."""


@dataclass(slots=True, eq=False)
class LateSpans:
    """Counts the spans that came after their trace was evaluated; they change no result.

    Attributes:
        file: file to which the whole responses of traces with late spans are appended; None if
            they are not written.
        spans: how many spans were late.
        traces: how many traces have late spans.
        dropped: how many spans came so late that their trace was forgotten.
        trace_ids: ids of the first `LISTED` traces with late spans.
    """

    file: str | None = None
    spans: int = 0
    traces: int = 0
    dropped: int = 0
    trace_ids: list[str] = field(default_factory=list)

    def facts(self) -> dict[str, Any] | None:
        """Return the attributes by name, and a message for users at ``text``.

        None if no span was late.
        """
        if self.spans == 0:
            return None
        ids = ", ".join(self.trace_ids)
        if self.traces > len(self.trace_ids):
            ids += ", ..."
        if self.file is None:
            cure = (
                "With a file of results (-o), or `late` of TraceFormat, their responses are "
                "written whole"
            )
        else:
            cure = f"Evaluate the whole responses in {self.file}"
        if self.dropped > 0:
            cure += f", but for {self.dropped} spans that came too late"

        counts = f"{plural(self.spans, 'span')} of {plural(self.traces, 'trace')}"
        text = (
            f"{counts} came after the trace was evaluated: {ids}. {cure}; or wait longer (--grace)"
        )
        return {**asdict(self), "text": text}

    def add(self, trace_id: str, *, is_dropped: bool, is_first_of_trace: bool) -> None:
        """Count one late span.

        Args:
            trace_id: id of the span's trace.
            is_dropped: whether the trace was forgotten, so that the span is lost.
            is_first_of_trace: whether the span is the first late span of its trace.
        """
        self.spans += 1
        if is_dropped:
            self.dropped += 1
        if is_first_of_trace:
            self.traces += 1
            if len(self.trace_ids) < LISTED:
                self.trace_ids.append(trace_id[:_SHOWN_ID_CHARACTERS])


@dataclass(slots=True, eq=False)
class TraceGroup(Generic[P]):
    """The spans of one trace.

    Attributes:
        trace_id: id of the trace; empty for spans without one.
        place: place of the line with the first span.
        spans: the spans, in order of arrival.
        size: about how many bytes of memory they take.
        reason: why the trace is complete: its root span came ("root"), no span came for a while
            ("idle"), too many traces were open ("full"), the source ended ("end"), or the trace was
            returned before and has late spans ("late"). It is None while the trace is open; a
            caller that makes nothing of the trace sets it to None again, so that later spans are
            not late.
    """

    trace_id: str
    place: P
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
        """Check and store the limits, which the class describes.

        Args:
            grace: seconds from a root span until its trace is complete; may be 0.
            trace_idle: seconds from the last span of a trace until the trace is complete.
            max_traces: how many traces may be open.
            max_bytes: how much memory they may take.
            late: counts late spans; None makes a new counter.

        Raises:
            UsageError: a number is negative, infinite, or 0 where it must be positive.
        """
        limits = {"trace_idle": trace_idle, "max_traces": max_traces, "max_bytes": max_bytes}
        for name, value in {**limits, "grace": grace}.items():
            is_zero = value == 0 and name != "grace"
            if not isfinite(value) or value < 0 or is_zero:
                raise UsageError(f"{name}: must be a positive number, not {value!r}")
        self.late = late or LateSpans()
        self._grace = grace
        self._trace_idle = trace_idle
        self._max_traces = max_traces
        self._max_bytes = max_bytes

        self._now = -inf  # The latest time that the caller passed.
        self._open: OrderedDict[str, TraceGroup[P]] = OrderedDict()
        self._open_bytes = 0
        # When each open trace is complete by its root, and by its last span; the earliest first.
        self._due_times: dict[Reason, OrderedDict[str, float]] = {
            "root": OrderedDict(),
            "idle": OrderedDict(),
        }
        # Ids of traces that were returned, and whether spans of them were late.
        self._had_late_spans: OrderedDict[str, bool] = OrderedDict()
        # The last traces that were returned, which late spans open again.
        self._kept: OrderedDict[str, TraceGroup[P]] = OrderedDict()
        self._kept_bytes = 0

    def __len__(self) -> int:
        """Return how many traces are open."""
        return len(self._open)

    @property
    def next_due(self) -> float | None:
        """When the next trace is complete if no span comes; None if no trace is open."""
        times = [_first_time(due_times) for due_times in self._due_times.values() if due_times]
        return min(times, default=None)

    def add(self, spans: Iterable[Span], place: P, now: float) -> list[TraceGroup[P]]:
        """Add the spans of one line to their traces.

        Args:
            spans: the spans.
            place: place of the line, which a trace keeps if these are its first spans.
            now: the time, in seconds.

        Returns:
            the traces that are complete now, and the oldest traces if there is no room for all.
        """
        complete = self.close_due(now)
        for span in spans:
            group = self._group_for(span.trace_id, place)
            if group is None:
                continue  # The span came so late that its trace was forgotten.
            group.spans.append(span)
            group.size += span.size
            self._open_bytes += span.size
            self._update_due_times(span)
            while len(self._open) > self._max_traces or self._open_bytes > self._max_bytes:
                oldest = next(iter(self._open))
                complete.append(self._close(oldest, "full"))
        return complete

    def _update_due_times(self, span: Span) -> None:
        """Set the times at which the trace of a span is complete, after the span came now."""
        idle_times = self._due_times["idle"]
        # The trace moves to the end of the times, since its time is the latest now.
        idle_times.pop(span.trace_id, None)
        idle_times[span.trace_id] = self._now + self._trace_idle
        if span.is_root and span.trace_id:
            # If a trace has several roots, the first one counts.
            self._due_times["root"].setdefault(span.trace_id, self._now + self._grace)

    def close_due(self, now: float) -> list[TraceGroup[P]]:
        """Close and return the traces that are complete at the time `now`, in seconds."""
        self._now = max(self._now, now)
        complete = []
        for reason, due_times in self._due_times.items():
            # The earliest time is always the first.
            while due_times and _first_time(due_times) <= self._now:
                trace_id = next(iter(due_times))
                complete.append(self._close(trace_id, reason))
        return complete

    def finish(self, *, only_ended: bool = False, only_late: bool = False) -> list[TraceGroup[P]]:
        """Close and return all open traces, the oldest first.

        Args:
            only_ended: whether traces without a root span stay open.
            only_late: whether traces stay open unless late spans opened them again.
        """
        trace_ids = []
        for trace_id, group in self._open.items():
            has_root = trace_id in self._due_times["root"]
            was_returned = group.reason is not None
            if only_ended and not has_root:
                continue
            if only_late and not was_returned:
                continue
            trace_ids.append(trace_id)
        return [self._close(trace_id, "end") for trace_id in trace_ids]

    def _group_for(self, trace_id: str, place: P) -> TraceGroup[P] | None:
        """Return the open trace for one more span, and count the span if it is late.

        A trace that is not open is opened, with `place` as the place of its first line. A trace
        that was returned is opened again. The result is None if such a trace is no longer kept.
        """
        group = self._open.get(trace_id)
        if group is None and trace_id in self._had_late_spans:
            group = self._open_again(trace_id)
        elif group is None:
            group = TraceGroup(trace_id, place)
            self._open[trace_id] = group

        is_late = group is None or group.reason is not None
        if is_late:
            # An open trace whose id is forgotten was counted when it was opened again.
            had_late_spans = self._had_late_spans.get(trace_id, True)
            if not had_late_spans:
                self._had_late_spans[trace_id] = True
            self.late.add(trace_id, is_dropped=group is None, is_first_of_trace=not had_late_spans)
        return group

    def _open_again(self, trace_id: str) -> TraceGroup[P] | None:
        """Reopen a trace that was returned, and return a copy of the trace.

        None if the trace is no longer kept.
        """
        kept_group = self._kept.pop(trace_id, None)
        if kept_group is None:
            return None
        # A copy, since the caller may be about to use the one that was returned.
        group = replace(kept_group, spans=list(kept_group.spans))
        self._open[trace_id] = group
        self._open_bytes += group.size
        self._kept_bytes -= group.size
        return group

    def _close(self, trace_id: str, reason: Reason) -> TraceGroup[P]:
        """Close an open trace, and return it with the reason why it is complete.

        The trace is kept for late spans, and its id is remembered. To make room, the oldest kept
        traces and the oldest id are forgotten.
        """
        group = self._open.pop(trace_id)
        was_returned = group.reason is not None
        group.reason = "late" if was_returned else reason
        self._open_bytes -= group.size
        for due_times in self._due_times.values():
            due_times.pop(trace_id, None)

        # Spans without the id of a trace are never late.
        if trace_id:
            self._had_late_spans.setdefault(trace_id, False)
            self._kept[trace_id] = group
            self._kept_bytes += group.size
            while self._kept_bytes > KEPT_BYTES:
                _, forgotten = self._kept.popitem(last=False)
                self._kept_bytes -= forgotten.size
            if len(self._had_late_spans) > REMEMBERED:
                self._had_late_spans.popitem(last=False)
        return group


def _first_time(due_times: OrderedDict[str, float]) -> float:
    """Return the first of the times at which traces are complete."""
    return next(iter(due_times.values()))
