"""A file of whole lines."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Iterable

STDOUT = 1


class LineFile:
    """Takes whole lines and writes each at once, so that what was written outlives whatever ends the process.

    A line that cannot be written whole is taken back from a regular file.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Create or empty the file at `path`; ``-`` is standard output.

        Raises:
            OSError: it cannot be opened for writing.
        """
        self._name = os.fspath(path)
        self._own = self._name != "-"
        self._descriptor = STDOUT
        self._length = 0
        if self._own:
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
            self._descriptor = os.open(path, flags, 0o666)

    def write(self, pieces: Iterable[bytes]) -> None:
        """Write one line that comes in pieces, the newline included.

        Raises:
            OSError: it cannot be written; carries the name of the file.
        """
        length = self._length
        try:
            for piece in pieces:
                length += self._write(piece)
        except BaseException as error:
            self._take_back()
            if isinstance(error, OSError):
                error.filename = "standard output" if self._name == "-" else self._name
            raise
        self._length = length

    def _write(self, piece: bytes) -> int:
        rest = memoryview(piece)
        while rest:
            rest = rest[os.write(self._descriptor, rest) :]
        return len(piece)

    def _take_back(self) -> None:
        if self._own and stat.S_ISREG(os.fstat(self._descriptor).st_mode):
            os.ftruncate(self._descriptor, self._length)
            os.lseek(self._descriptor, self._length, os.SEEK_SET)

    def close(self) -> None:
        """Close the file; standard output stays open."""
        if self._own:
            self._own = False
            os.close(self._descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()
