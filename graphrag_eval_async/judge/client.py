"""One of the judges of a stream, with its own limits, opened on the first call."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from hashlib import sha256
from inspect import signature
from typing import TYPE_CHECKING, Any

import orjson

from graphrag_eval_async.judge import openai_client
from graphrag_eval_async.judge.cache import digest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphrag_eval_async.judge.cache import CallCache
    from graphrag_eval_async.judge.protocol import Judge
    from graphrag_eval_async.judge.retry import Retry
    from graphrag_eval_async.judge.setup import JudgeSetup


class JudgeClient:
    """One of the judges of a session.

    Attributes:
        name: its name in the configuration.
        retry: sends its requests.
        varies: whether its `complete` takes a `variation`.
    """

    def __init__(self, setup: JudgeSetup, retry: Retry) -> None:
        """Prepare the client; the judge is opened later."""
        self.name = setup.name
        self.retry = retry
        self.varies = False
        self._setup = setup
        self._judge: Judge | None = None
        self._openai: openai_client.OpenAIJudge | None = None
        self._keys: dict[tuple[str, int], tuple[Any, Any]] = {}
        llm = setup.llm
        servers = [
            None if model is None else model.base_url for model in (llm.model(self.name), llm.embedding)
        ]
        self._learned_key = digest("learned", setup.identities, servers)
        self._remembered: dict[str, Any] = {}

    @property
    def judge(self) -> Judge:
        """The judge, once it is open."""
        assert self._judge is not None  # noqa: S101  (`JudgeSession.open` comes first)
        return self._judge

    async def open(self, cache: CallCache | None) -> None:
        """Open the judge, unless it is open; recall from the cache what its servers accept."""
        if self._judge is not None:
            return
        judge = await asyncio.to_thread(self._setup.open)
        with suppress(TypeError, ValueError):  # Of a callable without a signature.
            self.varies = "variation" in signature(judge.complete).parameters
        if isinstance(judge, openai_client.OpenAIJudge):
            self._openai = judge
            self.retry.where = judge.where
            if cache is not None and (kept := await cache.get(self._learned_key)) is not None:
                with suppress(orjson.JSONDecodeError):
                    judge.recall(orjson.loads(kept))
            self._remembered = judge.learned
        self._judge = judge

    def options(self, written: dict[str, Any], repeat: int = 0) -> dict[str, Any]:
        """Return the keyword arguments of a call; see `OpenAIJudge.complete`."""
        options: dict[str, Any] = {"variation": repeat} if repeat and self.varies else {}
        if self._openai is not None:
            options["written"] = written
        return options

    def expected(self, schema: Mapping[str, Any] | None, repeat: int = 0) -> dict[str, Any]:
        """Return how a request would be written now; see `OpenAIJudge.expected`."""
        return {} if self._openai is None else self._openai.expected(schema, repeat)

    async def remember(self, cache: CallCache) -> None:
        """Store in the cache what the servers accept, if that is new."""
        if self._openai is not None and (learned := self._openai.learned) != self._remembered:
            self._remembered = learned
            await cache.put(self._learned_key, orjson.dumps(learned))

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

    async def aclose(self) -> None:
        """Close the judge, unless it is the caller's; no call may be in flight."""
        self.retry.limiter.close()
        if self.retry.shared is not None:
            await self.retry.shared.aclose()
        judge, self._judge = self._judge, None
        if judge is not None and self._setup.close is not None:
            await self._setup.close(judge)
