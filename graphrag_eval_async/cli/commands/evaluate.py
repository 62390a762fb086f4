"""``evaluate``: results and aggregates of responses."""

from __future__ import annotations

import os
import shlex
import sys
from collections import Counter
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.catalogue.metrics import MISSING_RATE
from graphrag_eval_async.catalogue.outcomes import EXECUTION_ERROR
from graphrag_eval_async.cli.command_table import refuse
from graphrag_eval_async.cli.exits import run_to_end
from graphrag_eval_async.cli.files import open_lines, write_page
from graphrag_eval_async.cli.gates import check_gates, named_tag_keys, on_missing
from graphrag_eval_async.cli.judges import estimates, judge_config, unlimited, without_keys
from graphrag_eval_async.cli.reading import processes_for, progress
from graphrag_eval_async.cli.run import (
    check_files,
    config_of,
    exporting,
    make_stream,
    open_results,
    reference_of,
    report_shards,
    report_stream,
    stopping,
    trace_format,
)
from graphrag_eval_async.cli.run_summary import end, list_rejects
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
    from collections.abc import Callable, Mapping

    from graphrag_eval_async.cli.command_table import Given
    from graphrag_eval_async.cli.exits import Exit, Interrupts
    from graphrag_eval_async.cli.run import Send
    from graphrag_eval_async.config import Config
    from graphrag_eval_async.evaluator import EvaluatorOptions
    from graphrag_eval_async.monitor.dashboard import Dashboard
    from graphrag_eval_async.reference import Reference
    from graphrag_eval_async.reports.report_results import ReportResults
    from graphrag_eval_async.stream import EvaluationStream

DEFAULT_SEED = 0

MAX_PROBLEM = 300
"""Maximum number of characters of a problem that is quoted."""

MAX_PATH = 2000
"""Maximum number of characters of a line with the path of the results."""

OF_ALL_RESPONSES = "until shuffle stages"
OF_ONE_PROCESS = "resume until stages shuffle report otel dedupe"
"""Fields of options that cannot be combined with --shard and with --jobs."""


def run(given: Given, interrupts: Interrupts) -> Exit:
    """Run the command."""
    given = given.replace(source=given.no_reference or given.responses or "")
    _check(given)
    if given.dry_run:
        return _estimate(given, interrupts)
    return to_output(given, partial(_run_here, interrupts=interrupts))


def to_output(given: Given, work: Callable[[Given], Exit]) -> Exit:
    """Call `work` with the default output, or with a file of lines that then become a table."""
    if given.output is None and not (sys.stdout and sys.stdout.isatty()):
        given = given.replace(output="-")
    if not _is_table(given):
        return work(given)
    table = given.output  # Its columns are known only at the end.
    check_table(table)
    check_files(given, config_of(given), given.source, pages=[given.report])
    lines = draft_beside(table, ".jsonl")
    try:
        code = work(given.replace(output=lines, table=table))
        write_table(lines, table)
    except Exception:
        if os.path.exists(lines):
            tell(sys.stderr, f"{table} was not written; results so far are in {lines}")
        raise
    os.unlink(lines)
    return code


def _is_table(given: Given) -> bool:
    return given.output is not None and is_table(given.output)


def _check(given: Given) -> None:
    """Raise a `UsageError` if options do not go together."""
    if given.no_reference is not None:
        if given.reference is not None:
            raise UsageError("--no-reference RESPONSES cannot be combined with REFERENCE")
    elif given.reference is None or given.responses is None:
        raise UsageError("expected REFERENCE and RESPONSES, or --no-reference RESPONSES")
    check_parts(given)


def check_parts(given: Given) -> None:
    """Raise a `UsageError` if options do not go together with what this process reads."""
    if len(given.until) > 1:
        raise UsageError(f"--until: one condition only, got {len(given.until)}")
    if _is_table(given) and given.resume:
        raise UsageError(f"--resume needs a JSONL output, not {given.output}; use another name")
    sees = "with --until, which skips questions" if given.until else ""
    if given.shard is not None:
        if given.source == "-":
            raise UsageError("--shard needs files; standard input has no shards")
        refuse(
            given, OF_ALL_RESPONSES, "--shard cannot be combined with {}, which needs all responses"
        )
        sees = "with --shard, which sees a part only"
    if given.jobs != 1 and not given.dry_run:
        refuse(
            given, OF_ONE_PROCESS, "--jobs cannot be combined with {}, which needs a single process"
        )
    if sees and on_missing(given.gate):
        raise UsageError(f"{MISSING_RATE} cannot be a gate {sees}")


def _run_here(given: Given, interrupts: Interrupts) -> Exit:
    """Evaluate files on this machine, in this process or in several."""
    config = config_of(given)
    check_files(given, config, given.source, pages=[given.report])
    reference = reference_of(given)
    check_gates(given, reference, config)
    counted = None if given.shard else reference
    if given.jobs != 1:
        jobs = processes_for(given.jobs, given.source, trace_format(given))
        if jobs > 1:
            return _run_in_processes(given, reference, jobs, interrupts, counted, config)
        given = given.replace(ordered=True)
    if not given.until:
        source = read_jsonl(given.source, shuffle=given.shuffle, shard=given.shard)
        return evaluate_here(given, reference, source, config, interrupts, counted=counted)
    from graphrag_eval_async.inference.until import Until

    until, seed = Until(given.until[0], given.level), given.shuffle
    if seed is None:
        seed = DEFAULT_SEED if read_jsonl(given.source).can_be_shuffled else None
        how = f"read in a shuffled order (--shuffle {seed}), since files are often sorted"
        if seed is None:
            how = (
                "standard input, pipes and compressed files are read in their order: if they are "
                "sorted, "
            )
            how += "only their beginning decides"
        tell(sys.stderr, f"--until: {how}")
    source = read_jsonl(given.source, shuffle=seed)
    return evaluate_here(given, reference, source, config, interrupts, counted=counted, until=until)


def evaluate_here(
    given: Given,
    reference: Reference,
    source: Any,
    config: Config | None,
    interrupts: Interrupts,
    *,
    counted: Reference | None = None,
    asked: Asked | None = None,
    **more: Any,
) -> Exit:
    """Evaluate in this process; `counted` is the reference set if its unanswered questions are
    counted.
    """
    problems, collected = _Problems(config), None
    if given.report is not None:
        from graphrag_eval_async.reports.report_results import ReportResults
        from graphrag_eval_async.reports.summary import Findings

        collected = ReportResults(Findings(reference=counted))
    add = [each.add for each in (collected, asked) if each is not None]
    stream, writer = make_stream(given, reference, source, config, **more)
    worst = WorstAnswers()
    add.append(worst.add)
    for take in add:
        stream.tell_restored(take)
    results = _shown_in_browser(given, stream)
    with open_results(given, writer, interrupts) as lines, exporting(given, lines, *add) as send:
        usage = stream.usage if judge_of(config) else None
        shown = _shows_progress(given)
        bar = progress(
            *([] if asked is not None else [source]),
            shown=shown,
            countdown=asked,
            usage=usage,
            aggregates=stream.aggregates,
            in_flight=lambda: stream.in_flight,
        )
        with bar as advance:
            work = _write_results(results, send, advance, problems)
            ending = run_to_end(work, interrupts, drain=stopping(given, stream, stream.stop))
    told = problems.lines()
    if asked is not None and asked.error:
        told.append(asked.error)
        if not asked.answered and ending.error is None:
            ending = ending._replace(
                error=GraphragEvalError(f"no question was answered; {asked.error}")
            )
    return report_stream(
        given,
        stream,
        ending,
        reference=counted,
        config=config,
        notes=[*worst.lines(DEFAULT_WIDTH), *told, *_where_results_are(given)],
        page=None if collected is None else partial(_write_page, given, stream, config, collected),
    )


class _Problems:
    """Collects the problems that results tell: all kinds of problems of traces, and of each other
    kind the first.
    """

    def __init__(self, config: Config | None) -> None:
        """Prepare to collect also the errors of the custom metrics of a configuration."""
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


def _where_results_are(given: Given) -> list[str]:
    """Return a line that says where the results are, and what shows them; none on a pipe."""
    path = getattr(given, "table", given.output)
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


def _shown_in_browser(given: Given, stream: EvaluationStream) -> EvaluationStream | Dashboard:
    """Return the stream, or with ``--web`` a dashboard in its place."""
    if getattr(given, "web", None) is None:
        return stream
    from graphrag_eval_async.monitor.dashboard import Dashboard

    (host, port), title = given.web, f"Evaluation of {given.source}"
    output = None if given.output == "-" else given.output
    dashboard = Dashboard(
        stream, host=host, port=port, level=given.level, title=title, output=output
    )
    tell(sys.stderr, f"dashboard: {dashboard.url}")
    return dashboard


async def _write_results(
    stream: EvaluationStream | Dashboard,
    send: Send | None,
    advance: Callable[[], None],
    problems: _Problems,
) -> None:
    async with stream:
        async for result in stream:
            if "pending" not in result:
                advance()
                problems.add(result)
            if send is not None:
                await send(result)


def _write_page(
    given: Given,
    stream: EvaluationStream,
    config: Config | None,
    collected: ReportResults,
    snapshot: Mapping[str, Any],
) -> None:
    from graphrag_eval_async.reference import misnamed_steps
    from graphrag_eval_async.reports.html_report import html_report
    from graphrag_eval_async.reports.overview import judge_state
    from graphrag_eval_async.reports.summary import Summary
    from graphrag_eval_async.reports.worst import worst_questions

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
        by=given.by,
    )
    late = stream.late.facts()
    page = html_report(
        summary,
        collected,
        title=f"Evaluation of {given.source}",
        judge=judge_state(stream.usage, config),
        late="" if late is None else late["text"],
    )
    write_page(given.report, page)


def _estimate(given: Given, interrupts: Interrupts) -> Exit:
    """Say what the judges would cost."""
    from graphrag_eval_async.judge.dry import DryJudge

    config = judge_config(given.config, given.llm, prepare=without_keys)
    reference = reference_of(given)
    check_gates(given, reference, config)
    source = read_jsonl(given.source, shard=given.shard)
    stream = evaluate_stream(
        reference,
        source,
        config=unlimited(config),
        judge=DryJudge() if judge_of(config) is not None else None,
        format=trace_format(given),
        max_in_flight=given.max_in_flight,
    )
    rejects = stream.rejects
    with progress(source) as advance:
        ending = run_to_end(_write_results(stream, None, advance, _Problems(config)), interrupts)
    list_rejects(given, rejects)
    tell(sys.stdout, "\n".join(estimates(stream, config)))
    return end(ending, rejects)


def _run_in_processes(
    given: Given,
    reference: Reference,
    jobs: int,
    interrupts: Interrupts,
    counted: Reference | None,
    config: Config | None,
) -> Exit:
    from graphrag_eval_async.helpers.posix import require_posix
    from graphrag_eval_async.scale.files import evaluate_in_processes
    from graphrag_eval_async.scale.folder import SUFFIX
    from graphrag_eval_async.scale.run import ShardedRun
    from graphrag_eval_async.sources.reading import response_files

    options: EvaluatorOptions = {
        "config": config,
        "format": trace_format(given),
        "on_fatal": given.on_fatal,
    }
    output = getattr(given, "table", given.output)
    writer = RejectWriter()
    evaluator = Evaluator(reference, **options)
    sources = response_files(given.source)
    require_posix("jobs other than 1")
    run = ShardedRun(
        evaluator,
        options,
        shards_path=None if output in (None, "-") else f"{output}{SUFFIX}",
        max_workers=jobs,
        max_in_flight=given.max_in_flight,
        on_reject=writer if given.rejects else "collect",
        is_part=given.shard is not None,
        first_tag_keys=named_tag_keys(given),
    )
    with ExitStack() as files:
        results = files.enter_context(open_lines(given.output)) if given.output else None
        if given.rejects:
            writer.lines = files.enter_context(open_lines(given.rejects, interrupts))
        usage = run.usage if judge_of(config) else None
        shown = _shows_progress(given)
        with progress(run, shown=shown, usage=usage, aggregates=run.aggregates) as advance:
            work = evaluate_in_processes(
                run,
                sources,
                part=given.shard,
                send=None if results is None else results.send,
                advance=advance,
            )
            ending = run_to_end(work, interrupts, drain=run.stop)
    return report_shards(given, run, ending, reference=counted, config=config)


def _shows_progress(given: Given) -> bool:
    # Results on the same terminal would go through the bar.
    return given.output != "-" or not sys.stdout.isatty()
