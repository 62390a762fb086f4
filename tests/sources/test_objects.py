from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag_eval_async.records import FileId, Line, LongLine, Unwritable
from graphrag_eval_async.sources import from_iterable

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable, Iterator

    from graphrag_eval_async.records import Record

BOM = "\ufeff"


async def read(items: Iterable[Any], limit: int = 1000) -> list[Record]:
    return [record async for batch in from_iterable(items, max_line_bytes=limit) for record in batch]


async def read_async(items: Iterable[Any], limit: int = 1000) -> list[Record]:
    async def source() -> AsyncGenerator[Any]:
        for item in items:
            yield item

    batches = from_iterable(source(), max_line_bytes=limit)
    return [record async for batch in batches for record in batch]


@pytest.mark.parametrize("read", [read, read_async])
@pytest.mark.parametrize(
    ("items", "lines"),
    [
        ([], []),
        (["a", "b\n", b"c\r\n", bytearray(b"d"), memoryview(b"e")], [b"a", b"b", b"c\r", b"d", b"e"]),
        (["a\nb\n", b"c\nd"], [b"a", b"b", b"c", b"d"]),
        (["", "\n", " \r\n", "a"], [b"a"]),
        (['[{"a":1},{"b":2}]'], [b'[{"a":1},{"b":2}]']),
        (['[{"a":1},\n{"b":2}]'], [b'{"a":1}', b'{"b":2}']),
        ([BOM + "a", BOM + "b"], [(BOM + "a").encode(), (BOM + "b").encode()]),
        ([b"\xef\xbb\xbf\na"], [b"a"]),
        (["a\u2028b\u0085c"], ["a\u2028b\u0085c".encode()]),
        (["\ud800"], [b"\xed\xa0\x80"]),
        ([{"a": 1}, None, [1]], [b'{"a":1}', b"null", b"[1]"]),
    ],
)
async def test_items(read: Any, items: list[Any], lines: list[bytes]) -> None:
    assert [record.data for record in await read(items)] == lines


@given(st.lists(st.lists(st.sampled_from(["a", "bc", "", " ", "é"])).map("\n".join)))
async def test_positions_refer_to_the_joined_text(items: list[str]) -> None:
    text = "".join(item.removesuffix("\n") + "\n" for item in items).encode()
    records = await read(items)
    assert records == await read_async(items)
    lines = text.split(b"\n")
    assert len(records) == sum(1 for line in lines if line.strip())
    for record in records:
        assert isinstance(record, Line)
        assert lines[record.number - 1] == record.data
        assert text[record.offset :].startswith(record.data)
        assert text[: record.offset].count(b"\n") == record.number - 1


async def test_unwritable_objects_are_passed_on() -> None:
    good, bad, last = await read([{"a": 1}, {"a": {1}}, "x"])
    assert good == Line(1, 0, b'{"a":1}')
    assert isinstance(bad, Unwritable)
    assert (bad.number, bad.offset, bad.data) == (2, 8, b"{'a': {1}}")
    assert last == Line(3, 19, b"x")


async def test_long_lines() -> None:
    records = await read(["a" * 5, "b" * 6 + "\nc", b"d" * 7], limit=5)
    assert [(type(r), r.number, r.offset) for r in records] == [
        (Line, 1, 0),
        (LongLine, 2, 6),
        (Line, 3, 13),
        (LongLine, 4, 15),
    ]
    long = records[1]
    assert isinstance(long, LongLine)
    assert long == LongLine(2, 6, b"b" * 6, 6, 5, hashlib.sha256(b"b" * 6).hexdigest())


async def test_items_before_an_error_are_not_lost() -> None:
    def source() -> Iterator[str]:
        yield from "ab"
        raise KeyError("gone")

    batches = from_iterable(source(), max_line_bytes=10)
    assert [await anext(batches), await anext(batches)] == [[Line(1, 0, b"a")], [Line(2, 2, b"b")]]
    with pytest.raises(KeyError):
        await anext(batches)


async def test_lines_of_files_are_unchanged() -> None:
    file = FileId("log.jsonl", "1-2-3", followed=True)
    lines: list[Any] = [
        Line(7, 123, b"a", file, whole=False),
        LongLine(8, 200, b"b", 1, 0, "", file),
        Line(9, 300, b"\n\n"),
    ]
    assert await read(["x", *lines, {"a": 1}]) == [Line(1, 0, b"x"), *lines, Line(2, 2, b'{"a":1}')]
    assert await read_async(lines) == lines
