"""``evaluate``: results and aggregates of responses."""

from __future__ import annotations

import os
import sys
from collections import Counter
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, TextIO

from msgspec import structs

from graphrag_eval_async.cli import options
from graphrag_eval_async.cli.exits import Sending, run_to_end
from graphrag_eval_async.cli.files import open_lines, write_page
from graphrag_eval_async.cli.gates import check_gates, on_missing
from graphrag_eval_async.cli.judges import estimates, forget_keys, judge_config
from graphrag_eval_async.cli.progress import progress
from graphrag_eval_async.cli.reading import processes_for
from graphrag_eval_async.cli.report import end, list_rejects, report
from graphrag_eval_async.cli.run import (
    check_files,
    config_of,
    exporting,
    open_stream,
    reference_of,
    report_stream,
    stopping,
    traces_of,
)
from graphrag_eval_async.config import LimitsConfig
from graphrag_eval_async.errors import UsageError
from graphrag_eval_async.evaluator import Evaluator
from graphrag_eval_async.inference.until import Until
from graphrag_eval_async.judge.dry import DryJudge
from graphrag_eval_async.metrics import judge_of
from graphrag_eval_async.monitor.facts import judge_state
from graphrag_eval_async.monitor.report import ReportResults, html_report
from graphrag_eval_async.monitor.worst import worst_questions
from graphrag_eval_async.records.metrics import MISSING_RATE
from graphrag_eval_async.redis_client import is_redis
from graphrag_eval_async.reference import misnamed_steps
from graphrag_eval_async.scale.file_evaluation import EvaluatedFile, FileEvaluation
from graphrag_eval_async.scale.redis.source import RedisStream, stream_at
from graphrag_eval_async.sinks import RejectWriter
from graphrag_eval_async.sinks.files import draft_beside
from graphrag_eval_async.sinks.tables import check_table, is_table, write_table
from graphrag_eval_async.sources import read_jsonl
from graphrag_eval_async.sources.reading import expand
from graphrag_eval_async.sources.shards import as_shard
from graphrag_eval_async.stream import evaluate_stream
from graphrag_eval_async.text import counts, kind_of_problem, one_line, tell

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from graphrag_eval_async.cli.exits import Exit, Interrupts
    from graphrag_eval_async.cli.options import Given
    from graphrag_eval_async.config import Config
    from graphrag_eval_async.reference import Reference
    from graphrag_eval_async.sources import JsonlFiles
    from graphrag_eval_async.stream import EvaluationStream

DEFAULT_SEED = 0

OF_SERVER = "dry_run jobs report resume shard shuffle stages until"
OF_ALL_RESPONSES = "until shuffle stages"
OF_ONE_PROCESS = "resume until stages shuffle report otel otlp_metrics otlp_json dedupe"
"""Fields of options that cannot be combined with responses of a server, with --shard and with --jobs."""


def run(given: Given, interrupts: Interrupts) -> Exit:
    """Run the command."""
    _check(given)
    if is_redis(_source(given)):
        return _run_as_worker(given, interrupts)
    if given.dry_run:
        return _estimate(given, interrupts)
    table = given.output if given.output is not None and is_table(given.output) else None
    if table is not None:  # The columns of a table are known only at the end.
        check_table(table)
        check_files(given, config_of(given), _source(given), pages=[given.report])
        given = given.replace(output=draft_beside(table, ".jsonl"))
    elif given.output is None and not (sys.stdout and sys.stdout.isatty()):
        given = given.replace(output="-")
    if table is None:
        return _run_here(given, interrupts)
    lines = str(given.output)
    try:
        code = _run_here(given, interrupts)
        write_table(lines, table)
    except Exception:
        if os.path.exists(lines):
            tell(sys.stderr, f"{table} was not written; results so far are in {lines}")
        raise
    os.unlink(lines)
    return code


def _source(given: Given) -> str:
    return given.no_reference or given.responses or ""


def _check(given: Given) -> None:
    """Raise a `UsageError` if options do not go together."""
    if given.no_reference is not None:
        if given.reference is not None:
            raise UsageError("--no-reference RESPONSES cannot be combined with REFERENCE")
    elif given.reference is None or given.responses is None:
        raise UsageError("expected REFERENCE and RESPONSES, or --no-reference RESPONSES")
    if given.until and len(given.until) > 1:
        raise UsageError(f"--until: one condition only, got {len(given.until)}")
    if given.output is not None and is_table(given.output) and given.resume:
        raise UsageError(f"--resume needs a JSONL output, not {given.output}; use another name")
    if is_redis(_source(given)):
        options.refuse(given, OF_SERVER, "{} cannot be combined with responses of a Redis server")
        if given.output is not None and is_table(given.output):
            raise UsageError("-o TABLE cannot be combined with responses of a Redis server")
        _check_missing(given, "of one worker, which sees a part only")
    elif is_redis(given.output):
        raise UsageError(
            f"-o {given.output} is for responses of a Redis server, redis://HOST/STREAM?group=GROUP"
        )
    _check_parts(given)


def _check_parts(given: Given) -> None:
    if given.shard is not None:
        as_shard(given.shard)
        if _source(given) == "-":
            raise UsageError("--shard needs files; standard input has no shards")
        options.refuse(
            given, OF_ALL_RESPONSES, "--shard cannot be combined with {}, which needs all responses"
        )
        _check_missing(given, "with --shard, which sees a part only")
    if given.until:
        _check_missing(given, "with --until, which skips questions")
    if given.jobs != 1 and not given.dry_run:
        options.refuse(
            given, OF_ONE_PROCESS, "--jobs cannot be combined with {}, which needs a single process"
        )


def _check_missing(given: Given, why: str) -> None:
    if on_missing(given.gate):
        raise UsageError(f"{MISSING_RATE} cannot be a gate {why}")


def _run_here(given: Given, interrupts: Interrupts) -> Exit:
    """Evaluate files on this machine, in this process or in several."""
    config = config_of(given)
    check_files(given, config, _source(given), pages=[given.report])
    reference = reference_of(given)
    check_gates(given.gate, reference.templates, config)
    if given.jobs != 1:
        evaluator = Evaluator(
            reference, steps_groups=given.steps_groups, config=config, format=traces_of(given)
        )
        jobs = processes_for(
            given.jobs,
            [_source(given)],
            judged=bool(evaluator.judged) or evaluator.executes,
            traces=evaluator.trace_format,
        )
        if jobs > 1:
            return _run_in_processes(given, evaluator, jobs, interrupts)
        given = given.replace(ordered=True)
    until = Until(given.until[0], given.level) if given.until else None
    seed = given.shuffle
    if until is not None and seed is None and read_jsonl(_source(given)).can_be_shuffled:
        seed = DEFAULT_SEED
    source = read_jsonl(_source(given), shuffle=seed, shard=given.shard)
    if until is not None and given.shuffle is None:
        tell(sys.stderr, f"--until: {_order(seed)}")
    whole = None if given.shard else reference
    return _evaluate(given, reference, source, config, interrupts, until=until, counted=whole)


def _order(seed: int | None) -> str:
    if seed is not None:
        return f"read in a shuffled order (--shuffle {seed}), since files are often sorted"
    return (
        "standard input, pipes and compressed files are read in their order: if they are sorted, only "
        "their beginning decides"
    )


def _run_as_worker(given: Given, interrupts: Interrupts) -> Exit:
    """Evaluate what comes from a Redis server until stopped, or until nothing is left to do."""
    source = stream_at(_source(given), given.output if is_redis(given.output) else None)
    given = given.replace(output=None) if is_redis(given.output) else given
    config, reference = config_of(given), reference_of(given)
    check_files(given, config)
    check_gates(given.gate, reference.templates, config)
    return _evaluate(given, reference, source, config, interrupts)


def _evaluate(
    given: Given,
    reference: Reference,
    source: JsonlFiles | RedisStream,
    config: Config | None,
    interrupts: Interrupts,
    *,
    until: Until | None = None,
    counted: Reference | None = None,
) -> Exit:
    """Evaluate in this process; `counted` is the reference set if its unanswered questions are counted."""
    problems = Counter[str]()
    collected = None if given.report is None else ReportResults()
    add = None if collected is None else collected.add
    with (
        open_stream(given, reference, source, config, interrupts, until=until, on_restored=add) as (
            stream,
            results,
        ),
        exporting(given, stream) as takers,
    ):
        usage = stream.usage if judge_of(config) else None
        shown = _shows_progress(given)
        with progress(source, shown=shown, usage=usage, aggregates=stream.aggregates) as advance:
            takers += [] if add is None else [add]
            sending = Sending(results, stopping(given, stream, stream.stop), takers)
            work = _write_results(stream, sending, advance, problems)
            ending = run_to_end(work, interrupts, drain=sending.drain)
    notes = [one_line(f"trace problems: {counts(problems)}")] if problems else []
    if isinstance(source, RedisStream):
        place = f"{source.settings.address}/{source.settings.keys.results}"
        notes = [f"results of this worker; all are in {place}"]
    return report_stream(
        given,
        stream,
        ending,
        reference=counted,
        config=config,
        table=_table(given),
        interval=given.interval,
        notes=notes,
        page=None if collected is None else partial(_write_page, given, stream, config, collected),
    )


async def _write_results(
    stream: EvaluationStream, sending: Sending, advance: Callable[[], None], problems: Counter[str]
) -> None:
    async with stream:
        async for result in stream:
            if "pending" not in result:
                advance()
                problems.update({kind_of_problem(text) for text in result.get("trace_problems", ())})
            await sending.send(result)


def _write_page(
    given: Given,
    stream: EvaluationStream,
    config: Config | None,
    collected: ReportResults,
    snapshot: Mapping[str, Any],
) -> None:
    page = html_report(
        snapshot,
        collected,
        worst=worst_questions(stream.aggregates),
        title=f"Evaluation of {_source(given)}",
        level=given.level,
        rejects=stream.rejects.counts,
        questions=len(stream.reference.questions),
        missing=len(stream.missing),
        misnamed=misnamed_steps(stream.reference, stream.aggregates._step_names()),
        judge=judge_state(stream.usage, config),
        late=stream.late.facts(),
    )
    write_page(str(given.report), page)


def _estimate(given: Given, interrupts: Interrupts) -> Exit:
    """Say what the judges would cost."""
    config = judge_config(given.config, given.llm, given.embedding, prepare=forget_keys)
    unlimited = config
    if config is not None and config.llm is not None:  # Neither limits nor a cache hold up calls.
        llm = structs.replace(config.llm, limits=LimitsConfig(), cache=None)
        unlimited = structs.replace(config, llm=llm)
    reference = reference_of(given)
    check_gates(given.gate, reference.templates, config)
    source = read_jsonl(_source(given), shard=given.shard)
    stream = evaluate_stream(
        reference,
        source,
        config=unlimited,
        judge=DryJudge() if judge_of(config) is not None else None,
        steps_groups=given.steps_groups,
        format=traces_of(given),
        max_in_flight=given.max_in_flight,
        max_line_bytes=given.max_line_bytes,
    )
    rejects = stream.rejects
    with progress(source) as advance:
        work = _write_results(stream, Sending(None, stream.stop), advance, Counter())
        ending = run_to_end(work, interrupts)
    list_rejects(rejects)
    tell(sys.stdout, "\n".join(estimates(stream, config)))
    return end(ending, rejects)


def _run_in_processes(given: Given, evaluator: Evaluator, jobs: int, interrupts: Interrupts) -> Exit:
    most = given.max_reject_bytes
    with ExitStack() as files:
        results = given.output and files.enter_context(open_lines(given.output))
        rejects = given.rejects and files.enter_context(open_lines(given.rejects, interrupts))
        evaluation = FileEvaluation(
            evaluator,
            expand([_source(given)]),
            jobs,
            on_reject=RejectWriter(rejects, max_bytes=most) if rejects else "collect",
            max_line_bytes=given.max_line_bytes,
            include_errors=given.include_errors,
            shard=None if given.shard is None else as_shard(given.shard),
        )
        with progress(evaluation.merging, shown=_shows_progress(given)) as advance:
            sending = Sending(results or None, evaluation.merging.stop)
            work = evaluation.run(sending.send_lines, advance)
            ending = run_to_end(work, interrupts, drain=sending.drain)
    found = EvaluatedFile(evaluation.aggregates, evaluation.rejects, evaluation.missing)
    reference = None if given.shard else evaluator.reference
    return report(given, found, ending, reference=reference, table=_table(given), interval=given.interval)


def _shows_progress(given: Given) -> bool:
    # Results on the same terminal would go through the bar.
    return given.output != "-" or not sys.stdout.isatty()


def _table(given: Given) -> TextIO | None:
    return sys.stderr if "-" in {given.output, given.rejects} else sys.stdout
