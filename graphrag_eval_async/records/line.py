"""Lines of input with their positions: the file, even if it is renamed, and the offset in it."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec
import orjson

from graphrag_eval_async.records.database_values import find_json_writer
from graphrag_eval_async.records.usual import USUAL_KEYS, UsualResponse, copy_usual

if TYPE_CHECKING:
    from collections.abc import Iterator

Reason = Literal[
    "invalid_utf8",
    "invalid_json",
    "not_an_object",
    "missing_question_id",
    "unknown_question_id",
    "invalid_field",
    "too_long",
    "too_deep",
    "incomplete",
    "not_a_trace",
    "not_a_response",
    "not_a_result",
]

MAX_LINE_BYTES = 32 * 1024 * 1024
"""Maximum length of a line of responses or traces."""

MAX_RESULT_BYTES = 4 * MAX_LINE_BYTES
"""Maximum length of a line of results: a result holds its response and the reference steps."""

SHORTEN = "shorten the line, for example the outputs of its steps"
"""What to do about a line that is too long."""

LARGE_BYTES = 128 * 1024
"""From this size on, a response is read and scored in a thread, since decoding, checking and
comparing it would block the event loop. A smaller response is also scored in a thread if its
reference steps have this size.
"""

BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class FileId:
    """A file, shared by all lines that are read from it.

    Attributes:
        path: its path when it was opened.
        key: identifies it, even if it is renamed. That of a followed file changes when it is
            truncated.
        followed: whether it is read as it grows.
        is_part: whether only a part of it is read, so that numbers of lines are not known.
    """

    path: str
    key: str
    followed: bool = False
    is_part: bool = False


class Position(NamedTuple):
    """Position of a line, and a digest of its content. All values can be written as JSON.

    Attributes:
        path: name of the file when it was opened.
        file: the `FileId.key` of the file.
        offset: bytes of the file before the line.
        length: length of the line in bytes, without the newline.
        sha256: hexadecimal digest of the line, without the newline. Distinguishes a file that was
            rewritten from one that was appended to.
    """

    path: str
    file: str
    offset: int
    length: int
    sha256: str


class Known(NamedTuple):
    """How far an earlier run has read a followed file.

    Attributes:
        begin: offset of the first line that was not read, at which to resume.
        number: number of that line, from 1.
        last: position of the last line that was read, by which the file is recognised; None if no
            line was read.
    """

    begin: int
    number: int
    last: Position | None


class Copy(msgspec.Struct, frozen=True):
    """A file that repeats the beginning of a followed file, or has replaced it.

    Attributes:
        original: the `FileId.key` of the followed file.
        length: size of the copy in bytes when it was found, when the original had all of them; 0 if
            that is not known.
        sha256: hexadecimal digest of the first 64 KiB of the copy, by which it is recognised.
    """

    original: str
    length: int = 0
    sha256: str = ""


class Line(NamedTuple):
    """One record as read from its source: JSON text without the newline.

    Attributes:
        number: number of the line in its file, or of the record in its iterable, from 1.
        offset: bytes of the source before the line.
        data: the text, as bytes.
        file: the file it was read from, if known.
        whole: False for text at the end of a file that may still grow, if it has no newline yet.
        response: what the text says, if that is known; otherwise it is to be decoded.
    """

    number: int
    offset: int
    data: bytes
    file: FileId | None = None
    whole: bool = True
    response: UsualResponse | None = None

    @property
    def position(self) -> Position | None:
        """Position after which reading can resume; None if the file is not known."""
        if self.file is None:
            return None
        return Position(
            path=self.file.path,
            file=self.file.key,
            offset=self.offset,
            length=len(self.data),
            sha256=hashlib.sha256(self.data).hexdigest(),
        )


class LongLine(NamedTuple):
    """A line over the limit, of which only the head is kept.

    Attributes:
        number: as in `Line`; so are `offset`, `file` and `whole`.
        head: its first bytes.
        length: length of the line in bytes, without the newline.
        limit: the length that it exceeds.
        sha256: hexadecimal digest of the whole line, without the newline.
    """

    number: int
    offset: int
    head: bytes
    length: int
    limit: int
    sha256: str
    file: FileId | None = None
    whole: bool = True

    @property
    def position(self) -> Position | None:
        """Position after which reading can resume; None if the file is not known."""
        if self.file is None:
            return None
        return Position(
            path=self.file.path,
            file=self.file.key,
            offset=self.offset,
            length=self.length,
            sha256=self.sha256,
        )


class Unwritable(NamedTuple):
    """A record that has no JSON text, such as a Python object that cannot be written.

    Attributes:
        number: as in `Line`; so are `offset` and `file`.
        data: shows the record, in UTF-8.
        reason: why it has none.
        message: what is wrong, and where.
    """

    number: int
    offset: int
    data: bytes
    reason: Reason
    message: str
    file: FileId | None = None


Record = Line | LongLine | Unwritable

_TOO_DEEP = ("Recursion limit reached", "exceeds recursion limit")
"""Ends of the messages of orjson for an object that nests too deep.

The first is for types that orjson knows, the second for types that `_plain` converts.
"""

_PLAIN_TYPES_ALONE = (
    orjson.OPT_PASSTHROUGH_DATACLASS
    | orjson.OPT_PASSTHROUGH_DATETIME
    | orjson.OPT_PASSTHROUGH_SUBCLASS
)
"""Option of orjson with which objects are refused that JSON and MessagePack might write in two
ways.
"""

_NOT_FINITE_CURE = "is not a finite number; write None"
"""The end of messages about NaN or infinity in a Python object. They begin with the number."""

_NOT_FINITE = re.compile(rb"\xcb[\x7f\xff][\xf0-\xff]")
"""First bytes of NaN or infinity in MessagePack. Text never contains these bytes; large integers
may.
"""


def write_usual(item: dict[str, Any], number: int, offset: int) -> Line | None:
    """Return a usual response as a line that also holds a copy of it, so it is not decoded again.

    Args:
        item: the response, which its owner may change later.
        number: the number of the line.
        offset: its offset.

    Returns:
        the line, as of `write_line`; None if anything in the response is unusual, or if it is
        large.
    """
    if not USUAL_KEYS.issuperset(item):
        return None
    try:
        data = orjson.dumps(item, option=_PLAIN_TYPES_ALONE)
        if len(data) >= LARGE_BYTES:
            return None
        response = copy_usual(item)
    except (TypeError, ValueError, RecursionError):
        return None
    return Line(number, offset, data, response=response)


def write_line(item: Any, number: int, offset: int) -> Line | Unwritable:
    """Write a Python object as a line of JSON text.

    Besides JSON values, this accepts mappings, dataclasses, pydantic models, dates, UUIDs, enums,
    `Decimal` as a number, the scalars and arrays of NumPy, and the values that Neo4j's driver and
    Ladybug return.

    Args:
        item: the object.
        number: the number of the line in its source.
        offset: the offset of the line in its source.

    Returns:
        the line, or an `Unwritable` if the object cannot be written as JSON.
    """
    try:
        data = orjson.dumps(item, default=_plain)
        problem = None
        # orjson writes NaN and infinity as null, which would hide a mistake.
        if b"null" in data and _may_hold_infinity(item):
            problem = _first_problem(item)
    except (TypeError, ValueError) as error:
        message = str(error)
        if message.endswith(_TOO_DEEP):
            return _unwritable(item, number, offset, "too_deep", message)
        with suppress(RecursionError):
            # Unlike the message of orjson, this one says where the problem is.
            message = _first_problem(item) or message
        return _unwritable(item, number, offset, "invalid_field", message)
    if problem is not None:
        return _unwritable(item, number, offset, "invalid_field", problem)
    return Line(number, offset, data)


def _unwritable(item: Any, number: int, offset: int, reason: Reason, message: str) -> Unwritable:
    """Return the record for an object that cannot be written as JSON, with its `repr` as text."""
    data = repr_of(item).encode(errors="backslashreplace")
    return Unwritable(number=number, offset=offset, data=data, reason=reason, message=message)


def _plain(value: Any) -> Any:
    """Convert an object of a type that orjson does not know to a value that it can write.

    Raises:
        TypeError: the object cannot be converted.
        ValueError: the object is a number that is not finite.
    """
    # Nodes of Neo4j's driver are mappings, too, so drivers come first.
    write_json = find_json_writer(value)
    if write_json is not None:
        return write_json(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Decimal):
        return _plain_decimal(value)
    if isinstance(value, date):
        # `pandas.NaT`, which stands for a missing time, is a date that does not equal itself.
        is_missing = value != value
        if not is_missing:
            return value.isoformat()
    # Scalars and arrays of NumPy have the method `tolist`, models of pydantic have `model_dump`.
    is_class = isinstance(value, type)
    for method_name in ("tolist", "model_dump"):
        method = getattr(value, method_name, None)
        if callable(method) and not is_class:
            return method()
    raise TypeError(f"no JSON form for {type(value).__name__}")


def _plain_decimal(value: Decimal) -> float:
    """Return a decimal number as an int if it is whole, and otherwise as a float.

    Raises:
        ValueError: it is not finite.
    """
    if not value.is_finite():
        raise ValueError(f"{value} {_NOT_FINITE_CURE}")
    is_whole = value == value.to_integral_value()
    if is_whole:
        return int(value)
    return float(value)


def _may_hold_infinity(item: Any) -> bool:
    """Return whether an item may contain NaN or infinity.

    This is a quick check. It is True for all items that do, and for a few others.
    """
    try:
        encoded = msgspec.msgpack.encode(item, enc_hook=_plain)
    except Exception:  # noqa: BLE001  (msgspec cannot encode all that orjson can)
        return True
    return _NOT_FINITE.search(encoded) is not None


def _first_problem(value: Any, place: str = "") -> str | None:
    """Return a message about the first part of a value that cannot be written as JSON.

    The message begins with the place of the part, such as `actual_steps[0].args`.

    Args:
        value: the value to search, which is a part of an object or the object itself.
        place: the place of the value in the object; empty for the object itself.

    Returns:
        None if all parts can be written.
    """
    shown_place = place or "the response"
    plain = _without_own_type(value)
    if isinstance(plain, float) and not math.isfinite(plain):
        return f"{shown_place}: {plain} {_NOT_FINITE_CURE}"

    for place_of_part, part in _parts_of(plain, place):
        problem = _first_problem(part, place_of_part)
        if problem is not None:
            return problem

    # All parts can be written, so the problem may be the value itself, such as a key of a dict.
    try:
        orjson.dumps(plain, default=_plain)
    except (TypeError, ValueError) as error:
        return f"{shown_place}: {error.__cause__ or error}"
    return None


def _parts_of(value: Any, place: str) -> Iterator[tuple[str, Any]]:
    """Yield the parts of a dict, a list or a tuple, each after its place; nothing for other values.

    Args:
        value: the value.
        place: the place of the value; empty for the whole object.
    """
    if isinstance(value, dict):
        for key, part in value.items():
            if type(key) is str:
                yield (f"{place}.{key}" if place else key), part
    elif isinstance(value, list | tuple):
        for index, part in enumerate(value):
            yield f"{place}[{index}]", part


def _without_own_type(value: Any) -> Any:
    """Return a value as a dict, a list or a number if it is of a type with such a form.

    Any other value is returned unchanged.
    """
    is_class = isinstance(value, type)
    if is_dataclass(value) and not is_class:
        return {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, str | int | float | list | tuple | None):
        return value
    # `_plain` raises for types that orjson knows, and for values that cannot be written.
    with suppress(Exception):
        return _plain(value)
    return value


def repr_of(value: Any) -> str:
    """Return the `repr` of a value, or the name of its type if `repr` raises."""
    try:
        return repr(value)
    except Exception:  # noqa: BLE001  (`repr` of a foreign object may raise anything)
        return f"<{type(value).__name__}>"
