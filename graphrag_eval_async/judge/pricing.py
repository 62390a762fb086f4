"""Token estimates and token prices."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson
from msgspec.structs import astuple, replace

from graphrag_eval_async.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from graphrag_eval_async.config import EmbeddingConfig, GenerationConfig, LLMConfig
    from graphrag_eval_async.judge.protocol import Message
    from graphrag_eval_async.records.token_usage import TokenUsage

MESSAGE_TOKENS = 4
"""Tokens that delimit a message."""

FEW_TOKENS = 1000
"""Tokens for which list prices are looked up: long prompts cost more with some models."""

ASCII = bytes(range(128))


class Prices(NamedTuple):
    """US dollars per million tokens; None for an unknown price. `cached` is that of cached input."""

    input: float | None
    output: float | None
    embedding: float | None
    cached: float | None = None

    def cost(self, kind: str, usage: TokenUsage) -> float | None:
        """Return the cost of a "completion" or "embedding" in US dollars; None if a price is unknown."""
        if kind == "embedding":
            return None if self.embedding is None else usage.input_tokens * self.embedding / 1e6
        if self.input is None or self.output is None:
            return None
        saved = 0.0 if self.cached is None else usage.cached_tokens * (self.input - self.cached)
        return (usage.input_tokens * self.input - saved + usage.output_tokens * self.output) / 1e6


UNKNOWN = Prices(None, None, None)
FREE = Prices(0.0, 0.0, 0.0)


def prices_of(llm: LLMConfig, name: str = "generation") -> Prices:
    """Return the prices of the judge `name`: those configured, else the list prices of genai-prices.

    Cached input costs as much as other input if its price is unknown, or if only that of input is configured.
    """
    model = llm.model(name)
    given = llm.pricing
    if name in llm.judges:
        given = replace(llm.judges[name].pricing, embedding_usd_per_million=given.embedding_usd_per_million)
    known = _listed(model, given.input_usd_per_million, given.output_usd_per_million)
    embedding = _listed(llm.embedding, given.embedding_usd_per_million)
    cached = known.cached if given.input_usd_per_million is None else None
    prices = Prices(known.input, known.output, embedding.input, cached)
    return Prices(*(price if own is None else own for own, price in zip(astuple(given), prices, strict=True)))


def _listed(model: GenerationConfig | EmbeddingConfig | None, *configured: float | None) -> Prices:
    """Return the list prices of a model; does not look them up if all prices are `configured`."""
    if model is None or None not in configured:
        return UNKNOWN
    try:
        from genai_prices import Usage, calc_price
    except ImportError:
        return UNKNOWN

    def price(listed: Callable[..., Any], *tokens: str) -> float:
        """Return the price of a million tokens, at the rate of few."""
        usage = Usage(**dict.fromkeys(tokens, FEW_TOKENS))
        return float(listed(usage).total_price) / FEW_TOKENS * 1e6

    provider, slash, name = model.model.partition("/")
    lists = [partial(calc_price, model_ref=model.model, provider_id=model.provider)]
    if model.base_url is not None:
        lists.insert(0, partial(calc_price, model_ref=model.model, provider_api_url=model.base_url))
    if slash:
        lists.append(partial(calc_price, model_ref=name, provider_id=provider))
    for listed in lists:
        with suppress(LookupError):
            known, output = price(listed, "input_tokens"), price(listed, "output_tokens")
            return Prices(known, output, None, price(listed, "input_tokens", "cache_read_tokens"))
    return UNKNOWN


def check_budget(llm: LLMConfig, name: str = "generation", *, embeds: bool) -> None:
    """Check that a budget has the prices of the judge `name`, including embeddings if a metric `embeds`."""
    if llm.limits.budget_usd is None:
        return
    prices, judge = prices_of(llm, name), llm.model(name)
    models = [(repr(judge.model) if judge else "the judge", ["input", "output"])]
    if embeds:
        models.append((repr(llm.embedding.model) if llm.embedding else "embeddings", ["embedding"]))
    problems = []
    for model, kinds in models:
        pricing = f"{llm.key(name)}.pricing" if name in llm.judges and "input" in kinds else "llm.pricing"
        keys = [f"{pricing}.{kind}_usd_per_million" for kind in kinds if getattr(prices, kind) is None]
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
