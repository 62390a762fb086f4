"""JSON values: decoding of text that may be hostile, depth, copies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from graphrag_eval_async.errors import GraphragEvalError
from graphrag_eval_async.records.line import BYTE_ORDER_MARK, MAX_LINE_BYTES, SHORTEN

if TYPE_CHECKING:
    from graphrag_eval_async.records.line import Reason

LARGE_BYTES = 1 << 18
"""Minimum size of text whose values are counted before it is decoded."""

BYTES_PER_VALUE = 64
"""Bytes of the maximum line length per list, object or comma. A line with more of them is rejected:
Python would build them all, and its garbage collector walk them, in one go, and block the event
loop.
"""

MAX_DEPTH = 200
"""Maximum nesting of arrays and objects in a record. orjson reads 1,024 levels but writes only
254.
"""

CONTAINERS = frozenset({dict, list})


class InvalidRecord(GraphragEvalError):  # noqa: N818
    """A record that cannot be evaluated; becomes a reject."""

    def __init__(self, reason: Reason, message: str) -> None:
        self.reason: Reason = reason
        super().__init__(message)


def decode(data: bytes) -> Any:
    """The JSON value of one line, which nests at most `MAX_DEPTH` deep; else raises
    `InvalidRecord`.
    """
    value = load(data)
    if nests_deeper(value, MAX_DEPTH):
        raise too_deep()
    return value


def load(data: bytes, max_bytes: int = MAX_LINE_BYTES) -> Any:
    """Like `decode`, but without the check of the depth; orjson's own limit is 1,024 levels.

    `max_bytes` is the maximum length of a line, which also limits how many values it may hold.
    """
    data = data.removeprefix(BYTE_ORDER_MARK)
    try:
        limit = max_bytes // BYTES_PER_VALUE
        if len(data) >= LARGE_BYTES and (count := count_values(data)) > limit:
            message = f"{count} lists, objects and commas, more than {limit}; {SHORTEN}"
            raise InvalidRecord("too_long", message)
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise _undecodable(data, str(error)) from None


def count_values(text: bytes) -> int:
    """Number of lists, objects and commas in JSON text, including those in strings. Estimates
    its values.
    """
    count = 0
    for start in range(0, len(text), LARGE_BYTES):  # Other threads run in between.
        piece = text[start : start + LARGE_BYTES]
        count += len(piece) - len(piece.translate(None, b"[{,"))
    return count


def _undecodable(data: bytes, problem: str) -> InvalidRecord:
    try:
        data.decode()
    except UnicodeDecodeError as error:
        return InvalidRecord("invalid_utf8", f"{error.reason} at byte {error.start} of the line")
    if (
        " limit " in problem
    ):  # "depth limit exceeded", or "Recursion limit reached" of older versions.
        return too_deep()
    return InvalidRecord("invalid_json", problem)


def nests_deeper(value: Any, limit: int) -> bool:
    """Whether arrays and objects in a JSON value nest more than `limit` deep."""
    level = [value] if type(value) in CONTAINERS else []
    for _ in range(limit):
        level = [
            child
            for node in level
            for child in (node.values() if type(node) is dict else node)
            if type(child) in CONTAINERS
        ]
        if not level:
            return False
    return bool(level)


def too_deep() -> InvalidRecord:
    """The error for a record that nests more than `MAX_DEPTH` deep."""
    text = f"arrays and objects nest more than {MAX_DEPTH} deep; flatten the record"
    return InvalidRecord("too_deep", text)


def copy_json(value: Any) -> Any:
    """A deep copy of a JSON value."""
    if type(value) is dict:
        return {key: copy_json(item) for key, item in value.items()}
    return [*map(copy_json, value)] if type(value) is list else value
