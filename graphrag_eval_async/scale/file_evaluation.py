"""Evaluates finished files in several processes, with results in the order of the input."""

from __future__ import annotations

import os
import pickle
from contextlib import nullcontext
from typing import TYPE_CHECKING, NamedTuple, Unpack

import anyio.to_thread
import orjson

from graphrag_eval_async.errors import RejectedResponse, UsageError, check_integer
from graphrag_eval_async.evaluator import Evaluator
from graphrag_eval_async.inference.running import RunningAggregates
from graphrag_eval_async.posix import require_posix
from graphrag_eval_async.records import Rejects
from graphrag_eval_async.reference import misnamed_steps
from graphrag_eval_async.scale.pieces import Work, unsplittable
from graphrag_eval_async.sinks import LineFile, RejectWriter
from graphrag_eval_async.sources import read_jsonl
from graphrag_eval_async.sources.paths import as_paths
from graphrag_eval_async.sources.reading import expand
from graphrag_eval_async.sources.shards import Shard, as_shard, windows
from graphrag_eval_async.stream import MAX_LINE_BYTES, EvaluationStream
from graphrag_eval_async.stream.counts import warn_or_log
from graphrag_eval_async.stream.options import StreamOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphrag_eval_async.evaluator import EvaluatorOptions
    from graphrag_eval_async.records import Reject
    from graphrag_eval_async.reference import Reference, Templates
    from graphrag_eval_async.scale.merging import Send
    from graphrag_eval_async.stream.options import OnReject


class EvaluatedFile(NamedTuple):
    """The outcome of evaluating files.

    Attributes:
        aggregates: of all results.
        rejects: what could not be evaluated, and why.
        missing: ids of the questions without a response, in the order of the reference set.
    """

    aggregates: RunningAggregates
    rejects: Rejects
    missing: list[str]


async def evaluate_file(
    reference: str | os.PathLike[str] | Templates | Reference,
    responses: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    jobs: int = 1,
    results: str | os.PathLike[str] | None = None,
    shard: tuple[int, int] | str | None = None,
    on_reject: OnReject = "collect",
    max_line_bytes: int = MAX_LINE_BYTES,
    include_errors: bool = False,
    **options: Unpack[EvaluatorOptions],
) -> EvaluatedFile:
    """Evaluate files of responses, on several cores.

    With more than one job, worker processes evaluate pieces of the files, and this process merges what they
    find. Results, aggregates and rejects do not depend on `jobs`. Some input cannot be split: standard input,
    pipes, addresses, compressed files, Parquet and JSON arrays; judged metrics share one limit and one
    budget; and queries that are run share one endpoint or graph. All of these are evaluated in this process,
    whatever `jobs` is.

    Worker processes import the main module of the program, as `multiprocessing` does: a script calls this
    below ``if __name__ == "__main__":``. Arguments not listed are as in `evaluate_stream`.

    Args:
        responses: paths as for `read_jsonl`.
        jobs: how many worker processes there may be; 1 evaluates in this process, 0 means one for each core.
        results: the file that results are written to as JSONL, in the order of the input; what it holds is
            overwritten. None writes no results.
        shard: which part of the responses to read, as for `read_jsonl`; the others are for other processes.
        on_reject: "collect" keeps rejects, "raise" ends the run at the first, and a callable is called with
            each, in the order of the input.
        include_errors: whether the metrics of error responses count in the aggregates.
        options: as in `Evaluator`. With more than one job, comparators are functions that worker processes
            can import.

    Raises:
        RejectedResponse: a response cannot be evaluated, and `on_reject` is "raise".
        WorkerError: a worker process died. The message names the first bytes that are not evaluated; the
            results before them are written.
        ReferenceDataError: the reference set is invalid.
        ConfigError: the configuration is invalid, or needs a package that is not installed.
        UsageError: an argument has an invalid value, or `results` is among the responses.
        SourceError: the responses cannot be read; the results before that are written.
        JudgeUnavailable: the judge will not answer any call.
        OSError: the results cannot be written.
    """
    jobs = count_jobs(jobs)
    files = await anyio.to_thread.run_sync(expand, as_paths(responses))
    await anyio.to_thread.run_sync(_check_apart, results, files)
    evaluator = Evaluator(reference, **options)
    in_stream = StreamOptions(
        ordered=True,
        aggregates=RunningAggregates(include_errors=include_errors),
        on_reject=on_reject,
        max_line_bytes=max_line_bytes,
    )
    splits = not await anyio.to_thread.run_sync(unsplittable, files, evaluator.trace_format)
    if jobs == 1 or evaluator.waits or not splits:
        stream = EvaluationStream(evaluator, read_jsonl(files, shard=shard), in_stream)
        return await _in_this_process(stream, results)
    require_posix("jobs other than 1")
    run = FileEvaluation(
        evaluator,
        files,
        jobs,
        on_reject=on_reject,
        max_line_bytes=max_line_bytes,
        include_errors=include_errors,
        writes=results is not None,
        shard=None if shard is None else as_shard(shard),
    )
    with nullcontext() if results is None else LineFile(results) as lines:
        await run.run(None if lines is None else lines.send)
    return EvaluatedFile(run.aggregates, run.rejects, run.missing)


async def _in_this_process(stream: EvaluationStream, results: str | os.PathLike[str] | None) -> EvaluatedFile:
    with nullcontext() if results is None else LineFile(results) as lines:
        async with stream:
            async for result in stream:
                if lines is not None:
                    await lines.send(orjson.dumps(result, option=orjson.OPT_APPEND_NEWLINE))
    return EvaluatedFile(stream.aggregates, stream.rejects, stream.missing)


def count_jobs(jobs: int) -> int:
    """Return the number of worker processes; 0 stands for one per available core."""
    check_integer("jobs", jobs, 0)
    if jobs:
        return jobs
    can_tell = hasattr(os, "sched_getaffinity")
    return len(os.sched_getaffinity(0)) if can_tell else os.cpu_count() or 1


def _check_apart(results: str | os.PathLike[str] | None, files: Sequence[str]) -> None:
    if results is not None and os.path.realpath(results) in map(os.path.realpath, files):
        raise UsageError(f"results: {os.fspath(results)!r} is among the responses; it would be overwritten")


class FileEvaluation:
    """Evaluates files of responses in worker processes; `merging` says how far it is."""

    def __init__(
        self,
        evaluator: Evaluator,
        files: Sequence[str],
        jobs: int,
        *,
        on_reject: OnReject = "collect",
        max_line_bytes: int = MAX_LINE_BYTES,
        include_errors: bool = False,
        writes: bool = True,
        shard: Shard | None = None,
    ) -> None:
        """See `evaluate_file`; the evaluator does not judge, and the files can be split."""
        from graphrag_eval_async.scale.merging import Merging  # Here, since it imports multiprocessing.

        self._reference, self._is_part = evaluator.reference, shard is not None
        steps = evaluator.reference.step_names
        self.aggregates = RunningAggregates(
            include_errors=include_errors, templates=evaluator.reference.templates, steps=steps
        )
        self.rejects = Rejects()
        self._on_reject = on_reject
        work = Work(
            evaluator=evaluator,
            max_line_bytes=max_line_bytes,
            include_errors=include_errors,
            steps=steps,
            writes=writes,
            numbers=shard is None,
            content=on_reject != "collect",
            stops_at_reject=on_reject == "raise",
        )
        read = windows(files, shard or Shard(0, 1))
        try:
            self.merging = Merging(
                work,
                read,
                jobs,
                aggregates=self.aggregates,
                on_reject=self._reject,
                threaded=isinstance(on_reject, RejectWriter),
                is_part=self._is_part,
            )
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise UsageError(
                f"comparators: with several jobs, each must be a function of a module: {error}"
            ) from error

    @property
    def missing(self) -> list[str]:
        """As in `EvaluationStream`."""
        answered = self.merging.samples
        return [] if self._is_part else [each for each in self._reference.questions if each not in answered]

    async def run(self, send: Send | None = None, advance: Callable[[], object] = lambda: None) -> None:
        """Evaluate; arguments are as in `Merging.run`, errors as in `evaluate_file`."""
        await self.merging.run(send, advance)
        if self.merging.is_exhausted:
            self.aggregates.finish()
            if told := misnamed_steps(self._reference, self.aggregates._step_names()):
                warn_or_log(told)

    def _reject(self, reject: Reject) -> None:
        self.rejects.add(reject, keep=self._on_reject == "collect")
        if self._on_reject == "raise":
            raise RejectedResponse(reject)
        if self._on_reject != "collect":
            self._on_reject(reject)
