"""The judges of a stream, and what they share."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.config import GenerationConfig, secrets
from graphrag_eval_async.errors import JudgeError, JudgeUnavailable
from graphrag_eval_async.judge.budget import Budget
from graphrag_eval_async.judge.cache import CallCache
from graphrag_eval_async.judge.clients import connection_of, share_server
from graphrag_eval_async.judge.limits import Clocks, RateLimiter, Throttle
from graphrag_eval_async.judge.openai_judge import OpenAIJudge
from graphrag_eval_async.judge.prices import prices_of
from graphrag_eval_async.judge.sender import Sender
from graphrag_eval_async.judge.setting_names import SettingNames
from graphrag_eval_async.judge.usage import JudgeUsage

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from graphrag_eval_async.config import EmbeddingConfig
    from graphrag_eval_async.judge.clients import Connection
    from graphrag_eval_async.judge.protocol import Judge
    from graphrag_eval_async.judge.setup import JudgeSetup

STARTS_PER_ITERATION = 2
"""Results to start judging per iteration of the event loop; each takes a millisecond."""

CALLS_PER_ITERATION = 8
"""Calls to prepare per iteration of the event loop; each takes a fraction of a millisecond."""


class JudgeSession:
    """The judges shared by the results of one stream, opened on the first call.

    Attributes:
        limits: the configured limits.
        usage: counts of calls, tokens and dollars.
        clocks: the time of the results in progress.
        starts: limits how many results start in one iteration of the event loop.
        throttle: limits how many calls are prepared in one iteration of the event loop.
        senders: the senders of completions, by the names of judges.
        first: the sender of the first judge.
        embedder: the sender of embeddings.
        is_dropping: whether no further result is started.
        budget: admits requests while the budget lasts; None without a budget.
    """

    def __init__(self, setups: Sequence[JudgeSetup], *, is_ended_by_one: bool = False) -> None:
        """Prepare the senders of all judges and of embeddings, without opening any connection.

        Args:
            setups: the judges; the first also embeds.
            is_ended_by_one: whether one model that does not work ends the calls of all models.
        """
        first = setups[0]
        self._setups = setups
        self._llm = first.llm
        self._is_ended_by_one = is_ended_by_one
        self.limits = first.llm.limits
        self.usage = JudgeUsage(prices_of(first.llm, first.name))
        self.clocks = Clocks(self.limits.result_timeout_sec)
        self.starts = Throttle(STARTS_PER_ITERATION)
        self.throttle = Throttle(CALLS_PER_ITERATION)
        self.is_dropping = False
        self.budget: Budget | None = None
        if self.limits.budget_usd is not None:
            self.budget = Budget(self.limits.budget_usd, self.usage)

        # Each judge has limits of its own on requests. Embeddings share those of the first judge.
        self._limiters = [RateLimiter(self.limits, self.usage, self.clocks) for _ in setups]
        self.embedder = Sender(
            session=self, setup=first, kind="embedding", limiter=self._limiters[0]
        )
        # If embeddings that do not work end the run, completions wait while embeddings fail: they
        # might be paid for in vain.
        prerequisite = None
        if is_ended_by_one:
            prerequisite = self.embedder
        self.senders = {
            setup.name: Sender(
                session=self,
                setup=setup,
                kind="completion",
                limiter=limiter,
                prerequisite=prerequisite,
            )
            for setup, limiter in zip(setups, self._limiters, strict=True)
        }
        self.first = self.senders[first.name]

        self._clients: dict[Connection, Any] = {}
        self._cache: CallCache | None = None
        self._opening: asyncio.Task[None] | None = None
        self._is_open = False

    async def open(self) -> None:
        """Open the cache and the judges, unless they are open.

        Concurrent callers wait for the same task, which goes on if one of them is cancelled. If
        opening failed, the next caller tries again.
        """
        if self._is_open:
            return
        if self._opening is None or self._opening.done():
            self._opening = asyncio.create_task(self._open(), name="graphrag-eval-async judge")
        await asyncio.shield(self._opening)

    async def _open(self) -> None:
        """Open the cache and the judges that are not open yet."""
        if self._llm.cache is not None and self._cache is None:
            self._cache = await CallCache.open(self._llm.cache)
        for setup in self._setups:
            sender = self.senders[setup.name]
            if sender.judge is None:
                await asyncio.to_thread(setup.prepare)
                sender.open(await self._open_judge(setup), self._cache)
        self.embedder.open(await self._open_embedding_judge(), self._cache)
        self._is_open = True

    async def _open_judge(self, setup: JudgeSetup) -> Judge | None:
        """Return the judge for completions: the user's judge, or a judge on the configured model.

        The result is None if the user gives no judge and no model is configured.
        """
        if setup.judge is not None:
            return setup.judge
        model = self._llm.model(setup.name)
        if model is None:
            return None
        return await self._open_model(setup.client, self._llm.key(setup.name), model)

    async def _open_embedding_judge(self) -> Judge | None:
        """Return the judge for embeddings: the user's first judge, or one on the configured model.

        The result is None if the user gives no judge and no embedding model is configured.
        """
        first = self._setups[0]
        judge = first.judge
        lacks_embeddings = isinstance(judge, OpenAIJudge) and judge.embedding_model is None
        if judge is not None and not lacks_embeddings:
            return judge
        embedding = self._llm.embedding
        if embedding is None:
            # An `OpenAIJudge` without an embedding model says so when it is asked for vectors.
            return judge

        # A model at the server of the user's client is sent to with this client and its key.
        client = first.user_client
        generation = self._llm.generation
        if generation is not None and not share_server(embedding, generation):
            client = None
        return await self._open_model(client, "llm.embedding", embedding)

    async def _open_model(
        self, client: Any, section: str, model: GenerationConfig | EmbeddingConfig
    ) -> OpenAIJudge:
        """Return a judge on a configured model.

        Args:
            client: the user's client that sends the requests; None for one of ours.
            section: where the model is configured, such as "llm.generation".
            model: the settings at `section`.
        """
        has_client = client is not None
        if not has_client:
            client = await self._open_client(connection_of(self._llm, model))
        if isinstance(model, GenerationConfig):
            settings: dict[str, Any] = {
                "temperature": model.temperature,
                "max_tokens": model.max_tokens,
            }
            # Configured parameters of the same name replace these settings.
            settings |= model.parameters
            judge = OpenAIJudge(client, model.model, **settings)
        else:
            # This judge only embeds. `OpenAIJudge` requires a model for completions, too.
            judge = OpenAIJudge(
                client,
                model.model,
                embedding_model=model.model,
                embedding_parameters=model.parameters,
            )
        names = SettingNames.of_section(section, has_client=has_client)
        judge.name_settings(names, secrets(self._llm))
        return judge

    async def _open_client(self, connection: Connection) -> Any:
        """Return our client for a server; all models at the server share one client.

        A new client is opened in a thread, since this imports the SDK, which takes half a second.
        """
        if connection not in self._clients:
            client = await asyncio.to_thread(connection.open_client, self.limits.max_reply_bytes)
            self._clients[connection] = client
        return self._clients[connection]

    def drop_unsent(self) -> None:
        """Cancel all results that have not sent a request yet, and start no further results."""
        self.is_dropping = True
        self.clocks.drop_unsent()

    def _all_senders(self) -> Iterator[Sender]:
        """Yield the senders of completions and of embeddings."""
        yield from self.senders.values()
        yield self.embedder

    def end_for_budget(self, text: str) -> None:
        """Fail all later calls with the message `text`, since the budget is spent."""
        for sender in self._all_senders():
            sender.end(partial(JudgeError, "budget", text, final=True))

    def end_model(self, failed: Sender, error: JudgeUnavailable) -> None:
        """Fail all later calls of a model that does not work, and calls that are useless then.

        Without the first judge, embeddings are useless, since every metric needs completions. In a
        session that one model ends, the calls of all models fail.

        Args:
            failed: the sender to the model that does not work.
            error: why the model does not work.
        """
        for sender in self._all_senders():
            is_useless = sender is self.embedder and failed is self.first
            if sender is failed or is_useless or self._is_ended_by_one:
                sender.end(partial(JudgeUnavailable, error.message))

    async def aclose(self) -> None:
        """Close our clients and the cache; no call may be in flight."""
        if self._opening is not None:
            # Wait until opening has ended, since its threads cannot be cancelled.
            await asyncio.wait([self._opening])
            if not self._opening.cancelled():
                # Asyncio would log an exception of the task that nobody has looked at.
                self._opening.exception()

        cache = self._cache
        self._cache = None
        if cache is not None:
            await cache.aclose()
        for limiter in self._limiters:
            limiter.close()
        while self._clients:
            _, client = self._clients.popitem()
            await client.close()
