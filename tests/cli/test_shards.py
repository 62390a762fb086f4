"""``evaluate --shard``, and ``aggregate`` of what shards leave."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from tests.cli.support import response, run

if TYPE_CHECKING:
    import pytest

    from tests.cli.support import Folder


def evaluated(folder: Folder, log: str, shard: str, *more: str) -> tuple[int, list[dict[str, Any]]]:
    out = folder.file(f"shard-{shard[0]}.jsonl")
    code = run("evaluate", folder.reference, log, "--shard", shard, "-o", out, *more)
    return code, [orjson.loads(line) for line in Path(out).read_bytes().splitlines()]


def test_a_shard_resumes_and_no_other_does(
    folder: Folder, capfd: pytest.CaptureFixture[str]
) -> None:
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


def test_aggregates_of_shards_are_merged(folder: Folder) -> None:
    log = folder.lines(*(response(f"q{1 + i % 3}", elapsed_sec=i / 7) for i in range(100)), b"{")
    for index in range(3):
        state = folder.file(f"{index}.aggregates")
        code, _ = evaluated(folder, log, f"{index}/3", "--aggregates", state, "--jobs", "2")
        assert code == (3 if index == 2 else 0)
    shown = []
    for name in ("{}.aggregates", "shard-{}.jsonl"):
        inputs = [folder.file(name.format(index)) for index in range(3)]
        assert run("aggregate", *inputs, "--aggregates", folder.file("all.json")) == 0
        shown.append(json.loads(Path(folder.file("all.json")).read_text()))
    assert shown[0] == shown[1]
    assert shown[0]["micro"]["number_of_success_samples"] == 100
