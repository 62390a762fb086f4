"""Every result has `failure` and `steps_score`, wherever it is written."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from pyarrow import parquet

from tests.cli.support import from_jsonl, run, to_jsonl
from tests.execution.support import RIGHT, STEP, WRONG, graph, ran

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

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
    ({"question_id": "ask", "error": "no"}, ("ask", None, "no_steps")),
    (ran(RIGHT, "broken"), ("broken", None, None)),
    (ran(RIGHT, "none"), ("none", None, None)),
    ({"question_id": "none", "error": "no"}, ("none", None, None)),
]
EXPECTED = [expected for _, expected in CASES]


def kept(results: Iterable[Mapping[str, Any]]) -> list[tuple[Any, ...]]:
    found = [(result["question_id"], result["steps_score"], result["failure"]) for result in results]
    return sorted(found, key=str)  # Files have them in the order in which they were done.


def test_in_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    Path("reference.json").write_text(json.dumps([{"template_id": "t", "questions": QUESTIONS}]))
    Path("config.yaml").write_text(yaml.safe_dump(graph(tmp_path)))
    Path("responses.jsonl").write_bytes(to_jsonl([response for response, _ in CASES]))
    evaluate = ["evaluate", "reference.json", "responses.jsonl", "--config", "config.yaml"]
    for options in (["-o", "journal.jsonl", "--resume"], ["-o", "plain.jsonl"]):
        capfd.readouterr()
        assert run(*evaluate, *options) == 0
        assert kept(from_jsonl(Path(options[1]).read_bytes())) == EXPECTED
    assert "steps without a score: the queries of 1 result could not be run" in capfd.readouterr().out
    assert run(*evaluate, "-o", "table.csv") == 0
    with open("table.csv", newline="") as file:
        rows = [*csv.DictReader(file)]
    shown = [tuple("" if cell is None else str(cell) for cell in row) for row in EXPECTED]
    assert sorted((q, score[:1], failure) for q, score, failure in kept(rows)) == sorted(shown)
    assert run(*evaluate, "-o", "table.parquet") == 0
    assert kept(parquet.read_table("table.parquet").to_pylist()) == EXPECTED
