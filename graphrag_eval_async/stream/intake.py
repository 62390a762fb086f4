"""Reads, numbers and evaluates each record of a stream, or rejects it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from graphrag_eval_async.errors import RejectedResponse
from graphrag_eval_async.evaluator import is_large
from graphrag_eval_async.records import Line, Reject, read_record
from graphrag_eval_async.records.evaluation import part_of
from graphrag_eval_async.sinks.rejects import Rejected, RejectWriter
from graphrag_eval_async.stream.bounded_map import Later
from graphrag_eval_async.stream.counts import LOGGER
from graphrag_eval_async.threads import run_in_thread, write_in_thread
from graphrag_eval_async.usual import LARGE_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from graphrag_eval_async.evaluator import Evaluator
    from graphrag_eval_async.execution import ExecutionSession
    from graphrag_eval_async.judge.session import JudgeSession
    from graphrag_eval_async.metrics import Plan
    from graphrag_eval_async.records import Record, Response
    from graphrag_eval_async.records.evaluation import Evaluation
    from graphrag_eval_async.sinks.done import Done, Source
    from graphrag_eval_async.stream.asking import Questions
    from graphrag_eval_async.stream.counts import Counts
    from graphrag_eval_async.stream.options import StreamOptions
    from graphrag_eval_async.stream.queue import QueueWork
    from graphrag_eval_async.stream.until import UntilDecided

    Output = Evaluation | Rejected
    Outcome = Output | Later[Output] | None

Result = dict[str, Any]


class Intake:
    """Turns records into results, in order.

    It knows nothing of the stream, so that dropping the stream ends the work.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        session: JudgeSession | None,
        execution: ExecutionSession | None,
        counts: Counts,
        done: Done | QueueWork | None,
        questions: Questions | None,
        until: UntilDecided | None,
        options: StreamOptions,
        *,
        keeps_rejects: bool,
    ) -> None:
        """Evaluate records, or the answers to `questions`.

        `done` knows which records are done, and `until` what their results count. With `keeps_rejects`,
        rejects are handed on, to be stored with the results.
        """
        self._evaluator = evaluator
        self._session = session
        self._execution = execution
        self._counts = counts
        self._done = done
        self._keeps_rejects = keeps_rejects
        self._questions = questions
        self._until = until
        self._on_reject = options.on_reject
        self._stages = options.stages
        self._max_line_bytes = options.max_line_bytes
        usual = None if questions is not None else evaluator.usual_way(counts.take_sample)
        self._usual = None if usual is None else usual.evaluate
        self._read_trace = None
        if evaluator.trace_format is not None:
            self._read_trace = evaluator.reader(options.max_line_bytes)

    def evaluate(self, record: Record) -> Outcome | Coroutine[Any, Any, Outcome]:
        """Return the evaluation of a record, a coroutine that reads a large one first, or None."""
        is_small = type(record) is Line and len(record.data) < LARGE_BYTES
        if not is_small and is_large(record):
            return self._evaluate_large(record)
        source = None
        if self._done is not None and (source := self._done.admit(record)) is None:
            return self._skip(record)
        if self._usual is not None and is_small:
            found = self._usual(record.data, source)  # type: ignore[union-attr]
            if found is not None:
                return found
        if self._questions is not None:
            return Later(partial(self._ask, self._questions, record.number, source))
        return self._take(record, self._read(record), source)

    def _skip(self, record: Record) -> Outcome:
        """Pass over a record that an earlier run evaluated."""
        if self._questions is not None:
            self._questions.skip()
        return cast("Outcome", self._until and self._until.restored(record))

    async def _evaluate_large(self, record: Record) -> Outcome:
        def read() -> tuple[Response | Reject | None, Source | None]:  # In a thread, one record at a time.
            source = None if self._done is None else self._done.admit(record)
            is_done = self._done is not None and source is None
            return None if is_done else self._read(record), source

        response, source = await run_in_thread(read)
        if response is None:
            return self._skip(record)
        if isinstance(response, Reject):
            return await self._reject_large(response, source)
        return self._take(record, response, source)

    async def _ask(self, questions: Questions, number: int, source: Source | None, _hand_out: Any) -> Outcome:
        """Ask a question and evaluate the answer."""
        record = await questions.answer(number)
        known, limit = self._evaluator.reference.questions, self._max_line_bytes
        read = partial(read_record, record, known, limit)
        response = await run_in_thread(read) if is_large(record) else read()
        question, repeat = questions.at(record.number)
        if isinstance(response, Reject):
            message = f"question {question.id!r}: {response.message}"
            return await self._reject_large(replace(response, message=message), source)
        return self._take(record, response, source, repeat)

    def _read(self, record: Record) -> Response | Reject:
        if self._read_trace is not None:
            return self._read_trace(record)
        return read_record(record, self._evaluator.reference.questions, self._max_line_bytes)

    def _take(
        self, record: Record, response: Response | Reject, source: Source | None, number: int | None = None
    ) -> Outcome:
        """Evaluate or reject a record that was read; `number` is its sample number, if any."""
        if isinstance(response, Reject):
            return self._reject(response, source)
        sample = self._counts.take_sample(response.question_id)
        if number is not None:
            sample = number
        evaluation = None
        if self._execution is None:
            evaluation = self._evaluator.score_at_once(record, response, sample)
        if evaluation is not None:
            evaluation.source = source
            if evaluation.plan is None or not self._is_due(evaluation.plan):
                return evaluation
        work = partial(self._finish, evaluation, response, sample, source)
        return Later(work)

    async def _finish(
        self,
        evaluation: Evaluation | None,
        response: Response,
        sample: int | None,
        source: Source | None,
        hand_out: Callable[[Evaluation], None],
    ) -> Evaluation | None:
        """Run queries, score large steps, and judge; None if the judge's calls must not be sent."""
        if evaluation is None:
            executed = await self._evaluator.execute(response, self._execution)
            evaluation = await self._evaluator.score_in_thread(response, sample, executed)
            evaluation.source = source
            if evaluation.plan is None or not self._is_due(evaluation.plan):
                return evaluation
        assert self._session is not None  # noqa: S101
        if self._stages:
            hand_out(part_of(evaluation, evaluation.plan.pending))
        if await self._evaluator.judge(evaluation, self._session):
            return evaluation
        self._counts.give_back_sample(response.question_id)
        return None

    def _is_due(self, plan: Plan) -> bool:
        """Whether anything needs a judge."""
        if self._session is None:
            return False
        self._session.usage.outcomes["skipped"] += plan.skipped
        return bool(plan.due)

    def _reject(self, reject: Reject, source: Source | None) -> Outcome:
        """Count a reject and give it to the caller; return it if it is to be stored."""
        self._count(reject)
        if self._on_reject == "raise":
            raise RejectedResponse(reject)
        if self._on_reject != "collect":
            self._on_reject(reject)
        return Rejected(reject, source) if self._keeps_rejects else None

    async def _reject_large(self, reject: Reject, source: Source | None) -> Outcome:
        """Do the same, but let a thread write a large reject to its file."""
        if not isinstance(self._on_reject, RejectWriter):
            return self._reject(reject, source)
        self._count(reject)  # Before anything can be cancelled.
        await write_in_thread(partial(self._on_reject, reject))
        return Rejected(reject, source) if self._keeps_rejects else None

    def _count(self, reject: Reject) -> None:
        rejects = self._counts.rejects
        if self._on_reject != "collect":
            rejects.tally(reject)
            return
        if not self._counts.rejects_are_read and reject.reason not in rejects.counts:
            LOGGER.warning("rejected: %s", reject.described())
        rejects.keep(reject)
