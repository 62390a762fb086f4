"""A terminal, as far as the view makes use of one; whatever else is sent to it raises."""

from __future__ import annotations

import re

from rich.cells import cell_len

SEQUENCE = re.compile(r"\x1b\[(\d*(?:;\d+)*)([A-Za-z])")
CUT = re.compile(r"\x1b(?:\[[\d;]*)?(?=[\r\n])")
"""A sequence that is never ended, since the process was stopped; a terminal drops it, too."""
BLANK = " "


class Row:
    """The cells of a row; the second one of a wide character is empty. `wraps` says that the next goes on."""

    def __init__(self, columns: int) -> None:
        self.cells = [BLANK] * columns
        self.wraps = False


class Emulator:
    """What a terminal shows, and what has left it at the top.

    Attributes:
        columns: how wide it is.
        coloured: whether any text came with attributes.
        gone: the rows that have left it, as text.
    """

    def __init__(self, columns: int = 80, rows: int = 24) -> None:
        self.columns = columns
        self.coloured = False
        self.gone: list[str] = []
        self._rows = [Row(columns) for _ in range(rows)]
        self._row = self._column = 0
        self._rest = ""

    @property
    def screen(self) -> list[str]:
        """The rows, without blanks at their ends, and without blank rows at the end."""
        rows = [_text(row) for row in self._rows]
        while rows and not rows[-1]:
            rows.pop()
        return rows

    def feed(self, text: str) -> None:
        """Take what was written to it; a sequence may be cut anywhere."""
        text, self._rest = self._rest + text, ""
        at = 0
        while at < len(text):
            if text[at] != "\x1b":
                self._put(text[at])
                at += 1
                continue
            match = SEQUENCE.match(text, at)
            if match is None and (cut := CUT.match(text, at)):
                at = cut.end()
                continue
            if match is None:
                if len(text) - at > 20:
                    raise ValueError(f"unknown sequence: {text[at : at + 20]!r}")
                self._rest = text[at:]
                return
            self._obey(match[1], match[2])
            at = match.end()

    def _put(self, character: str) -> None:
        if character == "\r":
            self._column = 0
        elif character == "\n":
            self._down()
        elif not character.isprintable():
            raise ValueError(f"unknown character: {character!r}")
        else:
            width = cell_len(character)
            if self._column + width > self.columns:
                self._rows[self._row].wraps = True
                self._down()
                self._column = 0
            cells = self._rows[self._row].cells
            cells[self._column : self._column + width] = [character, *[""] * (width - 1)]
            self._column += width

    def _down(self) -> None:
        if self._row + 1 < len(self._rows):
            self._row += 1
        else:
            self.gone.append(_text(self._rows.pop(0)))
            self._rows.append(Row(self.columns))

    def _obey(self, numbers: str, command: str) -> None:
        if command == "A":
            self._row = max(0, self._row - int(numbers or 1))
            self._column = min(self._column, self.columns - 1)
        elif command == "K" and not numbers:
            self._erase_line()
        elif command == "J" and not numbers:
            self._erase_line()
            for i in range(self._row + 1, len(self._rows)):
                self._rows[i] = Row(self.columns)
        elif command == "m":
            self.coloured |= numbers not in ("", "0")
        else:
            raise ValueError(f"unknown sequence: {numbers}{command}")

    def _erase_line(self) -> None:
        row = self._rows[self._row]
        row.cells[self._column :] = [BLANK] * (self.columns - self._column)
        row.wraps = False

    def resize(self, columns: int, rows: int, *, reflow: bool) -> None:
        """Become another size: lines are cut off, or wrapped anew as newer terminals do."""
        if reflow:
            self._reflow(columns)
        else:
            for row in self._rows:
                row.cells = (row.cells + [BLANK] * columns)[:columns]
        self.columns = columns
        while len(self._rows) > rows and self._row < len(self._rows) - 1:
            self._rows.pop()
        while len(self._rows) > rows:
            self.gone.append(_text(self._rows.pop(0)))
            self._row -= 1
        self._rows += [Row(columns) for _ in range(rows - len(self._rows))]

    def _reflow(self, columns: int) -> None:
        """Wrap all lines anew; the cursor stays on the line that it was on."""
        lines: list[list[str]] = []
        wraps = False
        cursor = 0
        for i, row in enumerate(self._rows):
            if wraps:
                lines[-1] += row.cells
            else:
                lines.append(list(row.cells))
            wraps = row.wraps
            if i == self._row:
                cursor = len(lines) - 1
        self._rows = []
        for i, line in enumerate(lines):
            if i == cursor:
                self._row = len(self._rows)
            self._rows += _wrap(line, columns)


def _wrap(line: list[str], columns: int) -> list[Row]:
    while line and line[-1] == BLANK:
        line.pop()
    rows = [Row(columns)]
    free = 0
    for at, cell in enumerate(line):
        width = 2 if line[at + 1 : at + 2] == [""] else 1
        if cell and free + width > columns:
            rows[-1].wraps = True
            rows.append(Row(columns))
            free = 0
        rows[-1].cells[free] = cell
        free += 1
    return rows


def _text(row: Row) -> str:
    return "".join(row.cells).rstrip()
