"""Turns the spans of a source into responses, each as soon as its trace is complete."""

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

from graphrag_eval_async.records import FileId, Line
from graphrag_eval_async.records.line import LARGE_BYTES
from graphrag_eval_async.sources import Source
from graphrag_eval_async.threads import CLOSING_SECONDS, outlast, run_in_thread
from graphrag_eval_async.traces.grouping import LateSpans, TraceGroups
from graphrag_eval_async.traces.otlp import response_of_spans
from graphrag_eval_async.traces.spans import spans_of_line
from graphrag_eval_async.traces.trace import QuestionTexts

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable

    from graphrag_eval_async.records import Question, Record
    from graphrag_eval_async.traces.format import TraceFormat
    from graphrag_eval_async.traces.grouping import TraceGroup
    from graphrag_eval_async.traces.spans import Span

LOGGER = logging.getLogger("graphrag_eval_async.traces")

NOT_JSON = "lines that are not JSON"


class TraceLine(Line):
    """The response of a trace, at the place of its first span.

    Attributes:
        identity: what a journal knows the trace by, whatever spans come late.
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
    """Return the source; for formats whose traces span several lines, a source of their responses.

    Of a source that is not live, such as a file, all spans of a trace are waited for. Of one that
    has ended because it was stopped, traces without their root span make no response. Of a trace
    whose identity is known from an earlier run, which is skipped later, no response is made. `late`
    counts late spans.
    """
    if not format.is_grouped:
        return source
    texts = None
    if questions is not None and format.question_id is None:
        texts = questions if isinstance(questions, QuestionTexts) else QuestionTexts(questions)
    reader = _SpanReader(format, texts, is_live, is_known, late or LateSpans())
    return Source(reader.batches(aiter(source), is_stopped), source)


@dataclass(eq=False)
class _SpanReader:
    """Groups the spans of a source by trace and turns each trace into a response."""

    format: TraceFormat
    texts: QuestionTexts | None
    is_live: bool
    is_known: Callable[[bytes], bool]
    late: LateSpans

    def __post_init__(self) -> None:
        grace = self.format.grace if self.is_live else 1.0  # Without a clock, none is over.
        idle = self.format.trace_idle
        self._groups = TraceGroups[Line](grace=grace, trace_idle=idle, late=self.late)
        self._skipped: Counter[str] = Counter()
        self._files: dict[FileId, FileId] = {}

    def _now(self) -> float:
        return monotonic() if self.is_live else 0.0

    async def batches(
        self, source: AsyncIterator[list[Record]], is_stopped: Callable[[], bool]
    ) -> AsyncGenerator[list[Record]]:
        """Yield batches of responses, and of lines that are not spans, which are rejected later."""
        waiting: asyncio.Future[list[Record] | None] | None = None
        try:
            while True:
                waiting = waiting or asyncio.ensure_future(anext(source, None))
                due = self._groups.next_due if self.is_live else None
                left = None if due is None else max(0.0, due - monotonic())
                await asyncio.wait([waiting], timeout=left)
                others: list[Record] = []
                if not waiting.done():
                    found = self._groups.due(self._now())
                elif (batch := waiting.result()) is None:
                    break
                else:
                    waiting = None
                    found = await self._add(batch, others)
                if lines := [*others, *await self._respond(found)]:
                    yield lines
            if lines := await self._respond(self._groups.finish(only_ended=is_stopped())):
                yield lines
        finally:
            await self._respond(self._groups.finish(only_late=True))
            self._warn()
            if waiting is not None:
                waiting.cancel()
                with suppress(Exception):
                    await outlast(waiting, CLOSING_SECONDS)

    async def _add(self, batch: list[Record], others: list[Record]) -> list[TraceGroup[Line]]:
        """Add the spans of lines; return the traces that are complete. Append to `others` what
        is no span.
        """
        found: list[TraceGroup[Line]] = []
        for record in batch:
            if not isinstance(record, Line):
                others.append(record)
                continue
            read = partial(spans_of_line, record.data, skipped := Counter[str]())
            spans: list[Span] = (
                await run_in_thread(read) if len(record.data) >= LARGE_BYTES else read()
            )
            if skipped.pop(NOT_JSON, 0):
                others.append(record)
            self._skipped += skipped
            file = record.file
            # Without places: a trace has lines in many places.
            if file is not None and file.followed:
                file = self._files.setdefault(file, FileId(file.path, file.key))
            found += self._groups.add(
                spans, Line(record.number, record.offset, b"", file), self._now()
            )
        return found

    async def _respond(self, groups: Iterable[TraceGroup[Line]]) -> list[Record]:
        lines: list[Record] = []
        for group in groups:
            if group.reason == "full" and not any(span.is_root for span in group.spans):
                self._skipped["traces cut because too many were open"] += 1
            make = partial(self._response, group)
            line = await run_in_thread(make) if group.size >= LARGE_BYTES else make()
            if line is None:
                group.reason = None
            elif group.reason != "late":
                lines.append(line)
            elif self.late.file is not None:
                with open(self.late.file, "ab") as file:  # noqa: ASYNC230  (as quick as changing threads)
                    file.write(line.data + b"\n")
        return lines

    def _response(self, group: TraceGroup[Line]) -> Line | None:
        format_, place = self.format, group.place
        response: dict[str, Any] | None = {}
        identity = group.trace_id.encode(errors="surrogatepass")
        if not self.is_known(identity):
            response = response_of_spans(
                group.spans,
                question_id=format_.question_id,
                questions=self.texts,
                failed=format_.failed,
                step_names=format_.step_names or {},
                turn=format_.turn,
            )
        if response is None:
            self._skipped["traces without a span of an agent"] += 1
            return None
        line = TraceLine(place.number, place.offset, orjson.dumps(response), place.file)
        line.identity = identity
        return line

    def _warn(self) -> None:
        """Log what was dropped."""
        if (late := self.late.facts()) is not None:
            LOGGER.warning("%s", late["text"])
        counts = self._skipped + Counter({"traces that were open at the stop": len(self._groups)})
        if counts:
            LOGGER.warning(
                "skipped: %s", ", ".join(f"{count} {what}" for what, count in counts.items())
            )
