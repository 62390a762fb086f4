"""`watch --on-alert-url`: alerts are posted."""

from __future__ import annotations

import hashlib
import hmac
import signal
from typing import TYPE_CHECKING

from graphrag_eval_async.monitor.webhooks import SECRET, SIGNATURE
from tests.cli.support import COLOURS, finish, response, run, start, until
from tests.cli.watch.support import append
from tests.cli.watch.test_watch import IDLE, next_facts, watch
from tests.monitor.hooks import hook

if TYPE_CHECKING:
    import pytest

    from tests.cli.support import Folder

ALERT = f"{COLOURS}: steps_score < 0.5 over 3"


def test_alerts_are_posted_signed_and_tried_again(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.lines(*[response("q1", False)] * 3)
    with hook(500, 200) as (host, posts), hook(204) as (other, others):
        monkeypatch.setenv("HOOK", f"http://{host}/T0KEN")
        monkeypatch.setenv(SECRET, "s3cret")
        urls = ["--on-alert-url", "${HOOK}", "--on-alert-url", f"http://{other}/"]
        process = start(*watch(folder, "--every", "20ms", "--alert", ALERT, *urls))
        until(process, lambda: len(posts) == 2 and len(others) == 1, "the posts of the start")
        append(folder, *[response("q1")] * 5)
        next_facts(process, lambda facts: not facts["alerts"])
        process.send_signal(signal.SIGINT)
        code, _, err = finish(process)
    assert code == 130
    assert "on-alert-url" not in err
    first, again, ended = posts
    assert first.body == again.body == others[0].body
    assert (again.facts["alert"], again.facts["state"], again.facts["value"]) == (ALERT, "started", 0.0)
    assert (ended.facts["state"], ended.facts["value"]) == ("ended", 1.0)
    for post in (*posts, *others):
        expected = hmac.new(b"s3cret", post.body, hashlib.sha256).hexdigest()
        assert post.headers[SIGNATURE.lower()] == f"sha256={expected}"


def test_a_failure_is_said_without_secrets(folder: Folder, capfd: pytest.CaptureFixture[str]) -> None:
    folder.lines(*[response("q1", False)] * 3)
    with hook(404) as (host, posts):
        url = f"http://us3r:passw0rd@{host}/T0KEN?key=S3CRET"
        assert run(*watch(folder, *IDLE, "--alert", ALERT, "--on-alert-url", url)) == 0
    assert len(posts) == 1
    out, err = capfd.readouterr()
    said = f"--on-alert-url {host} was answered with status 404 (attempt 1 of 5): {ALERT}, started"
    assert said in err.splitlines()
    assert not any(secret in out + err for secret in ("T0KEN", "S3CRET", "us3r", "passw0rd"))
