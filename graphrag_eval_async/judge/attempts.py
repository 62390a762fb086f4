"""The one layer of retries: every request is sent here."""

from __future__ import annotations

import asyncio
from math import isfinite
from random import uniform
from typing import TYPE_CHECKING, Any, NamedTuple

from graphrag_eval_async.errors import JudgeError, JudgeUnavailable
from graphrag_eval_async.judge.gate import RETRY_AFTER_CAP, Gate
from graphrag_eval_async.judge.protocol import SchemaRefused, TokenUsage

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from anyio import CancelScope

    from graphrag_eval_async.config import LimitsConfig
    from graphrag_eval_async.judge.usage import JudgeUsage

RETRIED = frozenset({"timeout", "rate_limited", "unavailable"})

BACKOFF_SECONDS = 0.5
"""The longest wait after the first failure; it doubles with each."""

MAX_BACKOFF_SECONDS = 30.0


class Request(NamedTuple):
    """A request that may be sent several times.

    Attributes:
        order: of the result that it is for; the lowest goes first.
        scope: the result's, whose time runs from the first request that is sent for it.
        send: sends it once.
        tokens: what it will use, about.
        account: is told what each attempt used that came to a reply, None where the server does not say, and
            the reply, or its text.
    """

    order: int
    scope: CancelScope
    send: Callable[[], Awaitable[tuple[Any, TokenUsage | None]]]
    tokens: float
    account: Callable[[TokenUsage | None, Any], None]


class Attempts:
    """Sends requests, each in its turn, and again where that may help."""

    def __init__(self, limits: LimitsConfig, usage: JudgeUsage) -> None:
        self.gate = Gate(limits, usage)
        self._limits = limits
        self._usage = usage
        self._fatal: JudgeUnavailable | None = None

    async def make(self, request: Request) -> Any:
        """The reply to a request.

        Raises:
            JudgeError: it failed, for the last time.
        """
        failures = 0
        with_schema = True
        while True:
            try:
                return await self._attempt(request)
            except SchemaRefused as error:
                if not with_schema:
                    raise
                with_schema = False
                self._usage.retries[error.kind] += 1
            except JudgeError as error:
                if error.kind not in RETRIED or error.final:
                    raise
                if not _is_pause(error):
                    failures += 1
                if failures >= self._limits.max_attempts:
                    raise _given_up(error, failures) from error
                self._usage.retries[error.kind] += 1
                await asyncio.sleep(_backoff(error, failures))

    async def _attempt(self, request: Request) -> Any:
        self._check()
        sent_in = await self.gate.enter(request.order, request.tokens)
        try:
            self._check()
            self.gate.deadlines.start(request.scope, self._limits.result_timeout_sec)
            reply, used = await self._send(request)
        except Exception as error:
            failure = self._failure(error, sent_in)
            if failure.usage is not None or failure.reply is not None:
                self._account(request, failure.usage, failure.reply)
            if failure is error:
                raise
            raise failure from error
        else:
            self.gate.succeeded(sent_in)
            self._account(request, used, reply)
        finally:
            self.gate.leave()
        # Many replies come at a time: let the next requests be sent before work on these goes on.
        await asyncio.sleep(0)
        return reply

    async def _send(self, request: Request) -> tuple[Any, TokenUsage | None]:
        usage = self._usage
        usage.attempts += 1
        usage.in_flight += 1
        try:
            async with asyncio.timeout(self._limits.call_timeout_sec):
                return await request.send()
        finally:
            usage.in_flight -= 1

    def _account(self, request: Request, used: TokenUsage | None, reply: Any) -> None:
        tokens = _metered(used)
        if tokens is not None:
            self.gate.correct(sum(tokens) - request.tokens)
        request.account(tokens, reply)
        if self._is_spent():
            self.gate.open()

    def _is_spent(self) -> bool:
        budget = self._limits.budget_usd
        return budget is not None and (self._usage.dollars or 0.0) >= budget

    def _check(self) -> None:
        """Refuse a request that would be in vain, or one too many."""
        if self._fatal is not None:
            raise JudgeUnavailable(self._fatal.message)
        if self._is_spent():
            budget = self._limits.budget_usd
            raise JudgeError("budget", f"the budget of {budget:g} US dollars is spent", final=True)

    def _failure(self, error: Exception, sent_in: int) -> JudgeError:
        """What the exception of an attempt stands for; the gate and the requests to come learn of it.

        The one place that catches everything, since a judge may be anybody's.
        """
        if isinstance(error, JudgeUnavailable):
            self._fatal = error
            self.gate.open()
        if isinstance(error, JudgeError):
            if error.kind == "rate_limited":
                self.gate.slow_down(sent_in)
                self.gate.pause(_wish(error))
            return error
        if isinstance(error, TimeoutError):
            text = f"no reply within {self._limits.call_timeout_sec:g} seconds"
            return JudgeError("timeout", str(error) or text)
        text = f"{type(error).__name__}: {error}"
        return JudgeError("unavailable", text, final=not isinstance(error, OSError))


def _is_pause(error: JudgeError) -> bool:
    """Whether the server asks for so long a pause that the request has not failed, but is put off."""
    return error.kind == "rate_limited" and _wish(error) > RETRY_AFTER_CAP


def _backoff(error: JudgeError, failures: int) -> float:
    """How long to wait before another try, in seconds.

    Full jitter: https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/
    """
    if error.kind == "rate_limited" and _wish(error):
        return 0.0  # The gate is closed for so long.
    jitter = uniform(0, min(MAX_BACKOFF_SECONDS, BACKOFF_SECONDS * 2 ** (failures - 1)))  # noqa: S311
    return max(jitter, min(_wish(error), RETRY_AFTER_CAP))


def _wish(error: JudgeError) -> float:
    """For how many seconds the server wants to be left alone; 0 where it does not say, or says nonsense."""
    seconds = error.retry_after or 0.0
    return max(0.0, seconds) if isfinite(seconds) else 0.0


def _metered(used: Any) -> TokenUsage | None:
    """The tokens used; None if the judge does not say, or says nonsense."""
    try:
        tokens = TokenUsage(*used)
        return tokens if all(0 <= count < 2**53 for count in tokens) else None
    except TypeError:
        return None


def _given_up(error: JudgeError, failures: int) -> JudgeError:
    return JudgeError(error.kind, f"{error.message} ({failures} attempts)" if failures > 1 else error.message)
