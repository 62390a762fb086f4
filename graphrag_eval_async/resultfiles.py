"""Results that are on disk already."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Any, cast

from graphrag_eval_async.errors import AggregationError
from graphrag_eval_async.records import Line, LongLine
from graphrag_eval_async.records.decoding import MAX_DEPTH, InvalidRecord, load, nests_deeper, too_deep
from graphrag_eval_async.records.metrics import is_metric
from graphrag_eval_async.records.reject import reject, reject_long
from graphrag_eval_async.records.response import BEYOND_64_BITS
from graphrag_eval_async.sources import open_source
from graphrag_eval_async.sources.lines import MAX_LINE_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphrag_eval_async.records import Reason, Record, Reject
    from graphrag_eval_async.sources import JsonlFiles

MAX_RESULT_BYTES = 4 * MAX_LINE_BYTES
"""A result holds its response and the reference steps."""

MAX_RESULT_DEPTH = MAX_DEPTH + 1
"""A result holds what is unknown in a response one level further down."""


async def read_results(
    source: JsonlFiles,
    add: Callable[[dict[str, Any]], object],
    on_reject: Callable[[Reject], object],
    *,
    max_line_bytes: int = MAX_RESULT_BYTES,
    spool: bool = False,
    advance: Callable[[], object] = lambda: None,
) -> None:
    """Take each line of files for a result.

    Args:
        source: the files.
        add: is called with each; an `AggregationError` that it raises makes its line a reject.
        on_reject: is called with each line that is none.
        max_line_bytes: longer lines are rejected.
        spool: whether all of such a line goes to a temporary file, which is for `on_reject` to close.
        advance: is called after each line.

    Raises:
        SourceError: a file cannot be read.
    """
    async with aclosing(open_source(source, max_line_bytes=max_line_bytes, spool=spool)) as batches:
        async for batch in batches:
            for record in batch:
                if (rejected := _take(record, add)) is not None:
                    on_reject(rejected)
                advance()


def _take(record: Record, add: Callable[[dict[str, Any]], object]) -> Reject | None:
    if not isinstance(record, Line):
        return reject_long(cast(LongLine, record))
    try:
        result = _decode(record.data)
        try:
            add(result)
        except AggregationError as error:
            reason: Reason = "invalid_field" if isinstance(result, dict) else "not_an_object"
            raise InvalidRecord(reason, str(error)) from None
    except InvalidRecord as error:
        return reject(record, error.reason, str(error))
    return None


def _decode(data: bytes) -> Any:
    """The JSON value of one line, whose metrics are what was written.

    Raises:
        InvalidRecord: there is no such value.
    """
    result = load(data)
    if nests_deeper(result, MAX_RESULT_DEPTH):
        raise too_deep()
    if isinstance(result, dict):
        steps = result.get("actual_steps")
        for part in (result, *(steps if isinstance(steps, list) else ())):
            if isinstance(part, dict):
                _check_integers(part)
    return result


def _check_integers(part: dict[str, Any]) -> None:
    for key, value in part.items():
        if type(value) is float and abs(value) >= BEYOND_64_BITS and is_metric(key):
            raise InvalidRecord("invalid_field", f"{key}: expected a number of at most 64 bits, got {value}")
