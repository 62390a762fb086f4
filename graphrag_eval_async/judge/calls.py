"""The calls of one metric for one result: made once, checked, repeated where that may help, and priced."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from math import fsum, hypot, inf
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

import orjson

from graphrag_eval_async.errors import JudgeError
from graphrag_eval_async.judge.attempts import Request
from graphrag_eval_async.judge.protocol import TokenUsage
from graphrag_eval_async.judge.tokens import estimate_prompt, estimate_tokens

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from graphrag_eval_async.judge.form import Form
    from graphrag_eval_async.judge.protocol import Message
    from graphrag_eval_async.judge.session import ResultCalls
    from graphrag_eval_async.judge.sharing import Sharers

T = TypeVar("T")
Check: TypeAlias = "Callable[[Any], Any]"
Call: TypeAlias = "Callable[[Sharers], Awaitable[Any]]"

MAX_QUOTED = 2000
"""How many characters of a reply that does not fit are quoted to the judge."""


class Meter(NamedTuple):
    """What is done with the tokens of one kind of request.

    Attributes:
        kind: of request: "completion" or "embedding".
        add: counts them among those of the session.
        price: what they cost, in US dollars; None where a price is not known.
        estimate: about how many tokens of output a reply has.
    """

    kind: str
    add: Callable[[TokenUsage], None]
    price: Callable[[TokenUsage], float | None]
    estimate: Callable[[Any], int]


class MetricCalls:
    """The calls of one metric for one result: an `Asking` that knows what they cost."""

    def __init__(self, result: ResultCalls) -> None:
        self._result = result
        self._session = result.session
        self._costs: list[float | None] = []

    @property
    def cost(self) -> float | None:
        """In US dollars; None where a price, or what was used, is not known."""
        known = [cost for cost in self._costs if cost is not None]
        if len(known) < len(self._costs) or self._session.prices.input is None:
            return None
        return fsum(known)

    async def ask(self, prompt: Callable[[], Sequence[Message]], form: Form[T], *, repeat: int = 0) -> T:
        """See `Asking`."""
        session = self._session
        await session.turns.enter(self._result.order)
        try:
            messages = prompt()
            texts = (text for message in messages for text in (message["role"], message["content"]))
            key = session.key("complete", form.schema, str(repeat), *texts)
            check = partial(_checked_reply, form)
            reply = await self._once(key, check, partial(self._converse, messages, form.schema, check))
            return form.read(reply)
        finally:
            session.turns.leave()

    async def embed(self, texts: list[str]) -> list[list[float]]:
        """See `Asking`."""
        session = self._session
        await session.turns.enter(self._result.order)
        try:
            check = partial(_checked_vectors, len(texts))
            call = partial(self._embed, texts, check)
            vectors: list[list[float]] = await self._once(session.key("embed", None, *texts), check, call)
            return vectors
        finally:
            session.turns.leave()

    async def _once(self, key: bytes, check: Check, call: Call) -> Any:
        """What the call replies, or the cache, or an equal call in flight."""
        make = partial(self._cached, key, check, call)
        return await self._session.shared.call(key, self._result.scope, make)

    async def _cached(self, key: bytes, check: Check, call: Call, sharers: Sharers) -> Any:
        session = self._session
        await session.judge()  # That opens the cache, too.
        cache, usage = session.cache, session.usage
        if cache is not None and (kept := await cache.get(key)) is not None:
            with suppress(JudgeError):  # What an earlier version kept may not pass the checks of this one.
                reply = check(orjson.loads(kept))
                usage.cache_hits += 1
                return reply
        usage.calls += 1
        self._result.calls += 1
        try:
            reply = await call(sharers)
            if cache is not None:
                await cache.put(key, orjson.dumps(reply))
            return reply
        finally:
            if cache is not None:
                usage.cache_errors = cache.failures

    async def _embed(self, texts: list[str], check: Check, sharers: Sharers) -> Any:
        judge = await self._session.judge()
        tokens = sum(map(estimate_tokens, texts))
        send = partial(self._request, partial(judge.embed, texts), tokens, self._session.embeddings, sharers)
        try:
            return check(await send())
        except JudgeError as error:
            self._count_repetition(error)
        return check(await send())

    async def _converse(
        self, messages: Sequence[Message], schema: Mapping[str, Any], check: Check, sharers: Sharers
    ) -> Any:
        """A reply that fits; one that does not is answered, once, with what is wrong with it."""
        judge = await self._session.judge()

        def send() -> Awaitable[Any]:
            complete, tokens = partial(judge.complete, messages, schema), estimate_prompt(messages, schema)
            return self._request(complete, tokens, self._session.completions, sharers)

        try:
            return check(await send())
        except JudgeError as error:
            self._count_repetition(error)
            messages = [*messages, *_correction(error)]
        return check(await send())

    def _count_repetition(self, error: JudgeError) -> None:
        if error.kind != "invalid_reply" or error.final:
            raise error
        self._session.usage.retries[error.kind] += 1

    async def _request(
        self,
        send: Callable[[], Awaitable[tuple[Any, TokenUsage | None]]],
        tokens: int,
        meter: Meter,
        sharers: Sharers,
    ) -> Any:
        def account(used: TokenUsage | None, reply: Any) -> None:
            if used is None:
                self._session.usage.unmetered += 1
                meter.add(TokenUsage(tokens, meter.estimate(reply)))
            else:
                meter.add(used)
            cost = None if used is None else meter.price(used)
            self._costs.append(cost)
            self._result.costs.append(cost)

        request = Request(meter.kind, self._result.order, send, tokens, sharers.sent, account)
        return await self._session.attempts.make(request)


def _checked_reply(form: Form[Any], reply: Any) -> Any:
    """The reply, if it fits the form."""
    try:
        text = orjson.dumps(reply).decode()
    except TypeError as error:
        raise JudgeError("invalid_reply", f"the reply is not JSON: {error}") from None
    try:
        form.read(reply)
    except ValueError as error:
        raise JudgeError("invalid_reply", str(error), reply=text) from None
    return reply


def _checked_vectors(count: int, vectors: Sequence[Sequence[float]]) -> list[list[float]]:
    """The vectors, if there are as many as texts, all finite, not zero and of one length."""
    try:
        checked = [[float(x) for x in vector] for vector in vectors]
    except (TypeError, ValueError, OverflowError) as error:
        raise JudgeError("invalid_reply", f"the reply holds no vectors: {error}") from None
    lengths = {len(vector) for vector in checked}
    if len(checked) != count or len(lengths) != 1:
        raise JudgeError("invalid_reply", f"expected {count} vectors of one length")
    for vector in checked:
        if not 0 < hypot(*vector) < inf:
            raise JudgeError("invalid_reply", "a vector of zeros, or with a number that is not finite")
    return checked


def _correction(problem: JudgeError) -> list[Message]:
    if not problem.reply:
        return []
    mend = f"This reply cannot be used: {problem.message}. Reply once more, whole and mended."
    return [
        {"role": "assistant", "content": problem.reply[:MAX_QUOTED]},
        {"role": "user", "content": mend},
    ]
