"""Sends the calls to one model: from the cache, within the limits, again if they fail; counts
and prices.
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager, suppress
from hashlib import sha256
from inspect import signature
from random import uniform
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson
from anyio import CancelScope

from graphrag_eval_async.errors import JudgeError, JudgeUnavailable, describe_exception
from graphrag_eval_async.judge.cache import digest
from graphrag_eval_async.judge.calls import Rewritten, Way
from graphrag_eval_async.judge.failures import RETRIED, Denied
from graphrag_eval_async.judge.limits import LONG_PAUSE, Breaker
from graphrag_eval_async.judge.openai_judge import ConnectionLost, Server
from graphrag_eval_async.judge.usage import estimate_reply, prices_of
from graphrag_eval_async.records.token_usage import TokenUsage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from graphrag_eval_async.config import LLMConfig
    from graphrag_eval_async.judge.cache import CallCache
    from graphrag_eval_async.judge.calls import Call
    from graphrag_eval_async.judge.limits import RateLimiter, Shared
    from graphrag_eval_async.judge.protocol import Judge

ADVICE = {
    "unavailable": "{key}.base_url, and that the server works",
    "timeout": "{key}.base_url, that the server works, and llm.limits.call_timeout_sec",
    "rate_limited": "the limits and the quota of the account, and llm.limits.requests_per_minute",
    "invalid_request": "{key}.model, its parameters and {key}.base_url",
    "invalid_reply": "that {key}.model can reply in JSON, and {key}.base_url",
}
"""What to check if all calls fail, by the kind of the failure."""

METHODS = {"completion": "complete", "embedding": "embed"}

ALIVE = frozenset({"refused", "budget"})  # Failures that do not mean that the judge does not work.

BACKOFF_SECONDS = 0.5  # Maximum wait after the first failure; doubles with each further failure.

MAX_BACKOFF_SECONDS = 30.0


def advice(kind: str, key: str) -> str:
    """Return what to check where all calls of the model configured at `key` fail in this way."""
    return f"check {ADVICE[kind].format(key=key)}"


class JudgeSetup(NamedTuple):
    """A judge of a configuration, and the limits on its calls."""

    llm: LLMConfig
    name: str  # In the configuration.
    model: str  # Its name in results.
    # JSON that identifies it in cache keys, for "complete" and "embed".
    identities: Mapping[str, Any]
    # The same for results and journals: without values of the environment.
    fingerprint: Mapping[str, Any]
    own: Judge | None = None  # The caller's judge, used instead of the model; it is not closed.
    prepare: Callable[[], None] = lambda: None  # Imports what metrics need, in a thread.


class Sender:
    """Sends the calls of one kind, "completion" or "embedding", to one model. The only retry
    layer.
    """

    def __init__(
        self,
        session: Shared,
        setup: JudgeSetup,
        kind: str,
        limiter: RateLimiter,
        needs: Sender | None = None,
    ) -> None:
        """Prepare; while the first calls of `needs` fail, none is sent: it would be wasted."""
        llm, self.name, self.kind = setup.llm, setup.name, kind
        self.prices, self._identity = prices_of(llm, setup.name), setup.identities[METHODS[kind]]
        self.judge: Any = None
        self._session, self._limits, self._usage = session, llm.limits, session.usage
        self._limiter = limiter
        self.breaker = Breaker(llm.limits)
        self._needs = None if needs is None else needs.breaker
        self._section = "llm.embedding" if kind == "embedding" else llm.key(setup.name)
        self._cache: CallCache | None = None
        self._over: Callable[[], JudgeError] | None = None
        self._waits: set[CancelScope] = set()
        self._hashes: dict[int, tuple[Any, Any]] = {}
        self._varies = False

    def open(self, judge: Any, cache: CallCache | None) -> None:
        """Send to this judge what the cache does not have."""
        self.judge, self._cache = judge, cache
        with suppress(TypeError, ValueError, AttributeError):  # Of a callable without a signature.
            self._varies = "variation" in signature(judge.complete).parameters

    def key(self, schema: Any, *texts: str) -> bytes:
        """Return the key of a call: a hash of the judge, the schema and the texts."""
        # There are few schemas; keeping a reference to each prevents reuse of its id.
        known = self._hashes.get(id(schema))
        if known is None:
            about = digest(METHODS[self.kind], self._identity, schema)
            known = self._hashes[id(schema)] = sha256(about), schema
        key = known[0].copy()
        for text in texts:
            data = text.encode(errors="surrogatepass")
            key.update(b"%d:" % len(data))
            key.update(data)
        return key.digest()

    def written(self, call: Call) -> list[str]:
        """Return in what other way than by default a request is written; see `Server.written`."""
        found = self.judge.written(call.way, call.schema) if isinstance(self.judge, Server) else []
        return [f"{self.name} {self.kind}: {part}" for part in found]

    async def reply(self, call: Call) -> tuple[Any, list[str]]:
        """Return a usable reply, from the cache or the judge, and in what other way it was
        requested.
        """
        cache, usage, breaker = self._cache, self._usage, self.breaker
        if cache is not None and (kept := await cache.get(call.key)) is not None:
            # A cached reply may be corrupt, or from a version with weaker checks.
            with suppress(JudgeError, orjson.JSONDecodeError):
                text, _, written = kept.partition(b"\n")
                found = call.check(orjson.loads(text)), [*orjson.loads(written or b"[]")]
                usage.cache_hits += 1
                return found
        usage.calls += 1
        try:
            reply = await self._checked(call)
            breaker.succeeded()
        except asyncio.CancelledError:
            if call.epoch is not None:
                self._failed(JudgeError("timeout", "no reply in the time of the result"))
            raise
        except JudgeError as error:
            call.way = Way()
            failure = self._failed(error)
            raise failure from (error if failure is not error else error.__cause__)
        finally:
            if call.epoch is not None:
                breaker.leave()
        usage.repaired += call.way.is_repaired
        found = reply, self.written(call)
        if cache is not None:
            await cache.put(call.key, b"\n".join(map(orjson.dumps, found)))
            usage.cache_errors = cache.failures
        return found

    async def _checked(self, call: Call) -> Any:
        """Return a usable reply; if the first is unusable, ask the judge once to correct it."""
        try:
            return call.check(await self._send(call))
        except JudgeError as error:
            if error.kind != "invalid_reply" or error.final:
                raise
            self._usage.retries[error.kind] += 1
            call.correct(error)
        return call.check(await self._send(call))

    async def _send(self, call: Call) -> Any:
        """Return the reply to a request, sent until it has one or another attempt is not worth
        it.
        """
        self._check_budget()  # Results restored from a journal may have spent it.
        tokens, failures = call.tokens, 0
        while True:
            epoch = call.epoch
            sent_in = await self._admitted(call, tokens)
            # It waited for the end of an outage, and begins again.
            if epoch not in {
                None,
                call.epoch,
            }:
                failures = 0
            try:
                return await self._attempt(call, tokens, sent_in)
            except Rewritten as error:
                self._usage.retries[error.kind] += 1
            except JudgeError as error:
                failures = await self._wait(error, failures)

    @contextmanager
    def _waiting(self) -> Iterator[None]:
        """A context to wait in, which `dismiss` ends."""
        if self._over is None:
            with CancelScope() as scope:
                self._waits.add(scope)
                try:
                    yield
                finally:
                    self._waits.discard(scope)
            if not scope.cancelled_caught:
                return
        if self._over is not None:
            raise self._over()

    async def _admitted(self, call: Call, tokens: int) -> int:
        """Wait until a request may be sent; return its round."""
        breaker, limiter, needs = self.breaker, self._limiter, self._needs
        self._usage.waiting += 1
        try:
            with self._waiting():
                while True:
                    if call.epoch != breaker.opened:
                        if call.epoch is not None:
                            call.epoch = None
                            breaker.leave()
                        call.epoch = await breaker.enter()
                    if needs is not None:
                        await needs.no_doubt()
                    sent_in = await limiter.acquire(call.clock.order, tokens)
                    try:
                        if (
                            needs is None or not needs.is_doubtful
                        ) and call.epoch == breaker.opened:
                            return sent_in
                    except BaseException:
                        limiter.release()
                        raise
                    limiter.release()  # It opened in the meantime.
        except JudgeUnavailable as error:
            self._session.end(self, error)
            raise
        finally:
            self._usage.waiting -= 1
        raise AssertionError  # For type checkers: a context might swallow an exception.

    async def _attempt(self, call: Call, tokens: int, sent_in: int) -> Any:
        """Send a request once; count and price the reply."""
        reply = failure = cause = None
        try:
            reply, used = await self._request(call)
            self._limiter.succeeded(sent_in)
            self.breaker.replied()
            self._account(call, tokens, used, reply)
        except Exception as error:  # noqa: BLE001  (a judge may raise anything)
            cause, failure = error, self._failure(error, sent_in)
            # It may be billed, but nobody says so.
            if isinstance(error, TimeoutError | ConnectionLost):
                self._usage.timed_out_dollars += (
                    self.prices.cost(self.kind, TokenUsage(tokens)) or 0.0
                )
                self._check_budget()
            if failure.usage is not None or failure.reply is not None:
                self._account(call, tokens, failure.usage, failure.reply)
            # If the run ends, no other is admitted.
            failure = self._failed(failure, is_attempt=True)
        finally:
            self._limiter.release()
        if failure is None:
            # Many replies arrive at once: send the next requests before processing these.
            await asyncio.sleep(0)
            return reply
        raise failure from (cause if failure is not cause else failure.__cause__)

    async def _request(self, call: Call) -> Any:
        """Return the reply to a request, and the tokens used."""
        usage, judge = self._usage, self.judge
        options: dict[str, Any] = {"way": call.way} if isinstance(judge, Server) else {}
        if call.repeat and self._varies:
            options["variation"] = call.repeat
        call.clock.start()
        usage.attempts += 1
        usage.in_flight += 1
        try:
            async with asyncio.timeout(self._limits.call_timeout_sec):
                if call.schema is None:
                    return await judge.embed(call.asked, **options)
                return await judge.complete(call.asked, call.schema, **options)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            raise JudgeError(
                "unavailable", "the judge cancelled the call itself", final=True
            ) from error
        finally:
            usage.in_flight -= 1

    def _failure(self, error: Exception, sent_in: int) -> JudgeError:
        """Return the exception of an attempt as a `JudgeError`; pause or end later requests if
        needed.
        """
        if isinstance(error, JudgeUnavailable):
            self._session.end(self, error)
        if isinstance(error, JudgeError):
            if error.kind == "rate_limited":
                self._limiter.slow_down(sent_in)
            # The server accepts the key and knows the model.
            if error.kind in {
                "refused",
                "invalid_reply",
            }:
                self.breaker.replied()
            if pause := self._pause_of(error):
                self._limiter.pause(pause)
            return error
        if isinstance(error, TimeoutError):
            text = describe_exception(error).removeprefix("TimeoutError").removeprefix(": ")
            late = f"no reply within {self._limits.call_timeout_sec:g} seconds"
            return JudgeError("timeout", text or late)
        return JudgeError(
            "unavailable", describe_exception(error), final=not isinstance(error, OSError)
        )

    def _pause_of(self, error: JudgeError) -> float:
        """Return for how many seconds no request may be sent, after a failed attempt."""
        asked = error.retry_after or 0.0
        if error.final or error.kind not in RETRIED or asked > self._limits.max_pause_sec:
            return 0.0
        return asked if error.kind == "rate_limited" or asked > LONG_PAUSE else 0.0

    async def _wait(self, error: JudgeError, failures: int) -> int:
        """Wait until the next attempt may be made, after so many failures; return their new
        number.
        """
        if isinstance(error, Denied):
            with self._waiting():
                if await self.breaker.denied():
                    fatal = JudgeUnavailable(error.message)
                    self._session.end(self, fatal)
                    raise fatal from error
        if error.kind not in RETRIED or error.final:
            raise error
        pause = self._pause_of(error)
        failures += pause <= LONG_PAUSE
        if failures >= self._limits.max_attempts:
            attempts = f" ({failures} attempts)" if failures > 1 else ""
            if self.kind == "embedding":  # Users think of the LLM first.
                attempts += f"; {advice(error.kind, self._section)}"
            raise JudgeError(error.kind, error.message + attempts) from error
        self._usage.retries[error.kind] += 1
        with self._waiting():
            # Full jitter: https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/
            most = min(MAX_BACKOFF_SECONDS, BACKOFF_SECONDS * 2 ** max(0, failures - 1))
            wait = max(error.retry_after or 0.0, uniform(0, most))  # noqa: S311
            await asyncio.sleep(0.0 if pause else wait)  # The rate limiter already pauses.
        return failures

    def _account(self, call: Call, estimate: int, used: Any, reply: Any) -> None:
        """Count and price the tokens of an attempt, or estimate them."""
        try:
            tokens = TokenUsage(*used)
            is_metered = (
                all(0 <= n < 2**53 for n in tokens) and tokens.cached_tokens <= tokens.input_tokens
            )
        except TypeError:
            is_metered = False
        if is_metered:
            self._limiter.correct(tokens.input_tokens + tokens.output_tokens - estimate)
        else:
            self._usage.unmetered += 1
            tokens = TokenUsage(estimate, estimate_reply(reply) if self.kind == "completion" else 0)
        cost = self._usage.add(self.kind, tokens, self.prices)
        call.costs.append(cost if is_metered else None)
        self._check_budget()

    def _check_budget(self) -> None:
        budget = self._limits.budget_usd
        if budget is not None and (self._usage.spent or 0.0) >= budget:
            self._session.broke(f"the budget of {budget:g} US dollars is spent")

    def _failed(self, error: JudgeError, *, is_attempt: bool = False) -> JudgeError:
        """Record that a call, or one attempt, failed; return the error to raise."""
        if error.kind in ALIVE or isinstance(error, JudgeUnavailable):
            return error
        breaker, asked = self.breaker, error.retry_after or 0.0
        why = breaker.attempt_failed(asked) if is_attempt else breaker.failed()
        if why is None:
            return error
        where = (
            self.judge.where if isinstance(self.judge, Server) else f"the judge's {self.kind} model"
        )
        fatal = JudgeUnavailable(
            f"{where}: {why}{error.message}; {advice(error.kind, self._section)}"
        )
        self._session.end(self, fatal)
        return fatal

    def dismiss(self, error: Callable[[], JudgeError]) -> None:
        """Fail all waiting and future calls; later errors are ignored."""
        if self._over is None:
            self._over = error
            for scope in self._waits:
                scope.cancel()
