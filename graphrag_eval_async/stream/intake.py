"""Reads, numbers and evaluates each record of a stream, or rejects it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from graphrag_eval_async.evaluator import is_large
from graphrag_eval_async.records import Line, Reject, read_record
from graphrag_eval_async.records.evaluation import part_of
from graphrag_eval_async.sinks.rejects import Rejected, RejectWriter
from graphrag_eval_async.threads import run_in_thread, write_in_thread
from graphrag_eval_async.usual import LARGE_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from graphrag_eval_async.evaluator import Evaluator
    from graphrag_eval_async.execution import ExecutionSession
    from graphrag_eval_async.judge.session import JudgeSession
    from graphrag_eval_async.records import Record, Response
    from graphrag_eval_async.records.evaluation import Evaluation
    from graphrag_eval_async.sinks.done import Done, Source
    from graphrag_eval_async.stream.agent import Questions
    from graphrag_eval_async.stream.bounded_map import Outcome as OutcomeOf
    from graphrag_eval_async.stream.counts import Counts
    from graphrag_eval_async.stream.options import StreamOptions
    from graphrag_eval_async.stream.until import UntilDecided

    Outcome: TypeAlias = OutcomeOf[Evaluation | Rejected]
    HandOut: TypeAlias = Callable[[Evaluation], None]


class Intake:
    """Turns records into results; does not know the stream, so that dropping the stream ends the work."""

    def __init__(
        self,
        evaluator: Evaluator,
        session: JudgeSession | None,
        execution: ExecutionSession | None,
        counts: Counts,
        done: Done | None,
        questions: Questions | None,
        until: UntilDecided | None,
        options: StreamOptions,
        keeps_rejects: bool,
    ) -> None:
        """Evaluate records, or the answers to `questions`, that are not `done`.

        With `keeps_rejects`, rejects are handed on, to be stored with the results.
        """
        self._evaluator, self._session, self._execution = evaluator, session, execution
        self._counts, self._done, self._questions, self._until = counts, done, questions, until
        self._options, self._keeps_rejects = options, keeps_rejects
        usual = None if questions is not None else evaluator.usual_way(counts.take_sample)
        self._usual = None if usual is None else usual.evaluate
        self._read = evaluator.reader(options.max_line_bytes)

    def evaluate(self, record: Record) -> Outcome | Coroutine[Any, Any, Outcome]:
        """Return the evaluation of a record, work for it, or None; of a large one, a coroutine for these."""
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
            return partial(self._ask, self._questions, record.number, source)
        return self._evaluate(record, self._read(record), source)

    def _skip(self, record: Record) -> Outcome:
        """Pass over a record that an earlier run evaluated."""
        if self._questions is not None:
            self._questions.skip()
        return cast("Outcome", self._until and self._until.restored(record))

    async def _evaluate_large(self, record: Record) -> Outcome:
        def read() -> tuple[Response | Reject | None, Source | None]:
            source = None if self._done is None else self._done.admit(record)
            is_done = self._done is not None and source is None
            return None if is_done else self._read(record), source

        response, source = await run_in_thread(read)
        if response is None:
            return self._skip(record)
        own = self._options.on_reject
        if isinstance(response, Reject) and isinstance(own, RejectWriter):  # Its content is as large.
            self._counts.rejects.add(response, keep=False)  # Before anything can be cancelled.
            await write_in_thread(partial(own, response))
            return Rejected(response, source) if self._keeps_rejects else None
        return self._evaluate(record, response, source)

    async def _ask(
        self, questions: Questions, number: int, source: Source | None, hand_out: HandOut
    ) -> Evaluation | Rejected | None:
        """Ask a question and evaluate the answer."""
        record = await questions.answer(number)
        known = self._evaluator.reference.questions
        read = partial(read_record, record, known, self._options.max_line_bytes)
        response = await run_in_thread(read) if is_large(record) else read()
        question, repeat = questions.at(number)
        if isinstance(response, Reject):
            response = replace(response, message=f"question {question.id!r}: {response.message}")
        outcome = self._evaluate(record, response, source, repeat)
        return await outcome(hand_out) if isinstance(outcome, partial) else outcome

    def _evaluate(
        self, record: Record, response: Response | Reject, source: Source | None, repeat: int | None = None
    ) -> Outcome:
        """Evaluate or reject a record that was read; `repeat` is its sample number, if any."""
        if isinstance(response, Reject):
            self._counts.reject(response)
            return Rejected(response, source) if self._keeps_rejects else None
        sample = self._counts.take_sample(response.question_id)
        evaluation = None
        if repeat is not None:
            sample = repeat
        if self._execution is None:
            evaluation = self._evaluator.score_at_once(record, response, sample)
            if evaluation is not None and not self._needs_judge(evaluation, source):
                return evaluation
        return partial(self._finish, evaluation, response, sample, source)

    async def _finish(
        self,
        evaluation: Evaluation | None,
        response: Response,
        sample: int | None,
        source: Source | None,
        hand_out: HandOut,
    ) -> Evaluation | Rejected | None:
        """Run queries, score large steps, and judge; None if the judge's calls must not be sent."""
        if evaluation is None:
            executed = await self._evaluator.execute(response, self._execution)
            evaluation = await self._evaluator.score_in_thread(response, sample, executed)
            if not self._needs_judge(evaluation, source):
                return evaluation
        assert self._session is not None  # noqa: S101
        if self._options.stages:
            hand_out(part_of(evaluation, evaluation.plan.pending))
        if await self._evaluator.judge(evaluation, self._session):
            return evaluation
        self._counts.give_back_sample(response.question_id)
        return None

    def _needs_judge(self, evaluation: Evaluation, source: Source | None) -> bool:
        evaluation.source = source
        plan = evaluation.plan
        if plan is None or self._session is None:
            return False
        self._session.usage.outcomes["skipped"] += plan.skipped
        return bool(plan.due)
