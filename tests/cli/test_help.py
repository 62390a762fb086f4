from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from graphrag_eval_async.cli.app import COMPLETING
from graphrag_eval_async.cli.command_table import COMMANDS
from tests.cli.support import run

HELP = Path(__file__).parent / "help"


@pytest.mark.parametrize("command", ["", "scale", *COMMANDS], ids=lambda command: command or "app")
def test_help(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert run(*command.split(), "--help") == 0
    out, err = capfd.readouterr()
    assert out == (HELP / f"{command.replace(' ', '-') or 'app'}.txt").read_text()
    assert max(map(len, out.splitlines())) <= 110
    assert not err


@pytest.mark.parametrize(
    "command",
    [
        pytest.param("", id="top level"),
        pytest.param("scale", id="scale"),
        pytest.param("report", id="report"),
    ],
)
def test_all_help(capfd: pytest.CaptureFixture[str], command: str) -> None:
    assert run(*command.split(), "--help-all") == 0
    assert ("--interval KIND" in capfd.readouterr().out) == (command == "report")


def test_version(capfd: pytest.CaptureFixture[str]) -> None:
    assert run("--version") == 0
    assert capfd.readouterr().out.startswith("graphrag-eval-async ")


@pytest.mark.parametrize("command", COMMANDS)
def test_examples_are_calls(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Their files are empty, so that a run ends early, but not with wrong usage of options."""
    monkeypatch.chdir(tmp_path)
    inputs = (
        "reference.yaml responses.jsonl results.jsonl baseline.jsonl candidate.jsonl answers.tsv "
        "labels.jsonl"
    )
    for name in [*inputs.split(), "traces.jsonl"]:
        (tmp_path / name).touch()
    run(*shlex.split(COMMANDS[command].example.partition(" > ")[0]))
    assert "Usage:" not in capfd.readouterr().err


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("evaluate --on", "plain,--on-fatal"),
        ("evaluate ref", "file,ref"),
        ("watch reference.yaml lo", "file,lo"),
        ("scale ray --output d", "file,d"),
    ],
)
def test_shells_complete_options_and_files(
    words: str, completed: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(COMPLETING, "bash_complete")
    monkeypatch.setenv("COMP_WORDS", f"graphrag-eval-async {words}")
    monkeypatch.setenv("COMP_CWORD", str(len(words.split())))
    assert run() == 0
    assert capfd.readouterr().out.split() == [completed]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        pytest.param("evalute", "'evalute'. Did you mean 'evaluate'?", id="misspelt command"),
        pytest.param("scale rya", "'rya'. Did you mean 'ray'?", id="misspelt subcommand"),
        pytest.param(
            "plot r --max-line-bytes 9",
            "--max-line-bytes is gone; lines have at most 32 MiB, and results 128",
            id="max-line-bytes",
        ),
        pytest.param(
            "evaluate r s --fsync never",
            "--fsync is gone; results are flushed to disk once a second",
            id="fsync",
        ),
        pytest.param(
            "watch r s --interval 1s", "watch --interval is gone; write --every TIME", id="interval"
        ),
        pytest.param(
            "evaluate r s --fail-under=1",
            "--fail-under is gone; write --gate 'METRIC >= VALUE'",
            id="fail-under of evaluate",
        ),
        pytest.param(
            "compare a b --fail-under 1",
            "compare --fail-under is gone; write --max-drop METRIC=X",
            id="fail-under of compare",
        ),
        pytest.param(
            "evaluate r s --embedding openai/e",
            "--embedding is gone; write llm.embedding into a conf",
            id="embedding",
        ),
        pytest.param(
            "evaluate r s --max-reject-bytes 5",
            "--max-reject-bytes is gone; leave it out",
            id="max-reject-bytes",
        ),
        pytest.param(
            "watch r s --poll-interval 1s",
            "--poll-interval is gone; leave it out",
            id="poll-interval",
        ),
        pytest.param(
            "ask r s --steps-groups all",
            "--steps-groups is gone; write steps.groups into a conf",
            id="steps-groups",
        ),
        pytest.param(
            "answer-correctness -i x --escape-formulas",
            "--escape-formulas is gone; leave it out",
            id="escape-formulas",
        ),
        pytest.param(
            "answer-correctness -i x --no-escape-formulas",
            "--no-escape-formulas is gone; remove the apos",
            id="no-escape-formulas",
        ),
        pytest.param(
            "watch r s --on-alert-url u",
            "--on-alert-url is gone; write --on-alert with a command",
            id="on-alert-url",
        ),
        pytest.param(
            "evaluate r s --otlp-json f", "--otlp-json is gone; write --otel", id="otlp-json"
        ),
        pytest.param(
            "watch r s --otlp-metrics",
            "--otlp-metrics is gone; write watch --metrics [HOST:]PORT",
            id="otlp-metrics",
        ),
        pytest.param(
            "ask r u --otel-metric m",
            "--otel-metric is gone; --otel sends all scores",
            id="otel-metric",
        ),
        pytest.param(
            "watch r s --baseline b",
            "watch --baseline is gone; compare BASELINE RESULTS at any time",
            id="baseline",
        ),
        pytest.param(
            "evaluate r s --rejudge 20",
            "--rejudge is gone; give the metric two `judges` with the same model",
            id="rejudge",
        ),
        pytest.param(
            "compare a b --labels c",
            "compare --labels is gone; run `calibrate` on each run",
            id="labels",
        ),
        pytest.param(
            "aggregate a --include-errors",
            "--include-errors is gone; only compute_aggregates(results, include",
            id="include-errors",
        ),
        pytest.param(
            "evaluate --resume=yes", "'yes': expected --resume or --resume=force", id="wrong choice"
        ),
    ],
)
def test_wrong_words_get_advice(
    capfd: pytest.CaptureFixture[str], arguments: str, told: str
) -> None:
    assert run(*arguments.split()) == 2
    assert told in capfd.readouterr().err
