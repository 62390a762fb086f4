"""Reads results from Parquet files, as ``-o results.parquet`` writes them."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, BinaryIO

import orjson

from graphrag_eval_async.errors import SourceError, check_extra
from graphrag_eval_async.records import write_line
from graphrag_eval_async.sources.files import in_thread

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator

    from graphrag_eval_async.records import FileId, Record

ROWS = 64
"""Rows that are converted together."""

JSON_COLUMNS = ("steps", "actual_steps")
"""Columns whose values are JSON, written as text."""

MESSAGE_CHARACTERS = 200
"""Maximum length of what messages quote of an error of pyarrow."""


async def lines_of_rows(file: BinaryIO, id_: FileId) -> AsyncGenerator[list[Record]]:
    """Yield the rows of an open Parquet file as lines of JSON, in batches.

    Args:
        file: the file.
        id_: the file as its lines name it.

    Raises:
        UsageError: pyarrow is missing.
        SourceError: the file cannot be read as Parquet.
    """
    batches = _read_batches(file, id_)

    def next_batch() -> list[Record] | None:
        return next(batches, None)

    while True:
        lines = await in_thread(next_batch)
        if lines is None:
            return
        yield lines


def _read_batches(file: BinaryIO, id_: FileId) -> Iterator[list[Record]]:
    """Yield the rows of an open Parquet file as lines of JSON, in batches; blocks.

    Rows have no position in bytes. As its offset, each line has the number of rows before it.
    """
    check_extra(f"{id_.path}: Parquet", "table", "pyarrow")
    import pyarrow
    from pyarrow import parquet

    rows_before = 0
    try:
        for batch in parquet.ParquetFile(file).iter_batches(ROWS):
            lines: list[Record] = []
            for row in batch.to_pylist():
                line = write_line(_result_in(row), number=rows_before + 1, offset=rows_before)
                lines.append(line._replace(file=id_))
                rows_before += 1
            yield lines
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        first_line = str(error).partition("\n")[0]
        problem = first_line[:MESSAGE_CHARACTERS]
        raise SourceError(f"{id_.path}: cannot be read as Parquet: {problem}") from None


def _result_in(row: dict[str, Any]) -> dict[str, Any]:
    """Return the result that a row of a table stands for.

    Empty cells are left out, since every row has all columns. Columns of JSON are decoded.
    """
    result = {name: value for name, value in row.items() if value is not None}
    for name in JSON_COLUMNS:
        text = result.get(name)
        if isinstance(text, str):
            # Text that is no JSON stays as it is.
            with suppress(ValueError):
                result[name] = orjson.loads(text)
    return result
