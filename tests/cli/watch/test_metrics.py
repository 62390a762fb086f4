"""`watch --metrics`: a page for Prometheus."""

from __future__ import annotations

import signal
import socket
import urllib.request
from typing import TYPE_CHECKING

import pytest

from graphrag_eval_async.cli.parsing import parse_address
from tests.cli.support import COLOURS, DEADLINE_SECONDS, finish, response, run, start, told
from tests.cli.watch.support import append
from tests.cli.watch.test_watch import IDLE, next_facts, samples, watch
from tests.monitor.test_prometheus import get, parsed

if TYPE_CHECKING:
    from tests.cli.support import Folder
    from tests.monitor.test_prometheus import Values


def scraped(address: str) -> Values:
    with urllib.request.urlopen(address, timeout=DEADLINE_SECONDS) as reply:  # noqa: S310
        return parsed(reply.read().decode())


def test_the_page_is_that_of_the_run_and_ends_with_it(folder: Folder) -> None:
    folder.lines(response("q1"), response("q2", False), b"{")
    options = ["--every", "20ms", "--metrics", ":0", "--alert", "steps_score < 0.7 over 2"]
    process = start(*watch(folder, *options))
    address = told(process, "metrics: ").split()[-1]
    next_facts(process, lambda facts: facts["alerts"])
    found = scraped(address)
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
    found = scraped(address)
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


def test_addresses(folder: Folder, capsys: pytest.CaptureFixture[str]) -> None:
    for text, address in {
        "9464": ("127.0.0.1", 9464),
        ":0": ("127.0.0.1", 0),
        "0.0.0.0:9464": ("0.0.0.0", 9464),  # noqa: S104
        "[::1]:9464": ("::1", 9464),
    }.items():
        assert parse_address(text) == address
    for text in ("", "host", "host:", "host:65536", "host:٣"):
        with pytest.raises(ValueError, match="expected HOST:PORT"):
            parse_address(text)
    assert run("watch", folder.reference, "--web", folder.file("log.jsonl")) == 2
    assert "such as 127.0.0.1:8080; name logs before --web" in " ".join(capsys.readouterr().err.split())
    assert run("watch", folder.reference, "--web", "--format", "nonsense") == 2
    assert "Invalid value for '--format'" in capsys.readouterr().err
