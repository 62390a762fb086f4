"""``evaluate --shard``, and ``aggregate`` of what shards leave."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow
import pytest
from pyarrow import parquet

from tests.cli.support import response, run
from tests.sources.served import serving

if TYPE_CHECKING:
    from tests.cli.support import Folder


def evaluated(folder: Folder, log: str, shard: str, *more: str) -> tuple[int, list[dict[str, Any]]]:
    out = folder.file(f"shard-{shard[0]}.jsonl")
    code = run("evaluate", folder.reference, log, "--shard", shard, "-o", out, *more)
    return code, [orjson.loads(line) for line in Path(out).read_bytes().splitlines()]


def test_a_shard_resumes_and_no_other_does(folder: Folder, capfd: pytest.CaptureFixture[str]) -> None:
    log = folder.lines(*(response(f"q{1 + i % 3}", input_tokens=i) for i in range(50)))
    code, first = evaluated(folder, log, "0/2", "--resume")
    assert (code, len(first) > 20) == (0, True)
    assert "without a response" not in capfd.readouterr().out
    out = Path(folder.file("shard-0.jsonl"))
    lines = out.read_bytes().splitlines(keepends=True)
    out.write_bytes(b"".join(lines[:10]))
    code, again = evaluated(folder, log, "0/2", "--resume")
    assert (code, sorted(map(str, again))) == (0, sorted(map(str, first)))
    assert "10 results and 0 rejects from before" in capfd.readouterr().out
    assert run("evaluate", folder.reference, log, "--shard", "1/2", "-o", str(out), "--resume") == 2
    assert "was started with another shard (0/2, now 1/2)" in capfd.readouterr().err


def test_aggregates_of_shards_are_merged(folder: Folder, capfd: pytest.CaptureFixture[str]) -> None:
    log = folder.lines(*(response(f"q{1 + i % 3}", elapsed_sec=i / 7) for i in range(100)), b"{")
    for index in range(3):
        state = folder.file(f"{index}.aggregates")
        code, _ = evaluated(folder, log, f"{index}/3", "--aggregates", state, "--jobs", "2")
        assert code == (3 if index == 2 else 0)
    shown = []
    for inputs in (
        [folder.file(f"{index}.aggregates") for index in range(3)],
        [folder.file(f"shard-{index}.jsonl") for index in range(3)],
        [folder.file("0.aggregates"), folder.file("shard-1.jsonl"), folder.file("2.aggregates")],
    ):
        assert run("aggregate", *inputs, "--aggregates", folder.file("all.json")) == 0
        shown.append(json.loads(Path(folder.file("all.json")).read_text()))
    assert shown[0] == shown[1] == shown[2]
    assert shown[0]["micro"]["number_of_success_samples"] == 100
    Path(folder.file("0.aggregates")).write_bytes(b"x")
    assert run("aggregate", folder.file("0.aggregates")) == 2
    assert "0.aggregates: " in capfd.readouterr().err
    assert run("evaluate", folder.reference, folder.lines(), "--aggregates", "a.txt") == 2
    assert "expected a name that ends in .yaml, .yml, .json, .aggregates" in capfd.readouterr().err


@pytest.mark.parametrize(
    "options",
    [["--until", "steps_score >= 0"], ["--shuffle", "1"], ["--stages"], ["--gate", "missing_rate <= 0"]],
)
def test_what_needs_all_responses(
    folder: Folder, options: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    log = folder.lines({"question_id": "q1"})
    assert run("evaluate", folder.reference, log, "--shard", "0/2", *options, "-o", folder.file("o")) == 2
    assert "--shard" in capfd.readouterr().err


def test_standard_input_has_no_shards(folder: Folder, capfd: pytest.CaptureFixture[str]) -> None:
    assert run("evaluate", folder.reference, "-", "--shard", "0/2") == 2
    out, err = capfd.readouterr()
    assert (out, err.strip()) == ("", "Error: --shard needs files; standard input has no shards")


def test_a_parquet_file_resumes(folder: Folder, capfd: pytest.CaptureFixture[str]) -> None:
    log = folder.file("log.parquet")
    rows = [{"question_id": f"q{1 + i % 3}", "elapsed_sec": i / 7} for i in range(100)]
    parquet.write_table(pyarrow.Table.from_pylist(rows), log, row_group_size=10)
    code, first = evaluated(folder, log, "0/2", "--resume")
    assert (code, len(first) > 20) == (0, True)
    assert [result["source"]["offset"] for result in first] == list(range(len(first)))
    out = Path(folder.file("shard-0.jsonl"))
    out.write_bytes(b"".join(out.read_bytes().splitlines(keepends=True)[:10]))
    assert evaluated(folder, log, "0/2", "--resume") == (0, first)
    assert "10 results and 0 rejects from before" in capfd.readouterr().out
    assert run("evaluate", folder.reference, log, "--jobs", "2", "-o", folder.file("all.parquet")) == 0
    assert "cannot be split: it is a Parquet file" in capfd.readouterr().err
    assert parquet.read_metadata(folder.file("all.parquet")).num_rows == 100


def test_responses_at_an_address(folder: Folder, capfd: pytest.CaptureFixture[str]) -> None:
    lines = [response(f"q{1 + i % 3}", elapsed_sec=i / 7) for i in range(60)]
    with serving(b"".join(orjson.dumps(line) + b"\n" for line in lines)) as served:
        parts = [evaluated(folder, served.address + "?key=secret", f"{index}/2")[1] for index in (0, 1)]
        assert [each["elapsed_sec"] for part in parts for each in part] == [i / 7 for i in range(60)]
        served.status = 403
        code, _ = evaluated(folder, served.address + "?key=secret", "0/2")
    shown = capfd.readouterr()
    assert (code, f"{served.address}: access was refused" in shown.err) == (4, True)
    assert "secret" not in shown.err + shown.out + Path(folder.file("shard-1.jsonl")).read_text()
