"""The judge behind its limits: each call made once, in its turn, in time, within the budget, and counted."""

from __future__ import annotations

import asyncio
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from anyio import CancelScope

from graphrag_eval_async.judge.attempts import Attempts
from graphrag_eval_async.judge.cache import CallCache, digest
from graphrag_eval_async.judge.calls import Meter, MetricCalls
from graphrag_eval_async.judge.sharing import Shared
from graphrag_eval_async.judge.tokens import estimate_reply
from graphrag_eval_async.judge.turns import Turns
from graphrag_eval_async.judge.usage import JudgeUsage, Spending

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from graphrag_eval_async.config import LimitsConfig
    from graphrag_eval_async.judge.pricing import Prices
    from graphrag_eval_async.judge.protocol import Judge

STARTS = 2
"""Results whose judging begins in one turn of the event loop: all metrics of one take a millisecond."""

CALLS = 16
"""Calls that are prepared in one turn; to write a prompt takes part of a millisecond."""

PREPARED = 1024
"""How many calls may be prepared: those in flight, and those that wait for their turn or for another try."""


class JudgeSession:
    """A judge, as the results of one stream use it together.

    Attributes:
        usage: counts of all calls.
        spending: what the finished results have taken.
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
        self.spending = Spending()
        self.completions = Meter("completion", self.usage.add_completion, prices.completion, estimate_reply)
        self.embeddings = Meter("embedding", self.usage.add_embedding, prices.embedding_cost, lambda _: 0)
        self.attempts = Attempts(limits, self.usage)
        self.starts = Turns(STARTS)
        self.turns = Turns(CALLS, max(PREPARED, 4 * limits.max_concurrency))
        self.shared = Shared(self.usage, self.attempts.gate.deadlines, self.turns)
        self.cache: CallCache | None = None
        self._open_judge = open_judge
        self._cache_path = cache
        self._close = close
        self._identities = identities
        self._starting: asyncio.Task[Judge] | None = None
        self._opened: Judge | None = None
        self._orders = 0
        self._keys: dict[tuple[str, int], tuple[Any, Any]] = {}

    async def judge(self) -> Judge:
        """The judge, opened."""
        if self._opened is not None:
            return self._opened
        if self._starting is None or self._starting.done():  # Where it failed, it may succeed now.
            self._starting = asyncio.create_task(self._start(), name="graphrag-eval-async judge")
        return await asyncio.shield(self._starting)

    async def _start(self) -> Judge:
        if self._cache_path is not None and self.cache is None:
            self.cache = await CallCache.open(self._cache_path)
        self._opened = await asyncio.to_thread(self._open_judge)
        return self._opened

    def result(self) -> ResultCalls:
        """What the metrics of one more result call the judge by."""
        self._orders += 1
        return ResultCalls(self, self._orders)

    def key(self, method: str, schema: Any, *texts: str) -> bytes:
        """What a call is known by: the judge, the schema, and the texts."""
        # Schemas are few and written once; each is kept, so that no other has its id.
        known = self._keys.get((method, id(schema)))
        if known is None:
            known = sha256(digest(method, self._identities[method], schema)), schema
            self._keys[method, id(schema)] = known
        key = known[0].copy()
        for text in texts:
            data = text.encode(errors="surrogatepass")
            key.update(b"%d:" % len(data))
            key.update(data)
        return key.digest()

    async def aclose(self) -> None:
        """Close the judge and the cache; no call may be in flight."""
        self.attempts.gate.close()
        if self._starting is not None:
            await asyncio.wait([self._starting])  # Its thread cannot be cancelled.
            if not self._starting.cancelled():
                self._starting.exception()
        if self.cache is not None:
            await self.cache.aclose()
        if self._opened is not None and self._close is not None:
            await self._close(self._opened)


class ResultCalls:
    """The calls for one result; its time runs from the first that is sent.

    Attributes:
        calls: how many it has made itself; not those that the cache or another's equal call answers.
        costs: what each reply to these cost, in US dollars; None where that is not known.
    """

    def __init__(self, session: JudgeSession, order: int) -> None:
        self.session = session
        self.order = order
        self.scope = CancelScope()
        self.calls = 0
        self.costs: list[float | None] = []

    def __enter__(self) -> CancelScope:
        return self.scope.__enter__()

    def __exit__(self, *exc_info: Any) -> bool | None:
        self.session.attempts.gate.deadlines.stop(self.scope)
        return self.scope.__exit__(*exc_info)

    def asking(self) -> MetricCalls:
        """What one metric calls the judge by."""
        return MetricCalls(self)
