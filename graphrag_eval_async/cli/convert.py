"""``convert``: the responses that the traces of a log make."""

import sys
from collections import Counter
from contextlib import aclosing
from dataclasses import dataclass
from typing import Annotated, ClassVar

import orjson

from graphrag_eval_async.cli import options
from graphrag_eval_async.cli.exits import Exit, Interrupts, run_to_end
from graphrag_eval_async.cli.files import check_distinct, open_output, output_path
from graphrag_eval_async.cli.report import end, list_rejects
from graphrag_eval_async.records import Reject, Rejects
from graphrag_eval_async.reference import load_reference
from graphrag_eval_async.sinks import LineFile
from graphrag_eval_async.sources import open_source
from graphrag_eval_async.stream import MAX_LINE_BYTES
from graphrag_eval_async.stream.spans import grouped
from graphrag_eval_async.text import kind_of_problem, one_line, tell
from graphrag_eval_async.traces.format import TraceFormat, convert_record
from graphrag_eval_async.traces.trace import QuestionTexts


@dataclass(frozen=True, kw_only=True)
class Convert:
    """Convert logs of traces to responses.

    Evaluates nothing. The summary counts what was wrong with traces, such as calls without a result.
    """

    example: ClassVar = "convert traces.jsonl -o responses.jsonl --reference reference.yaml"

    log: Annotated[str, options.input_argument(metavar="LOG", help="Traces, JSONL; - for standard input.")]
    output: Annotated[
        str,
        options.output_option(
            "--output",
            "-o",
            parser=output_path,
            metavar="FILE",
            help="Write responses here, as JSONL; - is standard output.",
        ),
    ] = "-"
    reference: options.Questions = None
    format: options.Format = "auto"
    select: options.Select = None
    question_id: options.QuestionId = None
    failed: options.Failed
    step_name: options.StepNames
    max_line_bytes: options.MaxLineBytes = MAX_LINE_BYTES

    def run(self, interrupts: Interrupts) -> Exit:
        check_distinct([self.log, self.reference], [self.output])
        format_ = options.trace_format(
            self.format, self.select, self.question_id, self.failed, self.step_name
        )
        assert format_ is not None  # noqa: S101  (it has a default)
        texts = None if self.reference is None else QuestionTexts(load_reference(self.reference))
        rejects, problems = Rejects(), Counter[str]()
        with open_output(LineFile, self.output) as lines:
            ending = run_to_end(self._convert(format_, texts, lines, rejects, problems), interrupts)
        list_rejects(rejects)
        for text, count in problems.most_common():
            tell(sys.stderr, one_line(f"{count} {'trace' if count == 1 else 'traces'}: {text}"))
        return end(ending, rejects)

    async def _convert(
        self,
        format_: TraceFormat,
        texts: QuestionTexts | None,
        lines: LineFile,
        rejects: Rejects,
        problems: Counter[str],
    ) -> None:
        source = open_source(self.log, max_line_bytes=self.max_line_bytes, documents=False)
        async with aclosing(grouped(source, format_, texts, is_live=False)) as batches:
            async for batch in batches:
                for record in batch:
                    response = convert_record(record, format_, texts, self.max_line_bytes)
                    if isinstance(response, Reject):
                        rejects.add(response)
                        continue
                    problems.update({kind_of_problem(text) for text in response.get("trace_problems", ())})
                    await lines.send(orjson.dumps(response, option=orjson.OPT_APPEND_NEWLINE))
