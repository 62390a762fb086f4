"""Running counts of calls, tokens and costs."""

from __future__ import annotations

from collections import Counter
from operator import add
from time import monotonic
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.judge.prices import UNKNOWN, Prices
from graphrag_eval_async.records.tabular import html_table
from graphrag_eval_async.records.token_usage import TokenUsage

if TYPE_CHECKING:
    from collections.abc import Mapping

SUMMED = (
    "calls",
    "attempts",
    "input_tokens",
    "output_tokens",
    "cached_tokens",
    "embedding_tokens",
    "unmetered",
    "cache_hits",
    "cache_errors",
    "shared_calls",
    "repaired",
    "restored_dollars",
    "timed_out_dollars",
)
"""Counts of `JudgeUsage` whose sum over several processes means something."""

COMPUTED = ("errors", "tokens", "dollars", "paused_sec")
"""Properties of `JudgeUsage` that are shown like counts."""

NO_TOKENS = TokenUsage(0)


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
        outcomes: metrics by outcome: "ok", "no_value" (the metric gave none), "skipped" (an input
            is missing), or a kind of failure.
        reasons_without_value: reason of the first result for which a metric gave no value, by the
            name of the metric.
        examples: message of the first failed metric, by kind of failure.
        in_flight, waiting: requests in flight now, and requests that wait for a slot.
        concurrency: current limit on requests in flight.
        restored_dollars: cost of the results restored from a journal, in US dollars.
        timed_out_dollars: estimated cost of requests that timed out or lost their connection, in US
            dollars; part of the budget, but not of `dollars`.
    """

    def __init__(self, prices: Prices | None = None) -> None:
        """Start with all counts at 0; `prices` are those of the first judge."""
        self.calls = 0
        self.attempts = 0
        self.input_tokens = 0
        self.output_tokens = 0
        self.cached_tokens = 0
        self.embedding_tokens = 0
        self.unmetered = 0
        self.cache_hits = 0
        self.cache_errors = 0
        self.shared_calls = 0
        self.repaired = 0
        self.retries: Counter[str] = Counter()
        self.outcomes: Counter[str] = Counter()
        self.reasons_without_value: dict[str, str] = {}
        self.examples: dict[str, str] = {}
        self.in_flight = 0
        self.waiting = 0
        self.concurrency = 0
        self.restored_dollars = 0.0
        self.timed_out_dollars = 0.0
        self._prices = prices or UNKNOWN
        # The tokens of all calls, by the kind of the calls and the prices of their model.
        self._billed: dict[tuple[str, Prices], TokenUsage] = {}
        self._paused_until = 0.0

    @property
    def errors(self) -> dict[str, int]:
        """Metrics that failed, by kind."""
        return {
            outcome: count
            for outcome, count in self.outcomes.items()
            if outcome not in {"ok", "no_value", "skipped"}
        }

    @property
    def tokens(self) -> int:
        """Input, output and embedding tokens together."""
        return self.input_tokens + self.output_tokens + self.embedding_tokens

    @property
    def dollars(self) -> float | None:
        """Cost of all tokens and of restored results, in US dollars; None if a price is unknown."""
        costs = []
        for (kind, prices), tokens in self._billed.items():
            if any(tokens):
                costs.append(prices.cost(kind, tokens))
        if not costs and not self.restored_dollars:
            # Nothing is spent yet. The cost is 0 if the prices are known, otherwise None.
            return self._prices.cost("completion", NO_TOKENS)

        known_costs = [cost for cost in costs if cost is not None]
        if len(known_costs) < len(costs):
            return None
        return self.restored_dollars + sum(known_costs)

    @property
    def spent(self) -> float | None:
        """`dollars` plus an estimate for requests that may be billed although their reply was lost.

        None if a price is unknown.
        """
        dollars = self.dollars
        if dollars is None:
            return None
        return dollars + self.timed_out_dollars

    @property
    def paused_sec(self) -> float:
        """Seconds that remain of the pause that the server asked for; 0 if there is no pause."""
        return max(0.0, self._paused_until - monotonic())

    def as_dict(self) -> dict[str, Any]:
        """Return the current counts by name, including computed values such as `dollars`."""
        counts: dict[str, Any] = {}
        for name, value in vars(self).items():
            is_private = name.startswith("_")
            if is_private:
                continue
            if isinstance(value, dict):
                counts[name] = dict(value)
            else:
                counts[name] = value
        for name in COMPUTED:
            counts[name] = getattr(self, name)
        return counts

    def state(self) -> dict[str, Any]:
        """Return all counts as JSON data, for `add_state` in another process."""
        state: dict[str, Any] = {name: getattr(self, name) for name in SUMMED}
        state["retries"] = dict(self.retries)
        state["outcomes"] = dict(self.outcomes)
        state["reasons_without_value"] = self.reasons_without_value
        state["examples"] = self.examples
        state["billed"] = []
        for (kind, prices), tokens in self._billed.items():
            state["billed"].append([kind, [*prices], [*tokens]])
        return state

    def add_state(self, state: Mapping[str, Any]) -> None:
        """Add the counts of another process.

        Args:
            state: the result of `state` there.
        """
        for name in SUMMED:
            total = getattr(self, name) + state[name]
            setattr(self, name, total)
        # These are counters, whose `update` adds counts instead of replacing them.
        self.retries.update(state["retries"])
        self.outcomes.update(state["outcomes"])
        for metric, reason in state["reasons_without_value"].items():
            # The first reason of each metric stays.
            self.reasons_without_value.setdefault(metric, reason)
        for kind, message in state["examples"].items():
            # The first example of each kind stays.
            self.examples.setdefault(kind, message)
        for kind, prices, tokens in state["billed"]:
            self._add_billed(kind, Prices(*prices), TokenUsage(*tokens))

    def __repr__(self) -> str:
        cost = "unknown cost"
        if self.dollars is not None:
            cost = f"${self.dollars:.4g}"
        failed = sum(self.errors.values())
        return (
            f"<JudgeUsage: {self.calls} calls, {self.in_flight} requests in flight, {self.tokens} "
            f"tokens, {cost}, {failed} metrics failed>"
        )

    def _repr_html_(self) -> str:
        return html_table(("", "value"), self.as_dict().items())

    def pause(self, seconds: float) -> None:
        """Record that no request is sent for `seconds`; the end of a longer pause stays."""
        self._paused_until = max(self._paused_until, monotonic() + seconds)

    def add(self, kind: str, tokens: TokenUsage, prices: Prices) -> float | None:
        """Count the tokens of a reply, and return their cost in US dollars.

        The cost is None if a price that it needs is unknown.

        Args:
            kind: the kind of the call, "completion" or "embedding".
            tokens: the tokens of the request and its reply.
            prices: the prices of the model.
        """
        if kind == "embedding":
            self.embedding_tokens += tokens.input_tokens
        else:
            self.input_tokens += tokens.input_tokens
            self.output_tokens += tokens.output_tokens
            self.cached_tokens += tokens.cached_tokens
        self._add_billed(kind, prices, tokens)
        return prices.cost(kind, tokens)

    def _add_billed(self, kind: str, prices: Prices, tokens: TokenUsage) -> None:
        """Add tokens to the earlier ones of the same kind and with the same prices."""
        before = self._billed.get((kind, prices), NO_TOKENS)
        # Both are tuples of counts, which are added one by one.
        self._billed[kind, prices] = TokenUsage(*map(add, before, tokens))
