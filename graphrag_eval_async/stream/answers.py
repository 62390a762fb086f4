"""Turns what an agent returns or raises into a response."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from contextlib import suppress
from contextvars import copy_context
from threading import Thread
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.errors import TraceError, in_utf8
from graphrag_eval_async.threads import first_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphrag_eval_async.records import Question, Reason
    from graphrag_eval_async.traces import TraceFormat

MAX_ERROR_CHARACTERS = 10_000
"""Characters of an exception's message that a response keeps."""


class NoResponse(Exception):  # noqa: N818
    """The agent returned something that is not a response."""

    def __init__(self, value: Any, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.data = in_utf8(repr(value)).encode()
        self.reason = reason


def as_response(value: Any, question_id: str, traces: TraceFormat | None = None) -> dict[str, Any]:
    """Return the response for what an agent returned; with `traces`, that is a history in this format.

    Raises:
        NoResponse: it is none.
    """
    if isinstance(value, str):
        return {"question_id": question_id, "actual_answer": value}
    if traces is not None:
        from graphrag_eval_async.traces.plain import as_json

        try:
            return traces.convert(as_json(value), question_id=question_id)
        except TraceError as error:
            raise NoResponse(value, "not_a_trace", f"the agent returned no trace: {error}") from None
    if isinstance(value, list | tuple):
        return {"question_id": question_id, "actual_steps": value}
    if not isinstance(value, Mapping):
        kind = type(value).__name__
        text = f"the agent returned {kind}; expected a response as a dict, a list of steps or a str"
        raise NoResponse(value, "not_an_object", text)
    response = dict(value)
    named = response.get("question_id")
    if named is None:
        response["question_id"] = question_id
    elif not isinstance(named, str) or named != question_id:
        text = f"question_id: the agent names {named!r}; leave it out, or name the question that was asked"
        raise NoResponse(value, "invalid_field", text)
    return response


def message_of(error: BaseException) -> str:
    """Return the type and the message of an exception."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001  (it is the agent's)
        text = ""
    if isinstance(error, BaseExceptionGroup):  # Which by itself says how many there are.
        text = f"{text}: {message_of(first_of(error))}"
    if len(text) > MAX_ERROR_CHARACTERS:
        text = f"{text[:MAX_ERROR_CHARACTERS]}..."
    name = type(error).__name__
    return in_utf8(f"{name}: {text}" if text else name)


def call_in_thread(
    function: Callable[[Question], Any], question: Question
) -> asyncio.Future[tuple[Any, BaseException | None]]:
    """Call a function in a daemon thread; return what it returns, or raise what it raises."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()

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

    context = copy_context()
    Thread(target=call, name="graphrag-eval-async agent", daemon=True).start()
    return future
