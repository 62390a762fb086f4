"""Responses as rows of a Ray dataset: the lines of files, cut into pieces, or rows of another dataset."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from hashlib import sha256
from secrets import token_bytes
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from graphrag_eval_async.errors import SourceError, describe_exception
from graphrag_eval_async.records import FileId, Line, LongLine, write_line
from graphrag_eval_async.records.line import Unwritable
from graphrag_eval_async.scale.ranges import Cutter, Range, RangeLines
from graphrag_eval_async.sources import read_jsonl
from graphrag_eval_async.sources.lines import long_line
from graphrag_eval_async.sources.shards import Window, can_be_cut

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from graphrag_eval_async.records import Record

MAX_PIECE_BYTES, MIN_PIECE_BYTES = 16 << 20, 1 << 16
"""Size of the pieces in which files are read."""

PIECES_PER_WORKER = 8
"""Minimum pieces per worker, so that all finish at about the same time."""

BATCH_ROWS = 4096
"""Rows per batch of a reader."""

STEPS = ("actual_steps", "steps")
"""Columns that may hold JSON text in place of lists of objects."""


class Row(NamedTuple):
    """A response as a row of a dataset, for a worker.

    Attributes:
        id: SHA-256 of its file, its place there, and its text; only of its text without a file.
        data: its text as JSON; the head of a line that is too long.
        file: path of its file, if it has one.
        offset: bytes of the file before it; of a Parquet file, the rows before it.
        reason: the reason of a reject; None if the response can be evaluated.
        message: the message of the reject.
        length: bytes of its text.
        sha256: digest of its text.
        tag: a random mark that distinguishes equal rows of a dataset within this run.
    """

    id: bytes
    data: bytes
    file: str | None = None
    offset: int = 0
    reason: str | None = None
    message: str | None = None
    length: int = 0
    sha256: str = ""
    tag: bytes = b""


def pieces(files: Sequence[str], workers: int) -> Iterator[dict[str, Any]]:
    """Yield what to read at a time: row groups of Parquet, ranges of plain lines, and other files whole.

    Raises:
        SourceError: a file cannot be read.
    """
    total = sum(os.path.getsize(path) for path in files if os.path.isfile(path))
    size = max(MIN_PIECE_BYTES, min(MAX_PIECE_BYTES, total // (workers * PIECES_PER_WORKER)))
    for path in files:
        found: dict[str, Any] = {"path": path, "file": os.path.abspath(path)}
        if path.endswith(".parquet"):
            before = 0
            for group, rows in enumerate(_groups(path)):
                yield found | {"start": before, "end": before + rows, "group": group}
                before += rows
        elif os.path.isfile(path) and can_be_cut(path):
            cutter = Cutter([Window(path)], size)
            while (part := cutter.next()) is not None:
                yield found | {"start": part.start, "end": part.end, "group": -1}
        else:
            yield found | {"start": 0, "end": -1, "group": -1}


def _groups(path: str) -> list[int]:
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(path) as file:
            return [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
    except Exception as error:  # noqa: BLE001  (pyarrow raises many kinds)
        raise SourceError(f"{path}: cannot be read: {describe_exception(error)}") from None


class ReadPieces:
    """Reads the responses of pieces of files; Ray calls it in its workers."""

    def __init__(self, max_line_bytes: int) -> None:
        self._limit = max_line_bytes

    def __call__(self, batch: Any) -> Iterator[Any]:
        """Yield the rows of a table of pieces, as tables."""
        for piece in batch.to_pylist():
            if piece["group"] >= 0:
                found = self._of_parquet(piece)
            elif piece["end"] >= 0:
                found = self._of_range(piece)
            else:
                found = self._of_file(piece)
            yield from tables(found)

    def _of_range(self, piece: Mapping[str, Any]) -> Iterator[Row]:
        status = _status(piece)
        place = (status.st_dev, status.st_ino)
        part = Range(piece["path"], piece["file"], place, piece["start"], piece["end"])
        for record in RangeLines(part, self._limit):
            yield _row(record, piece)

    def _of_file(self, piece: Mapping[str, Any]) -> Iterator[Row]:
        _status(piece)
        source = read_jsonl(piece["file"])
        batches = source.batches(max_line_bytes=self._limit, spool=False)

        async def following() -> list[Record] | None:
            return await anext(batches, None)

        with asyncio.Runner() as runner:
            try:
                while (records := runner.run(following())) is not None:
                    yield from (_row(record, piece) for record in records)
            finally:
                runner.run(batches.aclose())

    def _of_parquet(self, piece: Mapping[str, Any]) -> Iterator[Row]:
        from pyarrow import parquet

        number = piece["start"]
        try:
            with parquet.ParquetFile(piece["file"]) as file:
                batches = file.iter_batches(batch_size=BATCH_ROWS, row_groups=[piece["group"]])
                for batch in batches:
                    for item in batch.to_pylist():
                        yield _row(_record(item, self._limit), piece, number)
                        number += 1
        except OSError as error:
            raise SourceError(f"{piece['path']}: cannot be read: {describe_exception(error)}") from None


class ReadRows:
    """Turns the rows of another dataset into responses; Ray calls it in its workers."""

    def __init__(self, max_line_bytes: int) -> None:
        self._limit = max_line_bytes

    def __call__(self, batch: Any) -> Iterator[Any]:
        """Yield the rows of a table as tables of responses."""
        return tables(_row(_record(item, self._limit), None) for item in batch.to_pylist())


def tables(rows: Iterable[Row]) -> Iterator[Any]:
    """Yield rows as tables of `BATCH_ROWS`."""
    import pyarrow

    kinds = {"id": pyarrow.binary(), "data": pyarrow.large_binary(), "offset": pyarrow.int64()}
    kinds |= {"length": pyarrow.int64(), "tag": pyarrow.binary()}
    schema = pyarrow.schema([(name, kinds.get(name, pyarrow.string())) for name in Row._fields])
    batch: list[Row] = []

    def table() -> Any:
        columns = zip(*batch, strict=True) if batch else [()] * len(schema)
        return pyarrow.table([pyarrow.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema)

    for row in rows:
        batch.append(row)
        if len(batch) == BATCH_ROWS:
            yield table()
            batch.clear()
    yield table()


def _record(item: dict[str, Any], limit: int) -> Record:
    """Return a row of any table as a line."""
    texts = [*item.values()]
    if len(texts) == 1 and isinstance(texts[0], str | bytes):  # As of `read_text`: the row is a line.
        text = texts[0]
        line: Line | Unwritable = Line(0, 0, text.encode() if isinstance(text, str) else text)
    else:
        present = _without_nulls(item)
        for name in STEPS:
            if isinstance(text := present.get(name), str):
                with suppress(orjson.JSONDecodeError):
                    present[name] = orjson.loads(text)
        line = write_line(present, 0, 0)
    if isinstance(line, Line) and len(line.data) > limit:
        return long_line(line.data, 0, 0, limit)
    return line


def _without_nulls(value: Any) -> Any:
    """Return a value without keys that are null, which other rows of the table have."""
    if isinstance(value, dict):
        return {key: _without_nulls(child) for key, child in value.items() if child is not None}
    return [_without_nulls(child) for child in value] if isinstance(value, list) else value


def _row(record: Record, piece: Mapping[str, Any] | None, number: int | None = None) -> Row:
    offset = record.offset if number is None else number
    if isinstance(record, LongLine):
        content, digest, length = record.head, record.sha256, record.length
        message = f"{length} bytes, more than max_line_bytes={record.limit}; raise it, or shorten the line"
        why: tuple[str | None, str | None] = ("too_long", message)
    else:
        content, length = record.data, len(record.data)
        digest = sha256(content).hexdigest()
        why = (record.reason, record.message) if isinstance(record, Unwritable) else (None, None)
    if piece is None:
        return Row(bytes.fromhex(digest), content, None, 0, *why, length, digest, token_bytes(8))
    id_ = sha256(f"{piece['file']}\0{offset}\0{digest}".encode(errors="surrogateescape")).digest()
    return Row(id_, content, piece["path"], offset, *why, length, digest)


def _status(piece: Mapping[str, Any]) -> os.stat_result:
    try:
        return os.stat(piece["file"])
    except OSError as error:
        raise SourceError(
            f"{piece['path']}: cannot be read: {describe_exception(error)}; all hosts of the cluster need it "
            "under the same path"
        ) from None


def as_line(row: Mapping[str, Any]) -> Line:
    """Return the line of a row."""
    file = None if row["file"] is None else FileId(row["file"], "", is_part=True)
    return Line(0, row["offset"], row["data"], file)
