"""``convert``: the responses that the traces of a log make."""

from __future__ import annotations

import sys
from collections import Counter
from contextlib import aclosing
from typing import TYPE_CHECKING

import orjson

from graphrag_eval_async.cli.exits import Exit, Interrupts, run_to_end
from graphrag_eval_async.cli.files import check_distinct, open_output
from graphrag_eval_async.cli.report import end, list_rejects
from graphrag_eval_async.cli.run import trace_format
from graphrag_eval_async.records import Reject, Rejects
from graphrag_eval_async.reference import load_reference
from graphrag_eval_async.sinks import LineFile
from graphrag_eval_async.sources import open_source
from graphrag_eval_async.stream.spans import grouped
from graphrag_eval_async.text import kind_of_problem, one_line, tell
from graphrag_eval_async.traces.format import TraceFormat, convert_record
from graphrag_eval_async.traces.trace import QuestionTexts

if TYPE_CHECKING:
    from graphrag_eval_async.cli.options import Given


def run(given: Given, interrupts: Interrupts) -> Exit:
    check_distinct([given.log, given.reference], [given.output])
    format_ = trace_format(given, name=given.format)
    assert format_ is not None  # noqa: S101  (it has a default)
    texts = None if given.reference is None else QuestionTexts(load_reference(given.reference))
    rejects, problems = Rejects(), Counter[str]()
    with open_output(LineFile, given.output) as lines:
        ending = run_to_end(_convert(given, format_, texts, lines, rejects, problems), interrupts)
    list_rejects(rejects)
    for text, count in problems.most_common():
        tell(sys.stderr, one_line(f"{count} {'trace' if count == 1 else 'traces'}: {text}"))
    return end(ending, rejects)


async def _convert(
    given: Given,
    format_: TraceFormat,
    texts: QuestionTexts | None,
    lines: LineFile,
    rejects: Rejects,
    problems: Counter[str],
) -> None:
    source = open_source(given.log, max_line_bytes=given.max_line_bytes, documents=False)
    async with aclosing(grouped(source, format_, texts, is_live=False)) as batches:
        async for batch in batches:
            for record in batch:
                response = convert_record(record, format_, texts, given.max_line_bytes)
                if isinstance(response, Reject):
                    rejects.add(response)
                    continue
                problems.update({kind_of_problem(text) for text in response.get("trace_problems", ())})
                await lines.send(orjson.dumps(response, option=orjson.OPT_APPEND_NEWLINE))
