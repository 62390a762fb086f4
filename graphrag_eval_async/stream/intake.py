"""Evaluates the records of a stream one by one, or rejects them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, TypeAlias, cast

from graphrag_eval_async.evaluator import is_large
from graphrag_eval_async.helpers.threads import run_in_thread, write_in_thread
from graphrag_eval_async.records import Line, Reject, read_record
from graphrag_eval_async.records.evaluation import Evaluation, part_of
from graphrag_eval_async.records.line import LARGE_BYTES
from graphrag_eval_async.sinks.rejects import Rejected, RejectWriter
from graphrag_eval_async.stream.read_ahead import Deferred

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
    """Evaluates the records of a stream.

    It has no reference to the stream: otherwise work in progress would keep a stream alive that
    the caller has dropped.

    Attributes:
        evaluator: what evaluates the records.
        session: the session with the judge; None if nothing is judged.
        execution: the session that runs queries; None if none are run.
        counts: the counts of the stream, which also number the samples of each question.
        done: the lines that are already evaluated, which are skipped; None without a journal and
            `dedupe`.
        questions: the questions that an agent answers; None if the records are responses.
        until: the condition that ends the stream; None without one.
        options: the options of the stream.
        stores_rejects: whether rejects are returned, so that a journal stores them.
    """

    evaluator: Evaluator
    session: JudgeSession | None
    execution: ExecutionSession | None
    counts: Counts
    done: Done | None
    questions: Questions | None
    until: UntilDecided | None
    options: StreamOptions
    stores_rejects: bool

    def __post_init__(self) -> None:
        # None if responses need more than the fast path can do.
        self._evaluate_fast: Callable[[Line, ResultSource | None], Evaluation | None] | None = None
        if self.questions is None:
            fast_path = self.evaluator.fast_path(self.counts.take_sample)
            if fast_path is not None:
                self._evaluate_fast = fast_path.evaluate
        self._read = self.evaluator.reader()

    def evaluate(self, record: Record) -> Outcome | Deferred:
        """Evaluate a record, or return the work that will; the function of a `ReadAhead`.

        Returns:
            the evaluation, if it needs no waiting; a `partial` if it does; a `Deferred` for a large
            record; a `Rejected` or None if the record has no evaluation.
        """
        is_short_line = type(record) is Line and len(record.data) < LARGE_BYTES
        if not is_short_line and is_large(record):
            return Deferred(partial(self._evaluate_large, record))

        # With a journal or with `dedupe`, the record may already be evaluated. If it is not,
        # `admit` returns the source that its result will name.
        source = None
        if self.done is not None:
            source = self.done.admit(record)
            is_already_evaluated = source is None
            if is_already_evaluated:
                return self._skip(record)

        if self._evaluate_fast is not None and is_short_line:
            evaluation = self._evaluate_fast(record, source)  # type: ignore[arg-type]
            if evaluation is not None:
                return evaluation
        if self.questions is not None:
            return partial(self._ask, self.questions, record.number, source)
        return self._evaluate(record, self._read(record), source)

    def _skip(self, record: Record) -> Outcome:
        """Return the outcome of a record that was already evaluated.

        With `until`, it is the sample that an earlier run took. `until` counts it in its turn and
        then drops it, so the consumer never sees it.
        """
        if self.questions is not None:
            self.questions.skip()
        if self.until is None:
            return None
        return cast("Outcome", self.until.take_restored(record))

    async def _evaluate_large(self, record: Record) -> Outcome:
        """Evaluate a record that is too large to be hashed, read or written on the event loop.

        Returns:
            the same as `evaluate`, except a `Deferred`.
        """
        source = None
        if self.done is not None:
            source = await run_in_thread(partial(self.done.admit, record))
            is_already_evaluated = source is None
            if is_already_evaluated:
                return self._skip(record)
        response = await run_in_thread(partial(self._read, record))
        if not isinstance(response, Reject):
            return self._evaluate(record, response, source)

        writer = self.options.on_reject
        if not isinstance(writer, RejectWriter):
            return self._reject(response, source)
        # The reject quotes the whole record, so it is written in a thread, too. It is counted
        # before that, since a cancellation may end this coroutine after the write.
        self.counts.rejects.add(response, keep=False)
        await write_in_thread(partial(writer, response))
        return self._outcome_of_reject(response, source)

    async def _ask(
        self, questions: Questions, number: int, source: ResultSource | None, hand_out: HandOut
    ) -> Evaluation | Rejected | None:
        """Ask the agent a question and evaluate its answer.

        Args:
            questions: the questions.
            number: number of the line that stands for the question.
            source: the line, as results name it; None without a journal and `dedupe`.
            hand_out: delivers an evaluation that is not judged yet; see `stages` of
                `evaluate_stream`.
        """
        record = await questions.answer(number)
        read = partial(read_record, record, self.evaluator.reference.questions)
        if is_large(record):
            response = await run_in_thread(read)
        else:
            response = read()

        question, repeat = questions.question_of_line(number)
        if isinstance(response, Reject):
            response = replace(response, message=f"question {question.id!r}: {response.message}")
        outcome = self._evaluate(record, response, source, repeat)
        if isinstance(outcome, partial):
            return await outcome(hand_out)
        return outcome

    def _evaluate(
        self,
        record: Record,
        response: Response | Reject,
        source: ResultSource | None,
        repeat: int | None = None,
    ) -> Outcome:
        """Evaluate a response without waiting, or return the work that will; reject a reject.

        Args:
            record: the record.
            response: what was read from it.
            source: the record, as results name it; None without a journal and `dedupe`.
            repeat: number of the sample, if an agent was asked; otherwise, samples are counted.
        """
        if isinstance(response, Reject):
            return self._reject(response, source)

        # This also counts the response as an answer, so it is called for an agent, too.
        sample = self.counts.take_sample(response.question_id)
        if repeat is not None:
            sample = repeat
        evaluation = None
        if self.execution is None:
            evaluation = self.evaluator.score_at_once(record, response, sample)
            if evaluation is not None:
                self._record_source(evaluation, source)
                if not self.evaluator.pending(evaluation):
                    return evaluation
        return partial(self._finish, evaluation, response, sample, source)

    def _reject(self, reject: Reject, source: ResultSource | None) -> Rejected | None:
        """Count a reject, and return its outcome.

        Raises:
            RejectedResponse: `on_reject` is "raise".
        """
        self.counts.reject(reject)
        return self._outcome_of_reject(reject, source)

    def _outcome_of_reject(self, reject: Reject, source: ResultSource | None) -> Rejected | None:
        """Return what a journal stores of a reject; None without a journal."""
        if self.stores_rejects:
            return Rejected(reject, source)
        return None

    async def _finish(
        self,
        evaluation: Evaluation | None,
        response: Response,
        sample: int | None,
        source: ResultSource | None,
        hand_out: HandOut,
    ) -> Evaluation | Rejected | None:
        """Finish an evaluation that needs queries, a thread or a judge.

        Args:
            evaluation: the evaluation before judging; None if it is not scored yet.
            response: the response.
            sample: number of the sample.
            source: the record, as results name it; None without a journal and `dedupe`.
            hand_out: delivers the evaluation before it is judged, if `stages` asks for that.

        Returns:
            the evaluation; None if it needs a judge and `drop_unsent` has been called.
        """
        is_finished = False
        try:
            if evaluation is None:
                executed = await self.evaluator.execute(response, self.execution)
                evaluation = await self.evaluator.score_in_thread(response, sample, executed)
                self._record_source(evaluation, source)
            is_judged = await self._judge(evaluation, hand_out)
            is_finished = True
        finally:
            if not is_finished:
                # An error has ended the run, or a signal.
                self.counts.unfinished.append(response.question_id)
        if not is_judged:
            self.counts.give_back_sample(response.question_id)
            return None
        return evaluation

    async def _judge(self, evaluation: Evaluation, hand_out: HandOut) -> bool:
        """Add what judges say to a scored evaluation, if it needs a judge.

        Args:
            evaluation: the evaluation.
            hand_out: delivers the evaluation before it is judged, if `stages` asks for that.

        Returns:
            whether the evaluation is complete. It is not if `drop_unsent` has been called.
        """
        if not self.evaluator.pending(evaluation):
            return True
        if self.options.stages:
            hand_out(part_of(evaluation, self.evaluator.pending(evaluation)))
        return await self.evaluator.judge(evaluation, self.session)

    def _record_source(self, evaluation: Evaluation, source: ResultSource | None) -> None:
        """Set the source of a new evaluation, and count the judge's calls that its plan skips."""
        evaluation.source = source
        if evaluation.plan is not None and self.session is not None:
            self.session.usage.outcomes["skipped"] += evaluation.plan.skipped
