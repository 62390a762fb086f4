from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag_eval_async.config import LLMConfig, load_config
from graphrag_eval_async.errors import ConfigError
from graphrag_eval_async.judge.prices import Prices, check_budget, prices_of
from graphrag_eval_async.records.token_usage import TokenUsage

SMALL = "text-embedding-3-small"


def llm(
    model: str | None, embedder: str | None = None, budget: float | None = None, **given: Any
) -> LLMConfig:
    models = {"generation": model, "embedding": embedder}
    sections = {key: {"provider": "openai", "model": name} for key, name in models.items() if name}
    pricing = {f"{key}_usd_per_million": price for key, price in given.items()}
    found = load_config(
        {"llm": sections | {"limits": {"budget_usd": budget}, "pricing": pricing}}
    ).llm
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        pytest.param("gpt-4o-mini", (0.15, 0.6, 0.075), id="name"),
        pytest.param("openai/gpt-4o-mini-2024-07-18", (0.15, 0.6, 0.075), id="provider and date"),
        pytest.param("gpt-4o", (2.5, 10.0, 1.25), id="shorter name"),
        pytest.param("anthropic/claude-3-5-haiku-latest", (0.8, 4.0, 0.08), id="latest"),
        pytest.param("llama3.1:8b", (None, None, None), id="not listed"),
        pytest.param("openai/", (None, None, None), id="provider and slash"),
        pytest.param("openai", (None, None, None), id="provider"),
        pytest.param(None, (None, None, None), id="no name"),
    ],
)
def test_the_price_of_a_listed_model(
    model: str | None, expected: tuple[float, float, float]
) -> None:
    found = prices_of(llm(model))
    assert (found.input, found.output, found.cached) == pytest.approx(expected)


def test_a_price_that_is_given_takes_the_place_of_its_own_only() -> None:
    assert prices_of(llm("gpt-4o", SMALL, input=0.0)) == pytest.approx((0.0, 10.0, 0.02, None))
    assert prices_of(llm("gpt-4o", SMALL, output=1.0, embedding=0.0)) == pytest.approx(
        (2.5, 1.0, 0.0, 1.25)
    )
    assert prices_of(llm("gpt-4o", cached=2.0)).cached == 2.0
    assert prices_of(llm("llama", output=1.0)) == (None, 1.0, None, None)
    assert prices_of(llm(None, input=1.0, output=2.0, embedding=3.0)) == (1.0, 2.0, 3.0, None)


PRICE = st.floats(0, 1000)
COUNT = st.integers(0, 10**9)


@given(PRICE, PRICE, PRICE, COUNT, COUNT)
def test_costs_are_exact_but_for_rounding(
    i: float, o: float, e: float, sent: int, received: int
) -> None:
    usage, prices = TokenUsage(sent, received, sent // 2), Prices(i, o, e, i / 4)
    exact = (
        Fraction(i) * (sent - sent // 2) + Fraction(i / 4) * (sent // 2) + Fraction(o) * received
    ) / 10**6
    assert prices.cost("completion", usage) == pytest.approx(float(exact), rel=1e-14, abs=1e-300)
    assert prices.cost("embedding", usage) == pytest.approx(
        float(Fraction(e) * sent / 10**6), rel=1e-15
    )


def test_a_budget_needs_every_price() -> None:
    prefix, key = "llm.limits.budget_usd: the price of", "llm.pricing.{}_usd_per_million".format
    for unpriced, problems in [
        (
            llm("llama", budget=0.0),
            [f"{prefix} 'llama' is unknown; set {key('input')} and {key('output')}"],
        ),
        (
            llm("bge", "bge", 1.0, output=1.0),
            [f"{prefix} 'bge' is unknown; set {key(kind)}" for kind in ("input", "embedding")],
        ),
        (llm(None, SMALL, 1.0, input=1.0), [f"{prefix} the judge is unknown; set {key('output')}"]),
    ]:
        with pytest.raises(ConfigError) as caught:
            check_budget(unpriced, embeds=unpriced.embedding is not None)
        assert caught.value.problems == problems
