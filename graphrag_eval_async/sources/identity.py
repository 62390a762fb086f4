"""Which file is which, whatever its name: by its inode, its birth, and its content."""

from __future__ import annotations

import os
import struct
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

GONE = (FileNotFoundError, NotADirectoryError)
"""Errors that say that there is no file of a name."""

TRACE_BYTES = 1024
"""How much of what was read is kept, to see whether the file still has it."""

SEARCHED_BYTES = 1 << 16
"""How much is read at a time."""

# Of Linux: <fcntl.h> and <linux/stat.h>.
_AT_FDCWD = -100
_AT_EMPTY_PATH = 0x1000
_STATX_BTIME = 0x800
_STATX_BYTES = 256
_BTIME_PLACE = 80


class Identity(NamedTuple):
    """What tells a file from all others."""

    place: tuple[int, int]  # Device and inode number, which no other file has while this one is open.
    born: int  # In nanoseconds; differs from later files with its inode number. 0 if not known.

    @property
    def root(self) -> str:
        """The start of its keys, without the device number, which changes from boot to boot."""
        return f"{self.place[1]:x}-{self.born:x}"


Opened = tuple[int, Identity]
"""The descriptor of a file that is open for reading, and which file it is."""


def identify(file: int | str) -> Identity:
    """The identity of an open file, or of the file of that name.

    Raises:
        OSError: it cannot be looked at.
    """
    status = os.stat(file)
    return Identity((status.st_dev, status.st_ino), _birth_time(file, status))


def _birth_time(file: int | str, status: os.stat_result) -> int:
    born: float | None = getattr(status, "st_birthtime", None)
    statx = _statx() if born is None else None
    return round((born or 0) * 1e9) if statx is None else statx(file)


@cache
def _statx() -> Callable[[int | str], int] | None:
    """The time of birth by Linux's statx, which `os.stat` leaves out."""
    import ctypes

    try:
        statx = ctypes.CDLL(None).statx
    except (AttributeError, OSError):
        return None

    def birth_time(file: int | str) -> int:
        buffer = ctypes.create_string_buffer(_STATX_BYTES)
        if isinstance(file, int):
            failed = statx(file, b"", _AT_EMPTY_PATH, _STATX_BTIME, buffer)
        else:
            failed = statx(_AT_FDCWD, os.fsencode(file), 0, _STATX_BTIME, buffer)
        if failed or not struct.unpack_from("=I", buffer)[0] & _STATX_BTIME:
            return 0
        seconds, nanoseconds = struct.unpack_from("=qI", buffer, _BTIME_PLACE)
        return int(seconds * 1_000_000_000 + nanoseconds)

    return birth_time


def generation_key(root: str, generation: int) -> str:
    """The key of a file that was truncated that many times."""
    return f"{root}-{generation}"


def split_key(key: str) -> tuple[str, int] | None:
    """The root and the generation of a key; None if it is not a key."""
    root, _, generation = key.rpartition("-")
    return (root, int(generation)) if root and generation.isdecimal() else None


def read_before(descriptor: int, offset: int, length: int) -> bytes:
    """The last bytes before an offset, at most `length`."""
    length = min(length, offset)
    return os.pread(descriptor, length, offset - length) if length else b""


def has(descriptor: int, data: bytes, end: int) -> bool:
    """Whether a file has these bytes before the offset `end`."""
    return os.pread(descriptor, len(data), end - len(data)) == data


def line_start(descriptor: int, size: int) -> int:
    """The offset of the last line in the first `size` bytes of a file."""
    while block := read_before(descriptor, size, SEARCHED_BYTES):
        if (place := block.rfind(b"\n")) >= 0:
            return size - len(block) + place + 1
        size -= len(block)
    return 0


def repeated(descriptor: int, other: int, begin: int = 0) -> int | None:
    """The size of a file if all of it from the offset `begin` on stands at the same place in another."""
    offset = begin
    while block := os.pread(descriptor, SEARCHED_BYTES, offset):
        if os.pread(other, len(block), offset) != block:
            return None
        offset += len(block)
    return offset
