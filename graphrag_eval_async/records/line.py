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

if TYPE_CHECKING:
    from collections.abc import Iterable

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
"""From this size on, a response is read and scored in threads, since decoding, checking and
comparing it would hold up the event loop; so it is scored if its reference steps are as large.
"""

BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class FileId:
    """A file, shared by all lines that are read from it."""

    path: str  # When it was opened.
    # Identifies it, even if it is renamed. That of a followed file changes when it is truncated.
    key: str
    followed: bool = False  # Whether it is read as it grows.
    is_part: bool = False  # Whether a part of it is read, so that numbers of lines are not known.


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
    """How far an earlier run has read a followed file."""

    begin: int  # Offset of the line at which to resume.
    number: int  # Number of that line.
    last: Position | None  # The last line that was read, by which the file is recognised.


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
    """

    number: int
    offset: int
    data: bytes
    file: FileId | None = None
    whole: bool = True

    @property
    def position(self) -> Position | None:
        """Position after which reading can resume; None if the file is not known."""
        sha256 = None if self.file is None else hashlib.sha256(self.data).hexdigest()
        return _position(self.file, self.offset, len(self.data), sha256)


class LongLine(NamedTuple):
    """A line over the limit, of which only the head is kept."""

    number: int
    offset: int
    head: bytes
    length: int
    limit: int
    sha256: str
    file: FileId | None = None
    whole: bool = True  # See `Line.whole`.

    @property
    def position(self) -> Position | None:
        """Position after which reading can resume; None if the file is not known."""
        return _position(self.file, self.offset, self.length, self.sha256)


def _position(file: FileId | None, *rest: Any) -> Position | None:
    return None if file is None else Position(file.path, file.key, *rest)


class Unwritable(NamedTuple):
    """A record that has no JSON text, such as a Python object that cannot be written; `data`
    shows it.
    """

    number: int
    offset: int
    data: bytes
    reason: Reason
    message: str
    file: FileId | None = None


Record = Line | LongLine | Unwritable


def write_line(item: Any, number: int, offset: int) -> Line | Unwritable:
    """A Python object as a line of JSON text; an `Unwritable` if it cannot be written as JSON.

    Besides JSON values, accepts mappings, dataclasses, pydantic models, dates, UUIDs, enums,
    `Decimal` as a number, and the scalars and arrays of NumPy.
    """
    reason: Reason = "invalid_field"
    try:
        data = orjson.dumps(item, default=_plain)
        if (
            b"null" not in data
            or not _may_hold_infinity(item)
            or (message := _problem(item, "")) is None
        ):
            return Line(number, offset, data)
    except (TypeError, ValueError) as error:
        message = str(error)
        if message.endswith(_TOO_DEEP):
            reason = "too_deep"
        else:
            with suppress(RecursionError):
                message = _problem(item, "") or message
    return Unwritable(
        number, offset, repr_of(item).encode(errors="backslashreplace"), reason, message
    )


_TOO_DEEP = ("Recursion limit reached", "exceeds recursion limit")
"""Ends of orjson's messages, for types that it knows and for types that `_plain` converts."""


def _plain(value: Any) -> Any:
    """A value that orjson can write, for an object of a type that it does not know."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Decimal):
        if not value.is_finite():
            raise ValueError(f"{value} is not a finite number")
        return int(value) if value == value.to_integral_value() else float(value)
    # Of pandas, whose missing time does not equal itself.
    if isinstance(value, date) and value == value:
        return value.isoformat()
    for method in ("tolist", "model_dump"):  # NumPy's scalars and arrays; pydantic's models.
        if callable(convert := getattr(value, method, None)) and not isinstance(value, type):
            return convert()
    raise TypeError(f"no JSON form for {type(value).__name__}")


_NOT_FINITE = re.compile(rb"\xcb[\x7f\xff][\xf0-\xff]")
"""First bytes of NaN or infinity in MessagePack. Text never contains these bytes; large integers
may.
"""


def _may_hold_infinity(item: Any) -> bool:
    """Whether an item may contain NaN or infinity, which orjson writes as null. A quick check."""
    try:
        return _NOT_FINITE.search(msgspec.msgpack.encode(item, enc_hook=_plain)) is not None
    except Exception:  # noqa: BLE001  (whatever orjson can write and msgspec cannot)
        return True


def _problem(value: Any, place: str) -> str | None:
    """Place and problem of the first part of a value that cannot be written as JSON; None if all
    can.
    """
    if is_dataclass(value) and not isinstance(value, type):
        value = {field.name: getattr(value, field.name) for field in fields(value)}
    elif not isinstance(value, str | int | float | list | tuple | None):
        with suppress(Exception):  # What orjson knows, or what cannot be written.
            value = _plain(value)
    if isinstance(value, float) and not math.isfinite(value):
        return f"{place or 'the response'}: {value} is not a finite number"
    parts: Iterable[tuple[str, Any]] = ()
    if isinstance(value, dict):
        parts = (
            (f"{place}.{key}" if place else key, part)
            for key, part in value.items()
            if type(key) is str
        )
    elif isinstance(value, list | tuple):
        parts = ((f"{place}[{index}]", part) for index, part in enumerate(value))
    for name, part in parts:
        if found := _problem(part, name):
            return found
    try:
        orjson.dumps(value, default=_plain)
    except (TypeError, ValueError) as error:
        return f"{place or 'the response'}: {error.__cause__ or error}"
    return None


def repr_of(value: Any) -> str:
    """`repr`, or the name of the type where that fails."""
    try:
        return repr(value)
    except Exception:  # noqa: BLE001  (`repr` of a foreign object may raise anything)
        return f"<{type(value).__name__}>"
