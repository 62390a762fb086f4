"""The judges of a stream, and what they share: counts, the cache, the budget, and the order of calls."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.judge.cache import CallCache
from graphrag_eval_async.judge.client import JudgeClient
from graphrag_eval_async.judge.dialect import used
from graphrag_eval_async.judge.pricing import prices_of
from graphrag_eval_async.judge.rate_limiter import Deadlines
from graphrag_eval_async.judge.retry import Retry
from graphrag_eval_async.judge.scheduling import SingleFlight, Throttle
from graphrag_eval_async.judge.shared_limits import new_worker
from graphrag_eval_async.judge.usage import JudgeUsage, Spending

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphrag_eval_async.judge.client import JudgeSetup
    from graphrag_eval_async.judge.protocol import Written

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
        spending: calls and costs of finished results.
        clients: the judges, by their names in the configuration.
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
        self.spending = Spending()
        self.deadlines = Deadlines(self.limits.result_timeout_sec)
        self.starts = Throttle(STARTS)
        self.throttle = Throttle(CALLS, max(PREPARED, 4 * self.limits.max_concurrency))
        self.single_flight = SingleFlight(self.usage, self.deadlines)
        self.orders = count(1)
        self.cache: CallCache | None = None
        self.is_dropping = False
        peers: list[Retry] = []
        self.clients = {
            setup.name: JudgeClient(
                setup,
                Retry(
                    self.limits,
                    self.usage,
                    prices_of(llm, setup.name),
                    key=llm.key(setup.name),
                    deadlines=self.deadlines,
                    peers=peers,
                    is_ended_by_one=is_ended_by_one,
                ),
            )
            for setup in setups
        }
        if self.limits.shared is not None:
            worker = new_worker()
            for name, client in self.clients.items():
                client.retry.share(llm, name, worker)
        self.first = self.clients[setups[0].name]
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
        for client in self.clients.values():
            await client.open(self.cache, self.usage)
        self._is_open = True

    def used(self, written: Sequence[Written]) -> dict[str, Any]:
        """Return how the requests of a result were written, if it differs from the defaults, as JSON.

        Depends on these requests only, not on what the server refused of other results by then.
        """
        found: dict[str, Any] = {}
        for name in self.clients:
            own = {
                part: used(each.how for each in written if (each.judge, each.kind) == (name, kind))
                for part, kind in (("generation", "completion"), ("embedding", "embedding"))
            }
            if own := {part: how for part, how in own.items() if how}:
                found |= own if name == self.first.name else {f"judges.{name}": own}
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
        for client in self.clients.values():
            await client.aclose()
