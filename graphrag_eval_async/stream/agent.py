"""Asks an agent the questions of a reference set and converts its answers to responses."""

from __future__ import annotations

import asyncio
import json
import logging
import random
from collections.abc import Mapping
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import partial
from inspect import isawaitable, iscoroutinefunction
from math import inf
from time import perf_counter
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.errors import TraceError, UsageError, check_boolean, check_integer
from graphrag_eval_async.helpers.threads import CLOSING_SECONDS, outlast, run_abandonable
from graphrag_eval_async.records import Line, Unwritable, write_line
from graphrag_eval_async.sources.lines import line_of
from graphrag_eval_async.traces.plain import as_json
from graphrag_eval_async.unicode import in_utf8

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence

    from graphrag_eval_async.evaluator import Evaluator
    from graphrag_eval_async.records import Question, Reason, Record

LOGGER = logging.getLogger("graphrag_eval_async.agent")

MAX_CONCURRENCY = 8
"""How many calls of an agent may run at a time, unless an option says otherwise."""

MAX_ERROR_CHARACTERS = 10_000
"""Characters of an exception's message that a response keeps."""

SLOT_IS_TAKEN = (
    "question %r: the call of the agent timed out and takes one of %d slots until it returns. "
    "Give the agent a timeout of its own: a plain function cannot be stopped, an async one has "
    "to let a cancellation through"
)

SEED = 0
"""Shuffles the questions of a stream with `until`; files have the same seed."""


class Questions:
    """The questions for an agent, read like the lines of a file, and the agent's answers.

    Each line names a question and the number of its repeat, such as
    ``{"question_id": "q1", "repeat": 1}``. A journal recognizes answered questions by these lines.
    At most `max_concurrency` calls of the agent run at a time: each takes a slot, and the next line
    is read when a slot is free. So whatever stops the reading also stops the asking.

    Attributes:
        lines: number of lines: the number of questions times `repeats`.
        retry_errors: whether to ask again the questions whose responses in the journal failed.
        http_agent: the agent, if its connections are to be closed at the end.
    """

    def __init__(
        self,
        agent: Callable[[Question], Any],
        evaluator: Evaluator,
        *,
        max_concurrency: int,
        repeats: int,
        timeout: float | None,
        retry_errors: bool,
        is_shuffled: bool,
    ) -> None:
        """Prepare to ask the questions.

        Args:
            agent: the agent; see `evaluate_agent`.
            evaluator: what evaluates the answers; it has the questions.
            max_concurrency: how many calls may run at a time.
            repeats: how often to ask each question.
            timeout: limit of one call in seconds; None for no limit.
            retry_errors: whether to ask again the questions whose responses in the journal failed.
            is_shuffled: whether to ask in random order, which is the same in each run.

        Raises:
            UsageError: an argument has an invalid value.
        """
        if not callable(agent):
            raise UsageError(f"agent: expected a function of a question, got {agent!r}")
        check_integer("repeats", repeats)
        if timeout is not None and (type(timeout) not in (int, float) or not 0 < timeout < inf):
            raise UsageError(f"timeout: expected seconds, more than 0, or None, got {timeout!r}")
        check_boolean("retry_errors", retry_errors)

        self._agent = agent
        self._is_blocking = not _is_asynchronous(agent)
        self._timeout = timeout
        self._trace_format = evaluator.trace_format
        self._max_concurrency = max_concurrency
        self._slots = asyncio.Semaphore(max_concurrency)
        self._questions = tuple(evaluator.reference.questions.values())
        self._is_shuffled = is_shuffled
        self.lines = len(self._questions) * repeats
        self.retry_errors = retry_errors
        # Most agents are functions, and the module also imports what sends requests.
        from graphrag_eval_async.stream.http_agent import http_agent

        self.http_agent = agent if isinstance(agent, http_agent) else None

    # The lines

    async def batches(self) -> AsyncGenerator[list[Record]]:
        """Yield the lines one by one, each as soon as a slot is free.

        All questions come once, then all come again for the second repeat, and so on. Shuffled
        lines come in random order, so a question may be repeated before another one is asked.
        """
        numbers: Sequence[int] = range(1, self.lines + 1)
        if self._is_shuffled:
            random_order = random.Random(SEED)  # noqa: S311  (no secret)
            numbers = random_order.sample(numbers, k=self.lines)
        for number in numbers:
            # `answer` or `skip` releases the slot.
            await self._slots.acquire()
            question, repeat = self.question_of_line(number)
            content = json.dumps({"question_id": question.id, "repeat": repeat})
            yield [Line(number=number, offset=0, data=content.encode())]

    def question_of_line(self, number: int) -> tuple[Question, int]:
        """Return the question that a line stands for, and the number of the repeat, from 1.

        Args:
            number: number of the line, from 1.
        """
        finished_rounds, index = divmod(number - 1, len(self._questions))
        return self._questions[index], finished_rounds + 1

    def skip(self) -> None:
        """Release the slot of a line that was read but whose question is not asked."""
        self._slots.release()

    # The answers

    async def answer(self, number: int) -> Record:
        """Ask the agent the question of a line, and release the slot of the line.

        Args:
            number: number of the line.

        Returns:
            the agent's response as a line with the same number; an `Unwritable`, which is rejected
            later, if the agent returned no response or one that cannot be written as JSON.
        """
        question, _ = self.question_of_line(number)
        call = _Call(
            self._agent,
            question,
            is_blocking=self._is_blocking,
            to_response=partial(self._to_response, question_id=question.id),
            release_slot=self._slots.release,
        )
        try:
            response = await call.response(self._timeout)
        except _NoResponse as error:
            return Unwritable(
                number=number,
                offset=0,
                data=error.data,
                reason=error.reason,
                message=str(error),
            )
        if call.holds_slot:
            # The call timed out, but its thread or coroutine still runs.
            LOGGER.warning(SLOT_IS_TAKEN, question.id, self._max_concurrency)
        if response.get("elapsed_sec") is None:
            response["elapsed_sec"] = call.seconds

        record = write_line(response, number, offset=0)
        if isinstance(record, Unwritable):
            return record
        # A response over the limit of a line becomes a `LongLine`, which is rejected later.
        return line_of(record.data, number, offset=0)

    def _to_response(self, answer: Any, *, question_id: str) -> dict[str, Any]:
        """Convert what an agent returned to a response.

        Args:
            answer: a str, which is the answer; a list of steps; a response as a dict; or, if the
                evaluator has a trace format, a history in this format.
            question_id: id of the question that the agent was asked.

        Raises:
            _NoResponse: `answer` is nothing of this, or names another question.
        """
        # Anything but a response as a dict names no question, so it gets the one that was asked.
        if isinstance(answer, str):
            return {"question_id": question_id, "actual_answer": answer}
        if self._trace_format is not None:
            try:
                return self._trace_format.convert(as_json(answer), question_id=question_id)
            except TraceError as error:
                message = f"the agent returned no trace: {error}"
                raise _NoResponse(answer, "not_a_trace", message) from None
        if isinstance(answer, list | tuple):
            return {"question_id": question_id, "actual_steps": answer}
        if not isinstance(answer, Mapping):
            message = (
                f"the agent returned {type(answer).__name__}; "
                "expected a response as a dict, a list of steps or a str"
            )
            raise _NoResponse(answer, "not_an_object", message)

        # A response may name the question itself. The agent's dict is not changed.
        response = {**answer}
        named_id = response.get("question_id")
        if named_id is None:
            response["question_id"] = question_id
        elif named_id != question_id:
            message = (
                f"question_id: the agent names {named_id!r}; leave it out, or name the question "
                "that was asked"
            )
            raise _NoResponse(answer, "invalid_field", message)
        return response


@dataclass(frozen=True, slots=True)
class _Outcome:
    """How a call of an agent ended: with a response or with an error.

    The error is a value here, since an `asyncio.Task` does not keep every exception that an agent
    may raise: it refuses `StopIteration`, and lets `SystemExit` end the event loop.
    """

    response: dict[str, Any] = field(default_factory=dict)
    error: BaseException | None = None


class _Call:
    """One call of an agent. It occupies a slot until the agent has returned, even after a timeout.

    Attributes:
        seconds: how long `response` waited for the agent.
        holds_slot: whether the slot is still taken.
    """

    def __init__(
        self,
        agent: Callable[[Question], Any],
        question: Question,
        *,
        is_blocking: bool,
        to_response: Callable[[Any], dict[str, Any]],
        release_slot: Callable[[], None],
    ) -> None:
        """Prepare a call.

        Args:
            agent: the agent.
            question: the question.
            is_blocking: whether the agent is a plain function, which needs a thread.
            to_response: returns the response for what the agent returns, or raises `_NoResponse`.
            release_slot: called once the agent has returned.
        """
        self.seconds = 0.0
        self.holds_slot = True
        self._agent = agent
        self._question = question
        self._is_blocking = is_blocking
        self._to_response = to_response
        self._release_slot = release_slot

    async def response(self, timeout: float | None) -> dict[str, Any]:  # noqa: ASYNC109  (the call goes on)
        """Call the agent, and wait for its answer.

        Args:
            timeout: maximum time to wait in seconds; None for no limit.

        Returns:
            the response; one with an `error` if the agent raised an exception or took too long.

        Raises:
            _NoResponse: the agent returned something that is not a response.
        """
        started = perf_counter()
        task = asyncio.create_task(self._outcome())
        try:
            await asyncio.wait([task], timeout=timeout)
            self.seconds = perf_counter() - started
            is_late = not task.done()
        finally:
            # The agent took too long, or this coroutine was cancelled because the stream ends.
            if not task.done():
                task.cancel()
                await outlast(task, CLOSING_SECONDS)

        if is_late:
            return self._failed(f"TimeoutError: the agent gave no answer within {timeout:g} s")
        if task.cancelled():
            # Nobody else has cancelled it, since it was done in time.
            return self._failed("CancelledError: the agent cancelled its call")
        outcome = task.result()
        if isinstance(outcome.error, _NoResponse):
            raise outcome.error
        if outcome.error is not None:
            message = "question %r: the agent failed"
            LOGGER.debug(message, self._question.id, exc_info=outcome.error)
            return self._failed(_message_of(outcome.error))
        return outcome.response

    def _failed(self, error: str) -> dict[str, Any]:
        """Return the response that stands for a failed call."""
        return {"question_id": self._question.id, "error": error}

    async def _outcome(self) -> _Outcome:
        """Call the agent, and return how the call ended; release the slot when it has.

        Raises:
            CancelledError: this task was cancelled.
        """
        # Only of a blocking agent.
        thread: asyncio.Future[tuple[Any, BaseException | None]] | None = None
        try:
            if self._is_blocking:
                # The thread sees the same values of context variables as an async agent would.
                run_in_context = copy_context().run
                thread = run_abandonable(
                    partial(run_in_context, _result_or_error, self._agent, self._question)
                )
                # A cancellation of this task ends the waiting, but cannot end the thread.
                answer, error = await asyncio.shield(thread)
                if error is not None:
                    return _Outcome(error=error)
            else:
                answer = self._agent(self._question)
            if isawaitable(answer):
                answer = await answer
            return _Outcome(self._to_response(answer))
        except Exception as error:  # noqa: BLE001  (whatever an agent raises is an answer)
            return _Outcome(error=error)
        finally:
            is_thread_running = thread is not None and not thread.done()
            if thread is not None and is_thread_running:
                thread.add_done_callback(lambda _: self._return_slot())
            else:
                self._return_slot()

    def _return_slot(self) -> None:
        """Release the slot, since the agent has returned."""
        self.holds_slot = False
        self._release_slot()


class _NoResponse(Exception):  # noqa: N818
    """Raised if an agent returns something that cannot be a response.

    Attributes:
        data: what it returned, as bytes that a reject can quote.
        reason: the reason of the reject.
    """

    def __init__(self, answer: Any, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.data = in_utf8(repr(answer)).encode()
        self.reason = reason


def _is_asynchronous(agent: Callable[[Question], Any]) -> bool:
    """Return whether an agent is an async function, or an object with an async `__call__`."""
    call_method = getattr(agent, "__call__", None)  # noqa: B004
    return iscoroutinefunction(agent) or iscoroutinefunction(call_method)


def _result_or_error(
    function: Callable[[Question], Any], question: Question
) -> tuple[Any, BaseException | None]:
    """Call a function; return its result and None, or None and the exception that it raises."""
    try:
        return function(question), None
    except (Exception, SystemExit) as error:  # noqa: BLE001  (whatever an agent raises is an answer)
        return None, error


def _message_of(error: BaseException) -> str:
    """Return the type and the message of an exception, such as "ValueError: no such table".

    For an exception group, add the type and the message of the first exception in it.
    """
    try:
        message = str(error)
    except Exception:  # noqa: BLE001  (`__str__` of an agent's exception may raise anything)
        message = ""

    # The message of a group says only how many exceptions are in it.
    first_error = error
    while isinstance(first_error, BaseExceptionGroup):
        first_error = first_error.exceptions[0]
    if first_error is not error:
        message = f"{message}: {_message_of(first_error)}"

    if len(message) > MAX_ERROR_CHARACTERS:
        message = f"{message[:MAX_ERROR_CHARACTERS]}..."
    name = type(error).__name__
    return in_utf8(f"{name}: {message}" if message else name)
