"""Files of rejects: what each line holds, and how large they grow."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag_eval_async import Journal, Reject, evaluate_stream
from graphrag_eval_async.sinks import LineFile, RejectWriter
from tests.support.data import answer, templates

if TYPE_CHECKING:
    from pathlib import Path

LONG = b'{"x": "' + "ü".encode() * 250_000 + b'"}'


def make_reject(content: bytes | None, **more: Any) -> Reject:
    return dataclasses.replace(
        Reject(3, 40, "invalid_json", "no good", b"head", 5, "digest", content), **more
    )


def read(path: Path) -> list[dict[str, Any]]:
    return [orjson.loads(line) for line in path.read_bytes().splitlines()]


def written(path: Path, *rejects: Reject, **options: Any) -> list[dict[str, Any]]:
    with LineFile(path) as lines:
        for reject in rejects:
            RejectWriter(lines, **options)(reject)
    return read(path)


@given(content=st.binary(max_size=40) | st.text(max_size=20).map(str.encode))
def test_keys_and_content(tmp_path: Path, content: bytes) -> None:
    message = "key \ud800: what"
    rejects = make_reject(content, message=message), make_reject(None, path="shard\udcff")
    first, second = written(tmp_path / "r", *rejects)
    common = {"line": 3, "offset": 40, "reason": "invalid_json", "message": "key \\ud800: what"}
    common |= {"length": 5, "sha256": "digest"}
    key, value = first.popitem()
    assert [*first.items()] == [*common.items()]
    assert key in {"content", "content_base64"}
    assert (value.encode() if key == "content" else base64.b64decode(value, validate=True)) == content
    common["message"] = "no good"
    assert [*second.items()] == [("file", "shard\\udcff"), *common.items(), ("head", "head")]


@pytest.mark.parametrize("way", ["file", "journal"])
async def test_takes_the_rejects_of_a_stream(tmp_path: Path, way: str) -> None:
    lines = [b'{"question_id": "q9"}', LONG, b"[" * 200_000 + b"]" * 1000, b"\xff"]
    path, kept = tmp_path / "responses.jsonl", tmp_path / "rejects"
    path.write_bytes(b"\n".join([*lines, orjson.dumps(answer())]))
    with LineFile(kept) if way == "file" else nullcontext() as rejects:
        stream = evaluate_stream(
            templates(),
            path,
            max_line_bytes=300_000,
            on_reject="collect" if rejects is None else RejectWriter(rejects),
            journal=None if rejects is not None else Journal(tmp_path / "journal", rejects=kept),
        )
        assert [result["question_id"] async for result in stream] == ["q0"]
    records = read(kept)
    assert [record.get("line") or record["source"]["line"] for record in records] == [1, 2, 3, 4]
    for record, line in zip(records, lines, strict=True):
        assert record["length"] == len(line)
        assert record["sha256"] == hashlib.sha256(line).hexdigest()
        if line is LONG:
            assert (record["reason"], record["head"]) == ("too_long", LONG.decode()[:1000])
        else:
            content = record.get("content", "").encode() or base64.b64decode(record["content_base64"])
            assert content == line


def test_a_full_file_takes_no_more_content(tmp_path: Path) -> None:
    reject = make_reject(b"a\\\n" * 333)
    written(tmp_path / "whole", reject)
    size = (tmp_path / "whole").stat().st_size
    for limit, kept in [(2 * size, 2), (2 * size - 1, 1), (size - 1, 0), (0, 0)]:
        found = written(tmp_path / "r", *[reject] * 3, max_bytes=limit)
        assert ["content" in record for record in found] == [index < kept for index in range(3)]


async def test_a_journal_limits_its_rejects(tmp_path: Path) -> None:
    for _ in range(2):  # The second run finds the file of the first.
        journal = Journal(tmp_path / "journal", max_reject_bytes=0)
        stream = evaluate_stream(templates(), [b"{", b"[" * 200_000], journal=journal)
        assert [result async for result in stream] == []
        assert stream.rejects.total == 2
    records = read(tmp_path / "journal.rejects")
    assert [(record["reason"], "content" in record) for record in records] == [
        ("invalid_json", False),
        ("too_deep", False),
    ]
