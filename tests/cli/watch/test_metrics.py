"""`watch --metrics`: a page for Prometheus."""

from __future__ import annotations

import re
import signal
import socket
import urllib.request
from typing import TYPE_CHECKING

import pytest

from graphrag_eval_async.cli.parsing import WEB, parse_address, with_address
from tests.cases import each
from tests.cli.support import COLOURS, DEADLINE_SECONDS, finish, response, run, start, told
from tests.cli.watch.support import append
from tests.cli.watch.test_watch import IDLE, next_facts, samples, watch
from tests.monitor.test_prometheus import get, parsed

if TYPE_CHECKING:
    import subprocess

    from tests.cli.support import Folder
    from tests.monitor.test_prometheus import Values


def said_address(process: subprocess.Popen[bytes]) -> str:
    """The address that it prints."""
    line = told(process, "metrics: ")
    found = re.search(r"metrics: (http://127\.0\.0\.1:\d+/metrics)$", line)
    assert found, line
    return found[1]


def scrape(address: str) -> Values:
    with urllib.request.urlopen(address, timeout=DEADLINE_SECONDS) as reply:  # noqa: S310
        assert reply.headers["content-type"].startswith("text/plain; version=")
        return parsed(reply.read().decode())


def test_the_page_is_that_of_the_run_and_ends_with_it(folder: Folder) -> None:
    folder.lines(response("q1"), response("q2", False), b"{")
    options = ["--every", "20ms", "--metrics", ":0", "--alert", "steps_score < 0.7 over 2"]
    process = start(*watch(folder, *options))
    address = said_address(process)
    next_facts(process, lambda facts: facts["alerts"])
    found = scrape(address)
    assert get(found, "results_total", template=COLOURS, status="success") == 2
    assert get(found, "mean", template=COLOURS, metric="steps_score") == 0.5
    assert get(found, "window_mean", template=COLOURS, metric="steps_score") == 0.5
    assert get(found, "rejects_total", reason="invalid_json") == 1
    assert get(found, "alert_active", alert=options[-1]) == 1
    assert get(found, "source_lag_bytes") == 0
    [info] = [dict(labels) for name, labels in found if name == "info"]
    assert (info["reference"], info["judge_model"]) == ("reference.json", "none")
    append(folder, *[response("q1")] * 5)
    next_facts(process, lambda facts: samples(facts) == 7 and not facts["alerts"])
    found = scrape(address)
    assert get(found, "score_count", metric="steps_score") == 7
    assert get(found, "alert_active", alert=options[-1]) == 0
    # Nobody waits for a client that says nothing.
    port = int(address.rpartition(":")[2].partition("/")[0])
    with socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_SECONDS):
        process.send_signal(signal.SIGTERM)
        code, _, err = finish(process)
    assert code == 143
    assert "Traceback" not in err
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_SECONDS)


def test_an_address_in_use_is_an_error_at_the_start(
    folder: Folder, capfd: pytest.CaptureFixture[str]
) -> None:
    folder.lines(response("q1"))
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        assert run(*watch(folder, *IDLE, "--metrics", str(port), "-o", folder.file("out.jsonl"))) == 2
    out, err = capfd.readouterr()
    assert f"cannot serve metrics on 127.0.0.1:{port}: Address already in use" in err
    assert not out
    assert not (folder.path / "out.jsonl").exists()


def test_a_host_that_is_not_there(folder: Folder, capfd: pytest.CaptureFixture[str]) -> None:
    folder.lines(response("q1"))
    assert run(*watch(folder, *IDLE, "--metrics", "no-such-host.invalid:0")) == 2
    assert "Error: cannot serve metrics on no-such-host.invalid:0: " in capfd.readouterr().err


@each(
    ("text", "address"),
    [
        ("9464", ("127.0.0.1", 9464)),
        (":0", ("127.0.0.1", 0)),
        ("0.0.0.0:9464", ("0.0.0.0", 9464)),  # noqa: S104
        ("[::1]:9464", ("::1", 9464)),
        ("", None),
        ("host", None),
        ("host:", None),
        ("host:65536", None),
        ("host:٣", None),
    ],
)
def test_addresses(text: str, address: tuple[str, int] | None) -> None:
    if address is not None:
        assert parse_address(text) == address
        return
    with pytest.raises(ValueError, match="expected HOST:PORT"):
        parse_address(text)


@each(
    ("given", "filled"),
    [
        (["--web"], ["--web", WEB]),
        (["--web", "logs/", "a.jsonl"], ["--web", WEB, "logs/", "a.jsonl"]),
        (["--web", "--resume"], ["--web", WEB, "--resume"]),
        (["--web", "8081", "logs/"], ["--web", "8081", "logs/"]),
        (["--web", ":0"], ["--web", ":0"]),
        (["--web", "host:x"], ["--web", "host:x"]),
        (["--web", "nonsense"], ["--web", "nonsense"]),
        (["--web", ""], ["--web", ""]),
        (["--web", "0.0.0.0", "logs/"], ["--web", "0.0.0.0", "logs/"]),  # noqa: S104
        (["--web", "http://localhost:80/"], ["--web", "http://localhost:80/"]),
        (["--web", "*.jsonl"], ["--web", WEB, "*.jsonl"]),
        (["--web", "pyproject.toml"], ["--web", WEB, "pyproject.toml"]),
        (["--web", "-"], ["--web", WEB, "-"]),
        (["--web", "redis://host/responses"], ["--web", WEB, "redis://host/responses"]),
        (["--web=[::1]:8080"], ["--web=[::1]:8080"]),
    ],
)
def test_the_address_of_the_page_may_be_left_out(given: list[str], filled: list[str]) -> None:
    assert with_address(given) == filled


@each("word", ["nonsense", "later.jsonl", "localhost"])
def test_a_word_after_web_is_not_taken_as_a_log_that_may_appear(
    folder: Folder, word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("watch", folder.reference, folder.file("log.jsonl"), "--web", word) == 2
    stderr = capsys.readouterr().err
    assert f"'--web': '{word}': expected HOST:PORT, such as 127.0.0.1:8080; name logs that" in stderr
