from __future__ import annotations

import hashlib
from typing import get_args

import pytest

from graphrag_eval_async.records import Line, LongLine, Reason, Reject, Rejects, Unwritable, read_record
from graphrag_eval_async.records import reject as module
from graphrag_eval_async.records.line import FileId
from tests.support.cases import each

KNOWN = {"q": None}


def read(data: bytes) -> Reject:
    found = read_record(Line(5, 70, data), KNOWN)
    assert isinstance(found, Reject)
    return found


@each(
    ("data", "reason"),
    [
        (b"\xff", "invalid_utf8"),
        (b"{", "invalid_json"),
        (b"[]", "not_an_object"),
        (b"{}", "missing_question_id"),
        (b'{"question_id":"x"}', "unknown_question_id"),
        (b'{"question_id":"q","status":3}', "invalid_field"),
        (b"[" * 300 + b"]" * 300, "too_deep"),
    ],
)
def test_a_reject_shows_place_reason_and_message(data: bytes, reason: str) -> None:
    found = read(data)
    assert (found.line, found.offset, found.reason) == (5, 70, reason)
    assert (found.head, found.length, found.content) == (data, len(data), data)
    assert found.sha256 == hashlib.sha256(data).hexdigest()
    assert str(found) == f"line 5 (byte 70): {reason}: {found.message}"


def test_a_reject_knows_the_file_of_its_line() -> None:
    file = FileId("logs/a.jsonl", "1:2")
    for line in (Line(1, 0, b"{", file), LongLine(1, 0, b"x", 2, 1, "00", file)):
        found = read_record(line, KNOWN)
        assert isinstance(found, Reject)
        assert found.path == "logs/a.jsonl"
    assert read(b"{").path is None


@pytest.mark.parametrize(
    "data",
    [
        b'{"question_id": "' + b"x" * 100_000 + b'"}',
        b'{"question_id": "q", "status": "' + b"x" * 100_000 + b'"}',
        b'{"question_id": "q\\u0000\\u001b[2J"}',
    ],
)
def test_messages_are_short_and_can_be_written(data: bytes) -> None:
    found = read(data)
    assert len(found.message) < 1000
    assert found.message.encode()
    assert found.described().isprintable()


def test_long_lines_and_unwritable_objects() -> None:
    found = read_record(LongLine(2, 9, b"ab", 3, 2, "digest"), KNOWN)
    assert isinstance(found, Reject)
    assert found == Reject(2, 9, "too_long", found.message, b"ab", 3, "digest")
    assert found.content is None
    assert "max_line_bytes=2" in found.message
    found = read_record(Unwritable(3, 4, b"{1}", "too_deep", "why"), KNOWN)
    assert found == Reject(3, 4, "too_deep", "why", b"{1}", 3, hashlib.sha256(b"{1}").hexdigest())


def test_rejects_over_the_limit_are_still_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEPT_REJECTS", 3)
    rejects = Rejects()
    for _ in range(5):
        rejects.add(read(b"{}"))
    rejects.add(read(b"["), keep=False)
    assert len(rejects) == len(rejects[:]) == len(list(rejects)) == 3
    assert rejects.total == 6
    assert rejects.counts == {"missing_question_id": 5, "invalid_json": 1}
    assert rejects[0] == read(b"{}")
    assert rejects[0].content is None
    assert "6 in total, 3 kept" in repr(rejects)
    assert not Rejects()


def test_the_reasons_are_these() -> None:
    assert " ".join(get_args(Reason)) == (
        "invalid_utf8 invalid_json not_an_object missing_question_id unknown_question_id invalid_field "
        "too_long too_deep incomplete not_a_trace not_a_response not_a_result poison"
    )
