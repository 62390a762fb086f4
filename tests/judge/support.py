"""A scripted judge in memory, and what sessions are made of in tests."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import cached_property
from typing import Any

import msgspec

from graphrag_eval_async.config import LimitsConfig, LLMConfig, PricingConfig, secrets
from graphrag_eval_async.judge.calls import Way
from graphrag_eval_async.judge.clients import Client, endpoint_of
from graphrag_eval_async.judge.failures import Scrubber
from graphrag_eval_async.judge.openai_judge import Server
from graphrag_eval_async.judge.protocol import Message, ResponseFormat, format_of
from graphrag_eval_async.judge.sender import JudgeSetup
from graphrag_eval_async.judge.session import JudgeSession
from graphrag_eval_async.records.token_usage import TokenUsage

USAGE = TokenUsage(100, 10)
COST = 0.0002  # Of one reply.

Script = Callable[[int], Any]
"""What happens to the n-th request, counted from 0: a reply, an exception, or an awaitable of a
reply.
"""


class Verdict(msgspec.Struct):
    """A reply."""

    value: int


VERDICT: ResponseFormat[Verdict] = format_of(Verdict)


class ScriptedJudge:
    """Replies by script, and records what it was asked."""

    model = "scripted"

    def __init__(self, script: Script = lambda _: {"value": 1}) -> None:
        self.script = script
        self.requests: list[Any] = []
        self.times: list[float] = []

    async def complete(self, messages: Any, _: Any) -> tuple[Any, TokenUsage]:
        number = len(self.requests)
        self.requests.append(list(messages))
        self.times.append(asyncio.get_running_loop().time())
        reply = self.script(number)
        if isinstance(reply, Awaitable):
            reply = await reply
        if isinstance(reply, BaseException):
            raise reply
        return reply, USAGE


def session(judge: Any, **limits: Any) -> JudgeSession:
    pricing = PricingConfig(input_usd_per_million=1.0, output_usd_per_million=10.0)
    llm = LLMConfig(limits=LimitsConfig(**limits), pricing=pricing)
    identities = {"complete": judge.model, "embed": judge.model}
    return JudgeSession([JudgeSetup(llm, "generation", judge.model, identities, identities, judge)])


def message(text: str = "?") -> list[Message]:
    return [{"role": "user", "content": text}]


class Opened:
    """The models of a configuration, asked once for each call."""

    def __init__(self, llm: LLMConfig) -> None:
        self._llm, self._clients = llm, list[Client]()

    def _server(self, key: str, model: Any) -> Server:
        endpoint = endpoint_of(self._llm, model)
        self._clients.append(Client(endpoint, self._llm.limits))
        return Server(self._clients[-1], endpoint, key, model, Scrubber(secrets(self._llm)))

    @cached_property
    def generation(self) -> Server:
        return self._server("llm.generation", self._llm.generation)

    @cached_property
    def embedding(self) -> Server:
        return self._server("llm.embedding", self._llm.embedding)

    async def complete(self, messages: Any, schema: Any, variation: int = 0) -> Any:
        return await self.generation.complete(messages, schema, way=Way(), variation=variation)

    async def embed(self, texts: Any) -> Any:
        return await self.embedding.embed(texts, way=Way())

    async def aclose(self) -> None:
        for client in self._clients:
            await client.aclose()
