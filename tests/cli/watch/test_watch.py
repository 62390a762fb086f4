"""The command without a terminal."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import signal
import subprocess
import urllib.request
from time import monotonic
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from graphrag_eval_async import compute_aggregates, run_evaluation
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
    process = start(
        *watch(folder, "--every", "20ms", "--window", "1h", "--aggregates", folder.file("a.json"))
    )
    first = next_facts(process, lambda facts: facts["not_found"])
    assert (samples(first), first["not_found"]) == (0, [folder.file("responses.jsonl")])
    soft, hard = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
    assert soft == hard or soft >= 65_536
    append(folder, response("q1"), b"{", response("q2"))
    second = next_facts(process, lambda facts: samples(facts) == 2)
    assert (second["window"], second["not_found"]) == ({"seconds": 3600.0}, [])
    assert second["rejects"] == {"invalid_json": 1}
    assert (second["missing"], second["questions"]) == (1, 3)
    process.send_signal(signal.SIGTERM)
    code, out, err = finish(process)
    assert (code, samples(facts(out)[-1])) == (143, 2)
    assert "results: 2, rejected lines: 1, questions without a response: 1 of 3" in err
    assert orjson.loads((folder.path / "a.json").read_bytes())["micro"]["number_of_success_samples"] == 2


def test_directories_and_rejects(folder: Folder, capfd: pytest.CaptureFixture[str]) -> None:
    """Rejects say in which log they stand; logs may be skipped by name and age."""
    os.mkdir(folder.file("logs"))
    for name in ("a", "a.debug", "old"):
        append(folder, RESPONSES[0], b"{", name=f"logs/{name}.jsonl")
    os.utime(folder.file("logs/old.jsonl"), (0, 0))
    options = ["--exclude", "*.debug.jsonl", "--ignore-older", "24h", "--rejects", folder.file("rejects")]
    assert run(*watch(folder, *IDLE, *options, log="logs")) == 3
    assert samples(facts(capfd.readouterr().out)[-1]) == 1
    assert [reject["file"] for reject in folder.read("rejects")] == [folder.file("logs/a.jsonl")]


def test_the_journal_restores_the_view_but_windows_of_time(
    folder: Folder, capfd: pytest.CaptureFixture[str]
) -> None:
    folder.lines(*RESPONSES)
    journal = ["-o", folder.file("results.jsonl"), "--resume"]
    for window, recent in (("200", 4), ("200", 5), ("10m", 1)):
        assert run(*watch(folder, *IDLE, *journal, "--window", window)) == 0
        out, err = capfd.readouterr()
        last = facts(out)[-1]
        assert last["overall"]["samples"]["window"] == recent
        assert len(last["results"]) == samples(last) == len(folder.read("results.jsonl"))
        append(folder, response("q2"))
    assert (samples(last), last["journal"]) == (6, {"restored": 5})
    assert "5 results and 0 rejects from before" in err


def test_alerts_run_a_command_and_outlive_a_kill(folder: Folder) -> None:
    """One that is still on is not told a second time."""
    folder.lines(*[response("q1", False)] * 4)
    told, kept = folder.path / "told", folder.path / "results.jsonl.watch"
    alert = f"{COLOURS}: steps_score < 0.5 over 2"
    command = watch(
        folder,
        *("-o", folder.file("results.jsonl"), "--resume", "--on-alert", f"cat >> {told}", "--every", "20ms"),
        *("--alert", alert, "--alert", "error_rate < 0.5 over 2"),
    )
    process = start(*command)
    [first, _] = next_facts(process, lambda facts: len(facts["alerts"]) == 2)["alerts"]
    assert (first["template"], first["value"], first["samples"]) == (COLOURS, 0.0, 2)
    until(process, lambda: told.exists() and told.read_bytes().count(b"\n") == 2, "the commands")
    until(
        process, lambda: kept.exists() and len(orjson.loads(kept.read_bytes())["alerts"]) == 2, "both alerts"
    )
    process.kill()
    finish(process)
    process = start(*command)
    assert len(next_facts(process, lambda facts: facts["journal"] and facts["alerts"])["alerts"]) == 2
    append(folder, *[response("q1")] * 4)
    until(process, lambda: told.read_bytes().count(b"\n") == 3, "the end of the alert")
    process.send_signal(signal.SIGINT)
    code, _, err = finish(process)
    assert code == 130
    states = [(change["alert"], change["state"], change["value"]) for change in folder.read("told")]
    assert min(states[:2]) == (alert, "started", 0.0)
    assert states[2:] == [(alert, "ended", 1.0)]
    assert f"alert ended: {alert}: 1" in err
    assert "alert started" not in err


@pytest.mark.parametrize(
    "text", [b"[1]", b'{"log": []}', b'{"alerts": [], "log": [{}]}', b'{"alerts": [], "log": 5}']
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


def test_slow_readers_delay_nothing(folder: Folder) -> None:
    reader, writer = full_pipe()
    folder.lines(response("q1", False))
    options = ["--every", "1ms", "-o", folder.file("r"), "--alert", "steps_score < 1 over 1"]
    process = start(*watch(folder, *options), stdout=writer)
    results = folder.path / "r"
    until(process, lambda: results.exists() and results.read_bytes().count(b"\n") == 1, "the first result")
    append(folder, *[response("q1"), response("q1", False)] * 1000)
    until(process, lambda: results.read_bytes().count(b"\n") == 2001, "2001 results")
    process.send_signal(signal.SIGINT)
    code, _, err = finish(process)
    assert code == 130
    assert "results: 2001" in err
    assert "Error" not in err
    os.close(reader)
    os.close(writer)


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


USAGE = {
    "-o -": "standard output shows the view",
    "--until-idle 0": "expected a duration over 0",
    "--alert step_score<1": "no metric 'step_score'; did you mean steps_score?",
    "--alert colors:steps_score<1": "no template 'colors' in the reference set; did you mean colours?",
    "--on-alert true": "--on-alert needs --alert",
    "-": "standard input (-) cannot be watched together with files",
    ". -o results.jsonl": "'results.jsonl' is among the files of '.', which are read",
    "--otlp-listen 127.0.0.1:4318": "cannot be combined with logs",
    "redis://localhost/s?group=g": "cannot be watched together with others",
}


def test_usage(folder: Folder, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    folder.lines(*RESPONSES)
    monkeypatch.chdir(folder.path)
    usage = {" ".join(watch(folder, *IDLE, option)): told for option, told in USAGE.items()}
    usage[f"watch {folder.reference} - --start end"] = "--start is for files"
    usage[f"watch {folder.reference}"] = "nothing to watch: name logs, or --otlp-listen HOST:PORT"
    for command, complaint in usage.items():
        assert run(*command.split()) == 2
        out, err = capfd.readouterr()
        assert not out
        assert complaint in " ".join(err.split())


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
