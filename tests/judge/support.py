"""A scripted judge in memory, and what sessions are made of in tests."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from graphrag_eval_async.config import LimitsConfig, LLMConfig, PricingConfig
from graphrag_eval_async.judge.protocol import Message, ResponseFormat, format_of
from graphrag_eval_async.judge.session import JudgeSession
from graphrag_eval_async.judge.setup import JudgeSetup
from graphrag_eval_async.records.token_usage import TokenUsage

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

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


def session(judge: Any, *, cache: str | None = None, **limits: Any) -> JudgeSession:
    pricing = PricingConfig(input_usd_per_million=1.0, output_usd_per_million=10.0)
    llm = LLMConfig(limits=LimitsConfig(**limits), pricing=pricing, cache=cache)
    identities = {"complete": judge.model, "embed": judge.model}
    setup = JudgeSetup(
        llm, "generation", judge.model, identities=identities, fingerprint=identities, judge=judge
    )
    return JudgeSession([setup])


def message(text: str = "?") -> list[Message]:
    return [{"role": "user", "content": text}]


@asynccontextmanager
async def opened(llm: LLMConfig) -> AsyncGenerator[JudgeSession]:
    """The models of a configuration, opened: `first.judge` and `embedder.judge`."""
    setup = JudgeSetup(
        llm, "generation", "", identities={"complete": "", "embed": ""}, fingerprint={}
    )
    models = JudgeSession([setup])
    await models.open()
    try:
        yield models
    finally:
        await models.aclose()
