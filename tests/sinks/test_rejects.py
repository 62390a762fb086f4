from __future__ import annotations

import base64
import dataclasses
import hashlib
import threading
import tracemalloc
from contextlib import nullcontext
from io import BytesIO, RawIOBase
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag_eval_async import Journal, Reject, UsageError, evaluate_stream
from graphrag_eval_async.sinks import LineFile, RejectWriter
from graphrag_eval_async.sinks.rejects import reject_line
from tests.conftest import answer, templates

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def make_reject(content: bytes | BinaryIO | None, *, message: str = "no good") -> Reject:
    return Reject(3, 40, "invalid_json", message, b"", 5, "digest", content)


def written(path: Path, *rejects: Reject) -> list[dict[str, Any]]:
    with LineFile(path) as rejects_file:
        for reject in rejects:
            RejectWriter(rejects_file)(reject)
    text = path.read_bytes()
    assert text.count(b"\n") == len(rejects)
    return [orjson.loads(line) for line in text.splitlines()]


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
    assert records == [{**common, "content": "{"}, common]
    assert list(records[0]) == [*common, "content"]


def test_the_file_that_a_line_came_from(tmp_path: Path) -> None:
    for path, shown in [("logs/a.jsonl", "logs/a.jsonl"), ("shard\udcff", "shard\\udcff")]:
        (record,) = written(tmp_path / "r", dataclasses.replace(make_reject(b"{"), path=path))
        assert next(iter(record.items())) == ("file", shown)


def test_lone_surrogates_in_a_message(tmp_path: Path) -> None:
    (record,) = written(tmp_path / "r", make_reject(b"{", message="key \ud800: what"))
    assert record["message"] == "key \\ud800: what"


@given(content=st.binary(max_size=40) | st.text(max_size=20).map(str.encode), spooled=st.booleans())
def test_content_comes_back_whole(tmp_path: Path, content: bytes, spooled: bool) -> None:
    (record,) = written(tmp_path / "r", make_reject(BytesIO(content) if spooled else content))
    assert ("content" in record) != ("content_base64" in record)
    if "content" in record:
        assert not spooled
        assert record["content"].encode() == content
    else:
        assert base64.b64decode(record["content_base64"], validate=True) == content


class Endless(RawIOBase):
    """A file of so many bytes that are nowhere held."""

    def __init__(self, size: int) -> None:
        self.left = size
        self.digest = hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        size = min(size, self.left)
        self.left -= size
        self.digest.update(bytes(size))
        return bytes(size)


def test_a_long_line_is_never_in_memory(tmp_path: Path) -> None:
    size = 32 * 1024 * 1024 + 1
    content = Endless(size)
    with LineFile(tmp_path / "r") as rejects_file:
        tracemalloc.start()
        RejectWriter(rejects_file)(make_reject(cast(BinaryIO, content)))
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak < 2_000_000
    record = orjson.loads((tmp_path / "r").read_bytes())
    decoded = base64.b64decode(record["content_base64"], validate=True)
    assert hashlib.sha256(decoded).digest() == content.digest.digest()
    assert len(decoded) == size


async def test_takes_the_rejects_of_a_stream(tmp_path: Path) -> None:
    long = b'{"x": "' + b"n" * 500_000 + b'"}'
    lines = [b'{"question_id": "q9"}', long, b"[" * 1000 + b"]" * 1000, b"\xff"]
    path = tmp_path / "responses.jsonl"
    path.write_bytes(b"\n".join([*lines, orjson.dumps(answer())]))
    with LineFile(tmp_path / "rejects") as rejects_file:
        stream = evaluate_stream(
            templates(), path, on_reject=RejectWriter(rejects_file), max_line_bytes=10_000
        )
        assert [result["question_id"] async for result in stream] == ["q0"]
    records = [orjson.loads(line) for line in (tmp_path / "rejects").read_bytes().splitlines()]
    assert [record["line"] for record in records] == [1, 2, 3, 4]
    for record, line in zip(records, lines, strict=True):
        assert record["length"] == len(line)
        assert record["sha256"] == hashlib.sha256(line).hexdigest()
        whole = record.get("content", "").encode() or base64.b64decode(record["content_base64"])
        assert whole == line


def reject_of(content: bytes | BinaryIO, length: int) -> Reject:
    return dataclasses.replace(make_reject(content), length=length)


@pytest.mark.parametrize("form", ["text", "binary", "spooled"])
def test_a_full_file_takes_no_more_content(tmp_path: Path, form: str) -> None:
    data = {"text": b"a\\\n" * 333, "binary": b"\xff" * 1000, "spooled": b"x" * 1000}[form]
    content: Any = BytesIO if form == "spooled" else bytes
    with LineFile(tmp_path / "whole") as lines:
        RejectWriter(lines)(reject_of(content(data), len(data)))
        size = lines.length
    for limit, kept in [(2 * size, 2), (2 * size - 1, 1), (size, 1), (size - 1, 0), (0, 0)]:
        with LineFile(tmp_path / "r") as lines:
            for _ in range(3):
                RejectWriter(lines, max_bytes=limit)(reject_of(content(data), len(data)))
        records = [orjson.loads(line) for line in (tmp_path / "r").read_bytes().splitlines()]
        assert [bool({"content", "content_base64"} & record.keys()) for record in records] == [
            index < kept for index in range(3)
        ]
        assert {record["sha256"] for record in records} == {"digest"}


@pytest.mark.parametrize("way", ["file", "journal"])
@pytest.mark.parametrize("line", [b"{" + b" " * 200_000, b"x" * 400_000])
async def test_threads_write_large_rejects(
    tmp_path: Path, way: str, line: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[threading.Thread] = []

    def observe(*args: Any) -> Iterator[bytes]:
        for piece in reject_line(*args):
            threads.append(threading.current_thread())
            yield piece

    monkeypatch.setattr("graphrag_eval_async.sinks.rejects.reject_line", observe)
    monkeypatch.setattr("graphrag_eval_async.sinks.journal.store.reject_line", observe)
    (tmp_path / "in.jsonl").write_bytes(line + b"\n")
    path = tmp_path / "rejects"
    with LineFile(path) if way == "file" else nullcontext() as lines:
        stream = evaluate_stream(
            templates(),
            tmp_path / "in.jsonl",
            max_line_bytes=300_000,
            on_reject="collect" if lines is None else RejectWriter(lines),
            journal=None if lines is not None else Journal(tmp_path / "journal", rejects=path),
        )
        assert [result async for result in stream] == []
    assert stream.rejects.total == 1
    assert threads
    assert threading.main_thread() not in threads
    record = orjson.loads(path.read_bytes())
    kept = record["content"].encode() if "content" in record else base64.b64decode(record["content_base64"])
    assert kept == line


async def test_a_journal_limits_its_rejects(tmp_path: Path) -> None:
    for _ in range(2):  # The second run finds the file of the first.
        journal = Journal(tmp_path / "journal", max_reject_bytes=0)
        stream = evaluate_stream(templates(), [b"{", b"[" * 200_000], journal=journal)
        assert [result async for result in stream] == []
        assert stream.rejects.total == 2
    records = [orjson.loads(line) for line in (tmp_path / "journal.rejects").read_bytes().splitlines()]
    assert [(record["reason"], "content" in record) for record in records] == [
        ("invalid_json", False),
        ("too_deep", False),
    ]
    wrong: Any
    for wrong in (-1, True, 1.5):
        with pytest.raises(UsageError, match="max_reject_bytes: expected an integer"):
            Journal(tmp_path / "journal", max_reject_bytes=wrong)
