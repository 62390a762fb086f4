"""Sends the calls of one model: from the cache, within the limits, again if they fail; counts and
prices.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from hashlib import sha256
from inspect import signature
from random import uniform
from typing import TYPE_CHECKING, Any, TypeVar

import orjson
from anyio import CancelScope

from graphrag_eval_async.errors import JudgeError, JudgeUnavailable, describe_exception
from graphrag_eval_async.judge.cache import digest
from graphrag_eval_async.judge.call import Answer
from graphrag_eval_async.judge.failures import RETRIED, ConnectionLost, Denied, DialectChanged
from graphrag_eval_async.judge.limits import LONG_PAUSE, Breaker
from graphrag_eval_async.judge.openai_judge import OpenAIJudge
from graphrag_eval_async.judge.prices import prices_of
from graphrag_eval_async.judge.replies import Completion
from graphrag_eval_async.judge.tokens import estimate_reply, token_usage
from graphrag_eval_async.records.token_usage import TokenUsage

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from graphrag_eval_async.judge.cache import CallCache
    from graphrag_eval_async.judge.call import Call, UsableReply
    from graphrag_eval_async.judge.limits import RateLimiter, Shared
    from graphrag_eval_async.judge.setup import JudgeSetup

T = TypeVar("T")

ADVICE = {
    "unavailable": "{key}.base_url, and that the server works",
    "timeout": "{key}.base_url, that the server works, and llm.limits.call_timeout_sec",
    "rate_limited": "the limits and the quota of the account, and llm.limits.requests_per_minute",
    "invalid_request": "{key}.model, its parameters and {key}.base_url",
    "invalid_reply": "that {key}.model can reply in JSON, and {key}.base_url",
}
"""What to check if all calls fail, by the kind of the failure."""

METHODS = {"completion": "complete", "embedding": "embed"}
"""The method of `Judge` for each kind of call."""

ALIVE = frozenset({"refused", "budget"})
"""Failures that do not mean that the judge does not work."""

BACKOFF_SECONDS = 0.5
"""Maximum wait after the first failure; it doubles with each further failure."""

MAX_BACKOFF_SECONDS = 30.0


def advice(kind: str, key: str) -> str:
    """Return what to check where all calls of the model configured at `key` fail in this way."""
    return f"check {ADVICE[kind].format(key=key)}"


class Sender:
    """Sends the calls of one kind, "completion" or "embedding", to one model.

    It is the only layer that retries requests, and so sees, counts and prices each of them.
    """

    def __init__(
        self,
        session: Shared,
        setup: JudgeSetup,
        kind: str,
        limiter: RateLimiter,
        prerequisite: Sender | None = None,
    ) -> None:
        """Prepare to send, once `open` has given the judge.

        Args:
            session: what all senders of a stream share.
            setup: the judge, as it is configured.
            kind: "completion" or "embedding".
            limiter: limits requests, perhaps those of several senders.
            prerequisite: a sender without which results fail: while its first calls fail, this one
                sends nothing, since it would be wasted.
        """
        self.name = setup.name
        self.kind = kind
        self.prices = prices_of(setup.llm, setup.name)
        self.judge: Any = None
        self.breaker = Breaker(setup.llm.limits)
        self._session = session
        self._limits = setup.llm.limits
        self._usage = session.usage
        self._limiter = limiter
        self._prerequisite: Breaker | None = None
        if prerequisite is not None:
            self._prerequisite = prerequisite.breaker
        self._section = setup.llm.key(setup.name)
        if kind == "embedding":
            self._section = "llm.embedding"
        self._identity = setup.identities[METHODS[kind]]
        self._cache: CallCache | None = None
        # Hashes of what all calls with a schema share, by the id of the schema. There are few
        # schemas; keeping a reference to each prevents reuse of its id.
        self._hashes: dict[int, tuple[Any, Any]] = {}
        self._takes_variation = False
        # Once it is set, every call fails with the error that it returns.
        self._dismissal: Callable[[], JudgeError] | None = None
        self._waits: set[CancelScope] = set()

    def open(self, judge: Any, cache: CallCache | None) -> None:
        """Send to this judge what the cache does not have."""
        self.judge = judge
        self._cache = cache
        if isinstance(judge, OpenAIJudge):
            self._section = judge.section
        with suppress(TypeError, ValueError, AttributeError):  # Of a callable without a signature.
            self._takes_variation = "variation" in signature(judge.complete).parameters

    def key(self, schema: Any, *texts: str) -> bytes:
        """Return the key of a call: a hash of the judge, the schema and the texts."""
        known = self._hashes.get(id(schema))
        if known is None:
            shared_hash = sha256(digest(METHODS[self.kind], self._identity, schema))
            known = (shared_hash, schema)
            self._hashes[id(schema)] = known
        key = known[0].copy()
        for text in texts:
            data = text.encode(errors="surrogatepass")
            key.update(b"%d:" % len(data))
            key.update(data)
        digest_of_call: bytes = key.digest()
        return digest_of_call

    def departures(self) -> list[str]:
        """Return in what requests differ from those by default, as it was learned until now."""
        if self.kind != "completion" or not isinstance(self.judge, OpenAIJudge):
            return []
        return self._named_departures(self.judge.dialect.departures)

    def _named_departures(self, departures: list[str]) -> list[str]:
        return [f"{self.name} {self.kind}: {departure}" for departure in departures]

    async def answer(self, call: Call) -> Answer:
        """Return a usable reply, from the cache or the judge.

        Raises:
            JudgeError: there is none.
        """
        cached = await self._look_up(call)
        if cached is not None:
            self._usage.cache_hits += 1
            return cached

        self._usage.calls += 1
        try:
            completion, reply = await self._ask(call)
            self.breaker.succeeded()
        except asyncio.CancelledError:
            if call.epoch is not None:
                self._record_failure(JudgeError("timeout", "no reply in the time of the result"))
            raise
        except JudgeError as error:
            failure = self._record_failure(error)
            raise failure from (error if failure is not error else error.__cause__)
        finally:
            if call.epoch is not None:
                self.breaker.leave()

        self._usage.repaired += completion.is_repaired
        departures = self._named_departures(completion.dialect.departures)
        if self._cache is not None:
            cached_answer = b"\n".join(map(orjson.dumps, (reply.json, departures)))
            await self._cache.put(call.key, cached_answer)
            self._usage.cache_errors = self._cache.failures
        return Answer(reply.value, departures)

    async def _look_up(self, call: Call) -> Answer | None:
        """Return the reply that the cache has; None if it has no usable one."""
        if self._cache is None:
            return None
        cached = await self._cache.get(call.key)
        if cached is None:
            return None
        value, _, departures = cached.partition(b"\n")
        # A cached reply may be corrupt, or from a version with weaker checks.
        with suppress(JudgeError, orjson.JSONDecodeError):
            reply = call.check(orjson.loads(value))
            return Answer(reply.value, orjson.loads(departures or b"[]"))
        return None

    async def _ask(self, call: Call) -> tuple[Completion, UsableReply]:
        """Return a completion and the reply in it; if the first reply is unusable, ask the judge
        once to correct it.
        """
        try:
            return await self._ask_once(call)
        except JudgeError as error:
            if error.kind != "invalid_reply" or error.final:
                raise
            self._usage.retries[error.kind] += 1
            call.quote_reply(error)
        return await self._ask_once(call)

    async def _ask_once(self, call: Call) -> tuple[Completion, UsableReply]:
        """Return the completion of a request, which is sent until it has one or another attempt is
        not worth it, and the reply in it.
        """
        self._check_budget()  # Results restored from a journal may have spent it.
        tokens = call.estimate_tokens()
        failures = 0
        while True:
            epoch = call.epoch
            sent_in = await self._wait_for_turn(call, tokens)
            if epoch is not None and epoch != call.epoch:
                # It waited for the end of an outage, and begins again.
                failures = 0
            try:
                completion = await self._attempt(call, tokens, sent_in)
                break
            except DialectChanged as error:
                self._usage.retries[error.kind] += 1
            except JudgeError as error:
                failures = await self._wait_after(error, failures)
        return completion, call.check(completion.value)

    async def _unless_dismissed(self, wait: Callable[[], Awaitable[T]]) -> T:
        """Return what `wait` returns.

        Raises:
            JudgeError: all calls were dismissed, before or while it waited.
        """
        if self._dismissal is None:
            with CancelScope() as scope:
                self._waits.add(scope)
                try:
                    return await wait()
                finally:
                    self._waits.discard(scope)
        assert self._dismissal is not None  # noqa: S101  (only `dismiss` cancels the scope)
        raise self._dismissal()

    async def _wait_for_turn(self, call: Call, tokens: int) -> int:
        """Wait until a request may be sent; return the round of the limiter in which it is."""

        async def wait() -> int:
            while True:
                await self._enter_breaker(call)
                if self._prerequisite is not None:
                    await self._prerequisite.wait_for_success()
                sent_in = await self._limiter.acquire(call.clock.order, tokens)
                is_doubtful = self._prerequisite is not None and self._prerequisite.is_doubtful
                if not is_doubtful and call.epoch == self.breaker.epoch:
                    return sent_in
                # Other calls failed in the meantime.
                self._limiter.release()

        self._usage.waiting += 1
        try:
            return await self._unless_dismissed(wait)
        except JudgeUnavailable as error:
            self._session.end_model(self, error)
            raise
        finally:
            self._usage.waiting -= 1

    async def _enter_breaker(self, call: Call) -> None:
        """Wait until the breaker admits a call, again if it has opened since it did."""
        if call.epoch == self.breaker.epoch:
            return
        if call.epoch is not None:
            call.epoch = None
            self.breaker.leave()
        call.epoch = await self.breaker.enter()

    async def _attempt(self, call: Call, tokens: int, sent_in: int) -> Completion:
        """Send a request once; count and price the reply.

        Args:
            call: what to send.
            tokens: the estimated tokens of the request.
            sent_in: the round of the limiter that admitted it.
        """
        try:
            completion = await self._request(call)
            self._limiter.succeeded(sent_in)
            self.breaker.replied()
            self._account(call, tokens, completion.usage, completion.value)
        except Exception as error:  # noqa: BLE001  (a judge may raise anything)
            failure = self._read_failure(error, sent_in)
            if isinstance(error, TimeoutError | ConnectionLost):
                # It may be billed, but nobody says so.
                cost = self.prices.cost(self.kind, TokenUsage(tokens))
                self._usage.timed_out_dollars += cost or 0.0
                self._check_budget()
            if failure.usage is not None or failure.reply is not None:
                self._account(call, tokens, failure.usage, failure.reply)
            # If this ends the run, no other request is admitted: the slot is not released yet.
            final = self._record_failure(failure, is_attempt=True)
            raise final from (error if final is not error else error.__cause__)
        finally:
            self._limiter.release()
        # Many replies arrive at once: send the next requests before processing these.
        await asyncio.sleep(0)
        return completion

    async def _request(self, call: Call) -> Completion:
        """Return the reply to a request, and the tokens used."""
        call.clock.start()
        self._usage.attempts += 1
        self._usage.in_flight += 1
        try:
            async with asyncio.timeout(self._limits.call_timeout_sec):
                return await self._call_judge(call)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            problem = "the judge cancelled the call itself"
            raise JudgeError("unavailable", problem, final=True) from error
        finally:
            self._usage.in_flight -= 1

    async def _call_judge(self, call: Call) -> Completion:
        """Return what a method of the judge returns."""
        judge = self.judge
        if call.schema is None:
            vectors, used = await judge.embed(call.inputs)
            return Completion(vectors, used)
        variation = {}
        if call.repeat and self._takes_variation:
            variation["variation"] = call.repeat
        if isinstance(judge, OpenAIJudge):
            return await judge.request_completion(call.inputs, call.schema, **variation)
        reply, used = await judge.complete(call.inputs, call.schema, **variation)
        return Completion(reply, used)

    def _read_failure(self, error: Exception, sent_in: int) -> JudgeError:
        """Return the exception of an attempt as a `JudgeError`; slow down, pause or end later
        requests if needed.
        """
        if isinstance(error, JudgeUnavailable):
            self._session.end_model(self, error)
        if isinstance(error, JudgeError):
            if error.kind == "rate_limited":
                self._limiter.slow_down(sent_in)
            if error.kind in {"refused", "invalid_reply"}:
                # The server accepts the key and knows the model.
                self.breaker.replied()
            pause = self._pause_of(error)
            if pause:
                self._limiter.pause(pause)
            return error
        if isinstance(error, TimeoutError):
            text = describe_exception(error).removeprefix("TimeoutError").removeprefix(": ")
            default = f"no reply within {self._limits.call_timeout_sec:g} seconds"
            return JudgeError("timeout", text or default)
        is_connection = isinstance(error, OSError)
        return JudgeError("unavailable", describe_exception(error), final=not is_connection)

    def _pause_of(self, error: JudgeError) -> float:
        """Return for how many seconds no request may be sent after a failed attempt."""
        seconds = error.retry_after or 0.0
        if error.final or error.kind not in RETRIED or seconds > self._limits.max_pause_sec:
            return 0.0
        if error.kind == "rate_limited" or seconds > LONG_PAUSE:
            return seconds
        return 0.0

    async def _wait_after(self, error: JudgeError, failures: int) -> int:
        """Wait after a failed attempt until the next may be made.

        Args:
            error: why it failed.
            failures: the failed attempts before.

        Returns:
            The failed attempts until now.

        Raises:
            JudgeError: there is no next attempt.
        """
        if isinstance(error, Denied):
            await self._raise_if_all_denied(error)
        if error.kind not in RETRIED or error.final:
            raise error

        pause = self._pause_of(error)
        if pause <= LONG_PAUSE:
            failures += 1
        if failures >= self._limits.max_attempts:
            raise self._last_failure(error, failures) from error
        self._usage.retries[error.kind] += 1

        seconds = 0.0
        if not pause:  # Else the limiter pauses.
            # Full jitter: https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/
            longest = min(MAX_BACKOFF_SECONDS, BACKOFF_SECONDS * 2 ** max(0, failures - 1))
            seconds = max(error.retry_after or 0.0, uniform(0, longest))  # noqa: S311
        await self._unless_dismissed(lambda: asyncio.sleep(seconds))
        return failures

    async def _raise_if_all_denied(self, error: Denied) -> None:
        """End the run if the server denies all requests, not only this one.

        Raises:
            JudgeUnavailable: it does.
        """
        if await self._unless_dismissed(self.breaker.are_all_denied):
            fatal = JudgeUnavailable(error.message)
            self._session.end_model(self, fatal)
            raise fatal from error

    def _last_failure(self, error: JudgeError, failures: int) -> JudgeError:
        """Return the error of a call after its last attempt."""
        text = error.message
        if failures > 1:
            text += f" ({failures} attempts)"
        if self.kind == "embedding":  # Users think of the LLM first.
            text += f"; {advice(error.kind, self._section)}"
        return JudgeError(error.kind, text)

    def _account(self, call: Call, estimate: int, used: Any, reply: Any) -> None:
        """Count and price the tokens of an attempt, or estimate them.

        Args:
            call: gets the cost.
            estimate: the estimated tokens of the request.
            used: what the judge says that it used.
            reply: what it replied.
        """
        tokens = token_usage(used)
        if tokens is not None:
            self._limiter.correct(tokens.input_tokens + tokens.output_tokens - estimate)
            call.costs.append(self._usage.add(self.kind, tokens, self.prices))
        else:
            self._usage.unmetered += 1
            output_tokens = 0
            if self.kind == "completion":
                output_tokens = estimate_reply(reply)
            self._usage.add(self.kind, TokenUsage(estimate, output_tokens), self.prices)
            call.costs.append(None)
        self._check_budget()

    def _check_budget(self) -> None:
        """End all calls if the budget is spent."""
        budget = self._limits.budget_usd
        if budget is not None and (self._usage.spent or 0.0) >= budget:
            self._session.end_for_budget(f"the budget of {budget:g} US dollars is spent")

    def _record_failure(self, error: JudgeError, *, is_attempt: bool = False) -> JudgeError:
        """Record that a call, or one attempt of it, failed; return the error to raise."""
        if error.kind in ALIVE or isinstance(error, JudgeUnavailable):
            return error
        if is_attempt:
            reason = self.breaker.attempt_failed(error.retry_after or 0.0)
        else:
            reason = self.breaker.failed()
        if reason is None:
            return error

        where = f"the judge's {self.kind} model"
        if isinstance(self.judge, OpenAIJudge):
            where = self.judge.where
        fatal = JudgeUnavailable(
            f"{where}: {reason}{error.message}; {advice(error.kind, self._section)}"
        )
        self._session.end_model(self, fatal)
        return fatal

    def dismiss(self, error: Callable[[], JudgeError]) -> None:
        """Fail all waiting and future calls with the error that a function returns; later errors
        are ignored.
        """
        if self._dismissal is None:
            self._dismissal = error
            for scope in self._waits:
                scope.cancel()
