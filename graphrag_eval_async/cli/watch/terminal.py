"""Lines of text on a terminal, drawn in place."""

from __future__ import annotations

import os
from itertools import zip_longest
from typing import TYPE_CHECKING, NamedTuple, TextIO

from rich.cells import cell_len
from rich.console import Console

from graphrag_eval_async.cli.watch.columns import ASCII_BARS, BARS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.text import Text

COLUMNS, ROWS = 80, 24
"""The size of a terminal that does not tell."""

ERASE_LINE = "\x1b[K"
ERASE_BELOW = "\x1b[J"


class _Line(NamedTuple):
    plain: str
    text: str


class Terminal:
    """Keeps lines at the end of what a terminal shows, and changes them there.

    The cursor stays visible, on the row below the lines: a process that is killed leaves a terminal that
    works, with the lines still on it. Each change is one write, of nothing but the lines that differ.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._console = Console(file=stream, markup=False, emoji=False, highlight=False)
        if self._console.no_color:  # It would still make text bold.
            self._console = Console(
                file=stream, color_system=None, markup=False, emoji=False, highlight=False
            )
        self._lines: list[_Line] = []
        self._size = self.size()
        self.bars = BARS if _can_write(stream, BARS) else ASCII_BARS

    @property
    def is_usable(self) -> bool:
        """Whether it is a terminal whose cursor can be moved."""
        return self._stream.isatty() and not self._console.is_dumb_terminal

    def size(self) -> tuple[int, int]:
        """Its columns and rows, as they are now."""
        columns = rows = 0
        if self._stream.isatty():
            columns, rows = os.get_terminal_size(self._stream.fileno())
        return columns or COLUMNS, rows or ROWS

    def draw(self, render: Callable[[int, int], Sequence[Text]], *, above: Sequence[str] = ()) -> None:
        """Show other lines in place of the present ones.

        Args:
            render: gives the lines, which must fit into the columns and rows that it is called with.
            above: lines that are to stay, before those.

        Raises:
            OSError: they cannot be written.
        """
        size = self.size()
        # The last column stays free, since terminals do not agree on what comes after it.
        lines = [self._drawable(line) for line in render(size[0] - 1, size[1] - 1)]
        if size != self._size or above:
            text = self._back(size[0]) + ERASE_BELOW
            text += "".join(f"{line}\n" for line in (*above, *(line.text for line in lines)))
        else:
            text = self._changes(lines)
        self._lines, self._size = lines, size
        if text:
            encoding = self._stream.encoding
            self._stream.write(text.encode(encoding, "replace").decode(encoding))
            self._stream.flush()

    def _changes(self, lines: Sequence[_Line]) -> str:
        if lines == self._lines:
            return ""
        pairs = zip_longest(lines, self._lines[: len(lines)])
        changed = ["\n" if line == old else f"{line.text}{ERASE_LINE}\n" for line, old in pairs]
        return "".join([self._back(self._size[0]), *changed, ERASE_BELOW])

    def _back(self, columns: int) -> str:
        """To the first line; if the terminal has become narrower, lines may fill more rows."""
        rows = sum(_rows(line.plain, columns) for line in self._lines)
        return f"\r\x1b[{rows}A" if rows else "\r"

    def _drawable(self, line: Text) -> _Line:
        with self._console.capture() as capture:
            self._console.print(line, soft_wrap=True, end="")
        return _Line(line.plain, capture.get())


def _rows(text: str, columns: int) -> int:
    """How many rows a wrapped line fills; wide characters are not cut in two."""
    rows, free = 1, columns
    for character in text if cell_len(text) > columns else "":
        width = cell_len(character)
        if width > free:
            rows, free = rows + 1, columns
        free -= width
    return rows


def _can_write(stream: TextIO, text: str) -> bool:
    try:
        text.encode(stream.encoding)
    except UnicodeEncodeError:
        return False
    return True
