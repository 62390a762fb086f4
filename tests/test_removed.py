"""What earlier versions had is an error that says what to use instead."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import pytest

from graphrag_eval_async import (
    ConfigError,
    UsageError,
    evaluate_stream,
    follow_jsonl,
    load_config,
    read_jsonl,
)
from tests.cli.support import Folder, run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

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
    ],
)
def test_redis_on_the_command_line(command: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = Folder(tmp_path)
    responses = folder.lines()
    line = command.format(reference=folder.reference, responses=responses, address=ADDRESS)
    assert run(*line.split()) == 2
    error = capfd.readouterr().err
    assert ":// is gone; " in error
    assert "examples/redis_stream.py" in error
    assert "secret" not in error


@pytest.mark.parametrize("read", [read_jsonl, follow_jsonl, lambda address: evaluate_stream(None, address)])
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
