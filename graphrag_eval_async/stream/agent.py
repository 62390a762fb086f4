"""Asks an agent the questions of a reference set, several at a time, and makes responses of its
answers.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
from collections.abc import Mapping
from contextvars import copy_context
from functools import partial
from inspect import isawaitable, iscoroutinefunction
from math import inf
from time import perf_counter
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.errors import TraceError, UsageError, check_boolean, check_integer, in_utf8
from graphrag_eval_async.records import Line, Unwritable, write_line
from graphrag_eval_async.sources.lines import line_of
from graphrag_eval_async.stream.http_agent import http_agent
from graphrag_eval_async.threads import CLOSING_SECONDS, outlast, run_abandonable
from graphrag_eval_async.traces.plain import as_json

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence

    from graphrag_eval_async.evaluator import Evaluator
    from graphrag_eval_async.records import Question, Reason, Record
    from graphrag_eval_async.stream.options import StreamOptions

LOGGER = logging.getLogger("graphrag_eval_async.agent")

MAX_CONCURRENCY = 8

MAX_ERROR_CHARACTERS = 10_000
"""Characters of an exception's message that a response keeps."""

HELD = (
    "question %r: the call of the agent timed out and takes one of %d slots until it returns. "
    "Give the agent a timeout of its own: a plain function cannot be stopped, an async one has "
    "to let a cancellation through"
)

SEED = 0
"""Shuffles the questions of a stream with `until`; files have the same seed."""


class Questions:
    """The questions of a reference set as lines that name the question and the repeat, and their
    answers.

    A journal recognizes answered questions by these lines. A question is read only when there is a
    slot for it, so whatever stops the reading stops the asking. For the arguments, see
    `evaluate_agent`.

    Attributes:
        lines: how many questions there are, repeats included.
        retry_errors: whether to ask again the questions whose responses in the journal failed.
        closing: the agent, if its connections are to be closed at the end.

    Raises:
        UsageError: an argument has an invalid value.
    """

    def __init__(
        self,
        agent: Callable[[Question], Any],
        evaluator: Evaluator,
        options: StreamOptions,
        max_concurrency: int,
        repeats: int,
        timeout: float | None,
        retry_errors: bool,
    ) -> None:
        if not callable(agent):
            raise UsageError(f"agent: expected a function of a question, got {agent!r}")
        check_integer("repeats", repeats)
        if timeout is not None and (type(timeout) not in (int, float) or not 0 < timeout < inf):
            raise UsageError(f"timeout: expected seconds, more than 0, or None, got {timeout!r}")
        check_boolean("retry_errors", retry_errors)
        self._agent, self._format, self._timeout = agent, evaluator.trace_format, timeout
        call = getattr(agent, "__call__", None)  # noqa: B004  (of an object, what is called)
        self.closing = agent if isinstance(agent, http_agent) else None
        self._blocks = not iscoroutinefunction(agent) and not iscoroutinefunction(call)
        self._questions = tuple(evaluator.reference.questions.values())
        self._shuffled = options.until is not None
        self._concurrency, self._slots = max_concurrency, asyncio.Semaphore(max_concurrency)
        self.lines = len(self._questions) * repeats
        self.retry_errors = retry_errors

    async def batches(self) -> AsyncGenerator[list[Record]]:
        """Yield the questions, all once before any repeats; in random order with `until`."""
        order: Sequence[int] = range(self.lines)
        if self._shuffled:
            order = random.Random(SEED).sample(order, self.lines)  # noqa: S311  (no secret)
        for place in order:
            await self._slots.acquire()
            question, repeat = self.at(place + 1)
            key = json.dumps({"question_id": question.id, "repeat": repeat}).encode()
            yield [Line(place + 1, 0, key)]

    def at(self, number: int) -> tuple[Question, int]:
        """Return the question of a line, and the repeat, from 1."""
        repeat, index = divmod(number - 1, len(self._questions))
        return self._questions[index], repeat + 1

    def skip(self) -> None:
        """Give back the slot of a question that was read and is not asked."""
        self._slots.release()

    async def answer(self, number: int) -> Record:
        """Ask the question of a line; return the agent's response."""
        question, _ = self.at(number)
        started, left = perf_counter(), list[object]()
        call = asyncio.create_task(self._call(question, left))
        try:
            await asyncio.wait([call], timeout=self._timeout)
            elapsed = perf_counter() - started
            is_late = not call.done()
        finally:
            if not call.done():
                call.cancel()
                await outlast(call, CLOSING_SECONDS)
        response: dict[str, Any] = {}
        raised = error = None
        if is_late:
            if left or not call.done():
                LOGGER.warning(HELD, question.id, self._concurrency)
            error = f"TimeoutError: the agent gave no answer within {self._timeout:g} s"
        elif call.cancelled():  # By itself: nobody else has.
            error = "CancelledError: the agent cancelled its call"
        else:
            response, raised = call.result()
        if isinstance(raised, _NoResponse):
            return Unwritable(number, 0, raised.data, raised.reason, str(raised))
        if raised is not None:
            LOGGER.debug("question %r: the agent failed", question.id, exc_info=raised)
            error = _message_of(raised)
        if error is not None:
            response = {"question_id": question.id, "error": error}
        if response.get("elapsed_sec") is None:
            response["elapsed_sec"] = elapsed
        record = write_line(response, number, 0)
        return line_of(record.data, number, 0) if isinstance(record, Line) else record

    async def _call(
        self, question: Question, left: list[object]
    ) -> tuple[dict[str, Any], BaseException | None]:
        """Call the agent; its slot stays taken until it returns. `left` gets a thread that goes
        on.
        """
        thread = None
        try:
            if self._blocks:
                call = partial(copy_context().run, _outcome, self._agent, question)
                thread = run_abandonable(call)
                value, error = await asyncio.shield(thread)
                if error is not None:
                    return {}, error
            else:
                value = self._agent(question)
            answer = await value if isawaitable(value) else value
            return self._as_response(answer, question.id), None
        except Exception as error:  # noqa: BLE001  (whatever an agent raises is an answer)
            return {}, error
        finally:
            if thread is None or thread.done():
                self._slots.release()
            else:
                left.append(thread)
                thread.add_done_callback(lambda _: self._slots.release())

    def _as_response(self, value: Any, question_id: str) -> dict[str, Any]:
        """Return the response for what an agent returned: a history, if there is a format of
        traces.
        """
        if isinstance(value, str):
            return {"question_id": question_id, "actual_answer": value}
        if self._format is not None:
            try:
                return self._format.convert(as_json(value), question_id=question_id)
            except TraceError as error:
                raise _NoResponse(
                    value, "not_a_trace", f"the agent returned no trace: {error}"
                ) from None
        if isinstance(value, list | tuple):
            return {"question_id": question_id, "actual_steps": value}
        if not isinstance(value, Mapping):
            kind = type(value).__name__
            text = (
                f"the agent returned {kind}; expected a response as a dict, a list of steps or a "
                "str"
            )
            raise _NoResponse(value, "not_an_object", text)
        response = {**value}
        if (named := response.get("question_id")) is None:
            response["question_id"] = question_id
        elif named != question_id:
            text = f"the agent names {named!r}; leave it out, or name the question that was asked"
            raise _NoResponse(value, "invalid_field", f"question_id: {text}")
        return response


class _NoResponse(Exception):  # noqa: N818
    """The agent returned something that is not a response."""

    def __init__(self, value: Any, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.data = in_utf8(repr(value)).encode()
        self.reason = reason


def _outcome(
    function: Callable[[Question], Any], question: Question
) -> tuple[Any, BaseException | None]:
    """Return what a function returns, or what it raises."""
    try:
        return function(question), None
    except (Exception, SystemExit) as error:  # noqa: BLE001  (whatever an agent raises is an answer)
        return None, error


def _message_of(error: BaseException) -> str:
    """Return the type and the message of an exception."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001  (it is the agent's)
        text = ""
    inner = error
    while isinstance(inner, BaseExceptionGroup):
        inner = inner.exceptions[0]
    if inner is not error:  # A group by itself says how many there are.
        text = f"{text}: {_message_of(inner)}"
    if len(text) > MAX_ERROR_CHARACTERS:
        text = f"{text[:MAX_ERROR_CHARACTERS]}..."
    name = type(error).__name__
    return in_utf8(f"{name}: {text}" if text else name)
