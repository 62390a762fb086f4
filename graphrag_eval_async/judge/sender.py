"""Sends the calls of one model: from the cache, within the limits, again if they fail; counts and
prices.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from hashlib import sha256
from inspect import signature
from random import uniform
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

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
from graphrag_eval_async.judge.tokens import estimate_reply, read_token_usage
from graphrag_eval_async.records.token_usage import TokenUsage

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from graphrag_eval_async.judge.cache import CallCache
    from graphrag_eval_async.judge.call import Call, UsableReply
    from graphrag_eval_async.judge.limits import RateLimiter, Shared
    from graphrag_eval_async.judge.setting_names import SettingNames
    from graphrag_eval_async.judge.setup import JudgeSetup

T = TypeVar("T")

ADVICE = {
    "unavailable": "{base_url}, and that the server works",
    "timeout": "{base_url}, that the server works, and llm.limits.call_timeout_sec",
    "rate_limited": "the limits and the quota of the account, and llm.limits.requests_per_minute",
    "invalid_request": "{model}, its parameters and {base_url}",
    "invalid_reply": "that {model} can reply in JSON, and {base_url}",
}
"""What to check if all calls fail, by the kind of the failure."""

OWN_JUDGE_ADVICE = {
    "unavailable": "the judge that you gave, and that its server works",
    "timeout": ("the judge that you gave, that its server works, and llm.limits.call_timeout_sec"),
    "rate_limited": ADVICE["rate_limited"],
    "invalid_request": "what the judge that you gave sends",
    "invalid_reply": "that the judge that you gave can reply in JSON",
}
"""What to check if all calls of a judge of the user's class fail, by the kind of the failure."""

METHODS = {"completion": "complete", "embedding": "embed"}
"""The method of `Judge` for each kind of call."""

FAILURES_OF_WORKING_JUDGES = frozenset({"refused", "budget"})
"""Kinds of failures that do not mean that the judge does not work."""

BACKOFF_SECONDS = 0.5
"""Maximum wait after the first failure; it doubles with each further failure."""

MAX_BACKOFF_SECONDS = 30.0


def advice(kind: str, names: SettingNames | None) -> str:
    """Return what to check if all calls of a model fail in the same way.

    Args:
        kind: the kind of the failure.
        names: what errors call the settings of the model; None for a judge of the user's class.
    """
    if names is None:
        return f"check {OWN_JUDGE_ADVICE[kind]}"
    return f"check {ADVICE[kind].format(model=names.model, base_url=names.base_url)}"


class SchemaHash(NamedTuple):
    """A hash of a judge and a schema, to which the texts of a call are added."""

    hash: Any
    schema: Any
    """Kept so that no other schema gets the same id."""


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
        self._identity = setup.identities[METHODS[kind]]
        self._cache: CallCache | None = None
        # Hashes of what all calls with a schema share, by the id of the schema. There are few
        # schemas.
        self._hashes: dict[int, SchemaHash] = {}
        self._takes_variation = False
        # Once it is set, every call fails with the error that it makes.
        self._make_final_error: Callable[[], JudgeError] | None = None
        self._waits: set[CancelScope] = set()

    def open(self, judge: Any, cache: CallCache | None) -> None:
        """Send to this judge the calls whose replies the cache does not have."""
        self.judge = judge
        self._cache = cache
        # Some callables have no signature.
        with suppress(TypeError, ValueError, AttributeError):
            self._takes_variation = "variation" in signature(judge.complete).parameters

    @property
    def _names(self) -> SettingNames | None:
        """What errors call the settings of the model; None for a judge of the user's class."""
        if not isinstance(self.judge, OpenAIJudge):
            return None
        if self.kind == "embedding":
            return self.judge.embedding_names
        return self.judge.names

    @property
    def _where(self) -> str:
        """The model and its server, as messages name them."""
        if not isinstance(self.judge, OpenAIJudge):
            return f"the judge's {self.kind} model"
        if self.kind == "embedding":
            return self.judge.where_embedding
        return self.judge.where

    def key(self, schema: Any, *texts: str) -> bytes:
        """Return the key of a call: a hash of the judge, the schema of the reply and the texts.

        Args:
            schema: the JSON Schema; None for embeddings. Its part of the hash is computed once.
            texts: what distinguishes calls with the same schema.
        """
        cached = self._hashes.get(id(schema))
        if cached is None:
            judge_and_schema = digest(METHODS[self.kind], self._identity, schema)
            cached = SchemaHash(sha256(judge_and_schema), schema)
            self._hashes[id(schema)] = cached
        hash_of_call = cached.hash.copy()
        for text in texts:
            data = text.encode(errors="surrogatepass")
            # With its length before each text, the texts "ab", "c" and "a", "bc" differ.
            hash_of_call.update(b"%d:" % len(data))
            hash_of_call.update(data)
        key: bytes = hash_of_call.digest()
        return key

    def departures(self) -> list[str]:
        """Return how requests for completions now differ from the default."""
        if self.kind != "completion" or not isinstance(self.judge, OpenAIJudge):
            return []
        return self._named_departures(self.judge.dialect.departures)

    def _named_departures(self, departures: list[str]) -> list[str]:
        """Return departures from the default with the name of the judge and the kind of calls."""
        return [f"{self.name} {self.kind}: {departure}" for departure in departures]

    async def answer(self, call: Call) -> Answer:
        """Return a usable reply to a call, from the cache or the judge.

        A failure may end all calls of the model; it is then raised as a `JudgeUnavailable`.

        Raises:
            JudgeError: there is no usable reply.
        """
        cached = await self._look_up(call)
        if cached is not None:
            self._usage.cache_hits += 1
            return cached

        self._usage.calls += 1
        try:
            completion, reply = await self._ask(call)
            self.breaker.call_succeeded()
        except asyncio.CancelledError:
            is_admitted = call.outages_at_admission is not None
            if is_admitted:
                timeout = JudgeError("timeout", "no reply in the time of the result")
                self._record_failed_call(timeout)
            raise
        except JudgeError as error:
            failure = self._record_failed_call(error)
            if failure is error:
                raise
            raise failure from error
        finally:
            is_admitted = call.outages_at_admission is not None
            if is_admitted:
                self.breaker.leave()

        self._usage.repaired += completion.is_repaired
        departures = self._named_departures(completion.dialect.departures)
        if self._cache is not None:
            # Two lines of JSON; see `_look_up`.
            lines = [orjson.dumps(reply.json), orjson.dumps(departures)]
            await self._cache.put(call.key, b"\n".join(lines))
            self._usage.cache_errors = self._cache.failures
        return Answer(reply.value, departures)

    async def _look_up(self, call: Call) -> Answer | None:
        """Return the answer that the cache has for a call; None if it has no usable one."""
        if self._cache is None:
            return None
        cached = await self._cache.get(call.key)
        if cached is None:
            return None
        reply_line, _, departures_line = cached.partition(b"\n")
        # A cached reply may be corrupt, or from a version with weaker checks.
        with suppress(JudgeError, orjson.JSONDecodeError):
            reply = call.check(orjson.loads(reply_line))
            departures = orjson.loads(departures_line or b"[]")
            return Answer(reply.value, departures)
        return None

    async def _ask(self, call: Call) -> tuple[Completion, UsableReply]:
        """Return a completion and the usable reply in it.

        If the first reply is unusable, the judge is asked once to correct it.
        """
        try:
            return await self._ask_once(call)
        except JudgeError as error:
            can_be_corrected = error.kind == "invalid_reply" and not error.final
            if not can_be_corrected:
                raise
            self._usage.retries[error.kind] += 1
            call.quote_reply(error)
        return await self._ask_once(call)

    async def _ask_once(self, call: Call) -> tuple[Completion, UsableReply]:
        """Return a completion and the usable reply in it; send failed requests again.

        Raises:
            JudgeError: the reply is unusable, or a request failed and another attempt is not worth
                it.
        """
        # Results restored from a journal may have spent the budget.
        self._check_budget()
        charged_tokens = 0
        if self._limits.tokens_per_minute is not None:
            # Only this limit needs an estimate before the reply.
            charged_tokens = call.estimate_tokens()
        failures = 0
        while True:
            outages_before = call.outages_at_admission
            overloads_when_sent = await self._wait_for_turn(call, charged_tokens)
            was_admitted_before = outages_before is not None
            if was_admitted_before and outages_before != call.outages_at_admission:
                # It has waited for the end of an outage: earlier failed attempts no longer count.
                failures = 0
            try:
                completion = await self._attempt(call, charged_tokens, overloads_when_sent)
            except DialectChanged as error:
                self._usage.retries[error.kind] += 1
            except JudgeError as error:
                failures = await self._wait_after(error, failures)
            else:
                return completion, call.check(completion.value)

    async def _wait_unless_ended(self, wait: Callable[[], Awaitable[T]]) -> T:
        """Await `wait()` and return its result, unless `end` ends all calls before that.

        Raises:
            JudgeError: all calls have ended; it says why.
        """
        if self._make_final_error is None:
            with CancelScope() as scope:
                self._waits.add(scope)
                try:
                    return await wait()
                finally:
                    self._waits.discard(scope)
        # Either the calls had ended before, or `end` has cancelled the scope, which swallows the
        # cancellation.
        assert self._make_final_error is not None  # noqa: S101
        raise self._make_final_error()

    async def _wait_for_turn(self, call: Call, charged_tokens: int) -> int:
        """Wait until a request may be sent, and take its slot of the limiter.

        Args:
            call: the call of the request.
            charged_tokens: the tokens to charge to the rate limit.

        Returns:
            how often the server has reported overload until then, for the limiter.
        """
        self._usage.waiting += 1
        try:
            return await self._wait_unless_ended(partial(self._take_slot, call, charged_tokens))
        except JudgeUnavailable as error:
            self._session.end_model(self, error)
            raise
        finally:
            self._usage.waiting -= 1

    async def _take_slot(self, call: Call, charged_tokens: int) -> int:
        """Wait until the breakers and then the limiter let a request go; see `_wait_for_turn`."""
        while True:
            await self._wait_for_admission(call)
            if self._prerequisite is not None:
                await self._prerequisite.wait_while_doubtful()
            overloads = await self._limiter.acquire(call.clock.order, charged_tokens)

            # While this call waited for its slot, other calls may have failed.
            is_admitted = call.outages_at_admission == self.breaker.outages
            is_doubtful = self._prerequisite is not None and self._prerequisite.is_doubtful
            if is_admitted and not is_doubtful:
                return overloads
            self._limiter.release()

    async def _wait_for_admission(self, call: Call) -> None:
        """Wait until the breaker admits a call, if it has not done so since the last outage."""
        if call.outages_at_admission == self.breaker.outages:
            return
        if call.outages_at_admission is not None:
            # The call was admitted before the outage: it must wait like all others.
            call.outages_at_admission = None
            self.breaker.leave()
        call.outages_at_admission = await self.breaker.admit()

    async def _attempt(
        self, call: Call, charged_tokens: int, overloads_when_sent: int
    ) -> Completion:
        """Send a request once; count and price its reply, and free its slot of the limiter.

        Args:
            call: what to send.
            charged_tokens: the tokens that were charged to the rate limit.
            overloads_when_sent: how often the server had reported overload before; the limiter
                compares it.

        Raises:
            JudgeError: the attempt failed.
        """
        try:
            completion = await self._request(call)
            self._limiter.succeeded(overloads_when_sent)
            self.breaker.attempt_answered()
            self._account(call, charged_tokens, completion.usage, completion.value)
        except Exception as error:
            # A judge may raise anything.
            failure = self._as_judge_error(error)
            self._react(failure, overloads_when_sent)
            if isinstance(error, TimeoutError | ConnectionLost):
                self._account_lost_reply(call)
            if failure.usage is not None or failure.reply is not None:
                usage = read_token_usage(failure.usage)
                self._account(call, charged_tokens, usage, failure.reply)

            # If the failure ends the run, no other request may be admitted: the slot is not
            # released yet.
            final = self._record_failed_attempt(failure)
            if final is error:
                raise
            raise final from error
        finally:
            self._limiter.release()
        if self._cache is None:
            # Many replies arrive at once: send the next requests before processing these. With a
            # cache, a cancellation here would lose a reply that is paid for.
            await asyncio.sleep(0)
        return completion

    async def _request(self, call: Call) -> Completion:
        """Send a request and return its reply, within the time of one attempt."""
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
            # Nobody has cancelled this task.
            problem = "the judge cancelled the call itself"
            raise JudgeError("unavailable", problem, final=True) from error
        finally:
            self._usage.in_flight -= 1

    async def _call_judge(self, call: Call) -> Completion:
        """Have the judge embed or complete the inputs of a call.

        Returns:
            the vectors or the reply, with the tokens used.
        """
        judge = self.judge
        if call.schema is None:
            # The inputs are texts to embed.
            vectors, usage = await judge.embed(call.inputs)
            return Completion(vectors, read_token_usage(usage))

        options = {}
        if call.repeat and self._takes_variation:
            options["variation"] = call.repeat
        if isinstance(judge, OpenAIJudge):
            return await judge.request_completion(call.inputs, call.schema, **options)
        # A judge of the user's class may return its counts of tokens in any form.
        reply, usage = await judge.complete(call.inputs, call.schema, **options)
        return Completion(reply, read_token_usage(usage))

    def _as_judge_error(self, error: Exception) -> JudgeError:
        """Return the exception that ended an attempt as a `JudgeError`.

        A judge of the user's class may raise anything. What is neither a timeout nor a failed
        connection would happen again, so it is final.
        """
        if isinstance(error, JudgeError):
            return error
        description = describe_exception(error)
        if isinstance(error, TimeoutError):
            text = description.removeprefix("TimeoutError").removeprefix(": ")
            if not text:
                text = f"no reply within {self._limits.call_timeout_sec:g} seconds"
            return JudgeError("timeout", text)
        is_connection_error = isinstance(error, OSError)
        return JudgeError("unavailable", description, final=not is_connection_error)

    def _react(self, failure: JudgeError, overloads_when_sent: int) -> None:
        """Slow down, pause or end later requests after a failed attempt, if that is needed.

        Args:
            failure: why the attempt failed.
            overloads_when_sent: how often the server had reported overload before the request was
                sent; the limiter compares it.
        """
        if isinstance(failure, JudgeUnavailable):
            self._session.end_model(self, failure)
        if failure.kind == "rate_limited":
            self._limiter.slow_down(overloads_when_sent)
        if failure.kind in {"refused", "invalid_reply"}:
            # The server accepts the key and knows the model.
            self.breaker.attempt_answered()
        pause = self._common_pause(failure)
        if pause > 0:
            self._limiter.pause(pause)

    def _common_pause(self, failure: JudgeError) -> float:
        """Return for how many seconds all requests must wait after a failed attempt, not only this.

        They wait if the server reports overload, or asks for a long pause. They do not if the pause
        is too long to wait for: then the breaker ends the run.
        """
        seconds = failure.retry_after or 0.0
        is_too_long = seconds > self._limits.max_pause_sec
        is_retried = failure.kind in RETRIED and not failure.final
        if is_too_long or not is_retried:
            return 0.0
        if failure.kind == "rate_limited" or seconds > LONG_PAUSE:
            return seconds
        return 0.0

    async def _wait_after(self, error: JudgeError, failures: int) -> int:
        """Wait after a failed attempt until the next may be made.

        Args:
            error: why the attempt failed.
            failures: the failed attempts before.

        Returns:
            The failed attempts until now.

        Raises:
            JudgeError: there is no next attempt.
        """
        if isinstance(error, Denied):
            await self._end_if_all_denied(error)
        if error.kind not in RETRIED or error.final:
            raise error

        pause = self._common_pause(error)
        if pause <= LONG_PAUSE:
            # An attempt before a long pause does not count.
            failures += 1
        if failures >= self._limits.max_attempts:
            raise self._last_failure(error, failures) from error
        self._usage.retries[error.kind] += 1

        seconds = 0.0
        if pause == 0:
            # Otherwise, the limiter lets all requests wait. "Full jitter" is described in
            # https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/
            longest = min(MAX_BACKOFF_SECONDS, BACKOFF_SECONDS * 2 ** max(0, failures - 1))
            seconds = max(error.retry_after or 0.0, uniform(0, longest))  # noqa: S311
        await self._wait_unless_ended(partial(asyncio.sleep, seconds))
        return failures

    async def _end_if_all_denied(self, error: Denied) -> None:
        """End all calls of the model if the server denies every request, not only this one.

        Raises:
            JudgeUnavailable: it does.
        """
        if await self._wait_unless_ended(self.breaker.are_all_denied):
            fatal = JudgeUnavailable(error.message)
            self._session.end_model(self, fatal)
            raise fatal from error

    def _last_failure(self, error: JudgeError, attempts: int) -> JudgeError:
        """Return the error of a call whose last attempt has failed."""
        text = error.message
        if attempts > 1:
            text += f" ({attempts} attempts)"
        if self.kind == "embedding":
            # Users think of the LLM first.
            text += f"; {advice(error.kind, self._names)}"
        return JudgeError(error.kind, text)

    def _account(
        self, call: Call, charged_tokens: int, usage: TokenUsage | None, reply: Any
    ) -> None:
        """Count and price the tokens of a reply, or estimate them; end all calls at the budget.

        Args:
            call: gets the cost.
            charged_tokens: the tokens that were charged to the rate limit before.
            usage: the tokens that the judge reports; None if it reports none.
            reply: the reply, to estimate its tokens then.
        """
        if usage is not None:
            self._limiter.correct(usage.input_tokens + usage.output_tokens - charged_tokens)
            call.costs.append(self._usage.add(self.kind, usage, self.prices))
        else:
            self._usage.unmetered += 1
            output_tokens = 0
            if self.kind == "completion":
                output_tokens = estimate_reply(reply)
            estimate = TokenUsage(call.estimate_tokens(), output_tokens)
            self._usage.add(self.kind, estimate, self.prices)
            # An estimate counts for the budget, but is no cost of the call.
            call.costs.append(None)
        self._check_budget()

    def _account_lost_reply(self, call: Call) -> None:
        """Price the estimated tokens of a request whose reply was lost; end calls at the budget.

        The request may be billed, but nobody says so.
        """
        cost = self.prices.cost(self.kind, TokenUsage(call.estimate_tokens()))
        if cost is not None:
            self._usage.timed_out_dollars += cost
        self._check_budget()

    def _check_budget(self) -> None:
        """End all calls if the budget is spent."""
        budget = self._limits.budget_usd
        if budget is None:
            return
        spent = self._usage.spent
        if spent is not None and spent >= budget:
            self._session.end_for_budget(f"the budget of {budget:g} US dollars is spent")

    def _record_failed_call(self, error: JudgeError) -> JudgeError:
        """Tell the breaker that a call failed after its last attempt; return the error to raise.

        The error is another one, a `JudgeUnavailable`, if the breaker ends all calls of the model.
        """
        if _is_no_fault(error):
            return error
        reason = self.breaker.call_failed()
        if reason is None:
            return error
        return self._end_model(reason, error)

    def _record_failed_attempt(self, error: JudgeError) -> JudgeError:
        """Tell the breaker that one attempt of a call failed; return the error to raise.

        The error is another one, a `JudgeUnavailable`, if the breaker ends all calls of the model.
        """
        if _is_no_fault(error):
            return error
        reason = self.breaker.attempt_failed(error.retry_after or 0.0)
        if reason is None:
            return error
        return self._end_model(reason, error)

    def _end_model(self, reason: str, last_failure: JudgeError) -> JudgeUnavailable:
        """End all calls of the model; return the error that says why, and what to check."""
        problem = f"{self._where}: {reason}: {last_failure.message}"
        fatal = JudgeUnavailable(f"{problem}; {advice(last_failure.kind, self._names)}")
        self._session.end_model(self, fatal)
        return fatal

    def end(self, make_error: Callable[[], JudgeError]) -> None:
        """Fail all waiting and future calls with the error that `make_error` makes.

        Only the first reason to end counts; later ones are ignored.
        """
        if self._make_final_error is not None:
            return
        self._make_final_error = make_error
        for scope in self._waits:
            scope.cancel()


def _is_no_fault(error: JudgeError) -> bool:
    """Return whether the breaker ignores a failure: the judge works, or its calls have ended."""
    return error.kind in FAILURES_OF_WORKING_JUDGES or isinstance(error, JudgeUnavailable)
