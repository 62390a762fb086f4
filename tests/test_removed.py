"""What earlier versions had is an error that says what to use instead."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import pytest

import graphrag_eval_async as package
from graphrag_eval_async import (
    ConfigError,
    UsageError,
    evaluate_stream,
    follow_jsonl,
    load_config,
    read_jsonl,
)
from graphrag_eval_async.removed import REMOVED
from graphrag_eval_async.scale import evaluate_dataset
from tests.cli.support import Folder, run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

OPTIONS = [name for name in REMOVED if "--" in name]
FUNCTIONS = [name.removesuffix("()") for name in REMOVED if name.endswith("()")]
ARGUMENTS = [name.removesuffix("=") for name in REMOVED if name.endswith("=")]
OTHERS = {"redis://", "rediss://", ".parquet", "llm.limits.shared", "steps.query_similarity"}
"""Have tests of their own."""


def test_each_entry_of_the_table_is_tested() -> None:
    tested = {
        *OPTIONS,
        *(f"{name}()" for name in FUNCTIONS),
        *(f"{name}=" for name in ARGUMENTS),
        *OTHERS,
    }
    assert tested == {*REMOVED}


@pytest.mark.parametrize("name", OPTIONS)
def test_options(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    command, _, option = name.rpartition("--")
    words = f"{command or 'evaluate'} --{option}"
    assert run(*words.split(), *("r.yaml", "a.jsonl")) == 2
    assert f"{name} is gone; {REMOVED[name]}" in capfd.readouterr().err


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str) -> None:
    with pytest.raises(ImportError, match=rf"^{name}\(\) is gone; "):
        getattr(package, name)


@pytest.mark.parametrize("name", ARGUMENTS)
def test_arguments(name: str) -> None:
    """Some public function had it, and none has it any more."""
    functions = [getattr(package, each) for each in package.__all__]
    assert any(refuses(function, name) for function in [*functions, evaluate_dataset])


def refuses(function: Any, argument: str) -> bool:
    """Whether a call with this argument is an error that says what to use instead."""
    try:
        function(**{argument: None})
    except UsageError as error:
        return f"{argument}= is gone; " in str(error)
    except TypeError:  # It never had it.
        pass
    return False


ADDRESS = "redis://user:secret@host/responses?group=nightly"


@pytest.mark.parametrize(
    "command",
    [
        "evaluate {reference} {address}",
        "evaluate --no-reference {address}",
        "evaluate {reference} {responses} -o {address}",
        "watch {reference} {address}",
        "watch {address}",
        "watch --no-reference {address}",
        "aggregate {address}",
        "aggregate rediss://host/results",
        "aggregate REDIS://host/results",
    ],
)
def test_redis_on_the_command_line(
    command: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = Folder(tmp_path)
    responses = folder.lines()
    line = command.format(reference=folder.reference, responses=responses, address=ADDRESS)
    assert run(*line.split()) == 2
    error = capfd.readouterr().err
    assert ":// is gone; " in error
    assert "examples/redis_stream.py" in error
    assert "secret" not in error


@pytest.mark.parametrize(
    "read", [read_jsonl, follow_jsonl, lambda address: evaluate_stream(None, address)]
)
def test_redis_as_a_source(read: Callable[[str], Any]) -> None:
    with pytest.raises(UsageError, match=r"^redis:// is gone; .*examples/redis_stream\.py"):
        read(ADDRESS)


@pytest.mark.parametrize("name", ["redis_stream", "redis_results", "watch_redis"])
@pytest.mark.parametrize("module", ["graphrag_eval_async", "graphrag_eval_async.scale"])
def test_names_for_redis(module: str, name: str) -> None:
    with pytest.raises(ImportError, match=rf"^{name}\(\) is gone; .*examples/redis_stream\.py"):
        getattr(importlib.import_module(module), name)


def test_shared_limits() -> None:
    with pytest.raises(ConfigError, match=r"llm\.limits\.shared is gone; .* divide them"):
        load_config({"llm": {"limits": {"shared": "redis://host"}}})
