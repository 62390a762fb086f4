"""Evaluates files, or the rows of a Ray dataset, by actors of a Ray cluster."""

from __future__ import annotations

import logging
import os
import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import islice
from secrets import token_bytes, token_hex
from typing import TYPE_CHECKING, Any, Unpack

import msgspec

from graphrag_eval_async import errors
from graphrag_eval_async.errors import (
    GraphragEvalError,
    SourceError,
    UsageError,
    WorkerError,
    check_integer,
    needs,
)
from graphrag_eval_async.evaluator import Evaluator
from graphrag_eval_async.inference.running import RunningAggregates
from graphrag_eval_async.posix import require_posix
from graphrag_eval_async.records import Rejects
from graphrag_eval_async.records.reject import KEPT_REJECTS
from graphrag_eval_async.scale.ray.parts import (
    RESULT_COLUMNS,
    RESULTS,
    Folder,
    Summary,
    as_reject,
    results_table,
    stored_rejects,
)
from graphrag_eval_async.scale.ray.worker import TAG, EvaluateBatches, Task
from graphrag_eval_async.sources.paths import as_paths
from graphrag_eval_async.sources.reading import expand
from graphrag_eval_async.sources.remote import is_address, shown
from graphrag_eval_async.stream import MAX_IN_FLIGHT, MAX_LINE_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from graphrag_eval_async.evaluator import EvaluatorOptions
    from graphrag_eval_async.reference import Reference, Templates

    Responses = str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | Any

BATCH, JUDGED_BATCH = 2048, 256
"""Responses in a batch, which is also a file of results: without a judge, and with one."""

MAX_SHARD_BYTES, MIN_SHARD_BYTES, SHARDS_PER_WORKER = 16 << 20, 1 << 16, 8
"""Sizes of the parts in which files are read, and how many there are at least."""

MAX_RETRIES = 3  # How often a part is given to another worker after one died over it.
BLOCK_ROWS = 4096  # Rows of a dataset that are passed on together.
READING_CORES = 0.013  # Cores that Ray reserves for passing on rows of a dataset.

DEATHS = {"ActorDiedError", "ActorUnavailableError", "RayActorError"}
"""Names of the errors of Ray if a worker died too often."""

LOGGER = logging.getLogger("graphrag_eval_async.ray")

_RAISED = re.compile(
    r"graphrag_eval_async\.errors\.(SourceError|JudgeUnavailable|ExecutionUnavailable|JournalError): (.*)"
)


@dataclass(frozen=True)
class DatasetEvaluation:
    """The outcome of `evaluate_dataset`.

    Attributes:
        results: a Ray dataset. Each row has the result as JSON text in `result`, some of its keys as columns,
            and the `id` of the response. Of a directory, it is read when it is used.
        aggregates: of all results, those of earlier runs included.
        rejects: what could not be evaluated, and why.
        missing: ids of the questions without a response, in the order of the reference set.
        skipped: how many responses earlier runs had done.
        usage: sums of the calls, tokens and dollars of all judges, earlier runs included; empty without one.
    """

    results: Any
    aggregates: RunningAggregates
    rejects: Rejects
    missing: list[str]
    skipped: int
    usage: Mapping[str, float]


def evaluate_dataset(
    reference: str | os.PathLike[str] | Templates | Reference | None,
    responses: Responses,
    *,
    concurrency: int = 1,
    results: str | os.PathLike[str] | None = None,
    resume: bool = False,
    batch_size: int | None = None,
    num_cpus: float | None = None,
    include_errors: bool = False,
    max_in_flight: int = MAX_IN_FLIGHT,
    max_line_bytes: int = MAX_LINE_BYTES,
    advance: Callable[[int], object] | None = None,
    **options: Unpack[EvaluatorOptions],
) -> DatasetEvaluation:
    """Evaluate responses on a Ray cluster; without one, Ray starts on this machine.

    Results have no `sample`, as those of shards. Apart from what depends on it, the aggregates equal those of
    one process, bit for bit, whatever the number of workers and whichever of them die. If workers die four
    times on the same part of the input, the run ends.

    Args:
        reference: as for `Evaluator`.
        responses: a Ray dataset, each row of which is a response, or has a line of JSON in its only column;
            or paths of JSONL or Parquet files, as for `read_jsonl`. All hosts need files under the same path.
            In rows and in Parquet, null means that a key is absent, and steps may be JSON text.
        concurrency: number of workers, which are Ray actors. Each has limits and a budget of its own for
            judges, unless `limits.shared` is configured.
        results: a directory, which all hosts have under the same path. Parquet files of results come into
            ``results/`` in it, and of rejects into ``rejects/``, one for each batch, complete or absent. None
            keeps the results in the memory of Ray.
        resume: whether to skip responses that are done in `results`. A line of a file is recognised by its
            file, place and text; a row of a dataset by its text, so that equal rows need a column that tells
            them apart. Files may grow but not change. All ids are held in memory, 16 bytes each.
        batch_size: responses in a batch; with `results`, a worker that dies loses at most one. Default:
            2,048, or 256 with a judge.
        num_cpus: cores that Ray reserves for a worker. Default: 1, or less, so that one core of the cluster
            stays free for what makes the dataset.
        include_errors: whether the metrics of error responses count in the aggregates.
        max_in_flight: how many responses a worker judges at once.
        max_line_bytes: maximum length of a response.
        advance: called with the number of responses that are done, as batches end.
        options: other keyword arguments of `Evaluator`. Functions in `metrics` must be importable by their
            paths. What is not a plain value must be picklable.

    Raises:
        UsageError: an argument has an invalid value, `results` has results and `resume` is false, or Ray is
            not installed.
        JournalMismatch: results come from another reference set, configuration, version or input.
        JournalLocked: another process writes to `results`.
        SourceError: the responses cannot be read.
        JudgeUnavailable: the judge will not answer any call.
        WorkerError: workers died over the same batch again and again, or Ray failed.
        ReferenceDataError: the reference set is invalid.
        ConfigError: the configuration is invalid, or needs a package that is not installed.
    """
    require_posix("evaluate_dataset")
    if find_spec("ray") is None or find_spec("pyarrow") is None:
        raise UsageError(f"evaluate_dataset {needs('ray')}")
    check_integer("concurrency", concurrency)
    check_integer("max_in_flight", max_in_flight)
    evaluator = Evaluator(reference, **options)
    if evaluator.in_code is not None:
        evaluator.in_code.paths("Ray")
    if evaluator.trace_format is not None and evaluator.trace_format.is_grouped:
        raise UsageError("format: spans of one trace stand in several rows; convert them first")
    size = batch_size if batch_size is not None else JUDGED_BATCH if evaluator.judged else BATCH
    check_integer("batch_size", size)
    files = None if callable(getattr(responses, "map_batches", None)) else _files(responses)
    terms = evaluator.fingerprints() | {
        "responses": "a dataset" if files is None else " ".join(map(os.path.abspath, as_paths(responses))),
        "include_errors": str(include_errors),
        "max_line_bytes": str(max_line_bytes),
    }
    run = token_hex(8)
    folder = None if results is None else Folder(results, run, terms, resume=resume)
    task = Task(
        evaluator.reference,
        options,
        include_errors,
        max_line_bytes,
        max_in_flight,
        size,
        files,
        1 if files is None else _shards(files, concurrency),
        None if folder is None else folder.path,
        run,
    )
    try:
        return _Work(task, folder).run(responses, concurrency, num_cpus, advance or (lambda _: None))
    finally:
        if folder is not None:
            folder.close()


class _Work:
    """One call of `evaluate_dataset`, and its outcome so far."""

    def __init__(self, task: Task, folder: Folder | None) -> None:
        self._task, self._folder = task, folder
        self._skipped = 0
        self._aggregates = RunningAggregates(
            include_errors=task.include_errors,
            templates=task.reference.templates,
            steps=task.reference.step_names,
        )
        self._answered: set[str] = set()
        self._rejected: Counter[str] = Counter()
        self._rejects = Rejects()
        self._spent: defaultdict[str, float] = defaultdict(int)
        for summary in () if folder is None else folder.summaries:
            self._take(summary)

    def run(
        self, responses: Any, concurrency: int, num_cpus: float | None, advance: Callable[[int], object]
    ) -> DatasetEvaluation:
        """Evaluate all responses that are not done."""
        try:
            evaluated = self._evaluate(responses, concurrency, num_cpus, advance)
        except Exception as error:
            raise _known(error) from error
        if self._folder is not None and (equal := self._skipped - len(self._folder.ids)) > 0:
            LOGGER.warning(
                "%d rows were skipped as equal to others that are done; add a column that tells them apart",
                equal,
            )
        return self._finish(evaluated)

    def _evaluate(
        self, responses: Any, concurrency: int, num_cpus: float | None, advance: Callable[[int], object]
    ) -> Any:
        """Evaluate; without a directory, return the rows as a dataset in Ray's memory."""
        import ray

        rows = _rows(responses, self._task)
        known = () if self._folder is None else self._folder.ids
        evaluated = rows.map_batches(
            EvaluateBatches,
            batch_size=self._task.batch_size if self._task.files is None else 1,
            batch_format="pyarrow",
            compute=ray.data.ActorPoolStrategy(size=concurrency),
            fn_constructor_args=(given := (_Held(ray.put(self._task)), _Held(ray.put(known)))),
            num_cpus=_cores(concurrency) if num_cpus is None else num_cpus,
            max_task_retries=MAX_RETRIES,
        )
        if self._folder is None:
            evaluated = evaluated.materialize()
        for table in evaluated.iter_batches(batch_size=None, batch_format="pyarrow"):
            for value in table["summary"].drop_null().to_pylist():
                summary = msgspec.msgpack.decode(value, type=Summary)
                self._take(summary)
                self._skipped += summary.skipped
                advance(summary.results + sum(summary.rejects.values()) + summary.skipped)
        del given  # Up to here, the objects are needed.
        return evaluated

    def _take(self, summary: Summary) -> None:
        if summary.aggregates:
            self._aggregates.merge(RunningAggregates.from_bytes(summary.aggregates))
        self._answered.update(summary.questions)
        self._rejected.update(summary.rejects)
        for row in summary.rejected:
            self._rejects.add(as_reject(row))
        for name, count in summary.usage.items():
            self._spent[name] += count

    def _finish(self, evaluated: Any) -> DatasetEvaluation:
        import ray

        self._aggregates.order_templates(self._task.reference.templates)
        self._aggregates.finish()
        folder = self._task.folder
        if folder is None:
            results = evaluated.map_batches(_only_results, batch_format="pyarrow", batch_size=None)
        else:
            for reject in islice(stored_rejects(folder), KEPT_REJECTS):
                self._rejects.add(reject)
            kept = os.path.join(folder, RESULTS)
            if any(names for *_, names in os.walk(kept)):
                results = ray.data.read_parquet(kept)
            else:
                results = ray.data.from_arrow(results_table((), ()))
        self._rejects.counts.clear()
        self._rejects.counts.update(self._rejected)  # type: ignore[arg-type]
        questions = self._task.reference.questions
        missing = [question for question in questions if question not in self._answered]
        return DatasetEvaluation(
            results, self._aggregates, self._rejects, missing, self._skipped, dict(self._spent)
        )


class _Held:
    """Hides a reference to an object of Ray, which would otherwise pass the object itself."""

    def __init__(self, reference: Any) -> None:
        self.reference = reference


def _files(responses: Any) -> list[str]:
    paths = as_paths(responses)
    if "-" in paths:
        raise UsageError("responses: standard input cannot be read by several workers")
    for path in filter(is_address, paths):
        raise UsageError(f"{shown(path)}: pass ray.data.read_text or read_parquet of an address")
    files = expand(paths)
    for path in files:
        if not os.path.exists(path):
            raise SourceError(f"{path}: does not exist; all hosts of the cluster need it under the same path")
    return [*map(os.path.abspath, files)]


def _shards(files: Sequence[str], workers: int) -> int:
    total = sum(map(os.path.getsize, files))
    size = max(MIN_SHARD_BYTES, min(MAX_SHARD_BYTES, total // (workers * SHARDS_PER_WORKER)))
    return max(1, total // size)


def _rows(responses: Any, task: Task) -> Any:
    """Return a dataset of the numbers of shards, or the given one with a mark in each row."""
    import ray

    if not ray.is_initialized():
        _start()
    if task.files is not None:
        shards = [{"shard": index} for index in range(task.shards)]
        return ray.data.from_items(shards, override_num_blocks=task.shards)
    # With other resources than the workers, so that Ray does not fuse both: if a worker dies, the next one
    # gets the same rows.
    return responses.map_batches(
        _tagged, batch_format="pyarrow", batch_size=BLOCK_ROWS, num_cpus=READING_CORES
    )


def _tagged(table: Any) -> Any:
    return table.append_column(TAG, [[token_bytes(8) for _ in range(table.num_rows)]])


def _only_results(table: Any) -> Any:
    return table.filter(table["result"].is_valid()).select([*RESULT_COLUMNS])


def _start() -> None:
    """Connect to the cluster that RAY_ADDRESS names, or start Ray on this machine; it logs trouble only."""
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    import ray

    logging.getLogger("ray.data").setLevel(logging.WARNING)
    ray.init(log_to_driver=False, logging_level=logging.WARNING)
    ray.data.DataContext.get_current().enable_progress_bars = False


def _cores(workers: int) -> float:
    """Return how many cores to reserve for each worker: if they had all, nothing would be read."""
    import ray

    cores = ray.cluster_resources().get("CPU", 1.0)
    return min(1.0, int(max(0.5, cores - 1) / workers * 100) / 100)


def _known(error: Exception) -> Exception:
    """Return the error that a worker raised, from the text that Ray gives of it."""
    if isinstance(error, GraphragEvalError):
        return error
    text = str(error)
    if found := _RAISED.findall(text):
        name, message = found[-1]
        kind: type[GraphragEvalError] = getattr(errors, name)
        return kind(message.removeprefix("unavailable: "))
    if type(error).__name__ in DEATHS:
        return WorkerError(
            f"{MAX_RETRIES + 1} workers died over the same responses; a smaller batch_size may help, or more "
            f"memory for each worker: {text[-2000:]}"
        )
    return WorkerError(f"Ray: {text[-2000:]}")
