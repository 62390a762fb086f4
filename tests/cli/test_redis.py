"""Workers and those who watch, from the command line."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from tests.cli.support import finish, next_line, response, run, start
from tests.redis_server import RedisServer, redis_server
from tests.scale.redis.support import client, fill

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cli.support import Folder


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    data = tmp_path / "data"
    data.mkdir()
    with redis_server(data) as running:
        yield running


def responses(count: int) -> list[Any]:
    return [response(f"q{1 + number % 3}", elapsed_sec=number / 7) for number in range(count)]


def without_confidence(facts: Any) -> Any:
    if not isinstance(facts, dict):
        return facts
    return {key: without_confidence(value) for key, value in facts.items() if key != "confidence"}


def test_evaluate_aggregate_and_watch(
    server: RedisServer,
    folder: Folder,
    capfd: pytest.CaptureFixture[str],
) -> None:
    fill(server, [*responses(60), b"{"])
    stream = f"{server.url}/responses?group=eval"
    kept = f"{server.url}/out"
    assert run("evaluate", folder.reference, f"{stream}&drain=yes", "-o", kept) == 3
    told = capfd.readouterr()
    assert "results: 60, rejected lines: 1" in told.out
    assert f"all are in {server.url}/0/out" in told.out
    assert "entry" in told.err
    log = folder.lines(*responses(60))
    assert run("evaluate", folder.reference, log, "-o", folder.file("one.jsonl")) == 0
    shown = []
    for source in (kept, stream, folder.file("one.jsonl")):
        capfd.readouterr()
        found = folder.file("found.json")
        given = ("--reference", folder.reference, "--aggregates", found)
        assert run("aggregate", source, *given) == 0
        shown.append(json.loads(Path(found).read_text()))
        page = capfd.readouterr().out
        assert "questions without a response: 0 of" in page
        if source == stream:
            assert "rejected: 1 (1 invalid_json), lost: 0, in work: 0, waiting: 0" in " ".join(page.split())
            assert "rejected lines" not in page
    for typo in (f"{server.url}/responses?group=evil", f"{server.url}/outs"):
        assert run("aggregate", typo) == 4
        assert "no " in capfd.readouterr().err
    assert shown[0] == shown[1]
    # Without numbers of samples, nothing holds at any time.
    assert without_confidence(shown[0]) == without_confidence(shown[2])
    capfd.readouterr()

    watching = start("watch", stream, "--every", "200ms", "-o", folder.file("seen.jsonl"))
    facts = orjson.loads(next_line(watching))
    while facts["overall"]["samples"]["total"] < 60:
        facts = orjson.loads(next_line(watching))
    assert facts["backlog"] == {"unread": 0, "in_work": 0, "lost": 0, "workers": 0}
    assert facts["rejects"] == {"invalid_json": 1}
    fill(server, responses(3))
    assert run("evaluate", folder.reference, f"{stream}&drain=yes", "-o", kept) == 0
    while facts["overall"]["samples"]["total"] < 63:
        facts = orjson.loads(next_line(watching))
    watching.send_signal(signal.SIGINT)
    assert finish(watching)[0] == 130
    assert len(Path(folder.file("seen.jsonl")).read_bytes().splitlines()) == 63


def test_a_worker_that_is_asked_to_stop_finishes_what_it_has(server: RedisServer, folder: Folder) -> None:
    fill(server, responses(40))
    lines = folder.file("own.jsonl")
    worker = start("evaluate", folder.reference, f"{server.url}/responses?group=eval", "-o", lines)
    with client(server) as at:
        while at.hget("{responses}:eval:counts", "results") != b"40":
            assert worker.poll() is None
    worker.send_signal(signal.SIGTERM)
    code, out, _ = finish(worker)
    assert code == 143
    assert "results: 40" in out
    assert len(Path(lines).read_bytes().splitlines()) == 40
    with client(server) as at:
        assert at.xinfo_consumers("responses", "eval") == []


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (("evaluate", "REFERENCE", "STREAM", "--shuffle", "1"), "--shuffle cannot be combined"),
        (("evaluate", "REFERENCE", "STREAM", "--until", "steps_score > 0"), "--until cannot be combined"),
        (("evaluate", "REFERENCE", "STREAM", "--resume", "-o", "x"), "--resume cannot be combined"),
        (("evaluate", "REFERENCE", "STREAM", "-o", "x.csv"), "-o TABLE cannot be combined"),
        (("evaluate", "REFERENCE", "STREAM", "-o", "redis://other/x"), "both must be in one"),
        (("evaluate", "REFERENCE", "STREAM", "-o", "redis://host/s"), "is the stream of responses"),
        (("evaluate", "REFERENCE", "STREAM", "--gate", "missing_rate <= 0"), "a gate of one worker"),
        (("evaluate", "REFERENCE", "LOG", "-o", "redis://other/x"), "is for responses of a Redis server"),
        (("evaluate", "REFERENCE", "redis://:secretword@host/x"), "STREAM?group=GROUP"),
        (("watch", "STREAM", "--until-idle", "3s"), "--until-idle cannot be combined"),
        (("watch", "REFERENCE", "STREAM", "LOG"), "cannot be watched together"),
        (("evaluate", "REFERENCE", "redis://host/s?group=g&password=secretword"), "no option 'password'"),
        (("aggregate", "redis://host/"), "redis://HOST[:PORT]/[DB/]RESULTS"),
    ],
)
def test_what_does_not_go_together(
    given: tuple[str, ...],
    problem: str,
    folder: Folder,
    capfd: pytest.CaptureFixture[str],
) -> None:
    names = {
        "REFERENCE": folder.reference,
        "STREAM": "redis://host/s?group=g",
        "LOG": folder.lines(*responses(1)),
    }
    assert run(*(names.get(one, one) for one in given)) == 2
    told = capfd.readouterr().err
    assert problem in " ".join(told.split())
    assert "secretword" not in told


def test_aggregates_of_another_version(
    server: RedisServer, folder: Folder, capfd: pytest.CaptureFixture[str]
) -> None:
    fill(server, responses(3))
    stream = f"{server.url}/responses?group=eval"
    assert run("evaluate", folder.reference, f"{stream}&drain=yes") == 0
    with client(server) as at:
        [key] = at.keys("*:changes:0")
        change = at.lindex(key, 0)
        at.lset(key, 0, change[:4] + b"\0\2" + change[6:])
    capfd.readouterr()
    assert run("aggregate", stream, "--reference", folder.reference) == 4
    told = " ".join(capfd.readouterr().err.split())
    assert f"{server.url}/0/responses?group=eval: " in told
    assert "another version of the library (format 2, " in told
