"""Reads the lines of files with responses or traces."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING

from graphrag_eval_async.sources import open_source
from graphrag_eval_async.stream.spans import grouped

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from graphrag_eval_async.records import Record
    from graphrag_eval_async.reference import Reference
    from graphrag_eval_async.traces import TraceFormat
    from graphrag_eval_async.traces.trace import QuestionTexts


async def read_records(
    path: str,
    trace_format: TraceFormat | None,
    questions: Reference | QuestionTexts | None,
    take: Callable[[Record], Awaitable[None]],
) -> None:
    """Call `take` with each record of a file, one after the other.

    Args:
        path: the file, or "-" for standard input.
        trace_format: the format of traces; None if the file has responses, one in each line.
        questions: the questions that traces may answer; None if they are not known.
        take: handles a record.
    """
    # A JSON array holds many responses or, in some formats, many traces; in the others, it is a
    # single trace.
    has_documents = trace_format is None or trace_format.is_listed
    source = open_source(path, documents=has_documents)
    if trace_format is not None:
        # The lines of a trace become one record.
        source = grouped(source, trace_format, questions, is_live=False)
    async with aclosing(source) as batches:
        async for batch in batches:
            for record in batch:
                await take(record)
