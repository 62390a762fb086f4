"""The common part of ``evaluate`` and ``watch``: files, the stream, and its report."""

from __future__ import annotations

import os
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import orjson

from graphrag_eval_async.catalogue.outcomes import CAUSED_BY_AGENT, TEXT
from graphrag_eval_async.cli.command_table import refuse
from graphrag_eval_async.cli.files import check_distinct, open_lines
from graphrag_eval_async.cli.gates import named_tag_keys
from graphrag_eval_async.cli.judges import (
    judge_config,
    judging,
    load_for,
    never_judged,
    nothing_judged,
)
from graphrag_eval_async.cli.run_summary import end, report
from graphrag_eval_async.config.model import judge_of
from graphrag_eval_async.errors import UsageError
from graphrag_eval_async.helpers.text import one_line, percent, plural
from graphrag_eval_async.inference.running import RunningAggregates
from graphrag_eval_async.reference import NoReference, Reference, load_reference
from graphrag_eval_async.sinks import RejectWriter
from graphrag_eval_async.sinks.journal import Journal
from graphrag_eval_async.stream import EvaluationStream, evaluate_stream
from graphrag_eval_async.traces.format import OTLP, TraceFormat
from graphrag_eval_async.traces.trace import FAILURES

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping

    from graphrag_eval_async.cli.command_table import Given
    from graphrag_eval_async.cli.exits import Ending, Exit, Interrupts
    from graphrag_eval_async.cli.run_summary import Found
    from graphrag_eval_async.config import Config
    from graphrag_eval_async.records import Question
    from graphrag_eval_async.scale.run import ShardedRun
    from graphrag_eval_async.sinks import LineFile
    from graphrag_eval_async.sources import Responses
    from graphrag_eval_async.stream.until import Decision


Send: TypeAlias = "Callable[[Mapping[str, Any]], Awaitable[None]]"


def reference_of(given: Given) -> Reference:
    """Return the reference set, or what stands for none."""
    return NoReference() if given.reference is None else load_reference(given.reference)


def config_of(given: Given) -> Config | None:
    return judge_config(given.config, given.llm)


def trace_format(given: Given) -> TraceFormat | None:
    """Return the format of traces with the options for it; None without one."""
    if given.format is None:
        refuse(given, "select question_id failed step_name grace", "{} needs --format")
        return None
    waits = {"grace": given.grace, "late": late_file(given)} if hasattr(given, "grace") else {}
    return TraceFormat(
        name=given.format,
        select=given.select,
        question_id=given.question_id,
        failed=tuple(given.failed) or FAILURES,
        step_names=dict(given.step_name),
        **waits,
    )


def late_file(given: Given) -> str | None:
    """The file for responses of traces with late spans."""
    return (
        f"{given.output}.late" if given.format == OTLP and given.output not in (None, "-") else None
    )


def check_files(
    given: Given, config: Config | None, *read: str | None, pages: Iterable[str | None] = ()
) -> None:
    """Raise a `UsageError` if output options do not go together, or a file would be overwritten.

    `pages` are other files that the command writes.
    """
    if given.otel:
        from graphrag_eval_async.exporters.otel import check_export

        check_export()
    beside = [late_file(given)]
    if given.resume:
        if given.output in (None, "-") or given.rejects == "-":
            raise UsageError("--resume needs -o FILE, and no --rejects on standard output")
        refuse(
            given,
            "stages",
            "{} cannot be combined with --resume: a journal keeps only complete results",
        )
        suffixes = ["", ".run", ".damaged", ".watch"]
        beside += [
            given.rejects or f"{given.output}.rejects",
            *(given.output + each for each in suffixes),
        ]
    else:
        refuse(given, "retry_errors retry_failed", "{} needs --resume")
        if given.output is not None and os.path.exists(f"{given.output}.run"):
            raise UsageError(
                f"{given.output!r} is a journal, which would be overwritten; --resume resumes it; "
                f"to overwrite it, delete {given.output}.run"
            )
    cache = config.llm.cache if config is not None and config.llm is not None else None
    # Files of a journal among the sources would not be read.
    lines = [] if given.resume else [given.output, given.rejects]
    written = [given.aggregates, *lines, *pages]
    check_distinct([given.reference, given.config, cache, *read], written, beside)


def _journal(given: Given) -> Journal:
    return Journal(
        given.output,
        force=given.resume == "force",
        rejects=given.rejects,
        retry_failed=given.retry_failed,
    )


def make_stream(
    given: Given,
    reference: Reference,
    source: Responses | Callable[[Question], Any],
    config: Config | None,
    *,
    make: Callable[..., EvaluationStream] = evaluate_stream,
    **more: Any,
) -> tuple[EvaluationStream, RejectWriter]:
    """A stream, and what writes its rejects once `open_results` has opened their file."""
    writer = RejectWriter()
    aggregates = RunningAggregates()
    aggregates._count_tags_first(named_tag_keys(given))
    stream = make(
        reference,
        source,
        config=config,
        aggregates=aggregates,
        on_reject=writer if given.rejects and not given.resume else "collect",
        journal=_journal(given) if given.resume else None,
        dedupe=given.dedupe,
        on_fatal=given.on_fatal,
        stages=given.stages,
        format=trace_format(given),
        ordered=given.ordered,
        max_in_flight=given.max_in_flight,
        **more,
    )
    load_for(config)
    _ = stream.rejects  # They are shown at the end.
    return stream, writer


@contextmanager
def open_results(
    given: Given, writer: RejectWriter, interrupts: Interrupts
) -> Iterator[LineFile | None]:
    """The file for results, emptied, unless there is none or a journal; and that for rejects."""
    with ExitStack() as files:
        if given.resume:
            yield None
            return
        results = (
            files.enter_context(open_lines(given.output)) if given.output is not None else None
        )
        if (late := late_file(given)) is not None:  # It is that of the results before.
            Path(late).unlink(missing_ok=True)
        if given.rejects is not None:
            writer.lines = files.enter_context(open_lines(given.rejects, interrupts))
        yield results


@contextmanager
def exporting(
    given: Given, lines: LineFile | None, *takers: Callable[[Mapping[str, Any]], object]
) -> Iterator[Send]:
    """What sends each result to `lines`, `takers` and OpenTelemetry; at the end, delivers the
    rest.
    """
    taking = [*takers]
    with ExitStack() as exports:
        if given.otel:
            import logging

            from graphrag_eval_async.exporters.otel import OtelExport

            # Its messages, one for each attempt, would go through the screen; the end says it once.
            logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
            export = OtelExport()
            exports.callback(export.close)
            taking.append(export.add)

        async def send(result: Mapping[str, Any]) -> None:
            for take in taking:
                take(result)
            if lines is not None:
                await lines.send(orjson.dumps(result, option=orjson.OPT_APPEND_NEWLINE))

        yield send


def stopping(
    given: Given, stream: EvaluationStream, stop: Callable[[], object]
) -> Callable[[], None]:
    """Return what a first signal calls: `stop`; with a journal, unsent calls are left to the
    next run.
    """

    def stop_paying() -> None:
        stop()
        if given.resume:
            stream.drop_unsent()

    return stop_paying


def report_stream(
    given: Given,
    stream: EvaluationStream,
    ending: Ending,
    *,
    reference: Reference | None,
    config: Config | None,
    notes: Iterable[str] = (),
    **more: Any,
) -> Exit:
    """Report the outcome of a stream, with `notes` below the tables; only the error if it has not
    begun.

    `more` are arguments of `report`.
    """
    if not stream.is_restored:  # The journal could not be resumed.
        return end(ending)
    decision, about = stream.decision, _journaling(stream, given)
    if given.resume:
        remedy = ", which counts earlier costs, and resume with --retry-failed"
    else:
        remedy = " and start again; llm.cache or --resume would have kept what is paid"
    ending, of_judge = _about_judge(stream, ending, config, remedy)
    about += of_judge
    of = "question" if getattr(given, "repeats", 0) == 1 else "response"
    about += _deciding(decision, of) if decision is not None else []
    about += unmatched(stream, reference, config)
    return report(
        given,
        stream,
        ending,
        reference=reference,
        kept=(given.rejects or f"{given.output}.rejects") if given.resume else None,
        notes=[*notes, *about],
        decision=decision,
        **more,
    )


def report_shards(
    given: Given,
    run: ShardedRun,
    ending: Ending,
    *,
    reference: Reference | None,
    config: Config | None,
) -> Exit:
    """Report the outcome of a run in shards; only the error if none was joined."""
    remedy = " and start again; llm.cache would have kept what is paid"
    ending, notes = _about_judge(run, ending, config, remedy)
    notes += unmatched(run, reference, config)
    if run.resumed:
        notes.append(f"finished by an earlier run: {plural(run.resumed, 'shard')}")
    if not ending.is_complete and os.path.isdir(run.folder):
        notes.append(
            one_line(f"finished shards stay in {run.folder}: the same command evaluates the rest")
        )
    return report(given, run, ending, reference=reference, notes=notes)


def _about_judge(
    run: EvaluationStream | ShardedRun, ending: Ending, config: Config | None, remedy: str
) -> tuple[Ending, list[str]]:
    """Return lines about what the judge did; the ending has an error if nothing was judged.

    `remedy` says what to do, besides raising the budget, to judge what it did not suffice for.
    """
    model = judge_of(config)
    if config is None or model is None:
        return ending, []
    notes = judging(model, run.usage)
    if "budget" in run.usage.errors:
        notes.append(f"to judge the rest, raise llm.limits.budget_usd{remedy}")
    micro = run.aggregates.snapshot()["micro"]
    groups = run.aggregates._groups.values()
    outcomes = {outcome for group in groups for outcome in group.outcomes}
    texts = {name for name, kind in outcomes if kind == TEXT}
    failed = {name for name, kind in outcomes if kind not in CAUSED_BY_AGENT} - texts
    metrics = texts.union(micro)
    if ending.error is None:
        ending = ending._replace(error=nothing_judged(config, run.usage, metrics, failed))
    if ending.error is None and micro["number_of_success_samples"]:
        never = never_judged(config, run.usage, metrics, failed).items()
        notes += [f"not judged: {name} {why}" for name, why in never]
    return ending, notes


def unmatched(found: Found, reference: Reference | None, config: Config | None) -> list[str]:
    """Return a line that says how to compare answers, if there are some and nothing compares
    them.
    """
    questions = [each for each in reference or () if each.reference_answer is not None]
    compared = any(each.match for each in questions) or (
        config and (config.judged or config.answer_match)
    )
    if compared or not questions or not found.aggregates._count_answers():
        return []
    return ["answers are not compared: set `match` on questions, or `answer_match` in --config"]


def _journaling(stream: EvaluationStream, given: Given) -> list[str]:
    """Return lines about what the journal held, if there is one."""
    if (journal := stream.journal) is None:
        return []
    before = (
        f"{plural(journal.restored, 'result')} and {plural(journal.rejected, 'reject')} from before"
    )
    told = f"journal {journal.path}: {before}"
    if journal.damaged:
        told += f", {journal.damaged} damaged lines set aside in {journal.path}.damaged"
    lines = [f"{told}, {plural(stream.skipped, 'line')} skipped as done"]
    if journal.failed:
        stay = "kept; --retry-failed evaluates them again"
        stay = f"set aside in {journal.path}.damaged" if given.retry_failed else stay
        lines.append(f"{plural(journal.failed, 'result')} from before with failed metrics: {stay}")
    return [*map(one_line, lines)]


def _deciding(decision: Decision, of: str) -> list[str]:
    """Return lines about what was decided, and how many responses or questions were not needed."""
    found = {None: "is open", True: "holds", False: "does not hold"}[decision.holds]
    failed = f", {plural(decision.failed, 'error')}" if decision.failed else ""
    told = (
        f"{'not ' if decision.holds is None else ''}decided after {decision.responses} responses "
        f"to {decision.questions} questions: {decision.condition} {found} "
        f"({percent(decision.level)}: {decision.low:.4g} to {decision.high:.4g}; "
        f"{decision.samples} samples{failed})"
    )
    skipped = [f"skipped: {plural(decision.remaining, of)}"] if decision.remaining else []
    return [one_line(told), *skipped]
