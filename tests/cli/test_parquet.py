"""Parquet files: results are read from them, responses are not."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pandas
import pyarrow
import pytest
from pyarrow import parquet

from graphrag_eval_async import (
    AggregationError,
    SourceError,
    UsageError,
    compare,
    follow_jsonl,
    read_jsonl,
    run_evaluation_sync,
)
from tests.cli.support import REFERENCE, Folder, failed, response, run

if TYPE_CHECKING:
    from pathlib import Path

RESPONSES = [response("q1"), response("q2", False), failed("q3")] * 50


def write_results(folder: Folder) -> tuple[str, str]:
    """Evaluate responses; return the paths of the results as JSON lines and as Parquet."""
    lines, table = folder.file("results.jsonl"), folder.file("results.parquet")
    for path in (lines, table):
        assert run("evaluate", folder.reference, folder.lines(*RESPONSES), "-o", path) == 0
    return lines, table


def test_results_are_those_of_json_lines(folder: Folder, capfd: pytest.CaptureFixture[str]) -> None:
    lines, table = write_results(folder)
    (folder.path / "parts").mkdir()
    (folder.path / "parts" / "part.parquet").write_bytes(
        (folder.path / "results.parquet").read_bytes()
    )
    parts = str(folder.path / "parts")
    printed = []
    for path in (lines, table, parts, f"{parts}/*.parquet"):
        capfd.readouterr()
        assert run("aggregate", path, "--aggregates", folder.file("a.json")) == 0
        printed.append(((folder.path / "a.json").read_bytes(), capfd.readouterr().out))
    assert printed == [printed[0]] * 4
    assert run("compare", lines, table) == 0
    assert "compared: 3 questions in both runs" in capfd.readouterr().out
    assert compare(lines, table)["overall"] == compare(lines, lines)["overall"]


def test_rows_and_files_that_are_no_results(
    folder: Folder, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, table = write_results(folder)
    rows = parquet.read_table(table).to_pylist()
    rows[100]["template_id"] = None
    parquet.write_table(pyarrow.Table.from_pylist(rows), table)
    assert run("aggregate", table, "--rejects", folder.file("rejects")) == 3
    (rejected,) = folder.read("rejects")
    assert (rejected["file"], rejected["line"], rejected["offset"]) == (table, 101, 100)
    with pytest.raises(AggregationError, match=r"results\.parquet: line 101"):
        compare(table, table)
    (folder.path / "results.parquet").write_bytes(b"PAR1 and no more")
    capfd.readouterr()
    assert run("aggregate", table) == 4
    assert "results.parquet: cannot be read as Parquet: " in " ".join(
        capfd.readouterr().err.split()
    )
    with pytest.raises(SourceError, match=r"results\.parquet: cannot be read as Parquet: "):
        compare(table, table)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UsageError, match="needs the extra table; "):
        compare(table, table)


def with_args(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return responses with arguments of steps, since Parquet has no empty structs."""
    changed = []
    for row in rows:
        steps = [{**one, "args": {"numbers": [1, 2]}} for one in row.get("actual_steps", [])]
        changed.append({**row, "actual_steps": steps} if steps else row)
    return changed


@pytest.mark.parametrize("name", ["responses.parquet", "responses.pq"])
def test_responses_are_refused(
    folder: Folder, capfd: pytest.CaptureFixture[str], name: str
) -> None:
    path = folder.file(name)
    pandas.DataFrame(with_args(RESPONSES)).to_parquet(path)
    told = (
        r"\.parquet is gone; read responses with pandas and pass the DataFrame to evaluate_stream"
    )
    inputs: list[Any] = [path, str(folder.path)] if name.endswith("t") else [path]
    for each_input in inputs:
        with pytest.raises(UsageError, match=f"{name}: {told}"):
            run_evaluation_sync(REFERENCE, each_input)
    for read in (read_jsonl, follow_jsonl):
        with pytest.raises(UsageError, match=told):
            read(path)
    output = folder.path / "output.jsonl"
    output.write_text("kept\n")
    for command in ("evaluate", "evaluate --jobs 2", "validate", "watch"):
        options = [] if command == "validate" else ["-o", str(output)]
        assert run(*command.split(), folder.reference, path, *options) in {2, 4}
        assert "or convert them to JSON lines: frame.to_json(" in " ".join(
            capfd.readouterr().err.split()
        )
    assert output.read_text() == "kept\n"


def test_what_the_error_says_works(tmp_path: Path) -> None:
    path, lines = tmp_path / "responses.parquet", tmp_path / "responses.jsonl"
    rows = with_args(RESPONSES[:3])
    parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    frame = pandas.read_parquet(path)
    frame.to_json(lines, orient="records", lines=True)
    expected = [result.get("steps_score") for result in run_evaluation_sync(REFERENCE, rows)]
    for source in (frame, lines):
        results = run_evaluation_sync(REFERENCE, source)
        assert [result.get("steps_score") for result in results] == expected
