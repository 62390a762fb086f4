"""A run in shards: a pool of workers evaluates them, and this process joins their results."""

from __future__ import annotations

import asyncio
import tempfile
from collections import deque
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Protocol, TypeAlias

import aiofiles
import msgspec
import orjson

from graphrag_eval_async.errors import RejectedResponse, plural
from graphrag_eval_async.helpers.threads import write_in_thread
from graphrag_eval_async.inference.running import RunningAggregates
from graphrag_eval_async.judge.prices import FREE
from graphrag_eval_async.judge.usage import JudgeUsage
from graphrag_eval_async.records import Reject, Rejects
from graphrag_eval_async.records.results import observe
from graphrag_eval_async.reference import misnamed_steps
from graphrag_eval_async.scale.folder import SUFFIX, ShardFolder
from graphrag_eval_async.scale.limits import Budget, most_workers
from graphrag_eval_async.scale.shard import REJECTS, RESULTS, make_job, read_outcome
from graphrag_eval_async.sinks import RejectWriter
from graphrag_eval_async.sources.files import in_thread
from graphrag_eval_async.stream.counts import warn_or_log

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Sequence
    from pathlib import Path

    from graphrag_eval_async.evaluator import Evaluator, EvaluatorOptions
    from graphrag_eval_async.scale.shard import FileShard, Outcome
    from graphrag_eval_async.stream.options import OnReject

Send: TypeAlias = "Callable[[bytes], Awaitable[None]]"

BATCH_BYTES = 1 << 20
"""Bytes of lines that are read together, since each switch to a thread and back takes time."""


class Pool(Protocol):
    """Workers in processes of this machine, or on a cluster.

    Attributes:
        capacity: how many shards may be submitted and not finished.
    """

    capacity: int

    async def submit(self, shard: FileShard, budget_usd: float | None) -> asyncio.Future[float]:
        """Have a worker evaluate a shard; the future has the US dollars that the judge spent."""

    def explain(self, error: BaseException, shard: FileShard) -> BaseException:
        """Return the error to raise if the future of a shard has `error`."""

    async def aclose(self) -> None:
        """Stop all workers, even in the middle of a shard."""


class ShardedRun:
    """A run in shards, and its outcome so far. Its folder is locked until it is closed.

    Attributes:
        job: what its workers need.
        workers: how many workers there are.
        aggregates: of all results that were joined.
        rejects: of the same shards.
        samples: by question, how many results were joined.
        usage: counts of the judge's calls; see `JudgeUsage`.
        resumed: how many shards an earlier run had finished.
        size: number of bytes to read.
        consumed: how many of these bytes were joined.
        folder: path of the folder with finished shards.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        options: EvaluatorOptions,
        *,
        shards_path: str | None,
        max_workers: int,
        max_in_flight: int,
        on_reject: OnReject,
        is_part: bool = False,
        first_tag_keys: Iterable[str] = (),
    ) -> None:
        """Prepare a run.

        Args:
            evaluator: what evaluates the responses.
            options: those of the evaluator, from which each worker makes its own.
            shards_path: the folder for finished shards; None for a temporary one.
            max_workers: how many workers there may be. The configuration may allow fewer.
            max_in_flight: how many responses a worker may have in progress.
            on_reject: as in `evaluate_stream`.
            is_part: whether other runs evaluate the rest of the responses.
            first_tag_keys: keys of tags by which results are grouped before others, if there are
                more tags than are counted.

        Raises:
            JournalLocked: another run uses `shards_path`.
            UsageError: an option cannot be sent to other processes, or `shards_path` cannot be
                made.
        """
        # What the workers need.
        self.workers = most_workers(evaluator.config, max_workers)
        self._is_temporary = shards_path is None
        self._folder = ShardFolder(shards_path or tempfile.mkdtemp(suffix=SUFFIX))
        self.folder = str(self._folder.path)
        self.job = make_job(
            evaluator,
            options,
            self.workers,
            folder=self.folder,
            max_in_flight=max_in_flight,
            is_part=is_part,
            first_tag_keys=first_tag_keys,
        )

        # The outcome, and where it goes.
        self.aggregates = RunningAggregates(
            templates=self.job.reference.templates, steps=self.job.reference.step_names
        )
        self.aggregates._count_tags_first(self.job.first_tag_keys)
        self.rejects = Rejects()
        self.samples: dict[str, int] = {}
        self.usage = JudgeUsage(FREE)
        self._on_reject = on_reject
        self._send: Send | None = None
        self._advance: Callable[[], object] = lambda: None

        # How far the run is.
        self.resumed = 0
        self.size = 0
        self.consumed = 0
        self._is_stopped = False
        # Number of lines in earlier shards of the file that is being joined.
        self._lines_before = 0

    def close(self) -> None:
        """Unlock the folder of finished shards, and delete the folder if it is temporary.

        Otherwise, the finished shards stay for the next run.
        """
        self._folder.close()
        if self._is_temporary:
            self._folder.remove()

    def stop(self) -> None:
        """Submit no more shards; those in progress are still finished and joined."""
        self._is_stopped = True

    @property
    def missing(self) -> list[str]:
        """The ids of the questions without a response, in the order of the reference set.

        Empty if other runs evaluate the rest of the responses.
        """
        if self.job.is_part:
            return []
        question_ids = self.job.reference.questions
        return [question_id for question_id in question_ids if question_id not in self.samples]

    async def evaluate_files(
        self,
        shards: Sequence[FileShard],
        pool: Pool,
        *,
        send: Send | None,
        advance: Callable[[], object],
    ) -> None:
        """Evaluate the shards that are not finished, and join all in their order.

        If a shard cannot be evaluated, the finished shards before it are still joined.

        Args:
            shards: all shards of the run.
            pool: evaluates them; it is closed at the end.
            send: takes results as lines of JSON, in the order of the input; None if they are not
                wanted.
            advance: called for each result that was joined.

        Raises:
            RejectedResponse: a response cannot be evaluated, and `on_reject` is "raise".
            SourceError: a file cannot be read.
            JudgeUnavailable: the judge will not answer any call.
            ExecutionUnavailable: the configured queries cannot be run.
            WorkerError: a worker died.
        """
        # Find the shards that an earlier run has finished.
        self._send = send
        self._advance = advance
        self.size = sum(shard.size for shard in shards)
        names = {shard: shard.name(self.job.fingerprints) for shard in shards}
        self._discard_shards(keep=set(names.values()))
        finished = {shard for shard in shards if names[shard] in self._folder.finished}
        self.resumed = len(finished)

        budget = Budget(self.job.budget_usd)
        for shard in finished:
            budget.spend(self._read_cost(names[shard]))

        # Evaluate the others, and join shards as soon as all before them are joined.
        unsubmitted = deque(shard for shard in shards if shard not in finished)
        unjoined = deque(shards)
        submitted = _Submitted(pool, budget, shards)
        failure: BaseException | None = None
        try:
            while True:
                if failure is None and not self._is_stopped:
                    await submitted.fill(unsubmitted)

                while unjoined and unjoined[0] in finished:
                    shard = unjoined.popleft()
                    await self._join_file_shard(shard, names[shard])

                if failure is not None:
                    raise failure
                if not submitted:
                    break
                newly_finished, failure = await submitted.wait()
                finished.update(newly_finished)
        finally:
            await pool.aclose()
            submitted.abandon()
        if not unjoined:
            self._finish()

    async def join_rows(
        self, names: Iterator[str], *, send: Send, advance: Callable[[], object]
    ) -> None:
        """Join shards of rows, which have no order.

        Args:
            names: the names of the shards, each as it is finished. The iterator may block.
            send: takes results as lines of JSON.
            advance: called for each result that was joined.
        """
        self._send = send
        self._advance = advance
        self._discard_shards()
        while True:
            name = await in_thread(next, names, None)
            if name is None:
                break
            await self._join(name, line_shift=None)
        self._finish()

    def _read_cost(self, name: str) -> float:
        """Return the US dollars that an earlier run spent on a finished shard."""
        usage = JudgeUsage(FREE)
        usage.add_state(read_outcome(self._folder.of(name)).usage)
        return usage.spent or 0.0

    def _discard_shards(self, keep: Collection[str] = ()) -> None:
        """Delete the shards of earlier runs, and warn if finished ones are among them.

        Args:
            keep: names of the shards that are not deleted.
        """
        discarded = self._folder.keep_only(keep)
        if discarded:
            warn_or_log(
                f"{self._folder.path}: not using {plural(discarded, 'finished shard')}: the "
                "responses, the reference set, the configuration or the version has changed; "
                "evaluating these again"
            )

    async def _join_file_shard(self, shard: FileShard, name: str) -> None:
        """Add the results, rejects and outcome of a finished shard of a file to this run."""
        is_first_of_file = shard.start == 0
        if is_first_of_file:
            self._lines_before = 0
            line_shift = 0
        else:
            # The worker counts the end of the line before the shard as a line, too.
            line_shift = self._lines_before - 1
        outcome = await self._join(name, line_shift)
        self._lines_before += outcome.lines
        self.consumed += shard.size

    async def _join(self, name: str, line_shift: int | None) -> Outcome:
        """Add the results, rejects and outcome of a finished shard to this run.

        The results are sent, and the rejects handed on.

        Args:
            name: the name of the shard.
            line_shift: what to add to the numbers of lines of rejects; None if the lines have no
                numbers.

        Returns:
            the outcome.
        """
        folder = self._folder.of(name)
        outcome = await write_in_thread(partial(read_outcome, folder))
        aggregates = RunningAggregates.from_bytes(outcome.aggregates)
        await self._send_results(folder, outcome, aggregates)
        for question_id, count in outcome.samples.items():
            self.samples[question_id] = self.samples.get(question_id, 0) + count
        for _ in range(sum(outcome.samples.values())):
            self._advance()

        await write_in_thread(partial(self.aggregates.merge, aggregates))
        self.usage.add_state(outcome.usage)
        await self._read_rejects(folder, line_shift)
        return outcome

    async def _send_results(
        self, folder: Path, outcome: Outcome, aggregates: RunningAggregates
    ) -> None:
        """Send the results of a shard, with samples that are numbered as in one process.

        Args:
            folder: the folder of the shard.
            outcome: the outcome of the shard.
            aggregates: the aggregates of the shard, which are corrected for the numbers.
        """
        # A worker numbers the samples of a question from 1. Earlier shards may have some, too.
        has_later_samples = not self.job.is_part and any(
            question_id in self.samples for question_id in outcome.samples
        )
        if self._send is None and not has_later_samples:
            return
        async with aiofiles.open(folder / RESULTS, "rb") as file:
            while lines := await file.readlines(BATCH_BYTES):
                if has_later_samples:
                    lines = [self._renumber_sample(line, aggregates) for line in lines]
                if self._send is not None:
                    await self._send(b"".join(lines))

    def _renumber_sample(self, line: bytes, aggregates: RunningAggregates) -> bytes:
        """Return a result with the number that its sample has in the whole run.

        Args:
            line: the result as a line of JSON.
            aggregates: the aggregates of its shard. They are corrected if the result is no longer
                the first sample of its question.
        """
        result = orjson.loads(line)
        earlier_samples = self.samples.get(result["question_id"], 0)
        if earlier_samples == 0:
            return line
        if result["sample"] == 1:
            aggregates._recount_as_later_sample(observe(result))
        result["sample"] += earlier_samples
        return orjson.dumps(result, option=orjson.OPT_APPEND_NEWLINE)

    async def _read_rejects(self, folder: Path, line_shift: int | None) -> None:
        """Count the rejects in the folder of a shard, and hand them on.

        Args:
            folder: the folder of the shard.
            line_shift: as in `_join`.
        """
        async with aiofiles.open(folder / REJECTS, "rb") as file:
            while lines := await file.readlines(BATCH_BYTES):
                rejects = [_read_reject(line, line_shift) for line in lines]
                if isinstance(self._on_reject, RejectWriter):
                    # It writes them to a file, which would block the event loop.
                    await write_in_thread(partial(self._hand_on, rejects))
                else:
                    self._hand_on(rejects)

    def _hand_on(self, rejects: Sequence[Reject]) -> None:
        """Count rejects, and do with each as `on_reject` says.

        Raises:
            RejectedResponse: `on_reject` is "raise".
        """
        for reject in rejects:
            self.rejects.add(reject, keep=self._on_reject == "collect")
            if self._on_reject == "raise":
                raise RejectedResponse(reject)
            if self._on_reject != "collect":
                self._on_reject(reject)

    def _finish(self) -> None:
        """Record that all shards were joined, and delete their folders."""
        self.aggregates.finish()
        self._folder.remove()
        warning = misnamed_steps(self.job.reference, self.aggregates._step_names())
        if warning:
            warn_or_log(warning)


class _Submitted:
    """The shards that the workers of a pool evaluate or wait to evaluate."""

    def __init__(self, pool: Pool, budget: Budget, shards: Sequence[FileShard]) -> None:
        """Prepare to submit shards to a pool.

        Args:
            pool: the workers.
            budget: divided among the shards in progress.
            shards: all shards of the run, in order.
        """
        self._pool = pool
        self._budget = budget
        self._order = {shard: index for index, shard in enumerate(shards)}
        self._shards: dict[asyncio.Future[float], FileShard] = {}
        self._budget_shares: dict[FileShard, float | None] = {}

    def __len__(self) -> int:
        return len(self._shards)

    async def fill(self, unsubmitted: deque[FileShard]) -> None:
        """Submit as many shards as there is room for, each with its share of the budget."""
        while unsubmitted and len(self) < self._pool.capacity:
            shard = unsubmitted.popleft()
            # The budget is shared with the shards that fill the pool after this one.
            room_left = self._pool.capacity - len(self) - 1
            size_beside = sum(next_shard.size for next_shard in islice(unsubmitted, room_left))
            share = self._budget.reserve(shard.size, size_beside)
            self._budget_shares[shard] = share
            future = await self._pool.submit(shard, share)
            self._shards[future] = shard

    def abandon(self) -> None:
        """Ignore the outcome of the shards that are not finished."""
        for future in self._shards:
            future.cancel()
            if not future.cancelled():
                # Otherwise, asyncio reports that nobody looked at the exception.
                future.exception()

    async def wait(self) -> tuple[list[FileShard], BaseException | None]:
        """Wait until workers have finished shards.

        Returns:
            the finished shards, and the error of the first one that failed; None if none failed.
        """
        done, _ = await asyncio.wait(self._shards, return_when=asyncio.FIRST_COMPLETED)
        finished: list[FileShard] = []
        failure: BaseException | None = None
        # If a worker dies, all shards fail; the first in order names the place.
        for future in sorted(done, key=lambda future: self._order[self._shards[future]]):
            shard = self._shards.pop(future)
            error = future.exception()
            if error is None:
                self._budget.settle(self._budget_shares.pop(shard), future.result())
                finished.append(shard)
            elif failure is None:
                failure = self._pool.explain(error, shard)
        return finished, failure


def _read_reject(line: bytes, line_shift: int | None) -> Reject:
    """Return the reject in a line of JSON, with the number of its line in the whole file.

    Args:
        line: the reject as a worker has written it.
        line_shift: what to add to the worker's number; None if lines have no numbers.
    """
    reject = msgspec.json.decode(line, type=Reject)
    if line_shift is None or not reject.line:
        return replace(reject, line=0)
    return replace(reject, line=reject.line + line_shift)
