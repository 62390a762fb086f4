"""Reads, numbers and evaluates each record of a stream, or rejects it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, TypeAlias, cast

from graphrag_eval_async.evaluator import is_large
from graphrag_eval_async.records import Line, Reject, read_record
from graphrag_eval_async.records.evaluation import Evaluation, part_of
from graphrag_eval_async.records.line import LARGE_BYTES
from graphrag_eval_async.sinks.rejects import Rejected, RejectWriter
from graphrag_eval_async.stream.read_ahead import Held
from graphrag_eval_async.threads import run_in_thread, write_in_thread

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphrag_eval_async.evaluator import Evaluator
    from graphrag_eval_async.execution import ExecutionSession
    from graphrag_eval_async.judge.session import JudgeSession
    from graphrag_eval_async.records import Record, Response
    from graphrag_eval_async.sinks.done import Done, ResultSource
    from graphrag_eval_async.stream.agent import Questions
    from graphrag_eval_async.stream.counts import Counts
    from graphrag_eval_async.stream.options import StreamOptions
    from graphrag_eval_async.stream.read_ahead import Outcome as OutcomeOf
    from graphrag_eval_async.stream.until import UntilDecided

    Outcome: TypeAlias = OutcomeOf[Evaluation | Rejected]
    HandOut: TypeAlias = Callable[[Evaluation], None]


@dataclass(eq=False)
class Intake:
    """Turns records into results; does not know the stream, so that dropping the stream ends the
    work.
    """

    evaluator: Evaluator
    session: JudgeSession | None
    execution: ExecutionSession | None
    counts: Counts
    done: Done | None  # Which records are passed over.
    questions: Questions | None  # The records, if an agent is to answer them.
    until: UntilDecided | None
    options: StreamOptions
    hands_on_rejects: bool  # To be stored with the results.

    def __post_init__(self) -> None:
        self._evaluate_fast: Callable[[Line, ResultSource | None], Evaluation | None] | None = None
        if self.questions is None:
            fast_path = self.evaluator.fast_path(self.counts.take_sample)
            if fast_path is not None:
                self._evaluate_fast = fast_path.evaluate
        self._read = self.evaluator.reader()

    def evaluate(self, record: Record) -> Outcome | Held:
        """Return the evaluation of a record, or work for it, or None if it has no result.

        Of a large record, return what finds one of these, which the records after it wait for.
        """
        is_short_line = type(record) is Line and len(record.data) < LARGE_BYTES
        if not is_short_line and is_large(record):
            return Held(partial(self._evaluate_large, record))

        # With a journal or with `dedupe`, it may have been evaluated before.
        source = None
        if self.done is not None:
            source = self.done.admit(record)
            if source is None:
                return self._skip(record)

        if self._evaluate_fast is not None and is_short_line:
            evaluation = self._evaluate_fast(record, source)  # type: ignore[arg-type]
            if evaluation is not None:
                return evaluation
        if self.questions is not None:
            return partial(self._ask, self.questions, record.number, source)
        return self._evaluate(record, self._read(record), source)

    def _skip(self, record: Record) -> Outcome:
        """Pass over a record that an earlier run evaluated."""
        if self.questions is not None:
            self.questions.skip()
        if self.until is None:
            return None
        return cast("Outcome", self.until.restored(record))  # Only `until` sees it.

    async def _evaluate_large(self, record: Record) -> Outcome:
        """Do what `evaluate` does, for a record that is read and rejected in a thread."""
        source = None
        if self.done is not None:
            source = await run_in_thread(partial(self.done.admit, record))
            if source is None:
                return self._skip(record)
        response = await run_in_thread(partial(self._read, record))
        writer = self.options.on_reject
        if isinstance(response, Reject) and isinstance(writer, RejectWriter):
            self.counts.rejects.add(response, keep=False)  # Before anything can be cancelled.
            await write_in_thread(partial(writer, response))  # Its content is as large.
            return Rejected(response, source) if self.hands_on_rejects else None
        return self._evaluate(record, response, source)

    async def _ask(
        self, questions: Questions, number: int, source: ResultSource | None, hand_out: HandOut
    ) -> Evaluation | Rejected | None:
        """Ask a question and evaluate the answer."""
        record = await questions.answer(number)
        known = self.evaluator.reference.questions
        read = partial(read_record, record, known)
        response = await run_in_thread(read) if is_large(record) else read()
        question, repeat = questions.at(number)
        if isinstance(response, Reject):
            response = replace(response, message=f"question {question.id!r}: {response.message}")
        outcome = self._evaluate(record, response, source, repeat)
        return await outcome(hand_out) if isinstance(outcome, partial) else outcome

    def _evaluate(
        self,
        record: Record,
        response: Response | Reject,
        source: ResultSource | None,
        repeat: int | None = None,
    ) -> Outcome:
        """Evaluate or reject a record that was read; `repeat` is its sample number, if known."""
        if isinstance(response, Reject):
            self.counts.reject(response)
            return Rejected(response, source) if self.hands_on_rejects else None
        sample = self.counts.take_sample(response.question_id)
        if repeat is not None:
            sample = repeat
        evaluation = None
        if self.execution is None:
            evaluation = self.evaluator.score_at_once(record, response, sample)
            if evaluation is not None:
                self._note(evaluation, source)
                if not self.evaluator.pending(evaluation):
                    return evaluation
        return partial(self._finish, evaluation, response, sample, source)

    async def _finish(
        self,
        evaluation: Evaluation | None,
        response: Response,
        sample: int | None,
        source: ResultSource | None,
        hand_out: HandOut,
    ) -> Evaluation | Rejected | None:
        """Run queries, score large steps, and judge; None if the judge's calls must not be sent."""
        if evaluation is None:
            executed = await self.evaluator.execute(response, self.execution)
            evaluation = await self.evaluator.score_in_thread(response, sample, executed)
            self._note(evaluation, source)
            if not self.evaluator.pending(evaluation):
                return evaluation
        if self.options.stages:
            hand_out(part_of(evaluation, self.evaluator.pending(evaluation)))
        if await self.evaluator.judge(evaluation, self.session):
            return evaluation
        self.counts.give_back_sample(response.question_id)
        return None

    def _note(self, evaluation: Evaluation, source: ResultSource | None) -> None:
        """Note where a new evaluation comes from, and what its plan leaves out."""
        evaluation.source = source
        if evaluation.plan is not None and self.session is not None:
            self.session.usage.outcomes["skipped"] += evaluation.plan.skipped
