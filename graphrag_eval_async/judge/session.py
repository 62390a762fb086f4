"""The judges of a stream, what they share, and the calls that the metrics of a result make."""

from __future__ import annotations

import asyncio
from functools import partial
from importlib.util import find_spec
from math import fsum
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from graphrag_eval_async.config import GenerationConfig, secrets
from graphrag_eval_async.config.llm import GENERATION
from graphrag_eval_async.config.secrecy import as_written
from graphrag_eval_async.errors import (
    ConfigError,
    JudgeError,
    JudgeUnavailable,
    UsageError,
    in_utf8,
    needs,
)
from graphrag_eval_async.judge.cache import CallCache, check_cache
from graphrag_eval_async.judge.calls import Call, checked_reply, checked_vectors
from graphrag_eval_async.judge.clients import Client, endpoint_of
from graphrag_eval_async.judge.failures import Scrubber
from graphrag_eval_async.judge.limits import Clock, Clocks, RateLimiter, Throttle
from graphrag_eval_async.judge.openai_judge import MAX_TOKENS, Server
from graphrag_eval_async.judge.sender import JudgeSetup, Sender
from graphrag_eval_async.judge.usage import JudgeUsage, check_budget, prices_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphrag_eval_async.config import EmbeddingConfig, LLMConfig
    from graphrag_eval_async.judge.protocol import Judge, Message, ResponseFormat

T = TypeVar("T")

STARTS = 2  # Results to start judging per iteration of the event loop; each takes a millisecond.
CALLS = 8  # Calls to prepare per iteration; each takes a fraction of a millisecond.

REPLY_SETTINGS = ("provider", "model", "temperature", "max_tokens", "parameters")
"""Settings that affect a model's replies. Their order is part of the hash `judge.prompts`."""


def judge_setup(
    llm: LLMConfig, name: str, judge: Judge | None, prepare: Callable[[], None], *, embeds: bool
) -> JudgeSetup:
    """Return one judge of a configuration, checked as far as possible without a call.

    `judge` is the caller's own, used instead of the model; `embeds` says whether a metric needs
    embeddings.
    """
    check_budget(llm, name, embeds=embeds)
    if llm.cache is not None:
        check_cache(llm.cache)
    if judge is None:
        check(llm, name)
        generation = llm.model(name)
        model = "" if generation is None else str(generation.model)
        identities = _identities(llm, name, show=str)
        fingerprint = _identities(llm, name, show=as_written)
    else:
        for method in ("complete", "embed") if embeds else ("complete",):
            if not callable(getattr(judge, method, None)):
                raise UsageError(f"judge: expected an object with a method {method}, got {judge!r}")
        model = in_utf8(str(getattr(judge, "model", type(judge).__name__)))
        own = [type(judge).__module__, type(judge).__qualname__, model]
        own += [] if name == "generation" else [name]
        identities = fingerprint = {"complete": own, "embed": own}
    return JudgeSetup(llm, name, model, identities, fingerprint, judge, prepare)


def check(llm: LLMConfig, name: str = GENERATION) -> None:
    """Check that the judge `name` can be called, as far as possible without a request."""
    if find_spec("aiohttp") is None:
        raise ConfigError([f"llm: {needs('llm')}"])
    models = [(llm.key(name), llm.model(name)), ("llm.embedding", llm.embedding)]
    problems = [endpoint_of(llm, model).problems(key) for key, model in models if model is not None]
    if found := [problem for each in problems for problem in each]:
        raise ConfigError(found)


def _identities(llm: LLMConfig, name: str, show: Callable[[str], str]) -> dict[str, Any]:
    """Return what replies depend on, for "complete" and "embed"; `show` writes text from the
    environment.
    """
    complete = _identity(llm.model(name), show)
    if name != GENERATION:
        # Judges of a panel may differ in nothing but their server, or be asked twice for a second
        # opinion.
        complete = [name, complete]
    return {"complete": complete, "embed": _identity(llm.embedding, show)}


def _identity(model: GenerationConfig | EmbeddingConfig | None, show: Callable[[str], str]) -> Any:
    fields = {} if model is None else msgspec.to_builtins(model, enc_hook=show)
    identity = {name: fields[name] for name in REPLY_SETTINGS if name in fields}
    if model is not None:
        identity["model"] = str(model.model)  # Results show it, too.
    if isinstance(model, GenerationConfig):
        identity.setdefault("max_tokens", MAX_TOKENS)
    return identity


class JudgeSession:
    """The judges shared by the results of one stream, opened on the first call.

    Completions have `senders` by the judges' names, embeddings the `embedder`.
    """

    def __init__(self, setups: Sequence[JudgeSetup], *, is_ended_by_one: bool = False) -> None:
        """Prepare the session; `is_ended_by_one`: a model that does not work ends all calls."""
        self._setups, self._is_ended_by_one = setups, is_ended_by_one
        self._llm = llm = setups[0].llm
        self.limits = limits = llm.limits
        self.usage = JudgeUsage(prices_of(llm, setups[0].name))
        self.clocks = Clocks(limits.result_timeout_sec)
        self.starts, self.throttle = Throttle(STARTS), Throttle(CALLS)
        self.is_dropping = False
        self.senders: dict[str, Sender] = {}
        self._limiters: list[RateLimiter] = []
        self._clients: dict[Any, Client] = {}
        self._cache: CallCache | None = None
        self._starting: asyncio.Task[None] | None = None
        self._is_open = False
        for setup in setups:
            limiter = RateLimiter(limits, self.usage, self.clocks)
            self._limiters.append(limiter)
            if not self.senders:
                self.embedder = Sender(self, setup, "embedding", limiter)
            needs = self.embedder if is_ended_by_one else None
            self.senders[setup.name] = Sender(self, setup, "completion", limiter, needs)
        self.first = self.senders[setups[0].name]

    async def open(self) -> None:
        """Open the cache and the judges, unless they are open."""
        if self._is_open:
            return
        if self._starting is None or self._starting.done():  # Retry if opening failed.
            self._starting = asyncio.create_task(self._start(), name="graphrag-eval-async judge")
        await asyncio.shield(self._starting)

    async def _start(self) -> None:
        llm = self._llm
        if llm.cache is not None and self._cache is None:
            self._cache = await CallCache.open(llm.cache)
        for setup in self._setups:
            sender = self.senders[setup.name]
            if sender.judge is None:
                await asyncio.to_thread(setup.prepare)
                judge = setup.own or await self._server(llm.key(setup.name), llm.model(setup.name))
                sender.open(judge, self._cache)
        own = self._setups[0].own
        self.embedder.open(own or await self._server("llm.embedding", llm.embedding), self._cache)
        self._is_open = True

    async def _server(
        self, key: str, model: GenerationConfig | EmbeddingConfig | None
    ) -> Server | None:
        """Return the model that is configured at `key`; imports aiohttp, in a thread."""
        if model is None:
            return None
        llm, endpoint = self._llm, endpoint_of(self._llm, model)
        if endpoint not in self._clients:
            self._clients[endpoint] = await asyncio.to_thread(Client, endpoint, llm.limits)
        client, scrub = self._clients[endpoint], Scrubber(secrets(llm))
        return Server(client, endpoint, key, model, scrub)

    def drop_unsent(self) -> None:
        """Cancel all results without a sent request, and start no more."""
        self.is_dropping = True
        self.clocks.drop_unsent()

    def broke(self, text: str) -> None:
        """Send nothing more, since the budget is spent."""
        for sender in (*self.senders.values(), self.embedder):
            sender.dismiss(partial(JudgeError, "budget", text, final=True))

    def end(self, failed: Sender, error: JudgeUnavailable) -> None:
        """Send no more calls to a model, since they would all fail; or none to any."""
        # Every metric needs completions, so the failure of the first judge ends embeddings, too.
        for sender in (*self.senders.values(), self.embedder):
            is_same = sender is failed or (sender is self.embedder and failed is self.first)
            if is_same or self._is_ended_by_one:
                sender.dismiss(partial(JudgeUnavailable, error.message))

    async def aclose(self) -> None:
        """Close the judges and the cache; no call may be in flight."""
        if self._starting is not None:
            await asyncio.wait([self._starting])  # A thread cannot be cancelled.
            if not self._starting.cancelled():
                self._starting.exception()
        cache, self._cache = self._cache, None
        if cache is not None:
            await cache.aclose()
        for limiter in self._limiters:
            limiter.close()
        while self._clients:
            await self._clients.popitem()[1].aclose()


class ResultCalls(Clock):
    """The calls for one result; its clock starts with the first request sent."""

    def __init__(self, session: JudgeSession) -> None:
        super().__init__(session.clocks)
        self.session = session
        # In what other ways than by default its requests were written.
        self.written: set[str] = set()
        self._replies: dict[bytes, asyncio.Future[Any]] = {}

    async def reply(self, sender: Sender, call: Call) -> Any:
        """Return the reply to a call, made or shared with an equal one; raise `JudgeError`
        without one.
        """
        known = self._replies.get(call.key)
        if known is not None:
            self.session.usage.shared_calls += 1
            await asyncio.wait([known])
        else:
            known = self._replies[call.key] = asyncio.get_running_loop().create_future()
            try:
                known.set_result(await sender.reply(call))
            except JudgeError as error:
                known.set_exception(error)
            finally:
                known.cancel()  # Has no effect once it is done.
        try:
            reply, written = known.result()
        except JudgeError as error:
            self.written.update(sender.written(call))
            raise error.with_traceback(None) from error.__cause__  # Several metrics may raise it.
        self.written.update(written)
        return reply


class MetricCalls:
    """The calls of one metric for one result to one judge: what the metric asks with."""

    def __init__(self, result: ResultCalls, sender: Sender | None = None) -> None:
        """Prepare calls to a judge; by default, to the first."""
        self._result = result
        self._sender = sender or result.session.first
        self._costs: list[float | None] = []

    @property
    def cost(self) -> float | None:
        """Total cost in US dollars; None if a price or a token count is unknown."""
        known = [cost for cost in self._costs if cost is not None]
        return (
            None
            if len(known) < len(self._costs) or self._sender.prices.input is None
            else fsum(known)
        )

    async def ask(
        self, prompt: Callable[[], Sequence[Message]], form: ResponseFormat[T], *, repeat: int = 0
    ) -> T:
        """Return the parsed reply; `repeat` distinguishes equal calls, of which a result else
        makes one.
        """
        result, sender = self._result, self._sender
        await result.session.throttle.turn()
        asked = prompt()
        texts = [text for message in asked for text in (message["role"], message["content"])]
        key, check = sender.key(form.schema, str(repeat), *texts), partial(checked_reply, form)
        call = Call(key, asked, form.schema, check, result, self._costs, repeat)
        return form.read(await result.reply(sender, call))

    async def embed(self, texts: list[str]) -> list[list[float]]:
        """Return one vector per text: finite, nonzero, all of the same length."""
        result, sender = self._result, self._result.session.embedder
        await result.session.throttle.turn()
        check = partial(checked_vectors, len(texts))
        call = Call(sender.key(None, *texts), texts, None, check, result, self._costs)
        vectors: list[list[float]] = await result.reply(sender, call)
        return vectors
