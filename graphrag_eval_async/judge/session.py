"""The judge behind its limits: each call made once, in its turn, in time, within the budget, and counted."""

from __future__ import annotations

import asyncio
from functools import partial
from math import fsum, hypot, inf
from typing import TYPE_CHECKING, Any, TypeVar

import orjson
from anyio import CancelScope

from graphrag_eval_async.errors import JudgeError
from graphrag_eval_async.judge.attempts import Attempts, Request
from graphrag_eval_async.judge.cache import CallCache, digest
from graphrag_eval_async.judge.dry import estimate_tokens
from graphrag_eval_async.judge.protocol import TokenUsage
from graphrag_eval_async.judge.sharing import Shared
from graphrag_eval_async.judge.usage import JudgeUsage

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from graphrag_eval_async.config import LimitsConfig
    from graphrag_eval_async.judge.form import Form
    from graphrag_eval_async.judge.pricing import Prices
    from graphrag_eval_async.judge.protocol import Judge

T = TypeVar("T")

MAX_QUOTED = 2000
"""How many characters of a reply that does not fit are quoted to the judge."""


class JudgeSession:
    """A judge, as the results of one stream use it together.

    Attributes:
        usage: counts of all calls.
        limits: the configured ones.
    """

    def __init__(
        self,
        open_judge: Callable[[], Judge],
        *,
        identities: Mapping[str, Any],
        limits: LimitsConfig,
        prices: Prices,
        cache: str | None = None,
        close: Callable[[Any], Awaitable[None]] | None = None,
    ) -> None:
        """Opens nothing yet.

        Args:
            open_judge: called in a thread, before the first call is made.
            identities: JSON that says which judge it is, for "complete" and for "embed": part of the keys of
                the cache.
            limits: on the calls.
            prices: of the tokens.
            cache: the path of the cache of calls, if there is to be one.
            close: closes the judge, at the end.
        """
        self.limits = limits
        self.prices = prices
        self.usage = JudgeUsage(prices)
        self.attempts = Attempts(limits, self.usage)
        self.shared = Shared(self.usage)
        self.cache: CallCache | None = None
        self._open_judge = open_judge
        self._cache_path = cache
        self._close = close
        self._identities = identities
        self._starting: asyncio.Task[Judge] | None = None
        self._opened: Judge | None = None
        self._orders = 0

    async def judge(self) -> Judge:
        """The judge, opened."""
        if self._opened is not None:
            return self._opened
        if self._starting is None:
            self._starting = asyncio.create_task(self._start(), name="graphrag-eval-async judge")
        return await asyncio.shield(self._starting)

    async def _start(self) -> Judge:
        judge = await asyncio.to_thread(self._open_judge)
        if self._cache_path is not None:
            self.cache = await CallCache.open(self._cache_path)
        self._opened = judge
        return judge

    def result(self) -> ResultCalls:
        """What the metrics of one more result call the judge by."""
        self._orders += 1
        return ResultCalls(self, self._orders)

    def key(self, method: str, *parts: Any) -> bytes:
        """What a call is known by."""
        return digest(method, self._identities[method], *parts)

    async def aclose(self) -> None:
        """Close the judge and the cache; no call may be in flight."""
        self.attempts.gate.close()
        if self._starting is not None:
            await asyncio.wait([self._starting])  # Its thread cannot be cancelled.
            self._starting.exception()
        if self.cache is not None:
            await self.cache.aclose()
        if self._opened is not None and self._close is not None:
            await self._close(self._opened)


class ResultCalls:
    """The calls for one result; its time runs from the first that is sent."""

    def __init__(self, session: JudgeSession, order: int) -> None:
        self.session = session
        self.order = order
        self.scope = CancelScope()

    def __enter__(self) -> CancelScope:
        return self.scope.__enter__()

    def __exit__(self, *exc_info: Any) -> bool | None:
        self.session.attempts.gate.deadlines.stop(self.scope)
        return self.scope.__exit__(*exc_info)

    def asking(self) -> MetricCalls:
        """What one metric calls the judge by."""
        return MetricCalls(self)


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

    async def ask(self, messages: list[dict[str, str]], form: Form[T], *, repeat: int = 0) -> T:
        """See `Asking`."""
        session = self._session
        key = session.key("complete", messages, form.schema, repeat)
        reply = await self._once(key, partial(self._converse, messages, form))
        return form.read(reply)

    async def embed(self, texts: list[str]) -> list[list[float]]:
        """See `Asking`."""
        vectors: list[list[float]] = await self._once(
            self._session.key("embed", texts), partial(self._embed, texts)
        )
        return vectors

    async def _once(self, key: bytes, call: Callable[[], Awaitable[Any]]) -> Any:
        """What the call replies, or the cache, or an equal call in flight."""
        return await self._session.shared.call(key, partial(self._cached, key, call))

    async def _cached(self, key: bytes, call: Callable[[], Awaitable[Any]]) -> Any:
        session = self._session
        await session.judge()
        if session.cache is not None and (kept := await session.cache.get(key)) is not None:
            session.usage.cache_hits += 1
            return orjson.loads(kept)
        session.usage.calls += 1
        reply = await call()
        if session.cache is not None:
            await session.cache.put(key, orjson.dumps(reply))
        return reply

    async def _embed(self, texts: list[str]) -> Any:
        judge = await self._session.judge()
        prices, usage = self._session.prices, self._session.usage
        send = partial(judge.embed, texts)
        for is_last in (False, True):
            try:
                vectors = await self._request(send, texts, usage.add_embedding, prices.embedding_cost)
                return _checked(vectors, len(texts))
            except JudgeError as error:
                if is_last or not _repeatable(error):
                    raise
            usage.retries["invalid_reply"] += 1
        raise AssertionError

    async def _converse(self, messages: Sequence[Mapping[str, str]], form: Form[Any]) -> Any:
        """A reply that fits the form; one that does not is answered, once, with what is wrong with it."""
        judge = await self._session.judge()
        prices, usage = self._session.prices, self._session.usage
        for is_last in (False, True):
            send = partial(judge.complete, messages, form.schema)
            texts = [message["content"] for message in messages]
            try:
                reply = await self._request(send, texts, usage.add_completion, prices.completion)
                _check_fit(reply, form)
                return reply
            except JudgeError as error:
                if is_last or not _repeatable(error):
                    raise
                messages = [*messages, *_correction(error)]
            usage.retries["invalid_reply"] += 1
        raise AssertionError

    async def _request(
        self,
        send: Callable[[], Awaitable[tuple[T, TokenUsage | None]]],
        texts: Sequence[str],
        count: Callable[[TokenUsage], None],
        price: Callable[[TokenUsage], float | None],
    ) -> T:
        tokens = sum(map(estimate_tokens, texts))

        def account(used: TokenUsage | None) -> None:
            if used is None:
                self._session.usage.unmetered += 1
            count(TokenUsage(tokens) if used is None else used)
            self._costs.append(None if used is None else price(used))

        request = Request(self._result.order, self._result.scope, send, tokens, account)
        reply: T = await self._session.attempts.make(request)
        return reply


def _repeatable(error: JudgeError) -> bool:
    return error.kind == "invalid_reply" and not error.final


def _check_fit(reply: Any, form: Form[Any]) -> None:
    try:
        text = orjson.dumps(reply).decode()
    except TypeError as error:
        raise JudgeError("invalid_reply", f"no JSON: {error}") from None
    try:
        form.read(reply)
    except ValueError as error:
        raise JudgeError("invalid_reply", str(error), reply=text) from None


def _checked(vectors: Sequence[Sequence[float]], count: int) -> list[list[float]]:
    """The vectors, if there are as many as texts, all finite, not zero and of one length."""
    try:
        checked = [[float(x) for x in vector] for vector in vectors]
    except (TypeError, ValueError, OverflowError) as error:
        raise JudgeError("invalid_reply", f"no vectors: {error}") from None
    lengths = {len(vector) for vector in checked}
    if len(checked) != count or len(lengths) != 1:
        raise JudgeError("invalid_reply", f"expected {count} vectors of one length")
    for vector in checked:
        if not 0 < hypot(*vector) < inf:
            raise JudgeError("invalid_reply", "a vector of zeros, or with a number that is not finite")
    return checked


def _correction(problem: JudgeError) -> list[dict[str, str]]:
    if problem.reply is None:
        return []
    mend = f"This reply cannot be used: {problem.message}. Reply once more, whole and mended."
    return [
        {"role": "assistant", "content": problem.reply[:MAX_QUOTED]},
        {"role": "user", "content": mend},
    ]
