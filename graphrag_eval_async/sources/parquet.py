"""Rows of Parquet files as lines of JSON."""

from __future__ import annotations

import os
from contextlib import suppress
from datetime import timedelta
from io import SEEK_END
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from graphrag_eval_async.errors import SourceError, check_extra
from graphrag_eval_async.records import Line, write_line
from graphrag_eval_async.sources.files import in_thread, open_binary, read_start
from graphrag_eval_async.sources.lines import line_of
from graphrag_eval_async.sources.remote import is_address, shown, suffix_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterator

    from graphrag_eval_async.records import FileId, Record

SUFFIXES = (".parquet", ".pq")
MAGIC = b"PAR1"

ROWS = 64
"""Rows that are converted together."""

BUFFER_BYTES = 1 << 20
"""Bytes of each column that are read together."""

JSON_COLUMNS = frozenset({"steps", "actual_steps", "messages", "resourceSpans"})
"""Columns whose text may be JSON: keys of responses and traces that hold lists or objects."""


class Group(NamedTuple):
    """A row group: its number from 0, the rows before it, and its size."""

    number: int
    first: int
    size: int


def is_parquet(path: str) -> bool:
    """Whether a file is Parquet, by its suffix or, if it is a regular file, its first bytes."""
    suffix = suffix_of(path)
    if suffix in SUFFIXES:
        return True
    if path == "-" or suffix in {".jsonl", ".json", ".ndjson", ".gz"}:
        return False
    if not is_address(path) and ("\0" in path or not os.path.isfile(path)):
        return False
    return read_start(path, len(MAGIC)) == MAGIC


class ParquetRows:
    """Reads rows of a Parquet file. Its methods wait for the file: call them in a thread."""

    def __init__(self, path: str) -> None:
        self._name = shown(path)
        check_extra(f"{self._name}: Parquet", "table", "pyarrow")
        import pyarrow
        from pyarrow import parquet

        self._errors = (pyarrow.ArrowException, OSError, ValueError, OverflowError)
        source = open_binary(path)
        self.close = source.close
        try:
            self._size = source.seek(0, SEEK_END)
            options: Any = {"pre_buffer": False, "coerce_int96_timestamp_unit": "us"}
            self._file = parquet.ParquetFile(source, buffer_size=BUFFER_BYTES, **options)
        except (SourceError, *self._errors) as error:
            source.close()
            raise self._unreadable(error) from None

    def _unreadable(self, error: Exception) -> SourceError:
        if isinstance(error, SourceError):
            return error
        kind = getattr(error, "strerror", None) or str(error).partition("\n")[0][:200]
        return SourceError(f"{self._name}: cannot be read as Parquet: {kind}")

    def groups(self, start: int = 0, end: int | None = None) -> list[Group]:
        """The row groups that begin in these bytes of the file, if each row took as many."""
        metadata = self._file.metadata
        rows = max(1, metadata.num_rows)
        found = []
        first = 0
        for number in range(metadata.num_row_groups):
            last = first + metadata.row_group(number).num_rows
            begin = self._size * first // rows
            if start <= begin and (end is None or begin < end):
                found.append(Group(number, first, self._size * last // rows - begin))
            first = last
        return found

    def batches(self, group: Group, file: FileId | None, max_line_bytes: int) -> Iterator[list[Record]]:
        """The rows of a row group as lines of JSON; `offset` is the number of rows before a line."""
        row = group.first
        try:
            for batch in self._file.iter_batches(ROWS, row_groups=[group.number]):
                yield [
                    as_record(item, row + i, file, max_line_bytes) for i, item in enumerate(responses(batch))
                ]
                row += batch.num_rows
        except self._errors as error:
            raise self._unreadable(error) from None


async def rows_of(
    path: str,
    start: int,
    end: int | None,
    file: FileId,
    max_line_bytes: int,
    on_read: Callable[[int], object],
) -> AsyncGenerator[list[Record]]:
    """The rows that begin between two bytes of a file; `on_read` gets the size of each row group."""
    rows = await in_thread(ParquetRows, path)
    try:
        for group in await in_thread(rows.groups, start, end):
            batches = rows.batches(group, file, max_line_bytes)
            while (batch := await in_thread(next, batches, None)) is not None:
                yield batch
            on_read(group.size)
    finally:
        rows.close()


def responses(batch: Any) -> Iterator[dict[str, Any]]:
    """The rows of an Arrow table or batch, with the values that JSON lines would have."""
    for row in batch.to_pylist():
        yield {name: _plain(value, name in JSON_COLUMNS) for name, value in row.items() if value is not None}


def as_record(item: dict[str, Any], row: int, file: FileId | None, max_line_bytes: int) -> Record:
    """A row, as `responses` yields it, as a line of JSON."""
    record = write_line(item, row + 1, row)
    if isinstance(record, Line):
        return line_of(record.data, row + 1, row, max_line_bytes, file)
    return record._replace(file=file)


def _plain(value: Any, may_be_json: bool = False) -> Any:
    """A value without nulls, which are as if absent; JSON text is decoded if it may be."""
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items() if each is not None}
    if isinstance(value, list):
        if value and all(isinstance(each, tuple) for each in value):  # A map.
            return {str(key): _plain(each) for key, each in value if each is not None}
        return [_plain(each) for each in value]
    if isinstance(value, bytes):
        with suppress(UnicodeDecodeError):  # Others cannot be written as JSON, so that their row is rejected.
            value = value.decode()
    if may_be_json and isinstance(value, str) and value[:1] in ("[", "{"):
        with suppress(ValueError):
            return orjson.loads(value)
    return value.total_seconds() if isinstance(value, timedelta) else value
