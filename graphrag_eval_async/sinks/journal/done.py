"""Which lines of which files are done."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from typing import TYPE_CHECKING, TypeAlias

from graphrag_eval_async.records import Known, Position

if TYPE_CHECKING:
    from collections.abc import Mapping


class Stretches:
    """Stretches of bytes of one file that are done; those that touch are one."""

    __slots__ = ("_ends", "_lines", "_starts")

    def __init__(self) -> None:
        self._starts = array("q")
        self._ends = array("q")
        self._lines = array("q")

    def __contains__(self, offset: int) -> bool:
        index = bisect_right(self._starts, offset) - 1
        return index >= 0 and offset < self._ends[index]

    def add(self, start: int, end: int, lines: int = 1) -> None:
        """Note a stretch of so many lines, if it is not done already; all of it is, or nothing."""
        starts, ends = self._starts, self._ends
        if ends and ends[-1] == start:  # As nearly all come.
            ends[-1] = end
            self._lines[-1] += lines
            return
        index = bisect_right(starts, start)
        if index and ends[index - 1] >= start:
            index -= 1
            if ends[index] > start:
                return
            ends[index] = end
            self._lines[index] += lines
        else:
            starts.insert(index, start)
            ends.insert(index, end)
            self._lines.insert(index, lines)
        if index + 1 < len(starts) and starts[index + 1] == end:
            ends[index] = ends[index + 1]
            self._lines[index] += self._lines[index + 1]
            for column in (starts, ends, self._lines):
                del column[index + 1]

    def beginning(self) -> tuple[int, int]:
        """How many bytes from the start of the file are done, and how many lines these are."""
        if self._starts and self._starts[0] == 0:
            return self._ends[0], self._lines[0]
        return 0, 0


class _File:
    """What is done of one file.

    Attributes:
        stretches: of lines that had their newline.
        unfinished: where the last line begins, if it had none when it was evaluated.
        last: the one that stands last in the file.
    """

    __slots__ = ("last", "stretches", "unfinished")

    def __init__(self) -> None:
        self.stretches = Stretches()
        self.unfinished: int | None = None
        self.last: Place | None = None


Place: TypeAlias = tuple[str, str, int, int, str]
"""A `Position`, or what makes one, which takes less time to make."""


class Done:
    """The lines that are done, as stretches of their files: memory grows with the gaps, not the lines."""

    def __init__(self) -> None:
        self._files: dict[str, _File] = {}

    def add(self, position: Place, *, whole: bool = True) -> None:
        """Note a line, which may be there already."""
        _, key, offset, length, _ = position
        file = self._file(key)
        if whole:
            file.stretches.add(offset, offset + length + 1)
        else:
            file.unfinished = offset
        if file.last is None or file.last[2] <= offset:
            file.last = position

    def pass_over(self, origins: Mapping[str, int]) -> None:
        """Note that lines before an offset are none of ours, for each file by its key."""
        for key, offset in origins.items():
            stretches = self._file(key).stretches
            if offset and not stretches.beginning()[0]:
                stretches.add(0, offset, lines=0)

    def _file(self, key: str) -> _File:
        file = self._files.get(key)
        if file is None:
            file = self._files[key] = _File()
        return file

    def __contains__(self, position: Place) -> bool:
        _, key, offset, _, _ = position
        file = self._files.get(key)
        return file is not None and (offset in file.stretches or offset == file.unfinished)

    def is_unfinished(self, position: Position) -> bool:
        """Whether the line there had no newline when it was evaluated."""
        file = self._files.get(position.file)
        return file is not None and position.offset == file.unfinished

    def known(self) -> dict[str, Known]:
        """By the key of each file, what need not be read of it again."""
        known = {}
        for key, file in self._files.items():
            begin, lines = file.stretches.beginning()
            known[key] = Known(begin, lines + 1, file.last and Position(*file.last))
        return known
