"""Decoding of JSON text that may be hostile."""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Any

import orjson

from graphrag_eval_async.errors import GraphragEvalError
from graphrag_eval_async.records.line import BROKEN_LINE, BYTE_ORDER_MARK, MAX_LINE_BYTES
from graphrag_eval_async.records.pieces import LARGE_BYTES, count_values, loads

if TYPE_CHECKING:
    from graphrag_eval_async.records.line import Reason

BYTES_PER_VALUE = 64
"""Bytes of the maximum line length per list, object or comma. A line with more of them is rejected: Python
would build them all, and its garbage collector walk them, in one go, and block the event loop."""

MAX_DEPTH = 200
"""Maximum nesting of arrays and objects in a record. orjson reads 1,024 levels but writes only 254."""

CONTAINERS = frozenset({dict, list})


class InvalidRecord(GraphragEvalError):  # noqa: N818
    """A record that cannot be evaluated; becomes a reject."""

    def __init__(self, reason: Reason, message: str) -> None:
        self.reason: Reason = reason
        super().__init__(message)


def decode(data: bytes) -> Any:
    """The JSON value of one line.

    Raises:
        InvalidRecord: the line is not JSON, nests more than `MAX_DEPTH` deep, or has a number too large for
            a double.
    """
    value = load(data)
    if nests_deeper(value, MAX_DEPTH):
        raise too_deep()
    return value


def load(data: bytes, max_line_bytes: int = MAX_LINE_BYTES) -> Any:
    """Like `decode`, but without the check of the depth; orjson's own limit is 1,024 levels."""
    data = data.removeprefix(BYTE_ORDER_MARK)
    try:
        if len(data) < LARGE_BYTES:
            return orjson.loads(data)
        _check_values(data, max(max_line_bytes, MAX_LINE_BYTES) // BYTES_PER_VALUE)
        return loads(data)
    except orjson.JSONDecodeError as error:
        raise _undecodable(data, error) from None


def _check_values(data: bytes, limit: int) -> None:
    if (count := count_values(data)) > limit:
        if _text_nests_deeper(data, MAX_DEPTH):
            raise too_deep()
        raise InvalidRecord(
            "too_long",
            f"{count} lists, objects and commas, more than max_line_bytes / {BYTES_PER_VALUE} = {limit}; "
            "raise it, or shorten the line",
        )


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


def is_shallow(members: dict[str, Any]) -> bool:
    """Whether an object nests at most 2 deep, as most do. A quick check."""
    for value in members.values():
        if type(value) in CONTAINERS:
            for child in value.values() if type(value) is dict else value:
                if type(child) in CONTAINERS:
                    return False
    return True


def _undecodable(data: bytes, error: orjson.JSONDecodeError) -> InvalidRecord:
    try:
        data.decode()
    except UnicodeDecodeError as utf8:
        return InvalidRecord("invalid_utf8", f"{utf8.reason} at byte {utf8.start} of the line")
    if _text_nests_deeper(data, MAX_DEPTH):
        return too_deep()
    if data.startswith(b"{") and BROKEN_LINE in data:
        lines = data.count(BROKEN_LINE) + 1
        return InvalidRecord(
            "invalid_json", f"this object spans {lines} lines; write one object per line, as `jq -c .` does"
        )
    huge = _huge_number(data) if str(error).startswith(_HUGE) else None
    return huge or InvalidRecord("invalid_json", str(error))


_HUGE = "number is infinity"
"""Start of orjson's message for a number too large for a double, which makes it reject the whole line."""


def _huge_number(data: bytes) -> InvalidRecord | None:
    """The error for a line with a number too large for a double; None if the line is not JSON either."""
    try:
        value = json.loads(
            data,
            parse_int=_double,
            parse_float=_double,
            parse_constant=_refuse,
            object_pairs_hook=_check_numbers,
        )
    except InvalidRecord as huge:
        return huge
    except ValueError:
        return None
    return InvalidRecord("not_an_object", "expected a JSON object") if _is_infinite(value) else None


def _double(digits: str) -> float:
    value = float(digits)
    return 0.0 if math.isfinite(value) else value  # A shared zero keeps arrays small in memory.


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _check_numbers(pairs: list[tuple[str, Any]]) -> None:
    for key, value in pairs:
        if _is_infinite(value):
            raise InvalidRecord("invalid_field", f"{key}: a number beyond 64 bits")


def _is_infinite(value: Any) -> bool:
    """Whether a value is infinite, or is an array that contains an infinite number."""
    if isinstance(value, list):
        return any(map(_is_infinite, value))
    return isinstance(value, float) and math.isinf(value)


# Consumes the strings, which may be unterminated, and other text before each bracket, so that no text is
# searched twice.
_NEXT_BRACKET = re.compile(rb'(?>(?:[^"\[\]{}]++|"(?>(?:[^"\\]++|\\.)*)"?)*)([\[\]{}]|\Z)', re.DOTALL)


def _text_nests_deeper(data: bytes, limit: int) -> bool:
    if data.count(b"[") + data.count(b"{") <= limit:
        return False
    depth = 0
    for found in _NEXT_BRACKET.finditer(data):
        if found[1] in (b"[", b"{"):
            depth += 1
            if depth > limit:
                return True
        else:
            depth -= 1
    return False


def too_deep() -> InvalidRecord:
    return InvalidRecord(
        "too_deep", f"arrays and objects nest more than {MAX_DEPTH} deep; flatten the record"
    )
