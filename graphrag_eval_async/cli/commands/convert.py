"""``convert``: writes the responses in traces, or the questions of a benchmark."""

from __future__ import annotations

import sys
from collections import Counter
from typing import TYPE_CHECKING

import orjson

from graphrag_eval_async.cli.command_table import refuse
from graphrag_eval_async.cli.exits import Exit, Interrupts, run_to_end
from graphrag_eval_async.cli.files import ONLY_BENCHMARKS, check_distinct, open_output
from graphrag_eval_async.cli.records import read_records
from graphrag_eval_async.cli.run import trace_format
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
    from graphrag_eval_async.cli.command_table import Given
    from graphrag_eval_async.records import Record


def run(given: Given, interrupts: Interrupts) -> Exit:
    """Write the responses in traces as JSON lines, or the questions of a benchmark."""
    if vars(given)["from"] is not None:
        return _convert_questions(given, interrupts)
    _check_options_for_traces(given)

    trace_reader = trace_format(given)
    assert trace_reader is not None  # noqa: S101  (it has a default)
    question_texts = None
    if given.reference is not None:
        question_texts = QuestionTexts(load_reference(given.reference))
    rejects = Rejects()
    trace_problems = Counter[str]()

    with open_output(LineFile, given.output) as output:

        async def convert_and_write(record: Record) -> None:
            response = convert_record(record, trace_reader, question_texts)
            if isinstance(response, Reject):
                rejects.add(response)
                return
            # A kind of problem counts once for each trace that has it.
            kinds = {kind_of_problem(text) for text in response.get("trace_problems", ())}
            trace_problems.update(kinds)
            await output.send(orjson.dumps(response, option=orjson.OPT_APPEND_NEWLINE))

        reading = read_records(given.log, trace_reader, question_texts, convert_and_write)
        ending = run_to_end(reading, interrupts)

    list_rejects(given, rejects)
    for problem, count in trace_problems.most_common():
        tell(sys.stderr, one_line(f"{plural(count, 'trace')}: {problem}"))
    return end(ending, rejects)


def _check_options_for_traces(given: Given) -> None:
    """Check the options of a command that converts traces.

    Raises:
        UsageError: an option is for benchmarks, or a file is of the wrong kind.
    """
    refuse(given, "language score", "{} needs --from")
    refuse(given, "question query answer id", "{} needs --from json")
    if is_table(given.output):
        raise UsageError(
            f"{given.output!r}: responses are written as JSON lines; choose a name with .jsonl"
        )
    if given.log.lower().endswith(ONLY_BENCHMARKS):
        raise UsageError(f"{given.log}: traces are JSONL; to read a benchmark, name it with --from")
    check_distinct([given.log, given.reference], [given.output])


def _convert_questions(given: Given, interrupts: Interrupts) -> Exit:
    """Write the questions of a benchmark as a reference set."""
    options_for_traces = "reference format select question_id failed step_name"
    refuse(given, options_for_traces, "{} cannot be combined with --from")
    check_distinct([given.log], [given.output])
    if given.log == "-":
        raise UsageError("--from reads a file, not standard input")

    benchmark = vars(given)["from"]
    if benchmark == "json":
        if given.question is None:
            raise UsageError("--from json needs --question KEY")
        keys = Keys(question=given.question, id=given.id, query=given.query, answer=given.answer)
        templates = read_columns(given.log, keys, language=given.language, score=given.score)
    else:
        refuse(given, "question query answer id", "{} needs --from json")
        templates = read_benchmark(given.log, benchmark, language=given.language, score=given.score)

    if given.output != "-":
        check_replaceable(given.output)
        save_reference(templates, given.output)
        return Exit.OK
    with open_output(LineFile, given.output) as output:
        ending = run_to_end(output.send(to_yaml(templates)), interrupts)
        return end(ending, Rejects())
