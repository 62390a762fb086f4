"""Rows of results in Parquet files, as ``-o results.parquet`` writes them."""

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
"""Columns whose text is JSON."""

MESSAGE_CHARACTERS = 200
"""Maximum length of what messages quote of an error of pyarrow."""


async def lines_of_rows(file: BinaryIO, id_: FileId) -> AsyncGenerator[list[Record]]:
    """Yield the rows of an open file as lines of JSON, in batches.

    The offset of a line is the number of rows before it.

    Raises:
        UsageError: pyarrow is missing.
        SourceError: the file cannot be read as Parquet.
    """
    batches = _read_batches(file, id_)
    while True:
        lines = await in_thread(next, batches, None)
        if lines is None:
            return
        yield lines


def _read_batches(file: BinaryIO, id_: FileId) -> Iterator[list[Record]]:
    """Yield the rows of an open file as lines of JSON; blocks."""
    check_extra(f"{id_.path}: Parquet", "table", "pyarrow")
    import pyarrow
    from pyarrow import parquet

    rows_before = 0
    try:
        for batch in parquet.ParquetFile(file).iter_batches(ROWS):
            lines: list[Record] = []
            for row in batch.to_pylist():
                line = write_line(_result_in(row), rows_before + 1, rows_before)
                lines.append(line._replace(file=id_))
                rows_before += 1
            yield lines
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        problem = str(error).partition("\n")[0][:MESSAGE_CHARACTERS]
        raise SourceError(f"{id_.path}: cannot be read as Parquet: {problem}") from None


def _result_in(row: dict[str, Any]) -> dict[str, Any]:
    """Return the result in a row, without the keys that it lacks."""
    result = {name: value for name, value in row.items() if value is not None}
    for name in JSON_COLUMNS:
        text = result.get(name)
        if isinstance(text, str):
            # Text that is no JSON stays as it is.
            with suppress(ValueError):
                result[name] = orjson.loads(text)
    return result
