"""Configurations of the published library mean what they mean there."""

from __future__ import annotations

from typing import Any

import pytest

from graphrag_eval_async import ConfigError, GraphragEvalWarning, load_config
from tests.cases import each
from tests.config.support import problems

MODEL = {"provider": "openai", "model": "m", "api_key": "k"}
LLM = {"generation": MODEL}
BOTH = {"generation": MODEL, "embedding": MODEL}


def test_api_base_is_the_base_url_and_other_keys_go_into_the_request() -> None:
    free = {"api_base": "http://localhost:1/v1", "seed": 7, "parameters": {"top_p": 0.5}}
    config = load_config({"llm": {"generation": MODEL | free, "embedding": MODEL | free}})
    assert config.llm is not None
    for model in (config.llm.generation, config.llm.embedding):
        assert model is not None
        assert model.base_url == "http://localhost:1/v1"
        assert model.parameters == {"seed": 7, "top_p": 0.5}


@each(
    ("more", "expected"),
    [
        ({"temprature": 1}, "llm.generation.temprature: unknown key; did you mean temperature?"),
        ({"apikey": "x"}, "llm.generation.apikey: unknown key; did you mean api_key?"),
        ({"base_url": "http://a", "api_base": "http://b"}, "llm.generation.api_base: unknown key; "),
        ({"messages": []}, "llm.generation.parameters.messages: may not be given"),
        ({"api_base": 5}, "llm.generation.base_url: expected"),
        ({"seed": 1, "parameters": 5}, "llm.generation.parameters: expected a mapping"),
    ],
)
def test_what_is_nearly_a_key_is_an_error(more: dict[str, Any], expected: str) -> None:
    assert any(each.startswith(expected) for each in problems({"llm": {"generation": MODEL | more}}))


@each(
    ("config", "names"),
    [
        ({"llm": LLM}, ["answer_correctness", "retrieval_answer", "retrieval_context"]),
        ({"llm": BOTH, "retrieval_answer": {"enabled": False}}, None),
        ({"llm": LLM, "answer_correctness": {"enabled": False}}, ["retrieval_answer", "retrieval_context"]),
    ],
)
def test_all_metrics(config: dict[str, Any], names: list[str] | None) -> None:
    loaded = load_config(config | {"metrics": "all"})
    assert [*loaded.metrics] == (names or ["answer_correctness", "answer_relevance", "retrieval_context"])
    assert load_config(loaded) == loaded
    with pytest.raises(ConfigError, match='metrics: expected "all"'):
        load_config(config | {"metrics": "some"})


def test_a_section_that_is_turned_on_keeps_its_settings() -> None:
    loaded = load_config({"llm": BOTH, "metrics": "all", "answer_relevance": {"strictness": 7}})
    assert loaded.answer_relevance is not None
    assert loaded.answer_relevance.strictness == 7


def test_a_file_that_only_turns_metrics_off_gets_a_warning() -> None:
    with pytest.warns(GraphragEvalWarning, match="`metrics: all` turns the others on"):
        loaded = load_config({"llm": LLM, "answer_correctness": {"enabled": False}})
    assert not loaded.metrics
    assert load_config(loaded) == loaded


def custom(instructions: str) -> dict[str, Any]:
    evaluation = {"name": "tone", "inputs": ["question", "actual_answer"], "outputs": {"tone": "how polite"}}
    return {"llm": LLM, "custom_evaluations": [evaluation | {"instructions": instructions}]}


def prompt(text: str) -> dict[str, Any]:
    return {"llm": LLM, "answer_correctness": {"prompt": text}}


def test_placeholders_of_a_prompt() -> None:
    assert load_config(prompt('{question} {reference_answer}: {actual_answer}; {"a": 1} {{this}} ${X} {}'))
    (problem,) = problems(prompt("Compare {actual_answer} to {refrence_answer}."))
    inputs = "question, reference_answer, actual_answer"
    assert problem == (
        f"answer_correctness.prompt: {{refrence_answer}} is none of its inputs, which are {inputs}"
    )


def test_placeholders_of_instructions() -> None:
    assert load_config(custom('Judge {question} by {actual_answer}; reply as {"a": 1} or {{this}} {}.'))
    (problem,) = problems(custom("Judge {answer}, {answer} by {question}."))
    place = "custom_evaluations[0].instructions"
    assert problem == f"{place}: {{answer}} is none of its inputs, which are question, actual_answer"
