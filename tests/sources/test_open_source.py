from __future__ import annotations

import io
import json
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import anyio.abc
import pytest
from anyio.lowlevel import checkpoint
from anyio.streams.text import TextReceiveStream

from graphrag_eval_async import evaluate_stream
from graphrag_eval_async.errors import SourceError, UsageError
from graphrag_eval_async.sources import open_source, read_jsonl
from tests.cases import each

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator

LINES = [b'{"a":1}', b'{"b":2}', b'{"c":3}']
TEXT = b"\n".join(LINES)


async def read(responses: Any) -> list[bytes]:
    async with aclosing(open_source(responses, max_line_bytes=1000)) as batches:
        return [getattr(record, "data", b"") async for batch in batches for record in batch]


class Pieces(anyio.abc.ByteReceiveStream):
    """A byte stream that cuts lines anywhere."""

    def __init__(self, data: bytes, size: int) -> None:
        self.data = data
        self.size = size
        self.closed = False

    async def receive(self, max_bytes: int = 65536) -> bytes:
        del max_bytes
        if not self.data:
            raise anyio.EndOfStream
        piece, self.data = self.data[: self.size], self.data[self.size :]
        return piece

    async def aclose(self) -> None:
        self.closed = True


def generator() -> Iterator[bytes]:
    yield from LINES


async def async_generator() -> AsyncGenerator[bytes]:
    for line in LINES:
        yield line


@pytest.mark.parametrize(
    "responses",
    [
        LINES,
        tuple(LINES),
        dict.fromkeys(LINES).keys(),
        iter([line.decode() + "\n" for line in LINES]),
        [{"a": 1}, {"b": 2}, {"c": 3}],
        io.BytesIO(TEXT),
        io.StringIO(TEXT.decode()),
        [TEXT],
    ],
    ids=lambda value: type(value).__name__,
)
async def test_iterables(responses: Any) -> None:
    assert await read(responses) == [line + b"\n" * 0 for line in LINES]


async def test_paths_and_open_files(tmp_path: Path) -> None:
    path = tmp_path / "responses.jsonl"
    path.write_bytes(TEXT + b"\n")
    assert await read(path) == LINES
    assert await read(str(path)) == LINES
    with path.open() as text, path.open("rb") as binary:
        assert await read(text) == LINES
        assert await read(binary) == LINES
        assert not text.closed
        assert not binary.closed
    async with await anyio.open_file(path) as file:
        assert await read(file) == LINES


@pytest.mark.parametrize("size", [1, 3, 8, 1000])
async def test_byte_streams(size: int) -> None:
    stream = Pieces(TEXT, size)
    assert await read(stream) == LINES
    assert stream.closed


@pytest.mark.parametrize("size", [1, 3, 1000])
async def test_text_streams(size: int) -> None:
    stream = Pieces('{"a":"é\u2028"}'.encode(), size)
    assert await read(TextReceiveStream(stream)) == ['{"a":"é\u2028"}'.encode()]
    assert stream.closed


async def test_a_source_is_closed_even_under_cancellation() -> None:
    cleaned = []

    async def items() -> AsyncGenerator[str]:
        try:
            yield "a"
        finally:
            await checkpoint()
            cleaned.append(True)

    source = open_source(items(), max_line_bytes=10)
    await anext(aiter(source))
    with anyio.CancelScope() as scope:
        scope.cancel()
        await source.aclose()
    assert cleaned == [True]


async def test_memory_streams() -> None:
    send, receive = anyio.create_memory_object_stream[Any](10)
    async with send:
        for item in (LINES[0], {"b": 2}, LINES[2].decode()):
            send.send_nowait(item)
    assert await read(receive) == LINES
    assert receive.statistics().open_receive_streams == 0


@each("responses", [None, 5, TEXT, bytearray(TEXT), {"q": {}}, object(), len, Pieces])
def test_sources_that_yield_no_responses(responses: Any) -> None:
    with pytest.raises(UsageError, match="responses: expected a path or an iterable"):
        open_source(responses, max_line_bytes=1)


@pytest.mark.parametrize("paths", [["a.jsonl", "b.jsonl.gz"], (Path("a"),), [Path("a.jsonl"), "b.json"]])
def test_a_list_of_paths_is_named(paths: Any) -> None:
    with pytest.raises(UsageError, match=r"got a list of paths; use read_jsonl\(\[...\]\)"):
        open_source(paths, max_line_bytes=100)


@pytest.mark.parametrize("indent", [None, 2])
async def test_an_array_is_read_as_its_objects(tmp_path: Path, indent: int | None) -> None:
    objects = [{"a": 1}, {"b": [2, {}]}]
    text = json.dumps(objects, indent=indent)
    path = tmp_path / "array.json"
    path.write_text(text)
    for responses in (path, read_jsonl([path, path]), *([[text], [text.encode(), text]] if indent else [])):
        found = [json.loads(data) for data in await read(responses)]
        assert found in (objects, objects + objects)
    assert not read_jsonl(path).can_be_shuffled
    with pytest.raises(SourceError, match="it has not one JSON object per line"):
        await read(read_jsonl(path, shuffle=1))


async def test_an_object_over_several_lines_is_named() -> None:
    text = json.dumps({"question_id": "q"}, indent=2)
    stream = evaluate_stream([{"template_id": "t", "questions": []}], [text])
    assert [result async for result in stream] == []
    first = stream.rejects[0]
    assert first.message == "this object spans several lines; write one object per line, as `jq -c .` does"
