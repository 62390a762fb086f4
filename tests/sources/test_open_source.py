"""All that can be the source of a stream."""

from __future__ import annotations

import asyncio
import io
import json
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from anyio.streams.file import FileReadStream
from anyio.streams.text import TextReceiveStream

from graphrag_eval_async import evaluate_stream
from graphrag_eval_async.errors import SourceError, UsageError
from graphrag_eval_async.sources import follow_jsonl, open_source, read_jsonl

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

LINES = [b'{"a":1}', '{"b":"é\u2028"}'.encode(), b'{"c":3}']
TEXT = b"\n".join(LINES)


async def read(responses: Any) -> list[bytes]:
    async with aclosing(open_source(responses)) as batches:
        return [getattr(record, "data", b"") async for batch in batches for record in batch]


async def test_iterables_paths_and_open_files(tmp_path: Path) -> None:
    texts = iter([line.decode() + "\n" for line in LINES])
    dicts = [json.loads(line) for line in LINES]
    for items in (dict.fromkeys(LINES).keys(), texts, dicts, io.BytesIO(TEXT), [TEXT]):
        assert await read(items) == LINES
    path = tmp_path / "responses.jsonl"
    path.write_bytes(TEXT + b"\n")
    for source in (path, str(path), read_jsonl(path), follow_jsonl(path, idle_timeout=0)):
        assert await read(source) == LINES
    with path.open(encoding="utf-8") as text, path.open("rb") as binary:
        assert await read(text) == await read(binary) == LINES
        assert not text.closed
        assert not binary.closed
    async with await anyio.open_file(path, "rb") as file:
        assert await read(file) == LINES


async def test_streams_that_cut_lines(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes((TEXT + b"\n") * 5000)  # It comes in pieces of 64 KiB.
    for wrap in (lambda stream: stream, TextReceiveStream):
        file = path.open("rb")
        assert await read(wrap(FileReadStream(file))) == LINES * 5000
        assert file.closed
    for size in (1, 3, 8, 1000):
        reader = asyncio.StreamReader(limit=4)
        reader.feed_data(TEXT[:size])
        reader.feed_data(TEXT[size:])
        reader.feed_eof()
        assert await read(reader) == LINES
    send, receive = anyio.create_memory_object_stream[Any](10)
    async with send:
        for item in (LINES[0], json.loads(LINES[1]), LINES[2].decode()):
            send.send_nowait(item)
    assert await read(receive) == LINES
    assert receive.statistics().open_receive_streams == 0


async def test_a_source_is_closed_even_under_cancellation() -> None:
    cleaned = []

    async def items() -> AsyncGenerator[str]:
        try:
            yield "a"
        finally:
            await checkpoint()
            cleaned.append(True)

    source = open_source(items())
    await anext(aiter(source))
    with anyio.CancelScope() as scope:
        scope.cancel()
        await source.aclose()
    assert cleaned == [True]


def test_sources_that_yield_no_responses() -> None:
    wrong: list[Any] = [None, 5, TEXT, bytearray(TEXT), {"q": {}}, object(), len, Path]
    for responses in wrong:
        with pytest.raises(UsageError, match="responses: expected a path or an iterable"):
            open_source(responses)
    for paths in (["a.jsonl", "b.jsonl.gz"], (Path("a"),)):
        with pytest.raises(UsageError, match=r"got a list of paths; use read_jsonl\(\[...\]\)"):
            open_source(paths)  # type: ignore[arg-type]


async def test_an_array_is_read_as_its_objects(tmp_path: Path) -> None:
    objects = [{"a": 1}, {"b": [2, {}]}]
    path = tmp_path / "array.json"
    for indent in (None, 2):
        path.write_text(json.dumps(objects, indent=indent))
        assert [json.loads(data) for data in await read(read_jsonl([path, path]))] == objects
    assert not read_jsonl(path).can_be_shuffled
    with pytest.raises(SourceError, match="it has not one JSON object per line"):
        await read(read_jsonl(path, shuffle=1))


async def test_an_object_over_several_lines_is_named() -> None:
    stream = evaluate_stream([{"template_id": "t", "questions": []}], ['{\n"question_id": "q"\n}'])
    assert [result async for result in stream] == []
    first = stream.rejects[0]
    assert (
        first.message
        == "this object spans several lines; write one object per line, as `jq -c .` does"
    )
