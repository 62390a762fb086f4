"""``convert``: writes the responses in traces, or the questions of a benchmark."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import orjson

from graphrag_eval_async.cli.exits import Exit, Interrupts, run_to_end
from graphrag_eval_async.cli.files import ONLY_BENCHMARKS, check_distinct, open_output
from graphrag_eval_async.cli.records import read_records
from graphrag_eval_async.cli.run import TraceOptions, make_trace_format
from graphrag_eval_async.cli.run_summary import end, list_rejects
from graphrag_eval_async.errors import UsageError, plural
from graphrag_eval_async.helpers.text import kind_of_problem, one_line, tell
from graphrag_eval_async.records import Reject, Rejects
from graphrag_eval_async.reference import load_reference
from graphrag_eval_async.reference.authoring import save_reference, to_yaml
from graphrag_eval_async.reference.benchmarks import read_benchmark
from graphrag_eval_async.reference.benchmarks.columns import Keys, read_columns
from graphrag_eval_async.sinks import LineFile
from graphrag_eval_async.sinks.files import check_replaceable
from graphrag_eval_async.sinks.tables import is_table
from graphrag_eval_async.traces.format import convert_record
from graphrag_eval_async.traces.trace import QuestionTexts

if TYPE_CHECKING:
    from graphrag_eval_async.records import Record


OPTIONS_OF_COLUMNS = ("question", "query", "answer", "id")
"""The options that name the keys of questions, for ``--from json``."""

OPTIONS_OF_TRACES = ("reference", "format", "select", "question_id", "failed", "step_name")
"""The options that only traces need."""


@dataclass(frozen=True, kw_only=True)
class ConvertOptions(TraceOptions):
    """The options of ``convert``."""

    log: str
    output: str
    reference: str | None
    from_: Literal["text2sparql", "qald", "qald-9-plus", "webqsp", "json"] | None
    question: str | None
    query: str | None
    answer: str | None
    id: str | None
    language: str | None
    score: Literal["f1", "values_f1"] | None


def run(options: ConvertOptions, interrupts: Interrupts) -> Exit:
    """Write the responses in traces as JSON lines, or the questions of a benchmark."""
    if options.from_ is not None:
        return _convert_questions(options, options.from_, interrupts)
    return _convert_traces(options, interrupts)


def _convert_traces(options: ConvertOptions, interrupts: Interrupts) -> Exit:
    """Write the responses in traces as JSON lines."""
    _check_options_for_traces(options)

    trace_format = make_trace_format(options)
    assert trace_format is not None  # noqa: S101  (it has a default)
    question_texts = None
    if options.reference is not None:
        question_texts = QuestionTexts(load_reference(options.reference))
    rejects = Rejects()
    trace_problems = Counter[str]()

    with open_output(LineFile, options.output) as output:

        async def convert_and_write(record: Record) -> None:
            response = convert_record(record, trace_format, question_texts)
            if isinstance(response, Reject):
                rejects.add(response)
                return
            # A kind of problem counts once for each trace that has it.
            kinds = {kind_of_problem(text) for text in response.get("trace_problems", ())}
            trace_problems.update(kinds)
            await output.send(orjson.dumps(response, option=orjson.OPT_APPEND_NEWLINE))

        reading = read_records(options.log, trace_format, question_texts, convert_and_write)
        ending = run_to_end(reading, interrupts)

    list_rejects(rejects, can_be_kept=False)
    for problem, count in trace_problems.most_common():
        tell(sys.stderr, one_line(f"{plural(count, 'trace')}: {problem}"))
    return end(ending, rejects)


def _check_options_for_traces(options: ConvertOptions) -> None:
    """Check the options of a command that converts traces.

    Raises:
        UsageError: an option is for benchmarks, or a file is of the wrong kind.
    """
    options.refuse("language", "score", message="{} needs --from")
    options.refuse(*OPTIONS_OF_COLUMNS, message="{} needs --from json")
    if is_table(options.output):
        raise UsageError(
            f"{options.output!r}: responses are written as JSON lines; choose a name with .jsonl"
        )
    if options.log.lower().endswith(ONLY_BENCHMARKS):
        raise UsageError(
            f"{options.log}: traces are JSONL; to read a benchmark, name it with --from"
        )
    check_distinct([options.log, options.reference], [options.output])


def _convert_questions(options: ConvertOptions, benchmark: str, interrupts: Interrupts) -> Exit:
    """Write the questions of a benchmark as a reference set.

    Args:
        options: the options of the command.
        benchmark: the value of ``--from``, which says how to read the file.
        interrupts: signals that end the command.
    """
    options.refuse(*OPTIONS_OF_TRACES, message="{} cannot be combined with --from")
    check_distinct([options.log], [options.output])
    if options.log == "-":
        raise UsageError("--from reads a file, not standard input")

    if benchmark == "json":
        if options.question is None:
            raise UsageError("--from json needs --question KEY")
        keys = Keys(
            question=options.question, id=options.id, query=options.query, answer=options.answer
        )
        templates = read_columns(options.log, keys, language=options.language, score=options.score)
    else:
        options.refuse(*OPTIONS_OF_COLUMNS, message="{} needs --from json")
        templates = read_benchmark(
            options.log, benchmark, language=options.language, score=options.score
        )

    if options.output != "-":
        check_replaceable(options.output)
        save_reference(templates, options.output)
        return Exit.OK
    with open_output(LineFile, options.output) as output:
        ending = run_to_end(output.send(to_yaml(templates)), interrupts)
        return end(ending, Rejects())
