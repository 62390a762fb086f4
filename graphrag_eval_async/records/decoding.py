"""JSON values: decoding of text that may be hostile, depth, copies."""

from __future__ import annotations

import re
from codecs import BOM_UTF16_BE, BOM_UTF16_LE, BOM_UTF32_BE, BOM_UTF32_LE
from itertools import chain
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
"""A string, or the beginning or end of a list or object, in JSON text."""

_KEY_CHARACTERS = 1 << 20
"""How far into a line the key of a number is looked for, which takes some milliseconds."""

_ENCODING_BYTES = 64
"""How many bytes at the beginning of a line decide its encoding. The first key has fewer."""

_ZIP_START = b"PK\x03\x04"
"""How a ZIP archive begins."""

_NUL = b"\0"

_MOST_NULS = 3
"""The number of NUL bytes in a character of ASCII in UTF-32."""

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
    """Return the JSON value of one line, without checking how deep it nests.

    Args:
        data: the line.
        max_bytes: the maximum length of a line. It also limits how many values a line may have.
        offset: bytes of the file before the line. An error message names the byte order of UTF-16,
            which follows from the offset.

    Raises:
        InvalidRecord: the line is not JSON in UTF-8, has too many values, or nests deeper than
            orjson can read.
    """
    data = data.removeprefix(BYTE_ORDER_MARK)
    if len(data) >= LARGE_BYTES:
        _check_count(data, max_bytes // BYTES_PER_VALUE)
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise _undecodable(data, offset, error) from None


def _check_count(data: bytes, limit: int) -> None:
    """Check that JSON text has at most `limit` values, as `count_values` counts them.

    Raises:
        InvalidRecord: it may have more.
    """
    count = count_values(data)
    if count > limit:
        message = f"{count} lists, objects and commas, more than {limit}; {SHORTEN}"
        raise InvalidRecord("too_long", message)


def count_values(text: bytes) -> int:
    """Estimate the number of values in JSON text by counting its lists, objects and commas.

    The estimate is too high if strings contain these characters.
    """
    count = 0
    # Other threads can run after each piece.
    for start in range(0, len(text), LARGE_BYTES):
        piece = text[start : start + LARGE_BYTES]
        without_counted = piece.translate(None, b"[{,")
        count += len(piece) - len(without_counted)
    return count


def _undecodable(data: bytes, offset: int, error: orjson.JSONDecodeError) -> InvalidRecord:
    """Return the error for a line that is not JSON in UTF-8, with advice on how to mend it.

    Args:
        data: the line.
        offset: bytes of the file before the line.
        error: why orjson cannot decode it.
    """
    if offset == 0 and data.startswith(_ZIP_START):
        message = (
            "a ZIP archive, not text; unpack it. A log of Inspect (.eval) is one: "
            "inspect log dump LOG.eval | jq -c '.samples[]' > samples.jsonl"
        )
        return InvalidRecord("invalid_utf8", message)

    encoding = _utf_16_or_32_of(data, offset)
    if encoding is not None:
        cure = f"save the file as UTF-8, for example with iconv -f {encoding} -t UTF-8"
        return InvalidRecord("invalid_utf8", f"{encoding}, not UTF-8; {cure}")

    try:
        text = data.decode()
    except UnicodeDecodeError as utf8_error:
        message = f"{utf8_error.reason} at byte {utf8_error.start} of the line"
        return InvalidRecord("invalid_utf8", message)

    # orjson says "depth limit exceeded", older versions of it "Recursion limit reached".
    if " limit " in str(error):
        return too_deep()
    message = _problem_of_number(text, error.pos) or str(error)
    return InvalidRecord("invalid_json", message)


def _utf_16_or_32_of(data: bytes, offset: int) -> str | None:
    """Return the encoding of a line if it is UTF-16 or UTF-32, such as "UTF-16LE"; otherwise None.

    In these encodings, a character of ASCII has one or three NUL bytes. The keys of JSON are mostly
    ASCII, so at least a quarter of their bytes are NUL.

    Args:
        data: the line, up to the byte that is a newline in UTF-8. In little-endian encodings, the
            NUL bytes of the newline character follow, at the beginning of the next line.
        offset: bytes of the file before the line.
    """
    head = data[:_ENCODING_BYTES]
    for mark, encoding in _BYTE_ORDER_MARKS.items():
        if head.startswith(mark):
            return encoding

    text = head.lstrip(_NUL)
    leading_nuls = len(head) - len(text)
    has_many_nuls = _NUL in text and text.count(_NUL) >= len(text) / 4
    if not has_many_nuls or leading_nuls > _MOST_NULS:
        return None

    name = "UTF-16"
    bytes_per_character = 2
    if _NUL * 2 in text:
        name = "UTF-32"
        bytes_per_character = 4
    # The byte of a character of ASCII that is not NUL comes first in little-endian encodings.
    is_little_endian = (offset + leading_nuls) % bytes_per_character == 0
    if is_little_endian:
        return f"{name}LE"
    return f"{name}BE"


def _problem_of_number(text: str, stopped_at: int) -> str | None:
    """Return an error message if a line has NaN or an infinity where the decoder stopped.

    Args:
        text: the line.
        stopped_at: the index of the character at which the decoder stopped.

    Returns:
        None if there is no such number.
    """
    start = stopped_at
    # The decoder reads the sign of a negative number before it stops.
    has_sign = start > 0 and text[start - 1] == "-"
    if has_sign:
        start -= 1
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


def _key_of(text: str, index: int) -> tuple[str | None, bool]:
    """Return the key of a value in JSON text, and whether the value is in a list.

    The key of a value in a list is that of the list.

    Args:
        text: JSON text, which is valid up to the value.
        index: the index of the first character of the value.

    Returns:
        None as the key if there is none, or if it would take too long to find it.
    """
    if index > _KEY_CHARACTERS:
        return None, False

    # Stacks of the lists and objects that are open: the key of each, and whether it is a list.
    keys: list[str | None] = [None]
    is_list = [False]
    # The last string, which is the last key unless it was a value. After a string that is a value,
    # the next string of the object is a key.
    last_key: str | None = None
    for token in _TOKEN.finditer(text, 0, index):
        if token["string"] is not None:
            last_key = token["string"][1:-1]
        elif token[0] in "[{":
            # What is in a list has the key of the list.
            key = keys[-1] if is_list[-1] else last_key
            keys.append(key)
            is_list.append(token[0] == "[")
        else:
            keys.pop()
            is_list.pop()
    if is_list[-1]:
        return keys[-1], True
    return last_key, False


def nests_deeper(value: Any, limit: int) -> bool:
    """Return whether arrays and objects in a JSON value nest more than `limit` deep."""
    # The arrays and objects of one level of nesting, starting with the value itself.
    level = [value] if type(value) in CONTAINERS else []
    for _ in range(limit):
        members = chain.from_iterable(
            container.values() if type(container) is dict else container for container in level
        )
        level = [member for member in members if type(member) in CONTAINERS]
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
