from __future__ import annotations

from itertools import combinations, product
from typing import Any

import pytest

from graphrag_eval_async.config import (
    AnswerCorrectnessConfig,
    AnswerRelevanceConfig,
    Config,
    GenerationConfig,
    config_for,
    load_config,
)
from graphrag_eval_async.config.model import METRICS
from graphrag_eval_async.errors import ConfigError
from tests.cases import each
from tests.config.support import EVALUATION, GENERATION, LLM


def on(config: Config) -> list[str]:
    return [name for name in METRICS if getattr(config, name) is not None]


DEFAULTS: list[tuple[Any, list[str], list[str]]] = [
    # the configuration, what is on, what is on with a judge of the user's
    ({}, [], ["answer_correctness"]),
    ({"steps": {"groups": "all"}}, [], ["answer_correctness"]),
    ({"llm": None}, [], ["answer_correctness"]),
    ({"llm": {"limits": {"budget_usd": 1}}}, [], ["answer_correctness"]),
    ({"llm": {"embedding": LLM["embedding"]}}, [], ["answer_correctness"]),
    ({"llm": {"generation": GENERATION}}, ["answer_correctness"], ["answer_correctness"]),
    ({"llm": LLM}, ["answer_correctness", "answer_relevance"], ["answer_correctness"]),
    ({"llm": LLM, "retrieval_answer": {}}, ["retrieval_answer"], ["retrieval_answer"]),
    ({"llm": LLM, "retrieval_answer": {"enabled": False}}, [], []),
    ({"llm": LLM, "custom_evaluations": [EVALUATION]}, [], []),
    (
        {"llm": LLM, "custom_evaluations": []},
        ["answer_correctness", "answer_relevance"],
        ["answer_correctness"],
    ),
]


@pytest.mark.filterwarnings("ignore:configuration. every metric")
@pytest.mark.parametrize(("config", "expected", "expected_with_judge"), DEFAULTS)
def test_what_is_on_by_default(config: Any, expected: list[str], expected_with_judge: list[str]) -> None:
    assert on(load_config(config)) == expected
    assert on(load_config(config, judge=True)) == expected_with_judge


def test_defaults_are_those_of_the_sections() -> None:
    config = load_config({"llm": LLM})
    assert config.answer_correctness == AnswerCorrectnessConfig()
    assert config.answer_relevance == AnswerRelevanceConfig()


@pytest.mark.filterwarnings("ignore:configuration. every metric")
@each("custom", [[], [EVALUATION]])
def test_a_metric_is_on_if_its_section_is_there_and_enabled(custom: Any) -> None:
    states: list[bool | None] = [None, False, True]
    choices: list[dict[str, bool | None]] = [
        dict(zip(pair, both, strict=True))
        for pair in combinations(METRICS, 2)
        for both in product(states, states)
    ]
    choices += [dict.fromkeys(METRICS, False), dict.fromkeys(METRICS, True)]
    for chosen in choices:
        given = {name: state for name in METRICS if (state := chosen.get(name)) is not None}
        sections: dict[str, Any] = {name: {"enabled": state} for name, state in given.items()}
        config = load_config({"llm": LLM, "custom_evaluations": custom} | sections)
        if given or custom:
            assert on(config) == [name for name, state in given.items() if state], given
        no_judge = not custom and bool(given) and not any(given.values())
        assert (config.llm is None) == no_judge, given
        assert load_config(config) == config, given


def test_the_models_of_a_command_line() -> None:
    assert config_for("openai/gpt-4o-mini", None) == load_config({"llm": {"generation": GENERATION}})
    assert config_for("openai/gpt-4o-mini", "openai/text-embedding-3-small") == load_config({"llm": LLM})
    config = config_for("openai/my/model")
    assert config.llm is not None
    assert config.llm.generation is not None
    assert config.llm.generation.model == "my/model"


@pytest.mark.parametrize(
    "text", ["", "gpt-4o-mini", "openai", "openai/", "/gpt", "OpenAI/gpt", "anthropic/claude"]
)
def test_what_names_no_model(text: str) -> None:
    expected = f'expected "openai/" or "azure/" and a model, got {text!r}'
    with pytest.raises(ConfigError) as caught:
        config_for(text, text)
    assert caught.value.problems == [f"--llm: {expected}", f"--embedding: {expected}"]
    with pytest.raises(ConfigError) as caught:
        config_for("openai/gpt", text)
    assert caught.value.problems == [f"--embedding: {expected}"]


def test_what_azure_needs_may_stand_in_the_environment() -> None:
    config = config_for("azure/judge")
    assert config.llm is not None
    assert config.llm.generation == GenerationConfig(provider="azure", model="judge")
