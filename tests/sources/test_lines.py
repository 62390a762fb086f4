"""Texts and Python objects as lines, and arrays as their objects."""

from __future__ import annotations

import hashlib
import json
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphrag_eval_async.records import FileId, Line, LongLine, Record, Unwritable
from graphrag_eval_async.records.line import MAX_LINE_BYTES
from graphrag_eval_async.sources import from_iterable
from graphrag_eval_async.sources.lines import Splitter, split_lines
from tests.support.cpu import affordable

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable, Sequence


BOM = b"\xef\xbb\xbf"


async def split(
    chunks: Iterable[bytes], limit: int = 1 << 20, *, documents: bool = False
) -> list[Record]:
    async def generate() -> AsyncGenerator[bytes]:
        for chunk in chunks:
            yield chunk

    batches = split_lines(generate(), max_line_bytes=limit, documents=documents)
    return [record async for batch in batches for record in batch]


async def objects_of(text: bytes, size: int = 1 << 16) -> list[Any]:
    return await split(
        [text[start : start + size] for start in range(0, len(text), size)], 1 << 20, documents=True
    )


async def pushed(items: Iterable[Any]) -> list[Record]:
    return [record async for batch in from_iterable(items) for record in batch]


def cut(data: bytes, cuts: Sequence[int]) -> list[bytes]:
    places = [0, *sorted(each % (len(data) + 1) for each in cuts), len(data)]
    return [data[start:end] for start, end in pairwise(places)]


def plain(data: bytes, limit: int) -> list[Record]:
    """Every line that is not blank, found slowly."""
    found: list[Record] = []
    offset = len(data) - len(data.lstrip(b"\0"))  # The hole that a truncation leaves.
    texts = data[offset:].split(b"\n")
    if texts[-1] in (b"\0", b"\0\0\0"):  # The rest of a newline in UTF-16 or UTF-32.
        texts.pop()
    for number, text in enumerate(texts, 1):
        if len(text) > limit:
            digest = hashlib.sha256(text).hexdigest()
            found.append(LongLine(number, offset, text[:4096], len(text), limit, digest))
        elif (text.removeprefix(BOM) if number == 1 else text).strip(b" \t\r\x0b\x0c"):
            found.append(Line(number, offset, text))
        offset += len(text) + 1
    return found


TEXT = st.lists(
    st.sampled_from(
        [b"\n", b"\n\n", b"\r\n", b" ", b"\r", b"\x0b\x0c", b"\x85", b"\xe2\x80\xa8", BOM]
    )
    | st.binary(max_size=12),
    max_size=25,
).map(b"".join)


BEGUN = st.builds(bytes.__add__, st.sampled_from([b"", BOM, b"\0\0"]), TEXT)


@given(BEGUN, st.lists(st.integers(min_value=0)), st.integers(1, 30))
async def test_any_chunks_of_any_bytes(data: bytes, cuts: list[int], limit: int) -> None:
    assert await split(cut(data, cuts), limit) == plain(data, limit)


@given(TEXT, st.integers(0, 100), st.integers(1, 30))
def test_an_unfinished_line_can_be_yielded_and_read_again(
    data: bytes, place: int, limit: int
) -> None:
    """Wherever it is ended for now, going on at its offset gives the same lines in the end."""
    splitter = Splitter(max_line_bytes=limit)
    found = splitter.feed(data[:place])
    begin = splitter.offset
    assert begin + splitter.unfinished_bytes == min(place, len(data))
    assert all(not getattr(line, "whole", False) for line in splitter.end())
    assert (splitter.offset, splitter.unfinished_bytes) == (begin, 0)
    found += splitter.feed(data[begin:]) + splitter.finish()
    assert found == plain(data, limit)


VALUES = st.recursive(
    st.none() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=5,
)
ARRAYS = st.tuples(
    st.dictionaries(st.text(max_size=3), VALUES, max_size=3), st.lists(VALUES, max_size=4)
)


@settings(max_examples=50)
@given(
    ARRAYS,
    st.sampled_from([None, 0, 1, 4]),
    st.integers(3, 50),
    st.sampled_from(["", "\ufeff", "\r\n \n"]),
)
async def test_arrays(
    parts: tuple[Any, list[Any]], indent: int | None, size: int, before: str
) -> None:
    array = [parts[0], *parts[1]]
    text = (before + json.dumps(array, indent=indent) + "\n").encode()
    found = await objects_of(text, size)
    assert [json.loads(line.data) for line in found] == array
    assert [line.number for line in found] == [*range(1, len(array) + 1)]
    for line in found:
        assert json.loads(text[line.offset :][: len(line.data)]) == json.loads(line.data)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
@pytest.mark.parametrize("size", [3, 1000])
async def test_an_array_with_a_number_that_json_lacks(number: str, size: int) -> None:
    objects = ['{"a": "]},{"}', f'{{"b": [{number}, {{"c": {number}}}]}}', '{"d": "ä"}']
    for before, between in (("", ","), ("\ufeff \n", " ,\n ")):
        text = f"{before}[ {between.join(objects)} ]\n".encode()
        lines = await objects_of(text, size)
        assert [line.data.decode() for line in lines] == objects
        for line in lines:
            assert text[line.offset :].startswith(line.data)


OTHER = [
    b'[{"a": NaN}, {"b": 1}] {}\n',
    b'[{"a": NaN}, {"b": 1,]\n',
    b'[{"a": NaN}, ]\n',
    b'{"a": 1}\n[{"b": 2}]\n',
    b'[{"a": 1}]\n{}\n',
    b'[\n{"a": 1},\n{"b"',
    b"[1, 2]\n{",
    b'{"a":\n1}',
    b"[",
]


async def test_other_text_is_read_as_lines() -> None:
    for text in OTHER:
        for size in (1, 1000):
            assert [line.data for line in await objects_of(text, size)] == [
                *filter(None, text.split(b"\n"))
            ]
    for unit in (b"{\n}\n", b"[{}]", b"[{\n\\", b"\n", b"[", b'[{"', b"[{}\n,", b"[{},"):
        text = unit * (1_000_000 // len(unit))
        with affordable(len(text)):
            await objects_of(text)


# Items


@given(st.lists(st.lists(st.sampled_from(["a", "bc", "", " ", "é"])).map("\n".join)))
async def test_positions_refer_to_the_joined_text(items: list[str]) -> None:
    text = "".join(item.removesuffix("\n") + "\n" for item in items).encode()
    assert await pushed(items) == [line for line in plain(text, 1000) if line.offset < len(text)]


async def test_items_of_all_kinds() -> None:
    texts = [
        "a",
        "b\n",
        b"c\r\n",
        bytearray(b"d"),
        memoryview(b"e"),
        "\ud800",
        '[{"a":1},\n{"b":2}]',
        " \n",
    ]
    found = [b"a", b"b", b"c\r", b"d", b"e", b"\xed\xa0\x80", b'{"a":1}', b'{"b":2}']
    assert [getattr(line, "data", None) for line in await pushed(texts)] == found
    good, bad, last = await pushed([{"a": 1}, {"a": {1}}, "x"])
    assert isinstance(bad, Unwritable)
    assert (good, last) == (Line(1, 0, b'{"a":1}'), Line(3, 19, b"x"))
    assert (bad.number, bad.offset, bad.data) == (2, 8, b"{'a': {1}}")
    most = MAX_LINE_BYTES
    items: list[Any] = [
        "a" * most,
        "b" * (most + 1) + "\nc",
        b"d" * (most + 2),
        " " * (most + 1),
        " ",
    ]
    kinds = [type(line) for line in await pushed(items)]
    assert kinds == [Line, LongLine, Line, LongLine, LongLine]
    file = FileId("log.jsonl", "1-2-3", followed=True)
    given: list[Any] = [
        Line(7, 123, b"a", file, whole=False),
        LongLine(8, 200, b"b", 1, 0, "", file),
    ]
    assert await pushed(["x", *given, {"a": 1}]) == [
        Line(1, 0, b"x"),
        *given,
        Line(2, 2, b'{"a":1}'),
    ]
