"""Which file is which, whatever its name is."""

from __future__ import annotations

import os
import struct
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

# Of Linux: <fcntl.h> and <linux/stat.h>.
_AT_FDCWD = -100
_AT_EMPTY_PATH = 0x1000
_STATX_BTIME = 0x800
_STATX_BYTES = 256
_BTIME_PLACE = 80


class Identity(NamedTuple):
    """What a file is told from others by.

    Attributes:
        place: device and inode number, which no other file has as long as this one is held open.
        born: when it was made, in nanoseconds, by which it is told from later files with its inode number;
            0 where the system does not say.
    """

    place: tuple[int, int]
    born: int

    @property
    def root(self) -> str:
        """What its keys begin with; device numbers are left out, as they change from boot to boot."""
        return f"{self.place[1]:x}-{self.born:x}"


def identify(file: int | str) -> Identity:
    """Of an open file, or of the one of that name.

    Raises:
        OSError: it cannot be looked at.
    """
    status = os.stat(file)
    return Identity((status.st_dev, status.st_ino), _birth_time(file, status))


def generation_key(root: str, generation: int) -> str:
    """The key of a file that was truncated so often."""
    return f"{root}-{generation}"


def split_key(key: str) -> tuple[str, int] | None:
    """The two parts of such a key; None if it is none."""
    root, _, generation = key.rpartition("-")
    return (root, int(generation)) if root and generation.isdecimal() else None


def _birth_time(file: int | str, status: os.stat_result) -> int:
    born: float | None = getattr(status, "st_birthtime", None)
    if born is not None:
        return round(born * 1e9)
    statx = _statx()
    return statx(file) if statx is not None else 0


@cache
def _statx() -> Callable[[int | str], int] | None:
    """That of Linux, where `os.stat` does not tell the time of birth."""
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
