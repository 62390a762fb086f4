"""What a configuration may hold, in which forms, and what is said of mistakes."""

from __future__ import annotations

import json
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from graphrag_eval_async import GraphragEvalWarning
from graphrag_eval_async.config import Config, LLMConfig, load_config
from graphrag_eval_async.errors import ConfigError
from tests.config.support import EVALUATION, GENERATION, LLM, METRICS, changed, generation, problems

if TYPE_CHECKING:
    from pathlib import Path

FULL = """\
llm:
  generation: {provider: openai, model: gpt-4o-mini, temperature: 0.0, api_version: 2024-10-21,
               parameters: {reasoning_effort: low}}
  limits: {requests_per_minute: null, call_timeout_sec: 60}
answer_correctness: {prompt: "Compare {reference_answer} and ${literally}."}
ragas_answer_correctness: {enabled: false}
custom_evaluations:
  - {name: own, inputs: [question, actual_steps], steps_keys: [args], instructions: Judge.,
     outputs: {recall: "fraction 0-1: ...", n: {type: number, description: n}}}
"""


def test_every_way_to_give_a_configuration(tmp_path: Path) -> None:
    path, as_json = tmp_path / "eval.yaml", tmp_path / "eval.json"
    path.write_text(FULL)
    as_mapping = yaml.safe_load(FULL)
    as_json.write_text(json.dumps(as_mapping, default=str))
    expected = load_config(path)
    assert expected.llm is not None
    assert expected.llm.generation is not None
    assert expected.llm.generation.api_version == "2024-10-21"
    assert expected.llm.generation.parameters == {"reasoning_effort": "low"}
    assert expected.answer_correctness is not None
    assert expected.answer_correctness.prompt == "Compare {reference_answer} and ${literally}."
    assert expected.ragas_answer_correctness is None
    assert [(one.name, one.steps_keys, [*one.outputs]) for one in expected.custom_evaluations] == [
        ("own", ("args",), ["recall", "n"])
    ]
    ways: list[Any] = [
        str(path),
        as_json,
        as_mapping,
        MappingProxyType(as_mapping),
        Config(**as_mapping),
    ]
    ways += [Config(**as_mapping | {"llm": LLMConfig(**as_mapping["llm"])}), expected]
    for way in ways:
        assert load_config(way) == expected
    assert load_config(expected, judge=True) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("", "expected a mapping, got nothing", id="empty"),
        pytest.param("llm: {", "not YAML: ", id="not closed"),
        pytest.param(
            "llm: {cache: a}\nllm: {cache: b}",
            "duplicate key 'llm' in a mapping",
            id="duplicate key",
        ),
        pytest.param("!!python/object/apply:os.system ['true']", "not YAML: ", id="Python object"),
    ],
)
def test_files_that_hold_no_configuration(tmp_path: Path, text: str, expected: str) -> None:
    path = tmp_path / "eval.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    assert str(path) in str(caught.value)
    (problem,) = caught.value.problems
    assert expected in problem


MODEL, OWN, EXECUTE = "llm.generation", "custom_evaluations[0]", "https://example.org/sparql"
URL, KEY = f"{MODEL}.base_url", f"{MODEL}.api_key"
WRONG: list[tuple[str, Any, str]] = [
    (
        "steps.query_similarity",
        True,
        ": steps.query_similarity is gone; `score: f1` in a reference step",
    ),
    ("llms", 1, ": unknown key; did you mean llm?"),
    (f"{MODEL}.temprature", 1, ": unknown key; did you mean temperature?"),
    (f"{OWN}.outputs.elegance.unit", 1, ": unknown key; known: type, description"),
    (f"{MODEL}.provider", "anthropic", ': expected "azure", or "openai", which with a base_url'),
    (f"{MODEL}.model", " \n", ": expected a string that is not empty, got a string"),
    (f"{MODEL}.temperature", 2.1, ": expected a number from 0 to 2, got 2.1"),
    (f"{MODEL}.max_tokens", 1.5, ": expected an integer of 1 or more, got 1.5"),
    (f"{MODEL}.parameters", {"a": [{1}]}, ".a[0]: cannot be written as JSON"),
    (f"{MODEL}.parameters", {"n": 1}, ".n: may not be given: each request has its own"),
    *(
        (URL, url, ": expected a URL that begins")
        for url in ("a:80", "ftp://a/v1", "http://", "http://a b/")
    ),
    *(
        (URL, url, ": may hold no user")
        for url in ("https://u:p@h/v1", "http://h/v1?a=1", "http://h/#f")
    ),
    *((KEY, key, ": expected ASCII characters") for key in ("sk-abc\n", "sk abc", "sk-\u00e9")),
    ("llm.limits.max_attempts", "5", ": expected an integer of 1 or more, got a string"),
    ("answer_correctness", None, ": expected a mapping, got nothing; {} turns it on"),
    (
        "answer_correctness.prompt",
        "{answer} {answer}",
        ": {answer} is none of its inputs, which are",
    ),
    (
        "ragas_answer_correctness.weights",
        [1, "x"],
        "[1]: expected a number from 0 to a billion, got 'x'",
    ),
    ("ragas_answer_correctness.weights", [0, -0.0], ": expected a sum above 0"),
    (f"{OWN}.inputs", ["questions"], '[0]: expected "question" or'),
    (f"{OWN}.outputs.style", {"type": "number"}, ".description: missing"),
    (
        f"{OWN}.instructions",
        "{answer}",
        ": {answer} is none of its inputs, which are question, actual_steps",
    ),
    (
        "primary",
        ["steps_score", "step_score"],
        "[1]: 'step_score' is no metric; did you mean steps_score",
    ),
    (
        "faithfulness",
        {"judges": ["genration"]},
        ".judges[0]: 'genration' is none of llm.judges; did",
    ),
    ("faithfulness", {"judges": ["generation"] * 2}, ".judges: names a judge twice"),
    ("metrics", "some", ": expected \"all\", got 'some'"),
    (
        "execute",
        {"endpoint": EXECUTE, "graph": "missing.ttl"},
        ": expected one of endpoint, graph and database",
    ),
    ("execute", {"endpoint": "example.org"}, ".endpoint: expected a URL that begins"),
    ("execute", {"endpoint": "https://me:secret@h/"}, ".endpoint: may hold no user, password"),
    (
        "execute",
        {"endpoint": EXECUTE, "username": "me"},
        ": expected username and password, or neither",
    ),
    (
        "execute",
        {"endpoint": EXECUTE, "headers": {"X": "a\nb"}},
        ".headers.X: expected printable ASCII",
    ),
    (
        "execute",
        {"endpoint": EXECUTE, "prefixes": {"a:": "urn:x"}},
        ".prefixes['a:']: expected a prefix",
    ),
    (
        "execute",
        {"endpoint": EXECUTE, "database": "bolt://h"},
        ": expected one of endpoint, graph and database",
    ),
    ("execute", {"database": "https://h"}, ".database: expected an address that begins with bolt,"),
    ("execute", {"database": "bolt://me:secret@h"}, ".database: may hold no user and no password"),
    ("execute", {"database": "neo4j://h/films"}, ".database: may hold no path and no query"),
    ("execute", {"database": "neo4j+s://h:0"}, ".database: expected an address"),
    ("execute", {"database": "bolt://h", "headers": {"X": "a"}}, ".headers: is for an endpoint"),
    ("execute", {"database": "bolt://h", "prefixes": {"a": "urn:x"}}, ".prefixes: is for SPARQL"),
    ("execute", {"endpoint": EXECUTE, "database_name": "films"}, ".database_name: is only for"),
    ("execute", {"graph": "missing.lbug"}, ".graph: there is no such file"),
    ("execute", {"graph": "missing.ttl"}, ".graph: there is no such file"),
    ("execute", {"graph": "data.txt"}, ".graph: expected a file that ends in .ttl, "),
]


def test_wrong_values() -> None:
    for key, value, expected in WRONG:
        config = changed(key, value)
        found = problems(config)
        assert found[0].startswith(key + expected), found
        if isinstance(value, dict) and "graph" not in value:
            assert len(found) == 1


def test_every_problem_of_form_is_listed() -> None:
    config = generation(temperature=3, api_keys="x") | {
        "primary": ["foo"],
        "steps": {"groups": 1},
        "custom_evaluations": [EVALUATION, {}],
    }
    config["llm"]["limits"] = {"max_attempts": 0}
    assert {problem.split(": ")[0] for problem in problems(config)} == {
        *("llm.generation.api_keys", "llm.generation.temperature", "llm.limits.max_attempts"),
        "steps.groups",
        *(
            f"custom_evaluations[1].{name}"
            for name in ("name", "inputs", "instructions", "outputs")
        ),
    }


def test_metrics_need_their_models() -> None:
    for metric in (*METRICS, "ragas_answer_correctness", "faithfulness", "sparql_groundedness"):
        embeds = metric in {"answer_relevance", "ragas_answer_correctness"}
        needs = f"{metric}: needs llm.generation" + (" and llm.embedding" if embeds else "")
        assert problems({metric: {}}) == [needs]
        if embeds:
            assert problems(generation() | {metric: {}}) == [f"{metric}: needs llm.embedding"]
        assert load_config({metric: {}}, judge=True)
    load_config(generation() | {"ragas_answer_correctness": {"weights": [1, 0]}})
    assert problems({"custom_evaluations": [EVALUATION]}) == [
        "custom_evaluations[0]: needs llm.generation"
    ]
    judges = {"llm": LLM | {"judges": {"other": GENERATION}}}
    assert load_config(judges | {"faithfulness": {"judges": ["generation", "other"]}})


CORRECTNESS, RELEVANCE, *RETRIEVAL = METRICS
BREVITY = "tests.metrics.test_in_code:brevity"


@pytest.mark.filterwarnings("ignore:configuration. every metric")
@pytest.mark.parametrize(
    ("config", "expected", "with_judge"),
    [
        pytest.param(
            {"llm": {"embedding": LLM["embedding"]}}, [], [CORRECTNESS], id="only an embedding"
        ),
        pytest.param(generation(), [CORRECTNESS], [CORRECTNESS], id="only a model"),
        pytest.param({"llm": LLM}, [CORRECTNESS, RELEVANCE], [CORRECTNESS], id="both"),
        pytest.param(
            {"llm": LLM, RETRIEVAL[0]: {}}, RETRIEVAL[:1], RETRIEVAL[:1], id="named metric"
        ),
        pytest.param(
            {"llm": LLM, "custom_evaluations": [EVALUATION]}, [], [], id="custom evaluation"
        ),
        pytest.param(
            {"llm": LLM, CORRECTNESS: {"enabled": False}, "custom_metrics": {"x": BREVITY}},
            [],
            [],
            id="metric in code",
        ),
        pytest.param(
            {"llm": LLM, "metrics": "all", CORRECTNESS: {"enabled": False}},
            METRICS[1:],
            METRICS[1:],
            id="all but one",
        ),
        pytest.param(
            generation() | {"metrics": "all", CORRECTNESS: {"enabled": False}},
            RETRIEVAL,
            RETRIEVAL,
            id="all without an embedding",
        ),
    ],
)
def test_which_metrics_are_on(config: Any, expected: list[str], with_judge: list[str]) -> None:
    loaded = load_config(config)
    assert [*loaded.metrics] == [*expected]
    assert [*load_config(config, judge=True).metrics] == [*with_judge]
    assert load_config(loaded) == loaded


def test_turning_metrics_off() -> None:
    loaded = load_config({"llm": LLM, "metrics": "all", "answer_relevance": {"strictness": 7}})
    assert loaded.answer_relevance is not None
    assert loaded.answer_relevance.strictness == 7
    with pytest.warns(GraphragEvalWarning, match="`metrics: all` turns the others on"):
        loaded = load_config({"llm": LLM, "answer_correctness": {"enabled": False}})
    assert (loaded.metrics, loaded.llm) == ({}, None)


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
    assert load_config(changed("custom_evaluations[0].instructions", plain))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param(
            [{}, {"outputs": {"x": "x"}}],
            "[1].name: 'style_error' is already a key of custom_evaluations[0]",
            id="twice the same name",
        ),
        pytest.param(
            [{"name": "steps_score"}],
            "[0].name: 'steps_score_error' is already a key of results",
            id="key of results",
        ),
        pytest.param(
            [{"name": "faithfulness"}],
            "[0].name: 'faithfulness' is the name of a built-in metric",
            id="built-in metric",
        ),
        pytest.param(
            [{"outputs": {"error_rate": "x"}}],
            "[0].outputs.error_rate: 'error_rate' is already the name of a",
            id="name of a rate",
        ),
        pytest.param(
            [{"outputs": {"x_cost": "x"}}],
            "[0].outputs.x_cost: ends in _cost, as only costs do",
            id="ending of costs",
        ),
        pytest.param(
            [{"inputs": ["question"], "steps_keys": ["args"]}],
            "[0].steps_keys: selects steps: inputs needs",
            id="steps keys without steps",
        ),
    ],
)
def test_names_that_collide(changes: list[Any], expected: str) -> None:
    config = {"llm": LLM, "custom_evaluations": [EVALUATION | change for change in changes]}
    assert any(problem.startswith(f"custom_evaluations{expected}") for problem in problems(config))


def test_a_graph_is_a_file_without_settings_of_an_endpoint(tmp_path: Path) -> None:
    graph = tmp_path / "data.ttl"
    graph.touch()
    assert load_config({"execute": {"graph": str(graph)}}).execute is not None
    found = problems({"execute": {"graph": str(graph), "headers": {"X": "y"}}})
    assert found == ["execute.headers: is for an endpoint, not for a graph"]
