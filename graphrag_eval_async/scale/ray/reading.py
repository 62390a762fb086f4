"""Responses as rows of a Ray dataset: the lines of files, cut into pieces, or rows of another dataset."""

from __future__ import annotations

import asyncio
import os
from contextlib import closing
from hashlib import sha256
from secrets import token_bytes
from typing import TYPE_CHECKING, Any, NamedTuple

from graphrag_eval_async.errors import SourceError, describe_exception
from graphrag_eval_async.records import FileId, Line
from graphrag_eval_async.records.reject import reject_unread
from graphrag_eval_async.scale.pieces import Cutter, Piece, split
from graphrag_eval_async.sources import read_jsonl
from graphrag_eval_async.sources.lines import Splitter, line_of
from graphrag_eval_async.sources.parquet import ParquetRows, as_record, is_parquet, responses
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
    """Yield what to read at a time: row groups of Parquet, ranges of plain lines, and other files whole."""
    total = sum(os.path.getsize(path) for path in files if os.path.isfile(path))
    size = max(MIN_PIECE_BYTES, min(MAX_PIECE_BYTES, total // (workers * PIECES_PER_WORKER)))
    for path in files:
        found: dict[str, Any] = {"path": path, "file": os.path.abspath(path)}
        if is_parquet(path):
            with closing(ParquetRows(path)) as rows:
                yield from (found | {"start": 0, "end": -1, "group": g.number} for g in rows.groups())
        elif os.path.isfile(path) and can_be_cut(path):
            cutter = Cutter([Window(path)], 0, 1)
            cutter.size = size
            while (part := cutter.next()) is not None:
                yield found | {"start": part.start, "end": part.end, "group": -1}
        else:
            yield found | {"start": 0, "end": -1, "group": -1}


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
        start, file = piece["start"], FileId(piece["path"], "")
        part = Piece(piece["path"], piece["file"], place, start, piece["end"])
        for records in split(part, Splitter(self._limit, file=file, number=2 if start else 1, offset=start)):
            yield from (_row(record, piece) for record in records)

    def _of_file(self, piece: Mapping[str, Any]) -> Iterator[Row]:
        _status(piece)
        source = read_jsonl(piece["file"])
        batches = source.batches(max_line_bytes=self._limit)

        async def following() -> list[Record] | None:
            return await anext(batches, None)

        with asyncio.Runner() as runner:
            try:
                while (records := runner.run(following())) is not None:
                    yield from (_row(record, piece) for record in records)
            finally:
                runner.run(batches.aclose())

    def _of_parquet(self, piece: Mapping[str, Any]) -> Iterator[Row]:
        _status(piece)
        with closing(ParquetRows(piece["file"])) as rows:
            for records in rows.batches(rows.groups()[piece["group"]], None, self._limit):
                yield from (_row(record, piece) for record in records)


class ReadRows:
    """Turns the rows of another dataset into responses; Ray calls it in its workers."""

    def __init__(self, max_line_bytes: int) -> None:
        self._limit = max_line_bytes

    def __call__(self, batch: Any) -> Iterator[Any]:
        """Yield the rows of a table as tables of responses."""
        return tables(_row(self._record(item), None) for item in responses(batch))

    def _record(self, item: Any) -> Record:
        texts = [*item.values()] if isinstance(item, dict) else []
        if len(texts) == 1 and isinstance(texts[0], str):  # As of `ray.data.read_text`: the row is a line.
            return line_of(texts[0].encode(), 0, 0, self._limit)
        return as_record(item, 0, None, self._limit)


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


def _row(record: Record, piece: Mapping[str, Any] | None) -> Row:
    offset = record.offset
    why: tuple[str | None, str | None] = (None, None)
    if isinstance(record, Line):
        content, length, digest = record.data, len(record.data), sha256(record.data).hexdigest()
    else:
        reject = reject_unread(record)
        why = reject.reason, reject.message
        content, length, digest = reject.content or reject.head, reject.length, reject.sha256
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
