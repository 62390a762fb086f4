"""Resumes a stream from its journal, and keeps the journal."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, get_args

from graphrag_eval_async.aggregates.exact import ONE, sum_units
from graphrag_eval_async.errors import GraphragEvalWarning, warn_caller
from graphrag_eval_async.records import Reason, Rejects
from graphrag_eval_async.records.metrics import COST, is_counted_cost
from graphrag_eval_async.reference import misnamed_steps
from graphrag_eval_async.sinks.journal import Admission, Numbers, OpenJournal, SetAside, read_source
from graphrag_eval_async.threads import run_in_thread

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping, Sequence

    from graphrag_eval_async.inference.running import RunningAggregates
    from graphrag_eval_async.judge import JudgeUsage
    from graphrag_eval_async.records import Record, Reject
    from graphrag_eval_async.records.evaluation import Evaluation
    from graphrag_eval_async.reference import Reference
    from graphrag_eval_async.sinks.journal import Dedupe, Journal, Source
    from graphrag_eval_async.sinks.journal.admission import KeptLine
    from graphrag_eval_async.sources import Follower
    from graphrag_eval_async.sources import Source as Records


LOOK_AT_NAMES = 20
"""Number of results after which the names of steps are looked at, before the end of the stream."""

LOGGER = logging.getLogger("graphrag_eval_async")


class Tally:
    """The results and rejects of a stream so far; a journal restores those of earlier runs.

    Attributes:
        samples: by the id of each question that was answered, how many samples it has, numbered from 1; of a
            journal they may have gaps, and then only the ids count.
        heeded: whether the caller has asked for the rejects.
        add: counts a result that is handed out.
    """

    def __init__(
        self,
        aggregates: RunningAggregates,
        usage: JudgeUsage,
        reference: Reference,
        *,
        numbered: bool,
        heeded: bool,
    ) -> None:
        """Unless results are `numbered`, `samples` stays empty."""
        self._numbered = numbered
        self.aggregates = aggregates
        self._reference: Reference | None = reference
        self._left = LOOK_AT_NAMES
        self.add: Callable[[Evaluation], None] = self._add_first
        self.usage = usage
        self.rejects = Rejects()
        self.heeded = heeded
        self.samples: dict[str, int] = {}
        self._scattered: dict[str, Numbers] = {}
        self._spent = 0

    def _add_first(self, result: Evaluation) -> None:
        self.aggregates.add(result)
        self._left -= 1
        if not self._left:
            self.add = self.aggregates.add
            self.warn_of_names()

    def warn_of_names(self) -> None:
        """Warn once if the agent's tools seem to have other names than the reference steps."""
        told = self._reference and misnamed_steps(self._reference, self.aggregates._step_names())
        if told:
            self._reference = None
            warn_or_log(told)

    def warn_of_rejects(self) -> None:
        """Warn once of rejects that the caller has not looked at; log them if warnings are errors."""
        if self.heeded or not len(self.rejects):
            return
        self.heeded = True
        counts = ", ".join(f"{reason} {count}" for reason, count in self.rejects.counts.most_common())
        total = self.rejects.total
        text = (
            f"{total} {'response was' if total == 1 else 'responses were'} rejected: {counts}. "
            f"The first: {self.rejects[0].described()}. "
            "All are in the rejects of the stream; on_reject gets each."
        )
        warn_or_log(text)

    def take_sample(self, question_id: str) -> int | None:
        """Return the number of the next sample of a question, the lowest that is free, if it has one."""
        if not self._numbered:
            return None
        if self._scattered and question_id in self._scattered:
            return self._scattered[question_id].take()
        sample = self.samples[question_id] = self.samples.get(question_id, 0) + 1
        return sample

    def give_back_sample(self, question_id: str) -> None:
        """Undo counting one answer to a question; its samples keep their numbers."""
        if self._numbered and question_id not in self._scattered:  # Else the journal has others.
            self.samples[question_id] -= 1
            if not self.samples[question_id]:
                del self.samples[question_id]

    def _add_sample(self, question_id: str, sample: int) -> None:
        """Record the number of a sample from an earlier run, which may leave a gap."""
        taken = self.samples.setdefault(question_id, 0)
        numbers = self._scattered.get(question_id)
        if numbers is None and sample == taken + 1:
            self.samples[question_id] = sample
            return
        if numbers is None:
            numbers = self._scattered[question_id] = Numbers()
            numbers.upto = taken
        numbers.add(sample)

    def restore_result(self, result: Mapping[str, Any]) -> None:
        """Count a result from an earlier run.

        Raises:
            AggregationError, KeyError, TypeError, ValueError: it is none, and nothing of it was counted.
        """
        question_id = result["question_id"]
        sample = result["sample"] if self._numbered else 1
        if type(question_id) is not str or type(sample) is not int or sample < 1 or "pending" in result:
            raise ValueError("no whole result")
        self.aggregates.add(result)
        if self._numbered:
            self._add_sample(question_id, sample)
        if "judge" in result:
            self._spent += sum_units(_costs(result))
            self.usage.restored_dollars = self._spent / ONE

    def restore_reject(self, reason: Any) -> None:
        """Count a reject from an earlier run."""
        if reason not in get_args(Reason):
            raise ValueError("no reject")
        self.rejects.counts[reason] += 1


def warn_or_log(text: str) -> None:
    """Warn; log it if warnings are errors."""
    try:
        warn_caller(text)
    except GraphragEvalWarning:
        LOGGER.warning("%s", text)


class Resuming:
    """Remembers the lines of a stream in memory, and keeps their results in a journal.

    Attributes:
        admission: says which lines are new.
        journal: once what it has is counted, and if there is one.
        abort: ends the stream, with an error.
        on_restored: called with each line of an earlier run, and with its result; None if it was rejected.
        takers: called with each result of an earlier run after the aggregates count it.
        retry_errors: whether failed responses of an earlier run, and rejected ones, are not to count.
    """

    def __init__(
        self,
        dedupe: Dedupe,
        options: Journal | None,
        fingerprints: Callable[[], Mapping[str, str]],
        tally: Tally,
    ) -> None:
        self.admission = Admission(dedupe)
        self.journal: OpenJournal | None = None
        self._opened: OpenJournal | None = None
        self.abort: Callable[[BaseException], object] | None = None
        self.on_restored: Callable[[KeptLine, dict[str, Any] | None], object] | None = None
        self.takers: list[Callable[[Mapping[str, Any]], object]] = []
        if options is not None and options.on_restored is not None:
            self.takers.append(options.on_restored)
        self.retry_errors = False
        self._options = options
        self._threads: ThreadPoolExecutor | None = None
        self._fingerprints = fingerprints
        self._tally = tally
        self._incomplete: set[str] = set()

    async def read(self, records: Records, follower: Follower | None) -> AsyncGenerator[list[Record]]:
        """Open the journal, count what it holds, then yield the batches of a source.

        Raises:
            JournalError: the journal cannot be resumed.
        """
        if (options := self._options) is not None:
            self.journal = journal = await self._open(options)
            if follower is not None:
                # With a journal, lines rotated before the first run began are read, too.
                is_first = not journal.conditions.followed and follower.start != "beginning"
                await follower.begin(
                    self.admission.done.known(),
                    options.paths,
                    is_first=is_first,
                    copies=journal.conditions.copies,
                    keep=self._keep,
                )
        async for batch in records:
            yield batch

    async def _open(self, options: Journal) -> OpenJournal:
        """Open the journal and count what it holds."""
        # The event loop's own threads may all be waiting for results.
        self._threads = threads = ThreadPoolExecutor(2, thread_name_prefix="graphrag-eval-async journal")

        def open_journal() -> OpenJournal:
            self._opened = OpenJournal(options, self._fingerprints(), self._fail, threads)
            return self._opened

        journal = await run_in_thread(open_journal, threads=threads)
        await journal.restore(self._restore_result, self._restore_reject)
        self.admission.done.pass_over(journal.conditions.origins)
        return journal

    def _fail(self, error: BaseException) -> None:
        if self.abort is not None:
            self.abort(error)

    def _restore_result(self, result: Any) -> None:
        line = read_source(result["source"])
        if self.retry_errors and result["status"] == "error":
            raise SetAside
        if self.admission.is_restored(line):
            raise ValueError("the result of that line is there already")
        self._tally.restore_result(result)
        self.admission.restore(line)
        if self.on_restored is not None:
            self.on_restored(line, result)
        for take in self.takers:
            take(result)

    def _restore_reject(self, record: Any) -> None:
        line = read_source(record["source"])
        if self.retry_errors:
            raise SetAside
        if record["reason"] == "incomplete":  # The rest of the line may have come since.
            self._incomplete.add(record["source"]["sha256"])
        elif self.admission.is_restored(line):
            raise ValueError("the line is there already, here or among the results")
        else:
            self._tally.restore_reject(record["reason"])
            self.admission.restore(line)
            if self.on_restored is not None:
                self.on_restored(line, None)

    async def _keep(self, origins: Mapping[str, int], copies: Mapping[str, str]) -> None:
        """Record where reading begins: for a file that proves not to be a copy, earlier than before."""
        assert self.journal is not None  # noqa: S101
        changed = {
            key: offset for key, offset in origins.items() if offset < self.admission.done.passed_over(key)
        }
        self.admission.done.pass_over(changed)
        await self.journal.note(origins, copies)

    @property
    def is_restored(self) -> bool:
        """Whether the results of earlier runs are counted, if there are any."""
        return self._options is None or self.journal is not None

    @property
    def skipped(self) -> int:
        """How many lines were done already."""
        return self.admission.skipped

    def admit(self, record: Record) -> Source | None:
        """Return what a journal says of the origin of a line; None if the line is done already."""
        return self.admission.admit(record)

    async def commit(self, evaluations: Sequence[Evaluation]) -> Sequence[Evaluation]:
        """Write complete results to the journal, in order, and return them."""
        assert self.journal is not None  # noqa: S101
        await self.journal.append([evaluation.as_dict() for evaluation in evaluations])
        return evaluations

    def reject(self, reject: Reject, source: Source) -> None:
        """Keep a reject."""
        if self.journal is not None and not self._stands_there(reject, source):
            self.journal.reject(reject, source)

    async def reject_large(self, reject: Reject, source: Source) -> None:
        """Do the same in a thread."""
        if self.journal is not None and not self._stands_there(reject, source):
            await self.journal.reject_large(reject, source)

    def _stands_there(self, reject: Reject, source: Source) -> bool:
        return reject.reason == "incomplete" and source["sha256"] in self._incomplete

    async def aclose(self) -> None:
        """Flush the journal to the disk and release it."""
        try:
            if self._opened is not None:
                await self._opened.aclose()
        finally:
            if self._threads is not None:
                self._threads.shutdown(wait=False)


def _costs(result: Mapping[str, Any]) -> list[float]:
    """The known costs of judging a result, in US dollars, by part."""
    costs = [result[key] for key in result if key.endswith(COST)]
    for step in result.get("actual_steps") or ():
        if isinstance(step, dict):
            costs += [step[key] for key in step if is_counted_cost(key)]
    return [cost for cost in costs if isinstance(cost, int | float)]
