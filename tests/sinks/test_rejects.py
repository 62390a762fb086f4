from __future__ import annotations

import base64
import dataclasses
import hashlib
import threading
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag_eval_async import Journal, Reject, UsageError, evaluate_stream
from graphrag_eval_async.sinks import LineFile, RejectWriter
from tests.conftest import answer, templates

if TYPE_CHECKING:
    from pathlib import Path

LONG = b'{"x": "' + "ü".encode() * 250_000 + b'"}'


def make_reject(content: bytes | None, *, message: str = "no good") -> Reject:
    return Reject(3, 40, "invalid_json", message, b"head", 5, "digest", content)


def read(path: Path) -> list[dict[str, Any]]:
    return [orjson.loads(line) for line in path.read_bytes().splitlines()]


def written(path: Path, *rejects: Reject) -> list[dict[str, Any]]:
    with LineFile(path) as lines:
        for reject in rejects:
            RejectWriter(lines)(reject)
    return read(path)


def test_keys(tmp_path: Path) -> None:
    records = written(tmp_path / "r", make_reject(b"{"), make_reject(None))
    common = {
        "line": 3,
        "offset": 40,
        "reason": "invalid_json",
        "message": "no good",
        "length": 5,
        "sha256": "digest",
    }
    assert records == [{**common, "content": "{"}, {**common, "head": "head"}]
    assert list(records[0]) == [*common, "content"]


def test_the_file_that_a_line_came_from(tmp_path: Path) -> None:
    for path, shown in [("logs/a.jsonl", "logs/a.jsonl"), ("shard\udcff", "shard\\udcff")]:
        (record,) = written(tmp_path / "r", dataclasses.replace(make_reject(b"{"), path=path))
        assert next(iter(record.items())) == ("file", shown)


@given(content=st.binary(max_size=40) | st.text(max_size=20).map(str.encode))
def test_content_comes_back_whole(tmp_path: Path, content: bytes) -> None:
    (record,) = written(tmp_path / "r", make_reject(content, message="key \ud800: what"))
    assert record["message"] == "key \\ud800: what"
    assert ("content" in record) != ("content_base64" in record)
    if "content" in record:
        assert record["content"].encode() == content
    else:
        assert base64.b64decode(record["content_base64"], validate=True) == content


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


@pytest.mark.parametrize("data", [b"a\\\n" * 333, b"\xff" * 1000], ids=["text", "binary"])
def test_a_full_file_takes_no_more_content(tmp_path: Path, data: bytes) -> None:
    reject = make_reject(data)
    with LineFile(tmp_path / "whole") as lines:
        RejectWriter(lines)(reject)
        size = lines.length
    for limit, kept in [(2 * size, 2), (2 * size - 1, 1), (size, 1), (size - 1, 0), (0, 0)]:
        with LineFile(tmp_path / "r") as lines:
            for _ in range(3):
                RejectWriter(lines, max_bytes=limit)(reject)
        records = read(tmp_path / "r")
        whole = [bool({"content", "content_base64"} & record.keys()) for record in records]
        assert whole == [index < kept for index in range(3)]
        assert {record["sha256"] for record in records} == {"digest"}


async def test_a_thread_writes_large_rejects(tmp_path: Path) -> None:
    threads: list[threading.Thread] = []

    class Writer(RejectWriter):
        def __call__(self, reject: Reject) -> None:
            threads.append(threading.current_thread())
            super().__call__(reject)

    with LineFile(tmp_path / "rejects") as lines:
        stream = evaluate_stream(templates(), [b"{" + b" " * 200_000], on_reject=Writer(lines))
        assert [result async for result in stream] == []
    assert stream.rejects.total == len(threads) == 1
    assert threading.main_thread() not in threads


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
    wrong: Any
    for wrong in (-1, True, 1.5):
        with pytest.raises(UsageError, match="max_reject_bytes: expected an integer"):
            Journal(tmp_path / "journal", max_reject_bytes=wrong)
