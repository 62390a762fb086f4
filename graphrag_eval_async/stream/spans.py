"""Groups OpenTelemetry spans by trace and converts each complete trace to a response."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any

import orjson

from graphrag_eval_async.helpers.threads import CLOSING_SECONDS, outlast, run_in_thread
from graphrag_eval_async.records import FileId, Line
from graphrag_eval_async.records.line import LARGE_BYTES
from graphrag_eval_async.sources import Source
from graphrag_eval_async.traces.format import UnreadTrace
from graphrag_eval_async.traces.grouping import LateSpans, TraceGroups
from graphrag_eval_async.traces.otlp import response_of_spans
from graphrag_eval_async.traces.spans import NO_SPANS, explain_no_agent, spans_of_line
from graphrag_eval_async.traces.trace import QuestionTexts

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable

    from graphrag_eval_async.records import Question, Record
    from graphrag_eval_async.traces.format import TraceFormat
    from graphrag_eval_async.traces.grouping import TraceGroup
    from graphrag_eval_async.traces.spans import Span

LOGGER = logging.getLogger("graphrag_eval_async.traces")

NOT_JSON = "lines that are not JSON"
"""The key under which `spans_of_line` counts a line that it cannot read."""

MAX_WITHOUT_AGENT = 10_000
"""How many traces without a span of an agent are rejected at the end; more are only counted."""

LISTED_SPANS = 20
"""How many names of spans the reject of a trace shows."""


class TraceLine(Line):
    """The response of a trace, with the number and the offset of the trace's first span.

    Attributes:
        identity: the id of the trace. A journal recognizes the trace by it, since the text of the
            line changes if more spans come.
    """

    identity: bytes


def grouped(
    source: Source,
    format: TraceFormat,  # noqa: A002  (as users name it)
    questions: Iterable[Question] | QuestionTexts | None,
    *,
    is_live: bool,
    is_stopped: Callable[[], bool] = lambda: False,
    is_known: Callable[[bytes], bool] = lambda _: False,
    late: LateSpans | None = None,
) -> Source:
    """Return a source with one line for each trace of `source`.

    If each line of the format is a whole trace already, return `source` itself.

    Args:
        source: the lines.
        format: the format of the traces.
        questions: the questions, to find that of a trace by its text; None if the reference set has
            none.
        is_live: whether spans arrive while they are made. Then a trace is complete if no more spans
            came for some time. Otherwise, as for files, it is complete at the end of the source.
        is_stopped: returns whether the source ended because it was stopped. Then traces without
            their root span are dropped, since they are incomplete.
        is_known: returns whether an earlier run has evaluated the trace with this identity. Then
            its line is skipped later, so it is left empty.
        late: gets the counts of spans that came after their trace was complete.
    """
    if not format.is_grouped:
        return source
    texts = None
    if questions is not None and format.question_id is None:
        texts = questions if isinstance(questions, QuestionTexts) else QuestionTexts(questions)
    reader = _SpanReader(
        format=format,
        texts=texts,
        is_live=is_live,
        is_stopped=is_stopped,
        is_known=is_known,
        late=late or LateSpans(),
    )
    return Source(reader.batches(aiter(source)), source)


@dataclass(eq=False, kw_only=True)
class _SpanReader:
    """Groups the spans of a source by trace and converts each trace to a response.

    Attributes:
        format: the format of the traces.
        texts: finds the question of a trace by its text; None if the trace names the question.
        is_live: whether spans arrive while they are made.
        is_stopped: returns whether the source ended because it was stopped.
        is_known: returns whether an earlier run has evaluated the trace with this identity.
        late: gets the counts of late spans, and has the file for their traces.
    """

    format: TraceFormat
    texts: QuestionTexts | None
    is_live: bool
    is_stopped: Callable[[], bool]
    is_known: Callable[[bytes], bool]
    late: LateSpans

    def __post_init__(self) -> None:
        # If the source is not live, the time is always 0 and any grace means: never complete
        # before the end of the source.
        grace = self.format.grace if self.is_live else 1.0
        self._groups = TraceGroups[Line](
            grace=grace, trace_idle=self.format.trace_idle, late=self.late
        )
        self._skipped: Counter[str] = Counter()
        # By trace, those without a span of an agent: one may still come.
        self._without_agent: dict[str, UnreadTrace] = {}
        # The first line without spans, which is rejected if no line has any.
        self._line_without_spans: UnreadTrace | None = None
        self._has_spans = False
        self._unfollowed_files: dict[FileId, FileId] = {}

    def _time(self) -> float:
        """Return the time for the groups; it stands still if the source is not live."""
        return monotonic() if self.is_live else 0.0

    def _seconds_to_next_trace(self) -> float | None:
        """Return the seconds until a trace is complete if no more spans come.

        None if no trace is open, or if the source is not live.
        """
        next_completion = self._groups.next_due
        if next_completion is None or not self.is_live:
            return None
        return max(0.0, next_completion - monotonic())

    async def batches(self, source: AsyncIterator[list[Record]]) -> AsyncGenerator[list[Record]]:
        """Yield the lines of complete traces in batches, with lines that are not spans.

        The latter are rejected later.
        """
        reading: asyncio.Future[list[Record] | None] | None = None
        try:
            while True:
                # Wait for the next batch, but only until a trace is complete without it.
                if reading is None:
                    reading = asyncio.ensure_future(anext(source, None))
                await asyncio.wait([reading], timeout=self._seconds_to_next_trace())
                if reading.done():
                    batch = reading.result()
                    reading = None
                    if batch is None:
                        break
                    records = await self._add_batch(batch)
                else:
                    complete = self._groups.close_due(self._time())
                    records = await self._lines_of_groups(complete)
                if records:
                    yield records

            # At the end of the source, all other traces are complete.
            remaining = self._groups.finish(only_ended=self.is_stopped())
            records = await self._lines_of_groups(remaining)
            records += self._rejected_at_the_end()
            if records:
                yield records
        finally:
            # Write traces with late spans to their file, even if the stream was left early.
            await self._lines_of_groups(self._groups.finish(only_late=True))
            self._warn_of_losses()
            if reading is not None:
                reading.cancel()
                with suppress(Exception):
                    await outlast(reading, CLOSING_SECONDS)

    async def _add_batch(self, batch: list[Record]) -> list[Record]:
        """Add the spans of a batch of lines to their traces.

        Returns:
            the lines that are not spans, followed by a line for each trace that is complete now.
        """
        not_spans: list[Record] = []
        complete: list[TraceGroup[Line]] = []
        for record in batch:
            if not isinstance(record, Line):
                # The line is too long to be read.
                not_spans.append(record)
                continue
            skipped: Counter[str] = Counter()
            read = partial(spans_of_line, record.data, skipped)
            is_large = len(record.data) >= LARGE_BYTES
            spans: list[Span] = await run_in_thread(read) if is_large else read()
            is_json = skipped.pop(NOT_JSON, 0) == 0
            is_otlp = skipped.pop(NO_SPANS, 0) == 0
            if not is_json:
                not_spans.append(record)
            elif not is_otlp:
                not_spans.append(_unread(record, "not a line of OTLP: it has no resourceSpans"))
            elif not spans and self._line_without_spans is None and not record.data.isspace():
                content = "in this one, they are empty"
                if skipped:
                    kind = next(iter(skipped))
                    content = f"this is one of the {kind}"
                problem = f"no line has spans (resourceSpans); {content}"
                self._line_without_spans = _unread(record, problem)
            if spans:
                self._has_spans = True
            self._skipped += skipped

            # The line of a trace gets the place of its first span, but not its text.
            place = Line(
                number=record.number,
                offset=record.offset,
                data=b"",
                file=self._as_not_followed(record.file),
            )
            complete += self._groups.add(spans, place, self._time())
        return [*not_spans, *await self._lines_of_groups(complete)]

    def _as_not_followed(self, file: FileId | None) -> FileId | None:
        """Return the id of a file without the mark that it is followed.

        A journal recognizes lines of followed files by their place. A trace has spans in several
        places, so it must be recognized by its identity instead.
        """
        if file is None or not file.followed:
            return file
        # All lines of a file share one id.
        return self._unfollowed_files.setdefault(file, FileId(file.path, file.key, followed=False))

    async def _lines_of_groups(self, groups: Iterable[TraceGroup[Line]]) -> list[Record]:
        """Return a line for each trace that is to be evaluated.

        Traces that are complete again after late spans were evaluated before. Their lines are
        appended to the file of late traces instead, if there is one.
        """
        lines: list[Record] = []
        for group in groups:
            if group.reason == "full":
                has_root = any(span.is_root for span in group.spans)
                if not has_root:
                    self._skipped["traces cut because too many were open"] += 1
            convert = partial(self._line_of_group, group)
            line = await run_in_thread(convert) if group.size >= LARGE_BYTES else convert()
            if line is None:
                # Nothing was evaluated. If late spans include one of an agent, the trace still is.
                group.reason = None
            elif group.reason != "late":
                lines.append(line)
            elif self.late.file is not None:
                # A short write is as quick as a switch to a thread.
                with open(self.late.file, "ab") as file:  # noqa: ASYNC230
                    file.write(line.data + b"\n")
        return lines

    def _line_of_group(self, group: TraceGroup[Line]) -> Line | None:
        """Return a line with the response of a trace; None if the trace has no span of an agent."""
        identity = group.trace_id.encode(errors="surrogatepass")
        # The line of a known trace is skipped later, so its text does not matter.
        response: dict[str, Any] | None = {}
        if not self.is_known(identity):
            response = response_of_spans(
                group.spans,
                question_id=self.format.question_id,
                questions=self.texts,
                failed=self.format.failed,
                step_names=self.format.step_names or {},
                turn=self.format.turn,
            )
        if response is None:
            self._note_without_agent(group)
            return None
        self._without_agent.pop(group.trace_id, None)
        place = group.place
        line = TraceLine(
            number=place.number,
            offset=place.offset,
            data=orjson.dumps(response),
            file=place.file,
        )
        line.identity = identity
        return line

    def _note_without_agent(self, group: TraceGroup[Line]) -> None:
        """Remember a trace without a span of an agent, to reject it unless one comes later."""
        if len(self._without_agent) >= MAX_WITHOUT_AGENT:
            self._skipped["traces without a span of an agent"] += 1
            return
        names = list(dict.fromkeys(span.name for span in group.spans))
        shown = {"traceId": group.trace_id, "spans": names[:LISTED_SPANS]}
        record = group.place._replace(data=orjson.dumps(shown))
        self._without_agent[group.trace_id] = _unread(record, explain_no_agent(group.spans))

    def _rejected_at_the_end(self) -> list[Record]:
        """Return what is rejected at the end, so that input without results is not passed over."""
        unread: list[Record] = [*self._without_agent.values()]
        if not self._has_spans and self._line_without_spans is not None:
            unread.append(self._line_without_spans)
        return unread

    def _warn_of_losses(self) -> None:
        """Log how many spans were late, and how many spans, lines and traces were skipped."""
        late_facts = self.late.facts()
        if late_facts is not None:
            LOGGER.warning("%s", late_facts["text"])
        open_traces = Counter({"traces that were open at the stop": len(self._groups)})
        counts = self._skipped + open_traces
        if counts:
            listed = ", ".join(f"{count} {kind}" for kind, count in counts.items())
            LOGGER.warning("skipped: %s", listed)


def _unread(line: Line, problem: str) -> UnreadTrace:
    """Return a line as one that is rejected with this problem."""
    unread = UnreadTrace(*line)
    unread.problem = problem
    return unread
