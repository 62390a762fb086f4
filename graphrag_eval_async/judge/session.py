"""The judges of a stream, and what they share: counts, the cache, the budget, and the order of calls."""

from __future__ import annotations

import asyncio
from itertools import count, product
from secrets import token_hex
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.judge.cache import CallCache
from graphrag_eval_async.judge.client import JudgeClient
from graphrag_eval_async.judge.dialect import used
from graphrag_eval_async.judge.pricing import prices_of
from graphrag_eval_async.judge.rate_limiter import Deadlines
from graphrag_eval_async.judge.retry import KINDS, Retry
from graphrag_eval_async.judge.scheduling import SingleFlight, Throttle
from graphrag_eval_async.judge.usage import JudgeUsage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphrag_eval_async.judge.setup import JudgeSetup

STARTS = 2
"""Results to start judging per iteration of the event loop; each takes a millisecond."""

CALLS = 16
"""Calls to prepare per iteration; each takes a fraction of a millisecond."""

PREPARED = 1024
"""Minimum limit on calls prepared at a time: each holds its prompt in memory."""


class JudgeSession:
    """The judges shared by the results of one stream, opened on the first call.

    Attributes:
        usage: counts of all calls.
        senders: the judges, by their names in the configuration.
        orders: the order of each new result.
        is_dropping: whether new results are no longer started.
    """

    def __init__(self, setups: Sequence[JudgeSetup], *, is_ended_by_one: bool = False) -> None:
        """Prepare the session; the first judge also computes embeddings.

        With `is_ended_by_one`, a judge or an embedding model that does not work ends all calls.
        """
        llm = setups[0].llm
        self.limits = llm.limits
        self.usage = JudgeUsage(prices_of(llm, setups[0].name))
        self.deadlines = Deadlines(self.limits.result_timeout_sec)
        self.starts = Throttle(STARTS)
        self.throttle = Throttle(CALLS, max(PREPARED, 4 * self.limits.max_concurrency))
        self.single_flight = SingleFlight(self.usage)
        self.orders = count(1)
        self.cache: CallCache | None = None
        self.is_dropping = False
        worker, peers = token_hex(8), list[Retry]()
        self.senders = {}
        for setup in setups:
            retry = Retry(llm, setup.name, worker, self.usage, self.deadlines, peers, is_ended_by_one)
            self.senders[setup.name] = JudgeClient(setup, retry)
        self.first = self.senders[setups[0].name]
        self._cache_path = llm.cache
        self._starting: asyncio.Task[None] | None = None
        self._is_open = False

    async def open(self) -> None:
        """Open the cache and the judges, unless they are open."""
        if self._is_open:
            return
        if self._starting is None or self._starting.done():  # Retry if opening failed.
            self._starting = asyncio.create_task(self._start(), name="graphrag-eval-async judge")
        await asyncio.shield(self._starting)

    async def _start(self) -> None:
        if self._cache_path is not None and self.cache is None:
            self.cache = await CallCache.open(self._cache_path)
        for client in self.senders.values():
            await client.open(self.cache)
        self._is_open = True

    def used(self, written: Mapping[tuple[str, str], Sequence[Mapping[str, Any]]]) -> dict[str, Any]:
        """Return how the requests of a result were written, if it differs from the defaults, as JSON.

        Depends on these requests only, not on what the server refused of other results by then.
        """
        found: dict[str, Any] = {}
        for name, kind in product(self.senders, KINDS):
            if how := used(written.get((name, kind), ())):
                own = found if name == self.first.name else found.setdefault(f"judges.{name}", {})
                own["embedding" if kind == "embedding" else "generation"] = how
        return found

    def drop_unsent(self) -> None:
        """Cancel all results without a sent request, and start no more."""
        self.is_dropping = True
        self.deadlines.drop()

    async def aclose(self) -> None:
        """Close the judges and the cache; no call may be in flight."""
        if self._starting is not None:
            await asyncio.wait([self._starting])  # A thread cannot be cancelled.
            if not self._starting.cancelled():
                self._starting.exception()
        cache, self.cache = self.cache, None
        if cache is not None:
            await cache.aclose()
        for client in self.senders.values():
            await client.aclose()
