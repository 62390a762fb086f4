"""A terminal, as far as the view makes use of one; whatever else is sent to it raises."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from rich.cells import cell_len

# Also a sequence that is never ended, since the process was stopped; a terminal drops it, too.
PARTS = re.compile(r"\x1b\[(\d*)(?:;\d+)*([AJKm])|\x1b(?:\[[\d;]*)?(?=[\r\n])|(.)", re.DOTALL)
UNFINISHED = re.compile(r"(?:\x1b(?:\[[\d;]*)?)?\Z")


@dataclass
class Row:
    """The cells of a row; the second one of a wide character is empty. `wraps` says that the
    next goes on.
    """

    cells: list[str] = field(default_factory=list)
    wraps: bool = False

    @property
    def text(self) -> str:
        return "".join(self.cells).rstrip()


class Emulator:
    """What a terminal shows, and what has `gone` at the top: it wraps lines anew if its size
    changes.
    """

    def __init__(self, columns: int = 80, rows: int = 24) -> None:
        self.columns, self._height = columns, rows
        self.coloured = False  # whether any text came with attributes
        self.gone: list[str] = []
        self._rows = [Row()]
        self._row = self._column = 0
        self._rest = ""

    @property
    def screen(self) -> list[str]:
        """The rows, without blanks at their ends, and without blank rows at the end."""
        return "\n".join(row.text for row in self._rows).rstrip("\n").splitlines()

    def feed(self, text: str) -> None:
        """Take what was written to it; a sequence may be cut anywhere."""
        text = self._rest + text
        unfinished = UNFINISHED.search(text)
        self._rest = unfinished[0] if unfinished else ""
        for number, command, character in PARTS.findall(text.removesuffix(self._rest)):
            if character:
                self._put(character)
            elif command == "A":
                self._row = max(0, self._row - int(number or 1))
                self._column = min(self._column, self.columns - 1)
            elif command in ("J", "K"):
                self._rows[self._row] = Row(self._rows[self._row].cells[: self._column])
                if command == "J":
                    del self._rows[self._row + 1 :]
            else:
                self.coloured |= number not in ("", "0")

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
            cells += " " * (self._column - len(cells))
            cells[self._column : self._column + width] = [character, *[""] * (width - 1)]
            self._column += width

    def _down(self) -> None:
        self._row += 1
        if self._row == len(self._rows):
            self._rows.append(Row())
        self._scroll()

    def _scroll(self) -> None:
        while len(self._rows) > self._height:
            self.gone.append(self._rows.pop(0).text)
            self._row -= 1

    def resize(self, columns: int, rows: int) -> None:
        """Become another size; the cursor stays on the line that it was on."""
        lines: list[list[str]] = []
        cursor, wraps = 0, False
        for i, row in enumerate(self._rows):
            lines[len(lines) - wraps :] = [(lines[-1] if wraps else []) + row.cells]
            wraps = row.wraps
            cursor = len(lines) - 1 if i == self._row else cursor
        self.columns, self._height, self._rows = columns, rows, []
        for i, cells in enumerate(lines):
            self._row = len(self._rows) if i == cursor else self._row
            self._rows += _wrapped(cells, columns)
        while len(self._rows) > rows and self._row < len(self._rows) - 1:
            self._rows.pop()
        self._scroll()


def _wrapped(cells: list[str], columns: int) -> list[Row]:
    rows = [Row()]
    for i, cell in enumerate(cells):
        width = 2 if cells[i + 1 : i + 2] == [""] else 1
        if cell and len(rows[-1].cells) + width > columns:
            rows[-1].wraps = True
            rows.append(Row())
        rows[-1].cells.append(cell)
    return rows
