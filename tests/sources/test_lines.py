from __future__ import annotations

import asyncio
import gzip
import hashlib
import time
import tracemalloc
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag_eval_async import read_jsonl
from graphrag_eval_async.records import Line, LongLine, Record
from graphrag_eval_async.sources import open_source
from graphrag_eval_async.sources.files import PIECE_BYTES
from graphrag_eval_async.sources.lines import Splitter, split_lines
from tests.conftest import LoopClock

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable, Sequence
    from pathlib import Path

BLANK_BYTES = 2 << 20

BOM = b"\xef\xbb\xbf"


async def generate(chunks: Iterable[bytes]) -> AsyncGenerator[bytes]:
    for chunk in chunks:
        yield chunk


async def split(chunks: Iterable[bytes], limit: int = 1 << 20) -> list[Record]:
    batches = split_lines(generate(chunks), max_line_bytes=limit)
    return [record async for batch in batches for record in batch]


def pieces(data: bytes, cuts: Sequence[int]) -> list[bytes]:
    places = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[start:end] for start, end in pairwise(places)]


def plain(data: bytes, limit: int) -> list[tuple[int, int, bytes, bool]]:
    """Number, offset, content of every line that is not blank, and whether it is too long."""
    found = []
    offset = len(data) - len(data.lstrip(b"\0"))  # The hole that a truncation leaves.
    for number, text in enumerate(data[offset:].split(b"\n"), 1):
        too_long = len(text) > limit
        visible = text.removeprefix(BOM) if number == 1 else text
        if visible.strip(b" \t\r\x0b\x0c") or too_long:
            found.append((number, offset, text, too_long))
        offset += len(text) + 1
    return found


TEXT = st.lists(
    st.sampled_from([b"\n", b"\n\n", b"\r\n", b" ", b"\r", b"\x0b\x0c", b"\x85", b"\xe2\x80\xa8", BOM])
    | st.binary(max_size=12),
    max_size=25,
).map(b"".join)


@given(TEXT | TEXT.map(lambda text: BOM + text), st.lists(st.integers(min_value=0)), st.integers(1, 30))
async def test_any_chunks_of_any_bytes(data: bytes, cuts: list[int], limit: int) -> None:
    expected = plain(data, limit)
    records = await split(pieces(data, cuts), limit)
    assert [(r.number, r.offset, isinstance(r, LongLine)) for r in records] == [
        (number, offset, too_long) for number, offset, _, too_long in expected
    ]
    for record, (_, _, text, _) in zip(records, expected, strict=True):
        if isinstance(record, LongLine):
            assert (record.head, record.length, record.limit) == (text[:4096], len(text), limit)
            assert record.sha256 == hashlib.sha256(text).hexdigest()
        else:
            assert isinstance(record, Line)
            assert record.data == text


async def test_a_long_line_is_not_kept_in_memory() -> None:
    mebibyte = b"x" * (1 << 20)

    async def chunks() -> AsyncGenerator[bytes]:
        for _ in range(200):
            yield mebibyte
        yield b'\n{"a": 1}'

    tracemalloc.start()
    try:
        batches = split_lines(chunks(), max_line_bytes=1 << 20)
        records = [record async for batch in batches for record in batch]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 10 << 20
    first, last = records
    assert isinstance(first, LongLine)
    assert first.length == 200 << 20
    assert first.head == b"x" * 4096
    assert last == Line(2, (200 << 20) + 1, b'{"a": 1}')


@given(TEXT, st.integers(0, 100), st.integers(1, 30))
def test_an_unfinished_line_can_be_yielded_and_read_again(data: bytes, cut: int, limit: int) -> None:
    """Wherever it is ended for now, going on at its offset gives the same lines in the end."""
    whole = Splitter(limit)
    expected = whole.feed(data) + whole.finish()
    splitter = Splitter(limit)
    lines = splitter.feed(data[:cut])
    begin, held = splitter.offset, splitter.held
    assert begin + held == min(cut, len(data))
    unfinished = splitter.end()
    assert splitter.offset == begin
    assert splitter.held == 0
    assert all(not getattr(line, "whole", False) for line in unfinished)
    lines += splitter.feed(data[begin:]) + splitter.finish()
    assert lines == expected


@pytest.mark.parametrize("blank", [b"\n", b" \n", b"\r\n"])
@pytest.mark.parametrize("form", ["file", "gzip", "stream", "item"])
async def test_blank_lines_do_not_block_other_tasks(tmp_path: Path, form: str, blank: bytes) -> None:
    text = blank * (BLANK_BYTES // len(blank))
    pieces = BLANK_BYTES // PIECE_BYTES
    path = tmp_path / "bomb.jsonl"
    if form == "gzip":
        path = tmp_path / "bomb.jsonl.gz"
        path.write_bytes(gzip.compress(text + b"1\n"))
        responses: Any = read_jsonl(path)
    elif form == "file":
        path.write_bytes(text + b"1\n")
        responses = path
    else:
        responses = [text + b"1\n"]
    source = (
        split_lines(generate(responses), max_line_bytes=9)
        if form == "stream"
        else aiter(open_source(responses, max_line_bytes=9))
    )
    clock = LoopClock()
    await asyncio.sleep(0)
    batches = 0
    before = time.process_time()
    lines = []
    async for batch in source:
        lines += batch
        batches += 1  # A batch gives way, too: the pipeline looks at the clock after each.
    seconds = time.process_time() - before
    clock.stop()
    assert clock.turn + batches >= pieces
    assert [(line.number, line.offset) for line in lines] == [(len(text) // len(blank) + 1, len(text))]
    assert seconds < 10 * BLANK_BYTES / (1 << 20)
