"""Every result has `failure` and `steps_score`, wherever it is written."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from pyarrow import parquet

from tests.cli.support import from_jsonl, run, to_jsonl
from tests.execution.support import RIGHT, STEP, WRONG, graph, ran

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

BROKEN = {**STEP, "reference_query": "SELECT ?n { ?s no:such ?n }"}
REFERENCE = [
    {
        "template_id": "t",
        "questions": [
            {"id": "ask", "question_text": "Which?", "reference_steps": [[STEP]]},
            {"id": "broken", "question_text": "Which?", "reference_steps": [[BROKEN]]},
            {"id": "none", "question_text": "Which?"},
        ],
    }
]
RESPONSES: list[dict[str, Any]] = [
    ran(RIGHT, "ask"),
    ran(WRONG, "ask"),
    {"question_id": "ask"},
    {"question_id": "ask", "error": "no"},
    ran(RIGHT, "broken"),
    ran(RIGHT, "none"),
    {"question_id": "none", "error": "no"},
]
EXPECTED: list[tuple[str, int | None, str | None]] = [
    ("ask", 0, "wrong_query_result"),
    ("ask", 1, "none"),
    ("ask", None, "no_steps"),
    ("ask", None, "no_steps"),
    ("broken", None, None),
    ("none", None, None),
    ("none", None, None),
]


def kept(results: Iterable[Mapping[str, Any]]) -> list[tuple[Any, ...]]:
    found = [(result["question_id"], result["steps_score"], result["failure"]) for result in results]
    return sorted(found, key=str)  # Files have them in the order in which they were done.


def test_in_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("jinja2")
    monkeypatch.chdir(tmp_path)
    Path("reference.yaml").write_text(yaml.safe_dump(REFERENCE))
    Path("config.yaml").write_text(yaml.safe_dump(graph(tmp_path)))
    Path("responses.jsonl").write_bytes(to_jsonl(RESPONSES))
    evaluate = ["evaluate", "reference.yaml", "responses.jsonl", "--config", "config.yaml"]
    for options in (["-o", "plain.jsonl"], ["-o", "journal.jsonl", "--resume"]):
        assert run(*evaluate, *options) == 0
        assert kept(from_jsonl(Path(options[1]).read_bytes())) == EXPECTED
    assert run(*evaluate, "-o", "table.csv") == 0
    with open("table.csv", newline="") as file:
        rows = [*csv.DictReader(file)]
    shown = [tuple("" if cell is None else str(cell) for cell in row) for row in EXPECTED]
    assert sorted((q, score[:1], failure) for q, score, failure in kept(rows)) == sorted(shown)
    assert run(*evaluate, "-o", "table.parquet") == 0
    assert kept(parquet.read_table("table.parquet").to_pylist()) == EXPECTED
    capfd.readouterr()
    assert run(*evaluate, "-o", "again.jsonl") == 0
    assert "steps without a score: the queries of 1 result could not be run" in capfd.readouterr().out
    assert run("report", "plain.jsonl", "-o", "report.html") == 0
    page = Path("report.html").read_text()
    message = "invalid_request: reference_steps[0][0]: error at 1:23: a prefix is not declared"
    assert f"the queries of 1 result could not be run; the first: {message}" in page
