"""Reads, numbers and evaluates each record of a stream, or rejects it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from graphrag_eval_async.errors import RejectedResponse
from graphrag_eval_async.evaluator import is_large, weight
from graphrag_eval_async.records import Line, Reject, read_record
from graphrag_eval_async.records.evaluation import part_of
from graphrag_eval_async.sinks.rejects import RejectWriter
from graphrag_eval_async.stream.bounded_map import Later, Unread
from graphrag_eval_async.stream.resuming import LOGGER
from graphrag_eval_async.threads import run_in_thread, write_in_thread
from graphrag_eval_async.usual import LARGE_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphrag_eval_async.evaluator import Evaluator
    from graphrag_eval_async.execution import ExecutionSession
    from graphrag_eval_async.judge.session import JudgeSession
    from graphrag_eval_async.metrics import Plan
    from graphrag_eval_async.records import Record, Response
    from graphrag_eval_async.records.evaluation import Evaluation
    from graphrag_eval_async.sinks.journal import Source
    from graphrag_eval_async.stream.asking import Questions
    from graphrag_eval_async.stream.keeping import Keeping
    from graphrag_eval_async.stream.options import StreamOptions
    from graphrag_eval_async.stream.resuming import Tally
    from graphrag_eval_async.stream.until import UntilDecided

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
        questions: Questions | None,
        until: UntilDecided | None,
        options: StreamOptions,
    ) -> None:
        """Evaluate records, or the answers to `questions`. `until` knows what earlier runs have counted."""
        self._evaluator = evaluator
        self._session = session
        self._execution = execution
        self._tally = tally
        self._resuming = resuming
        self._questions = questions
        self._until = until
        self._on_reject = options.on_reject
        self._stages = options.stages
        self._max_line_bytes = options.max_line_bytes
        usual = None if questions is not None else evaluator.usual_way(tally.take_sample)
        self._usual = None if usual is None else usual.evaluate
        self._read_trace = None
        if evaluator.trace_format is not None:
            self._read_trace = evaluator.reader(options.max_line_bytes)

    def evaluate(self, record: Record) -> Outcome | Unread[Evaluation]:
        """Return the evaluation of a record, or an awaitable for it; None if there is none."""
        is_small = type(record) is Line and len(record.data) < LARGE_BYTES
        if not is_small and is_large(record):
            return Unread(partial(self._evaluate_large, record), weight=max(1, weight(record)))
        source = None
        if self._resuming is not None and (source := self._resuming.admit(record)) is None:
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
            source = None if self._resuming is None else self._resuming.admit(record)
            is_done = self._resuming is not None and source is None
            return None if is_done else self._read(record), source

        response, source = await run_in_thread(read)
        if response is None:
            return self._skip(record)
        if isinstance(response, Reject):
            await self._reject_large(response, source)
            return None
        return self._take(record, response, source)

    async def _ask(self, questions: Questions, number: int, source: Source | None, _hand_out: Any) -> Outcome:
        """Ask a question and evaluate the answer."""
        record = await questions.answer(number)
        take = partial(self._take_answer, questions, record, source)
        if is_large(record):  # From now on, it counts by its size.
            return Later(take, weight=max(1, weight(record)))
        return await take(_hand_out)

    async def _take_answer(
        self, questions: Questions, record: Record, source: Source | None, _hand_out: Any
    ) -> Outcome:
        known, limit = self._evaluator.reference.questions, self._max_line_bytes
        read = partial(read_record, record, known, limit)
        response = await run_in_thread(read) if is_large(record) else read()
        question, repeat = questions.at(record.number)
        if isinstance(response, Reject):
            message = f"question {question.id!r}: {response.message}"
            await self._reject_large(replace(response, message=message), source)
            return None
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

    async def _reject_large(self, reject: Reject, source: Source | None) -> None:
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
