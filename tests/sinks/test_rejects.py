"""Files of rejects: what each line holds, and how large they grow."""

from __future__ import annotations

import base64
import hashlib
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from graphrag_eval_async import Journal, Reject, evaluate_stream
from graphrag_eval_async.records.line import MAX_LINE_BYTES
from graphrag_eval_async.sinks import LineFile, RejectWriter
from tests.support.data import answer, templates

if TYPE_CHECKING:
    from pathlib import Path

LONG = b'{"x": "' + "ü".encode() * (MAX_LINE_BYTES // 2) + b'"}'
KEYS = ["file", "line", "offset", "reason", "message", "length", "sha256", "content"]


def read(path: Path) -> list[dict[str, Any]]:
    return [orjson.loads(line) for line in path.read_bytes().splitlines()]


@pytest.mark.parametrize("way", ["file", "journal"])
async def test_takes_the_rejects_of_a_stream(tmp_path: Path, way: str) -> None:
    lines = [b'{"question_id": "q9"}', LONG, b"[" * 200_000 + b"]" * 1000, b"\xff"]
    path, kept = tmp_path / "responses\udcff.jsonl", tmp_path / "rejects"  # Not UTF-8, either.
    path.write_bytes(b"\n".join([*lines, orjson.dumps(answer())]))
    with LineFile(kept) if way == "file" else nullcontext() as rejects:
        stream = evaluate_stream(
            templates(),
            path,
            on_reject="collect" if rejects is None else RejectWriter(rejects),
            journal=None if rejects is not None else Journal(tmp_path / "journal", rejects=kept),
        )
        assert [result["question_id"] async for result in stream] == ["q0"]
    records = read(kept)
    assert [record.get("line") or record["source"]["line"] for record in records] == [1, 2, 3, 4]
    if way == "file":
        assert [*records[0]] == KEYS
        assert records[1]["file"] == f"{tmp_path}/responses\\udcff.jsonl"
        assert records[1]["offset"] == len(lines[0]) + 1
    for record, line in zip(records, lines, strict=True):
        assert record["length"] == len(line)
        assert record["sha256"] == hashlib.sha256(line).hexdigest()
        if line is LONG:
            assert (record["reason"], record["head"]) == ("too_long", LONG.decode()[:1000])
        else:
            content = record.get("content", "").encode() or base64.b64decode(
                record["content_base64"]
            )
            assert content == line


def test_a_full_file_takes_no_more_content(tmp_path: Path) -> None:
    reject = Reject(3, 40, "invalid_json", "no good", b"head", 5, "digest", b"a\\\n" * 333)

    def written(limit: int) -> list[bool]:
        with LineFile(tmp_path / "rejects") as lines:
            for _ in range(3):
                RejectWriter(lines, max_bytes=limit)(reject)
        return ["content" in record for record in read(tmp_path / "rejects")]

    assert written(1 << 30) == [True] * 3
    size = (tmp_path / "rejects").stat().st_size // 3
    for limit, kept in [(2 * size, 2), (2 * size - 1, 1), (0, 0)]:
        assert written(limit) == [index < kept for index in range(3)]


async def test_a_journal_limits_its_rejects(tmp_path: Path) -> None:
    for _ in range(2):  # The second run finds the file of the first.
        journal = Journal(tmp_path / "journal", max_reject_bytes=700)
        stream = evaluate_stream(templates(), [b"{", b"{}", b"[" * 200_000], journal=journal)
        assert [result async for result in stream] == []
        assert stream.rejects.total == 3
    records = read(tmp_path / "journal.rejects")
    assert ["content" in record for record in records] == [True, False, False]
