"""Workers and those who watch, from the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.cli.beside import Beside, run_beside
from tests.cli.support import response, run
from tests.scale.redis.support import fill
from tests.support.redis_server import RedisServer, redis_server

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
    server: RedisServer, folder: Folder, capfd: pytest.CaptureFixture[str]
) -> None:
    fill(server, [*responses(60), b"{"])
    stream = f"{server.url}/responses?group=eval"
    kept = f"{server.url}/out"
    assert run("evaluate", folder.reference, f"{stream}&drain=yes", "-o", kept) == 3
    told = capfd.readouterr()
    assert "results: 60, rejected lines: 1" in told.out
    assert f"all are in {server.url}/0/out" in told.out
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
    assert run("aggregate", f"{server.url}/outs") == 4
    assert "no " in capfd.readouterr().err
    assert shown[0] == shown[1]
    # Without numbers of samples, nothing holds at any time.
    assert without_confidence(shown[0]) == without_confidence(shown[2])
    capfd.readouterr()

    def drive(beside: Beside) -> None:
        facts = beside.facts(lambda facts: facts["overall"]["samples"]["total"] == 60)
        assert facts["backlog"] == {"unread": 0, "in_work": 0, "lost": 0, "workers": 0}
        assert facts["rejects"] == {"invalid_json": 1}
        beside.signal()

    watching = ["watch", stream, "--every", "200ms", "-o", folder.file("seen.jsonl")]
    assert run_beside(folder.path, drive, *watching)[0] == 130
    assert len(Path(folder.file("seen.jsonl")).read_bytes().splitlines()) == 60
