"""Reads, numbers and evaluates each record of a stream, or rejects it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.errors import RejectedResponse
from graphrag_eval_async.evaluator import is_large, weight
from graphrag_eval_async.records import LongLine, Reject, read_record
from graphrag_eval_async.records.evaluation import part_of
from graphrag_eval_async.sinks.rejects import RejectWriter
from graphrag_eval_async.stream.bounded_map import Later, Unread
from graphrag_eval_async.stream.resuming import LOGGER
from graphrag_eval_async.threads import run_in_thread, write_in_thread

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphrag_eval_async.evaluator import Evaluator
    from graphrag_eval_async.execution import ExecutionSession
    from graphrag_eval_async.judge.session import JudgeSession
    from graphrag_eval_async.metrics import Plan
    from graphrag_eval_async.records import Record, Response
    from graphrag_eval_async.records.evaluation import Evaluation
    from graphrag_eval_async.sinks.journal import Source
    from graphrag_eval_async.stream.keeping import Keeping
    from graphrag_eval_async.stream.options import StreamOptions
    from graphrag_eval_async.stream.resuming import Tally

    Outcome = Evaluation | Later[Evaluation] | None

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
        tally: Tally,
        resuming: Keeping | None,
        options: StreamOptions,
    ) -> None:
        self._evaluator = evaluator
        self._session = session
        self._execution = execution
        self._tally = tally
        self._resuming = resuming
        self._on_reject = options.on_reject
        self._stages = options.stages
        self._max_line_bytes = options.max_line_bytes
        self._read_trace = None
        if evaluator.trace_format is not None:
            self._read_trace = evaluator.reader(options.max_line_bytes)

    def evaluate(self, record: Record) -> Outcome | Unread[Evaluation]:
        """Return the evaluation of a record, or an awaitable for it; None if there is none."""
        if is_large(record):
            return Unread(partial(self._evaluate_large, record), weight=max(1, weight(record)))
        return self.take(record, *self._read(record))

    async def _evaluate_large(self, record: Record) -> Outcome:
        try:
            response, source = await run_in_thread(partial(self._read, record))
            if isinstance(response, Reject):
                await self.reject_large(response, source)
                return None
            return self.take(record, response, source)
        finally:
            if isinstance(record, LongLine) and not isinstance(record.content, bytes | None):
                record.content.close()

    def _read(self, record: Record) -> tuple[Response | Reject | None, Source | None]:
        """Read a record; None if it was already evaluated. A thread reads large ones, one at a time."""
        source = None
        if self._resuming is not None:
            source = self._resuming.admit(record)
            if source is None:
                return None, None
        if self._read_trace is not None:
            return self._read_trace(record), source
        return read_record(record, self._evaluator.reference.questions, self._max_line_bytes), source

    def take(
        self,
        record: Record,
        response: Response | Reject | None,
        source: Source | None,
        number: int | None = None,
    ) -> Outcome:
        """Evaluate or reject a record that was read; `number` is its sample number, if any."""
        if response is None:
            return None
        if isinstance(response, Reject):
            self._reject(response, source)
            return None
        sample = self._tally.take_sample(response.question_id)
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
        return Later(work, weight=max(1, weight(record)))

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
        self._tally.give_back_sample(response.question_id)
        return None

    def _is_due(self, plan: Plan) -> bool:
        """Whether anything needs a judge."""
        if self._session is None:
            return False
        self._session.usage.outcomes["skipped"] += plan.skipped
        return bool(plan.due)

    def _reject(self, reject: Reject, source: Source | None) -> None:
        if self._resuming is not None and source is not None:
            self._resuming.reject(reject, source)
        self._count(reject)
        self._hand_out(reject)

    async def reject_large(self, reject: Reject, source: Source | None) -> None:
        """Keep a reject or hand it out; a writer of files writes large ones in a thread."""
        self._count(reject)  # Before anything can be cancelled.
        if self._resuming is not None and source is not None:
            await self._resuming.reject_large(reject, source)
        if isinstance(self._on_reject, RejectWriter):
            await write_in_thread(partial(self._on_reject, reject))
        else:
            self._hand_out(reject)

    def _count(self, reject: Reject) -> None:
        rejects = self._tally.rejects
        if self._on_reject != "collect":
            rejects.tally(reject)
            return
        if not self._tally.heeded and reject.reason not in rejects.counts:
            LOGGER.warning("rejected: %s", reject.described())
        rejects.keep(reject)

    def _hand_out(self, reject: Reject) -> None:
        if self._on_reject == "raise":
            raise RejectedResponse(reject)
        if self._on_reject != "collect":
            self._on_reject(reject)
