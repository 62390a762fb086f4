"""The work of one Ray actor: it holds the reference set and a session with the judge."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from graphrag_eval_async.evaluator import Evaluator
from graphrag_eval_async.inference.running import RunningAggregates
from graphrag_eval_async.records import Line, Reject
from graphrag_eval_async.records.reject import reject_unread
from graphrag_eval_async.scale.ray.parts import (
    ID_BYTES,
    RESULTS,
    Summary,
    read_summary,
    results_table,
    write_part,
)
from graphrag_eval_async.sources import read_jsonl
from graphrag_eval_async.sources.lines import line_of
from graphrag_eval_async.sources.parquet import as_record, responses

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from graphrag_eval_async.evaluator import EvaluatorOptions
    from graphrag_eval_async.execution import Executed
    from graphrag_eval_async.judge import JudgeUsage
    from graphrag_eval_async.records import Record, Response
    from graphrag_eval_async.records.evaluation import Evaluation
    from graphrag_eval_async.reference import Reference

TAG = "graphrag-eval-async.tag"
"""Column with a random mark that distinguishes equal rows of a dataset within a run."""

COUNTED = ("calls", "attempts", "cache_hits", "input_tokens", "output_tokens", "embedding_tokens", "dollars")
"""The counts of `JudgeUsage` that are summed."""

Row = tuple[bytes, "Record"]
"""A response and its id."""


class Task(NamedTuple):
    """The settings of each actor; see `evaluate_dataset`."""

    reference: Reference
    options: EvaluatorOptions
    include_errors: bool
    max_line_bytes: int
    max_in_flight: int
    batch_size: int
    files: list[str] | None  # absolute paths; None for rows of a dataset
    shards: int  # in which the files are read
    folder: str | None  # of results; None if these are returned as rows
    run: str  # its name


class EvaluateBatches:
    """Evaluates responses in batches; Ray makes one in each actor."""

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

    def __call__(self, table: Any) -> Iterator[Any]:
        """Evaluate rows of a dataset, or the shard in the only row; yield a table for each batch.

        If its actor dies, Ray calls another with the same table, which finds the batches that are done.
        """
        if self._task.files is not None:
            (index,) = table["shard"].to_pylist()
            yield from self._batches(f"{index}-", self._of_shard(index))
            return
        tags = b"".join(table[TAG].to_pylist())
        yield from self._batches(f"{sha256(tags).hexdigest()[:32]}-", self._of_dataset(table))

    def _of_shard(self, index: int) -> Iterator[Row]:
        assert self._task.files is not None  # noqa: S101
        traces = self._evaluator.trace_format
        batches = read_jsonl(self._task.files, shard=(index, self._task.shards)).batches(
            max_line_bytes=self._task.max_line_bytes, documents=traces is None or traces.is_listed
        )

        async def following() -> list[Record] | None:
            return await anext(batches, None)

        try:
            while (records := self._runner.run(following())) is not None:
                for record in records:
                    path = "" if record.file is None else record.file.path
                    place = f"{path}\0{record.offset}\0{_digest(record)}"
                    yield sha256(place.encode(errors="surrogateescape")).digest(), record
        finally:
            self._runner.run(batches.aclose())

    def _of_dataset(self, table: Any) -> Iterator[Row]:
        limit = self._task.max_line_bytes
        for item in responses(table.drop_columns([TAG])):
            texts = [*item.values()] if isinstance(item, dict) else []
            if len(texts) == 1 and isinstance(
                texts[0], str
            ):  # As of `ray.data.read_text`: the row is a line.
                record: Record = line_of(texts[0].encode(), 0, 0, limit)
            else:
                record = as_record(item, 0, None, limit)
            yield bytes.fromhex(_digest(record)), record

    def _batches(self, prefix: str, rows: Iterator[Row]) -> Iterator[Any]:
        fresh: list[Row] = []
        skipped = number = 0
        for row in rows:
            if self._is_done(row[0]):
                skipped += 1
                continue
            fresh.append(row)
            if len(fresh) == self._task.batch_size:
                yield self._outcome(f"{prefix}{number}.parquet", fresh, skipped)
                fresh, skipped, number = [], 0, number + 1
        yield self._outcome(f"{prefix}{number}.parquet", fresh, skipped)

    def _is_done(self, id_: bytes) -> bool:
        if not len(self._known):
            return False
        place = min(self._known.searchsorted(id_[:ID_BYTES]), len(self._known) - 1)
        return bool(self._known[place] == id_[:ID_BYTES].rstrip(b"\0"))  # As numpy strips it.

    def _outcome(self, name: str, rows: Sequence[Row], skipped: int) -> Any:
        """Evaluate a batch, unless that is done; return a table with its summary in the last row."""
        folder, run = self._task.folder, self._task.run
        summary, results = Summary(name), results_table((), ())
        done = None if folder is None else read_summary(os.path.join(folder, RESULTS, run, name))
        if done is not None:  # By an actor that died before it could say so.
            summary = done
        elif rows:
            summary, results, rejected = self._evaluate(name, rows)
            if folder is None:
                summary.rejected = rejected
            else:
                write_part(folder, run, results, rejected, summary)
                results = results.slice(0, 0)
        summary.skipped = skipped
        return _with_summary(results, summary)

    def _evaluate(self, name: str, rows: Sequence[Row]) -> tuple[Summary, Any, list[dict[str, Any]]]:
        before = _counts(self._session.usage) if self._session is not None else {}
        found, rejected = self._runner.run(self._score(rows))
        aggregates = RunningAggregates(
            include_errors=self._task.include_errors, steps=self._evaluator.reference.step_names
        )
        for _, evaluation in found:
            aggregates.add(evaluation)
        after = _counts(self._session.usage) if self._session is not None else {}
        summary = Summary(
            name,
            len(found),
            Counter(row["reason"] for row in rejected),
            [*dict.fromkeys(evaluation.question_id for _, evaluation in found)],
            aggregates.to_bytes(),
            {key: after[key] - before[key] for key in after},
        )
        table = results_table([id_ for id_, _ in found], [one.as_dict() for _, one in found])
        return summary, table, rejected

    async def _score(
        self, rows: Sequence[Row]
    ) -> tuple[list[tuple[bytes, Evaluation]], list[dict[str, Any]]]:
        rejected: list[dict[str, Any]] = []
        read: list[tuple[bytes, Record, Response]] = []
        for id_, record in rows:
            response = self._read(record)
            if isinstance(response, Reject):
                rejected.append(_reject_row(id_, response))
            else:
                read.append((id_, record, response))
        executed = await self._execute([response for *_, response in read])
        found: list[tuple[bytes, Evaluation]] = []
        for (id_, record, response), outcomes in zip(read, executed, strict=True):
            evaluation = self._evaluator.score(response, None, executed=outcomes)
            if record.file is not None:
                evaluation.source = {"file": record.file.path, "offset": record.offset}
            found.append((id_, evaluation))
        async with asyncio.TaskGroup() as tasks:
            for _, evaluation in found:
                if evaluation.plan is not None and self._session is not None:
                    self._session.usage.outcomes["skipped"] += evaluation.plan.skipped
                if self._evaluator.pending(evaluation):
                    tasks.create_task(self._judge(evaluation))
        return found, rejected

    async def _execute(self, given: Sequence[Response]) -> Sequence[Executed | None]:
        """Run the queries of responses, if any are to be run."""
        if self._execution is None:
            return [None] * len(given)

        async def execute(response: Response) -> Executed | None:
            async with self._in_flight:
                return await self._evaluator.execute(response, self._execution)

        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(execute(response)) for response in given]
        return [task.result() for task in running]

    async def _judge(self, evaluation: Evaluation) -> None:
        async with self._in_flight:
            await self._evaluator.judge(evaluation, self._session)


def _with_summary(results: Any, summary: Summary) -> Any:
    import pyarrow

    results = results.append_column("summary", pyarrow.nulls(results.num_rows, pyarrow.large_binary()))
    last = pyarrow.Table.from_pylist([{"summary": msgspec.msgpack.encode(summary)}], schema=results.schema)
    return pyarrow.concat_tables([results, last])


def _digest(record: Record) -> str:
    return sha256(record.data).hexdigest() if isinstance(record, Line) else reject_unread(record).sha256


def _reject_row(id_: bytes, reject: Reject) -> dict[str, Any]:
    names = ("offset", "reason", "message", "length", "sha256")
    content = reject.content if reject.content is not None else reject.head
    row = {name: getattr(reject, name) for name in names}
    return {"id": id_.hex(), "file": reject.path, "content": content} | row


def _counts(usage: JudgeUsage) -> dict[str, float]:
    return {name: getattr(usage, name) or 0 for name in COUNTED}
