"""What is kept and said of a line that cannot be evaluated."""

from __future__ import annotations

import hashlib
from typing import get_args

import pytest

from graphrag_eval_async.records import (
    Line,
    LongLine,
    Reason,
    Reject,
    Rejects,
    Unwritable,
    read_record,
)
from graphrag_eval_async.records.line import FileId
from graphrag_eval_async.records.reject import KEPT_REJECTS

FILE = FileId("logs/a.jsonl", "1:2")


def read(line: Line | LongLine | Unwritable) -> Reject:
    found = read_record(line, {"q": None})
    assert isinstance(found, Reject)
    assert len(found.message) < 1000
    assert found.described().isprintable()
    return found


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        pytest.param(b"\xff", "invalid_utf8", id="not UTF-8"),
        pytest.param(b"{}", "missing_question_id", id="no question"),
        pytest.param(
            b'{"question_id":"q\\u0000\\u001b[2J"}', "unknown_question_id", id="control characters"
        ),
        pytest.param(
            b'{"question_id":"' + b"x" * 100_000 + b'"}',
            "unknown_question_id",
            id="long question id",
        ),
        pytest.param(
            b'{"question_id":"q","status":"' + b"x" * 100_000 + b'"}',
            "invalid_field",
            id="long status",
        ),
    ],
)
def test_a_reject_shows_place_reason_and_message(data: bytes, reason: str) -> None:
    found = read(Line(5, 70, data, FILE))
    assert (found.path, found.line, found.offset, found.reason) == ("logs/a.jsonl", 5, 70, reason)
    assert (found.head, found.length, found.content) == (data[: len(found.head)], len(data), data)
    assert len(found.head) >= min(len(data), 200)
    assert found.sha256 == hashlib.sha256(data).hexdigest()
    assert f"line 5 (byte 70): {reason}: {found.message}" in str(found)
    assert reason in get_args(Reason)


def test_long_lines_and_unwritable_objects() -> None:
    found = read(LongLine(2, 9, b"ab", 3, 2, "digest"))
    assert found == Reject(2, 9, "too_long", found.message, b"ab", 3, "digest")
    assert found.content is None
    assert (
        found.message
        == "3 bytes, more than 2; shorten the line, for example the outputs of its steps"
    )
    found = read(Unwritable(3, 4, b"{1}", "too_deep", "why"))
    assert found == Reject(3, 4, "too_deep", "why", b"{1}", 3, hashlib.sha256(b"{1}").hexdigest())


def test_rejects_over_the_limit_are_still_counted() -> None:
    rejects = Rejects()
    assert not rejects
    missing = read(Line(1, 0, b"{}"))
    for _ in range(KEPT_REJECTS + 2):
        rejects.add(missing)
    assert len(rejects) == len(rejects[:]) == len(list(rejects)) == KEPT_REJECTS
    rejects.add(read(Line(1, 0, b"[")), keep=False)
    assert rejects.counts == {"missing_question_id": KEPT_REJECTS + 2, "invalid_json": 1}
    assert rejects.total == KEPT_REJECTS + 3
    assert rejects[0] == missing
    assert rejects[0].content is None
    assert f"{KEPT_REJECTS + 3} in total, {KEPT_REJECTS} kept" in repr(rejects)
