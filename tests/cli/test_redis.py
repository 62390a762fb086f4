"""Workers and those who watch, from the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

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


def test_evaluate_aggregate_and_watch(
    server: RedisServer, folder: Folder, capfd: pytest.CaptureFixture[str]
) -> None:
    responses = [response(f"q{1 + number % 3}", elapsed_sec=number / 7) for number in range(60)]
    fill(server, [*responses, b"{"])
    stream = f"{server.url}/responses?group=eval"
    kept = f"{server.url}/out"
    assert run("evaluate", folder.reference, f"{stream}&drain=yes", "-o", kept) == 3
    assert f"all are in {server.url}/0/out" in capfd.readouterr().out
    shown = []
    for source in (kept, stream):
        found = folder.file("found.json")
        assert run("aggregate", source, "--reference", folder.reference, "--aggregates", found) == 0
        shown.append(json.loads(Path(found).read_text()))
    assert shown[0] == shown[1]
    page = " ".join(capfd.readouterr().out.split())
    assert "rejected: 1 (1 invalid_json), lost: 0, in work: 0, waiting: 0" in page
    assert run("aggregate", f"{server.url}/outs") == 4
    assert "no " in capfd.readouterr().err
    other = folder.write("other.json", Path(folder.reference).read_bytes().replace(b"What of", b"What is"))
    for source, code in ((stream, 2), ("redis://127.0.0.1:1/responses?group=g&max_outage_sec=0.1", 4)):
        assert run("evaluate", other, source, "--gate", "steps_score >= 0") == code
        out, err = capfd.readouterr()
        assert (out, err.startswith("Error: "), err.count("\n")) == ("", True, 1)

    def drive(beside: Beside) -> None:
        facts = beside.facts(lambda facts: facts["overall"]["samples"]["total"] == 60)
        assert facts["backlog"] == {"unread": 0, "in_work": 0, "lost": 0, "workers": 0}
        assert facts["rejects"] == {"invalid_json": 1}
        assert not facts["not_found"]
        beside.signal()

    assert run_beside(folder.path, drive, "watch", stream, "--every", "200ms")[0] == 130

    def drive_mistyped(beside: Beside) -> None:
        facts = beside.facts(lambda facts: facts["not_found"])
        assert facts["not_found"] == [f"{server.url}/0/respnses?group=eval"]
        beside.signal()

    mistyped = f"{server.url}/respnses?group=eval"
    assert run_beside(folder.path, drive_mistyped, "watch", mistyped, "--every", "200ms")[0] == 130
