"""Arrays are read as the objects in them; other text as lines."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag_eval_async.records import Line
from graphrag_eval_async.sources import lines
from graphrag_eval_async.sources.lines import split_lines
from tests.cpu import affordable

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

VALUES = st.recursive(
    st.none() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
ARRAYS = st.builds(
    lambda first, rest: [first, *rest],
    st.dictionaries(st.text(max_size=3), VALUES, max_size=3),
    st.lists(VALUES, max_size=4),
)


async def read(text: bytes, size: int = 1 << 16) -> list[Any]:
    async def chunks() -> AsyncGenerator[bytes]:
        for start in range(0, len(text), size):
            yield text[start : start + size]

    batches = split_lines(chunks(), max_line_bytes=1 << 20, documents=True)
    return [line async for batch in batches for line in batch]


@given(
    ARRAYS, st.sampled_from([None, 0, 1, 4]), st.integers(3, 50), st.sampled_from(["", "\ufeff", "\r\n \n"])
)
async def test_arrays(array: list[Any], indent: int | None, size: int, before: str) -> None:
    text = (before + json.dumps(array, indent=indent) + "\n").encode()
    found = await read(text, size)
    assert [json.loads(line.data) for line in found] == array
    assert [line.number for line in found] == [*range(1, len(array) + 1)]
    for line in found:
        assert json.loads(text[line.offset :][: len(line.data)]) == json.loads(line.data)


@pytest.mark.parametrize(
    "text",
    [b'{"a": 1}\n[{"b": 2}]\n', b'[{"a": 1}]\n{}\n', b'[\n{"a": 1},\n{"b"', b"[1, 2]\n{", b'{"a":\n1}', b"["],
)
@pytest.mark.parametrize("size", [1, 1000])
async def test_other_text_is_read_as_lines(text: bytes, size: int) -> None:
    assert [line.data for line in await read(text, size)] == [line for line in text.split(b"\n") if line]


async def test_an_array_over_the_limit_is_read_as_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "MAX_DOCUMENT_BYTES", 20)
    text = b'[\n{"a": 1},\n{"b": 1},\n{"c": 1}\n]'
    assert [line.data for line in await read(text, 5)] == text.split(b"\n")


@pytest.mark.parametrize("unit", [b"{\n}\n", b"[{}]", b"[{\n\\", b"\n", b"[", b'[{"', b"[{}\n,", b"[{},"])
async def test_hostile_text_takes_little_time(unit: bytes) -> None:
    text = unit * (1_000_000 // len(unit))
    with affordable(len(text)):
        assert all(isinstance(line, Line) for line in await read(text, 1 << 20)) or unit == b"["
