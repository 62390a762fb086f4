"""The judge of a stream: opened on the first call, and shared by all results."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from hashlib import sha256
from inspect import signature
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import orjson

from graphrag_eval_async.config import GenerationConfig
from graphrag_eval_async.errors import UsageError, in_utf8
from graphrag_eval_async.judge import openai_client
from graphrag_eval_async.judge.cache import CallCache, check_cache, digest
from graphrag_eval_async.judge.pricing import check_budget, prices_of
from graphrag_eval_async.judge.retry import Retry
from graphrag_eval_async.judge.scheduling import SingleFlight, Throttle
from graphrag_eval_async.judge.usage import JudgeUsage, Spending

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from graphrag_eval_async.config import EmbeddingConfig, LLMConfig
    from graphrag_eval_async.judge.protocol import Judge

STARTS = 2
"""Results to start judging per iteration of the event loop; each takes a millisecond."""

CALLS = 16
"""Calls to prepare per iteration; each takes a fraction of a millisecond."""

PREPARED = 1024
"""Minimum limit on calls prepared at a time: each holds its prompt in memory."""

CONNECTION = ("base_url", "api_key", "api_version", "extra_headers")
"""Settings that do not affect a model's replies."""


class JudgeSetup(NamedTuple):
    """How to open a judge, and the limits on its calls.

    Attributes:
        llm: limits, prices and the cache.
        model: the judge's name in results.
        identities: JSON that identifies the judge in cache keys, for "complete" and "embed".
        open: opens the judge; called in a thread, before the first call.
        close: closes the judge at the end; None if the caller does that.
    """

    llm: LLMConfig
    model: str
    identities: Mapping[str, Any]
    open: Callable[[], Judge]
    close: Callable[[Any], Awaitable[None]] | None = None


def judge_setup(
    llm: LLMConfig, judge: Judge | None, prepare: Callable[[], None], *, embeds: bool
) -> JudgeSetup:
    """Return the judge setup of a configuration, checked as far as possible without a call.

    Args:
        llm: models, limits and prices.
        judge: the caller's own judge, used instead of the models; it is not closed.
        prepare: called in a thread before the first call.
        embeds: whether a metric needs embeddings.

    Raises:
        UsageError: the judge lacks a method.
        ConfigError: a package, a key, or the price that a budget needs is missing; or the cache file is not
            usable.
    """
    check_budget(llm, embeds=embeds)
    if llm.cache is not None:
        check_cache(llm.cache)
    if judge is None:
        openai_client.check(llm)
        model = "" if llm.generation is None else str(llm.generation.model)
        identities = {"complete": _identity(llm.generation), "embed": _identity(llm.embedding)}
    else:
        for method in ("complete", "embed") if embeds else ("complete",):
            if not callable(getattr(judge, method, None)):
                raise UsageError(f"judge: expected an object with a method {method}, got {judge!r}")
        model = in_utf8(str(getattr(judge, "model", type(judge).__name__)))
        own = [type(judge).__module__, type(judge).__qualname__, model]
        identities = {"complete": own, "embed": own}

    def open_judge() -> Judge:
        prepare()
        return openai_client.open_judge(llm) if judge is None else judge

    close = openai_client.OpenAIJudge.aclose if judge is None else None
    return JudgeSetup(llm, model, identities, open_judge, close)


def _identity(model: GenerationConfig | EmbeddingConfig | None) -> Any:
    fields = {} if model is None else msgspec.to_builtins(model, enc_hook=str)
    if isinstance(model, GenerationConfig):
        fields.setdefault("max_tokens", openai_client.MAX_TOKENS)
    return {name: value for name, value in fields.items() if name not in CONNECTION}


def _servers(llm: LLMConfig) -> list[str | None]:
    """Return the configured base URLs of the models."""
    return [None if model is None else model.base_url for model in (llm.generation, llm.embedding)]


class JudgeSession:
    """A judge shared by the results of one stream.

    Attributes:
        usage: counts of all calls.
        spending: calls and costs of finished results.
        is_dropping: whether new results are no longer started.
        varies: whether the judge's `complete` takes a `variation`.
    """

    def __init__(self, setup: JudgeSetup) -> None:
        """Prepare the session; the judge is opened later."""
        self.limits = setup.llm.limits
        self.prices = prices_of(setup.llm)
        self.usage = JudgeUsage(self.prices)
        self.spending = Spending()
        self.retry = Retry(self.limits, self.usage)
        self.starts = Throttle(STARTS)
        self.throttle = Throttle(CALLS, max(PREPARED, 4 * self.limits.max_concurrency))
        self.single_flight = SingleFlight(self.usage, self.retry.limiter.deadlines)
        self.cache: CallCache | None = None
        self.is_dropping = False
        self.varies = False
        self._setup = setup
        self._starting: asyncio.Task[Judge] | None = None
        self._opened: Judge | None = None
        self._orders = 0
        self._keys: dict[tuple[str, int], tuple[Any, Any]] = {}
        self._learned_key = digest("learned", setup.identities, _servers(setup.llm))
        self._remembered: dict[str, Any] = {}

    async def judge(self) -> Judge:
        """Return the judge; open it first if needed."""
        if self._opened is not None:
            return self._opened
        if self._starting is None or self._starting.done():  # Retry if opening failed.
            self._starting = asyncio.create_task(self._start(), name="graphrag-eval-async judge")
        return await asyncio.shield(self._starting)

    async def _start(self) -> Judge:
        if self._setup.llm.cache is not None and self.cache is None:
            self.cache = await CallCache.open(self._setup.llm.cache)
        judge = await asyncio.to_thread(self._setup.open)
        with suppress(TypeError, ValueError):  # Of a callable without a signature.
            self.varies = "variation" in signature(judge.complete).parameters
        if isinstance(judge, openai_client.OpenAIJudge):
            judge.usage, self.retry.where = self.usage, judge.where
            if self.cache is not None and (kept := await self.cache.get(self._learned_key)) is not None:
                with suppress(orjson.JSONDecodeError):
                    judge.recall(orjson.loads(kept))
            self._remembered = judge.learned
        self._opened = judge
        return judge

    @property
    def used(self) -> dict[str, Any]:
        """In what way requests were written, if it differs from the defaults, as JSON."""
        judge = self._opened
        return judge.used if isinstance(judge, openai_client.OpenAIJudge) else {}

    async def remember(self) -> None:
        """Store in the cache what the servers accept, if that is new."""
        judge = self._opened
        if self.cache is None or not isinstance(judge, openai_client.OpenAIJudge):
            return
        if (learned := judge.learned) != self._remembered:
            self._remembered = learned
            await self.cache.put(self._learned_key, orjson.dumps(learned))

    def next_order(self) -> int:
        """Return the order of the next result, from 1."""
        self._orders += 1
        return self._orders

    def key(self, method: str, schema: Any, *texts: str) -> bytes:
        """Return the key of a call: a hash of the judge, the schema and the texts."""
        # There are few schemas; keeping a reference to each prevents reuse of its id.
        known = self._keys.get((method, id(schema)))
        if known is None:
            known = sha256(digest(method, self._setup.identities[method], schema)), schema
            self._keys[method, id(schema)] = known
        key = known[0].copy()
        for text in texts:
            data = text.encode(errors="surrogatepass")
            key.update(b"%d:" % len(data))
            key.update(data)
        return key.digest()

    def drop_unsent(self) -> None:
        """Cancel all results without a sent request, and start no more."""
        self.is_dropping = True
        self.retry.limiter.deadlines.drop()

    async def aclose(self) -> None:
        """Close the judge and the cache; no call may be in flight."""
        self.retry.limiter.close()
        if self._starting is not None:
            await asyncio.wait([self._starting])  # A thread cannot be cancelled.
            if not self._starting.cancelled():
                self._starting.exception()
        cache, self.cache = self.cache, None
        if cache is not None:
            await cache.aclose()
        if self._opened is not None and self._setup.close is not None:
            await self._setup.close(self._opened)
