"""The command without a terminal."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import urllib.request
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
    to_jsonl,
    told,
    until,
)
from tests.cli.watch.support import append
from tests.stream.test_spans import spans
from tests.traces.otlp import line as line_of
from tests.traces.test_formats import REFERENCE as TRACED

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cli.support import Folder

RESPONSES = [response("q1"), response("q2", False), failed("q3"), response("q1", False)]
IDLE = ("--until-idle", "50ms", "--poll-interval", "5ms", "--every", "1h")
"""A run that ends by itself, with facts at its end only, however slow the machine is."""


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


@pytest.mark.parametrize("number", [None, signal.SIGINT])
def test_standard_input_is_watched_until_it_ends(folder: Folder, number: int | None) -> None:
    """Each line counts once it is there; what was read before a signal counts, too."""
    process = start("watch", folder.reference, "-", "--every", "20ms", stdin=subprocess.PIPE)
    assert process.stdin is not None
    for count, line in enumerate(RESPONSES, 1):
        process.stdin.write(to_jsonl([line]))
        process.stdin.flush()
        shown = next_facts(process, lambda facts, count=count: samples(facts) == count)  # type: ignore[misc]
        assert shown["lag"] is None
        assert shown["paths"] == ["-"]
    if number is not None:
        process.send_signal(number)
        assert process.wait(DEADLINE_SECONDS) == 130
    code, out, err = finish(process)
    assert code == (0 if number is None else 130)
    assert number is not None or samples(facts(out)[-1]) == len(RESPONSES)
    assert "results: 4" in err


@pytest.mark.parametrize("option", [["--until-idle", "1s"], ["--start", "end"]])
def test_file_options_reject_standard_input(
    folder: Folder, capfd: pytest.CaptureFixture[str], option: list[str]
) -> None:
    assert run("watch", folder.reference, "-", *option) == 2
    assert f"Error: {option[0]} is for files" in capfd.readouterr().err


def test_a_finished_file_ends_by_itself(folder: Folder, capfd: pytest.CaptureFixture[str]) -> None:
    folder.lines(*RESPONSES)
    outputs = ["-o", folder.file("results.jsonl"), "--aggregates", folder.file("a.json")]
    assert run(*watch(folder, *IDLE, *outputs)) == 0
    out, err = capfd.readouterr()
    [last] = facts(out)
    assert (samples(last), last["overall"]["errors"]["total"]) == (4, 1)
    assert list(last["templates"]) == [COLOURS, ODD]
    assert "results: 4, rejected lines: 0, questions without a response: 0 of 3" in err
    assert "all results" in err
    expected = asyncio.run(run_evaluation(REFERENCE, RESPONSES, missing="skip"))
    assert orjson.loads((folder.path / "a.json").read_bytes()) == compute_aggregates(
        expected, reference=REFERENCE, detail=True, interval="anytime"
    )
    assert sorted(map(str, folder.read("results.jsonl"))) == sorted(map(str, expected))


def test_facts_come_while_the_log_grows(folder: Folder) -> None:
    process = start(*watch(folder, "--every", "20ms", "--window", "1h"))
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
    process = start(*watch(folder, "--every", "20ms", "--aggregates", folder.file("a.json")))
    next_facts(process, lambda facts: samples(facts) == 4)
    process.send_signal(signal.SIGTERM)
    assert finish(process)[0] == 143
    assert orjson.loads((folder.path / "a.json").read_bytes())["micro"]["number_of_error_samples"] == 1


def test_alerts_are_told_and_run_a_command(folder: Folder) -> None:
    folder.lines(*[response("q1", False)] * 3)
    alerts = ["--alert", f"{COLOURS}: steps_score < 0.5 over 3", "--alert", "error_rate > 0.5 over 200"]
    command = f"cat >> {folder.file('told')}"
    process = start(*watch(folder, "--every", "20ms", *alerts, "--on-alert", command))
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
    assert run(*watch(folder, *IDLE, "--gate", "steps_score >= 0.5")) == 1
    assert run(*watch(folder, *IDLE, "--gate", "error_rate <= 0.5")) == 0


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
    assert last["overall"]["samples"]["window"] == 5
    assert len(last["results"]) == 5
    assert last["journal"] == {"restored": 4}
    assert len(folder.read("results.jsonl")) == 5
    assert "4 results and 0 rejects from before" in err


@pytest.mark.parametrize("window", ["2", "1s"])
def test_an_alert_that_was_on_at_a_kill_ends_after_it(folder: Folder, window: str) -> None:
    """And one that is still on is not told a second time."""
    folder.lines(*[response("q1", False)] * 4)
    told = folder.path / "told"
    command = watch(
        folder,
        *(
            "-o",
            folder.file("results.jsonl"),
            "--resume",
            "--on-alert",
            f"cat >> {told}",
            "--every",
            "20ms",
        ),
        *("--alert", f"steps_score < 0.5 over {window}", "--alert", f"error_rate < 0.5 over {window}"),
    )
    process = start(*command)
    end = monotonic() + DEADLINE_SECONDS
    while not told.exists() or told.read_bytes().count(b"\n") < 2:
        assert monotonic() < end, "the alerts have not started"
        next_line(process)
        if window == "1s":
            append(folder, response("q1", False))
    kept = folder.path / "results.jsonl.watch"
    until(
        process, lambda: kept.exists() and len(orjson.loads(kept.read_bytes())["alerts"]) == 2, "both alerts"
    )
    process.kill()
    finish(process)
    process = start(*command)
    shown = next_facts(process, lambda facts: facts["journal"] and facts["alerts"])
    if window == "2":
        assert [alert["samples"] for alert in shown["alerts"]] == [2, 2]

    def states_of(metric: str) -> list[str]:
        return [change["state"] for change in folder.read("told") if change["alert"].startswith(metric)]

    end = monotonic() + DEADLINE_SECONDS
    while "ended" not in states_of("steps_score"):
        assert monotonic() < end, "the alert has not ended"
        append(folder, response("q1"))
        next_line(process)
    process.kill()
    finish(process)
    if window == "2":
        assert (states_of("steps_score"), states_of("error_rate")) == (["started", "ended"], ["started"])
    for metric in ("steps_score", "error_rate"):  # On a busy machine, a second may pass without a response.
        states = states_of(metric)
        assert states == (["started", "ended"] * len(states))[: len(states)]


@pytest.mark.parametrize(
    "text",
    [
        b"[1]",
        b'{"log": []}',
        b'{"alerts": [], "log": [{}]}',
        b'{"alerts": [], "log": 5}',
    ],
)
def test_a_file_that_watch_did_not_keep(
    folder: Folder, capfd: pytest.CaptureFixture[str], text: bytes
) -> None:
    folder.lines(*RESPONSES)
    path = folder.write("results.jsonl.watch", text)
    options = ["-o", folder.file("results.jsonl"), "--resume", "--alert", "steps_score < 1"]
    assert run(*watch(folder, *IDLE, *options)) == 2
    assert f"Error: {path!r} was not written by watch" in capfd.readouterr().err
    assert not (folder.path / "results.jsonl").exists()


def in_window(out: str) -> int:
    return int(facts(out)[-1]["overall"]["samples"]["window"])


def test_a_window_of_time_begins_empty_after_a_restart(
    folder: Folder, capfd: pytest.CaptureFixture[str]
) -> None:
    folder.lines(*RESPONSES)
    journal = ["-o", folder.file("results.jsonl"), "--resume"]
    assert run("evaluate", folder.reference, folder.file("responses.jsonl"), *journal) == 0
    append(folder, response("q2"))
    capfd.readouterr()
    assert run(*watch(folder, *IDLE, *journal, "--window", "10m")) == 0
    assert in_window(capfd.readouterr().out) == 1


def test_no_lines_for_a_while(folder: Folder) -> None:
    folder.lines(*RESPONSES)
    process = start(*watch(folder, "--alert", "no lines for 500ms", "--every", "20ms"))
    silent = next_facts(process, lambda facts: facts["alerts"])
    assert silent["alerts"][0]["alert"] == "no lines for 500ms"
    assert silent["alerts"][0]["value"] >= 0.5
    shown = silent
    while shown["alerts"]:  # A slow process may show nothing before it is on again.
        append(folder, response("q1"))
        shown = next_facts(process, lambda _: True)
    process.send_signal(signal.SIGINT)
    assert "alert ended: no lines for 500ms" in finish(process)[2]


def test_a_reader_that_goes_ends_it(folder: Folder) -> None:
    folder.lines(*RESPONSES)
    process = start(*watch(folder, "--every", "20ms"))
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


def test_slow_readers_delay_nothing(folder: Folder) -> None:
    reader, writer = full_pipe()
    folder.lines(response("q1", False))
    options = ["--every", "1ms", "-o", folder.file("r"), "--alert", "steps_score < 1 over 1"]
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
    process = start(*watch(folder, "--every", "1ms", "-o", folder.file("r")), stdout=writer)
    results = folder.path / "r"
    until(process, lambda: results.exists() and results.read_bytes().endswith(b"\n"), "the first result")
    process.send_signal(signal.SIGINT)
    code, _, err = finish(process)
    assert code == 130
    assert "results: 1" in err
    assert "Error" not in err
    os.close(reader)
    os.close(writer)


def test_invalid_sources_to_follow(
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


def test_blanks_around_a_template_are_ignored(folder: Folder) -> None:
    folder.lines(response("q1", False))
    alert = ["--alert", f" {COLOURS} : steps_score < 0.5 over 1"]
    told = folder.path / "told"
    assert run(*watch(folder, *IDLE, *alert, "--on-alert", f"cat >> {told}")) == 0
    [started] = folder.read("told")
    assert (started["template"], started["value"]) == (COLOURS, 0.0)


def test_a_mistyped_path_is_an_error_at_the_end(folder: Folder, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(*watch(folder, *IDLE, log="respones.jsonl")) == 4
    out, err = capfd.readouterr()
    mistyped = folder.file("respones.jsonl")
    assert [line["not_found"] for line in facts(out)] == [[mistyped]]
    assert f"Error: nothing to watch: {mistyped} never existed; check the path" in err
    folder.lines(*RESPONSES)
    assert run(*watch(folder, mistyped, *IDLE)) == 0
    out, err = capfd.readouterr()
    assert facts(out)[-1]["not_found"] == [mistyped]
    assert f"{mistyped}: never existed" in err


def test_missing_paths_are_shown_until_they_exist(folder: Folder) -> None:
    process = start(*watch(folder, "--every", "20ms"))
    next_facts(process, lambda facts: facts["not_found"] == [folder.file("responses.jsonl")])
    append(folder, *RESPONSES)
    shown = next_facts(process, lambda facts: samples(facts) == len(RESPONSES))
    assert shown["not_found"] == []
    process.send_signal(signal.SIGINT)
    assert finish(process)[0] == 130


USAGE = [
    (["-o", "-"], "standard output shows the view"),
    (["--rejects", "-"], "standard output shows the view"),
    (["--window", "0"], "expected a number, such as 200"),
    (["--every", "soon"], "expected a duration over 0"),
    (["--until-idle", "0"], "expected a duration over 0"),
    (["--start", "middle"], "beginning"),
    (["--show", "best"], "worst"),
    (["--alert", "steps_score"], "expected [TEMPLATE:]METRIC >= VALUE"),
    (["--alert", "step_score < 1"], "no metric 'step_score'; did you mean steps_score?"),
    (
        ["--alert", "colors: steps_score < 1"],
        "no template 'colors' in the reference set; did you mean colours?",
    ),
    (["--fsync", "always"], "--fsync needs --resume"),
    (["--on-alert", "exit 0"], "--on-alert needs --alert"),
    (["-o", "responses.jsonl"], "would be overwritten"),
    (["--resume"], "--resume needs -o FILE"),
    (["-"], "standard input (-) cannot be watched together with files"),
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


def test_logs_that_are_skipped_by_name_and_age(folder: Folder, capfd: pytest.CaptureFixture[str]) -> None:
    os.mkdir(folder.file("logs"))
    for name in ("a", "a.debug", "old"):
        append(folder, RESPONSES[0], name=f"logs/{name}.jsonl")
    os.utime(folder.file("logs/old.jsonl"), (0, 0))
    skip = ("--exclude", "*.debug.jsonl", "--ignore-older", "24h")
    assert run(*watch(folder, *IDLE, *skip, log="logs")) == 0
    assert samples(facts(capfd.readouterr().out)[-1]) == 1


def test_the_limit_on_open_files_is_raised() -> None:
    code = """
import resource
from graphrag_eval_async.cli.watch.command import raise_file_limit
_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
raise_file_limit()
assert resource.getrlimit(resource.RLIMIT_NOFILE) == (65536 if hard == -1 else min(hard, 65536), hard)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=DEADLINE_SECONDS)


def test_spans_that_are_sent_are_watched(folder: Folder) -> None:
    pytest.importorskip("uvicorn")
    pytest.importorskip("starlette")
    folder.write("grid.json", orjson.dumps(TRACED))
    listen = ["--otlp-listen", "127.0.0.1:0", "--every", "50ms", "--grace", "10ms"]
    output = ["-o", folder.file("results.jsonl"), "--web", "127.0.0.1:0"]
    process = start("watch", folder.file("grid.json"), *listen, *output)
    page = told(process, "dashboard: ").split()[-1]
    address = next_facts(process, lambda facts: facts["paths"])["paths"][0]

    def post(*sent: dict[str, Any]) -> None:
        request = urllib.request.Request(  # noqa: S310  (to ourselves)
            address, orjson.dumps(line_of(*sent)), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=DEADLINE_SECONDS) as answer:  # noqa: S310
            assert answer.status == 200

    post(*spans(1))
    shown = next_facts(process, lambda facts: samples(facts) == 1)
    assert shown["overall"]["metrics"]["steps_score"]["mean"] == 1
    assert (shown["lag"], shown["not_found"], shown["late"]) == (None, [], None)
    post(spans(1)[0] | {"spanId": "00000000000000ff"})
    late = next_facts(process, lambda facts: facts["late"])["late"]
    assert (late["spans"], late["trace_ids"]) == (1, [f"{1:032x}"])
    with urllib.request.urlopen(page, timeout=DEADLINE_SECONDS) as answer:  # noqa: S310
        assert f"1 span of 1 trace came after the trace was evaluated: {1:032x}" in answer.read().decode()
    process.send_signal(signal.SIGINT)
    code, _, err = finish(process)
    assert (code, err.count("1 span of 1 trace came after the trace was evaluated")) == (130, 1)
    written = folder.file("results.jsonl.late")
    assert f"Evaluate the whole responses in {written}" in err
    assert run("evaluate", folder.file("grid.json"), written, "-o", folder.file("again.jsonl")) == 0


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ([], "nothing to watch: name logs, or --otlp-listen HOST:PORT"),
        (["--otlp-listen", "localhost"], "expected HOST:PORT, such as 127.0.0.1:8080"),
        (["--otlp-listen", "127.0.0.1:4318", "a.jsonl"], "cannot be combined with"),
        (["--otlp-listen", "127.0.0.1:4318", "--until-idle", "1s"], "cannot be combined with"),
    ],
)
def test_usage_of_listening(
    folder: Folder, capfd: pytest.CaptureFixture[str], options: list[str], complaint: str
) -> None:
    assert run("watch", folder.reference, *options) == 2
    assert complaint in capfd.readouterr().err
