from __future__ import annotations

import importlib
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from graphrag_eval_async.cli.app import COMPLETING
from graphrag_eval_async.cli.commands import COMMANDS
from graphrag_eval_async.cli.options import options
from graphrag_eval_async.stream import MAX_IN_FLIGHT
from tests.cli.support import run

HELP = Path(__file__).parent / "help"


@pytest.mark.parametrize("command", ["", "scale", *COMMANDS])
def test_help(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert run(*command.split(), "--help") == 0
    out, err = capfd.readouterr()
    assert out == (HELP / f"{command.replace(' ', '-') or 'app'}.txt").read_text()
    assert max(map(len, out.splitlines())) <= 110
    assert not err


def test_version(capfd: pytest.CaptureFixture[str]) -> None:
    assert run("--version") == 0
    assert capfd.readouterr().out.startswith("graphrag-eval-async ")


@pytest.mark.parametrize("arguments", [["nonsense"], ["--nonsense"], []], ids=" ".join)
def test_no_such_command(capfd: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    assert run(*arguments) == 2
    assert "Usage: graphrag-eval-async " in capfd.readouterr().err


def test_the_library_loads_no_command_line() -> None:
    code = "import sys, graphrag_eval_async; print({'click', 'rich'} & set(sys.modules))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True, timeout=60) == "set()\n"


@pytest.mark.parametrize("command", COMMANDS)
def test_examples_are_calls(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Their files are empty, so that a run ends early, but not with wrong usage of options."""
    monkeypatch.chdir(tmp_path)
    for name in ("reference.yaml", "responses.jsonl", "results.jsonl", "baseline.jsonl", "candidate.jsonl"):
        (tmp_path / name).touch()
    for name in ("answers.tsv", "labels.jsonl", "traces.jsonl"):
        (tmp_path / name).touch()
    run(*shlex.split(COMMANDS[command].example.partition(" > ")[0]))
    assert "Usage:" not in capfd.readouterr().err


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("evaluate --on", "plain,--on-fatal"),
        ("evaluate ref", "file,ref"),
        ("watch reference.yaml lo", "file,lo"),
        ("evaluate -o out", "file,out"),
        ("scale ray --results d", "file,d"),
    ],
)
def test_shells_complete_options_and_files(words: str, completed: str) -> None:
    code = "from graphrag_eval_async.cli import main; main()"
    asked = {"COMP_WORDS": f"graphrag-eval-async {words}", "COMP_CWORD": str(len(words.split()))}
    environment = {**os.environ, COMPLETING: "bash_complete", **asked}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.stdout.split() == [completed], done.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("evalute", "'evalute'. Did you mean 'evaluate'?"),
        ("scale rya", "'rya'. Did you mean 'ray'?"),
        ("watch r s --interval 1s", "--interval is gone; write --every TIME"),
        ("evaluate r s --fail-under=1", "--fail-under is gone; write --gate 'METRIC >= VALUE'"),
        ("plan --fail-under 1", "No such option"),
        ("evaluate --resume=yes", "'yes': expected --resume or --resume=force"),
    ],
)
def test_wrong_words_get_advice(capfd: pytest.CaptureFixture[str], arguments: str, told: str) -> None:
    assert run(*arguments.split()) == 2
    assert told in capfd.readouterr().err


def test_each_option_belongs_to_a_command_and_has_a_parser() -> None:
    used = {key for command in COMMANDS.values() for key in f"{command.shown} {command.more}".split()}
    assert used == {*options()}
    for option in options().values():
        if option.parses is not None:
            module, _, function = option.parses.partition(":")
            parse = getattr(importlib.import_module(f"graphrag_eval_async.{module}"), function)
            assert option.default is None or parse(option.default) is not None


@pytest.mark.parametrize("command", ["plan", "plot r", "answer-correctness -o t", "scale ray r s", "report"])
def test_what_a_command_needs(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in "rs":
        (tmp_path / name).touch()
    assert run(*command.split()) == 2
    assert "Error: Missing " in capfd.readouterr().err


def test_limits_are_those_of_the_library() -> None:
    found = {key: option.default for key, option in options().items() if option.field == "max_in_flight"}
    assert {*found.values()} == {str(MAX_IN_FLIGHT)}
