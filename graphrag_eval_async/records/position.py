"""Positions of lines: the file, even if it is renamed, and the offset in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class FileId:
    """A file, shared by all lines that are read from it.

    Attributes:
        path: name of the file when it was opened.
        key: identifies the file. It stays the same when the file is renamed. It changes when the file is
            truncated, and differs for another file that takes over its name or inode number.
        followed: whether the file is followed as it grows. A file that is not followed is read from its start
            each time.
        is_part: whether only a part of the file is read, so that numbers of lines are not known.
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
        sha256: hexadecimal digest of the line, without the newline. Distinguishes a file that was rewritten
            from one that was appended to.
    """

    path: str
    file: str
    offset: int
    length: int
    sha256: str


class Known(NamedTuple):
    """How far an earlier run has read a followed file.

    Attributes:
        begin: offset of the line at which to resume.
        number: number of that line.
        last: the last line that was read, used to recognise the file; None if no line was read.
    """

    begin: int
    number: int
    last: Position | None
