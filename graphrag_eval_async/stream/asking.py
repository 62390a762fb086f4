"""Asks an agent the questions of a reference set, several at a time."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import logging
from functools import partial
from inspect import isawaitable, iscoroutinefunction
from math import inf
from time import perf_counter
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.errors import UsageError, check_boolean, check_integer
from graphrag_eval_async.evaluator import is_large, weight
from graphrag_eval_async.records import Line, Reject, read_record, write_line
from graphrag_eval_async.records.reject import reject
from graphrag_eval_async.sources.lines import long_line
from graphrag_eval_async.stream.answers import NoResponse, as_response, call_in_thread, message_of
from graphrag_eval_async.stream.bounded_map import Later
from graphrag_eval_async.threads import CLOSING_SECONDS, outlast, run_in_thread

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence

    from graphrag_eval_async.evaluator import Evaluator
    from graphrag_eval_async.records import Question, Record, Response
    from graphrag_eval_async.records.evaluation import Evaluation
    from graphrag_eval_async.sinks.journal import Source
    from graphrag_eval_async.stream.intake import Intake, Outcome
    from graphrag_eval_async.stream.options import StreamOptions
    from graphrag_eval_async.stream.resuming import Resuming

    HandOut = Callable[[Evaluation], None]

LOGGER = logging.getLogger("graphrag_eval_async.agent")

MAX_CONCURRENCY = 8

SEED = 0
"""Shuffles the questions of a stream with `until`; files have the same seed."""


@dataclasses.dataclass(frozen=True, slots=True)
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


class Asking:
    """Asks the questions and passes on the answers.

    The stream reads the questions from it, each as a line that names the question and the repeat. A journal
    recognizes answered questions by this line. A question is read only when there is a slot for it, so
    whatever stops the reading stops the asking.

    Attributes:
        lines: how many questions there are, repeats included.
    """

    def __init__(
        self,
        agent: Agent,
        evaluator: Evaluator,
        intake: Intake,
        resuming: Resuming | None,
        options: StreamOptions,
    ) -> None:
        known = evaluator.reference.questions
        self.lines = len(known) * agent.repeats
        self._agent = agent
        self._blocks = agent.blocks
        self._known = known
        self._format = evaluator.trace_format
        self._questions = tuple(known.values())
        self._intake = intake
        self._resuming = resuming
        self._max_line_bytes = options.max_line_bytes
        self._shuffled = options.until is not None
        self._slots = asyncio.Semaphore(agent.max_concurrency)
        self._overdue = 0
        if resuming is not None:
            resuming.retry_errors = agent.retry_errors

    async def batches(self) -> AsyncGenerator[list[Record]]:
        """Return the questions, all once before any repeats; in random order with `until`."""
        order: Sequence[int] = range(self.lines)
        if self._shuffled:
            import random  # Takes a millisecond to import, as few streams need.

            order = random.Random(SEED).sample(order, self.lines)  # noqa: S311  (no secret)
        for place in order:
            await self._slots.acquire()
            question, repeat = self._at(place)
            key = json.dumps({"question_id": question.id, "repeat": repeat}).encode()
            yield [Line(place + 1, 0, key)]

    def _at(self, place: int) -> tuple[Question, int]:
        repeat, index = divmod(place, len(self._questions))
        return self._questions[index], repeat + 1

    def evaluate(self, record: Record) -> Outcome:
        """Return an awaitable for the answer to a question; None if an earlier run answered it."""
        source = None
        if self._resuming is not None:
            source = self._resuming.admission.admit(record)
            if source is None:
                self._slots.release()
                return None
        return Later(partial(self._answer, record, source))

    async def _answer(self, place: Record, source: Source | None, _hand_out: HandOut) -> Outcome:
        question, _ = self._at(place.number - 1)
        answer = await self._ask(question)
        if isinstance(answer, NoResponse):
            shown = Line(place.number, 0, answer.data)
            return await self._take(shown, reject(shown, answer.reason, str(answer)), source)
        record: Record = write_line(answer, place.number, 0)
        if isinstance(record, Line) and len(record.data) > self._max_line_bytes:
            record = long_line(record.data, place.number, 0, self._max_line_bytes)
        read = partial(read_record, record, self._known, self._max_line_bytes)
        if is_large(record):  # From now on, it counts by its size.
            return Later(partial(self._take_large, record, read, source), weight=max(1, weight(record)))
        return await self._take(record, read(), source)

    async def _take_large(
        self, record: Record, read: Callable[[], Response | Reject], source: Source | None, _: HandOut
    ) -> Outcome:
        return await self._take(record, await run_in_thread(read), source)

    async def _take(self, record: Record, response: Response | Reject, source: Source | None) -> Outcome:
        question, repeat = self._at(record.number - 1)
        if isinstance(response, Reject):
            message = f"question {question.id!r}: {response.message}"
            await self._intake.reject_large(dataclasses.replace(response, message=message), source)
            return None
        return self._intake.take(record, response, source, repeat)

    async def _ask(self, question: Question) -> dict[str, Any] | NoResponse:
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
        if isinstance(error, NoResponse):
            return error
        if error is not None:
            LOGGER.debug("question %r: the agent failed", question.id, exc_info=error)
            return {**named, "error": message_of(error), "elapsed_sec": elapsed}
        if response.get("elapsed_sec") is None:
            response["elapsed_sec"] = elapsed
        return response

    async def _call(self, question: Question) -> tuple[dict[str, Any], BaseException | None]:
        """Call the agent; its slot stays taken until it returns, even after a timeout."""
        thread = None
        try:
            if self._blocks:
                thread = call_in_thread(self._agent.function, question)
                value, error = await asyncio.shield(thread)
                if error is not None:
                    return {}, error
            else:
                value = self._agent.function(question)
            answer = await value if isawaitable(value) else value
            return as_response(answer, question.id, self._format), None
        except Exception as error:  # noqa: BLE001  (whatever an agent raises is an answer)
            return {}, error
        finally:
            if thread is None or thread.done():
                self._slots.release()
            else:
                self._overdue += 1
                thread.add_done_callback(self._note_return)
                thread.add_done_callback(lambda _: self._slots.release())

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
