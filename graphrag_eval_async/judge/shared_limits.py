"""Limits on the rate and the budget of all workers together, kept by a Redis server."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from hashlib import sha256
from math import inf
from random import uniform
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.config.secrecy import shared_address
from graphrag_eval_async.errors import ConfigError, JudgeError, JudgeUnavailable, UsageError
from graphrag_eval_async.judge.limits import LOGGER
from graphrag_eval_async.redis_client import check_redis, connect, is_final, without_secrets

if TYPE_CHECKING:
    from graphrag_eval_async.config import LLMConfig
    from graphrag_eval_async.judge.limits import RateLimiter, Shared

SHORTEST_WAIT, LONGEST_WAIT = 0.02, 5.0
"""Seconds between two questions of a request: another worker may have returned tokens in the meantime."""

MAX_BACKOFF = 5.0  # Maximum seconds between two attempts to reach the server.

ANSWER_SECONDS = 5.0
"""Time for one answer of the server, and at the end, to report what the last replies cost."""

KEPT_SECONDS = 7 * 24 * 3600  # How long a budget is remembered after its last use.

SCRIPT = """
-- KEYS: the hash of the rates, the hash of the budget.
-- ARGV: requests per minute, tokens per minute (0: no limit), budget in billionths of a dollar (-1: none),
--       the worker, all that it spent, tokens to charge, seconds to pause, seconds to keep the budget,
--       then the tokens of each request that waits.
-- Returns how many of them may be sent, seconds until the next may, seconds of a pause, and 1 if the budget
-- is spent.
local clock = redis.call('TIME')
local now = tonumber(clock[1]) + tonumber(clock[2]) / 1000000
local state = redis.call('HMGET', KEYS[1], 'at', 'requests', 'tokens', 'paused')
local at = tonumber(state[1] or now)
local rates = {tonumber(ARGV[1]) / 60, tonumber(ARGV[2]) / 60}
local full, level = {}, {}
for i = 1, 2 do
  -- A bucket holds one second's worth.
  full[i] = math.max(1, rates[i])
  level[i] = math.min(full[i], tonumber(state[i + 1] or full[i]) + math.max(0, now - at) * rates[i])
end
level[2] = level[2] - tonumber(ARGV[6])
local paused = math.max(tonumber(state[4] or 0), now + tonumber(ARGV[7]))

local spent = 0
local budget = tonumber(ARGV[3])
if budget >= 0 then
  -- A worker tells all that it spent: told twice it counts once, and what a server forgot is told again.
  local more = tonumber(ARGV[5]) - tonumber(redis.call('HGET', KEYS[2], ARGV[4]) or 0)
  if more > 0 then
    redis.call('HSET', KEYS[2], ARGV[4], ARGV[5])
    redis.call('HINCRBY', KEYS[2], 'total', string.format('%.0f', more))
  end
  if tonumber(redis.call('HGET', KEYS[2], 'total') or 0) >= budget then spent = 1 end
  redis.call('EXPIRE', KEYS[2], ARGV[8])
end

local granted, wait = 0, math.max(0, paused - now)
if spent == 0 and wait == 0 then
  for i = 9, #ARGV do
    local wanted = {1, tonumber(ARGV[i])}
    for j = 1, 2 do
      if rates[j] > 0 then
        wait = math.max(wait, (math.min(wanted[j], full[j]) - level[j] - 1e-6) / rates[j])
      end
    end
    if wait > 0 then break end
    for j = 1, 2 do level[j] = level[j] - wanted[j] end
    granted = granted + 1
  end
end

local keep = 3600 + math.max(0, paused - now)
for i = 1, 2 do
  if rates[i] <= 0 then level[i] = full[i] else keep = keep + math.max(0, -level[i] / rates[i]) end
end
local function text(number) return string.format('%.17g', number) end
redis.call('HSET', KEYS[1], 'at', text(math.max(at, now)), 'requests', text(level[1]),
  'tokens', text(level[2]), 'paused', text(paused))
redis.call('EXPIRE', KEYS[1], string.format('%.0f', math.min(keep, 1e9)))
return {granted, text(wait), text(math.max(0, paused - now)), spent}
"""


def check_shared(llm: LLMConfig) -> None:
    """Check that shared limits, if there are any, can be used; makes no connection."""
    if llm.limits.shared is not None:
        try:
            check_redis()
        except UsageError as error:
            raise ConfigError([f"llm.limits.shared: {error}"]) from None


class SharedLimits:
    """Admits the requests of one judge, together with all workers that name the same limits."""

    def __init__(
        self, session: Shared, llm: LLMConfig, name: str, address: str, limiter: RateLimiter
    ) -> None:
        """Prepare the limits of the judge `name`."""
        self._limits, self._address = llm.limits, shared_address(address)
        self._run = self._address.options.get("run", "")
        self._session, self._usage, self._limiter = session, session.usage, limiter
        self._turn = asyncio.Lock()  # One request asks at a time, so that a large one is not overtaken.
        self._tokens, self._reported = 0.0, -1
        self._paused_until, self._is_pause_new = -inf, False
        self._failing_since: float | None = None
        self._client: Any = None
        self._script: Any = None
        scope = self._address.name or _scope(llm)
        # A hash tag keeps both keys on one node of a cluster.
        tag = f"{{graphrag-eval-async:{scope}}}"
        self._keys = [f"{tag}:rate:{name}", f"{tag}:spent:{self._run or 'default'}"]

    async def acquire(self, tokens: float) -> None:
        """Wait until all workers together may send one more request."""
        async with self._turn:
            failures = 0
            while True:
                try:
                    is_granted, wait = await self._exchange(tokens)
                except Exception as error:  # noqa: BLE001  (whatever it is, requests must not wait for ever)
                    wait = min(MAX_BACKOFF, 0.1 * 2 ** min(failures, 9)) * uniform(0.5, 1)  # noqa: S311
                    self._check_failure(error, wait)
                    failures += 1
                else:
                    if is_granted:
                        return
                    wait = min(LONGEST_WAIT, max(wait, SHORTEST_WAIT)) * uniform(1, 1.25)  # noqa: S311
                    failures = 0
                await asyncio.sleep(wait)

    async def report(self, tokens: float = 0.0, pause: float = 0.0) -> None:
        """Report what was spent, tokens beyond the estimate, and a pause that the judge's server asks for."""
        self._tokens += tokens if self._limits.tokens_per_minute is not None else 0.0
        until = asyncio.get_running_loop().time() + pause
        if pause and until > self._paused_until:
            self._paused_until, self._is_pause_new = until, True
        if self._failing_since is None and self._has_news():
            with suppress(Exception):
                await self._exchange(None)

    async def aclose(self) -> None:
        """Report what is left to report, for a short time, and close the connection."""
        if self._client is None:
            return
        with suppress(Exception):
            async with asyncio.timeout(ANSWER_SECONDS):
                while self._has_news():
                    await self._exchange(None)
        if self._has_news():
            LOGGER.warning("shared limits at %s: what the last requests cost is not counted", self._address)
        client, self._client = self._client, None
        with suppress(Exception):
            await client.aclose()

    def _has_news(self) -> bool:
        return bool(self._tokens or self._is_pause_new or self._spent() != self._reported)

    def _spent(self) -> int:
        """Return what this process spent, in billionths of a US dollar."""
        if self._limits.budget_usd is None:
            return -1
        return round(((self._usage.spent or 0.0) - self._usage.restored_dollars) * 1e9)

    async def _exchange(self, wanted: float | None) -> tuple[bool, float]:
        """Report, and ask for a request of so many tokens; return whether it may be sent, or when to ask."""
        if self._client is None:
            client = await asyncio.to_thread(connect, self._address, ANSWER_SECONDS)
            self._client = self._client or client
            self._script = self._client.register_script(SCRIPT)
        now = asyncio.get_running_loop().time
        spent, tokens, self._tokens = self._spent(), self._tokens, 0.0
        pause, self._is_pause_new = max(0.0, self._paused_until - now()) if self._is_pause_new else 0.0, False
        limits = self._limits
        budget = -1 if limits.budget_usd is None else round(limits.budget_usd * 1e9)
        rates = limits.requests_per_minute or 0, limits.tokens_per_minute or 0
        args = [*rates, budget, self._session.id, max(spent, 0), tokens, pause, KEPT_SECONDS]
        args += [] if wanted is None else [wanted]
        # In a task of its own: the client may swallow a cancellation.
        asking = asyncio.ensure_future(self._script(keys=self._keys, args=args))
        try:
            await asyncio.wait([asking], timeout=2 * ANSWER_SECONDS)
            if not asking.done():
                raise TimeoutError("no answer")
            answer = asking.result()
        except Exception:
            # Nobody knows whether they were counted: rather count twice than return tokens twice.
            self._tokens += max(tokens, 0.0)
            self._is_pause_new = self._is_pause_new or pause > 0
            raise
        finally:
            asking.cancel()
        self._reported, self._failing_since = spent, None
        granted, wait, paused, is_spent = int(answer[0]), float(answer[1]), float(answer[2]), int(answer[3])
        if paused > 0 and now() + paused > self._paused_until + 1:  # Another worker was asked to pause.
            self._paused_until = now() + paused
            self._limiter.pause(paused)
        if is_spent:
            run = f"run {self._run!r}" if self._run else "all runs without a name"
            spent_by = f"spent by all workers of {run} at {self._address}; ?run=NAME in llm.limits.shared"
            text = f"the budget of {limits.budget_usd:g} US dollars is {spent_by} begins another"
            self._session.broke(text)
            if wanted is not None:
                raise JudgeError("budget", text, final=True)
        return granted > 0, wait

    def _check_failure(self, error: Exception, wait: float) -> None:
        """Raise the error that ends the run, unless it is worth trying again after a wait."""
        if isinstance(error, JudgeError):
            raise error
        if isinstance(error, UsageError):
            raise JudgeUnavailable(f"llm.limits.shared: {error}") from None
        trouble = f"shared limits at {self._address}: {without_secrets(error, self._address)}"
        if is_final(error):
            raise JudgeUnavailable(f"{trouble}; check llm.limits.shared, its database and its password")
        now, longest = asyncio.get_running_loop().time(), self._limits.max_outage_sec
        if self._failing_since is None:
            self._failing_since = now
            LOGGER.warning("%s; requests wait, trying again", trouble)
        lasted = now - self._failing_since
        if longest is not None and lasted > longest:
            advice = f"not reached for {lasted:.0f} s; check llm.limits.shared, and that the server works"
            raise JudgeUnavailable(f"{trouble}; {advice}")
        self._session.clocks.stop(now + wait + ANSWER_SECONDS)


def _scope(llm: LLMConfig) -> str:
    """Return a name that runs with other models or other limits do not have."""
    limits = llm.limits
    models = [llm.generation, llm.embedding, *(llm.judges[name] for name in sorted(llm.judges))]
    parts: list[Any] = [limits.requests_per_minute, limits.tokens_per_minute, limits.budget_usd]
    parts += [model and (model.provider, str(model.model), str(model.base_url)) for model in models]
    return sha256(repr(parts).encode()).hexdigest()[:16]
