"""Rejects of lines that are not JSON or not UTF-8 say what is there instead, and what to do."""

from __future__ import annotations

import json
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


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
@pytest.mark.parametrize(
    ("line", "place"),
    [
        ('{"question_id": "q0", "elapsed_sec": NUMBER}', "elapsed_sec: "),
        ('{"question_id": "q0", "elapsed_sec":\t NUMBER , "x": 1}', "elapsed_sec: "),
        ('{"question_id": "NaN", "ä": {"größe": NUMBER}}', "größe: "),
        ('{"question_id": "q0", "embedding": [0.5, NUMBER]}', ""),
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
    cure = "write null, or leave the key out" if place else "write null"
    assert (reject.reason, reject.message) == (
        "invalid_json",
        f"{place}{number} {where} is not JSON; {cure}",
    )
    assert len(json.dumps(json.loads(text))) > 0  # Python's `json` writes and reads them.


@pytest.mark.parametrize(
    "text", ['{"a": nan}', '{"a": Nano}', '{"a": -1e}', '{"a": NaN', "{'a': 1}", "Infinit"]
)
async def test_other_mistakes_are_not_called_numbers(text: str) -> None:
    with pytest.raises(RejectedResponse) as caught:
        await Evaluator(REFERENCE).evaluate(text)
    is_number = "is not JSON; write null" in caught.value.reject.message
    assert is_number == (text == '{"a": NaN')


@pytest.mark.parametrize(
    ("encoding", "name"),
    [
        ("utf-16", "UTF-16"),
        ("utf-16-le", "UTF-16"),
        ("utf-16-be", "UTF-16"),
        ("utf-32", "UTF-32"),
        ("utf-32-le", "UTF-32"),
        ("utf-32-be", "UTF-32"),
    ],
)
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
async def test_every_line_of_a_file_in_another_encoding(
    tmp_path: Path, encoding: str, name: str, newline: str
) -> None:
    path = tmp_path / "responses.jsonl"
    path.write_bytes(LINES.replace("\n", newline).encode(encoding))
    async with evaluate_stream(REFERENCE, path) as stream:
        rejects = stream.rejects
        assert [result async for result in stream] == []
    assert len(rejects) >= 2
    for reject in rejects:
        assert (reject.reason, reject.message) == (
            "invalid_utf8",
            f"{name}, not UTF-8; save the file as UTF-8, for example with iconv -f {name} -t UTF-8",
        )


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
