"""Lines of text on a terminal, drawn in place."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, TextIO

from rich.cells import chop_cells
from rich.console import Console
from rich.text import Text

from graphrag_eval_async.cli.watch.columns import ASCII_BARS, BARS
from graphrag_eval_async.text import escape

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

COLUMNS, ROWS = 80, 24  # the size of a terminal that does not tell
ERASE_LINE = "\x1b[K"
ERASE_BELOW = "\x1b[J"


class Terminal:
    """Keeps lines at the end of what a terminal shows, and changes them there.

    The cursor stays visible, on the row below the lines: a process that is killed leaves a terminal that
    works, with the lines still on it.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        # Without a colour system, rich would leave out the colours, but not bold.
        self._console = Console(
            file=stream,
            color_system=None if os.environ.get("NO_COLOR") else "auto",
            markup=False,
            emoji=False,
            highlight=False,
        )
        self._lines: Sequence[Text] = ()
        self._drawn: object = None
        self.encoding = stream.encoding or "utf-8"  # A `StringIO` has none.
        self.bars = BARS if self.encoding.lower().startswith("utf") else ASCII_BARS

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
        """Replace the lines, in one write.

        `render` gives lines that fit into the columns and rows it is called with; the lines `above` stay.
        """
        columns, rows = self.size()
        # The last column stays free, since terminals do not agree on what comes after it.
        lines = render(columns - 1, rows - 1)
        # If the terminal has become narrower, old lines may fill more rows.
        up = sum(max(1, len(chop_cells(line.plain, columns))) for line in self._lines)
        text = "".join(
            [
                f"\r\x1b[{up}A" if up else "\r",
                *(f"{ERASE_BELOW}{escape(line)}\n" for line in above),  # They may fill several rows.
                *(f"{ERASE_LINE}{self._styled(line)}\n" for line in lines),
                ERASE_BELOW,
            ]
        )
        drawn = (columns, rows, text)
        if drawn != self._drawn or above:
            self._stream.write(text.encode(self.encoding, "replace").decode(self.encoding))
            self._stream.flush()
        self._lines, self._drawn = lines, drawn

    def _styled(self, line: Text) -> str:
        if (safe := escape(line.plain)) != line.plain:
            line = Text(safe, line.style)
        with self._console.capture() as capture:
            self._console.print(line, soft_wrap=True, end="")
        return capture.get()
