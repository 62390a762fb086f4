"""Running counts of calls, tokens and costs; token estimates and token prices."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from functools import partial
from operator import add
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson
from msgspec.structs import astuple, replace

from graphrag_eval_async.errors import ConfigError
from graphrag_eval_async.records.tabular import html_table
from graphrag_eval_async.records.token_usage import TokenUsage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphrag_eval_async.config import EmbeddingConfig, GenerationConfig, LLMConfig
    from graphrag_eval_async.judge.protocol import Message

MESSAGE_TOKENS = 4  # Tokens that delimit a message.
# Tokens for which list prices are looked up: long prompts cost more with some models.
FEW_TOKENS = 1000

SUMMED = (
    *(
        "calls",
        "attempts",
        "input_tokens",
        "output_tokens",
        "cached_tokens",
        "embedding_tokens",
        "unmetered",
    ),
    *(
        "cache_hits",
        "cache_errors",
        "shared_calls",
        "repaired",
        "restored_dollars",
        "timed_out_dollars",
    ),
)
"""Counts of `JudgeUsage` whose sum over several judges means something."""

ASCII = bytes(range(128))


class Prices(NamedTuple):
    """US dollars per million tokens; None for an unknown price. `cached` is that of cached
    input.
    """

    input: float | None
    output: float | None
    embedding: float | None
    cached: float | None = None

    def cost(self, kind: str, usage: TokenUsage) -> float | None:
        """Return the cost of a "completion" or "embedding" in US dollars; None if a price is
        unknown.
        """
        if kind == "embedding":
            return None if self.embedding is None else usage.input_tokens * self.embedding / 1e6
        if self.input is None or self.output is None:
            return None
        saved = 0.0 if self.cached is None else usage.cached_tokens * (self.input - self.cached)
        return (usage.input_tokens * self.input - saved + usage.output_tokens * self.output) / 1e6


UNKNOWN = Prices(None, None, None)
FREE = Prices(0.0, 0.0, 0.0)


def prices_of(llm: LLMConfig, name: str = "generation") -> Prices:
    """Return the prices of the judge `name`: those configured, else the list prices of
    genai-prices.

    Cached input costs as much as other input if its price is unknown, or if only that of input is
    configured.
    """
    model = llm.model(name)
    given = llm.pricing
    if name in llm.judges:
        given = replace(
            llm.judges[name].pricing, embedding_usd_per_million=given.embedding_usd_per_million
        )
    known = _listed(model, given.input_usd_per_million, given.output_usd_per_million)
    embedding = _listed(llm.embedding, given.embedding_usd_per_million)
    cached = known.cached if given.input_usd_per_million is None else None
    prices = Prices(known.input, known.output, embedding.input, cached)
    return Prices(
        *(price if own is None else own for own, price in zip(astuple(given), prices, strict=True))
    )


def _listed(model: GenerationConfig | EmbeddingConfig | None, *configured: float | None) -> Prices:
    """Return the list prices of a model; does not look them up if all prices are `configured`."""
    if model is None or None not in configured:
        return UNKNOWN
    try:
        from genai_prices import Usage, calc_price
    except ImportError:
        return UNKNOWN
    provider, slash, name = model.model.partition("/")
    lists = [partial(calc_price, model_ref=model.model, provider_id=model.provider)]
    if model.base_url is not None:
        lists.insert(0, partial(calc_price, model_ref=model.model, provider_api_url=model.base_url))
    if slash:
        lists.append(partial(calc_price, model_ref=name, provider_id=provider))
    kinds = ["input_tokens"], ["output_tokens"], ["input_tokens", "cache_read_tokens"]
    usages = [Usage(**dict.fromkeys(kind, FEW_TOKENS)) for kind in kinds]
    for listed in lists:
        with suppress(LookupError):
            each = [float(listed(usage).total_price) / FEW_TOKENS * 1e6 for usage in usages]
            return Prices(each[0], each[1], None, each[2])
    return UNKNOWN


def check_budget(llm: LLMConfig, name: str = "generation", *, embeds: bool) -> None:
    """Check that a budget has the prices of the judge `name`, including embeddings if a metric
    `embeds`.
    """
    if llm.limits.budget_usd is None:
        return
    prices, judge, embedding = prices_of(llm, name), llm.model(name), llm.embedding
    own = f"{llm.key(name)}.pricing" if name in llm.judges else "llm.pricing"
    models = [(repr(judge.model) if judge else "the judge", own, ["input", "output"])]
    if embeds:
        models.append(
            (repr(embedding.model) if embedding else "embeddings", "llm.pricing", ["embedding"])
        )
    problems = []
    for model, key, kinds in models:
        if keys := [
            f"{key}.{kind}_usd_per_million" for kind in kinds if getattr(prices, kind) is None
        ]:
            text = f"the price of {model} is unknown; set {' and '.join(keys)}"
            problems.append(f"llm.limits.budget_usd: {text}")
    if problems:
        raise ConfigError(problems)


def estimate_tokens(text: str) -> int:
    """Estimate the tokens of a text: one per 4 ASCII characters or 3 bytes of others, rounded
    up.
    """
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


class JudgeUsage:
    """Running counts of a judge's calls, readable at any time.

    Attributes:
        calls: calls by metrics, sent or not, except those answered by the cache or by an equal
            call.
        attempts: requests sent, including retries and repetitions.
        input_tokens, output_tokens: of completions, over all attempts.
        cached_tokens: part of the input that servers read from their caches.
        embedding_tokens: input of embeddings, over all attempts.
        unmetered: replies without a token count from the server; their tokens are estimated.
        cache_hits, cache_errors: calls answered by the cache, and lookups and writes that failed.
        shared_calls: calls answered by an equal call for the same result.
        repaired: replies that were used after other text, such as a Markdown fence, was removed, or
            after slightly broken JSON was mended.
        retries: failed attempts that were retried, by kind of failure.
        outcomes: metrics by outcome: "ok", "skipped" (an input is missing), or a kind of failure.
        examples: message of the first failed metric, by kind of failure.
        in_flight, waiting: requests in flight now, and requests that wait for a slot.
        concurrency: current limit on requests in flight.
        restored_dollars: cost of the results restored from a journal, in US dollars.
        timed_out_dollars: estimated cost of requests that timed out or lost their connection, in US
            dollars; part of the budget, but not of `dollars`.
    """

    def __init__(self, prices: Prices | None = None) -> None:
        self.calls = self.attempts = 0
        self.input_tokens = self.output_tokens = self.cached_tokens = self.embedding_tokens = 0
        self.unmetered = self.cache_hits = self.cache_errors = self.shared_calls = self.repaired = 0
        self.retries: Counter[str] = Counter()
        self.outcomes: Counter[str] = Counter()
        self.examples: dict[str, str] = {}
        self.in_flight = self.waiting = self.concurrency = 0
        self.restored_dollars = self.timed_out_dollars = 0.0
        self._prices = prices or UNKNOWN
        self._billed: dict[tuple[str, Prices], TokenUsage] = {}  # By kind and price.
        self._paused_until = 0.0

    @property
    def errors(self) -> dict[str, int]:
        """Metrics that failed, by kind."""
        return {kind: n for kind, n in self.outcomes.items() if kind not in {"ok", "skipped"}}

    @property
    def tokens(self) -> int:
        """Input, output and embedding tokens together."""
        return self.input_tokens + self.output_tokens + self.embedding_tokens

    @property
    def dollars(self) -> float | None:
        """Cost of all tokens and of restored results, in US dollars; None if a price is unknown."""
        costs = [
            prices.cost(kind, used) for (kind, prices), used in self._billed.items() if any(used)
        ]
        if not costs and not self.restored_dollars:  # Nothing is spent yet, but will be.
            costs = [self._prices.cost("completion", TokenUsage(0))]
        known = [cost for cost in costs if cost is not None]
        return self.restored_dollars + sum(known) if len(known) == len(costs) else None

    @property
    def spent(self) -> float | None:
        """The same, with an estimate for requests that got no reply but may be billed."""
        known = self.dollars
        return known if known is None else known + self.timed_out_dollars

    @property
    def paused_sec(self) -> float:
        """Seconds left of the pause that the server asked for; 0 when not paused."""
        return max(0.0, self._paused_until - monotonic())

    def as_dict(self) -> dict[str, Any]:
        """Return the current counts."""
        counts = {
            name: dict(value) if isinstance(value, dict) else value
            for name, value in vars(self).items()
            if not name.startswith("_")
        }
        more = {name: getattr(self, name) for name in ("errors", "tokens", "dollars", "paused_sec")}
        return counts | more

    def state(self) -> dict[str, Any]:
        """Return all counts, as JSON has them, for `add_state` in another process."""
        counts = {name: value for name, value in vars(self).items() if name in SUMMED}
        billed = [[kind, [*prices], [*tokens]] for (kind, prices), tokens in self._billed.items()]
        texts = {
            "retries": dict(self.retries),
            "outcomes": dict(self.outcomes),
            "examples": self.examples,
        }
        return {**counts, **texts, "billed": billed}

    def add_state(self, state: Mapping[str, Any]) -> None:
        """Add the counts of another process, from its `state`."""
        for name in SUMMED:
            setattr(self, name, getattr(self, name) + state[name])
        self.retries.update(state["retries"])
        self.outcomes.update(state["outcomes"])
        for kind, message in state["examples"].items():
            self.examples.setdefault(kind, message)
        for kind, prices, tokens in state["billed"]:
            key = kind, Prices(*prices)
            known = self._billed.get(key, TokenUsage(0))
            self._billed[key] = TokenUsage(*map(add, known, tokens))

    def __repr__(self) -> str:
        cost = "unknown cost" if self.dollars is None else f"${self.dollars:.4g}"
        failed = sum(self.errors.values())
        return (
            f"<JudgeUsage: {self.calls} calls, {self.in_flight} requests in flight, {self.tokens} "
            f"tokens, {cost}, {failed} metrics failed>"
        )

    def _repr_html_(self) -> str:
        return html_table(("", "value"), self.as_dict().items())

    def pause(self, seconds: float) -> None:
        """Record a pause of `seconds` during which no request is sent."""
        self._paused_until = max(self._paused_until, monotonic() + seconds)

    def add(self, kind: str, tokens: TokenUsage, prices: Prices) -> float | None:
        """Count the tokens of a reply; return their cost in US dollars, or None if a price is
        unknown.
        """
        if kind == "embedding":
            self.embedding_tokens += tokens.input_tokens
        else:
            self.input_tokens += tokens.input_tokens
            self.output_tokens += tokens.output_tokens
            self.cached_tokens += tokens.cached_tokens
        known = self._billed.get((kind, prices), TokenUsage(0))
        self._billed[kind, prices] = TokenUsage(*map(add, known, tokens))
        return prices.cost(kind, tokens)
