"""Where a line stands: in which file, whatever its name is by now, and where in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class FileId:
    """A file, shared by all lines that are read from it.

    Attributes:
        path: its name when it was opened.
        key: what stays the same when it is renamed, and differs for another file that takes over its name or
            its inode number, and for what is written to it after it was truncated.
        followed: whether more is read as it comes; what is read once is read again, from its start, whenever
            it is read another time.
    """

    path: str
    key: str
    followed: bool = False


class Position(NamedTuple):
    """Where a line is, and what it contains; all of it fits in JSON.

    Attributes:
        path: the name of the file when it was opened.
        file: the `FileId.key` of the file.
        offset: bytes of the file before the line.
        length: of the line in bytes, without the newline.
        sha256: hexadecimal digest of the line, without the newline: by it, a file that was rewritten is told
            from one that was appended to.
    """

    path: str
    file: str
    offset: int
    length: int
    sha256: str


class Known(NamedTuple):
    """What an earlier run has read of a file that is followed.

    Attributes:
        begin: bytes that need not be read again; a line begins there.
        number: of that line.
        last: the last line that was read, by which the file is recognised; None if there was none.
    """

    begin: int
    number: int
    last: Position | None
