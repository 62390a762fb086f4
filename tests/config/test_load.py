from __future__ import annotations

import json
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
import yaml

from graphrag_eval_async.config import (
    AnswerCorrectnessConfig,
    AnswerRelevanceConfig,
    Config,
    CustomEvaluationConfig,
    EmbeddingConfig,
    GenerationConfig,
    LimitsConfig,
    LLMConfig,
    OutputConfig,
    PricingConfig,
    RetrievalAnswerConfig,
    RetrievalContextConfig,
    StepsConfig,
    load_config,
)
from graphrag_eval_async.config.model import METRICS
from graphrag_eval_async.errors import ConfigError
from tests.cases import each
from tests.config.support import EVALUATION, GENERATION, LLM, changed, generation, problems

if TYPE_CHECKING:
    from pathlib import Path

FULL = """\
llm:
  generation: {provider: openai, model: gpt-4o-mini, temperature: 0.0, max_tokens: 4096,
               base_url: "http://127.0.0.1:8000/v1", api_key: sk-abcdef,
               api_version: 2024-10-21, parameters: {reasoning_effort: low}}     # as they are
  embedding:  {provider: openai, model: text-embedding-3-small}
  limits: {max_concurrency: 32, requests_per_minute: null, tokens_per_minute: null, call_timeout_sec: 60,
           result_timeout_sec: 300, max_attempts: 5, budget_usd: null,
           max_reply_bytes: 2097152}
  pricing: {input_usd_per_million: 0.15, output_usd_per_million: 0.6, embedding_usd_per_million: 0.02}
  cache: judge-cache.sqlite
steps: {groups: last}
answer_correctness: {enabled: true, prompt: "Compare {reference_answer} and ${literally}."}
answer_relevance:   {enabled: true, strictness: 3}
retrieval_answer:   {enabled: true}
retrieval_context:  {enabled: true}
ragas_answer_correctness: {enabled: false, weights: [0.75, 0.25], beta: 1.0, threshold: null}
custom_evaluations:
  - name: sparql_llm_evaluation
    inputs: [question, reference_answer, actual_steps]
    steps_name: sparql_query
    steps_keys: [args, output]
    instructions: Judge the query.
    outputs: {sparql_recall: "fraction 0-1: ...", sparql_reason: "...", n: {type: number, description: n}}
"""
FULL_CONFIG = Config(
    llm=LLMConfig(
        generation=GenerationConfig(
            provider="openai",
            model="gpt-4o-mini",
            temperature=0.0,
            max_tokens=4096,
            base_url="http://127.0.0.1:8000/v1",
            api_key="sk-abcdef",
            api_version="2024-10-21",
            parameters={"reasoning_effort": "low"},
        ),
        embedding=EmbeddingConfig(provider="openai", model="text-embedding-3-small"),
        limits=LimitsConfig(),
        pricing=PricingConfig(
            input_usd_per_million=0.15, output_usd_per_million=0.6, embedding_usd_per_million=0.02
        ),
        cache="judge-cache.sqlite",
    ),
    steps=StepsConfig(groups="last"),
    answer_correctness=AnswerCorrectnessConfig(prompt="Compare {reference_answer} and ${literally}."),
    answer_relevance=AnswerRelevanceConfig(),
    retrieval_answer=RetrievalAnswerConfig(),
    retrieval_context=RetrievalContextConfig(),
    custom_evaluations=(
        CustomEvaluationConfig(
            name="sparql_llm_evaluation",
            inputs=("question", "reference_answer", "actual_steps"),
            steps_name="sparql_query",
            steps_keys=("args", "output"),
            instructions="Judge the query.",
            outputs={
                "sparql_recall": "fraction 0-1: ...",
                "sparql_reason": "...",
                "n": OutputConfig(type="number", description="n"),
            },
        ),
    ),
)

BOMB = "a0: &a0 [x]\n" + "".join(f"a{i + 1}: &a{i + 1} [{f'*a{i},' * 9}]\n" for i in range(8))


@pytest.fixture
def write(tmp_path: Path) -> Any:
    def write(text: str, name: str = "eval.yaml") -> Path:
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


def test_every_way_to_give_a_configuration(write: Any) -> None:
    path = write(FULL)
    as_mapping = yaml.safe_load(FULL.replace("2024-10-21", "'2024-10-21'"))
    ways: list[Any] = [
        path,
        str(path),
        write(json.dumps(as_mapping), "eval.json"),
        as_mapping,
        MappingProxyType(as_mapping),
        FULL_CONFIG,
        Config(**as_mapping),
        Config(**as_mapping | {"llm": LLMConfig(**as_mapping["llm"])}),
    ]
    for way in ways:
        assert load_config(way) == FULL_CONFIG
        assert type(load_config(way).custom_evaluations[0].outputs["n"]) is OutputConfig


def test_loading_again_changes_nothing() -> None:
    once = load_config(FULL_CONFIG)
    assert load_config(once) == once
    assert load_config(once, judge=True) == once


def test_the_result_shares_nothing_that_changes() -> None:
    parameters = {"stop": ["a"]}
    config = load_config(generation(parameters=parameters))
    parameters["stop"].append("b")
    assert config.llm is not None
    assert config.llm.generation is not None
    assert config.llm.generation.parameters == {"stop": ["a"]}


def test_numbers_and_strings_of_other_classes() -> None:
    class Provider(StrEnum):
        OPENAI = "openai"

    config = load_config(
        {"llm": {"generation": GENERATION | {"provider": Provider.OPENAI}, "limits": {"budget_usd": 5}}}
    )
    assert config.llm is not None
    assert config.llm.generation is not None
    assert not isinstance(config.llm.generation.provider, Provider)
    assert type(config.llm.limits.budget_usd) is float


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "expected a mapping, got nothing"),
        ("# only this\n", "expected a mapping, got nothing"),
        ("- llm", "expected a mapping, got a list"),
        ("just text", "expected a mapping, got 'just text'"),
        ("llm: {", "not YAML: "),
        ("llm: {cache: a}\nllm: {cache: b}", "duplicate key 'llm' in a mapping"),
        ("llm:\n  cache: a\n  cache: b", "duplicate key 'cache' in a mapping"),
        ("[" * 1000 + "]" * 1000, "not YAML: "),
        ("a: &a {<<: *a}", "inside their own value"),
        (BOMB, "aliases expand too far"),
        ("!!python/object/apply:os.system ['true']", "not YAML: "),
        ("llm: {cache: !!int x}", "not YAML: "),
    ],
)  # fmt: skip
def test_files_that_hold_no_configuration(write: Any, text: str, expected: str) -> None:
    path = write(text)
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    assert caught.value.source == str(path)
    assert str(path) in str(caught.value)
    (problem,) = caught.value.problems
    assert expected in problem


def test_repeated_keys_in_json(write: Any) -> None:
    path = write('{"steps": {"groups": "all", "groups": "all"}}', "eval.json")
    assert problems(path) == ["not JSON: duplicate key 'groups' in a mapping, in line 1, column 29"]


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "absent.yaml", "nul\0byte", "half\ud800", "absent.json"):
        (problem,) = problems(path)
        assert problem.startswith("cannot be read: ")


@pytest.mark.parametrize("config", [None, 5, [], b"eval.yaml", object(), {1}])
def test_what_is_no_configuration(config: Any) -> None:
    (problem,) = problems(config)
    assert problem.startswith(("expected a mapping, got ", "expected a value that JSON can hold, got "))


UNKNOWN = [
    ("llms", "did you mean llm?"),
    ("zzz", "known: llm, steps, execute, aliases, metrics, primary"),
    ("llm.zzz", "known: generation, judges, embedding, limits, pricing, cache"),
    ("llm.generation.modle", "did you mean model?"),
    ("llm.limits.max_attempt", "did you mean max_attempts?"),
    ("steps.group", "did you mean groups?"),
    ("custom_evaluations[0].input", "did you mean inputs?"),
    ("custom_evaluations[0].outputs.elegance.unit", "known: type, description"),
]


@each(("key", "what"), UNKNOWN)
def test_unknown_keys(key: str, what: str) -> None:
    (problem,) = problems(changed(key, 1))
    assert problem.startswith(f"{key}: unknown key; ")
    assert what in problem


ODD_KEYS = [
    ("a b\n", "['a b\\n']: unknown key; "),
    ("x" * 100_000, f"['{'x' * 64}']: unknown key; "),
    ("\ud800", "['\\ud800']: unknown key; "),
]


@pytest.mark.parametrize(("key", "expected"), ODD_KEYS, ids=range(len(ODD_KEYS)))
def test_odd_keys(key: Any, expected: str) -> None:
    (problem,) = problems({key: 1})
    assert problem.startswith(expected)
    (problem,) = problems({"llm": {key: 1}})
    assert problem.startswith(f"llm{expected}")


@pytest.mark.parametrize("key", [1, None, (1, 2), 10**5000], ids=range(4))
def test_keys_that_are_no_strings(key: Any) -> None:
    (problem,) = problems({"llm": {key: 1}})
    assert problem.startswith("llm: expected strings as keys, got ")


TEXT = "expected a string that is not empty, got "
TWO_NUMBERS = "expected a list of 2 numbers, got "
WRONG = [
    ("llm", 5, "expected a mapping, got a number"),
    ("llm", [LLM], "expected a mapping, got a list"),
    ("llm.generation", "gpt-4o-mini", "expected a mapping, got a string"),
    ("llm.generation", {1}, "expected a value that JSON can hold, got set"),
    ("llm.generation.provider", "anthropic", "expected \"openai\" or \"azure\", got 'anthropic'"),
    ("llm.generation.provider", None, 'expected "openai" or "azure", got nothing'),
    ("llm.generation.provider", ["openai"], 'expected "openai" or "azure", got a list'),
    ("llm.embedding.provider", 1, 'expected "openai" or "azure", got a number'),
    ("llm.generation.model", 4, TEXT + "a number"),
    ("llm.generation.model", None, TEXT + "nothing"),
    ("llm.generation.model", "", TEXT + "a string"),
    ("llm.generation.model", " \n", TEXT + "a string"),
    ("llm.generation.api_key", 12345, TEXT + "a number"),
    ("llm.generation.api_key", "", TEXT + "a string"),
    ("llm.generation.base_url", ["x"], TEXT + "a list"),
    ("llm.generation.api_version", 2024.5, TEXT + "a number"),
    ("llm.generation.temperature", "0", "expected a number from 0 to 2, got a string"),
    ("llm.generation.temperature", True, "expected a number from 0 to 2, got True"),
    ("llm.generation.max_tokens", 1.0, "expected an integer of 1 or more, got 1.0"),
    ("llm.generation.max_tokens", False, "expected an integer of 1 or more, got False"),
    ("llm.generation.parameters", None, "expected a mapping, got nothing"),
    ("llm.generation.parameters", [], "expected a mapping, got an empty list"),
    ("llm.cache", 4, TEXT + "a number"),
    ("llm.limits", None, "expected a mapping, got nothing"),
    ("llm.limits.max_concurrency", "5", "expected an integer of 1 or more, got a string"),
    ("llm.limits.max_attempts", None, "expected an integer of 1 or more, got nothing"),
    ("llm.limits.max_attempts", 2**64, "expected an integer of 1 or more, got an int of 65 bits"),
    ("llm.pricing", 5, "expected a mapping, got a number"),
    ("steps", None, "expected a mapping, got nothing"),
    ("steps.groups", "first", "expected \"last\" or \"all\", got 'first'"),
    ("answer_correctness", True, "expected a mapping, got True"),
    ("answer_correctness.prompt", "", TEXT + "''"),
    ("retrieval_answer.enabled", "yes", "expected true or false, got 'yes'"),
    ("retrieval_context.enabled", 1, "expected true or false, got 1"),
    ("answer_relevance.strictness", 2.5, "expected an integer from 1 to 20, got 2.5"),
    ("ragas_answer_correctness.weights", 1, TWO_NUMBERS + "1"),
    ("ragas_answer_correctness.weights", "ab", TWO_NUMBERS + "'ab'"),
    ("ragas_answer_correctness.weights", [1], TWO_NUMBERS + "a list"),
    ("ragas_answer_correctness.weights", [1] * 3, TWO_NUMBERS + "a list"),
    ("custom_evaluations", {}, "expected a list, got a mapping"),
    ("custom_evaluations", None, "expected a list, got nothing"),
    ("custom_evaluations[0]", None, "expected a mapping, got nothing"),
    ("custom_evaluations[0].name", 5, "expected 1 to 64 letters, digits, _ and -, got 5"),
    ("custom_evaluations[0].inputs", "question", "expected a list that is not empty, got 'question'"),
    ("custom_evaluations[0].inputs", [], "expected a list that is not empty, got an empty list"),
    ("custom_evaluations[0].instructions", None, TEXT + "nothing"),
    ("custom_evaluations[0].outputs", ["x"], "expected a mapping that is not empty, got a list"),
    ("custom_evaluations[0].outputs", {}, "expected a mapping that is not empty, got a mapping"),
    ("custom_evaluations[0].outputs.style", 1, "expected a string, got 1"),
    ("custom_evaluations[0].outputs.style", None, "expected a string, got nothing"),
    ("custom_evaluations[0].outputs.elegance.type", "int", "expected \"number\" or \"string\", got 'int'"),
    ("custom_evaluations[0].steps_name", "", TEXT + "''"),
    ("custom_evaluations[0].steps_keys", [], "expected a list that is not empty, got an empty list"),
]  # fmt: skip


@each(("key", "value", "expected"), WRONG)
def test_wrong_types(key: str, value: Any, expected: str) -> None:
    config = changed(key, value)
    assert problems(config) == [f"{key}: {expected}"]
    assert problems(Config(**config)) == [f"{key}: {expected}"]


INSIDE = [
    ("ragas_answer_correctness.weights", [1, "1"], "[1]: expected a number from 0 to a billion, got '1'"),
    ("custom_evaluations[0].inputs", ["questions"], "[0]: expected "),
    ("custom_evaluations[0].inputs", ["question", ["x"]], "[1]: expected "),
    ("custom_evaluations[0].outputs.style", {"type": "number"}, ".description: missing"),
    ("custom_evaluations[0].outputs.style", {"description": "x"}, ".type: missing"),
    ("llm.generation.parameters", {"a": {1}}, ".a: expected a value that JSON can hold"),
    ("llm.generation.parameters", {"a": [b""]}, ".a[0]: expected a value that JSON can hold"),
    ("llm.generation.parameters", {"a": 2**64}, ": cannot be written as JSON"),
    ("llm.generation.parameters", {"a": {"b": float("nan")}}, ": cannot be written as JSON"),
    ("llm.generation.parameters", {"a": "\ud800"}, ".a: expected text, got lone surrogates"),
    ("llm.generation.parameters", {"a": {1: 1}}, ".a: expected strings as keys"),
]


@each(("key", "value", "expected"), INSIDE)
def test_wrong_types_inside(key: str, value: Any, expected: str) -> None:
    problem, *_ = problems(changed(key, value))
    assert problem.startswith(key + expected)


@pytest.mark.parametrize("name", METRICS)
def test_a_metric_with_nothing_is_neither_on_nor_off(name: str) -> None:
    assert problems(changed(name, None)) == [f"{name}: expected a mapping, got nothing; {{}} turns it on"]


@pytest.mark.parametrize(
    ("key", "names"),
    [
        ("llm.generation", ["provider", "model"]),
        ("llm.embedding", ["provider", "model"]),
        ("custom_evaluations[0]", ["name", "inputs", "instructions", "outputs"]),
    ],
)
def test_missing_keys(key: str, names: list[str]) -> None:
    assert problems(changed(key, {})) == [f"{key}.{name}: missing" for name in names]


def test_problems_of_all_kinds_come_at_once() -> None:
    generation = {"provider": "opnai", "model": "m", "base_url": "nope", "api_key": "a b"}
    other = {"provider": "openai", "model": "m", "temperature": 5}
    third = {"model": 5, "base_url": "http://user@host", "parameters": {"n": 1}}
    judges = {"other": other, "third": third}
    config = {
        "llm": {"generation": generation, "judges": judges, "limits": {"max_attempts": 0}},
        "answer_correctness": {"judges": ["generation", "other", "ohter"]},
        "answer_relevance": {},
    }
    with pytest.raises(ConfigError) as caught:
        load_config(config)
    assert sorted(problem.partition(": ")[0] for problem in caught.value.problems) == [
        "answer_correctness.judges[2]",
        "answer_relevance",
        "llm.generation.api_key",
        "llm.generation.base_url",
        "llm.generation.provider",
        "llm.judges.other.temperature",
        "llm.judges.third.base_url",
        "llm.judges.third.model",
        "llm.judges.third.parameters.n",
        "llm.judges.third.provider",
        "llm.limits.max_attempts",
    ]
    assert [problem for problem in caught.value.problems if "generation" in problem.partition(":")[0]] == [
        'llm.generation.provider: expected "openai" or "azure", got \'opnai\'',
        "llm.generation.base_url: expected a URL that begins with http:// or https://",
        "llm.generation.api_key: expected ASCII characters without white space, as an HTTP header has them",
    ]
    assert "answer_relevance: needs llm.embedding" in caught.value.problems


def test_all_problems_are_listed() -> None:
    config = generation(temperature=3, api_keys="x") | {
        "answer_relevance": {},
        "steps": {"groups": 1},
        "custom_evaluations": [EVALUATION, {}, EVALUATION | {"name": "other", "outputs": {"sample": "x"}}],
    }
    config["llm"]["limits"] = {"max_attempts": 0}
    assert [problem.split(": ")[0] for problem in problems(config)] == [
        "llm.generation.api_keys",
        "llm.generation.temperature",
        "llm.limits.max_attempts",
        "steps.groups",
        "custom_evaluations[1].name",
        "custom_evaluations[1].inputs",
        "custom_evaluations[1].instructions",
        "custom_evaluations[1].outputs",
        "answer_relevance",
    ]


def test_an_error_in_words() -> None:
    with pytest.raises(ConfigError) as caught:
        load_config({"llm": LLM | {"limits": {"max_attempts": 0}}})
    assert str(caught.value) == (
        "configuration:\n  llm.limits.max_attempts: expected an integer of 1 or more, got 0"
    )


def test_what_nests_without_end() -> None:
    endless: dict[str, Any] = {}
    endless |= {"a": endless, "b": [endless, endless]}
    assert problems(generation(parameters=endless)) == ["nests more than 100 deep, or contains itself"]
    deep: Any = "x"
    for _ in range(90):
        deep = [deep]
    load_config(generation(parameters={"a": deep}))


def test_the_plain_form_of_a_loaded_configuration_loads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MODEL", "gpt-4o-mini")
    config = load_config(generation(model="${MODEL}", parameters={"user": "${MODEL}"}))
    plain = msgspec.to_builtins(config, enc_hook=str)
    assert load_config({key: value for key, value in plain.items() if value is not None}) == config
