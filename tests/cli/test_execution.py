"""Queries that the configuration says to run, on the command line."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import yaml

from tests.cli.support import from_jsonl, run, to_jsonl
from tests.execution.support import RIGHT, TURTLE, WRONG, ran, templates

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def prepare(folder: Path, execute: dict[str, object]) -> list[str]:
    (folder / "data.ttl").write_text(TURTLE)
    (folder / "reference.yaml").write_text(yaml.safe_dump(templates()))
    (folder / "config.yaml").write_text(yaml.safe_dump({"execute": execute}))
    (folder / "responses.jsonl").write_bytes(to_jsonl([ran(RIGHT), ran(WRONG), ran("SELECT {")]))
    return ["reference.yaml", "responses.jsonl", "--config", "config.yaml", "-o", "results.jsonl"]


def test_queries_are_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = prepare(tmp_path, {"graph": "data.ttl"})
    for jobs in ("1", "3"):
        assert run("evaluate", *arguments, "--jobs", jobs) == 0
        results = from_jsonl((tmp_path / "results.jsonl").read_bytes())
        assert sorted(result["failure"] for result in results) == [
            "none",
            "query_invalid",
            "wrong_query_result",
        ]
        (tmp_path / "results.jsonl").unlink()


def test_an_endpoint_that_is_down_fails_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/sparql"
        arguments = prepare(tmp_path, {"endpoint": url})
        assert run("evaluate", *arguments) == 4
    error = capsys.readouterr().err
    assert f"execute.endpoint: {url}: it cannot be reached: ConnectError" in error
    assert "Traceback" not in error
