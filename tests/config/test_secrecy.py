from __future__ import annotations

import copy
import json
import pickle
from pprint import pformat
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from msgspec.structs import replace
from rich.pretty import pretty_repr

from graphrag_eval_async.config import (
    Config,
    EmbeddingConfig,
    GenerationConfig,
    LLMConfig,
    load_config,
    secrets,
)
from graphrag_eval_async.errors import ConfigError
from tests.cases import each
from tests.config.support import EVALUATION, GENERATION, LLM, changed, generation, problems

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SECRET = "s3cr3t-" + "x" * 200


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "AZURE_OPENAI_API_KEY", "AZURE_OPENAI_AD_TOKEN", "UNSET"):
        monkeypatch.delenv(name, raising=False)
    values = {
        "SECRET": SECRET,
        "HOST": "judge.example",
        "N": "7",
        "HALF": "0.5",
        "EMPTY": "",
        "DOLLAR": "${SECRET}",
    }
    for name, value in values.items():
        monkeypatch.setenv(name, value)


def model(config: Config) -> GenerationConfig:
    assert config.llm is not None
    assert config.llm.generation is not None
    return config.llm.generation


@each(
    ("written", "read"),
    [
        ("${HOST}", "judge.example"),
        ("a ${HOST} b", "a judge.example b"),
        ("${HOST}${N}-${HOST}", "judge.example7-judge.example"),
        ("$${HOST}", "$judge.example"),
        ("${DOLLAR}", "${SECRET}"),
        ("x${EMPTY}", "x"),
        *[(text, text) for text in ("$", "$HOST", "$ {HOST}", "${", "${}", "{HOST}", "${HOST", "%HOST%")],
        ("${HOST}\\1\\g<0>", "judge.example\\1\\g<0>"),
    ],
)  # fmt: skip
def test_text_from_the_environment(written: str, read: str) -> None:
    config = load_config(generation(model=written, parameters={"a": [{"b": written}], "c": written}))
    assert model(config).model == read
    assert model(config).parameters == {"a": [{"b": read}], "c": read}
    assert model(load_config(config)) == model(config)


@each(
    ("key", "written", "read"),
    [
        ("llm.limits.max_concurrency", "${N}", 7),
        ("llm.limits.max_concurrency", "1${N}", 17),
        ("llm.limits.budget_usd", "${N}", 7.0),
        ("llm.limits.budget_usd", "${HALF}", 0.5),
        ("llm.pricing.input_usd_per_million", "${N}.25", 7.25),
        ("llm.generation.temperature", "${HALF}", 0.5),
        ("llm.generation.max_tokens", "${N}", 7),
        ("llm.cache", "a/${HOST}.sqlite", "a/judge.example.sqlite"),
        ("llm.generation.provider", "${EMPTY}openai", "openai"),
    ],
)
def test_values_from_the_environment(key: str, written: str, read: Any) -> None:
    value: Any = load_config(changed(key, written))
    for name in key.split("."):
        value = getattr(value, name)
    assert value == read
    if not isinstance(read, str):
        assert type(value) is type(read)


def test_in_files_too(tmp_path: Path) -> None:
    path = tmp_path / "eval.yaml"
    path.write_text(
        "llm:\n  generation: {provider: openai, model: '${HOST}'}\n  limits: {max_attempts: '${N}'}"
    )
    config = load_config(path)
    assert model(config).model == "judge.example"
    assert config.llm is not None
    assert config.llm.limits.max_attempts == 7


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("answer_correctness.prompt", "${SECRET} ${UNSET} {question}"),
        ("custom_evaluations[0].instructions", "${SECRET} ${UNSET}"),
        ("custom_evaluations[0].outputs.style", "${SECRET} ${UNSET}"),
        ("custom_evaluations[0].steps_name", "${UNSET}"),
    ],
)
def test_nothing_else_is_replaced(key: str, value: str) -> None:
    assert value in repr(load_config(changed(key, value)))


@each(
    "key",
    [
        "llm.generation.api_key",
        "llm.generation.provider",
        "llm.embedding.model",
        "llm.limits.max_attempts",
        "llm.limits.budget_usd",
        "llm.cache",
        "llm.generation.parameters",
        "llm.generation",
        "llm",
    ],
)
@each("value", ["${UNSET}", "a ${HOST} ${UNSET} b"])
def test_variables_that_are_not_set(key: str, value: str) -> None:
    assert problems(changed(key, value)) == [f"{key}: the environment variable UNSET is not set"]


def test_variables_that_are_not_set_inside_parameters() -> None:
    assert problems(generation(parameters={"a": [1, {"b": "${UNSET}"}], "c": "${ODD:-x}"})) == [
        "llm.generation.parameters.a[1].b: the environment variable UNSET is not set",
        "llm.generation.parameters.c: the environment variable ODD:-x is not set",
    ]


COUNT = "expected an integer of 1 or more, "
AMOUNT = "expected a number from 0 to a billion, "


@each(
    ("key", "value", "expected"),
    [
        ("llm.generation.max_tokens", "${SECRET}", COUNT + "got text from ${SECRET}"),
        ("llm.generation.max_tokens", "${HALF}", COUNT + "got text from ${HALF}"),
        ("llm.limits.max_attempts", "-${N}", COUNT + "got text from ${N}"),
        ("llm.limits.max_attempts", "${EMPTY}", COUNT + "got text from ${EMPTY}"),
        ("llm.limits.budget_usd", "${N}${HOST}", AMOUNT + "got text from ${N} and ${HOST}"),
        ("llm.limits.budget_usd", "${EMPTY}nan", AMOUNT + "got text from ${EMPTY}"),
        ("llm.generation.provider", "${SECRET}", 'expected "openai" or "azure", got text from ${SECRET}'),
        ("llm.generation.model", "${EMPTY}", "expected a string that is not empty, got text from ${EMPTY}"),
        ("llm.generation", "${SECRET}", "expected a mapping, got text from ${SECRET}"),
        ("llm", "a${SECRET}", "expected a mapping, got text from ${SECRET}"),
        ("llm.generation.parameters", "${SECRET}", "expected a mapping, got text from ${SECRET}"),
        ("llm.generation.base_url", "${SECRET}", "expected a URL that begins with http:// or https://"),
    ],
)  # fmt: skip
def test_wrong_values_from_the_environment(key: str, value: str, expected: str) -> None:
    assert problems(changed(key, value)) == [f"{key}: {expected}"]


SECRETIVE = {
    "api_key": SECRET,
    "base_url": f"https://user:{SECRET}@judge.example/v1?key={SECRET}",
    "parameters": {"user": "${SECRET}", "headers": {"x": ["${SECRET}"]}, "literal": SECRET},
}


def secretive() -> Iterator[Any]:
    """Configurations and parts of them that hold the secret."""
    literal: Any = GENERATION | SECRETIVE
    right: Any = literal | {"base_url": "https://judge.example/v1"}
    yield GenerationConfig(**literal)
    yield EmbeddingConfig(**literal)
    yield Config(llm=LLMConfig(generation=GenerationConfig(**literal)))
    unchecked: Any = {"generation": literal, "embedding": [literal]}
    yield Config(llm=unchecked)
    for field in ("api_key", "model", "api_version", "base_url"):
        value = "https://${SECRET}/v1" if field == "base_url" else "${SECRET}"
        yield load_config(generation(**{field: value}))
    yield load_config({"llm": LLM | {"cache": "${SECRET}"}})
    full = load_config({"llm": {"generation": right, "embedding": right}, "custom_evaluations": [EVALUATION]})
    yield from (full, full.llm, model(full), copy.copy(full), copy.deepcopy(full))
    yield pickle.loads(pickle.dumps(full))  # noqa: S301
    yield load_config(full)
    yield replace(full, answer_relevance=None)


@each(
    "show",
    [
        repr, str, format, ascii, "{}".format, "{!r:>10}".format, "%s".__mod__, pformat, pretty_repr,
        lambda value: pretty_repr(value, max_string=20), lambda value: repr([{"config": value}]),
    ],
)  # fmt: skip
def test_no_way_to_show_a_configuration_shows_a_secret(show: Any) -> None:
    for value in secretive():
        text = show((value,) if show == "%s".__mod__ else value)
        assert "s3cr3t" not in text
        assert "Config(" in text


def test_what_is_shown_instead() -> None:
    given = SECRETIVE | {"base_url": "https://${HOST}/v1", "api_version": "v-${SECRET}"}
    config = load_config(generation(**given))
    assert repr(model(config)) == (
        "GenerationConfig(provider='openai', model='gpt-4o-mini', temperature=UNSET, max_tokens=UNSET, "
        "base_url='https://${HOST}/v1', api_key='***', api_version='v-${SECRET}', "
        "extra_headers={}, parameters={'user': ..., 'headers': ..., 'literal': ...})"
    )
    unchecked: Any = GENERATION | SECRETIVE
    assert "base_url='***'" in repr(GenerationConfig(**unchecked))


@pytest.mark.parametrize(
    "text", ["sk: $: x", "!$ x", "*$", "!!int $", "'$", "[$", "&$ &$", "!$!x y", "@$", "\t$"]
)
@pytest.mark.parametrize("suffix", ["yaml", "json"])
def test_errors_of_files_quote_no_secret(tmp_path: Path, text: str, suffix: str) -> None:
    path = tmp_path / f"eval.{suffix}"
    path.write_text(f"llm:\n  generation:\n    api_key: {text.replace('$', SECRET)}\n")
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    assert "s3cr3t" not in str(caught.value)
    assert caught.value.__cause__ is None


@each(
    "key",
    [
        "llm",
        "llm.generation",
        "llm.generation.provider",
        "llm.generation.temperature",
        "llm.generation.base_url",
        "llm.limits",
        "llm.limits.budget_usd",
    ],
)
@each("value", [SECRET, [SECRET], {"key": SECRET}, "${SECRET}", f"${{HOST}}{SECRET}"])
def test_errors_quote_no_secret(key: str, value: Any) -> None:
    found = problems(changed(key, value))
    assert found[0].startswith(key)
    assert "s3cr3t" not in str(ConfigError(found))


def test_errors_quote_no_key_that_is_a_number() -> None:
    assert "1234" not in "".join(problems(generation(api_key=12345678)))


def test_equality_and_the_ways_of_copying() -> None:
    config = load_config(generation(model="${HOST}", parameters={"user": "${HOST}"}))
    plain = load_config(generation(model="judge.example", parameters={"user": "judge.example"}))
    assert config == plain
    pickles = [pickle.dumps(config, protocol) for protocol in range(pickle.HIGHEST_PROTOCOL + 1)]
    for copied in (copy.copy(config), copy.deepcopy(config), *map(pickle.loads, pickles)):  # noqa: S301
        assert copied == config
        assert repr(copied) == repr(config) != repr(plain)
        assert secrets(copied) == secrets(config)


def test_what_the_environment_holds_can_be_sent() -> None:
    parameters = model(load_config(generation(parameters={"user": "${HOST}"}))).parameters
    assert json.dumps(parameters) == '{"user": "judge.example"}'
    assert orjson.dumps(parameters) == b'{"user":"judge.example"}'
    assert f"Bearer {parameters['user']}" == "Bearer judge.example"


@each(
    ("fields", "expected"),
    [
        ({}, set()),
        ({"api_key": "sk-abc"}, {"sk-abc"}),
        ({"api_key": "abc"}, set()),
        ({"api_key": "Bearer-${HOST}"}, {"Bearer-judge.example", "judge.example"}),
        ({"model": "m-${HOST}"}, set()),
        ({"api_version": "v-${HOST}"}, {"judge.example"}),
        ({"parameters": {"a": [{"b": "${HOST} ${SECRET}"}], "c": "literal"}}, {"judge.example", SECRET}),
        ({"model": "${N}"}, set()),
        ({"max_tokens": "${N}"}, set()),
        ({"base_url": "https://judge.example/v1"}, set()),
    ],
)
def test_secrets(fields: dict[str, Any], expected: set[str]) -> None:
    config = load_config(generation(**fields))
    assert secrets(config) == expected
    assert config.llm is not None
    assert secrets(config.llm) == secrets(config)
    assert all(type(text) is str for text in secrets(config))


def test_secrets_of_a_config_made_in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    embedding = EmbeddingConfig(provider="openai", model="m", api_key="sk-abc")
    assert secrets(Config(llm=LLMConfig(embedding=embedding))) == {"sk-abc"}
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-sdk")
    assert secrets(Config()) == {"sk-of-the-sdk"}
