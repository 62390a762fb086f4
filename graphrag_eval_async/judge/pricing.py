"""Estimates of tokens, and what tokens cost."""

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
"""Of chat models: US dollars per million tokens of input and of output.

From https://openai.com/api/pricing and https://platform.openai.com/docs/pricing as of December 2025, for the
standard tier. The discount on cached input is left out, so that costs are an upper bound.
"""

EMBEDDING_PRICES = {
    "text-embedding-3-small": 0.02,
    "text-embedding-3-large": 0.13,
    "text-embedding-ada-002": 0.1,
}
"""The same of models of embeddings."""

MESSAGE_TOKENS = 4
"""What marks the beginning and the end of each message."""

ASCII = bytes(range(128))

SNAPSHOT_DATE = re.compile(r"-[0-9]{4}-[0-9]{2}-[0-9]{2}\Z")


class Prices(NamedTuple):
    """US dollars per million tokens, each None where it is not known."""

    input: float | None
    output: float | None
    embedding: float | None

    def completion(self, usage: TokenUsage) -> float | None:
        """What a reply cost, in US dollars; None where a price is not known."""
        if self.input is None or self.output is None:
            return None
        return (usage.input_tokens * self.input + usage.output_tokens * self.output) / 1e6

    def embedding_cost(self, usage: TokenUsage) -> float | None:
        """What embedding some texts cost, in US dollars; None where the price is not known."""
        return None if self.embedding is None else usage.input_tokens * self.embedding / 1e6


UNKNOWN = Prices(None, None, None)


def prices_of(llm: LLMConfig | None) -> Prices:
    """The configured prices; OpenAI's list prices where the configuration has none.

    A model is known by its listed name, which may begin with ``openai/`` and end with the date of a snapshot.
    """
    if llm is None:
        return UNKNOWN
    generation = listed(llm.generation.model, GENERATION_PRICES) if llm.generation else None
    embedding = listed(llm.embedding.model, EMBEDDING_PRICES) if llm.embedding else None
    known = (*(generation or (None, None)), embedding)
    given = astuple(llm.pricing)
    return Prices(*(price if own is None else own for own, price in zip(given, known, strict=True)))


def listed(model: str, prices: Mapping[str, T]) -> T | None:
    """The price of a model, by its name."""
    name = model.removeprefix("openai/")
    return prices.get(name, prices.get(SNAPSHOT_DATE.sub("", name)))


def check_budget(llm: LLMConfig, *, embeds: bool) -> None:
    """Check that all that counts against a budget has a price; embeddings count if a metric `embeds`.

    Raises:
        ConfigError: there is a budget, but a price is unknown; it names the model and the keys to set.
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
                f"llm.limits.budget_usd: the price of {model} is not known; set {' and '.join(keys)}"
            )
    if problems:
        raise ConfigError(problems)


def estimate_tokens(text: str) -> int:
    """About how many tokens a text has: one for 4 ASCII characters, or 3 bytes of others; rounded up."""
    return _estimate(text.encode("utf-8", "surrogatepass"))


def estimate_prompt(messages: Sequence[Message], schema: Mapping[str, Any]) -> int:
    """About how many tokens a conversation has, with the schema of the reply."""
    texts = sum(estimate_tokens(message["content"]) + MESSAGE_TOKENS for message in messages)
    return texts + _estimate(orjson.dumps(schema))


def estimate_reply(reply: Any) -> int:
    """About how many tokens a reply has; 0 if it is not JSON."""
    try:
        return _estimate(orjson.dumps(reply))
    except TypeError:
        return 0


def _estimate(data: bytes) -> int:
    other = len(data.translate(None, ASCII))
    return -(-(3 * (len(data) - other) + 4 * other) // 12)
