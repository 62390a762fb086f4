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
from graphrag_eval_async.judge.budget import REPLY_TOKENS, Estimator
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
    """Return a text that says which settings to check if all calls of a model fail alike.

    Args:
        kind: the kind of the failure, such as "timeout".
        names: the names of the model's settings; None for a judge of the user's own class.
    """
    if names is None:
        return f"check {OWN_JUDGE_ADVICE[kind]}"
    return f"check {ADVICE[kind].format(model=names.model, base_url=names.base_url)}"


class SchemaHash(NamedTuple):
    """A hash of a judge and a schema, to which the texts of a call are added."""

    hash: Any
    schema: Any
    """The schema, which is kept alive so that no other schema gets the same id."""


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
            session: the counts and clocks that all senders of a stream share.
            setup: the judge, as it is configured.
            kind: the kind of the calls, "completion" or "embedding".
            limiter: limits requests, perhaps together with those of other senders.
            prerequisite: a sender without which results fail; None if there is none. While the
                first calls of that sender fail, this one sends nothing, as its calls would be
                wasted.
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
        self._estimator = Estimator()
        self._prerequisite: Breaker | None = None
        if prerequisite is not None:
            self._prerequisite = prerequisite.breaker
        self._identity = setup.identities[METHODS[kind]]
        self._cache: CallCache | None = None
        # The hash of the judge and a schema, by the id of the schema. There are few schemas, so
        # this stays small.
        self._hashes: dict[int, SchemaHash] = {}
        self._takes_variation = False
        # Once this function is set, all calls fail, each with a new error made by the function.
        self._make_final_error: Callable[[], JudgeError] | None = None
        self._waits: set[CancelScope] = set()

    def open(self, judge: Any, cache: CallCache | None) -> None:
        """Set the judge, and the cache that is asked before the judge; None for no cache."""
        self.judge = judge
        self._cache = cache
        # Some callables have no signature, and some judges have no method `complete`.
        with suppress(TypeError, ValueError, AttributeError):
            self._takes_variation = "variation" in signature(judge.complete).parameters

    @property
    def _names(self) -> SettingNames | None:
        """The names of the model's settings in errors; None for a judge of the user's own class."""
        if not isinstance(self.judge, OpenAIJudge):
            return None
        if self.kind == "embedding":
            return self.judge.embedding_names
        return self.judge.names

    @property
    def _where(self) -> str:
        """The name of the model and the address of its server, for messages."""
        if not isinstance(self.judge, OpenAIJudge):
            return f"the judge's {self.kind} model"
        if self.kind == "embedding":
            return self.judge.where_embedding
        return self.judge.where

    def key(self, schema: Any, *texts: str) -> bytes:
        """Return the cache key of a call: a hash of the judge, the reply's schema and the texts.

        Args:
            schema: the JSON Schema of the reply; None for embeddings. The hash up to the schema is
                kept for later calls, since hashing a schema takes long.
            texts: the messages or the texts to embed, as the last part of the hash.
        """
        cached = self._hashes.get(id(schema))
        if cached is None:
            judge_and_schema = digest(METHODS[self.kind], self._identity, schema)
            cached = SchemaHash(sha256(judge_and_schema), schema)
            self._hashes[id(schema)] = cached
        hash_of_call = cached.hash.copy()
        for text in texts:
            data = text.encode(errors="surrogatepass")
            # Each text has its length before it, so that "ab", "c" and "a", "bc" differ.
            hash_of_call.update(b"%d:" % len(data))
            hash_of_call.update(data)
        key: bytes = hash_of_call.digest()
        return key

    def departures(self) -> list[str]:
        """Return the ways in which requests for completions now differ from the default."""
        if self.kind != "completion" or not isinstance(self.judge, OpenAIJudge):
            return []
        return self._named_departures(self.judge.dialect.departures)

    def _named_departures(self, departures: list[str]) -> list[str]:
        """Return departures of requests from the default, after the judge's name and the kind.

        For example, "temperature as None" becomes "generation completion: temperature as None".
        """
        return [f"{self.name} {self.kind}: {departure}" for departure in departures]

    async def answer(self, call: Call) -> Answer:
        """Return a usable reply to a call, from the cache or from the judge.

        If a failure ends all calls of the model, it is raised as a `JudgeUnavailable`.

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
                # The time of the result is over. The breaker must know of such failures, too.
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
            # An entry is two lines of JSON, which `_look_up` reads: the reply and the departures.
            lines = [orjson.dumps(reply.json), orjson.dumps(departures)]
            await self._cache.put(call.key, b"\n".join(lines))
            self._usage.cache_errors = self._cache.failures
        return Answer(reply.value, departures)

    async def _look_up(self, call: Call) -> Answer | None:
        """Return the answer to a call from the cache; None if the cache has no usable answer."""
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

        If the first reply is unusable, ask the judge once to correct the reply. `call` then has
        that reply and the request to correct it as further messages.
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
        """Return a completion and the usable reply in it, after sending failed requests again.

        Raises:
            JudgeError: the reply is unusable, or a request failed and may not be sent again.
        """
        # Results restored from a journal may have spent the budget.
        self._check_budget()
        charged_tokens = 0
        if self._limits.tokens_per_minute is not None:
            # Only this limit needs an estimate before the reply tells the true number.
            charged_tokens = call.estimate_tokens()
        failures = 0
        while True:
            outages_before = call.outages_at_admission
            overloads_when_sent = await self._wait_for_turn(call, charged_tokens)
            was_admitted_before = outages_before is not None
            if was_admitted_before and outages_before != call.outages_at_admission:
                # The call has waited for the end of an outage, so that its attempts before and
                # during the outage do not count.
                failures = 0
            try:
                completion = await self._attempt(call, charged_tokens, overloads_when_sent)
            except DialectChanged as error:
                # The judge writes the next request in another way. This is no failure.
                self._usage.retries[error.kind] += 1
            except JudgeError as error:
                failures = await self._wait_after(error, failures)
            else:
                return completion, call.check(completion.value)

    async def _wait_unless_ended(self, wait: Callable[[], Awaitable[T]]) -> T:
        """Await `wait()` and return the result, unless `end` ends all calls before or meanwhile.

        Raises:
            JudgeError: all calls have ended. The error says why.
        """
        if self._make_final_error is None:
            with CancelScope() as scope:
                self._waits.add(scope)
                try:
                    return await wait()
                finally:
                    self._waits.discard(scope)
        # This is reached if the calls had ended before, or if `end` has cancelled the scope: the
        # scope suppresses the cancellation, and the code after it runs.
        assert self._make_final_error is not None  # noqa: S101
        raise self._make_final_error()

    async def _wait_for_turn(self, call: Call, charged_tokens: int) -> int:
        """Wait until a request may be sent, and take a slot of the limiter for it.

        Args:
            call: the call to send a request for.
            charged_tokens: the tokens to charge to the rate limit.

        Returns:
            the number of times that the server has reported overload until then, which the limiter
            wants back.

        Raises:
            JudgeError: all calls have ended.
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
        """Wait until the breakers admit a request, and then until the limiter has a slot for it.

        Returns:
            the number of times that the server has reported overload until then.
        """
        while True:
            await self._wait_for_admission(call)
            if self._prerequisite is not None:
                await self._prerequisite.wait_while_doubtful()
            overloads = await self._limiter.acquire(call.clock.order, charged_tokens)

            # While this call waited for its slot, other calls may have failed so often that it must
            # wait again.
            is_admitted = call.outages_at_admission == self.breaker.outages
            is_doubtful = self._prerequisite is not None and self._prerequisite.is_doubtful
            if is_admitted and not is_doubtful:
                return overloads
            self._limiter.release()

    async def _reserve(self, call: Call) -> float:
        """Wait until the estimated cost of a request fits into the budget, and reserve it.

        Only requests that are sent have reserved something, so this always comes to an end.

        Returns:
            the estimated cost in US dollars; 0 without a budget.

        Raises:
            JudgeError: all calls have ended, or the call costs more than the rest of the budget.
        """
        budget = self._session.budget
        if budget is None:
            return 0.0
        while True:
            dollars = self._estimate_cost(call)
            if budget.reserve(dollars):
                return dollars
            if self._estimator.has_replies:
                if not budget.can_ever_fit(dollars):
                    text = f"the rest of the budget does not suffice: {self._limits.budget_usd:g}"
                    raise JudgeError("budget", f"{text} US dollars", final=True)
            elif budget.is_idle:
                # Only a reply shows what calls of this model really cost.
                budget.reserve_anyway(dollars)
                return dollars
            await self._wait_unless_ended(budget.wait_for_change)

    def _estimate_cost(self, call: Call) -> float:
        """Return the estimated cost of a request in US dollars; 0 if a price is unknown."""
        tokens = call.estimate_tokens()
        if self._estimator.has_replies:
            return self._estimator.estimate(tokens)
        reply_tokens = 0
        if self.kind == "completion":
            reply_tokens = REPLY_TOKENS
        return self.prices.cost(self.kind, TokenUsage(tokens, reply_tokens)) or 0.0

    async def _wait_for_admission(self, call: Call) -> None:
        """Wait until the breaker admits a call, if it has not done so since the last outage."""
        if call.outages_at_admission == self.breaker.outages:
            return
        if call.outages_at_admission is not None:
            # The call was admitted before the outage, and must now wait like all other calls.
            call.outages_at_admission = None
            self.breaker.leave()
        call.outages_at_admission = await self.breaker.admit()

    async def _attempt(
        self, call: Call, charged_tokens: int, overloads_when_sent: int
    ) -> Completion:
        """Send a request once, count and price the reply, and free the slot of the limiter.

        The request waits until its estimated cost fits into the budget.

        Args:
            call: the call to send a request for.
            charged_tokens: the tokens that were charged to the rate limit.
            overloads_when_sent: the number of times that the server had reported overload before,
                for the limiter.

        Raises:
            JudgeError: the attempt failed.
        """
        reserved_dollars = None
        try:
            reserved_dollars = await self._reserve(call)
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

            # The slot is not released yet: if this failure ends the run, no other request may take
            # the slot before.
            final = self._record_failed_attempt(failure)
            if final is error:
                raise
            raise final from error
        finally:
            if reserved_dollars is not None and self._session.budget is not None:
                self._session.budget.release(reserved_dollars)
            self._limiter.release()
        if self._cache is None:
            # Many replies arrive at once: send the next requests before processing these. With a
            # cache, a cancellation here would lose a reply that is paid for.
            await asyncio.sleep(0)
        return completion

    async def _request(self, call: Call) -> Completion:
        """Send a request and return the reply, within the time limit of one attempt.

        Raises:
            TimeoutError: there was no reply in time.
            JudgeError: the attempt failed. A judge of the user's class may raise any exception.
        """
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
            # Nobody has cancelled this task, so the judge itself raised the cancellation.
            problem = "the judge cancelled the call itself"
            raise JudgeError("unavailable", problem, final=True) from error
        finally:
            self._usage.in_flight -= 1

    async def _call_judge(self, call: Call) -> Completion:
        """Return the judge's vectors for texts, or its reply to messages, with the tokens used."""
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

        A judge of the user's class may raise any exception. Only a timeout or a failed connection
        is worth another attempt; every other exception would be raised again, so it is final.
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
        """Slow down, pause or end later requests, if a failed attempt gives a reason.

        Args:
            failure: why the attempt failed.
            overloads_when_sent: the number of times that the server had reported overload before
                the request was sent, for the limiter.
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
        """Return how many seconds all requests must wait after a failed attempt.

        All requests wait if the server reports overload or asks for a long pause. The result is 0
        if only the failed request waits, or if the pause is too long: then the run ends.
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
        """Wait after a failed attempt until the next attempt may be made.

        Args:
            error: why the attempt failed.
            failures: the number of failed attempts before this one.

        Returns:
            the number of failed attempts including this one, if it counts.

        Raises:
            JudgeError: there may be no further attempt.
        """
        if isinstance(error, Denied):
            await self._end_if_all_denied(error)
        if error.kind not in RETRIED or error.final:
            raise error

        pause = self._common_pause(error)
        if pause <= LONG_PAUSE:
            # An attempt that a long pause follows does not count.
            failures += 1
        if failures >= self._limits.max_attempts:
            raise self._last_failure(error, failures) from error
        self._usage.retries[error.kind] += 1

        # If all requests must wait, the limiter makes this one wait, too. Otherwise, wait here for
        # a random time: "full jitter", described in
        # https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/
        seconds = 0.0
        if pause == 0:
            longest = min(MAX_BACKOFF_SECONDS, BACKOFF_SECONDS * 2 ** max(0, failures - 1))
            seconds = max(error.retry_after or 0.0, uniform(0, longest))  # noqa: S311
        await self._wait_unless_ended(partial(asyncio.sleep, seconds))
        return failures

    async def _end_if_all_denied(self, error: Denied) -> None:
        """End all calls of the model if the server denies every request, as it denied this one.

        Raises:
            JudgeUnavailable: the server denies every request.
        """
        if await self._wait_unless_ended(self.breaker.are_all_denied):
            fatal = JudgeUnavailable(error.message)
            self._session.end_model(self, fatal)
            raise fatal from error

    def _last_failure(self, error: JudgeError, attempts: int) -> JudgeError:
        """Return the error of a call whose last attempt has failed, with the number of attempts."""
        text = error.message
        if attempts > 1:
            text += f" ({attempts} attempts)"
        if self.kind == "embedding":
            # Most users think of the LLM first, so name the settings of the embedding model.
            text += f"; {advice(error.kind, self._names)}"
        return JudgeError(error.kind, text)

    def _account(
        self, call: Call, charged_tokens: int, usage: TokenUsage | None, reply: Any
    ) -> None:
        """Count and price the tokens of a reply, and end all calls if the budget is spent.

        Args:
            call: the call, to whose costs the cost of the reply is added.
            charged_tokens: the tokens that were charged to the rate limit before.
            usage: the tokens that the judge reports; None if it reports none. Then they are
                estimated.
            reply: the reply, for the estimate.
        """
        if usage is not None:
            self._limiter.correct(usage.input_tokens + usage.output_tokens - charged_tokens)
            cost = self._usage.add(self.kind, usage, self.prices)
            call.costs.append(cost)
            if self._session.budget is not None and cost is not None:
                self._estimator.add(call.estimate_tokens(), cost)
        else:
            self._usage.unmetered += 1
            output_tokens = 0
            if self.kind == "completion":
                output_tokens = estimate_reply(reply)
            estimate = TokenUsage(call.estimate_tokens(), output_tokens)
            cost = self._usage.add(self.kind, estimate, self.prices)
            if cost is not None:
                self._estimator.add(estimate.input_tokens, cost)
            # The estimate counts for the budget, but the cost of the call remains unknown.
            call.costs.append(None)
        self._check_budget()

    def _account_lost_reply(self, call: Call) -> None:
        """Price the estimated tokens of a request whose reply was lost, as it may be billed.

        All calls end if the budget is spent.
        """
        cost = self.prices.cost(self.kind, TokenUsage(call.estimate_tokens()))
        if cost is not None:
            self._usage.timed_out_dollars += cost
        self._check_budget()

    def _check_budget(self) -> None:
        """End all calls of the stream if the budget is spent."""
        budget = self._limits.budget_usd
        if budget is None:
            return
        spent = self._usage.spent
        if spent is not None and spent >= budget:
            self._session.end_for_budget(f"the budget of {budget:g} US dollars is spent")

    def _record_failed_call(self, error: JudgeError) -> JudgeError:
        """Tell the breaker that a call failed after all attempts; return the error to raise.

        This is `error`, or a `JudgeUnavailable` if the breaker ends all calls of the model.
        """
        if _is_no_fault(error):
            return error
        reason = self.breaker.call_failed()
        if reason is None:
            return error
        return self._end_model(reason, error)

    def _record_failed_attempt(self, error: JudgeError) -> JudgeError:
        """Tell the breaker that one attempt of a call failed; return the error to raise.

        This is `error`, or a `JudgeUnavailable` if the breaker ends all calls of the model.
        """
        if _is_no_fault(error):
            return error
        reason = self.breaker.attempt_failed(error.retry_after or 0.0)
        if reason is None:
            return error
        return self._end_model(reason, error)

    def _end_model(self, reason: str, last_failure: JudgeError) -> JudgeUnavailable:
        """End all calls of the model, and return the error that says why and what to check.

        Args:
            reason: why the calls end, such as "none of the first 10 calls succeeded; the last".
            last_failure: the failure that gave the reason; its message follows the reason.
        """
        problem = f"{self._where}: {reason}: {last_failure.message}"
        fatal = JudgeUnavailable(f"{problem}; {advice(last_failure.kind, self._names)}")
        self._session.end_model(self, fatal)
        return fatal

    def end(self, make_error: Callable[[], JudgeError]) -> None:
        """Make all waiting and future calls fail, each with a new error made by `make_error`.

        If calls were ended before, nothing changes: the first reason counts.
        """
        if self._make_final_error is not None:
            return
        self._make_final_error = make_error
        for scope in self._waits:
            scope.cancel()


def _is_no_fault(error: JudgeError) -> bool:
    """Return whether the breaker ignores a failure: the judge works, or all calls have ended."""
    return error.kind in FAILURES_OF_WORKING_JUDGES or isinstance(error, JudgeUnavailable)
