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

_NOT_FINITE = re.compile(r"-?(?:nan|inf(?:inity)?)(?!\w)", re.IGNORECASE)
"""Numbers that JSON lacks: as Python's `json` writes them, and as its `repr` does."""

_TOKEN = re.compile(r'(?P<string>"(?>[^"\\]*(?:\\.[^"\\]*)*)"?)|[\[{]|[\]}]')
"""What tells in which list or object a value of JSON text is."""

_KEY_CHARACTERS = 1 << 20
"""How far into a line the key of a number is looked for, in some milliseconds."""

_ENCODING_BYTES = 64
"""Bytes at the beginning of a line that decide its encoding: more than the first key has."""

_NUL = b"\0"

_BYTE_ORDER_MARKS = {
    # Those of UTF-32 come first: one of them begins with that of UTF-16.
    BOM_UTF32_LE: "UTF-32LE",
    BOM_UTF32_BE: "UTF-32BE",
    # Its NULs may have been skipped as a hole at the start of the file.
    BOM_UTF32_BE.lstrip(_NUL) + _NUL * 3: "UTF-32BE",
    BOM_UTF16_LE: "UTF-16LE",
    BOM_UTF16_BE: "UTF-16BE",
}


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


def load(data: bytes, max_bytes: int = MAX_LINE_BYTES, *, offset: int = 0) -> Any:
    """Return the JSON value of one line, whose depth only orjson limits, to 1,024 levels.

    Args:
        data: the line.
        max_bytes: the maximum length of a line, which also limits how many values it may hold.
        offset: bytes of the file before the line. They tell in which order the bytes of its
            characters are, if it is not in UTF-8.

    Raises:
        InvalidRecord: it is not JSON in UTF-8, or has too many values.
    """
    data = data.removeprefix(BYTE_ORDER_MARK)
    if len(data) >= LARGE_BYTES:
        _check_count(data, max_bytes // BYTES_PER_VALUE)
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise _undecodable(data, offset, error) from None


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


def _undecodable(data: bytes, offset: int, error: orjson.JSONDecodeError) -> InvalidRecord:
    """Return the error for a line that is not JSON in UTF-8: what is there instead, and what to
    do.
    """
    encoding = _wide_encoding(data, offset)
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


def _wide_encoding(data: bytes, offset: int) -> str | None:
    """Return the encoding of a line whose characters take 2 or 4 bytes, such as "UTF-16LE".

    Most of these bytes are NUL in the keys of JSON.

    Args:
        data: the line, which ends before the byte of its newline. Where that byte is the first one
            of the newline character, its NULs are at the beginning of the next line.
        offset: bytes of the file before the line.

    Returns:
        None if the line is in another encoding.
    """
    head = data[:_ENCODING_BYTES]
    for mark, encoding in _BYTE_ORDER_MARKS.items():
        if head.startswith(mark):
            return encoding

    text = head.lstrip(_NUL)
    leading_nuls = len(head) - len(text)
    is_wide = _NUL in text and text.count(_NUL) >= len(text) / 4
    if leading_nuls > 3 or not is_wide:
        return None
    # A character of ASCII is the first of its bytes, or the last one.
    name, size = ("UTF-32", 4) if _NUL * 2 in text else ("UTF-16", 2)
    is_first_byte = (offset + leading_nuls) % size == 0
    return f"{name}LE" if is_first_byte else f"{name}BE"


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
    key, is_in_list = _key_of(text, start)
    if key is None:
        return problem
    if is_in_list:
        return f"{key}: {problem}"
    return f"{key}: {problem}, or leave the key out"


def _key_of(text: str, place: int) -> tuple[str | None, bool]:
    """Return the key of a value, or of the list that holds it, and whether it is in a list.

    Args:
        text: JSON text, which is valid up to the value.
        place: the index of the value. The key is None if it is more than `_KEY_CHARACTERS`.
    """
    if place > _KEY_CHARACTERS:
        return None, False
    # The lists and objects that are open, each with its key; the text itself has none.
    keys: list[str | None] = [None]
    is_list = [False]
    key: str | None = None
    for token in _TOKEN.finditer(text, 0, place):
        if token["string"] is not None:
            # It may be a value. Then the next token in this object is its next key.
            key = token["string"][1:-1]
        elif token[0] in "[{":
            # The members of a list have its key.
            keys.append(keys[-1] if is_list[-1] else key)
            is_list.append(token[0] == "[")
        else:
            keys.pop()
            is_list.pop()
    if is_list[-1]:
        return keys[-1], True
    return key, False


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
