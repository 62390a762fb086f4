"""The calls that the metrics of one result make: equal ones are made once."""

from __future__ import annotations

import asyncio
from functools import partial
from math import fsum
from typing import TYPE_CHECKING, Any, TypeVar

from graphrag_eval_async.errors import JudgeError
from graphrag_eval_async.judge.call import Call, checked_reply, checked_vectors
from graphrag_eval_async.judge.limits import Clock

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphrag_eval_async.judge.protocol import Message, ResponseFormat
    from graphrag_eval_async.judge.sender import Sender
    from graphrag_eval_async.judge.session import JudgeSession

T = TypeVar("T")


class ResultCalls(Clock):
    """The calls for one result; its clock starts with the first request sent.

    Attributes:
        written: in what other way than by default the requests were written whose replies it has; those of
            failed calls, as they would be written now.
    """

    def __init__(self, session: JudgeSession) -> None:
        super().__init__(session.clocks)
        self.session = session
        self.written: set[str] = set()
        self._replies: dict[bytes, asyncio.Future[Any]] = {}

    async def reply(self, sender: Sender, call: Call) -> Any:
        """Return the reply to a call, made or shared with an equal one; raise `JudgeError` without one."""
        known = self._replies.get(call.key)
        if known is not None:
            self.session.usage.shared_calls += 1
            await asyncio.wait([known])
        else:
            known = self._replies[call.key] = asyncio.get_running_loop().create_future()
            try:
                known.set_result(await sender.reply(call))
            except JudgeError as error:
                known.set_exception(error)
            finally:
                known.cancel()  # Has no effect once it is done.
        try:
            reply, written = known.result()
        except JudgeError as error:
            self.written.update(sender.written(call))
            raise error.with_traceback(None) from error.__cause__  # Several metrics may raise it.
        self.written.update(written)
        return reply


class MetricCalls:
    """The calls of one metric for one result to one judge: what the metric asks with."""

    def __init__(self, result: ResultCalls, sender: Sender | None = None) -> None:
        """Prepare calls to a judge; by default, to the first."""
        self._result = result
        self._sender = sender or result.session.first
        self._costs: list[float | None] = []

    @property
    def cost(self) -> float | None:
        """Total cost in US dollars; None if a price or a token count is unknown."""
        known = [cost for cost in self._costs if cost is not None]
        return None if len(known) < len(self._costs) or self._sender.prices.input is None else fsum(known)

    async def ask(
        self, prompt: Callable[[], Sequence[Message]], form: ResponseFormat[T], *, repeat: int = 0
    ) -> T:
        """Return the parsed reply.

        Args:
            prompt: returns the conversation; called once the call is admitted; may raise `JudgeError`.
            form: the format of the reply.
            repeat: distinguishes intentionally equal calls; other equal calls are made only once.

        Raises:
            JudgeError: there is no usable reply.
        """
        result, sender = self._result, self._sender
        await result.session.admit(result.order)
        asked = prompt()
        texts = [text for message in asked for text in (message["role"], message["content"])]
        key, check = sender.key(form.schema, str(repeat), *texts), partial(checked_reply, form)
        call = Call(key, asked, form.schema, check, result, self._costs, repeat)
        return form.read(await result.reply(sender, call))

    async def embed(self, texts: list[str]) -> list[list[float]]:
        """Return one vector per text: finite, nonzero, all of the same length.

        Raises:
            JudgeError: there are no usable vectors.
        """
        result, sender = self._result, self._result.session.embedder
        await result.session.admit(result.order)
        check = partial(checked_vectors, len(texts))
        call = Call(sender.key(None, *texts), texts, None, check, result, self._costs)
        vectors: list[list[float]] = await result.reply(sender, call)
        return vectors
