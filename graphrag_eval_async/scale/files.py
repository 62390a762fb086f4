"""Evaluates finished files, in this process or by several processes, in the order of the input."""

from __future__ import annotations

import os
from stat import S_ISREG
from typing import TYPE_CHECKING, NamedTuple, Unpack

import anyio.to_thread
import orjson

from graphrag_eval_async.errors import UsageError, check_integer
from graphrag_eval_async.evaluator import Evaluator, EvaluatorOptions
from graphrag_eval_async.helpers.posix import require_posix
from graphrag_eval_async.removed import without_removed
from graphrag_eval_async.scale.folder import SUFFIX
from graphrag_eval_async.scale.processes import ProcessPool
from graphrag_eval_async.scale.run import ShardedRun
from graphrag_eval_async.scale.shard import cut_into_shards
from graphrag_eval_async.sinks import LineFile
from graphrag_eval_async.sources import read_jsonl
from graphrag_eval_async.sources.files import in_thread
from graphrag_eval_async.sources.reading import response_files
from graphrag_eval_async.sources.remote import is_address, without_secrets
from graphrag_eval_async.sources.shards import Shard, as_shard, windows
from graphrag_eval_async.stream import MAX_IN_FLIGHT, EvaluationStream
from graphrag_eval_async.stream.options import StreamOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphrag_eval_async.inference.running import RunningAggregates
    from graphrag_eval_async.judge import JudgeUsage
    from graphrag_eval_async.records import Rejects
    from graphrag_eval_async.reference import Reference, Templates
    from graphrag_eval_async.scale.run import Send
    from graphrag_eval_async.stream.options import OnReject
    from graphrag_eval_async.traces.format import TraceFormat


class EvaluatedFile(NamedTuple):
    """The outcome of evaluating files.

    Attributes:
        aggregates: of all results.
        rejects: what could not be evaluated, and why.
        missing: ids of the questions without a response, in the order of the reference set.
        usage: counts of the judge's calls.
    """

    aggregates: RunningAggregates
    rejects: Rejects
    missing: list[str]
    usage: JudgeUsage


@without_removed("include_errors", "max_line_bytes")
async def evaluate_file(
    reference: str | os.PathLike[str] | Templates | Reference,
    responses: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    jobs: int = 1,
    results: str | os.PathLike[str] | None = None,
    shard: tuple[int, int] | str | None = None,
    on_reject: OnReject = "collect",
    **options: Unpack[EvaluatorOptions],
) -> EvaluatedFile:
    """Evaluate files of responses, on several cores.

    With more than one job, worker processes evaluate shards of the files, and this process joins
    them in the order of the input. Results, rejects and aggregates do not depend on `jobs`.
    Standard input, pipes, addresses and spans of traces are evaluated in this process, whatever
    `jobs` is.

    Finished shards stay in a folder beside `results`, with the suffix ``.shards``, until all are
    joined. If a run was killed, the same call evaluates only the shards that are missing. If a
    file, the reference set, the configuration or the version has changed, it evaluates its shards
    again, and a warning says so.

    Rates, concurrency and the budget of the configuration are divided among the workers.

    Worker processes import the main module of the program, as `multiprocessing` does: a script
    calls this below ``if __name__ == "__main__":``. Arguments not listed are as in
    `evaluate_stream`.

    Args:
        responses: paths as for `read_jsonl`.
        jobs: how many worker processes there may be; 1 evaluates in this process, 0 means one for
            each core.
        results: the file that results are written to as JSONL, in the order of the input; what it
            holds is overwritten. None writes no results.
        shard: which part of the responses to read, as for `read_jsonl`; the others are for other
            processes.
        on_reject: "collect" keeps rejects, "raise" ends the run at the first, and a callable is
            called with each, in the order of the input. With several jobs, "raise" ends the run
            after the results of the shard that has the reject.
        options: as in `Evaluator`. With more than one job, comparators, judges and aliases must be
            picklable, and metrics importable.

    Raises:
        RejectedResponse: a response cannot be evaluated, and `on_reject` is "raise".
        WorkerError: a worker process died. The message names the file and the bytes of its shard;
            the results before them are written.
        ReferenceDataError: the reference set is invalid.
        ConfigError: the configuration is invalid, or needs a package that is not installed.
        UsageError: an argument has an invalid value, or `results` is among the responses.
        SourceError: the responses cannot be read; the results before that are written.
        JournalLocked: another run writes to the same `results`.
        JudgeUnavailable: the judge will not answer any call.
        ExecutionUnavailable: the configured queries cannot be run.
        OSError: the results cannot be written.
    """
    # Check the arguments.
    jobs = count_jobs(jobs)
    files = await anyio.to_thread.run_sync(response_files, responses)
    await anyio.to_thread.run_sync(check_apart, results, files)
    evaluator = Evaluator(reference, **options)
    part: Shard | None = None
    if shard is not None:
        part = as_shard(shard)

    # Evaluate in this process.
    reason = await anyio.to_thread.run_sync(why_one_process, files, evaluator.trace_format)
    if jobs == 1 or reason is not None:
        stream_options = StreamOptions(ordered=True, on_reject=on_reject)
        stream = EvaluationStream(evaluator, read_jsonl(files, shard=shard), stream_options)
        await _write_results(stream, results)
        return EvaluatedFile(stream.aggregates, stream.rejects, stream.missing, stream.usage)

    # Evaluate in worker processes.
    require_posix("jobs other than 1")
    shards_path: str | None = None
    if results is not None:
        shards_path = f"{os.fspath(results)}{SUFFIX}"
    run = ShardedRun(
        evaluator,
        options,
        shards_path=shards_path,
        max_workers=jobs,
        max_in_flight=MAX_IN_FLIGHT,
        on_reject=on_reject,
        is_part=part is not None,
    )
    if results is None:
        await evaluate_in_processes(run, files, part=part, send=None)
    else:
        with LineFile(results) as lines:
            await evaluate_in_processes(run, files, part=part, send=lines.send)
    return EvaluatedFile(run.aggregates, run.rejects, run.missing, run.usage)


async def _write_results(stream: EvaluationStream, path: str | os.PathLike[str] | None) -> None:
    """Run a stream to its end, and write its results to a file, unless `path` is None."""
    if path is None:
        async with stream:
            async for _ in stream:
                pass
        return
    with LineFile(path) as lines:
        async with stream:
            async for result in stream:
                await lines.send(orjson.dumps(result, option=orjson.OPT_APPEND_NEWLINE))


async def evaluate_in_processes(
    run: ShardedRun,
    files: Sequence[str],
    *,
    part: Shard | None,
    send: Send | None,
    advance: Callable[[], object] = lambda: None,
) -> None:
    """Evaluate files in worker processes, and close the run; raises the errors of `evaluate_file`.

    Args:
        run: the run, which gets the outcome.
        files: paths of local files.
        part: the part of the files to evaluate; None for all.
        send: takes results as lines of JSON, in the order of the input; None if they are not
            wanted.
        advance: called for each result.
    """
    try:
        pool = ProcessPool(run.job, run.workers)
        parts = await in_thread(windows, files, part or Shard(0, 1))
        shards = await in_thread(cut_into_shards, parts)
        await run.evaluate_files(shards, pool, send=send, advance=advance)
    finally:
        run.close()


def count_jobs(jobs: int) -> int:
    """Return the number of worker processes; 0 stands for one per available core."""
    check_integer("jobs", jobs, 0)
    if jobs > 0:
        return jobs
    if hasattr(os, "sched_getaffinity"):
        # A container or a batch system may allow fewer cores than the machine has.
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def why_one_process(files: Sequence[str], traces: TraceFormat | None) -> str | None:
    """Return why one process must evaluate these files; None if several can."""
    if traces is not None and traces.is_grouped:
        return "spans of one trace stand in several lines and cannot be split"
    for path in files:
        if path == "-":
            return "standard input cannot be split"
        if is_address(path):
            return f"{without_secrets(path)} is not a local file"
        try:
            is_regular = S_ISREG(os.stat(path).st_mode)
        except OSError:
            # Whoever opens the file later says why it cannot be read.
            return None
        if not is_regular:
            return f"{path} is not a regular file"
    return None


def check_apart(results: str | os.PathLike[str] | None, files: Sequence[str]) -> None:
    """Check that the file of results is none of the files that are read.

    Args:
        results: path of the file; None if no results are written.
        files: paths of the files that are read.

    Raises:
        UsageError: it is one of them.
    """
    if results is None:
        return
    paths = {os.path.realpath(path) for path in files}
    if os.path.realpath(results) in paths:
        raise UsageError(
            f"results: {os.fspath(results)!r} is among the responses; it would be overwritten"
        )
