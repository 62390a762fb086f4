from __future__ import annotations

import importlib.metadata
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.support import run

HELP = Path(__file__).parent / "help"


@pytest.mark.skipif(
    not importlib.metadata.version("typer").startswith("0.27."),
    reason="another typer lays help out otherwise",
)
@pytest.mark.parametrize(
    "command",
    [
        "",
        "init",
        "schema",
        "evaluate",
        "watch",
        "aggregate",
        "compare",
        "validate",
        "convert",
        "answer-correctness",
    ],
)
def test_help(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert run(*command.split(), "--help") == 0
    out, err = capfd.readouterr()
    assert out == (HELP / f"{command or 'app'}.txt").read_text()
    assert max(map(len, out.splitlines())) <= 80
    assert not err


def test_version(capfd: pytest.CaptureFixture[str]) -> None:
    assert run("--version") == 0
    assert capfd.readouterr().out.startswith("graphrag-eval-async ")


@pytest.mark.parametrize("arguments", [["nonsense"], ["--nonsense"], []], ids=" ".join)
def test_no_such_command(capfd: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    assert run(*arguments) == 2
    assert "Usage: graphrag-eval-async " in capfd.readouterr().err


def test_the_library_does_without_what_the_command_line_needs() -> None:
    code = "import sys, graphrag_eval_async; print({'typer', 'rich', 'click'} & set(sys.modules))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True, timeout=60) == "set()\n"
