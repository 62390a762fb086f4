"""Records that come one by one from an iterable: Python objects, or lines of JSON text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphrag_eval_async.records import Line, LongLine, Record, write_line
from graphrag_eval_async.sources.lines import is_blank, long_line

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterable, Iterable


async def from_async_iterable(
    source: AsyncIterable[Any], *, max_line_bytes: int
) -> AsyncGenerator[list[Record]]:
    """Each item at once, as the records it holds."""
    reader = _ObjectReader(max_line_bytes)
    async for item in source:
        yield reader.read(item)


async def from_iterable(source: Iterable[Any], *, max_line_bytes: int) -> AsyncGenerator[list[Record]]:
    """Each item, as the records it holds. The iterable is advanced on the event loop."""
    reader = _ObjectReader(max_line_bytes)
    for item in source:
        yield reader.read(item)


class _ObjectReader:
    """Numbers the records of an iterable and turns each into JSON text; what is a line already stays so."""

    def __init__(self, max_line_bytes: int) -> None:
        self._limit = max_line_bytes
        self._number = 0
        self._offset = 0

    def read(self, item: Any) -> list[Record]:
        if isinstance(item, Line | LongLine):
            return [item]
        if isinstance(item, str):
            item = item.encode(errors="surrogatepass")
        if isinstance(item, bytes | bytearray | memoryview):
            return self._lines(bytes(item))
        self._number += 1
        line = write_line(item, self._number, self._offset)
        self._offset += len(line.data) + 1
        return [line]

    def _lines(self, text: bytes) -> list[Record]:
        records: list[Record] = []
        for data in text.removesuffix(b"\n").split(b"\n"):
            self._number += 1
            offset = self._offset
            self._offset += len(data) + 1
            if len(data) > self._limit:
                records.append(long_line(data, self._number, offset, self._limit))
            elif not is_blank(data, self._number):
                records.append(Line(self._number, offset, data))
        return records
