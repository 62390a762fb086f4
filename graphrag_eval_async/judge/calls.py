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
    """The means by which a metric calls a judge, for one result.

    All calls for a result have the same deadline, and equal calls are made only once. `to` returns
    an object for the calls of one metric to one judge, whose cost is counted separately.

    Attributes:
        session: the judges of the stream.
        sender: sends the completions to one judge.
        clock: the time for the result.
        departures: how requests for the result differed from the default.
    """

    session: JudgeSession
    sender: Sender
    clock: Clock
    departures: set[str] = field(default_factory=set)
    _answers_by_key: dict[bytes, asyncio.Future[Answer]] = field(default_factory=dict)
    _costs: list[float | None] = field(default_factory=list)

    @classmethod
    def for_result(cls, session: JudgeSession) -> Calls:
        """Return an object for calls to the first judge, for a new result."""
        return cls(session, session.first, Clock(session.clocks))

    def to(self, sender: Sender) -> Calls:
        """Return an object for calls to any judge for the same result, with a cost of its own."""
        return Calls(self.session, sender, self.clock, self.departures, self._answers_by_key)

    @property
    def cost(self) -> float | None:
        """Total cost of the calls in US dollars; None if a price or a token count is unknown."""
        known_costs = [cost for cost in self._costs if cost is not None]
        has_unknown_cost = len(known_costs) < len(self._costs)
        # Without a price, the cost is unknown even if there was no call.
        if has_unknown_cost or self.sender.prices.input is None:
            return None
        return fsum(known_costs)

    async def ask(
        self, prompt: Callable[[], Sequence[Message]], form: ResponseFormat[T], *, repeat: int = 0
    ) -> T:
        """Return the parsed reply of the judge.

        Args:
            prompt: makes the messages. This is called only when it is this call's turn, since long
                prompts take time to make.
            form: the format of the reply.
            repeat: 0; a higher number asks for another reply to the same messages. Equal calls with
                the same number are made once.

        Raises:
            JudgeError: there is no usable reply.
        """
        await self.session.throttle.turn()
        messages = prompt()
        texts = [str(repeat)]
        for message in messages:
            texts += (message["role"], message["content"])
        call = Call(
            key=self.sender.key(form.schema, *texts),
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
        """Return one vector for each text, in order: finite, nonzero, all of the same length.

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
        """Return the value of the reply to a call, which is sent unless an equal call was sent.

        Adds to `departures` how the request for the reply differed from the default.

        Raises:
            JudgeError: there is no usable reply.
        """
        pending = self._answers_by_key.get(call.key)
        if pending is None:
            pending = asyncio.get_running_loop().create_future()
            self._answers_by_key[call.key] = pending
            await self._send(sender, call, pending)
        else:
            self.session.usage.shared_calls += 1
            await asyncio.wait([pending])

        try:
            answer = pending.result()
        except JudgeError as error:
            self.departures.update(sender.departures())
            # Several metrics may raise this same error, and each would lengthen its traceback.
            raise error.with_traceback(None) from error.__cause__
        self.departures.update(answer.departures)
        return answer.value

    async def _send(self, sender: Sender, call: Call, pending: asyncio.Future[Answer]) -> None:
        """Send a call, and set its answer or its `JudgeError` as the result of `pending`.

        If anything else is raised, such as a cancellation, `pending` is cancelled.
        """
        try:
            pending.set_result(await sender.answer(call))
        except JudgeError as error:
            pending.set_exception(error)
        finally:
            # A future that has a result or an error by now is not changed by this.
            pending.cancel()


def check_reply(form: ResponseFormat[Any], reply: Any) -> UsableReply:
    """Return a judge's reply together with the value that the metric uses.

    Args:
        form: the format of the reply, which reads the value.
        reply: the decoded reply.

    Raises:
        JudgeError: the reply is not JSON, is too large, or does not fit the format.
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
    """Return vectors as lists of floats, after checking that they can be compared.

    Args:
        count: the expected number of vectors.
        vectors: the vectors, as the judge returned them.

    Raises:
        JudgeError: there are more or fewer vectors than `count`, their lengths differ, or a vector
            is zero or has a value that is not a finite number.
    """
    try:
        lengths = {len(vector) for vector in vectors}
        if len(vectors) != count or len(lengths) != 1:
            raise JudgeError("invalid_reply", f"expected {count} vectors of the same length")
        checked = [[float(number) for number in vector] for vector in vectors]
    except (TypeError, ValueError, OverflowError) as error:
        raise JudgeError("invalid_reply", f"the reply has no vectors: {error}") from None

    for vector in checked:
        # A vector of zeros has no cosine. One NaN or infinite number makes the length so, too.
        is_usable = 0 < hypot(*vector) < inf
        if not is_usable:
            problem = "a vector is zero or has a number that is not finite"
            raise JudgeError("invalid_reply", problem)
    return UsableReply(checked, checked)
