"""The common part of ``evaluate``, ``watch`` and ``ask``: files, the stream, and its report."""

from __future__ import annotations

import os
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TextIO, TypeAlias

import orjson

from graphrag_eval_async.catalogue.outcomes import CAUSED_BY_AGENT, TEXT
from graphrag_eval_async.cli.command_table import OptionValues
from graphrag_eval_async.cli.files import check_distinct, open_lines
from graphrag_eval_async.cli.gates import named_tag_keys
from graphrag_eval_async.cli.judges import (
    describe_judge,
    import_judge_packages,
    never_judged,
    nothing_judged,
)
from graphrag_eval_async.cli.run_summary import SummaryOptions, end, report
from graphrag_eval_async.config.model import judge_of
from graphrag_eval_async.errors import UsageError
from graphrag_eval_async.helpers.text import one_line, percent, plural
from graphrag_eval_async.inference.running import RunningAggregates
from graphrag_eval_async.reference import NoReference, Reference, load_reference
from graphrag_eval_async.sinks import RejectWriter
from graphrag_eval_async.sinks.journal import DAMAGED, REPLACED, Journal
from graphrag_eval_async.stream import EvaluationStream, evaluate_stream
from graphrag_eval_async.traces.format import OTLP, TraceFormat
from graphrag_eval_async.traces.trace import FAILURES

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence

    from graphrag_eval_async.cli.exits import Ending, Exit, Interrupts
    from graphrag_eval_async.cli.run_summary import RunOutcome
    from graphrag_eval_async.config import Config
    from graphrag_eval_async.inference.running import Interval
    from graphrag_eval_async.records import Question
    from graphrag_eval_async.scale.run import ShardedRun
    from graphrag_eval_async.sinks import LineFile
    from graphrag_eval_async.sinks.journal import OpenJournal
    from graphrag_eval_async.sources import Responses
    from graphrag_eval_async.stream.until import Decision


MAX_UNFINISHED = 20
"""Maximum number of responses without a result that the summary names; the others are counted."""

Send: TypeAlias = "Callable[[Mapping[str, Any]], Awaitable[None]]"
"""Sends a result to all that take results."""

FILES_OF_JOURNAL = ("", ".run", DAMAGED, REPLACED, ".watch")
"""What follows the name of the output in the names of the files of a journal."""


@dataclass(frozen=True, kw_only=True)
class TraceOptions(OptionValues):
    """The options of commands that read traces in place of responses."""

    format: str | None
    select: str | None
    question_id: str | None
    failed: list[str]
    step_name: list[tuple[str, str]]


@dataclass(frozen=True, kw_only=True)
class RunOptions(SummaryOptions):
    """The options of commands that evaluate a stream of responses."""

    reference: str | None
    config: str | None
    llm: str | None
    output: str | None
    resume: str | None
    retry_failed: bool
    max_in_flight: int | None
    on_fatal: Literal["raise", "continue"]
    ordered: bool
    otel: bool
    stages: bool

    @property
    def late_path(self) -> str | None:
        """The file for responses of traces with late spans; None if no span can be late."""
        return None

    @property
    def all_rejects_path(self) -> str | None:
        """The file in which a journal keeps all rejected lines; None without a journal."""
        if not self.resume:
            return None
        return self.rejects or f"{self.output}.rejects"


@dataclass(frozen=True, kw_only=True)
class LogOptions(RunOptions, TraceOptions):
    """The options of commands that evaluate responses, or traces, in files."""

    no_reference: str | None
    dedupe: Literal["position", "content"]
    grace: float

    @property
    def late_path(self) -> str | None:
        """The file for responses of traces with late spans; None if no span can be late."""
        is_file = self.output is not None and self.output != "-"
        if self.format == OTLP and is_file:
            return f"{self.output}.late"
        return None


def read_reference(path: str | None) -> Reference:
    """Return the reference set in a file; without a file, `NoReference`."""
    if path is None:
        return NoReference()
    return load_reference(path)


def make_trace_format(options: TraceOptions) -> TraceFormat | None:
    """Return the format of traces with the options for it; None if responses are no traces.

    Raises:
        UsageError: an option is for traces, but there is no format.
    """
    if options.format is None:
        options.refuse(
            "select",
            "question_id",
            "failed",
            "step_name",
            "grace",
            message="{} needs --format",
        )
        return None
    trace_format = TraceFormat(
        name=options.format,
        select=options.select,
        question_id=options.question_id,
        failed=tuple(options.failed) or FAILURES,
        step_names=dict(options.step_name),
    )
    if isinstance(options, LogOptions):
        return replace(trace_format, grace=options.grace, late=options.late_path)
    return trace_format


def check_files(
    options: RunOptions,
    config: Config | None,
    *read_paths: str | None,
    pages: Iterable[str | None] = (),
) -> None:
    """Check that the options for output go together, and that no file would be overwritten.

    Args:
        options: the options of the command.
        config: the configuration, whose cache is a file that is written.
        read_paths: files that the command reads, besides the reference set and the configuration.
        pages: files that the command writes, besides those of `RunOptions`.

    Raises:
        UsageError: options do not go together, or a file would be overwritten.
    """
    if options.otel:
        from graphrag_eval_async.exporters.otel import check_export

        check_export()

    files_of_run = [options.late_path]
    if options.resume:
        _check_journal_options(options)
        files_of_run.append(options.all_rejects_path)
        files_of_run += [f"{options.output}{suffix}" for suffix in FILES_OF_JOURNAL]
    else:
        options.refuse("retry_errors", "retry_failed", message="{} needs --resume")
        if options.output is not None and os.path.exists(f"{options.output}.run"):
            raise UsageError(
                f"{options.output!r} is a journal, which would be overwritten; --resume resumes "
                f"it; to overwrite it, delete {options.output}.run"
            )

    cache = None
    if config is not None and config.llm is not None:
        cache = config.llm.cache
    written_paths = [options.aggregates, *pages]
    if not options.resume:
        # The files of a journal may be among those that are read, where they are skipped.
        written_paths += [options.output, options.rejects]
    check_distinct(
        [options.reference, options.config, cache, *read_paths], written_paths, files_of_run
    )


def _check_journal_options(options: RunOptions) -> None:
    """Raise a `UsageError` if other options cannot be combined with ``--resume``."""
    if options.output in (None, "-") or options.rejects == "-":
        raise UsageError("--resume needs -o FILE, and no --rejects on standard output")
    options.refuse(
        "stages",
        message="{} cannot be combined with --resume: a journal keeps only complete results",
    )


def make_stream(
    options: RunOptions,
    reference: Reference,
    source: Responses | Callable[[Question], Any],
    config: Config | None,
    *,
    by: str | None = None,
    make: Callable[..., EvaluationStream] = evaluate_stream,
) -> tuple[EvaluationStream, RejectWriter]:
    """Create the stream of a command.

    Args:
        options: the options of the command.
        reference: the reference set.
        source: the responses, or an agent that is asked questions.
        config: the configuration; None without one.
        by: the key of tags by which results are grouped; None without one.
        make: `evaluate_stream` or `evaluate_agent`, with the arguments that only one command has.

    Returns:
        The stream, and what writes its rejected lines once `open_results` has opened their file.
    """
    reject_writer = RejectWriter()
    aggregates = RunningAggregates()
    # Other keys of tags are not counted if there are too many.
    aggregates._count_tags_first(named_tag_keys(options.gate, by))
    journal = None
    if options.resume:
        journal = Journal(
            str(options.output),
            force=options.resume == "force",
            rejects=options.rejects,
            retry_failed=options.retry_failed,
        )
    # A journal writes rejected lines itself.
    writes_rejects = options.rejects is not None and journal is None
    stream = make(
        reference,
        source,
        config=config,
        aggregates=aggregates,
        on_reject=reject_writer if writes_rejects else "collect",
        journal=journal,
        on_fatal=options.on_fatal,
        stages=options.stages,
        ordered=options.ordered,
        max_in_flight=options.max_in_flight,
    )
    import_judge_packages(config)
    # A stream warns of rejected lines unless somebody has looked at them. The end shows them.
    _ = stream.rejects
    return stream, reject_writer


@contextmanager
def open_results(
    options: RunOptions, reject_writer: RejectWriter, interrupts: Interrupts
) -> Iterator[LineFile | None]:
    """Open the files for results and for rejected lines, emptied, unless a journal writes them.

    Args:
        options: the options, with the paths.
        reject_writer: gets the file for rejected lines.
        interrupts: signals that end the wait for the reader of that file.

    Yields:
        The file for results; None if there is none, or a journal.
    """
    with ExitStack() as files:
        if options.resume:
            yield None
            return
        results = None
        if options.output is not None:
            results = files.enter_context(open_lines(options.output))
        if options.late_path is not None:
            # It belongs to the results that were there before.
            Path(options.late_path).unlink(missing_ok=True)
        if options.rejects is not None:
            reject_writer.lines = files.enter_context(open_lines(options.rejects, interrupts))
        yield results


@contextmanager
def sending(
    results: LineFile | None,
    *takers: Callable[[Mapping[str, Any]], object],
    otel: bool,
) -> Iterator[Send]:
    """Yield a function that sends a result to all that take results.

    Args:
        results: the file for results; None without one.
        takers: functions that take each result.
        otel: whether results go to OpenTelemetry, which gets the last ones when the context closes.
    """
    all_takers = list(takers)
    with ExitStack() as exports:
        if otel:
            import logging

            from graphrag_eval_async.exporters.otel import OtelExport

            # Its messages, one for each attempt, would go through the screen; the end says it once.
            logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
            export = OtelExport()
            exports.callback(export.close)
            all_takers.append(export.add)

        async def send(result: Mapping[str, Any]) -> None:
            for take in all_takers:
                take(result)
            if results is not None:
                await results.send(orjson.dumps(result, option=orjson.OPT_APPEND_NEWLINE))

        yield send


def stopping(
    options: RunOptions, stream: EvaluationStream, stop: Callable[[], object]
) -> Callable[[], None]:
    """Return the function that the first signal calls.

    It calls `stop`. With a journal, it also drops calls that were not sent yet, since the next run
    makes them.
    """

    def stop_paying() -> None:
        stop()
        if options.resume:
            stream.drop_unsent()

    return stop_paying


def report_stream(
    options: RunOptions,
    stream: EvaluationStream,
    ending: Ending,
    *,
    output_stream: TextIO | None,
    reference: Reference | None,
    config: Config | None,
    by: str | None = None,
    interval: Interval | None = None,
    notes: Iterable[str] = (),
    unit: str = "response",
    write_page: Callable[[Mapping[str, Any]], None] | None = None,
) -> Exit:
    """Report a stream at its end; if its journal could not be resumed, show only the error.

    Args:
        options: the options of the command.
        stream: the stream.
        ending: how it ended.
        output_stream: where the tables go; None to show none.
        reference: the reference set, if its questions without a response are counted.
        config: the configuration; None without one.
        by: the key of tags by which results are grouped; None without one.
        interval: the kind of intervals; None for what suits the run.
        notes: lines that stand below the tables.
        unit: what a decision makes unnecessary: "response" or "question".
        write_page: writes the page of a snapshot; None for no page.

    Returns:
        The exit code of the command.
    """
    if not stream.is_restored:
        return end(ending)

    # Describe the journal, the judge and the decision.
    if options.resume:
        remedy = ", which counts earlier costs, and resume with --retry-failed"
    else:
        remedy = " and start again; llm.cache or --resume would have kept what is paid"
    ending, judge_notes = _report_judge(stream, ending, config, remedy)

    all_notes = [*notes]
    if stream.journal is not None:
        all_notes += _describe_journal(stream.journal, stream.skipped, options)
    all_notes += judge_notes
    if stream.decision is not None:
        all_notes += _describe_decision(stream.decision, unit)
    all_notes += note_without_comparison(stream, reference, config)
    all_notes += _describe_unfinished(stream)
    return report(
        options,
        stream,
        ending,
        stream=output_stream,
        reference=reference,
        by=by,
        interval=interval,
        kept=options.all_rejects_path,
        notes=all_notes,
        decision=stream.decision,
        write_page=write_page,
    )


def report_shards(
    options: SummaryOptions,
    run: ShardedRun,
    ending: Ending,
    *,
    output_stream: TextIO | None,
    reference: Reference | None,
    config: Config | None,
    notes: Sequence[str] = (),
    by: str | None = None,
    interval: Interval | None = None,
) -> Exit:
    """Report a run in shards at its end; the arguments are those of `report_stream`."""
    remedy = " and start again; llm.cache would have kept what is paid"
    ending, judge_notes = _report_judge(run, ending, config, remedy)
    all_notes = [*notes, *judge_notes, *note_without_comparison(run, reference, config)]
    if run.resumed:
        all_notes.append(f"finished by an earlier run: {plural(run.resumed, 'shard')}")
    if not ending.is_complete and os.path.isdir(run.folder):
        all_notes.append(
            one_line(f"finished shards stay in {run.folder}: the same command evaluates the rest")
        )
    return report(
        options,
        run,
        ending,
        stream=output_stream,
        reference=reference,
        by=by,
        interval=interval,
        notes=all_notes,
    )


def _report_judge(
    run: EvaluationStream | ShardedRun, ending: Ending, config: Config | None, remedy: str
) -> tuple[Ending, list[str]]:
    """Describe what the judge of a run did.

    Args:
        run: the run.
        ending: how it ended.
        config: the configuration; None without one.
        remedy: what to do, besides raising the budget, to judge what the budget was too small for.

    Returns:
        The ending, which has an error if nothing was judged, and lines for the end of the report.
    """
    model = judge_of(config)
    if config is None or model is None:
        return ending, []
    notes = describe_judge(model, run.usage)
    if "budget" in run.usage.errors:
        notes.append(f"to judge the rest, raise llm.limits.budget_usd{remedy}")

    micro = run.aggregates.snapshot()["micro"]
    text_metrics = set()
    failed_metrics = set()
    for group in run.aggregates._groups.values():
        for name, kind in group.outcomes:
            if kind == TEXT:
                text_metrics.add(name)
            elif kind not in CAUSED_BY_AGENT:
                failed_metrics.add(name)
    failed_metrics -= text_metrics
    # Texts have no mean, so that `micro` does not name these metrics.
    metrics = text_metrics.union(micro)

    if ending.error is None:
        error = nothing_judged(config, run.usage, metrics, failed_metrics)
        ending = ending._replace(error=error)
    if ending.error is None and micro["number_of_success_samples"]:
        reasons = never_judged(config, run.usage, metrics, failed_metrics)
        notes += [f"not judged: {name} {reason}" for name, reason in reasons.items()]
    return ending, notes


def note_without_comparison(
    outcome: RunOutcome, reference: Reference | None, config: Config | None
) -> list[str]:
    """Return a line that says how to compare answers, if nothing compares those of a run.

    Args:
        outcome: the results of the run.
        reference: the reference set; None without one.
        config: the configuration; None without one.

    Returns:
        The line; [] if answers are compared, or there are none with a reference answer.
    """
    questions = [question for question in reference or () if question.reference_answer is not None]
    if not questions or any(question.match for question in questions):
        return []
    if config is not None and (config.judged or config.answer_match):
        return []
    if not outcome.aggregates._count_answers():
        return []
    return ["answers are not compared: set `match` on questions, or `answer_match` in --config"]


def _describe_unfinished(stream: EvaluationStream) -> list[str]:
    """Return a line that names responses that were read, but not evaluated before the run ended."""
    questions = stream._unfinished
    if not questions:
        return []
    listed = ", ".join(one_line(question, limit=80) for question in questions[:MAX_UNFINISHED])
    if len(questions) > MAX_UNFINISHED:
        listed += ", ..."
    return [f"{plural(len(questions), 'response')} not evaluated: {listed}"]


def _describe_journal(journal: OpenJournal, skipped: int, options: RunOptions) -> list[str]:
    """Return lines about what a journal held.

    Args:
        journal: the journal.
        skipped: number of lines of the input that were done before.
        options: the options of the command.
    """
    summary = (
        f"journal {journal.path}: {plural(journal.restored, 'result')} and "
        f"{plural(journal.rejected, 'reject')} from before"
    )
    if journal.damaged:
        summary += f", {journal.damaged} damaged lines set aside in {journal.path}{DAMAGED}"
    summary += f", {plural(skipped, 'line')} skipped as done"
    lines = [one_line(summary)]
    if journal.failed:
        if options.retry_failed:
            treatment = f"set aside in {journal.path}{REPLACED}"
        else:
            treatment = "kept; --retry-failed evaluates them again"
        failed = plural(journal.failed, "result")
        lines.append(one_line(f"{failed} from before with failed metrics: {treatment}"))
    return lines


def _describe_decision(decision: Decision, unit: str) -> list[str]:
    """Return lines about a decision, and about how many responses or questions it saved.

    Args:
        decision: the decision.
        unit: what it saved: "response" or "question".
    """
    if decision.holds is None:
        decided = "not decided"
        verdict = "is open"
    else:
        decided = "decided"
        verdict = "holds" if decision.holds else "does not hold"
    samples = f"{decision.samples} samples"
    if decision.failed:
        samples += f", {plural(decision.failed, 'error')}"
    interval = f"{percent(decision.level)}: {decision.low:.4g} to {decision.high:.4g}; {samples}"
    lines = [
        one_line(
            f"{decided} after {decision.responses} responses to {decision.questions} questions: "
            f"{decision.condition} {verdict} ({interval})"
        )
    ]
    if decision.remaining:
        lines.append(f"skipped: {plural(decision.remaining, unit)}")
    return lines
