"""JSON values: decoding of text that may be hostile, depth, copies."""

from __future__ import annotations

import re
from codecs import BOM_UTF16_BE, BOM_UTF16_LE, BOM_UTF32_BE, BOM_UTF32_LE
from typing import TYPE_CHECKING, Any

import orjson

from graphrag_eval_async.errors import GraphragEvalError
from graphrag_eval_async.records.line import BYTE_ORDER_MARK, MAX_LINE_BYTES, SHORTEN

if TYPE_CHECKING:
    from graphrag_eval_async.records.line import Reason

LARGE_BYTES = 1 << 18
"""Minimum size of text whose values are counted before it is decoded."""

BYTES_PER_VALUE = 64
"""Bytes of the maximum length of a line per list, object or comma.

A line with more of them is rejected: Python would build them all, and its garbage collector walk
them, in one go, and block the event loop.
"""

MAX_DEPTH = 200
"""Maximum nesting of arrays and objects in a record. orjson reads 1,024 levels but writes only
254.
"""

CONTAINERS = frozenset({dict, list})
"""The types of JSON values that hold others."""

_NOT_FINITE = re.compile(r"(?:NaN|-?Infinity)(?!\w)")
"""The numbers that Python's `json` writes, and JSON lacks."""

_KEY_CHARACTERS = 300
"""How far before a number its key is looked for."""

_ENCODING_BYTES = 64
"""Bytes at the beginning of a line that decide its encoding: more than the first key has."""

_NUL = b"\0"


class InvalidRecord(GraphragEvalError):  # noqa: N818
    """A record cannot be evaluated; it becomes a reject."""

    def __init__(self, reason: Reason, message: str) -> None:
        self.reason: Reason = reason
        super().__init__(message)


def decode(data: bytes) -> Any:
    """Return the JSON value of one line.

    Raises:
        InvalidRecord: it is not JSON in UTF-8, has too many values, or nests more than `MAX_DEPTH`
            deep.
    """
    value = load(data)
    if nests_deeper(value, MAX_DEPTH):
        raise too_deep()
    return value


def load(data: bytes, max_bytes: int = MAX_LINE_BYTES) -> Any:
    """Return the JSON value of one line, whose depth only orjson limits, to 1,024 levels.

    Args:
        data: the line.
        max_bytes: the maximum length of a line, which also limits how many values it may hold.

    Raises:
        InvalidRecord: it is not JSON in UTF-8, or has too many values.
    """
    data = data.removeprefix(BYTE_ORDER_MARK)
    if len(data) >= LARGE_BYTES:
        _check_count(data, max_bytes // BYTES_PER_VALUE)
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise _undecodable(data, error) from None


def _check_count(data: bytes, limit: int) -> None:
    """Raise `InvalidRecord` if JSON text may hold more than `limit` values."""
    count = count_values(data)
    if count > limit:
        message = f"{count} lists, objects and commas, more than {limit}; {SHORTEN}"
        raise InvalidRecord("too_long", message)


def count_values(text: bytes) -> int:
    """Estimate the number of values in JSON text.

    Counts lists, objects and commas, including those in strings.
    """
    count = 0
    for start in range(0, len(text), LARGE_BYTES):  # Other threads run in between.
        piece = text[start : start + LARGE_BYTES]
        count += len(piece) - len(piece.translate(None, b"[{,"))
    return count


def _undecodable(data: bytes, error: orjson.JSONDecodeError) -> InvalidRecord:
    """Return the error for a line that is not JSON in UTF-8: what is there instead, and what to
    do.
    """
    encoding = _wide_encoding(data)
    if encoding is not None:
        cure = f"save the file as UTF-8, for example with iconv -f {encoding} -t UTF-8"
        return InvalidRecord("invalid_utf8", f"{encoding}, not UTF-8; {cure}")
    try:
        text = data.decode()
    except UnicodeDecodeError as problem:
        message = f"{problem.reason} at byte {problem.start} of the line"
        return InvalidRecord("invalid_utf8", message)
    # "depth limit exceeded", or "Recursion limit reached" of older versions.
    if " limit " in str(error):
        return too_deep()
    return InvalidRecord("invalid_json", _problem_of_number(text, error.pos) or str(error))


def _wide_encoding(data: bytes) -> str | None:
    """Return "UTF-16" or "UTF-32" if a line is in it, or None.

    The first line of a file may have a byte-order mark. All lines consist of characters of 2 or 4
    bytes, most of which are NUL in the keys of JSON. As lines end at the byte of a newline, up to
    3 NULs that belong to it may come first, and be all there is after the last newline.
    """
    head = data[:_ENCODING_BYTES]
    # The mark of UTF-32 begins with that of UTF-16.
    if head.startswith((BOM_UTF32_LE, BOM_UTF32_BE)) or head == _NUL * 3:
        return "UTF-32"
    if head.startswith((BOM_UTF16_LE, BOM_UTF16_BE)) or head == _NUL:
        return "UTF-16"

    text = head.lstrip(_NUL)
    nuls_of_newline = len(head) - len(text)
    is_wide = _NUL in text and text.count(_NUL) >= len(text) / 4
    if nuls_of_newline > 3 or not is_wide:
        return None
    return "UTF-32" if _NUL * 2 in text else "UTF-16"


def _problem_of_number(text: str, place: int) -> str | None:
    """Return what to do about NaN or an infinity that the decoder cannot read.

    Args:
        text: the line.
        place: the index of the character at which the decoder stopped.

    Returns:
        None if there is no such number at this place.
    """
    # The decoder stops after a sign.
    has_sign = place > 0 and text[place - 1] == "-"
    start = place - 1 if has_sign else place
    number = _NOT_FINITE.match(text, start)
    if number is None:
        return None

    problem = f"{number[0]} at character {start} is not JSON; write null"
    key = _key_before(text, start)
    if key is None:
        return problem
    return f"{key}: {problem}, or leave the key out"


def _key_before(text: str, place: int) -> str | None:
    """Return the key of the value at this index of JSON text; None if it is no member of an
    object.
    """
    before = text[max(0, place - _KEY_CHARACTERS) : place].rstrip()
    if not before.endswith(":"):
        return None
    quoted_key = before.removesuffix(":").rstrip()
    if not quoted_key.endswith('"'):
        return None
    return quoted_key.removesuffix('"').rpartition('"')[2]


def nests_deeper(value: Any, limit: int) -> bool:
    """Return whether arrays and objects in a JSON value nest more than `limit` deep."""
    level = [value] if type(value) in CONTAINERS else []
    for _ in range(limit):
        level = [
            child
            for parent in level
            for child in (parent.values() if type(parent) is dict else parent)
            if type(child) in CONTAINERS
        ]
        if not level:
            return False
    return bool(level)


def too_deep() -> InvalidRecord:
    """Return the error for a record that nests more than `MAX_DEPTH` deep."""
    message = f"arrays and objects nest more than {MAX_DEPTH} deep; flatten the record"
    return InvalidRecord("too_deep", message)


def copy_json(value: Any) -> Any:
    """Return a deep copy of a JSON value."""
    if type(value) is dict:
        return {key: copy_json(item) for key, item in value.items()}
    if type(value) is list:
        return [copy_json(item) for item in value]
    return value
