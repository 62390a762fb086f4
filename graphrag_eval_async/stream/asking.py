"""Asks an agent the questions of a reference set, several at a time, and makes responses of its answers."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import Mapping
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass
from inspect import isawaitable, iscoroutinefunction
from math import inf
from threading import Thread
from time import perf_counter
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.errors import TraceError, UsageError, check_boolean, check_integer, in_utf8
from graphrag_eval_async.records import Line, Unwritable, write_line
from graphrag_eval_async.sources.lines import long_line
from graphrag_eval_async.threads import CLOSING_SECONDS, first_of, outlast

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence

    from graphrag_eval_async.evaluator import Evaluator
    from graphrag_eval_async.records import Question, Reason, Record
    from graphrag_eval_async.stream.options import StreamOptions

LOGGER = logging.getLogger("graphrag_eval_async.agent")

MAX_CONCURRENCY = 8

MAX_ERROR_CHARACTERS = 10_000
"""Characters of an exception's message that a response keeps."""

SEED = 0
"""Shuffles the questions of a stream with `until`; files have the same seed."""


@dataclass(frozen=True, slots=True)
class Agent:
    """Whom to ask, and how; see `evaluate_agent`.

    Raises:
        UsageError: an option has an invalid value.
    """

    function: Callable[[Question], Any]
    max_concurrency: int = MAX_CONCURRENCY
    repeats: int = 1
    timeout: float | None = None
    retry_errors: bool = False

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise UsageError(f"agent: expected a function of a question, got {self.function!r}")
        for name in ("max_concurrency", "repeats"):
            check_integer(name, getattr(self, name))
        timeout = self.timeout
        if timeout is not None and (type(timeout) not in (int, float) or not 0 < timeout < inf):
            raise UsageError(f"timeout: expected seconds, more than 0, or None, got {timeout!r}")
        check_boolean("retry_errors", self.retry_errors)

    @property
    def blocks(self) -> bool:
        """Whether the agent is a plain function, which runs in a thread and cannot be cancelled."""
        return not iscoroutinefunction(self.function) and not iscoroutinefunction(
            getattr(self.function, "__call__", None)  # noqa: B004  (of an object, what is called)
        )


class Questions:
    """The questions of a reference set as lines that name the question and the repeat, and their answers.

    A journal recognizes answered questions by these lines. A question is read only when there is a slot for
    it, so whatever stops the reading stops the asking.

    Attributes:
        lines: how many questions there are, repeats included.
    """

    def __init__(self, agent: Agent, evaluator: Evaluator, options: StreamOptions) -> None:
        self._agent, self._format = agent, evaluator.trace_format
        self._questions = tuple(evaluator.reference.questions.values())
        self.lines = len(self._questions) * agent.repeats
        self._max_line_bytes = options.max_line_bytes
        self._shuffled = options.until is not None
        self._slots = asyncio.Semaphore(agent.max_concurrency)
        self._overdue = 0

    async def batches(self) -> AsyncGenerator[list[Record]]:
        """Yield the questions, all once before any repeats; in random order with `until`."""
        order: Sequence[int] = range(self.lines)
        if self._shuffled:
            import random  # Takes a millisecond to import, as few streams need.

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
        answer = await self._ask(question)
        if isinstance(answer, _NoResponse):
            return Unwritable(number, 0, answer.data, answer.reason, str(answer))
        record = write_line(answer, number, 0)
        if isinstance(record, Line) and len(record.data) > self._max_line_bytes:
            return long_line(record.data, number, 0, self._max_line_bytes)
        return record

    async def _ask(self, question: Question) -> dict[str, Any] | _NoResponse:
        """Return the agent's answer as a response."""
        started = perf_counter()
        call = asyncio.create_task(self._call(question))
        try:
            await asyncio.wait([call], timeout=self._agent.timeout)
            elapsed = perf_counter() - started
            is_late = not call.done()
        finally:
            if not call.done():
                call.cancel()
                await outlast(call, CLOSING_SECONDS)
        named = {"question_id": question.id}
        if is_late:
            if not call.done():
                self._overdue += 1
                call.add_done_callback(self._note_return)
            self._complain()
            text = f"TimeoutError: the agent gave no answer within {self._agent.timeout:g} s"
            return {**named, "error": text, "elapsed_sec": elapsed}
        if call.cancelled():  # By itself: nobody else has.
            return {**named, "error": "CancelledError: the agent cancelled its call", "elapsed_sec": elapsed}
        response, error = call.result()
        if isinstance(error, _NoResponse):
            return error
        if error is not None:
            LOGGER.debug("question %r: the agent failed", question.id, exc_info=error)
            return {**named, "error": _message_of(error), "elapsed_sec": elapsed}
        if response.get("elapsed_sec") is None:
            response["elapsed_sec"] = elapsed
        return response

    async def _call(self, question: Question) -> tuple[dict[str, Any], BaseException | None]:
        """Call the agent; its slot stays taken until it returns, even after a timeout."""
        thread = None
        try:
            if self._agent.blocks:
                thread = _call_in_thread(self._agent.function, question)
                value, error = await asyncio.shield(thread)
                if error is not None:
                    return {}, error
            else:
                value = self._agent.function(question)
            answer = await value if isawaitable(value) else value
            return self._as_response(answer, question.id), None
        except Exception as error:  # noqa: BLE001  (whatever an agent raises is an answer)
            return {}, error
        finally:
            if thread is None or thread.done():
                self._slots.release()
            else:
                self._overdue += 1
                thread.add_done_callback(self._note_return)
                thread.add_done_callback(lambda _: self._slots.release())

    def _as_response(self, value: Any, question_id: str) -> dict[str, Any]:
        """Return the response for what an agent returned: a history, if there is a format of traces."""
        if isinstance(value, str):
            return {"question_id": question_id, "actual_answer": value}
        if self._format is not None:
            from graphrag_eval_async.traces.plain import as_json

            try:
                return self._format.convert(as_json(value), question_id=question_id)
            except TraceError as error:
                raise _NoResponse(value, "not_a_trace", f"the agent returned no trace: {error}") from None
        if isinstance(value, list | tuple):
            return {"question_id": question_id, "actual_steps": value}
        if not isinstance(value, Mapping):
            kind = type(value).__name__
            text = f"the agent returned {kind}; expected a response as a dict, a list of steps or a str"
            raise _NoResponse(value, "not_an_object", text)
        response = {**value}
        if response.get("question_id") is None:
            response["question_id"] = question_id
        elif response["question_id"] != question_id:
            named = response["question_id"]
            text = (
                f"question_id: the agent names {named!r}; leave it out, or name the question that was asked"
            )
            raise _NoResponse(value, "invalid_field", text)
        return response

    def _note_return(self, _: object) -> None:
        self._overdue -= 1

    def _complain(self) -> None:
        """Warn if agents that timed out hold all slots."""
        if self._overdue == self._agent.max_concurrency:
            LOGGER.warning(
                "all %d slots are taken by calls of the agent that timed out and have not returned; no "
                "question is asked until one does. Give the agent timeouts of its own: a plain function "
                "cannot be stopped, and an async one has to let its cancellation through",
                self._overdue,
            )


class _NoResponse(Exception):  # noqa: N818
    """The agent returned something that is not a response."""

    def __init__(self, value: Any, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.data = in_utf8(repr(value)).encode()
        self.reason = reason


def _message_of(error: BaseException) -> str:
    """Return the type and the message of an exception."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001  (it is the agent's)
        text = ""
    if isinstance(error, BaseExceptionGroup):  # Which by itself says how many there are.
        text = f"{text}: {_message_of(first_of(error))}"
    if len(text) > MAX_ERROR_CHARACTERS:
        text = f"{text[:MAX_ERROR_CHARACTERS]}..."
    name = type(error).__name__
    return in_utf8(f"{name}: {text}" if text else name)


def _call_in_thread(
    function: Callable[[Question], Any], question: Question
) -> asyncio.Future[tuple[Any, BaseException | None]]:
    """Call a function in a daemon thread; return what it returns, or raise what it raises."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()
    context = copy_context()

    def call() -> None:
        value: Any = None
        error: BaseException | None = None
        try:
            value = context.run(function, question)
        except (Exception, SystemExit) as raised:  # noqa: BLE001  (whatever an agent raises is an answer)
            error = raised
        finally:
            ended = error or sys.exception()
            with suppress(RuntimeError):  # The loop may be closed.
                loop.call_soon_threadsafe(future.set_result, (value, ended))
            del error, ended  # Their tracebacks have this frame.

    Thread(target=call, name="graphrag-eval-async agent", daemon=True).start()
    return future
