"""A line of input, with its place."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, NamedTuple

import msgspec
import orjson

from graphrag_eval_async.records.position import Position

if TYPE_CHECKING:
    from graphrag_eval_async.records.position import FileId

MAX_LINE_BYTES = 32 * 1024 * 1024
"""How long a line may be, unless the caller says otherwise."""

BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Line(NamedTuple):
    """One record as it stands in its source: JSON text without the newline.

    Attributes:
        number: of the line in its file, or of the record in its iterable, from 1.
        offset: bytes of the source before it.
        data: the text, as bytes.
        file: where it was read from, if that is known.
        whole: False for what stands at the end of a followed file without a newline, as yet.
    """

    number: int
    offset: int
    data: bytes
    file: FileId | None = None
    whole: bool = True

    @property
    def position(self) -> Position | None:
        """Where it stands, if its file is known; reading can go on after it."""
        if self.file is None:
            return None
        digest = hashlib.sha256(self.data).hexdigest()
        return Position(self.file.path, self.file.key, self.offset, len(self.data), digest)


class LongLine(NamedTuple):
    """A line over the limit: its head, and the whole where it is at hand, in memory or spooled to a file."""

    number: int
    offset: int
    head: bytes
    length: int
    limit: int
    sha256: str
    content: bytes | BinaryIO | None
    file: FileId | None = None
    whole: bool = True  # As of a `Line`.

    @property
    def position(self) -> Position | None:
        """Where it stands, if its file is known; reading can go on after it."""
        if self.file is None:
            return None
        return Position(self.file.path, self.file.key, self.offset, self.length, self.sha256)


class Unwritable(NamedTuple):
    """A Python object that has no JSON text; `data` shows it."""

    number: int
    offset: int
    data: bytes
    reason: Literal["too_deep", "invalid_field"]
    message: str


Record = Line | LongLine | Unwritable


def write_line(item: Any, number: int, offset: int) -> Line | Unwritable:
    """A Python object as a line of JSON text.

    Text makes objects safe: the copy is our own, and what could not be written at the end is found now.
    """
    try:
        data = orjson.dumps(item, default=_plain)
        if b"null" in data and _may_hold_infinity(item):
            _check_finite(item, "")
        return Line(number, offset, data)
    except (TypeError, ValueError) as error:
        data = _show(item).encode(errors="backslashreplace")
        too_deep = str(error).endswith(_TOO_DEEP)
        return Unwritable(number, offset, data, "too_deep" if too_deep else "invalid_field", str(error))


_TOO_DEEP = ("Recursion limit reached", "exceeds recursion limit")
"""How orjson puts it, for what it knows and for what `_plain` makes known to it."""


def _plain(value: Any) -> dict[Any, Any]:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError


_NOT_FINITE = re.compile(rb"\xcb[\x7f\xff][\xf0-\xff]")
"""How a float begins in MessagePack that is NaN or infinite. No text has these bytes; large integers may."""


def _may_hold_infinity(item: Any) -> bool:
    """Whether it may hold NaN or infinity, which orjson writes as null; a quick look."""
    try:
        return _NOT_FINITE.search(msgspec.msgpack.encode(item, enc_hook=_plain)) is not None
    except Exception:  # noqa: BLE001  (whatever orjson can write and msgspec cannot)
        return True


def _check_finite(value: Any, place: str) -> None:
    """Raise ValueError, with its place, for a number that is not finite."""
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{place or 'the response'}: {value} is not a finite number")
    if isinstance(value, Mapping):
        for key, child in value.items():
            _check_finite(child, f"{place}.{key}" if place else str(key))
    elif is_dataclass(value):
        _check_finite({field.name: getattr(value, field.name) for field in fields(value)}, place)
    elif isinstance(value, list | tuple):
        for index, child in enumerate(value):
            _check_finite(child, f"{place}[{index}]")


def _show(item: Any) -> str:
    """`repr`, but for the values that have none: too deep, or integers of thousands of digits."""
    if type(item) is dict:
        return "{" + ", ".join(f"{_repr(key)}: {_repr(value)}" for key, value in item.items()) + "}"
    return _repr(item)


def _repr(value: Any) -> str:
    try:
        return repr(value)
    except Exception:  # noqa: BLE001  (whatever an object of the caller's does when it is shown)
        return f"<{type(value).__name__}>"
