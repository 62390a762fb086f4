"""Token estimates and token prices."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import orjson
from msgspec.structs import astuple

from graphrag_eval_async.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphrag_eval_async.config import LLMConfig
    from graphrag_eval_async.judge.protocol import Message
    from graphrag_eval_async.records.token_usage import TokenUsage

T = TypeVar("T")

GENERATION_PRICES = {
    "gpt-5.2": (1.75, 14.0),
    "gpt-5.2-chat-latest": (1.75, 14.0),
    "gpt-5.1": (1.25, 10.0),
    "gpt-5.1-chat-latest": (1.25, 10.0),
    "gpt-5": (1.25, 10.0),
    "gpt-5-chat-latest": (1.25, 10.0),
    "gpt-5-mini": (0.25, 2.0),
    "gpt-5-nano": (0.05, 0.4),
    "gpt-4.1": (2.0, 8.0),
    "gpt-4.1-mini": (0.4, 1.6),
    "gpt-4.1-nano": (0.1, 0.4),
    "gpt-4o": (2.5, 10.0),
    "gpt-4o-2024-05-13": (5.0, 15.0),
    "gpt-4o-mini": (0.15, 0.6),
    "chatgpt-4o-latest": (5.0, 15.0),
    "o1": (15.0, 60.0),
    "o1-mini": (1.1, 4.4),
    "o3": (2.0, 8.0),
    "o3-mini": (1.1, 4.4),
    "o4-mini": (1.1, 4.4),
    "gpt-4-turbo": (10.0, 30.0),
    "gpt-4-0125-preview": (10.0, 30.0),
    "gpt-4-1106-preview": (10.0, 30.0),
    "gpt-4": (30.0, 60.0),
    "gpt-4-0613": (30.0, 60.0),
    "gpt-3.5-turbo": (0.5, 1.5),
    "gpt-3.5-turbo-0125": (0.5, 1.5),
    "gpt-3.5-turbo-1106": (1.0, 2.0),
}
"""Prices of chat models: US dollars per million input tokens and per million output tokens.

From https://openai.com/api/pricing and https://platform.openai.com/docs/pricing as of December 2025, for the
standard tier. Ignores the discount on cached input, so costs are an upper bound.
"""

EMBEDDING_PRICES = {
    "text-embedding-3-small": 0.02,
    "text-embedding-3-large": 0.13,
    "text-embedding-ada-002": 0.1,
}
"""Prices of embedding models: US dollars per million tokens."""

MESSAGE_TOKENS = 4
"""Tokens that delimit a message."""

ASCII = bytes(range(128))

SNAPSHOT_DATE = re.compile(r"-[0-9]{4}-[0-9]{2}-[0-9]{2}\Z")


class Prices(NamedTuple):
    """US dollars per million tokens; None for an unknown price."""

    input: float | None
    output: float | None
    embedding: float | None

    def completion(self, usage: TokenUsage) -> float | None:
        """Return the cost of a reply in US dollars; None if a price is unknown."""
        if self.input is None or self.output is None:
            return None
        return (usage.input_tokens * self.input + usage.output_tokens * self.output) / 1e6

    def embedding_cost(self, usage: TokenUsage) -> float | None:
        """Return the cost of an embedding request in US dollars; None if the price is unknown."""
        return None if self.embedding is None else usage.input_tokens * self.embedding / 1e6


UNKNOWN = Prices(None, None, None)


def prices_of(llm: LLMConfig | None) -> Prices:
    """Return the configured prices, or OpenAI's list prices where the configuration has none.

    Model names may start with ``openai/`` and end with a snapshot date.
    """
    if llm is None:
        return UNKNOWN
    generation = listed(llm.generation.model, GENERATION_PRICES) if llm.generation else None
    embedding = listed(llm.embedding.model, EMBEDDING_PRICES) if llm.embedding else None
    known = (*(generation or (None, None)), embedding)
    given = astuple(llm.pricing)
    return Prices(*(price if own is None else own for own, price in zip(given, known, strict=True)))


def listed(model: str, prices: Mapping[str, T]) -> T | None:
    """Return the list price of a model; None if it is not listed."""
    name = model.removeprefix("openai/")
    return prices.get(name, prices.get(SNAPSHOT_DATE.sub("", name)))


def check_budget(llm: LLMConfig, *, embeds: bool) -> None:
    """Check that a configured budget has the prices it needs, including embeddings if a metric `embeds`.

    Raises:
        ConfigError: a price is unknown; the message names the model and the keys to set.
    """
    if llm.limits.budget_usd is None:
        return
    prices = prices_of(llm)
    models = [(repr(llm.generation.model) if llm.generation else "the judge", ["input", "output"])]
    if embeds:
        models.append((repr(llm.embedding.model) if llm.embedding else "embeddings", ["embedding"]))
    problems = []
    for model, kinds in models:
        keys = [f"llm.pricing.{kind}_usd_per_million" for kind in kinds if getattr(prices, kind) is None]
        if keys:
            problems.append(
                f"llm.limits.budget_usd: the price of {model} is unknown; set {' and '.join(keys)}"
            )
    if problems:
        raise ConfigError(problems)


def estimate_tokens(text: str) -> int:
    """Estimate the tokens of a text: one per 4 ASCII characters or 3 bytes of others, rounded up."""
    return _estimate(text.encode("utf-8", "surrogatepass"))


def estimate_prompt(messages: Sequence[Message], schema: Mapping[str, Any]) -> int:
    """Estimate the tokens of a conversation, including the schema of the reply."""
    texts = sum(estimate_tokens(message["content"]) + MESSAGE_TOKENS for message in messages)
    return texts + _estimate(orjson.dumps(schema))


def estimate_reply(reply: Any) -> int:
    """Estimate the tokens of a reply; 0 if it is not JSON."""
    try:
        return _estimate(orjson.dumps(reply))
    except TypeError:
        return 0


def _estimate(data: bytes) -> int:
    other = len(data.translate(None, ASCII))
    return -(-(3 * (len(data) - other) + 4 * other) // 12)
