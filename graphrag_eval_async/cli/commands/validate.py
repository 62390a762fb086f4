"""``validate`` and ``convert``: what is wrong with references and responses, and the responses
in traces.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING
from warnings import catch_warnings

import orjson

from graphrag_eval_async.cli.command_table import refuse
from graphrag_eval_async.cli.exits import Exit, Interrupts, run_to_end
from graphrag_eval_async.cli.files import ONLY_BENCHMARKS, check_distinct, open_output
from graphrag_eval_async.cli.run import trace_format
from graphrag_eval_async.cli.run_summary import end, list_rejects
from graphrag_eval_async.config.load import load_part
from graphrag_eval_async.errors import GraphragEvalWarning, ReferenceDataError, UsageError
from graphrag_eval_async.records import Reject, Rejects, read_record
from graphrag_eval_async.records.aliases import names_by_alias, rename_steps, step_names
from graphrag_eval_async.reference import NoReference, Reference, load_reference, misnamed_steps
from graphrag_eval_async.reference.authoring import save_reference, to_yaml
from graphrag_eval_async.reference.benchmarks import read_benchmark
from graphrag_eval_async.reference.benchmarks.columns import Keys, read_columns
from graphrag_eval_async.sinks import LineFile
from graphrag_eval_async.sinks.files import check_replaceable
from graphrag_eval_async.sinks.tables import is_table
from graphrag_eval_async.sources import open_source
from graphrag_eval_async.stream.spans import grouped
from graphrag_eval_async.text import describe, kind_of_problem, one_line, tell
from graphrag_eval_async.traces.format import convert_record, format_for, record_reader
from graphrag_eval_async.traces.trace import QuestionTexts

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from graphrag_eval_async.cli.command_table import Given
    from graphrag_eval_async.records import Record, Response
    from graphrag_eval_async.traces import TraceFormat


def run(given: Given, interrupts: Interrupts) -> Exit:
    if given.config is not None:
        _check_ragas_metrics(given.config)
    if given.no_reference is not None:
        if given.reference is not None:
            raise UsageError("--no-reference RESPONSES cannot be combined with REFERENCE")
        return _check(given, NoReference(), given.no_reference, "no reference set", interrupts)
    if given.reference is None:
        raise UsageError("expected REFERENCE, or --no-reference RESPONSES")
    try:
        # They are listed below.
        with catch_warnings(action="ignore", category=GraphragEvalWarning):
            reference = load_reference(given.reference, strict=given.strict)
    except ReferenceDataError as error:
        tell(sys.stdout, describe(error))
        return Exit.USAGE
    for doubt in reference.doubts:
        tell(sys.stdout, one_line(f"warning: {doubt}"))
    valid = (
        f"reference set valid (templates: {len(reference.templates)}, questions: {len(reference)})"
    )
    if given.responses is None:
        tell(sys.stdout, valid)
        return Exit.OK
    return _check(given, reference, given.responses, valid, interrupts)


def _check_ragas_metrics(path: str) -> None:
    """Check the metrics of ragas in a configuration file, as a run would.

    Raises:
        ConfigError: ragas is not installed, or a metric cannot be made.
    """
    sections = load_part(path, "ragas").ragas_metrics
    if sections:
        # It imports ragas, which takes seconds.
        from graphrag_eval_async.metrics.ragas_lookup import make_ragas_metrics

        make_ragas_metrics(sections)


def _check(
    given: Given, reference: Reference, path: str, valid: str, interrupts: Interrupts
) -> Exit:
    """Check the responses at `path`, and say what is wrong with them."""
    problems = open_output(LineFile, "-")
    rejects, answered = Rejects(), Counter[str]()
    names: defaultdict[str, tuple[set[str], set[str]]] = defaultdict(lambda: (set(), set()))
    by_id = reference.questions  # An `Evaluator` would want queries to be run.
    read: Callable[[Record], Response | Reject] = partial(read_record, questions=by_id)
    if (format_ := trace_format(given)) is not None:
        read = record_reader(format_for(by_id, format_), by_id)
    aliases = load_part(given.config, "aliases").aliases if given.config is not None else {}
    known = reference.step_names
    meant = step_names(names_by_alias(aliases, known), known, ())

    async def take(record: Record) -> None:
        response = read(record)
        if isinstance(response, Reject):
            rejects.add(response, keep=False)
            line = one_line(f"{response.path or path}: {response}")
            await problems.send(line.encode(errors="backslashreplace") + b"\n")
            return
        answered[response.question_id] += 1
        if question := by_id.get(response.question_id):
            rename_steps(response, known, meant)
            steps = response.fields.get("actual_steps", ())
            found, questions = names[question.template_id]
            found.update(step["name"] for step in steps if step.get("name") is not None)
            questions.add(question.id)

    ending = run_to_end(_read(path, format_, reference, take), interrupts)
    missing = [
        question_id for question_id in by_id if ending.is_complete and question_id not in answered
    ]
    for question_id in missing:
        tell(sys.stdout, one_line(f"question {question_id!r}: no response"))
    misnamed = misnamed_steps(reference, names) if ending.is_complete else None
    if misnamed is not None:
        tell(sys.stdout, f"warning: {misnamed}")
    more = f", questions without a response: {len(missing)}" if len(reference) else ""
    more = more if ending.is_complete else ", not all lines were read"
    tell(
        sys.stdout, f"{valid}; responses: {answered.total()}, rejected lines: {rejects.total}{more}"
    )
    code = end(ending, rejects)
    return Exit.USAGE if code == Exit.OK and given.strict and misnamed is not None else code


async def _read(
    path: str,
    format_: TraceFormat | None,
    known: Reference | QuestionTexts | None,
    take: Callable[[Record], Awaitable[None]],
) -> None:
    """Call `take` with each line at a path, or with what stands in several lines in the format
    of traces.
    """
    documents = format_ is None or format_.is_listed
    source = open_source(path, documents=documents)
    if format_ is not None:
        source = grouped(source, format_, known, is_live=False)
    async with aclosing(source) as batches:
        async for batch in batches:
            for record in batch:
                await take(record)


def convert(given: Given, interrupts: Interrupts) -> Exit:
    """Write the responses in traces, or the questions of a benchmark."""
    if vars(given)["from"] is not None:
        return _convert_questions(given, interrupts)
    refuse(given, "language score", "{} needs --from")
    refuse(given, "question query answer id", "{} needs --from json")
    if is_table(given.output):
        raise UsageError(
            f"{given.output!r}: responses are written as JSON lines; choose a name with .jsonl"
        )
    if given.log.lower().endswith(ONLY_BENCHMARKS):
        raise UsageError(f"{given.log}: traces are JSONL; to read a benchmark, name it with --from")
    check_distinct([given.log, given.reference], [given.output])
    format_ = trace_format(given)
    assert format_ is not None  # noqa: S101  (it has a default)
    texts = None if given.reference is None else QuestionTexts(load_reference(given.reference))
    rejects, problems = Rejects(), Counter[str]()
    with open_output(LineFile, given.output) as lines:

        async def take(record: Record) -> None:
            response = convert_record(record, format_, texts)
            if isinstance(response, Reject):
                rejects.add(response)
                return
            problems.update({kind_of_problem(text) for text in response.get("trace_problems", ())})
            await lines.send(orjson.dumps(response, option=orjson.OPT_APPEND_NEWLINE))

        ending = run_to_end(_read(given.log, format_, texts, take), interrupts)
    list_rejects(given, rejects)
    for text, count in problems.most_common():
        tell(sys.stderr, one_line(f"{count} {'trace' if count == 1 else 'traces'}: {text}"))
    return end(ending, rejects)


def _convert_questions(given: Given, interrupts: Interrupts) -> Exit:
    """Write the questions of a benchmark as a reference set."""
    others = "reference format select question_id failed step_name"
    refuse(given, others, "{} cannot be combined with --from")
    check_distinct([given.log], [given.output])
    if given.log == "-":
        raise UsageError("--from reads a file, not standard input")
    form = vars(given)["from"]
    if form == "json":
        if given.question is None:
            raise UsageError("--from json needs --question KEY")
        keys = Keys(question=given.question, id=given.id, query=given.query, answer=given.answer)
        templates = read_columns(given.log, keys, language=given.language, score=given.score)
    else:
        refuse(given, "question query answer id", "{} needs --from json")
        templates = read_benchmark(given.log, form, language=given.language, score=given.score)
    if given.output != "-":
        check_replaceable(given.output)
        save_reference(templates, given.output)
        return Exit.OK
    with open_output(LineFile, given.output) as lines:
        return end(run_to_end(lines.send(to_yaml(templates)), interrupts), Rejects())
