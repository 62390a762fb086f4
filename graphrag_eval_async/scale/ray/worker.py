"""The work of one Ray actor: it holds the reference set and a session with the judge."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from graphrag_eval_async.errors import WorkerError
from graphrag_eval_async.evaluator import Evaluator
from graphrag_eval_async.inference.running import RunningAggregates
from graphrag_eval_async.records import Reject
from graphrag_eval_async.scale.ray.parts import (
    ID_BYTES,
    REJECT_COLUMNS,
    RESULTS,
    Summary,
    read_summary,
    rejects_schema,
    results_schema,
    results_table,
    write_part,
)
from graphrag_eval_async.scale.ray.reading import as_line

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphrag_eval_async.evaluator import EvaluatorOptions
    from graphrag_eval_async.execution import Executed
    from graphrag_eval_async.judge import JudgeUsage
    from graphrag_eval_async.records import Response
    from graphrag_eval_async.records.evaluation import Evaluation
    from graphrag_eval_async.reference import Reference

MAX_TRIES = 4
"""Maximum attempts at a batch over which workers die."""

COUNTED = ("calls", "attempts", "cache_hits", "input_tokens", "output_tokens", "embedding_tokens", "dollars")
"""The counts of `JudgeUsage` that are summed."""


class Task(NamedTuple):
    """The settings of each actor.

    Attributes:
        reference: the reference set.
        options: of the evaluator.
        include_errors: whether the metrics of error responses count.
        max_line_bytes: longer responses are rejected.
        max_in_flight: how many responses are judged at once.
        folder: the directory of results; None if results are returned as rows.
        run: name of this run.
        counts_skipped: whether skipped responses are counted, since equal ones may occur.
    """

    reference: Reference
    options: EvaluatorOptions
    include_errors: bool
    max_line_bytes: int
    max_in_flight: int
    folder: str | None
    run: str
    counts_skipped: bool


class EvaluateBatches:
    """Evaluates batches of responses; Ray makes one in each actor."""

    def __init__(self, task: Any, known: Any) -> None:
        """Prepare the reference set; the arguments hold references to objects of Ray."""
        import ray

        self._task: Task = ray.get(task.reference)
        self._known = ray.get(known.reference)
        self._evaluator = Evaluator(self._task.reference, **self._task.options)
        self._session = self._evaluator.session()
        self._execution = self._evaluator.execution_session()
        self._runner = asyncio.Runner()
        self._read = self._evaluator.reader(self._task.max_line_bytes)
        self._in_flight = asyncio.Semaphore(self._task.max_in_flight)

    def __call__(self, batch: Any) -> Any:
        """Evaluate a batch; return a table with a summary in its last row, see `outcome_schema`."""
        rows, skipped = self._new(batch)
        # A name that only this batch has, also if Ray repeats the task.
        name = f"{sha256(b''.join(row['id'] + row['tag'] for row in rows)).hexdigest()[:32]}.parquet"
        if not rows:
            return _outcome(Summary(0, {}, [], b"", {}), skipped, name)
        folder, run = self._task.folder, self._task.run
        if folder is not None:
            done = read_summary(os.path.join(folder, RESULTS, run, name))
            if done is not None:  # By an actor that died before it could say so.
                return _outcome(done, skipped, name)
            _begin(os.path.join(folder, "tries"), name)
        return self._evaluate(rows, name, skipped)

    def _new(self, batch: Any) -> tuple[list[dict[str, Any]], Sequence[bytes]]:
        """Return the rows that are not done yet, and the ids of the others."""
        known = self._known
        if not len(known):
            return batch.to_pylist(), ()
        import numpy

        ids = numpy.array([id_[:ID_BYTES] for id_ in batch["id"].to_pylist()], dtype=known.dtype)
        places = numpy.searchsorted(known, ids)
        is_done = known[numpy.minimum(places, len(known) - 1)] == ids
        return batch.filter(~is_done).to_pylist(), [id_.ljust(ID_BYTES, b"\0") for id_ in ids[is_done]]

    def _evaluate(self, rows: Sequence[Mapping[str, Any]], name: str, skipped: Sequence[bytes]) -> Any:
        before = _counts(self._session.usage) if self._session is not None else {}
        found, rejects = self._runner.run(self._score(rows))
        aggregates = RunningAggregates(
            include_errors=self._task.include_errors, steps=self._evaluator.reference.step_names
        )
        for _, evaluation in found:
            aggregates.add(evaluation)
        after = _counts(self._session.usage) if self._session is not None else {}
        counts = Counter(row["reason"] for row in rejects)
        questions = dict.fromkeys(evaluation.question_id for _, evaluation in found)
        spent = {key: after[key] - before[key] for key in after}
        summary = Summary(len(found), counts, [*questions], aggregates.to_bytes(), spent)
        results = results_table([id_ for id_, _ in found], [one.as_dict() for _, one in found])
        folder = self._task.folder
        if folder is None:
            return _outcome(summary, skipped, name, results, rejects)
        import pyarrow

        rejected = pyarrow.Table.from_pylist(rejects, schema=rejects_schema())
        write_part(folder, self._task.run, name, results, rejected, summary)
        os.unlink(os.path.join(folder, "tries", name))
        return _outcome(summary, skipped, name)

    async def _score(
        self, rows: Sequence[Mapping[str, Any]]
    ) -> tuple[list[tuple[bytes, Evaluation]], list[dict[str, Any]]]:
        found: list[tuple[bytes, Evaluation]] = []
        rejects: list[dict[str, Any]] = []
        read: list[tuple[Mapping[str, Any], Response]] = []
        for row in rows:
            line = as_line(row)
            response: Any = _rejected(row) if row["reason"] is not None else self._read(line)
            if isinstance(response, Reject):
                rejects.append(_reject_row(row, response))
                continue
            read.append((row, response))
        executed = await self._execute([response for _, response in read])
        for (row, response), outcomes in zip(read, executed, strict=True):
            evaluation = self._evaluator.score(response, None, executed=outcomes)
            if row["file"] is not None:
                evaluation.source = {"file": row["file"], "offset": row["offset"]}
            found.append((row["id"], evaluation))
        if self._session is not None:
            async with asyncio.TaskGroup() as tasks:
                for _, evaluation in found:
                    if evaluation.plan is not None:
                        self._session.usage.outcomes["skipped"] += evaluation.plan.skipped
                        if evaluation.plan.due:
                            tasks.create_task(self._judge(evaluation))
        return found, rejects

    async def _execute(self, responses: Sequence[Response]) -> Sequence[Executed | None]:
        """Run the queries of responses, if any are to be run."""
        if self._execution is None:
            return [None] * len(responses)

        async def execute(response: Response) -> Executed | None:
            async with self._in_flight:
                return await self._evaluator.execute(response, self._execution)

        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(execute(response)) for response in responses]
        return [task.result() for task in running]

    async def _judge(self, evaluation: Evaluation) -> None:
        assert self._session is not None  # noqa: S101
        async with self._in_flight:
            await self._evaluator.judge(evaluation, self._session)


def outcome_schema() -> Any:
    """Return the columns of the table of a batch: results, rejects, and the summary in the last row."""
    import pyarrow

    text, data = pyarrow.string(), pyarrow.large_binary()
    more = {"reject": data, "summary": text, "name": text, "aggregates": data, "skipped": data}
    return pyarrow.schema([*results_schema(), *map(pyarrow.field, more, more.values())])


def _outcome(
    summary: Summary,
    skipped: Sequence[bytes],
    name: str,
    results: Any = None,
    rejects: Sequence[Mapping[str, Any]] = (),
) -> Any:
    import pyarrow

    more: list[dict[str, Any]] = [{"reject": pack(row)} for row in rejects]
    text = orjson.dumps(summary.fields()).decode()
    more.append(
        {"summary": text, "aggregates": summary.aggregates, "skipped": b"".join(skipped), "name": name}
    )
    schema = outcome_schema()
    tables = [pyarrow.Table.from_pylist(more, schema=schema)]
    if results is not None:
        for field in [*schema][len(results.schema) :]:
            results = results.append_column(field, pyarrow.nulls(results.num_rows, field.type))
        tables.insert(0, results)
    return pyarrow.concat_tables(tables)


def pack(row: Mapping[str, Any]) -> bytes:
    """Return a row of rejects as one value."""
    import msgspec

    return msgspec.msgpack.encode([row[name] for name in REJECT_COLUMNS])


def unpack(value: bytes) -> dict[str, Any]:
    """Return the row of rejects in a value."""
    import msgspec

    return dict(zip(REJECT_COLUMNS, msgspec.msgpack.decode(value), strict=True))


def _rejected(row: Mapping[str, Any]) -> Reject:
    return Reject(0, row["offset"], row["reason"], row["message"], b"", row["length"], row["sha256"])


def _reject_row(row: Mapping[str, Any], reject: Reject) -> dict[str, Any]:
    found = {name: row.get(name) for name in REJECT_COLUMNS}
    return found | {
        "id": row["id"].hex(),
        "reason": reject.reason,
        "message": reject.message,
        "content": row["data"],
    }


def _counts(usage: JudgeUsage) -> dict[str, float]:
    return {name: getattr(usage, name) or 0 for name in COUNTED}


def _begin(folder: str, name: str) -> None:
    """Count an attempt at a batch; raise a `WorkerError` if too many workers have died over it."""
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, name)
    with open(path, "ab") as file:
        file.write(b".")
    tries = os.path.getsize(path)
    if tries > MAX_TRIES:
        raise WorkerError(
            f"{tries - 1} workers died over the same batch of responses; a smaller batch_size may help, or "
            "more memory for each worker"
        )
