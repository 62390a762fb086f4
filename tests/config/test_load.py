"""What a configuration may hold, in which forms, and what is said of mistakes."""

from __future__ import annotations

import json
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from graphrag_eval_async import GraphragEvalWarning
from graphrag_eval_async.config import (
    AnswerCorrectnessConfig,
    Config,
    CustomEvaluationConfig,
    GenerationConfig,
    LLMConfig,
    OutputConfig,
    load_config,
)
from graphrag_eval_async.config.model import METRICS
from graphrag_eval_async.errors import ConfigError
from tests.config.support import (
    EVALUATION,
    GENERATION,
    LLM,
    changed,
    evaluations,
    generation,
    problems,
)
from tests.support.cases import each

if TYPE_CHECKING:
    from pathlib import Path

FULL = """\
llm:
  generation: {provider: openai, model: gpt-4o-mini, temperature: 0.0, api_key: sk-abcdef,
               api_version: 2024-10-21, parameters: {reasoning_effort: low}}     # as they are
  limits: {requests_per_minute: null, call_timeout_sec: 60}
answer_correctness: {prompt: "Compare {reference_answer} and ${literally}."}
ragas_answer_correctness: {enabled: false}
custom_evaluations:
  - name: sparql_llm_evaluation
    inputs: [question, reference_answer, actual_steps]
    steps_keys: [args, output]
    instructions: Judge the query.
    outputs: {sparql_recall: "fraction 0-1: ...", n: {type: number, description: n}}
"""
FULL_CONFIG = Config(
    llm=LLMConfig(
        generation=GenerationConfig(
            provider="openai",
            model="gpt-4o-mini",
            temperature=0.0,
            api_key="sk-abcdef",
            api_version="2024-10-21",
            parameters={"reasoning_effort": "low"},
        )
    ),
    answer_correctness=AnswerCorrectnessConfig(prompt="Compare {reference_answer} and ${literally}."),
    custom_evaluations=(
        CustomEvaluationConfig(
            name="sparql_llm_evaluation",
            inputs=("question", "reference_answer", "actual_steps"),
            steps_keys=("args", "output"),
            instructions="Judge the query.",
            outputs={"sparql_recall": "fraction 0-1: ...", "n": OutputConfig(type="number", description="n")},
        ),
    ),
)


def test_every_way_to_give_a_configuration(tmp_path: Path) -> None:
    path, as_json = tmp_path / "eval.yaml", tmp_path / "eval.json"
    path.write_text(FULL)
    as_mapping = yaml.safe_load(FULL.replace("2024-10-21", "'2024-10-21'"))
    as_json.write_text(json.dumps(as_mapping))
    ways: list[Any] = [path, str(path), as_json, as_mapping, MappingProxyType(as_mapping), FULL_CONFIG]
    ways += [Config(**as_mapping), Config(**as_mapping | {"llm": LLMConfig(**as_mapping["llm"])})]
    for way in ways:
        assert load_config(way) == FULL_CONFIG
    for judge in (False, True):  # Loading again changes nothing.
        assert load_config(load_config(FULL_CONFIG), judge=judge) == FULL_CONFIG


@each(
    ("text", "expected"),
    [
        ("", "expected a mapping, got nothing"),
        ("- llm", "expected a mapping, got a list"),
        ("llm: {", "not YAML: "),
        ("llm: {cache: a}\nllm: {cache: b}", "duplicate key 'llm' in a mapping"),
        ("!!python/object/apply:os.system ['true']", "not YAML: "),
    ],
)
def test_files_that_hold_no_configuration(tmp_path: Path, text: str, expected: str) -> None:
    path = tmp_path / "eval.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    assert caught.value.source == str(path)
    assert str(path) in str(caught.value)
    (problem,) = caught.value.problems
    assert expected in problem


WRONG = [
    ("llms", 1, "unknown key; did you mean llm?"),
    ("llm.generation.temprature", 1, "unknown key; did you mean temperature?"),
    ("llm.limits.max_attempt", 1, "unknown key; did you mean max_attempts?"),
    ("custom_evaluations[0].outputs.elegance.unit", 1, "unknown key; known: type, description"),
    ("llm", [LLM], "expected a mapping, got a list"),
    ("llm.generation.provider", "anthropic", "expected \"openai\" or \"azure\", got 'anthropic'"),
    ("llm.generation.model", " \n", "expected a string that is not empty, got a string"),
    ("llm.generation.temperature", True, "expected a number from 0 to 2, got True"),
    ("llm.generation.max_tokens", 1.5, "expected an integer of 1 or more, got 1.5"),
    ("llm.generation.parameters", [], "expected a mapping, got an empty list"),
    ("llm.generation.parameters", {"a": [{1}]}, ".a[0]: cannot be written as JSON"),
    ("llm.generation.parameters", {"a": {"b": float("nan")}}, ".a.b: cannot be written as JSON"),
    ("llm.generation.parameters", {"a": {2: 1}}, ".a[2]: expected a string, got a number"),
    ("llm.generation.parameters", {"n": 1}, ".n: may not be given: each request has its own"),
    ("llm.limits.max_attempts", "5", "expected an integer of 1 or more, got a string"),
    ("llm.limits.max_attempts", None, "expected an integer of 1 or more, got nothing"),
    ("steps.groups", "first", "expected \"last\" or \"all\", got 'first'"),
    ("retrieval_answer.enabled", "false", "expected true or false, got 'false'"),
    ("steps.strict_types", 1, "expected true or false, got 1"),
    ("ragas_answer_correctness.weights", [1] * 3, "expected a list of 2 numbers, got a list"),
    ("ragas_answer_correctness.weights", [1, "x"], "[1]: expected a number from 0 to a billion, got 'x'"),
    ("ragas_answer_correctness.weights", [0, -0.0], "expected a sum above 0"),
    ("custom_evaluations", None, "expected a list, got nothing"),
    ("custom_evaluations[0].inputs", [], "expected a list that is not empty, got an empty list"),
    ("custom_evaluations[0].inputs", ["questions"], "[0]: expected \"question\" or"),
    ("custom_evaluations[0].outputs", {}, "expected a mapping that is not empty, got a mapping"),
    ("custom_evaluations[0].outputs.style", 1, "expected a string, got 1"),
    ("custom_evaluations[0].outputs.style", {"type": "number"}, ".description: missing"),
    ("custom_evaluations[0].steps_name", "", "expected a string that is not empty, got ''"),
    ("primary", ["steps_score", "step_score"],
     "[1]: 'step_score' is no metric; did you mean steps_score"),
]  # fmt: skip


@each(("key", "value", "expected"), WRONG)
def test_wrong_values(key: str, value: Any, expected: str) -> None:
    config = changed(key, value)
    (problem,) = problems(config)
    assert problem.startswith(key + (expected if expected[0] in ".[" else f": {expected}"))
    if key != "llms":
        assert problems(Config(**config)) == [problem]


def test_problems_of_several_sections_are_listed() -> None:
    config = {"primary": ["foo"], "steps": {"groups": 1}, "llm": {"limits": {"max_attempts": 0}}}
    found = {problem.split(": ")[0] for problem in problems(config)}
    assert found == {"primary[0]", "steps.groups", "llm.limits.max_attempts"}
    assert len(problems({"answer_relevance": {}, "steps": {"groups": 1}})) == 2
    assert len(problems({"answer_relevance": {}, "llm": {"generation": 1}})) == 1
    assert len(problems({"primary": ["tone"], "custom_evaluations": 1})) == 1


def test_every_problem_of_form_is_listed() -> None:
    config = generation(temperature=3, api_keys="x") | {
        "steps": {"groups": 1},
        "custom_evaluations": [EVALUATION, {}],
        "answer_correctness": None,
    }
    config["llm"]["limits"] = {"max_attempts": 0}
    assert {problem.split(": ")[0] for problem in problems(config)} == {
        *("llm.generation.api_keys", "llm.generation.temperature", "llm.limits.max_attempts"),
        *("steps.groups", "answer_correctness"),
        *(f"custom_evaluations[1].{name}" for name in ("name", "inputs", "instructions", "outputs")),
    }
    with pytest.raises(ConfigError) as caught:
        load_config({"llm": LLM | {"limits": {"max_attempts": 0}}})
    assert str(caught.value) == (
        "configuration:\n  llm.limits.max_attempts: expected an integer of 1 or more, got 0"
    )


URL, KEY = "llm.generation.base_url", "llm.generation.api_key"


@each(
    ("key", "value", "expected"),
    [
        *((URL, url, "expected a URL that begins") for url in ("localhost:8000", "ftp://a/v1", "http://")),
        *((URL, url, "expected a URL that begins") for url in ("http://a:port/", "http://a b/", "//a/v1")),
        *((URL, url, "may hold no user") for url in ("https://u:p@h/v1", "http://h/v1?a=1", "http://h/#f")),
        *((KEY, key, "expected ASCII characters") for key in ("sk-abc\n", "sk abc", "sk-\u00e9")),
        ("llm.generation.parameters", {"a": "\ud800"}, ""),
    ],
)
def test_what_no_request_can_hold(key: str, value: Any, expected: str) -> None:
    (problem,) = problems(changed(key, value))
    assert problem.startswith(f"{key}: {expected}" if expected else f"{key}.a: expected text, got lone")


def test_metrics_need_their_models() -> None:
    for metric in METRICS:
        embeds = metric in {"answer_relevance", "ragas_answer_correctness"}
        needs = f"{metric}: needs llm.generation" + (" and llm.embedding" if embeds else "")
        assert problems({metric: {}}) == [needs]
        if embeds:
            assert problems({"llm": {"generation": GENERATION}, metric: {}}) == [
                f"{metric}: needs llm.embedding"
            ]
        assert load_config({metric: {}}, judge=True)
        assert problems({metric: None}) == [f"{metric}: expected a mapping, got nothing; {{}} turns it on"]
    load_config({"llm": {"generation": GENERATION}, "ragas_answer_correctness": {"weights": [1, 0]}})
    assert problems({"custom_evaluations": [EVALUATION]}) == ["custom_evaluations[0]: needs llm.generation"]


def test_judges_are_among_those_of_llm() -> None:
    judges = {"llm": LLM | {"judges": {"other": GENERATION}}}
    assert load_config(judges | {"faithfulness": {"judges": ["generation", "other"]}})
    assert problems(judges | {"faithfulness": {"judges": ["ohter"]}}) == [
        "faithfulness.judges[0]: 'ohter' is none of llm.judges; did you mean other?"
    ]
    assert problems(judges | {"faithfulness": {"judges": ["other", "other"]}}) == [
        "faithfulness.judges: names a judge twice"
    ]


def on(config: Config) -> list[str]:
    return [*config.metrics]


ANSWERS = ["answer_correctness", "answer_relevance"]


@pytest.mark.filterwarnings("ignore:configuration. every metric")
@each(
    ("config", "expected", "with_judge"),
    [
        ({}, [], ANSWERS[:1]),
        ({"llm": {"embedding": LLM["embedding"]}}, [], ANSWERS[:1]),
        ({"llm": {"generation": GENERATION}}, ANSWERS[:1], ANSWERS[:1]),
        ({"llm": LLM}, ANSWERS, ANSWERS[:1]),
        ({"llm": LLM, "retrieval_answer": {}}, ["retrieval_answer"], ["retrieval_answer"]),
        ({"llm": LLM, "retrieval_answer": {"enabled": False}}, [], []),
        ({"llm": LLM, "custom_evaluations": [EVALUATION]}, [], []),
        ({"llm": LLM, "custom_evaluations": []}, ANSWERS, ANSWERS[:1]),
        ({"llm": LLM, "metrics": "all", "retrieval_answer": {"enabled": False}},
         [*ANSWERS, "retrieval_context"], [*ANSWERS, "retrieval_context"]),
        ({"llm": {"generation": GENERATION}, "metrics": "all", "answer_correctness": {"enabled": False}},
         ["retrieval_answer", "retrieval_context"], ["retrieval_answer", "retrieval_context"]),
    ],
)  # fmt: skip
def test_which_metrics_are_on(config: Any, expected: list[str], with_judge: list[str]) -> None:
    loaded = load_config(config)
    assert on(loaded) == expected
    assert on(load_config(config, judge=True)) == with_judge
    assert load_config(loaded) == loaded


def test_turning_metrics_on_and_off() -> None:
    loaded = load_config({"llm": LLM, "metrics": "all", "answer_relevance": {"strictness": 7}})
    assert loaded.answer_relevance is not None
    assert loaded.answer_relevance.strictness == 7
    with pytest.warns(GraphragEvalWarning, match="`metrics: all` turns the others on"):
        loaded = load_config({"llm": LLM, "answer_correctness": {"enabled": False}})
    assert (on(loaded), loaded.llm) == ([], None)
    assert problems({"llm": LLM, "metrics": "some"}) == ["metrics: expected \"all\", got 'some'"]


def test_configurations_of_the_published_library() -> None:
    """There, `api_base` is the `base_url`, and unknown keys go into each request."""
    free = {"api_base": "http://localhost:1/v1", "seed": 7, "parameters": {"top_p": 0.5}}
    config = load_config({"llm": {name: model | free for name, model in LLM.items()}})
    assert config.llm is not None
    for model in (config.llm.generation, config.llm.embedding):
        assert model is not None
        assert model.base_url == "http://localhost:1/v1"
        assert model.parameters == {"seed": 7, "top_p": 0.5}
    (problem,) = problems(generation(base_url="http://a", api_base="http://b"))
    assert problem.startswith("llm.generation.api_base: unknown key; ")


def test_placeholders() -> None:
    plain = 'by {question}; reply as {"a": 1} or {{this}} ${X} {}'
    assert load_config(changed("answer_correctness.prompt", plain))
    assert load_config(evaluations({"instructions": plain}))
    inputs = "question, reference_answer, actual_answer"
    assert problems(changed("answer_correctness.prompt", "Compare {answer} to {answer}.")) == [
        f"answer_correctness.prompt: {{answer}} is none of its inputs, which are {inputs}"
    ]
    assert problems(evaluations({"instructions": "Judge {answer}."})) == [
        "custom_evaluations[0].instructions: {answer} is none of its inputs, which are question, actual_steps"
    ]


@each(
    ("changes", "expected"),
    [
        ([{}, {"outputs": {"x": "x"}}], "[1].name: 'style_error' is already a key of custom_evaluations[0]"),
        ([{}, {"name": "b", "outputs": {"style": "x"}}],
         "[1].outputs.style: 'style' is already a key of custom_evaluations[0]"),
        ([{"outputs": {"style_error": "x"}}],
         "[0].outputs.style_error: 'style_error' is already a key of custom_evaluations[0]"),
        ([{"name": "steps_score"}], "[0].name: 'steps_score_error' is already a key of results"),
        ([{"name": "faithfulness"}], "[0].name: 'faithfulness' is the name of a built-in metric"),
        ([{"outputs": {"error_rate": "x"}}],
         "[0].outputs.error_rate: 'error_rate' is already the name of a gate"),
        ([{"outputs": {"x_cost": "x"}}], "[0].outputs.x_cost: ends in _cost, as only costs do"),
        *(([{"outputs": {key: "x"}}], f"[0].outputs.{key}: {key!r} is already a key of results")
          for key in ("question_id", "status", "steps_score", "answer_f1", "failure", "judge")),
        ([{"inputs": ["question"], "steps_keys": ["args"]}],
         "[0].steps_keys: selects steps: inputs needs actual_steps or reference_steps"),
    ],
)  # fmt: skip
def test_names_that_collide(changes: list[Any], expected: str) -> None:
    assert f"custom_evaluations{expected}" in problems(evaluations(*changes))


ENDPOINT = "https://example.org/sparql"


@each(
    ("section", "problem"),
    [
        ({}, ": expected either endpoint or graph"),
        ({"endpoint": ENDPOINT, "graph": "data.ttl"}, ": expected either endpoint or graph"),
        ({"endpoint": "example.org"}, ".endpoint: expected a URL that begins with http:// or https://"),
        ({"endpoint": "https://me:secret@example.org/"},
         ".endpoint: may hold no user, password, query or fragment; a key belongs in headers"),
        ({"endpoint": ENDPOINT, "username": "me"}, ": expected username and password, or neither"),
        ({"endpoint": ENDPOINT, "headers": {"X": "a\nb"}},
         ".headers.X: expected printable ASCII, on one line, got a string"),
        ({"endpoint": ENDPOINT, "prefixes": {"a:": "urn:x"}},
         ".prefixes['a:']: expected a prefix without its colon, and an absolute IRI"),
        ({"endpoint": ENDPOINT, "max_rows": 0}, ".max_rows: expected an integer of 1 or more, got 0"),
        ({"endpoint": ENDPOINT, "timeout": 5}, ".timeout: unknown key; did you mean timeout_sec?"),
        ({"graph": "missing.ttl"}, ".graph: there is no such file"),
        ({"graph": "data.txt"},
         ".graph: expected a file that ends in .ttl, .nt, .nq, .trig, .rdf, .jsonld, .n3"),
        ({"graph": "data.ttl", "headers": {"X": "y"}}, ".headers: is for an endpoint, not for a graph"),
    ],
)  # fmt: skip
def test_execute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, section: dict[str, Any], problem: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data.ttl").touch()
    assert load_config({"execute": {"graph": "data.ttl"}}).execute is not None
    assert f"execute{problem}" in problems({"execute": section})
