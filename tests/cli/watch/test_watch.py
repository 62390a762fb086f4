"""The command without a terminal."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from time import monotonic
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from graphrag_eval_async import UsageError, compute_aggregates, run_evaluation
from tests.cli.support import (
    COLOURS,
    DEADLINE_SECONDS,
    ODD,
    REFERENCE,
    failed,
    finish,
    full_pipe,
    next_line,
    response,
    run,
    start,
    until,
)
from tests.cli.watch.support import append

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable

    from tests.cli.support import Folder

RESPONSES = [response("q1"), response("q2", False), failed("q3"), response("q1", False)]
IDLE = ("--until-idle", "50ms", "--poll-interval", "5ms")


def watch(folder: Folder, *options: str, log: str = "responses.jsonl") -> list[str]:
    return ["watch", folder.reference, folder.file(log), "--poll-interval", "5ms", *options]


def facts(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def next_facts(
    process: subprocess.Popen[bytes], condition: Callable[[dict[str, Any]], object]
) -> dict[str, Any]:
    """The first line of facts that is as wanted."""
    end = monotonic() + DEADLINE_SECONDS
    while not condition(found := json.loads(next_line(process, "facts"))):
        assert monotonic() < end, f"waited {DEADLINE_SECONDS} s for other facts than {found}"
    wanted: dict[str, Any] = found
    return wanted


def samples(facts: dict[str, Any]) -> int:
    total: int = facts["overall"]["samples"]["total"]
    return total


def test_a_finished_file_ends_by_itself(folder: Folder, capfd: pytest.CaptureFixture[str]) -> None:
    folder.lines(*RESPONSES)
    outputs = ["-o", folder.file("results.jsonl"), "--aggregates", folder.file("a.json")]
    assert run(*watch(folder, *IDLE, *outputs)) == 0
    out, err = capfd.readouterr()
    [last] = facts(out)
    assert (samples(last), last["overall"]["errors"]["total"]) == (4, 1)
    assert list(last["templates"]) == [COLOURS, ODD]
    assert "results: 4, rejected lines: 0, questions without a response: 0 of 3" in err
    assert "micro" in err
    expected = asyncio.run(run_evaluation(REFERENCE, RESPONSES, missing="skip"))
    assert orjson.loads((folder.path / "a.json").read_bytes()) == compute_aggregates(
        expected, reference=REFERENCE, detail=True
    )
    assert sorted(map(str, folder.read("results.jsonl"))) == sorted(map(str, expected))


def test_facts_come_while_the_log_grows(folder: Folder) -> None:
    process = start(*watch(folder, "--interval", "20ms", "--window", "1h"))
    assert samples(next_facts(process, lambda _facts: True)) == 0
    append(folder, response("q1"))
    first = next_facts(process, samples)
    assert first["window"] == {"seconds": 3600.0}
    append(folder, b"{", response("q2"))
    second = next_facts(process, lambda facts: samples(facts) == 2)
    assert second["rejects"] == {"invalid_json": 1}
    assert (second["missing"], second["questions"]) == (1, 3)
    process.send_signal(signal.SIGINT)
    code, out, err = finish(process)
    assert code == 130
    assert samples(facts(out)[-1]) == 2
    assert "results: 2, rejected lines: 1, questions without a response: 1 of 3" in err


def test_sigterm_lets_it_finish(folder: Folder) -> None:
    folder.lines(*RESPONSES)
    process = start(*watch(folder, "--interval", "20ms", "--aggregates", folder.file("a.json")))
    next_facts(process, lambda facts: samples(facts) == 4)
    process.send_signal(signal.SIGTERM)
    assert finish(process)[0] == 143
    assert orjson.loads((folder.path / "a.json").read_bytes())["micro"]["number_of_error_samples"] == 1


def test_alerts_are_told_and_run_a_command(folder: Folder) -> None:
    folder.lines(*[response("q1", False)] * 3)
    alerts = ["--alert", f"{COLOURS}: steps_score < 0.5 over 3", "--alert", "error_rate > 0.5 over 200"]
    command = f"cat >> {folder.file('told')}"
    process = start(*watch(folder, "--interval", "20ms", *alerts, "--on-alert", command))
    [alert] = next_facts(process, lambda facts: facts["alerts"])["alerts"]
    assert (alert["template"], alert["value"], alert["samples"]) == (COLOURS, 0.0, 3)
    told = folder.path / "told"
    until(process, lambda: told.exists() and told.read_bytes().endswith(b"\n"), "the command")
    append(folder, *[response("q1")] * 5)
    assert next_facts(process, lambda facts: not facts["alerts"])
    process.send_signal(signal.SIGINT)
    code, _, err = finish(process)
    assert code == 130
    started, ended = folder.read("told")
    assert (started["alert"], started["state"], started["value"]) == (alerts[1], "started", 0.0)
    assert (ended["alert"], ended["state"], ended["value"]) == (alerts[1], "ended", 1.0)
    told_lines = [line.split(" ", 1)[1] for line in err.splitlines() if " alert " in line]
    assert told_lines == [f"alert started: {alerts[1]}: 0", f"alert ended: {alerts[1]}: 1"]


def test_a_command_that_fails_harms_nothing(folder: Folder, capfd: pytest.CaptureFixture[str]) -> None:
    folder.lines(*RESPONSES)
    options = ["--alert", "error_rate > 0", "--window", "4", "--on-alert", "exit 7"]
    assert run(*watch(folder, *IDLE, *options)) == 0
    out, err = capfd.readouterr()
    assert samples(facts(out)[-1]) == 4
    assert "--on-alert ended with exit code 7: error_rate > 0, started" in err


def test_gates(folder: Folder) -> None:
    folder.lines(*RESPONSES)
    assert run(*watch(folder, *IDLE, "--fail-under", "steps_score=0.5")) == 1
    assert run(*watch(folder, *IDLE, "--fail-over", "error_rate=0.5")) == 0


def test_rejects_say_which_log_they_stand_in(folder: Folder, capfd: pytest.CaptureFixture[str]) -> None:
    folder.lines(response("q1"), b"{", name="a.jsonl")
    folder.lines(b"[]", name="b.jsonl")
    assert run(*watch(folder, *IDLE, log="?.jsonl")) == 3
    listed = capfd.readouterr().err.splitlines()[:2]
    assert listed[0].startswith(folder.file("a.jsonl") + ": line 2 (byte ")
    assert listed[1].startswith(folder.file("b.jsonl") + ": line 1 (byte 0): not_an_object")
    assert run(*watch(folder, *IDLE, "--rejects", folder.file("rejects"), log="?.jsonl")) == 3
    assert [reject["file"] for reject in folder.read("rejects")] == [
        folder.file("a.jsonl"),
        folder.file("b.jsonl"),
    ]


def test_a_journal_is_gone_on_with(folder: Folder, capfd: pytest.CaptureFixture[str]) -> None:
    folder.lines(*RESPONSES)
    journal = ["-o", folder.file("results.jsonl"), "--resume"]
    assert run(*watch(folder, *IDLE, *journal)) == 0
    append(folder, response("q2"))
    capfd.readouterr()
    assert run(*watch(folder, *IDLE, *journal)) == 0
    out, err = capfd.readouterr()
    last = facts(out)[-1]
    assert samples(last) == 5
    assert last["overall"]["samples"]["window"] == 1
    assert last["journal"] == {"restored": 4}
    assert len(folder.read("results.jsonl")) == 5
    assert "4 results and 0 rejects from before" in err


def test_a_reader_that_goes_ends_it(folder: Folder) -> None:
    folder.lines(*RESPONSES)
    process = start(*watch(folder, "--interval", "20ms"))
    next_facts(process, samples)
    assert process.stdout is not None
    process.stdout.close()
    process.wait(DEADLINE_SECONDS)
    assert process.stderr is not None
    err = process.stderr.read().decode()
    process.stderr.close()
    assert process.returncode == 0
    assert "results: 4" in err
    assert "Error" not in err


def test_nobody_who_does_not_read_delays_anything(folder: Folder) -> None:
    reader, writer = full_pipe()
    folder.lines(response("q1", False))
    options = ["--interval", "1ms", "-o", folder.file("r"), "--alert", "steps_score < 1 over 1"]
    process = start(*watch(folder, *options), stdout=writer, stderr=writer)
    results = folder.path / "r"
    until(process, lambda: results.exists() and results.read_bytes().count(b"\n") == 1, "the first result")
    append(folder, *[response("q1"), response("q1", False)] * 1000)
    until(process, lambda: results.read_bytes().count(b"\n") == 2001, "2001 results")
    process.kill()
    process.wait(DEADLINE_SECONDS)
    os.close(reader)
    os.close(writer)


def test_ctrl_c_while_nobody_reads_facts(folder: Folder) -> None:
    reader, writer = full_pipe()
    folder.lines(response("q1"))
    process = start(*watch(folder, "--interval", "1ms", "-o", folder.file("r")), stdout=writer)
    results = folder.path / "r"
    until(process, lambda: results.exists() and results.read_bytes().endswith(b"\n"), "the first result")
    process.send_signal(signal.SIGINT)
    code, _, err = finish(process)
    assert code == 130
    assert "results: 1" in err
    assert "Error" not in err
    os.close(reader)
    os.close(writer)


def test_what_cannot_be_followed(
    folder: Folder, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(paths: list[str], **_options: object) -> None:
        raise UsageError(f"{paths[0]}: compressed files cannot be followed")

    monkeypatch.setattr("graphrag_eval_async.cli.watch.command.follow_jsonl", refuse)
    results = folder.write("results", b"of an earlier run")
    assert run(*watch(folder, "-o", results, log="log.jsonl.gz")) == 2
    told = f"Error: {folder.file('log.jsonl.gz')}: compressed files cannot be followed\n"
    assert capfd.readouterr() == ("", told)
    assert (folder.path / "results").read_bytes() == b"of an earlier run"


def test_blanks_around_a_template_are_none_of_its_name(folder: Folder) -> None:
    folder.lines(response("q1", False))
    alert = ["--alert", f" {COLOURS} : steps_score < 0.5 over 1"]
    told = folder.path / "told"
    assert run(*watch(folder, *IDLE, *alert, "--on-alert", f"cat >> {told}")) == 0
    [started] = folder.read("told")
    assert (started["template"], started["value"]) == (COLOURS, 0.0)


USAGE = [
    (["-o", "-"], "standard output is for the view"),
    (["--rejects", "-"], "standard output is for the view"),
    (["--window", "0"], "expected a number, such as 200"),
    (["--interval", "soon"], "expected a duration over 0"),
    (["--until-idle", "0"], "expected a duration over 0"),
    (["--start", "middle"], "beginning"),
    (["--show", "best"], "worst"),
    (["--alert", "steps_score"], "expected [TEMPLATE:] METRIC < VALUE"),
    (["--alert", "step_score < 1"], "no metric 'step_score'; there are: answer_"),
    (["--alert", "colors: steps_score < 1"], "no template 'colors'; there are: a:b=c, colours"),
    (["--fsync", "always"], "--fsync needs --resume"),
    (["--on-alert", "exit 0"], "--on-alert needs --alert"),
    (["-o", "responses.jsonl"], "would be overwritten"),
    (["--resume"], "--resume needs -o FILE"),
    (["-"], "standard input cannot be followed"),
    ([".", "-o", "results.jsonl"], "'results.jsonl' is among the files of '.', which are read"),
    (["r*.jsonl", "--rejects", "./rejects.jsonl"], "is among the files of 'r*.jsonl', which are read"),
]


@pytest.mark.parametrize(("options", "complaint"), USAGE, ids=[" ".join(options) for options, _ in USAGE])
def test_usage(
    folder: Folder,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    options: list[str],
    complaint: str,
) -> None:
    folder.lines(*RESPONSES)
    monkeypatch.chdir(folder.path)
    assert run(*watch(folder, *IDLE, *options)) == 2
    out, err = capfd.readouterr()
    assert not out
    assert complaint in " ".join(err.split())
