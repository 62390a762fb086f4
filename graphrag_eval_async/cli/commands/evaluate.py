"""``evaluate``: results and aggregates of responses."""

from __future__ import annotations

import os
import shlex
import sys
from collections import Counter
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import orjson

from graphrag_eval_async.catalogue.metrics import MISSING_RATE
from graphrag_eval_async.catalogue.outcomes import EXECUTION_ERROR
from graphrag_eval_async.cli.exits import run_to_end
from graphrag_eval_async.cli.files import open_lines, write_page
from graphrag_eval_async.cli.gates import check_gates, has_gate_on_missing, named_tag_keys
from graphrag_eval_async.cli.judges import (
    config_for_estimate,
    describe_estimate,
    judge_config,
    remove_keys,
)
from graphrag_eval_async.cli.reading import choose_process_count, progress
from graphrag_eval_async.cli.run import (
    LogOptions,
    RunOptions,
    check_files,
    make_stream,
    make_trace_format,
    open_results,
    read_reference,
    report_shards,
    report_stream,
    sending,
    stopping,
)
from graphrag_eval_async.cli.run_summary import end, list_rejects, page_stream
from graphrag_eval_async.config.model import judge_of
from graphrag_eval_async.errors import GraphragEvalError, UsageError
from graphrag_eval_async.evaluator import Evaluator
from graphrag_eval_async.helpers.text import counts, kind_of_problem, one_line, tell
from graphrag_eval_async.reports.tables import DEFAULT_WIDTH
from graphrag_eval_async.reports.worst_answers import WorstAnswers
from graphrag_eval_async.sinks import RejectWriter
from graphrag_eval_async.sinks.files import draft_beside
from graphrag_eval_async.sinks.tables import check_table, is_table, write_table
from graphrag_eval_async.sources import read_jsonl
from graphrag_eval_async.stream import evaluate_stream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from graphrag_eval_async.catalogue.conditions import Condition
    from graphrag_eval_async.cli.exits import Exit, Interrupts
    from graphrag_eval_async.cli.run import Send
    from graphrag_eval_async.config import Config
    from graphrag_eval_async.evaluator import EvaluatorOptions
    from graphrag_eval_async.inference.running import Interval
    from graphrag_eval_async.inference.until import Until
    from graphrag_eval_async.monitor.dashboard import Dashboard
    from graphrag_eval_async.reference import Reference
    from graphrag_eval_async.reports.report_results import ReportResults
    from graphrag_eval_async.scale.run import ShardedRun
    from graphrag_eval_async.sources.shards import Shard
    from graphrag_eval_async.stream import EvaluationStream

DEFAULT_SEED = 0

MAX_PROBLEM = 300
"""Maximum number of characters of a problem that is quoted."""

MAX_PATH = 2000
"""Maximum number of characters of a line with the path of the results."""

NOT_IN_SHARDS = ("until", "shuffle", "stages")
"""The options that need all responses, which a run with ``--shard`` does not read."""

NOT_IN_PROCESSES = ("resume", "until", "stages", "shuffle", "report", "otel", "dedupe")
"""The options that need a single process, so that ``--jobs`` cannot be combined with them."""


@dataclass(frozen=True, kw_only=True)
class EvaluationOptions(RunOptions):
    """The options of commands that evaluate until all input is read or a condition is decided."""

    by: str | None
    interval: Interval | None
    report: str | None
    until: list[str]

    @property
    def is_table(self) -> bool:
        """Whether the output is a table, such as CSV, in place of lines of JSON."""
        return self.output is not None and is_table(self.output)

    @property
    def progress_is_shown(self) -> bool:
        """Whether a progress bar may be shown: results on the same terminal would go through it."""
        return self.output != "-" or not sys.stdout.isatty()


@dataclass(frozen=True, kw_only=True)
class EvaluateOptions(EvaluationOptions, LogOptions):
    """The options of ``evaluate``."""

    responses: str | None
    max_in_flight: int
    dry_run: bool
    jobs: int
    shard: Shard | None
    shuffle: int | None

    @property
    def source(self) -> str:
        """The path of the responses."""
        return self.no_reference or self.responses or ""

    @property
    def shard_text(self) -> str | None:
        """The part of the responses that is evaluated, such as "0/3"; None for all of them."""
        return None if self.shard is None else str(self.shard)


OptionsType = TypeVar("OptionsType", bound=EvaluationOptions)
"""The class of options of a command that evaluates."""


def run(options: EvaluateOptions, interrupts: Interrupts) -> Exit:
    """Evaluate responses, or only estimate what the judges would cost."""
    _check_options(options)
    if options.dry_run:
        return _estimate(options, interrupts)
    return write_output(options, partial(_evaluate_files, interrupts=interrupts), options.source)


def write_output(
    options: OptionsType, work: Callable[[OptionsType, str | None], Exit], *read_paths: str | None
) -> Exit:
    """Evaluate, and write the results as the output says: as lines of JSON, or as a table.

    Without an output, lines go to standard output, unless that is a terminal.

    Args:
        options: the options of the command.
        work: evaluates and writes lines. It gets the options with the path of the lines as output,
            and the path where the results will be in the end.
        read_paths: files that the command reads, which a table must not overwrite.

    Returns:
        The exit code of the command.
    """
    if options.output is None and not (sys.stdout and sys.stdout.isatty()):
        options = replace(options, output="-")
    table = options.output
    if table is None or not options.is_table:
        return work(options, options.output)

    # The columns of a table are known only at the end.
    check_table(table)
    config = judge_config(options.config, options.llm)
    check_files(options, config, *read_paths, pages=[options.report])
    lines = draft_beside(table, ".jsonl")
    try:
        code = work(replace(options, output=lines), table)
        write_table(lines, table)
    except Exception:
        if os.path.exists(lines):
            tell(sys.stderr, f"{table} was not written; results so far are in {lines}")
        raise
    os.unlink(lines)
    return code


def _check_options(options: EvaluateOptions) -> None:
    """Raise a `UsageError` if options do not go together."""
    if options.no_reference is not None:
        if options.reference is not None:
            raise UsageError("--no-reference RESPONSES cannot be combined with REFERENCE")
    elif options.reference is None or options.responses is None:
        raise UsageError("expected REFERENCE and RESPONSES, or --no-reference RESPONSES")

    check_evaluation_options(options)
    if options.shard is not None:
        if options.source == "-":
            raise UsageError("--shard needs files; standard input has no shards")
        options.refuse(
            *NOT_IN_SHARDS, message="--shard cannot be combined with {}, which needs all responses"
        )
    if options.jobs != 1 and not options.dry_run:
        options.refuse(
            *NOT_IN_PROCESSES,
            message="--jobs cannot be combined with {}, which needs a single process",
        )
    if options.shard is not None:
        check_gate_on_missing(options.gate, "with --shard, which sees a part only")
    check_until_with_gate(options)


def check_evaluation_options(options: EvaluationOptions) -> None:
    """Raise a `UsageError` if options that ``evaluate`` and ``ask`` share do not go together."""
    if len(options.until) > 1:
        raise UsageError(f"--until: one condition only, got {len(options.until)}")
    if options.is_table and options.resume:
        raise UsageError(f"--resume needs a JSONL output, not {options.output}; use another name")


def check_until_with_gate(options: EvaluationOptions) -> None:
    """Raise a `UsageError` if a gate needs responses that ``--until`` may skip."""
    if options.until:
        check_gate_on_missing(options.gate, "with --until, which skips questions")


def check_gate_on_missing(gates: Iterable[Condition], situation: str) -> None:
    """Raise a `UsageError` if a gate is on the share of questions without a response.

    Args:
        gates: the gates.
        situation: why this share is not known, such as "with --until, which skips questions".
    """
    if has_gate_on_missing(gates):
        raise UsageError(f"{MISSING_RATE} cannot be a gate {situation}")


def _evaluate_files(
    options: EvaluateOptions, results_path: str | None, *, interrupts: Interrupts
) -> Exit:
    """Evaluate files on this machine, in this process or in several.

    Args:
        options: the options of the command.
        results_path: where the results will be in the end; None if they are not written.
        interrupts: signals that end the run.
    """
    config = judge_config(options.config, options.llm)
    check_files(options, config, options.source, pages=[options.report])
    reference = read_reference(options.reference)
    check_gates(options.gate, options.by, reference, config)
    # Other shards have responses to the other questions.
    counted = None if options.shard else reference

    if options.jobs != 1:
        process_count = choose_process_count(
            options.jobs, options.source, make_trace_format(options)
        )
        if process_count > 1:
            return _evaluate_in_processes(
                options,
                reference,
                config,
                interrupts,
                process_count=process_count,
                counted=counted,
                results_path=results_path,
            )
        # Several processes would write the results in this order.
        options = replace(options, ordered=True)

    until, seed = _choose_until(options)
    evaluation = LocalEvaluation(
        reference=reference,
        source=read_jsonl(options.source, shuffle=seed, shard=options.shard_text),
        config=config,
        make=partial(
            evaluate_stream,
            dedupe=options.dedupe,
            format=make_trace_format(options),
            until=until,
        ),
        title=f"Evaluation of {options.source}",
        results_path=results_path,
        counted=counted,
    )
    return evaluate_here(options, evaluation, interrupts)


def _choose_until(options: EvaluateOptions) -> tuple[Until | None, int | None]:
    """Return the condition that ends the run, and the seed of the order in which lines are read.

    With a condition, lines are read in random order if possible, and standard error says so. Either
    is None if there is none; without a seed, lines are read in their own order.
    """
    if not options.until:
        return None, options.shuffle
    from graphrag_eval_async.inference.until import Until

    seed = options.shuffle
    if seed is None and read_jsonl(options.source).can_be_shuffled:
        seed = DEFAULT_SEED
    if seed is None:
        order = (
            "standard input, pipes and compressed files are read in their order: if they are "
            "sorted, only their beginning decides"
        )
    else:
        order = f"read in a shuffled order (--shuffle {seed}), since files are often sorted"
    tell(sys.stderr, f"--until: {order}")
    return Until(options.until[0], options.level), seed


@dataclass(frozen=True, kw_only=True)
class LocalEvaluation:
    """An evaluation in this process.

    Attributes:
        reference: the reference set.
        source: the responses, or an agent.
        config: the configuration; None without one.
        make: `evaluate_stream` or `evaluate_agent`, with the arguments that only one command has.
        title: the title of pages.
        results_path: where the results will be in the end; None if they are not written.
        counted: the reference set, if its questions without a response are counted.
        asked: counts the answers of the agent; None if the source is no agent.
        web: host and port of the live page; None without one.
        unit: what a decision makes unnecessary: "response" or "question".
    """

    reference: Reference
    source: Any
    config: Config | None
    make: Callable[..., EvaluationStream]
    title: str
    results_path: str | None
    counted: Reference | None
    asked: Asked | None = None
    web: tuple[str, int] | None = None
    unit: str = "response"


def evaluate_here(
    options: EvaluationOptions, evaluation: LocalEvaluation, interrupts: Interrupts
) -> Exit:
    """Evaluate in this process, write the results, and report them.

    Args:
        options: the options of the command.
        evaluation: what is evaluated, and how.
        interrupts: signals that end the run.

    Returns:
        The exit code of the command.
    """
    config = evaluation.config
    asked = evaluation.asked

    # Collect what the end of the run shows.
    problems = _Problems(config)
    worst = WorstAnswers()
    takers: list[Callable[[Mapping[str, Any]], object]] = [worst.add]
    collected = None
    if options.report is not None:
        collected = _collect_report_results(evaluation.counted)
        takers.append(collected.add)
    if asked is not None:
        takers.append(asked.add)

    # Make the stream, which a journal may give results of an earlier run.
    stream, reject_writer = make_stream(
        options,
        evaluation.reference,
        evaluation.source,
        config,
        by=options.by,
        make=evaluation.make,
    )
    for take in takers:
        stream.tell_restored(take)
    results: EvaluationStream | Dashboard = stream
    if evaluation.web is not None:
        results = _open_dashboard(options, stream, evaluation.web, evaluation.title)

    # Evaluate.
    with (
        open_results(options, reject_writer, interrupts) as lines,
        sending(lines, *takers, otel=options.otel) as send,
        _stream_progress(options, evaluation, stream) as advance,
    ):
        work = _write_results(results, send, advance, problems)
        ending = run_to_end(work, interrupts, drain=stopping(options, stream, stream.stop))

    # Report.
    notes = [*worst.lines(DEFAULT_WIDTH), *problems.lines()]
    if asked is not None and asked.error:
        notes.append(asked.error)
        if asked.answered == 0 and ending.error is None:
            error = GraphragEvalError(f"no question was answered; {asked.error}")
            ending = ending._replace(error=error)
    notes += _where_results_are(evaluation.results_path)
    write_report_page = None
    if collected is not None:
        write_report_page = partial(
            _write_report_page, options, stream, config, collected, evaluation.title
        )
    return report_stream(
        options,
        stream,
        ending,
        output_stream=page_stream(options.rejects, options.output),
        reference=evaluation.counted,
        config=config,
        by=options.by,
        interval=options.interval,
        notes=notes,
        unit=evaluation.unit,
        write_page=write_report_page,
    )


def _stream_progress(
    options: EvaluationOptions, evaluation: LocalEvaluation, stream: EvaluationStream
) -> AbstractContextManager[Callable[[], None]]:
    """Return a progress bar, as `progress` does, for a stream."""
    # Answers of an agent have no size in bytes, but their number is known.
    sources = [evaluation.source] if evaluation.asked is None else []
    return progress(
        *sources,
        shown=options.progress_is_shown,
        countdown=evaluation.asked,
        usage=stream.usage if judge_of(evaluation.config) else None,
        aggregates=stream.aggregates,
        in_flight=lambda: stream.in_flight,
    )


class _Problems:
    """Collects the problems that results name.

    Problems of traces are counted by kind. Of errors of queries and of metrics in code, the first
    one is kept.
    """

    def __init__(self, config: Config | None) -> None:
        """Start without problems.

        Args:
            config: the configuration, whose metrics in code have errors that count as problems;
                None without one.
        """
        self._trace_problems = Counter[str]()
        # What problems are called, by the key of a result that holds them.
        self._names = {EXECUTION_ERROR: "first query that could not be run"}
        if config is not None:
            for metric in config.custom_metrics:
                self._names[f"{metric}_error"] = f"first error of {metric}"
        self._first_problems: dict[str, str] = {}

    def add(self, result: Mapping[str, Any]) -> None:
        """Collect the problems of a result."""
        # A set, since a result counts once for each kind of problem.
        self._trace_problems.update(
            {kind_of_problem(problem) for problem in result.get("trace_problems", ())}
        )
        for key, name in self._names.items():
            if key in result and key not in self._first_problems:
                self._first_problems[key] = f"{name}: {result['question_id']}: {result[key]}"

    def lines(self) -> list[str]:
        """Return the problems in a line each, in which foreign text is escaped."""
        lines = []
        if self._trace_problems:
            lines.append(one_line(f"trace problems: {counts(self._trace_problems)}"))
        first_problems = self._first_problems.values()
        return lines + [one_line(problem, limit=MAX_PROBLEM) for problem in first_problems]


def _where_results_are(path: str | None) -> list[str]:
    """Return a line that says where the results are, and what shows them; [] on standard output.

    Args:
        path: the path of the results; None if they were not written.
    """
    if path == "-":
        return []
    if path is None:
        return ["results were not written; -o FILE writes them"]
    if is_table(path):
        return [one_line(f"results are in {path}", limit=MAX_PATH)]
    command = f"graphrag-eval-async report {shlex.quote(path)}"
    return [one_line(f"results are in {path}; to see each question: {command}", limit=MAX_PATH)]


class Asked:
    """Counts the answers of an agent that is asked questions.

    Attributes:
        size: number of answers that the run will have.
        consumed: number of answers that are evaluated.
        answered: number of answers that are no error, with those whose judging is pending.
        error: the first error of the agent, in one line; empty without one.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.consumed = 0
        self.answered = 0
        self.error = ""

    def add(self, result: Mapping[str, Any]) -> None:
        """Count a result."""
        if "pending" not in result:
            self.consumed += 1
        if "error" not in result:
            self.answered += 1
        elif not self.error:
            self.error = one_line(f"first error of the agent: {result['error']}")


def _open_dashboard(
    options: EvaluationOptions, stream: EvaluationStream, address: tuple[str, int], title: str
) -> Dashboard:
    """Return a dashboard of a stream, which yields the results in its place, and print its address.

    Args:
        options: the options of the command.
        stream: the stream.
        address: host and port of the page.
        title: the title of the page.
    """
    from graphrag_eval_async.monitor.dashboard import Dashboard

    host, port = address
    dashboard = Dashboard(
        stream,
        host=host,
        port=port,
        level=options.level,
        title=title,
        output=None if options.output == "-" else options.output,
    )
    tell(sys.stderr, f"dashboard: {dashboard.url}")
    return dashboard


async def _write_results(
    results: EvaluationStream | Dashboard,
    send: Send | None,
    advance: Callable[[], None],
    problems: _Problems,
) -> None:
    """Evaluate all responses.

    Args:
        results: gives the results.
        send: gets each result, also those whose metrics are pending; None to drop them.
        advance: is called for each complete result.
        problems: collects the problems of complete results.
    """
    async with results:
        async for result in results:
            if "pending" not in result:
                advance()
                problems.add(result)
            if send is not None:
                await send(result)


def _collect_report_results(reference: Reference | None) -> ReportResults:
    """Return a collection for the results of a report; `reference` is that of `Findings`."""
    from graphrag_eval_async.reports.report_results import ReportResults
    from graphrag_eval_async.reports.summary import Findings

    return ReportResults(Findings(reference=reference))


def _write_report_page(
    options: EvaluationOptions,
    stream: EvaluationStream,
    config: Config | None,
    collected: ReportResults,
    title: str,
    snapshot: Mapping[str, Any],
) -> None:
    """Write the page of ``--report``.

    Args:
        options: the options, with the path of the page.
        stream: the stream, at its end.
        config: the configuration; None without one.
        collected: the results of the stream.
        title: the title of the page.
        snapshot: the aggregates of the stream.
    """
    from graphrag_eval_async.reference import misnamed_steps
    from graphrag_eval_async.reports.html_report import html_report
    from graphrag_eval_async.reports.overview import judge_state
    from graphrag_eval_async.reports.summary import Summary
    from graphrag_eval_async.reports.worst import worst_questions

    assert options.report is not None  # noqa: S101
    findings = collected.findings
    assert findings is not None  # noqa: S101
    summary = Summary(
        snapshot=snapshot,
        questions=[*findings.questions],
        examples=findings.examples.by_reason,
        first_errors=findings.first_errors,
        asked=len(stream.reference.questions) or None,
        lowest=worst_questions(stream.aggregates),
        rejected={str(reason): count for reason, count in stream.rejects.counts.items()},
        misnamed=misnamed_steps(stream.reference, stream.aggregates._step_names()),
        by=options.by,
    )
    late = stream.late.facts()
    page = html_report(
        summary,
        collected,
        title=title,
        judge=judge_state(stream.usage, config),
        late="" if late is None else late["text"],
    )
    write_page(options.report, page)


def _estimate(options: EvaluateOptions, interrupts: Interrupts) -> Exit:
    """Print how many calls, tokens and dollars the judges would take, without calling them."""
    from graphrag_eval_async.judge.dry import DryJudge

    config = judge_config(options.config, options.llm, prepare=remove_keys)
    reference = read_reference(options.reference)
    check_gates(options.gate, options.by, reference, config)
    source = read_jsonl(options.source, shard=options.shard_text)
    stream = evaluate_stream(
        reference,
        source,
        config=config_for_estimate(config),
        judge=DryJudge() if judge_of(config) is not None else None,
        format=make_trace_format(options),
        max_in_flight=options.max_in_flight,
    )
    rejects = stream.rejects
    with progress(source) as advance:
        work = _write_results(stream, None, advance, _Problems(config))
        ending = run_to_end(work, interrupts)
    list_rejects(rejects)
    tell(sys.stdout, "\n".join(describe_estimate(stream, config)))
    return end(ending, rejects)


def _evaluate_in_processes(
    options: EvaluateOptions,
    reference: Reference,
    config: Config | None,
    interrupts: Interrupts,
    *,
    process_count: int,
    counted: Reference | None,
    results_path: str | None,
) -> Exit:
    """Evaluate files in several processes on this machine.

    Args:
        options: the options of the command.
        reference: the reference set.
        config: the configuration; None without one.
        interrupts: signals that end the run.
        process_count: number of worker processes.
        counted: the reference set, if its questions without a response are counted.
        results_path: where the results will be in the end; None if they are not written.

    Returns:
        The exit code of the command.
    """
    from graphrag_eval_async.scale.files import evaluate_in_processes
    from graphrag_eval_async.sources.reading import response_files

    reject_writer = RejectWriter()
    run = _make_sharded_run(options, reference, config, reject_writer, process_count, results_path)
    files_of_responses = response_files(options.source)
    worst_answers = WorstAnswers()
    problems = _Problems(config)
    with ExitStack() as files:
        output_lines = None
        if options.output:
            output_lines = files.enter_context(open_lines(options.output))

        async def send(lines: bytes) -> None:
            """Write the lines of results; keep their problems and the worst answers."""
            for line in lines.splitlines():
                result = orjson.loads(line)
                worst_answers.add(result)
                problems.add(result)
            if output_lines is not None:
                await output_lines.send(lines)

        if options.rejects:
            reject_writer.lines = files.enter_context(open_lines(options.rejects, interrupts))
        advance = files.enter_context(
            progress(
                run,
                shown=options.progress_is_shown,
                usage=run.usage if judge_of(config) else None,
                aggregates=run.aggregates,
            )
        )
        work = evaluate_in_processes(
            run, files_of_responses, part=options.shard, send=send, advance=advance
        )
        ending = run_to_end(work, interrupts, drain=run.stop)
    return report_shards(
        options,
        run,
        ending,
        output_stream=page_stream(options.rejects, options.output),
        reference=counted,
        config=config,
        notes=[
            *worst_answers.lines(DEFAULT_WIDTH),
            *problems.lines(),
            *_where_results_are(results_path),
        ],
        by=options.by,
        interval=options.interval,
    )


def _make_sharded_run(
    options: EvaluateOptions,
    reference: Reference,
    config: Config | None,
    reject_writer: RejectWriter,
    process_count: int,
    results_path: str | None,
) -> ShardedRun:
    """Return a run in several processes on this machine.

    Args:
        options: the options of the command.
        reference: the reference set.
        config: the configuration; None without one.
        reject_writer: takes rejected lines, if there is a file for them.
        process_count: number of worker processes.
        results_path: where the results will be in the end. Finished shards are kept beside this
            file; without one, they are not kept.
    """
    from graphrag_eval_async.helpers.posix import require_posix
    from graphrag_eval_async.scale.folder import SUFFIX
    from graphrag_eval_async.scale.run import ShardedRun

    evaluator_options: EvaluatorOptions = {
        "config": config,
        "format": make_trace_format(options),
        "on_fatal": options.on_fatal,
    }
    evaluator = Evaluator(reference, **evaluator_options)
    require_posix("jobs other than 1")
    shards_path = None
    if results_path is not None and results_path != "-":
        shards_path = f"{results_path}{SUFFIX}"
    return ShardedRun(
        evaluator,
        evaluator_options,
        shards_path=shards_path,
        max_workers=process_count,
        max_in_flight=options.max_in_flight,
        on_reject=reject_writer if options.rejects else "collect",
        is_part=options.shard is not None,
        first_tag_keys=named_tag_keys(options.gate, options.by),
    )
