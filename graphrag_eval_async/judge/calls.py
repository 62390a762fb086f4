"""The calls of judges that the metrics of a result make."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from functools import partial
from math import fsum, hypot, inf
from typing import TYPE_CHECKING, Any, TypeVar

import orjson

from graphrag_eval_async.errors import JudgeError
from graphrag_eval_async.judge.call import Answer, Call, UsableReply
from graphrag_eval_async.judge.limits import Clock
from graphrag_eval_async.judge.protocol import check_size

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphrag_eval_async.judge.protocol import Message, ResponseFormat
    from graphrag_eval_async.judge.sender import Sender
    from graphrag_eval_async.judge.session import JudgeSession

T = TypeVar("T")


@dataclass(eq=False, slots=True)
class Calls:
    """What a metric calls judges with, for one result.

    All calls for a result have one deadline, and equal ones are made once. The calls of one metric
    to one judge, from `to`, have a cost of their own.

    Attributes:
        session: the judges.
        sender: sends the completions.
        clock: the time for the result.
        departures: in what requests for the result differed from those by default.
    """

    session: JudgeSession
    sender: Sender
    clock: Clock
    departures: set[str] = field(default_factory=set)
    _answers: dict[bytes, asyncio.Future[Answer]] = field(default_factory=dict)
    _costs: list[float | None] = field(default_factory=list)

    @classmethod
    def for_result(cls, session: JudgeSession) -> Calls:
        """Return calls for a new result, to the first judge."""
        return cls(session, session.first, Clock(session.clocks))

    def to(self, sender: Sender) -> Calls:
        """Return calls of a metric to a judge, for the same result."""
        return Calls(self.session, sender, self.clock, self.departures, self._answers)

    @property
    def cost(self) -> float | None:
        """Total cost in US dollars; None if a price or a count of tokens is unknown."""
        known_costs = [cost for cost in self._costs if cost is not None]
        if len(known_costs) < len(self._costs) or self.sender.prices.input is None:
            return None
        return fsum(known_costs)

    async def ask(
        self, prompt: Callable[[], Sequence[Message]], form: ResponseFormat[T], *, repeat: int = 0
    ) -> T:
        """Return the parsed reply of the judge.

        Args:
            prompt: returns the messages. It is called in turn, since long prompts take time.
            form: the format of the reply.
            repeat: distinguishes equal calls, of which a result else makes one.

        Raises:
            JudgeError: there is no usable reply.
        """
        await self.session.throttle.turn()
        messages = prompt()
        texts = [text for message in messages for text in (message["role"], message["content"])]
        call = Call(
            key=self.sender.key(form.schema, str(repeat), *texts),
            inputs=messages,
            schema=form.schema,
            check=partial(check_reply, form),
            clock=self.clock,
            costs=self._costs,
            repeat=repeat,
        )
        value: T = await self._answer(self.sender, call)
        return value

    async def embed(self, texts: list[str]) -> list[list[float]]:
        """Return one vector per text: finite, nonzero, all of the same length.

        Raises:
            JudgeError: there are no usable vectors.
        """
        embedder = self.session.embedder
        await self.session.throttle.turn()
        call = Call(
            key=embedder.key(None, *texts),
            inputs=texts,
            schema=None,
            check=partial(check_vectors, len(texts)),
            clock=self.clock,
            costs=self._costs,
        )
        vectors: list[list[float]] = await self._answer(embedder, call)
        return vectors

    async def _answer(self, sender: Sender, call: Call) -> Any:
        """Return the reply to a call, made or shared with an equal one.

        Raises:
            JudgeError: there is no usable reply.
        """
        answer = self._answers.get(call.key)
        if answer is not None:
            self.session.usage.shared_calls += 1
            await asyncio.wait([answer])
        else:
            answer = asyncio.get_running_loop().create_future()
            self._answers[call.key] = answer
            try:
                answer.set_result(await sender.answer(call))
            except JudgeError as error:
                answer.set_exception(error)
            finally:
                answer.cancel()  # Has no effect once it is done.
        try:
            value, departures = answer.result()
        except JudgeError as error:
            self.departures.update(sender.departures())
            # Several metrics may raise it.
            raise error.with_traceback(None) from error.__cause__
        self.departures.update(departures)
        return value


def check_reply(form: ResponseFormat[Any], reply: Any) -> UsableReply:
    """Return a reply that fits a format, and what it says.

    Raises:
        JudgeError: it does not.
    """
    try:
        text = orjson.dumps(reply)
    except TypeError as error:
        raise JudgeError("invalid_reply", f"the reply is not JSON: {error}") from None
    try:
        check_size(text)
        return UsableReply(reply, form.read(reply))
    except ValueError as error:
        raise JudgeError("invalid_reply", str(error), reply=text.decode()) from None


def check_vectors(count: int, vectors: Sequence[Sequence[float]]) -> UsableReply:
    """Return the vectors if there is one per text, all finite, nonzero, and of one valid length.

    Raises:
        JudgeError: they are not.
    """
    try:
        lengths = {len(vector) for vector in vectors}
        if len(vectors) != count or len(lengths) != 1:
            raise JudgeError("invalid_reply", f"expected {count} vectors of the same length")
        checked = [[float(number) for number in vector] for vector in vectors]
    except (TypeError, ValueError, OverflowError) as error:
        raise JudgeError("invalid_reply", f"the reply has no vectors: {error}") from None
    if not all(0 < hypot(*vector) < inf for vector in checked):
        raise JudgeError("invalid_reply", "a vector is zero or has a number that is not finite")
    return UsableReply(checked, checked)
