"""Opens files and identifies them, independent of their names, by inode, time of birth and content."""

from __future__ import annotations

import os
import stat
import struct
from fnmatch import fnmatchcase
from functools import cache
from time import time
from typing import TYPE_CHECKING, NamedTuple

from graphrag_eval_async.sources.lines import LOGGER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

GONE = (FileNotFoundError, NotADirectoryError)
"""Errors that mean that no file has a name."""

TRACE_BYTES = 1024
"""Number of bytes last read that are kept, to check whether the file still has them."""

SEARCHED_BYTES = 1 << 16
"""Bytes read at a time."""

# Constants of Linux, from <fcntl.h> and <linux/stat.h>.
_AT_FDCWD = -100
_AT_EMPTY_PATH = 0x1000
_STATX_BTIME = 0x800
_STATX_BYTES = 256
_BTIME_PLACE = 80


class Identity(NamedTuple):
    """Identity of a file, different from that of all others."""

    place: tuple[int, int]  # Device and inode number, unique while this file is open.
    born: int  # In nanoseconds; differs from later files with its inode number. 0 if not known.

    @property
    def root(self) -> str:
        """The prefix of its keys, without the device number, which may change at boot."""
        return f"{self.place[1]:x}-{self.born:x}"


Opened = tuple[int, Identity]
"""The descriptor of a file opened for reading, and its identity."""


def identify(file: int | str) -> Identity:
    """The identity of an open file, or of the file with a name."""
    status = os.stat(file)
    born: float | None = getattr(status, "st_birthtime", None)
    statx = _statx() if born is None else None
    nanoseconds = round((born or 0) * 1e9) if statx is None else statx(file)
    return Identity((status.st_dev, status.st_ino), nanoseconds)


@cache
def _statx() -> Callable[[int | str], int] | None:
    """The time of birth from Linux's statx, which `os.stat` omits."""
    import ctypes

    try:
        statx = ctypes.CDLL(None).statx
    except (AttributeError, OSError):
        return None

    def birth_time(file: int | str) -> int:
        buffer = ctypes.create_string_buffer(_STATX_BYTES)
        place, name = (file, b"") if isinstance(file, int) else (_AT_FDCWD, os.fsencode(file))
        failed = statx(place, name, _AT_EMPTY_PATH, _STATX_BTIME, buffer)
        if failed or not struct.unpack_from("=I", buffer)[0] & _STATX_BTIME:
            return 0
        seconds, nanoseconds = struct.unpack_from("=qI", buffer, _BTIME_PLACE)
        return int(seconds * 1_000_000_000 + nanoseconds)

    return birth_time


def generation_key(root: str, generation: int) -> str:
    """The key of a file after a number of truncations."""
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
    """The size of a file if another has the same bytes from the offset `begin` to that size."""
    offset = begin
    while block := os.pread(descriptor, SEARCHED_BYTES, offset):
        if os.pread(other, len(block), offset) != block:
            return None
        offset += len(block)
    return offset


class Access:
    """Which files are followed; see `follow_jsonl`."""

    def __init__(self, patterns: Sequence[str] = (), ignore_older: float | None = None) -> None:
        self._patterns = patterns
        self._ignore_older = ignore_older
        self._excluded: set[str] = set()
        self._told: dict[str, str] = {}

    def exclude(self, paths: Iterable[str]) -> None:
        """Never open these."""
        self._excluded.update(map(os.path.realpath, paths))

    def is_excluded(self, path: str) -> bool:
        """Whether a file is excluded. Patterns with a slash match whole paths, others names."""
        names = path, os.path.basename(path)
        if any(fnmatchcase(names["/" not in pattern], pattern) for pattern in self._patterns):
            return True
        return bool(self._excluded) and os.path.realpath(path) in self._excluded

    def is_old(self, descriptor: int) -> bool:
        return self._ignore_older is not None and time() - os.fstat(descriptor).st_mtime > self._ignore_older

    def status(self, path: str) -> os.stat_result | None:
        """The status of a regular file; None if there is none."""
        try:
            status = os.stat(path)
        except GONE:
            return None
        if not stat.S_ISREG(status.st_mode):
            self.tell(path, "not a regular file")
            return None
        return status

    def open_file(self, path: str) -> Opened | None:
        """The regular file with this name, if it exists and can be opened."""
        try:
            # Non-blocking, in case a named pipe has just replaced it.
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
        except GONE:
            return None
        except OSError as error:
            self.tell(path, error)
            return None
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OSError("not a regular file")
            identity = identify(descriptor)
        except OSError as error:
            os.close(descriptor)
            self.tell(path, error)
            return None
        self._told.pop(path, None)
        return descriptor, identity

    def tell(self, path: str, problem: OSError | str) -> None:
        """Log why a file is not read, unless the last message was the same."""
        reason = problem if isinstance(problem, str) else problem.strerror or str(problem)
        if self._told.get(path) != reason:
            self._told[path] = reason
            LOGGER.warning("%s: not readable yet; retrying: %s", path, reason)
