"""Rejects of lines that are not JSON or not UTF-8 say what is there instead, and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from graphrag_eval_async import Evaluator, RejectedResponse, evaluate_stream
from tests.support.data import templates

if TYPE_CHECKING:
    from pathlib import Path

REFERENCE = templates(2)
LINES = (
    '{"question_id": "q0", "actual_answer": "42"}\n{"question_id": "q1", "actual_answer": "東京 '
    'ä"}\n'
)


@pytest.mark.parametrize(
    "number", ["NaN", "Infinity", "-Infinity", "nan", "inf", "-inf", "-nan", "Inf", "infinity"]
)
@pytest.mark.parametrize(
    ("line", "place"),
    [
        ('{"question_id": "q0", "elapsed_sec": NUMBER}', "elapsed_sec: "),
        ('{"question_id": "q0", "elapsed_sec":\t NUMBER , "x": 1}', "elapsed_sec: "),
        ('{"question_id": "NaN", "ä": {"größe": NUMBER}}', "größe: "),
        ('{"question_id": "q0", "embedding": [0.5, NUMBER]}', "embedding: "),
        ('{"question_id": "q0", "embedding": [NUMBER, 1]}', "embedding: "),
        ('{"question_id": "q0", "x": [[1, "a, ]["], [0.5, {"y": 2}, NUMBER]]}', "x: "),
        ('{"question_id": "q0", "x": [{"a": [1]}, NUMBER]}', "x: "),
        ('["", NUMBER]', ""),
        ("NUMBER", ""),
    ],
)
async def test_numbers_that_json_lacks(number: str, line: str, place: str) -> None:
    text = line.replace("NUMBER", number)
    with pytest.raises(RejectedResponse) as caught:
        await Evaluator(REFERENCE).evaluate(text)
    reject = caught.value.reject
    where = f"at character {line.index('NUMBER')}"
    cure = "write null"
    if place and "[" not in line:
        cure += ", or leave the key out"
    assert (reject.reason, reject.message) == (
        "invalid_json",
        f"{place}{number} {where} is not JSON; {cure}",
    )


@pytest.mark.parametrize(
    "text", ['{"a": nano}', '{"a": info}', '{"a": -1e}', '{"a": NaN', "{'a': 1}", "Infinit"]
)
async def test_other_mistakes_are_not_called_numbers(text: str) -> None:
    with pytest.raises(RejectedResponse) as caught:
        await Evaluator(REFERENCE).evaluate(text)
    is_number = "is not JSON; write null" in caught.value.reject.message
    assert is_number == (text == '{"a": NaN')


@pytest.mark.parametrize(
    ("encoding", "name"),
    [
        ("utf-16-le", "UTF-16LE"),
        ("utf-16-be", "UTF-16BE"),
        ("utf-32-le", "UTF-32LE"),
        ("utf-32-be", "UTF-32BE"),
    ],
)
@pytest.mark.parametrize("has_mark", [False, True], ids=["no mark", "mark"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
async def test_every_line_of_a_file_in_another_encoding(
    tmp_path: Path,
    encoding: str,
    name: str,
    newline: str,
    has_mark: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    text = LINES.replace("\n", newline)
    if has_mark:
        text = "\ufeff" + text
    path = tmp_path / "responses.jsonl"
    path.write_bytes(text.encode(encoding))
    async with evaluate_stream(REFERENCE, path) as stream:
        rejects = stream.rejects
        assert [result async for result in stream] == []
    assert len(rejects) == len(LINES.splitlines())
    cure = f"save the file as UTF-8, for example with iconv -f {name} -t UTF-8"
    for reject in rejects:
        assert (reject.reason, reject.message) == ("invalid_utf8", f"{name}, not UTF-8; {cure}")
    assert caplog.text == ""


@pytest.mark.parametrize(
    "data",
    [
        b'{"question_id": "q0", "x": "\xe4\xf6"}',  # Latin-1
        b'{"question_id": "q0", "x": "\x00"}',
        b"\x00" * 100
        + b'{"question_id": "q0"}',  # A log that was truncated while its writer kept its place.
        b"\x00" * 100,
        b"\xff",
    ],
)
async def test_other_bytes_are_not_called_an_encoding(data: bytes) -> None:
    with pytest.raises(RejectedResponse) as caught:
        await Evaluator(REFERENCE).evaluate(data)
    assert "UTF-16" not in caught.value.reject.message
    assert "UTF-32" not in caught.value.reject.message
