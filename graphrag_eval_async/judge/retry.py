"""The only retry layer: sends every request, counts its tokens and prices it."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from random import uniform
from typing import TYPE_CHECKING, Any, TypeVar

from graphrag_eval_async.errors import JudgeError, JudgeUnavailable, describe_exception
from graphrag_eval_async.judge.breaker import Breaker
from graphrag_eval_async.judge.pricing import estimate_reply, prices_of
from graphrag_eval_async.judge.protocol import ConnectionLost, Denied, TryAgain
from graphrag_eval_async.judge.rate_limiter import RETRY_AFTER_CAP, RateLimiter
from graphrag_eval_async.judge.shared_limits import SharedLimits
from graphrag_eval_async.records.token_usage import TokenUsage

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from graphrag_eval_async.config import LLMConfig
    from graphrag_eval_async.judge.call import Call
    from graphrag_eval_async.judge.protocol import Message, Send
    from graphrag_eval_async.judge.rate_limiter import Deadlines
    from graphrag_eval_async.judge.usage import JudgeUsage

T = TypeVar("T")

KINDS = ("completion", "embedding")
"""Kinds of requests; each has its own model and may have its own server and key."""

RETRIED = frozenset({"timeout", "rate_limited", "unavailable"})

ADVICE = {
    "unavailable": "{key}.base_url, and that the server works",
    "timeout": "{key}.base_url, that the server works, and llm.limits.call_timeout_sec",
    "rate_limited": "the limits and the quota of the account, and llm.limits.requests_per_minute",
    "invalid_request": "{key}.model, its parameters and {key}.base_url",
    "invalid_reply": "that {key}.model can reply in JSON, and {key}.base_url",
}
"""What to check if all calls fail, by the kind of the failure."""

BACKOFF_SECONDS = 0.5
"""Maximum wait after the first failure; doubles with each further failure."""

MAX_BACKOFF_SECONDS = 30.0


class Retry:
    """Sends requests within the limits and retries failures that may be temporary.

    Attributes:
        prices: prices of the judge.
        limiter: admits its requests.
        breakers: by kind of request.
        where: returns the model and address that serve a kind of requests.
        shared: the limits that all workers share; None without any.
    """

    def __init__(
        self,
        llm: LLMConfig,
        name: str,
        worker: str,
        usage: JudgeUsage,
        deadlines: Deadlines,
        peers: list[Retry],
        is_ended_by_one: bool,
    ) -> None:
        """Prepare to send the requests of the judge `name`.

        `worker` names the session for shared limits; `peers` are the judges that share the budget, and get
        this one. With `is_ended_by_one`, no judge sends more requests once those of one kind, or of one
        judge, would all fail.
        """
        self.prices = prices_of(llm, name)
        self.limiter = RateLimiter(llm.limits, usage, deadlines)
        self.breakers = {kind: Breaker(llm.limits, partial(self._give_up, kind)) for kind in KINDS}
        self.where: Callable[[str], str] = lambda kind: f"the judge's {kind} model"
        self._limits = llm.limits
        self._usage = usage
        self._key = llm.key(name)
        self._peers = peers
        self._peers.append(self)
        self._is_ended_by_one = is_ended_by_one
        self.shared: SharedLimits | None = None
        if llm.limits.shared is not None:
            end = partial(self._end, "completion")
            self.shared = SharedLimits(llm, name, worker, self.limiter, usage, broke=self._broke, end=end)

    async def send(self, call: Call, correction: Sequence[Message]) -> Any:
        """Return the reply to the request of a call, which may be sent several times."""
        self._check_budget()  # Results restored from a journal may have spent it.
        send, tokens = call.request(correction)
        breaker, is_probe, failures = self.breakers[call.kind], False, 0
        other: Breaker | None = None
        if self._is_ended_by_one and call.kind == "completion":  # Wasted if embeddings do not work.
            other = self._peers[0].breakers["embedding"]
        try:
            while True:
                if breaker.is_open and not is_probe:
                    is_probe = await self._counted(breaker.probe())
                if other is not None and other.is_doubtful:
                    await self._counted(other.settle())
                sent_in = await self.limiter.acquire(call.order, tokens, call.kind)
                is_late = breaker.is_open and not is_probe  # It opened in the meantime.
                if is_late or (other is not None and other.is_doubtful):
                    self.limiter.release()
                    continue
                try:
                    return await self._attempt(call, send, tokens, sent_in)
                except JudgeError as error:
                    if isinstance(error, TryAgain):
                        send = error.again
                    failures = await self._failed(error, call.kind, failures)
        finally:
            if is_probe:
                breaker.probed()

    async def _failed(self, error: JudgeError, kind: str, failures: int) -> int:
        """Wait until the next attempt may be made, after so many failures; return their new number."""
        if isinstance(error, TryAgain) and not error.counts:
            self._usage.retries[error.kind] += 1
            return failures
        if isinstance(error, Denied) and await self.breakers[kind].is_dead():
            fatal = JudgeUnavailable(error.message)
            self._end(kind, fatal)
            raise fatal from error
        if error.kind not in RETRIED or error.final:
            raise error
        if not _is_pause(error):
            failures += 1
        if failures >= self._limits.max_attempts:
            attempts = f" ({failures} attempts)" if failures > 1 else ""
            if kind == "embedding":  # Users think of the LLM first.
                attempts += f"; {advice(error.kind, 'llm.embedding')}"
            raise JudgeError(error.kind, error.message + attempts) from error
        self._usage.retries[error.kind] += 1
        with suppress(TimeoutError):
            async with asyncio.timeout(_backoff(error, failures)):
                await self.limiter.ends[kind].wait()
        return failures

    async def _counted(self, turn: Awaitable[T]) -> T:
        """Wait for a turn, and count the request as waiting."""
        self._usage.waiting += 1
        try:
            return await turn
        finally:
            self._usage.waiting -= 1

    async def _attempt(self, call: Call, send: Send, tokens: int, sent_in: int) -> Any:
        try:
            if self.shared is not None:
                await self._counted(self.shared.acquire(call.order, tokens, call.kind))
            call.sent()
            reply, used = await self._send(send)
        except Exception as error:
            failure = self._failure(error, call.kind, sent_in)
            if isinstance(error, TimeoutError | ConnectionLost):  # It may be billed, but nobody says so.
                cost = self.prices.cost(call.kind, TokenUsage(tokens))
                self._usage.timed_out_dollars += cost or 0.0
                if self.shared is not None:
                    self.shared.used()
                self._check_budget()
            if failure.usage is not None or failure.reply is not None:
                self._account(call, tokens, failure.usage, failure.reply)
            failure = self.breakers[call.kind].attempt_failed(failure)
            if failure is error:
                raise
            raise failure from error
        else:
            self.limiter.succeeded(sent_in)
            self.breakers[call.kind].replied()
            self._account(call, tokens, used, reply)
        finally:
            self.limiter.release()
        # Many replies arrive at once: send the next requests before processing these.
        await asyncio.sleep(0)
        return reply

    async def _send(self, send: Send) -> tuple[Any, TokenUsage | None]:
        self._usage.attempts += 1
        self._usage.in_flight += 1
        try:
            async with asyncio.timeout(self._limits.call_timeout_sec):
                return await send()
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            raise JudgeError("unavailable", "the judge cancelled the call itself", final=True) from error
        finally:
            self._usage.in_flight -= 1

    def _account(self, call: Call, estimate: int, used: Any, reply: Any) -> None:
        """Count and price the tokens of an attempt; estimate them if the judge gives no valid counts."""
        try:
            tokens = TokenUsage(*used)
            is_metered = all(0 <= n < 2**53 for n in tokens) and tokens.cached_tokens <= tokens.input_tokens
        except TypeError:
            is_metered = False
        more = 0
        if is_metered:
            more = tokens.input_tokens + tokens.output_tokens - estimate
            self.limiter.correct(more)
        else:
            self._usage.unmetered += 1
            tokens = TokenUsage(estimate, estimate_reply(reply) if call.kind == "completion" else 0)
        cost = self._usage.add(call.kind, tokens, self.prices)
        call.costs.append(cost if is_metered else None)
        if self.shared is not None:
            self.shared.used(more)
        self._check_budget()

    def _check_budget(self) -> None:
        budget = self._limits.budget_usd
        if budget is not None and (self._usage.spent or 0.0) >= budget:
            self._broke(f"the budget of {budget:g} US dollars is spent")

    def _broke(self, text: str) -> None:
        for peer in self._peers:
            for kind in KINDS:
                peer._dismiss(kind, partial(JudgeError, "budget", text, final=True))

    def _end(self, kind: str, error: JudgeUnavailable) -> None:
        """Send no more requests of a kind, since they would all fail; or none of any kind to any judge."""
        # Every metric needs completions, so their failure ends embeddings, too.
        kinds = KINDS if kind == "completion" or self._is_ended_by_one else (kind,)
        for peer in self._peers if self._is_ended_by_one else [self]:
            for ended in kinds:
                peer._dismiss(ended, partial(JudgeUnavailable, error.message))

    def _dismiss(self, kind: str, error: Callable[[], JudgeError]) -> None:
        self.limiter.dismiss(kind, error)
        self.breakers[kind].close()
        if self.shared is not None:
            self.shared.dismiss(kind, error)

    def _give_up(self, kind: str, text: str, last: JudgeError) -> JudgeUnavailable:
        key = "llm.embedding" if kind == "embedding" else self._key
        error = JudgeUnavailable(f"{self.where(kind)}: {text}; {advice(last.kind, key)}")
        self._end(kind, error)
        return error

    def _failure(self, error: Exception, kind: str, sent_in: int) -> JudgeError:
        """Convert the exception of an attempt to a `JudgeError`; pause or end later requests if needed."""
        if isinstance(error, JudgeUnavailable):
            self._end(kind, error)
        if isinstance(error, JudgeError):
            if error.kind == "rate_limited":
                self.limiter.slow_down(sent_in)
            asked = error.retry_after or 0.0
            if asked <= self._limits.max_pause_sec and (error.kind == "rate_limited" or _is_pause(error)):
                self.limiter.pause(asked)
                if asked and self.shared is not None:
                    self.shared.pause(asked)
            return error
        if isinstance(error, TimeoutError):
            text = describe_exception(error).removeprefix("TimeoutError").removeprefix(": ")
            late = f"no reply within {self._limits.call_timeout_sec:g} seconds"
            return JudgeError("timeout", text or late)
        final = not isinstance(error, OSError)
        return JudgeError("unavailable", describe_exception(error), final=final)


def advice(kind: str, key: str) -> str:
    """Return what to check where all calls of the model configured at `key` fail in this way."""
    return f"check {ADVICE[kind].format(key=key)}"


def _is_pause(error: JudgeError) -> bool:
    """Whether the server asks for a pause so long that the request is postponed instead of failed."""
    return error.kind in RETRIED and not error.final and (error.retry_after or 0.0) > RETRY_AFTER_CAP


def _backoff(error: JudgeError, failures: int) -> float:
    """Return the wait before the next attempt, in seconds.

    Full jitter: https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/
    """
    asked = error.retry_after or 0.0
    if _is_pause(error) or (error.kind == "rate_limited" and asked):
        return 0.0  # The rate limiter already pauses.
    return max(asked, uniform(0, min(MAX_BACKOFF_SECONDS, BACKOFF_SECONDS * 2 ** (failures - 1))))  # noqa: S311
