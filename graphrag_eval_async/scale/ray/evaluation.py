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

import orjson

from graphrag_eval_async import errors
from graphrag_eval_async.errors import GraphragEvalError, SourceError, UsageError, WorkerError, check_integer
from graphrag_eval_async.evaluator import Evaluator
from graphrag_eval_async.inference.running import RunningAggregates
from graphrag_eval_async.posix import require_posix
from graphrag_eval_async.records import Reject, Rejects
from graphrag_eval_async.records.reject import HEAD_BYTES, KEPT_REJECTS
from graphrag_eval_async.scale.ray.parts import (
    ID_BYTES,
    RESULT_COLUMNS,
    Folder,
    Kept,
    Summary,
    rejects_in,
    results_schema,
)
from graphrag_eval_async.scale.ray.reading import BATCH_ROWS, ReadPieces, ReadRows, pieces
from graphrag_eval_async.scale.ray.worker import EvaluateBatches, Task, unpack
from graphrag_eval_async.sources.paths import as_paths
from graphrag_eval_async.sources.reading import expand
from graphrag_eval_async.sources.remote import is_address, shown
from graphrag_eval_async.stream import MAX_IN_FLIGHT, MAX_LINE_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from graphrag_eval_async.evaluator import EvaluatorOptions
    from graphrag_eval_async.reference import Reference, Templates

    Responses = str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | Any

INSTALL = "pip install 'graphrag-eval-async[ray]'"

BATCH, JUDGED_BATCH = 2048, 256
"""Responses in a batch, which is also a file of results: without a judge, and with one."""

READING_CORES = 0.013
"""Cores that Ray reserves for turning rows of a dataset into responses."""

_RAISED = re.compile(
    r"graphrag_eval_async\.errors\.(SourceError|WorkerError|JudgeUnavailable|ExecutionUnavailable): (.*)"
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
    one process, bit for bit, whatever the number of workers and whichever of them die.

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
            file, place and text; a row of a dataset by its text, and equal rows are counted.
        batch_size: responses in a batch; a worker that dies loses at most one. Default: 2,048, or 256 with a
            judge.
        num_cpus: cores that Ray reserves for a worker. Default: 1, or less, so that one core of the cluster
            stays free for what makes the dataset.
        include_errors: whether the metrics of error responses count in the aggregates.
        max_in_flight: how many responses a worker judges at once.
        max_line_bytes: maximum length of a response.
        advance: called with the number of responses that are done, as batches end.
        options: other keyword arguments of `Evaluator`. What is not a plain value must be picklable.

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
        raise UsageError(f"evaluate_dataset needs ray[data]: {INSTALL}")
    check_integer("concurrency", concurrency)
    check_integer("max_in_flight", max_in_flight)
    evaluator = Evaluator(reference, **options)
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
    folder = None if results is None else Folder(results, resume=resume)
    try:
        kept = Kept() if folder is None else folder.begin(run, terms)
        task = Task(
            evaluator.reference,
            options,
            include_errors,
            max_line_bytes,
            max_in_flight,
            None if folder is None else folder.path,
            run,
            files is None,
        )
        work = _Work(task, kept, concurrency, size, num_cpus, advance or (lambda _: None))
        try:
            outcome = work.run(_lines(responses, files, max_line_bytes, concurrency))
        except Exception as error:
            raise _known(error) from error
        return work.finish(outcome, folder)
    finally:
        if folder is not None:
            folder.close()


class _Work:
    """One call of `evaluate_dataset`, and its outcome so far."""

    def __init__(
        self,
        task: Task,
        kept: Kept,
        concurrency: int,
        batch_size: int,
        num_cpus: float | None,
        advance: Callable[[int], object],
    ) -> None:
        self._task = task
        self._kept = kept
        self._concurrency, self._batch_size, self._cpus = concurrency, batch_size, num_cpus
        self._advance = advance
        self._aggregates = RunningAggregates(
            include_errors=task.include_errors,
            templates=task.reference.templates,
            steps=task.reference.step_names,
        )
        self._answered: set[str] = set()
        self._rejected: Counter[str] = Counter()
        self._spent: defaultdict[str, float] = defaultdict(int)
        self._skipped: list[bytes] = []
        self._names: set[str] = set()
        self._count = 0
        for summary in kept.summaries:
            self._take(summary)

    def run(self, lines: Any) -> list[Any]:
        """Evaluate; without a directory, return the rows as datasets in Ray's memory."""
        found = [self._evaluate(lines, self._kept.ids)]
        if self._task.counts_skipped and (surplus := self._surplus()):
            import ray

            again = ray.data.from_items([*_repeated(lines, surplus)])
            found.append(self._evaluate(again, None))
        return [one for one in found if one is not None]

    def _evaluate(self, lines: Any, known: Any) -> Any:
        import numpy
        import ray

        known = numpy.array([], dtype=f"S{ID_BYTES}") if known is None else known
        evaluated = lines.map_batches(
            EvaluateBatches,
            batch_size=self._batch_size,
            batch_format="pyarrow",
            compute=ray.data.ActorPoolStrategy(size=self._concurrency),
            fn_constructor_args=(given := (_Held(ray.put(self._task)), _Held(ray.put(known)))),
            num_cpus=_cores(self._concurrency) if self._cpus is None else self._cpus,
        )
        if self._task.folder is None:
            evaluated = evaluated.materialize()
        for table in evaluated.iter_batches(batch_size=None, batch_format="pyarrow"):
            self._take_table(table)
        del given  # Up to here, the objects are needed.
        return evaluated if self._task.folder is None else None

    def _take_table(self, table: Any) -> None:
        rows = table.select(["summary", "aggregates", "skipped", "name"]).to_pylist()
        for text, aggregates, skipped, name in (row.values() for row in rows):
            if text is not None:
                self._names.add(name)
                summary = Summary(**orjson.loads(text), aggregates=aggregates)
                self._take(summary)
                before = len(skipped) // ID_BYTES
                self._count += before
                if self._task.counts_skipped and before:
                    self._skipped.append(skipped)
                self._advance(summary.results + sum(summary.rejects.values()) + before)

    def _take(self, summary: Summary) -> None:
        if summary.aggregates:
            self._aggregates.merge(RunningAggregates.from_bytes(summary.aggregates))
        self._answered.update(summary.questions)
        self._rejected.update(summary.rejects)
        for name, count in summary.usage.items():
            self._spent[name] += count

    def _surplus(self) -> dict[bytes, int]:
        """Return how many skipped responses are not done, by id: equal responses share one."""
        import numpy

        if not self._skipped:
            return {}
        kind = f"S{ID_BYTES}"
        ids, counts = numpy.unique(numpy.frombuffer(b"".join(self._skipped), kind), return_counts=True)
        done, known = numpy.unique(self._kept.ids, return_counts=True)
        more = counts - known[numpy.searchsorted(done, ids)]
        found = {bytes(id_).ljust(ID_BYTES, b"\0"): int(n) for id_, n in zip(ids, more, strict=True) if n > 0}
        self._count -= sum(found.values())
        return found

    def finish(self, outcome: Sequence[Any], folder: Folder | None) -> DatasetEvaluation:
        import ray

        self._aggregates.order_templates(self._task.reference.templates)
        self._aggregates.finish()
        rejects = Rejects()
        if folder is None:
            found = outcome[0].union(*outcome[1:]) if len(outcome) > 1 else outcome[0]
            rows = _rejects_among(found)
            results = found.map_batches(_only_results, batch_format="pyarrow", batch_size=None)
        else:
            folder.keep_only(self._task.run, self._names)
            rows = [*islice(rejects_in(folder.path), KEPT_REJECTS)]
            if any(names for *_, names in os.walk(folder.results)):
                results = ray.data.read_parquet(folder.results)
            else:
                results = ray.data.from_arrow(results_schema().empty_table())
        for row in rows:
            rejects.add(_reject(row))
        rejects.counts.clear()
        rejects.counts.update(self._rejected)  # type: ignore[arg-type]
        questions = self._task.reference.questions
        missing = [question for question in questions if question not in self._answered]
        return DatasetEvaluation(results, self._aggregates, rejects, missing, self._count, dict(self._spent))


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
    return files


def _lines(responses: Any, files: Sequence[str] | None, max_line_bytes: int, workers: int) -> Any:
    """Return a dataset of the responses; see `reading.Row`."""
    import ray

    if not ray.is_initialized():
        _start()
    if files is None:
        # With other resources than the workers, so that Ray does not fuse both: if a worker dies, the next
        # one gets the same rows.
        return responses.map_batches(
            ReadRows(max_line_bytes).__call__,
            batch_format="pyarrow",
            batch_size=BATCH_ROWS,
            num_cpus=READING_CORES,
        )
    found = [*pieces(files, workers)]
    if not found:
        found = [{"path": "", "file": os.devnull, "start": 0, "end": 0, "group": -1}]
    read = ray.data.from_items(found, override_num_blocks=len(found))
    return read.map_batches(ReadPieces(max_line_bytes).__call__, batch_format="pyarrow", batch_size=1)


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


def _repeated(lines: Any, surplus: Mapping[bytes, int]) -> Iterator[dict[str, Any]]:
    """Yield each of these responses as often as it is still to be evaluated."""
    left = dict(surplus)
    for table in lines.iter_batches(batch_size=None, batch_format="pyarrow"):
        for row in table.to_pylist():
            yield from (row | {"tag": token_bytes(8)} for _ in range(left.pop(row["id"][:ID_BYTES], 0)))
        if not left:
            return


def _rejects_among(outcome: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for table in outcome.select_columns(["reject"]).iter_batches(batch_size=None, batch_format="pyarrow"):
        rows += (unpack(value) for value in table["reject"].drop_null().to_pylist())
        if len(rows) >= KEPT_REJECTS:
            break
    return rows[:KEPT_REJECTS]


def _only_results(table: Any) -> Any:
    return table.filter(table["result"].is_valid()).select([*RESULT_COLUMNS])


def _reject(row: Mapping[str, Any]) -> Reject:
    content, path = row["content"], row["file"]
    why = row["reason"], row["message"]
    digest = row["length"], row["sha256"]
    return Reject(0, row["offset"], *why, content[:HEAD_BYTES], *digest, content, path)


def stored_rejects(results: str | os.PathLike[str]) -> Iterator[Reject]:
    """Yield what could not be evaluated, of a directory of results, with its content."""
    return map(_reject, rejects_in(os.fspath(results)))


def _known(error: Exception) -> Exception:
    """Return the error that a worker raised, from the text that Ray gives of it."""
    if isinstance(error, GraphragEvalError):
        return error
    text = str(error)
    if found := _RAISED.findall(text):
        name, message = found[-1]
        kind: type[GraphragEvalError] = getattr(errors, name)
        return kind(message.removeprefix("unavailable: "))
    return WorkerError(f"Ray: {text[-2000:]}")
