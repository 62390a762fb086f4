"""Limits that the workers of many processes and hosts share through a Redis server."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from hashlib import sha256
from heapq import heappop, heappush, nsmallest
from math import inf
from random import uniform
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.config.secrecy import shared_address
from graphrag_eval_async.errors import ConfigError, JudgeError, JudgeUnavailable, UsageError
from graphrag_eval_async.judge.rate_limiter import LOGGER, Waiting
from graphrag_eval_async.judge.shared_script import KEPT_SECONDS, SCRIPT
from graphrag_eval_async.redis_client import check_redis, connect, is_final, without_secrets

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphrag_eval_async.config import LLMConfig
    from graphrag_eval_async.judge.rate_limiter import RateLimiter
    from graphrag_eval_async.judge.usage import JudgeUsage

BATCH = 128
"""Requests that ask for admission in one message."""

SHORTEST_WAIT = 0.02
"""Seconds between two questions for admission: the server holds a second's worth, so no request is lost."""

LONGEST_WAIT = 5.0
"""Seconds after which a worker asks again, whatever it was told: another may have returned tokens."""

MAX_BACKOFF = 5.0
"""Maximum seconds between two attempts to reach the server."""

ANSWER_SECONDS = 5.0
"""Time for one answer of the server."""

CLOSING_SECONDS = 5.0
"""Time at the end to report what the last replies cost."""


def check_shared(llm: LLMConfig) -> None:
    """Check that shared limits, if there are any, can be used; makes no connection."""
    if llm.limits.shared is not None:
        try:
            check_redis()
        except UsageError as error:
            raise ConfigError([f"llm.limits.shared: {error}"]) from None


class SharedLimits:
    """Admits the requests of one judge, together with all workers that name the same limits.

    One message at a time is on its way to the server. It reports what was used since the last one, and asks
    for the admission of all requests that wait. So a slow server makes messages longer, not more.
    """

    def __init__(
        self,
        llm: LLMConfig,
        name: str,
        worker: str,
        limiter: RateLimiter,
        usage: JudgeUsage,
        *,
        broke: Callable[[str], None],
        end: Callable[[JudgeUnavailable], None],
    ) -> None:
        """Prepare the limits of one judge.

        Args:
            llm: the limits.
            name: the judge's name in the configuration.
            worker: names the session, and with it what it spends.
            limiter: paused if another worker was asked to pause.
            usage: what this process spends.
            broke: called when the budget is spent, with the reason.
            end: called when the server cannot be used, with the reason.
        """
        assert llm.limits.shared is not None  # noqa: S101  (the caller checked)
        self._limits = llm.limits
        self._address = shared_address(llm.limits.shared)
        self._run_name = self._address.options.get("run", "")
        self._worker = worker
        self._limiter = limiter
        self._usage = usage
        self._broke = broke
        self._end = end
        self._waiting: list[Waiting] = []
        self._numbers = 0
        self._tokens = 0.0
        self._reported = -1
        self._paused_until = -inf
        self._is_pause_new = False
        self._wake = asyncio.Event()
        self._pump: asyncio.Task[None] | None = None
        self._over: Callable[[], JudgeError] | None = None
        self._client: Any = None
        self._script: Any = None
        scope = self._address.name or _scope(llm)
        # A hash tag keeps both keys on one node of a cluster.
        tag = f"{{graphrag-eval-async:{scope}}}"
        self._keys = [f"{tag}:rate:{name}", f"{tag}:spent:{self._run_name or 'default'}"]

    async def acquire(self, order: int, tokens: float, kind: str) -> None:
        """Wait until all workers together may send one more request.

        Raises:
            JudgeError: the budget is spent, or requests of this kind were dismissed.
            JudgeUnavailable: the server cannot be used.
        """
        if self._over is not None:
            raise self._over()
        self._numbers += 1
        one = Waiting(order, self._numbers, tokens, asyncio.get_running_loop().create_future(), kind)
        heappush(self._waiting, one)
        self._start()
        await one.turn

    def used(self, tokens: float = 0.0) -> None:
        """Report what was spent, and the difference between actual and estimated tokens."""
        self._tokens += tokens if self._limits.tokens_per_minute is not None else 0.0
        if self._has_work():
            self._start()

    def pause(self, seconds: float) -> None:
        """Hold up the requests of all workers."""
        until = asyncio.get_running_loop().time() + seconds
        if until > self._paused_until:
            self._paused_until, self._is_pause_new = until, True
            self._start()

    def dismiss(self, kind: str, error: Callable[[], JudgeError]) -> None:
        """Fail the waiting requests of a kind."""
        for one in self._waiting:
            if one.kind == kind:
                one.fail(error)

    async def aclose(self) -> None:
        """Report what is left to report, for a short time, and close the connection."""
        self._wake.set()
        if self._pump is not None:
            _, unfinished = await asyncio.wait([self._pump], timeout=CLOSING_SECONDS)
            if unfinished:
                self._pump.cancel()
                await asyncio.wait([self._pump])
                LOGGER.warning(
                    "shared limits at %s: what the last requests cost is not counted", self._address
                )
            self._pump = None
        client, self._client, self._script = self._client, None, None
        if client is not None:
            with suppress(Exception):
                await client.aclose()

    def _start(self) -> None:
        self._wake.set()
        if self._over is None and (self._pump is None or self._pump.done()):
            self._pump = asyncio.create_task(self._run(), name="graphrag-eval-async shared limits")

    async def _run(self) -> None:
        """Ask and report until nobody waits and nothing is left to report."""
        failures, since = 0, 0.0
        while self._over is None and self._has_work():
            self._wake.clear()
            try:
                delay = await self._exchange()
                failures = 0
            except Exception as error:  # noqa: BLE001  (whatever it is, requests must not wait for ever)
                now = asyncio.get_running_loop().time()
                since = since if failures else now
                failures += 1
                if (ending := self._ending(error, now - since)) is not None:
                    self._give_up(ending)
                    return
                delay = min(MAX_BACKOFF, 0.1 * 2 ** min(failures, 9)) * uniform(0.5, 1)  # noqa: S311
                if self._waiting:
                    self._limiter.deadlines.freeze(now + delay + ANSWER_SECONDS)
                if failures == 1 or failures % 10 == 0:
                    LOGGER.warning("%s; requests wait, trying again", self._trouble(error))
                await asyncio.sleep(delay)
                continue
            if delay:
                with suppress(TimeoutError):
                    async with asyncio.timeout(delay):
                        await self._wake.wait()
                # Replies wake it, too, but not more often than is of use.
                await asyncio.sleep(SHORTEST_WAIT)

    def _has_work(self) -> bool:
        while self._waiting and self._waiting[0].turn.done():  # Cancelled or dismissed.
            heappop(self._waiting)
        return bool(self._waiting or self._tokens or self._is_pause_new or self._spent() != self._reported)

    def _spent(self) -> int:
        """Return what this process spent, in billionths of a US dollar."""
        if self._limits.budget_usd is None:
            return -1
        return round(((self._usage.spent or 0.0) - self._usage.restored_dollars) * 1e9)

    async def _exchange(self) -> float:
        """Report and ask once; return the seconds until it is worth asking again, 0 for at once."""
        if self._script is None:
            self._client = await asyncio.to_thread(connect, self._address, ANSWER_SECONDS)
            self._script = self._client.register_script(SCRIPT)
        now = asyncio.get_running_loop().time
        asked = [one for one in nsmallest(BATCH, self._waiting) if not one.turn.done()]
        spent, tokens, self._tokens = self._spent(), self._tokens, 0.0
        pause, self._is_pause_new = max(0.0, self._paused_until - now()) if self._is_pause_new else 0.0, False
        limits = self._limits
        budget = -1 if limits.budget_usd is None else round(limits.budget_usd * 1e9)
        rates = limits.requests_per_minute or 0, limits.tokens_per_minute or 0
        args = [*rates, budget, self._worker, max(spent, 0), tokens, pause, KEPT_SECONDS]
        try:
            async with asyncio.timeout(2 * ANSWER_SECONDS):
                answer = await self._script(keys=self._keys, args=[*args, *(one.tokens for one in asked)])
        except Exception:
            # Nobody knows whether they were counted: rather count twice than return tokens twice.
            self._tokens += max(tokens, 0.0)
            self._is_pause_new = self._is_pause_new or pause > 0
            raise
        self._reported = spent
        granted, wait, paused, is_spent = int(answer[0]), float(answer[1]), float(answer[2]), int(answer[3])
        for one in asked[:granted]:
            if not one.turn.done():
                one.turn.set_result(None)
        if paused > 0 and now() + paused > self._paused_until + 1:  # Another worker was asked to pause.
            self._paused_until = now() + paused
            self._limiter.pause(paused)
        if is_spent:
            self._budget_spent()
        if granted == len(asked) or is_spent:
            return 0.0
        return min(LONGEST_WAIT, max(wait, SHORTEST_WAIT)) * uniform(1, 1.25)  # noqa: S311

    def _budget_spent(self) -> None:
        run = f"run {self._run_name!r}" if self._run_name else "all runs without a name"
        text = (
            f"the budget of {self._limits.budget_usd:g} US dollars is spent by all workers of {run} at "
            f"{self._address}; ?run=NAME in llm.limits.shared begins another"
        )
        for one in self._waiting:
            one.fail(lambda: JudgeError("budget", text, final=True))
        self._broke(text)

    def _ending(self, error: Exception, lasted: float) -> JudgeUnavailable | None:
        """Return the error that ends the run, or None if it is worth trying again."""
        longest = self._limits.max_outage_sec
        if isinstance(error, UsageError):
            return JudgeUnavailable(f"llm.limits.shared: {error}")
        if is_final(error):
            return JudgeUnavailable(
                f"{self._trouble(error)}; check llm.limits.shared, its database and its password"
            )
        if longest is not None and lasted > longest:
            advice = f"not reached for {lasted:.0f} s; check llm.limits.shared, and that the server works"
            return JudgeUnavailable(f"{self._trouble(error)}; {advice}")
        return None

    def _trouble(self, error: Exception) -> str:
        return f"shared limits at {self._address}: {without_secrets(error, self._address)}"

    def _give_up(self, error: JudgeUnavailable) -> None:
        message = error.message
        self._over = lambda: JudgeUnavailable(message)
        for one in self._waiting:
            one.fail(self._over)
        self._waiting.clear()
        self._end(error)


def _scope(llm: LLMConfig) -> str:
    """Return a name that runs with other models or other limits do not have."""
    limits = llm.limits
    models = [llm.generation, llm.embedding, *(llm.judges[name] for name in sorted(llm.judges))]
    parts: list[Any] = [limits.requests_per_minute, limits.tokens_per_minute, limits.budget_usd]
    parts += [model and (model.provider, str(model.model), str(model.base_url)) for model in models]
    return sha256(repr(parts).encode()).hexdigest()[:16]
