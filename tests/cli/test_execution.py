"""Queries that the configuration says to run, on the command line."""

from __future__ import annotations

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
    assert run("evaluate", *arguments, "--jobs", "3") == 0
    results = from_jsonl((tmp_path / "results.jsonl").read_bytes())
    reasons = ["none", "query_invalid", "wrong_query_result"]
    assert sorted(result["failure"] for result in results) == reasons
