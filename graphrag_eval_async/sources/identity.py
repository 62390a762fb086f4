"""Which file is which, whatever its name is: by its inode, its birth, and what stands in it."""

from __future__ import annotations

import hashlib
import os
import struct
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from graphrag_eval_async.records import Known

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from graphrag_eval_async.records import Position

GONE = (FileNotFoundError, NotADirectoryError)
"""Errors that say that there is no file of a name."""

TRACE_BYTES = 1024
"""How much of what was read is kept and compared, to see whether it still stands there."""

HASHED_BYTES = 1 << 20
SEARCHED_BYTES = 1 << 16
"""How much is read at a time."""

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
        born: when it was made, in nanoseconds, which tells it from later files with its inode number; 0 where
            the system does not say.
    """

    place: tuple[int, int]
    born: int

    @property
    def root(self) -> str:
        """What its keys begin with, without the device number, which changes from boot to boot."""
        return f"{self.place[1]:x}-{self.born:x}"


def identify(file: int | str) -> Identity:
    """The identity of an open file, or of the file of that name.

    Raises:
        OSError: it cannot be looked at.
    """
    status = os.stat(file)
    return Identity((status.st_dev, status.st_ino), _birth_time(file, status))


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


def generation_key(root: str, generation: int) -> str:
    """The key of a file that was truncated so often."""
    return f"{root}-{generation}"


def split_key(key: str) -> tuple[str, int] | None:
    """The root and the generation of a key; None if it is none."""
    root, _, generation = key.rpartition("-")
    return (root, int(generation)) if root and generation.isdecimal() else None


def read_before(descriptor: int, offset: int, length: int) -> bytes:
    """The last bytes before an offset, at most `length`."""
    length = min(length, offset)
    return os.pread(descriptor, length, offset - length) if length else b""


def has(descriptor: int, data: bytes, end: int) -> bool:
    """Whether these bytes stand in a file and end at that offset."""
    return os.pread(descriptor, len(data), end - len(data)) == data


def line_start(descriptor: int, size: int) -> int:
    """Where the last line begins of the first `size` bytes of a file."""
    while size > 0:
        block = read_before(descriptor, size, SEARCHED_BYTES)
        if not block:
            return 0
        if (place := block.rfind(b"\n")) >= 0:
            return size - len(block) + place + 1
        size -= len(block)
    return 0


def is_beginning(descriptor: int, other: int) -> bool:
    """Whether all that stands in a file, a line at least, seems to stand at the start of another, too."""
    length = os.fstat(descriptor).st_size
    if not line_start(descriptor, length):
        return False
    size = min(length, TRACE_BYTES)
    return all(has(other, read_before(descriptor, end, size), end) for end in (size, length))


class Start(NamedTuple):
    """Where reading of a file begins.

    Attributes:
        key: of the file.
        offset: bytes that need not be read.
        number: of the line there.
        passed_over: whether no line before the offset was ever read.
    """

    key: str
    offset: int
    number: int
    passed_over: bool


class Kept(NamedTuple):
    """What later runs have to know of files besides the lines that were read.

    Attributes:
        origins: by the keys of files, where their reading began, if not at the start.
        copies: by the roots of files that are copies, the keys of those that they are copies of.
    """

    origins: Mapping[str, int]
    copies: Mapping[str, str]


class Recall:
    """Recognises files by what an earlier run knows of them, and gives keys to those it does not know.

    Attributes:
        found: keys of the files that were recognised.
    """

    def __init__(
        self, known: Mapping[str, Known], copies: Mapping[str, str], start: Position | None = None
    ) -> None:
        """`copies` as in `Kept`; reading begins after the line `start`."""
        self.found: set[str] = set()
        self._earlier = self._known = known
        if start is not None:
            self._known = {start.file: Known(start.offset + start.length + 1, 1, start), **known}
        self._copies = copies
        self._met: set[str] = set()
        self._generations: dict[str, list[int]] = {}
        self._next: dict[str, int] = {}
        for key in (*self._known, *copies.values()):
            if parts := split_key(key):
                root, generation = parts
                self._next[root] = max(self._next.get(root, 0), generation + 1)
                if key in self._known:
                    self._generations.setdefault(root, []).append(generation)

    def knows(self, root: str) -> bool:
        """Whether an earlier run has met a file with keys of that root, and not as a copy."""
        return root in self._generations and root not in self._copies

    def has_met(self, key: str) -> bool:
        """Whether an earlier run has met the file of that key."""
        return key in self._earlier

    def find(self, root: str, descriptor: int) -> Start | None:
        """Where to go on with a file; None if nothing that is known still stands in it."""
        original = self._copies.get(root)
        # What was passed over as a copy is to be read if nothing of the original ever was.
        is_lost = original is not None and original not in self._known
        if original is not None and not is_lost and (start := self._start(original, descriptor)):
            return start
        generations = sorted(self._generations.get(root, ()), reverse=True)
        keys = [generation_key(root, generation) for generation in generations]
        self._met.update(keys)
        for key in keys:
            # Of an older generation, where there is no line to tell it by, nothing can be left.
            can_be = (key == keys[0] and not is_lost) or self._known[key].last is not None
            if can_be and (start := self._start(key, descriptor)):
                return start
        return None

    def find_copy(self, descriptor: int, bases: Collection[str]) -> Start | None:
        """The same for a copy of a file that was met or had one of those names, before it was truncated."""
        for key, (_, _, last) in self._known.items():
            can_be = last is not None and (key in self._met or last.path in bases)
            if can_be and (start := self._start(key, descriptor)):
                return start
        return None

    def _start(self, key: str, descriptor: int) -> Start | None:
        known = self._known[key]
        offset = resume_at(descriptor, known) if key not in self.found else None
        if offset is None:
            return None
        self.found.add(key)
        number = known.number if offset == known.begin else max(1, known.number - 1)
        return Start(key, offset, number, known.last is None)

    def new_key(self, root: str) -> str:
        """A key that no file has had."""
        generation = self._next.get(root, 0)
        self._next[root] = generation + 1
        return generation_key(root, generation)


def resume_at(descriptor: int, known: Known) -> int | None:
    """Where the next line to read begins; None if the file is not the one that was read.

    A last line that had no newline when it was read is read again.
    """
    begin, last = known.begin, known.last
    if last is not None and not _stands(descriptor, last):
        return None
    if begin <= os.fstat(descriptor).st_size and (begin == 0 or has(descriptor, b"\n", begin)):
        return begin
    if last is not None and begin == last.offset + last.length + 1:
        return last.offset
    return None


def _stands(descriptor: int, line: Position) -> bool:
    """Whether a line still stands where it stood."""
    digest = hashlib.sha256()
    offset, end = line.offset, line.offset + line.length
    while offset < end and (block := os.pread(descriptor, min(end - offset, HASHED_BYTES), offset)):
        digest.update(block)
        offset += len(block)
    return offset == end and digest.hexdigest() == line.sha256
