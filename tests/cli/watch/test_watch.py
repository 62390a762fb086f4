"""The command without a terminal."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import urllib.request
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from graphrag_eval_async import compute_aggregates, run_evaluation
from tests.cli.beside import Beside, run_beside
from tests.cli.support import (
    COLOURS,
    DEADLINE_SECONDS,
    ODD,
    REFERENCE,
    finish,
    full_pipe,
    next_line,
    response,
    run,
    start,
    to_jsonl,
    until,
)
from tests.cli.watch.support import append
from tests.support.ports import free_port
from tests.support.prometheus import get, parsed
from tests.support.watching import IDLE, RESPONSES, facts, samples, watch
from tests.traces.otlp import line as line_of
from tests.traces.otlp import spans
from tests.traces.scenario import REFERENCE as TRACED

if TYPE_CHECKING:
    from tests.cli.support import Folder
    from tests.support.prometheus import Values


def test_standard_input_is_watched(folder: Folder) -> None:
    """Each line counts once it is there; what was read before a signal counts, too."""
    process = start("watch", folder.reference, "-", "--every", "20ms", stdin=subprocess.PIPE)
    assert process.stdin is not None
    for count, line in enumerate(RESPONSES, 1):
        process.stdin.write(to_jsonl([line]))
        process.stdin.flush()
        while samples(shown := json.loads(next_line(process, "facts"))) < count:
            pass
        assert (samples(shown), shown["lag"], shown["paths"]) == (count, None, ["-"])
    process.send_signal(signal.SIGINT)
    assert process.wait(DEADLINE_SECONDS) == 130
    _, out, err = finish(process)
    assert samples(facts(out)[-1]) == len(RESPONSES)
    assert "results: 4" in err


def test_a_finished_file_ends_by_itself(folder: Folder, capfd: pytest.CaptureFixture[str]) -> None:
    folder.lines(*RESPONSES)
    assert (
        run(*watch(folder, *IDLE, "-o", folder.file("r"), "--aggregates", folder.file("a.json")))
        == 0
    )
    out, err = capfd.readouterr()
    [last] = facts(out)
    assert (samples(last), last["overall"]["errors"]["total"]) == (4, 1)
    assert list(last["templates"]) == [COLOURS, ODD]
    assert "results: 4, rejected lines: 0, questions without a response: 0 of 3" in err
    expected = asyncio.run(run_evaluation(REFERENCE, RESPONSES, missing="skip"))
    assert orjson.loads((folder.path / "a.json").read_bytes()) == compute_aggregates(
        expected, reference=REFERENCE, detail=True, interval="anytime"
    )
    assert sorted(map(str, folder.read("r"))) == sorted(map(str, expected))


def test_facts_and_metrics_come_while_the_log_grows(folder: Folder) -> None:
    port, alert = free_port(), "steps_score < 0.7 over 2"
    address = f"http://127.0.0.1:{port}/metrics"

    def scraped() -> Values:
        with urllib.request.urlopen(address, timeout=DEADLINE_SECONDS) as reply:
            return parsed(reply.read().decode())

    def drive(beside: Beside) -> None:
        first = beside.facts(lambda facts: facts["not_found"])
        assert (samples(first), first["not_found"]) == (0, [folder.file("responses.jsonl")])
        append(folder, response("q1"), b"{", response("q2", False))
        second = beside.facts(lambda facts: samples(facts) == 2 and facts["alerts"])
        assert (second["window"], second["not_found"]) == ({"seconds": 3600.0}, [])
        assert (second["missing"], second["questions"]) == (1, 3)
        found = scraped()
        assert get(found, "results_total", template=COLOURS, status="success") == 2
        assert get(found, "alert_active", alert=alert) == 1
        assert get(found, "source_lag_bytes") == 0
        append(folder, *[response("q1")] * 5)
        beside.facts(lambda facts: samples(facts) == 7 and not facts["alerts"])
        assert get(scraped(), "alert_active", alert=alert) == 0
        beside.signal(signal.SIGTERM)

    options = ["--every", "20ms", "--window", "1h", "--aggregates", folder.file("a.json")]
    more = ["--metrics", f":{port}", "--alert", alert]
    code, out, err = run_beside(folder.path, drive, *watch(folder, *options, *more))
    assert (code, samples(facts(out)[-1])) == (143, 7)
    assert f"metrics: {address}" in err
    assert "results: 7, rejected lines: 1, questions without a response: 1 of 3" in err
    assert (
        orjson.loads((folder.path / "a.json").read_bytes())["micro"]["number_of_success_samples"]
        == 7
    )


def test_an_address_in_use_is_an_error_at_the_start(
    folder: Folder, capfd: pytest.CaptureFixture[str]
) -> None:
    folder.lines(response("q1"))
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        assert run(*watch(folder, *IDLE, "--metrics", str(port))) == 2
    told = f"cannot serve metrics on 127.0.0.1:{port}: Address already in use"
    assert told in capfd.readouterr().err


def test_directories_and_rejects(folder: Folder, capfd: pytest.CaptureFixture[str]) -> None:
    """Rejects say in which log they stand; logs may be skipped by name and age."""
    os.mkdir(folder.file("logs"))
    for name in ("a", "a.debug", "old"):
        append(folder, RESPONSES[0], b"{", name=f"logs/{name}.jsonl")
    os.utime(folder.file("logs/old.jsonl"), (0, 0))
    options = [
        "--exclude",
        "*.debug.jsonl",
        "--ignore-older",
        "24h",
        "--rejects",
        folder.file("rejects"),
    ]
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


def test_slow_readers_delay_nothing(folder: Folder) -> None:
    """Neither one of facts nor one of messages, of which there are more than a pipe holds."""
    reader, writer = full_pipe()
    messages, told = os.pipe()
    folder.lines(response("q1", False))
    options = ["--every", "1ms", "-o", folder.file("r"), "--alert", "steps_score < 1 over 1"]
    process = start(*watch(folder, *options), stdout=writer, stderr=told)
    os.close(told)
    results = folder.path / "r"
    until(
        process,
        lambda: results.exists() and results.read_bytes().count(b"\n") == 1,
        "the first result",
    )
    append(folder, *[response("q1"), response("q1", False)] * 1000)
    until(process, lambda: results.read_bytes().count(b"\n") == 2001, "2001 results")
    process.send_signal(signal.SIGINT)
    with open(messages) as pipe:
        err = pipe.read()
    assert process.wait(DEADLINE_SECONDS) == 130
    assert "results: 2001" in err
    assert "Error" not in err
    os.close(reader)
    os.close(writer)


def test_a_mistyped_path_is_an_error_at_the_end(
    folder: Folder, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(*watch(folder, *IDLE, log="respones.jsonl")) == 4
    out, err = capfd.readouterr()
    mistyped = folder.file("respones.jsonl")
    assert [line["not_found"] for line in facts(out)] == [[mistyped]]
    assert f"Error: nothing to watch: {mistyped} never existed; check the path" in err


USAGE = {
    "-o -": "standard output shows the view",
    "--alert step_score<1": "no metric 'step_score'; did you mean steps_score?",
    "--web responses.jsonl": "such as 127.0.0.1:8080; name the other arguments before --web",
    "-": "standard input (-) cannot be watched together with files",
    ". -o results.jsonl": "'results.jsonl' is among the files of '.', which are read",
    "--otlp-listen 127.0.0.1:4318": "cannot be combined with logs",
}


def test_usage(
    folder: Folder, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.lines(*RESPONSES)
    monkeypatch.chdir(folder.path)
    usage = {" ".join(watch(folder, *IDLE, option)): told for option, told in USAGE.items()}
    usage[f"watch {folder.reference}"] = "nothing to watch: name logs, or --otlp-listen HOST:PORT"
    for command, complaint in usage.items():
        assert run(*command.split()) == 2
        out, err = capfd.readouterr()
        assert not out
        assert complaint in " ".join(err.split())


def test_spans_that_are_sent_are_watched(folder: Folder, caplog: pytest.LogCaptureFixture) -> None:
    pytest.importorskip("uvicorn")
    pytest.importorskip("starlette")
    folder.write("grid.json", orjson.dumps(TRACED))
    written = folder.file("results.jsonl.late")
    told = "1 span of 1 trace came after the trace was evaluated"

    def drive(beside: Beside) -> None:
        address = beside.facts(lambda facts: facts["paths"])["paths"][0]

        def post(*sent: dict[str, Any]) -> None:
            request = urllib.request.Request(  # noqa: S310  (to ourselves)
                address, orjson.dumps(line_of(*sent)), {"Content-Type": "application/json"}
            )
            with urllib.request.urlopen(request, timeout=DEADLINE_SECONDS) as answer:  # noqa: S310
                assert answer.status == 200

        post(*spans(1))
        shown = beside.facts(lambda facts: samples(facts) == 1)
        assert (shown["overall"]["metrics"]["steps_score"]["mean"], shown["late"]) == (1, None)
        post(spans(1)[0] | {"spanId": "00000000000000ff"})
        late = beside.facts(lambda facts: facts["late"])["late"]
        assert (late["spans"], late["trace_ids"]) == (1, [f"{1:032x}"])
        beside.signal()

    listen = ["--otlp-listen", "127.0.0.1:0", "--every", "50ms", "--grace", "10ms"]
    output = ["-o", folder.file("results.jsonl")]
    assert (
        run_beside(folder.path, drive, "watch", folder.file("grid.json"), *listen, *output)[0]
        == 130
    )
    assert caplog.text.count(told) == 1
    assert f"Evaluate the whole responses in {written}" in caplog.text
    assert run("evaluate", folder.file("grid.json"), written, "-o", folder.file("again.jsonl")) == 0
