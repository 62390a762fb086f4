"""Evaluates files, or the rows of a Ray dataset, by workers of a Ray cluster."""

from __future__ import annotations

import asyncio
import logging
import os
from contextlib import suppress
from datetime import timedelta
from functools import lru_cache, partial
from importlib.util import find_spec
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Unpack

import orjson
from anyio.from_thread import start_blocking_portal

from graphrag_eval_async.errors import (
    GraphragEvalError,
    SourceError,
    UsageError,
    WorkerError,
    check_integer,
    needs,
)
from graphrag_eval_async.evaluator import Evaluator, EvaluatorOptions
from graphrag_eval_async.helpers.posix import require_posix
from graphrag_eval_async.removed import without_removed
from graphrag_eval_async.scale.files import EvaluatedFile, check_apart, why_one_process
from graphrag_eval_async.scale.folder import SUFFIX
from graphrag_eval_async.scale.run import ShardedRun
from graphrag_eval_async.scale.shard import ShardWorker, cut_into_shards
from graphrag_eval_async.sinks import LineFile
from graphrag_eval_async.sources.files import in_thread
from graphrag_eval_async.sources.reading import response_files
from graphrag_eval_async.sources.shards import Window
from graphrag_eval_async.stream import MAX_IN_FLIGHT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from graphrag_eval_async.reference import Reference, Templates
    from graphrag_eval_async.scale.shard import FileShard, Job
    from graphrag_eval_async.stream.options import OnReject

    Responses = str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | Any

MAX_RETRIES = 3
"""How often Ray gives a shard to another worker after one died."""

BATCH_ROWS = 2048
"""Rows of a dataset that a worker evaluates as one shard."""

MAX_ERROR_CHARACTERS = 2000
"""How much of the text of Ray's error is shown."""

JSON_COLUMNS = ("actual_steps", "metadata")
"""Columns of a dataset that may hold JSON text instead of lists and structs."""

COLUMN_OF_NAMES = "graphrag_eval_async_shard"
"""The column in which workers return the names of the shards that they made of rows."""


@without_removed("resume", "batch_size", "advance", "include_errors", "max_line_bytes")
def evaluate_dataset(
    reference: str | os.PathLike[str] | Templates | Reference | None,
    responses: Responses,
    *,
    results: str | os.PathLike[str],
    concurrency: int = 1,
    num_cpus: float | None = None,
    on_reject: OnReject = "collect",
    max_in_flight: int = MAX_IN_FLIGHT,
    **options: Unpack[EvaluatorOptions],
) -> EvaluatedFile:
    """Evaluate responses on a Ray cluster; without one, Ray starts on this machine.

    Workers evaluate shards of the files, or batches of the rows, and this process joins them, as
    `evaluate_file` does with several jobs. If a worker dies, Ray gives its shard to another one, up
    to three times.

    If a run over files was killed, the same call evaluates only the shards that are missing. A run
    over a dataset starts over, since nothing identifies the rows that are done.

    Args:
        reference: as for `Evaluator`.
        responses: paths of files, as for `read_jsonl`; or a Ray dataset, each row of which is a
            response, or has a line of JSON in its only column. In rows, null means that a key is
            absent, and steps may be JSON text. All hosts need files under the same path.
        results: the file that results are written to as JSONL: those of files in the order of the
            input. Finished shards stay beside it, in the folder with the suffix ``.shards``, until
            all are joined. All hosts need this folder under the same path.
        concurrency: how many workers there may be. Rates, concurrency and the budget of the
            configuration are divided among them.
        num_cpus: cores that Ray reserves for a worker. Default: 1, or less, so that one core of the
            cluster stays free for what makes a dataset.
        on_reject: as in `evaluate_file`.
        max_in_flight: how many responses a worker judges at once.
        options: as in `Evaluator`. Functions in `metrics` must be importable by their paths. What
            is not a plain value must be picklable.

    Raises:
        UsageError: an argument has an invalid value, or Ray is not installed.
        JournalLocked: another run writes to the same `results`.
        RejectedResponse: a response cannot be evaluated, and `on_reject` is "raise".
        SourceError: the responses cannot be read.
        JudgeUnavailable: the judge will not answer any call.
        ExecutionUnavailable: the configured queries cannot be run.
        WorkerError: a worker died on a shard, and so did each one that tried it again; or Ray
            failed.
        ReferenceDataError: the reference set is invalid.
        ConfigError: the configuration is invalid, or needs a package that is not installed.
    """
    # Check the arguments.
    require_posix("evaluate_dataset")
    if find_spec("ray") is None or find_spec("pyarrow") is None:
        raise UsageError(f"evaluate_dataset {needs('ray')}")
    check_integer("concurrency", concurrency)
    check_integer("max_in_flight", max_in_flight)
    path = os.fspath(results)
    evaluator = Evaluator(reference, **options)
    checked_responses = check_responses(responses, path, evaluator)

    # Evaluate in a thread with an event loop of its own, so that this also works in a notebook.
    run = ShardedRun(
        evaluator,
        options,
        shards_path=f"{path}{SUFFIX}",
        max_workers=concurrency,
        max_in_flight=max_in_flight,
        on_reject=on_reject,
    )
    with start_blocking_portal() as portal:
        portal.call(
            partial(evaluate_on_ray, run, checked_responses, results=path, num_cpus=num_cpus)
        )
    return EvaluatedFile(run.aggregates, run.rejects, run.missing, run.usage)


def check_responses(responses: Responses, results: str, evaluator: Evaluator) -> Any:
    """Check that workers on any host can read responses.

    Args:
        responses: paths of files, or a dataset; see `evaluate_dataset`.
        results: path of the file of results, which must not be read.
        evaluator: what evaluates them.

    Returns:
        the absolute paths of files as a list, or the dataset.

    Raises:
        UsageError: they cannot be split, or would be overwritten.
        SourceError: a file does not exist.
    """
    trace_format = evaluator.trace_format
    if trace_format is not None and trace_format.is_grouped:
        raise UsageError("format: spans of one trace stand in several rows; convert them first")
    is_dataset = callable(getattr(responses, "map_batches", None))
    if is_dataset:
        return responses
    return _check_files(responses, results)


async def evaluate_on_ray(
    run: ShardedRun,
    responses: Any,
    *,
    results: str,
    num_cpus: float | None = None,
    advance: Callable[[], object] = lambda: None,
) -> None:
    """Evaluate responses on Ray, and close the run; raises the errors of `evaluate_dataset`.

    Args:
        run: the run, which gets the outcome.
        responses: paths of files or a dataset, as `check_responses` returns them.
        results: the file to which results are written.
        num_cpus: cores to reserve for a worker; None for the default of `evaluate_dataset`.
        advance: called for each result.
    """
    try:
        await in_thread(_start_ray)
        cores = num_cpus or _cores(run.workers)
        with LineFile(results) as lines:
            if isinstance(responses, list):
                shards = await in_thread(cut_into_shards, map(Window, responses))
                pool = RayPool(run.job, run.workers, cores)
                await run.evaluate_files(shards, pool, send=lines.send, advance=advance)
            else:
                names = _evaluate_rows(responses, run.job, run.workers, cores)
                try:
                    await run.join_rows(names, send=lines.send, advance=advance)
                except Exception as error:
                    raise _explain(error, "rows of a batch") from error
    finally:
        run.close()


def _evaluate_rows(dataset: Any, job: Job, workers: int, num_cpus: float) -> Iterator[str]:
    """Have workers evaluate batches of rows as shards; yield the name of each as it is finished."""
    import ray

    budget_share = job.budget_usd
    if budget_share is not None:
        budget_share /= workers
    evaluated = dataset.map_batches(
        RowWorker,
        batch_size=BATCH_ROWS,
        batch_format="pyarrow",
        compute=ray.data.ActorPoolStrategy(size=workers),
        # The job is in a list, since Ray passes the object itself for a bare reference.
        fn_constructor_args=([ray.put(job)], budget_share),
        num_cpus=num_cpus,
        max_task_retries=MAX_RETRIES,
    )
    for table in evaluated.iter_batches(batch_size=None, batch_format="pyarrow"):
        yield from table[COLUMN_OF_NAMES].to_pylist()


def _check_files(responses: Any, results: str) -> list[str]:
    """Return the absolute paths of files, after a check that workers can read them.

    Raises:
        UsageError: a file cannot be split, or is the file of results.
        SourceError: a file does not exist.
    """
    files = response_files(responses)
    reason = why_one_process(files, None)
    if reason is not None:
        raise UsageError(f"responses: {reason}; pass a dataset, such as that of ray.data.read_text")
    for path in files:
        if not os.path.exists(path):
            raise SourceError(
                f"{path}: does not exist; all hosts of the cluster need it under the same path"
            )
    check_apart(results, files)
    return [os.path.abspath(path) for path in files]


def _start_ray() -> None:
    """Connect to the cluster that RAY_ADDRESS names, or start Ray on this machine.

    Ray logs warnings and errors only.
    """
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    import ray

    if ray.is_initialized():
        return
    logging.getLogger("ray.data").setLevel(logging.WARNING)
    ray.init(log_to_driver=False, logging_level=logging.WARNING)
    ray.data.DataContext.get_current().enable_progress_bars = False


def _cores(workers: int) -> float:
    """Return how many cores to reserve for each worker: 1, or less if the cluster has few.

    One core stays free, since the tasks that read a dataset need one.
    """
    import ray

    cores = ray.cluster_resources().get("CPU", 1.0)
    cores_of_workers = max(0.5, cores - 1)
    # Rounded down, so that all workers together do not reserve more.
    hundredths = int(cores_of_workers / workers * 100)
    return min(1.0, hundredths / 100)


class RayPool:
    """Ray tasks that evaluate shards of files; see `Pool`."""

    def __init__(self, job: Job, workers: int, num_cpus: float) -> None:
        import ray

        self.capacity = workers
        self._job = [ray.put(job)]
        self._evaluate = ray.remote(num_cpus=num_cpus, max_retries=MAX_RETRIES)(_evaluate_on_ray)
        self._running: list[Any] = []

    async def submit(self, shard: FileShard, budget_usd: float | None) -> asyncio.Future[float]:
        """Have a worker evaluate a shard."""
        reference = await in_thread(partial(self._evaluate.remote, self._job, shard, budget_usd))
        future = asyncio.wrap_future(reference.future())
        self._running.append(reference)
        future.add_done_callback(lambda _: self._running.remove(reference))
        return future

    def explain(self, error: BaseException, shard: FileShard) -> BaseException:
        """Return the error that a worker raised, or a `WorkerError` if it died."""
        return _explain(error, str(shard))

    async def aclose(self) -> None:
        """Kill the workers that are still running."""
        import ray

        for reference in [*self._running]:
            await in_thread(partial(ray.cancel, reference, force=True))


@lru_cache(maxsize=1)
def _worker_of(job_reference: Any) -> ShardWorker:
    """Return the worker of this process for a job, which Ray passes with each shard."""
    import ray

    return ShardWorker(ray.get(job_reference))


def _evaluate_on_ray(job: list[Any], shard: FileShard, budget_usd: float | None) -> float:
    """Evaluate a shard in a task of Ray; return the US dollars that the judge spent.

    Args:
        job: a list with Ray's reference to the job, for which Ray would pass the job itself.
        shard: the shard.
        budget_usd: what the judge may spend on it; None: as the configuration says.
    """
    return _worker_of(job[0]).evaluate_file_shard(shard, budget_usd)


class RowWorker:
    """Evaluates batches of rows as shards; Ray makes one in each actor."""

    def __init__(self, job: list[Any], budget_share: float | None) -> None:
        import ray

        self._worker = ShardWorker(ray.get(job[0]))
        self._budget_left = budget_share

    def __call__(self, table: Any) -> Any:
        """Evaluate rows; return a table with the name of the shard that they became."""
        import pyarrow

        name = token_hex(16)
        spent = self._worker.evaluate(responses_in(table), name, self._budget_left)
        if self._budget_left is not None:
            self._budget_left = max(0.0, self._budget_left - spent)
        return pyarrow.table({COLUMN_OF_NAMES: [name]})


def responses_in(table: Any) -> list[Mapping[str, Any] | str]:
    """Return the responses in the rows of a table.

    The only column of a table may have responses as lines of JSON. Otherwise, each row is a
    response, in which keys with null are left out and steps that are JSON text are decoded.
    """
    rows: list[dict[str, Any]] = table.to_pylist()
    if table.num_columns == 1:
        cells = [cell for row in rows for cell in row.values()]
        if all(isinstance(cell, str) for cell in cells):
            return cells
    return [_response_of(row) for row in rows]


def _response_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the response in a row of a table, without the keys that are null."""
    response = {key: _without_nulls(value) for key, value in row.items() if value is not None}
    for key in JSON_COLUMNS:
        text = response.get(key)
        if isinstance(text, str):
            # Text that is not JSON makes the response a reject, which says so.
            with suppress(orjson.JSONDecodeError):
                response[key] = orjson.loads(text)
    return response


def _without_nulls(value: Any) -> Any:
    """Return a value of Arrow as a line of JSON would have it.

    Structs of Arrow hold a null for each absent key, maps are lists of pairs, and durations are
    `timedelta`.
    """
    if isinstance(value, dict):
        return {key: _without_nulls(member) for key, member in value.items() if member is not None}
    if isinstance(value, list):
        is_map = bool(value) and all(isinstance(member, tuple) for member in value)
        if is_map:
            return _without_nulls(dict(value))
        return [_without_nulls(member) for member in value]
    if isinstance(value, timedelta):
        return value.total_seconds()
    return value


def _explain(error: BaseException, what: str) -> BaseException:
    """Return the error that a worker raised, or a `WorkerError` with what Ray says.

    Args:
        error: the error that Ray raised.
        what: what the worker evaluated, in words.
    """
    raised: Any = error
    while raised is not None:
        # Ray's error for an error of a worker is of the same class, but has another text.
        error_of_worker = getattr(raised, "cause", raised)
        if isinstance(error_of_worker, GraphragEvalError):
            return error_of_worker
        raised = raised.__cause__
    # Ray's text may have the log of a worker, whose end says most.
    text = str(error)[-MAX_ERROR_CHARACTERS:]
    return WorkerError(
        f"{what}: Ray failed, or {MAX_RETRIES + 1} workers died on it, perhaps because memory ran "
        f"out; finished shards are kept for the next run: {text}"
    )
