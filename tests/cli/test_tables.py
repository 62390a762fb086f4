"""`evaluate -o results.csv` and `.parquet`."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING

import pytest
from pyarrow import parquet

from tests.cli.support import failed, response, run

if TYPE_CHECKING:
    from tests.cli.support import Folder

RESPONSES = [
    response("q1"),
    response("q2", False, actual_answer="=SUM(A1)"),
    failed("q3"),
    {"question_id": "x"},
]


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_csv(folder: Folder, jobs: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = folder.path / "results.csv"
    lines = folder.lines(*RESPONSES)
    assert run("evaluate", folder.reference, lines, "-o", str(path), "--jobs", jobs, "--ordered") == 3
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["question_id"], row["status"], row["steps_score"]) for row in rows] == [
        ("q1", "success", "1.0"),
        ("q2", "success", "0.0"),
        ("q3", "error", ""),
    ]
    assert rows[1]["actual_answer"] == "'=SUM(A1)"
    assert "samples" in capsys.readouterr().out
    assert {each.name for each in folder.path.iterdir()} == {
        "reference.json",
        "responses.jsonl",
        "results.csv",
    }


def test_parquet_has_whole_results_only(folder: Folder) -> None:
    path = folder.path / "results.parquet"
    code = run("evaluate", folder.reference, folder.lines(*RESPONSES), "-o", str(path), "--stages")
    assert code == 3
    assert sorted(parquet.read_table(path)["question_id"].to_pylist()) == ["q1", "q2", "q3"]
