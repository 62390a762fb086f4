"""Prices of tokens: those configured, else the list prices of the package genai-prices."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from graphrag_eval_async.catalogue.sections import GENERATION
from graphrag_eval_async.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphrag_eval_async.config import EmbeddingConfig, GenerationConfig, LLMConfig
    from graphrag_eval_async.records.token_usage import TokenUsage

FEW_TOKENS = 1000
"""Tokens for which list prices are looked up: long prompts cost more with some models."""

PER_MILLION = 1e6


class Prices(NamedTuple):
    """Prices in US dollars per million tokens; None for an unknown price.

    Attributes:
        input: the price of the prompt of a completion.
        output: the price of the reply.
        embedding: the price of a text to embed.
        cached: the price of input that the server has in its cache; None if it costs as much as
            other input.
    """

    input: float | None
    output: float | None
    embedding: float | None
    cached: float | None = None

    def cost(self, kind: str, usage: TokenUsage) -> float | None:
        """Return the cost of tokens in US dollars; None if a price that it needs is unknown.

        Args:
            kind: the kind of the call, "completion" or "embedding".
            usage: the numbers of tokens.
        """
        if kind == "embedding":
            if self.embedding is None:
                return None
            return usage.input_tokens * self.embedding / PER_MILLION

        if self.input is None or self.output is None:
            return None
        discount = 0.0
        if self.cached is not None:
            discount = usage.cached_tokens * (self.input - self.cached)
        input_price = usage.input_tokens * self.input - discount
        output_price = usage.output_tokens * self.output
        # The prices are per million tokens.
        return (input_price + output_price) / PER_MILLION


UNKNOWN = Prices(None, None, None)
FREE = Prices(0.0, 0.0, 0.0)


class ListPrices(NamedTuple):
    """The list prices of a model in US dollars per million tokens; None for an unknown price."""

    input: float | None
    output: float | None
    cached: float | None


UNLISTED = ListPrices(None, None, None)


def prices_of(llm: LLMConfig, name: str = GENERATION) -> Prices:
    """Return the prices of a judge: the configured ones, and list prices for those not configured.

    If the price of input is configured and that of cached input is not, cached input costs as much
    as other input: a list price would not fit the configured price.

    Args:
        llm: the models and their configured prices.
        name: the name of the judge.
    """
    pricing = llm.pricing
    if name in llm.judges:
        pricing = llm.judges[name].pricing
    embedding_price = llm.pricing.embedding_usd_per_million

    # List prices are looked up only if they are needed: importing the package takes half a second.
    generation_list = UNLISTED
    if pricing.input_usd_per_million is None or pricing.output_usd_per_million is None:
        generation_list = _list_prices(llm.model(name))
    embedding_list = UNLISTED
    if embedding_price is None:
        embedding_list = _list_prices(llm.embedding)
    cached_list_price = None
    if pricing.input_usd_per_million is None:
        cached_list_price = generation_list.cached

    return Prices(
        input=_first_known(pricing.input_usd_per_million, generation_list.input),
        output=_first_known(pricing.output_usd_per_million, generation_list.output),
        embedding=_first_known(embedding_price, embedding_list.input),
        cached=_first_known(pricing.cached_usd_per_million, cached_list_price),
    )


def _first_known(configured: float | None, listed: float | None) -> float | None:
    """Return the configured price, which may be 0; the list price if none is configured."""
    return listed if configured is None else configured


def _list_prices(model: GenerationConfig | EmbeddingConfig | None) -> ListPrices:
    """Return the list prices of a configured model; `UNLISTED` if no list has the model.

    The model is looked up in these lists, and the first list that has the model counts:

    - the list of the server at the configured address
    - the list of the configured provider
    - the list of the provider in the name of the model, such as "openai/gpt-4o-mini"
    """
    if model is None:
        return UNLISTED
    try:
        from genai_prices import Usage, calc_price
    except ImportError:
        return UNLISTED

    lookups: list[Callable[[Any], Any]] = []
    if model.base_url is not None:
        by_server = partial(calc_price, model_ref=model.model, provider_api_url=model.base_url)
        lookups.append(by_server)
    lookups.append(partial(calc_price, model_ref=model.model, provider_id=model.provider))
    provider, slash, name = model.model.partition("/")
    if slash:
        lookups.append(partial(calc_price, model_ref=name, provider_id=provider))

    new_input = Usage(input_tokens=FEW_TOKENS)
    output = Usage(output_tokens=FEW_TOKENS)
    cached_input = Usage(input_tokens=FEW_TOKENS, cache_read_tokens=FEW_TOKENS)
    for lookup in lookups:
        # A lookup in a list that lacks the model raises a `LookupError`.
        with suppress(LookupError):
            return ListPrices(
                input=_per_million(lookup(new_input)),
                output=_per_million(lookup(output)),
                cached=_per_million(lookup(cached_input)),
            )
    return UNLISTED


def _per_million(price: Any) -> float:
    """Return the price of a million tokens, from the package's price of `FEW_TOKENS` tokens."""
    return float(price.total_price) / FEW_TOKENS * PER_MILLION


def check_budget(llm: LLMConfig, name: str = GENERATION, *, embeds: bool) -> None:
    """Check that the prices of a judge are known if there is a budget.

    Args:
        llm: the models, their prices and the budget.
        name: the name of the judge.
        embeds: whether a metric needs embeddings, whose price must then be known, too.

    Raises:
        ConfigError: there is a budget, and a price is unknown. Names the settings to add.
    """
    if llm.limits.budget_usd is None:
        return
    prices = prices_of(llm, name)
    problems = []

    section = "llm.pricing"
    if name in llm.judges:
        section = f"{llm.key(name)}.pricing"
    unknown = []
    if prices.input is None:
        unknown.append(f"{section}.input_usd_per_million")
    if prices.output is None:
        unknown.append(f"{section}.output_usd_per_million")
    if unknown:
        model = "the judge"
        generation = llm.model(name)
        if generation is not None:
            model = repr(generation.model)
        problems.append(_describe_unknown_price(model, " and ".join(unknown)))

    if embeds and prices.embedding is None:
        model = "embeddings"
        if llm.embedding is not None:
            model = repr(llm.embedding.model)
        problems.append(_describe_unknown_price(model, "llm.pricing.embedding_usd_per_million"))
    if problems:
        raise ConfigError(problems)


def _describe_unknown_price(model: str, settings: str) -> str:
    """Return the message that a budget needs the price of a model, with the settings to add."""
    return f"llm.limits.budget_usd: the price of {model} is unknown; set {settings}"
