"""Every result has `failure` and `steps_score`, also in a table."""

from __future__ import annotations

import csv
import json
from typing import TYPE_CHECKING, Any

import yaml

from tests.cli.support import run, to_jsonl
from tests.execution.support import RIGHT, STEP, WRONG, graph, ran

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

BROKEN = {**STEP, "reference_query": "SELECT ?n { ?s no:such ?n }"}
QUESTIONS = [
    {"id": id_, "question_text": "Which?", **({"reference_steps": [[step]]} if step else {})}
    for id_, step in (("ask", STEP), ("broken", BROKEN), ("none", None))
]
CASES: list[tuple[dict[str, Any], tuple[str, int | None, str | None]]] = [
    (ran(WRONG, "ask"), ("ask", 0, "wrong_query_result")),
    (ran(RIGHT, "ask"), ("ask", 1, "none")),
    ({"question_id": "ask"}, ("ask", None, "no_steps")),
    (ran(RIGHT, "broken"), ("broken", None, None)),
    ({"question_id": "none", "error": "no"}, ("none", None, "agent_error")),
]


def test_in_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "reference.json").write_text(
        json.dumps([{"template_id": "t", "questions": QUESTIONS}])
    )
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(graph(tmp_path)))
    (tmp_path / "responses.jsonl").write_bytes(to_jsonl([response for response, _ in CASES]))
    files = "reference.json", "responses.jsonl", "--config", "config.yaml", "-o", "table.csv"
    assert run("evaluate", *files) == 0
    shown = " ".join(capfd.readouterr().out.split())
    assert "1 not_run (see execution_error in the results)" in shown
    assert "first query that could not be run: broken: " in shown
    with open("table.csv", newline="") as file:
        rows = [{key: cell or None for key, cell in row.items()} for row in csv.DictReader(file)]
    scores = [row["steps_score"] and float(row["steps_score"]) for row in rows]
    kept = [
        (row["question_id"], score, row["failure"]) for row, score in zip(rows, scores, strict=True)
    ]
    assert sorted(kept, key=str) == sorted((expected for _, expected in CASES), key=str)
