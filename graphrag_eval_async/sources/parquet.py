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


async def lines_of_rows(file: BinaryIO, id_: FileId) -> AsyncGenerator[list[Record]]:
    """Yield the rows of an open file as lines of JSON, each with the number of rows before it as
    offset.
    """
    batches = _batches(file, id_)
    while (batch := await in_thread(next, batches, None)) is not None:
        yield batch


def _batches(file: BinaryIO, id_: FileId) -> Iterator[list[Record]]:
    check_extra(f"{id_.path}: Parquet", "table", "pyarrow")
    import pyarrow
    from pyarrow import parquet

    count = 0
    try:
        for batch in parquet.ParquetFile(file).iter_batches(ROWS):
            yield [
                write_line(_result(row), number + 1, number)._replace(file=id_)
                for number, row in enumerate(batch.to_pylist(), count)
            ]
            count += batch.num_rows
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        problem = str(error).partition("\n")[0][:200]
        raise SourceError(f"{id_.path}: cannot be read as Parquet: {problem}") from None


def _result(row: dict[str, Any]) -> dict[str, Any]:
    """Return the result in a row, without keys that it lacks."""
    result = {name: value for name, value in row.items() if value is not None}
    for name in JSON_COLUMNS:
        if isinstance(result.get(name), str):
            with suppress(ValueError):
                result[name] = orjson.loads(result[name])
    return result
