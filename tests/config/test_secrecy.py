"""The environment in a configuration, and that nothing shows a secret."""

from __future__ import annotations

import copy
import pickle
from pprint import pformat
from typing import TYPE_CHECKING, Any

import pytest
from rich.pretty import pretty_repr

from graphrag_eval_async import Evaluator
from graphrag_eval_async.config import Config, GenerationConfig, LLMConfig, load_config, secrets
from graphrag_eval_async.errors import ConfigError
from tests.config.support import GENERATION, changed, generation, problems
from tests.support.data import question, template

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SECRET = "s3cr3t-" + "x" * 200


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "AZURE_OPENAI_API_KEY", "AZURE_OPENAI_AD_TOKEN", "UNSET"):
        monkeypatch.delenv(name, raising=False)
    values = {"SECRET": SECRET, "HOST": "judge.example", "N": "7", "HALF": "0.5", "EMPTY": ""}
    for name, value in (values | {"DOLLAR": "${SECRET}"}).items():
        monkeypatch.setenv(name, value)


def model(config: Config) -> GenerationConfig:
    assert config.llm is not None
    assert config.llm.generation is not None
    return config.llm.generation


@pytest.mark.parametrize(
    ("written", "read"),
    [
        pytest.param("${HOST}${N}-${HOST}", "judge.example7-judge.example", id="several"),
        pytest.param("${DOLLAR}", "${SECRET}", id="value that looks like a variable"),
        pytest.param("x${EMPTY}", "x", id="empty"),
        pytest.param("$HOST", "$HOST", id="no braces"),
        pytest.param("$ {HOST}", "$ {HOST}", id="space"),
        pytest.param("${", "${", id="open"),
        pytest.param("${}", "${}", id="no name"),
        pytest.param("{HOST}", "{HOST}", id="no dollar"),
        pytest.param("%HOST%", "%HOST%", id="percent signs"),
        pytest.param("${HOST}\\1\\g<0>", "judge.example\\1\\g<0>", id="backslashes"),
    ],
)
def test_text_from_the_environment(written: str, read: str) -> None:
    config = load_config(
        generation(model=written, parameters={"a": [{"b": written}], "c": written})
    )
    assert model(config).model == read
    assert model(config).parameters == {"a": [{"b": read}], "c": read}
    assert model(load_config(config)) == model(config)


def test_values_from_the_environment() -> None:
    config = load_config(
        generation(temperature="${HALF}", provider="${EMPTY}openai", max_tokens="1${N}")
        | {"answer_correctness": {"prompt": "${SECRET} ${UNSET} {question}"}}
    )
    found = model(config)
    assert (found.temperature, found.provider, found.max_tokens) == (0.5, "openai", 17)
    assert config.answer_correctness is not None
    assert config.answer_correctness.prompt == "${SECRET} ${UNSET} {question}"


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        pytest.param(
            "llm.generation.api_key", "a ${HOST} ${UNSET}", "UNSET is not set", id="unset in text"
        ),
        pytest.param(
            "llm.generation.parameters",
            {"a": [1, {"b": "${UNSET}"}]},
            "environment variable UNSET is not set",
            id="unset inside a list",
        ),
        pytest.param(
            "llm.limits.budget_usd",
            "${N}${HOST}",
            "got text from ${N} and ${HOST}",
            id="text for a number",
        ),
        pytest.param(
            "llm.generation.base_url",
            "${SECRET}",
            "expected a URL that begins with http:// or https://",
            id="not a URL",
        ),
    ],
)
def test_wrong_values_from_the_environment(key: str, value: Any, expected: str) -> None:
    (problem,) = [each for each in problems(changed(key, value)) if expected in each]
    assert problem.startswith(key)


def secretive() -> Iterator[Any]:
    """Configurations and parts of them that hold the secret."""
    parameters = {"user": "${SECRET}", "headers": {"x": ["${SECRET}"]}, "literal": SECRET}
    right: Any = GENERATION | {
        "api_key": SECRET,
        "base_url": "https://h/v1",
        "parameters": parameters,
    }
    literal = right | {"base_url": f"https://user:{SECRET}@judge.example/v1?key={SECRET}"}
    yield Config(llm=LLMConfig(generation=GenerationConfig(**literal)))
    for field in ("api_key", "model", "api_version", "base_url"):
        value = "https://${SECRET}/v1" if field == "base_url" else "${SECRET}"
        yield load_config(generation(**{field: value}))
    headers = {"Authorization": "Bearer ${SECRET}", "X-Key": SECRET}
    endpoint = {"endpoint": "https://h/", "headers": headers, "username": "me", "password": SECRET}
    full = load_config({"llm": {"generation": right, "embedding": right}, "execute": endpoint})
    yield from (full, full.llm, full.execute, copy.deepcopy(full), load_config(full))
    yield pickle.loads(pickle.dumps(full))  # noqa: S301
    assert SECRET in secrets(full)


def test_no_way_to_show_a_configuration_shows_a_secret() -> None:
    for value in secretive():
        for show in (
            repr,
            str,
            format,
            "{!r:>10}".format,
            pformat,
            pretty_repr,
            lambda value: repr([value]),
        ):
            text = show(value)
            assert "s3cr3t" not in text
            assert "Config(" in text


def test_errors_of_files_quote_no_secret(tmp_path: Path) -> None:
    for text in ("sk: $: x", "!$ x", "*$", "!!int $", "'$", "[$", "&$ &$", "@$", "\t$"):
        for suffix in ("yaml", "json"):
            path = tmp_path / f"eval.{suffix}"
            path.write_text(f"llm:\n  generation:\n    api_key: {text.replace('$', SECRET)}\n")
            with pytest.raises(ConfigError) as caught:
                load_config(path)
            assert "s3cr3t" not in str(caught.value)
            assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    "key", ["llm", "llm.generation", "llm.generation.provider", "llm.limits.budget_usd"]
)
@pytest.mark.parametrize(
    "value",
    [
        pytest.param(SECRET, id="text"),
        pytest.param([SECRET], id="list"),
        pytest.param({"key": SECRET}, id="dict"),
        pytest.param("${SECRET}", id="variable"),
        pytest.param(f"${{HOST}}{SECRET}", id="variable and text"),
    ],
)
def test_errors_quote_no_secret(key: str, value: Any) -> None:
    found = problems(changed(key, value))
    assert found[0].startswith(key)
    assert "s3cr3t" not in str(ConfigError(found))
    assert "1234" not in "".join(problems(generation(api_key=12345678)))


def test_fingerprints_hold_names_of_variables_instead_of_their_values(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever reads a hash of a short secret could guess it."""
    model = GENERATION | {
        "api_key": "${SECRET}",
        "parameters": {"user": "${SECRET}", "tags": ["x${SECRET}"]},
    }
    execute = {
        "endpoint": "http://${SECRET}.example/sparql",
        "headers": {"Authorization": "Bearer ${SECRET}"},
        "username": "me",
        "password": "${SECRET}",
    }
    config = {"llm": {"generation": model, "judges": {"other": model}}, "execute": execute}
    config["faithfulness"] = {"judges": ["generation", "other"]}
    reference = template(question())

    found = []
    for secret in ("1234", "5678"):
        monkeypatch.setenv("SECRET", secret)
        evaluator = Evaluator(reference, config=config)
        found.append(evaluator.fingerprints())
    assert found[0] == found[1]

    changed_model = config | {
        "llm": {"generation": model | {"parameters": {"user": "x"}}, "judges": {"other": model}}
    }
    assert Evaluator(reference, config=changed_model).fingerprints() != found[0]
