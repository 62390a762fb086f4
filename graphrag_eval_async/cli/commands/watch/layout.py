"""Fits tables into the width and the height of a terminal."""

from __future__ import annotations

from dataclasses import dataclass
from io import StringIO
from typing import TYPE_CHECKING, Literal

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from rich.console import RenderableType

GAP = 2
"""Blanks between two columns."""

SEPARATOR = "   "
"""What stands between the parts of a line."""

LEAST_TEXT = 24
"""Least width of a column of text, below which other columns are left out; chosen."""

MOST_TEXT = 32
"""Greatest width of a column of text, except for the last one; chosen."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Column:
    """A column of a table on the screen.

    Attributes:
        heading: the heading.
        cells: a cell for each row.
        is_text: whether the cells are text, which is cut off if it is too wide. Other cells, such
            as numbers, are never cut off.
        justify: the side at which cells stand.
        importance: if the width does not suffice, the column with the lowest importance is left
            out, and so on. Columns of text are never left out.
    """

    heading: str
    cells: Sequence[Text]
    is_text: bool = False
    justify: Literal["left", "right"] = "right"
    importance: int = 0

    @property
    def width(self) -> int:
        """The width of the widest cell or the heading."""
        return max(cell_len(self.heading), *(cell.cell_len for cell in self.cells))

    @property
    def least_width(self) -> int:
        """The width that the column needs at least."""
        return min(self.width, LEAST_TEXT) if self.is_text else self.width


def text_column(heading: str, cells: Sequence[Text]) -> Column:
    """Return a column of text."""
    return Column(heading=heading, cells=cells, is_text=True, justify="left")


def table_lines(columns: Sequence[Column], width: int) -> list[Text]:
    """Return a table as lines of at most `width` cells: the headings, then the rows."""
    columns = _columns_that_fit(columns, width)
    table = Table(box=None, padding=(0, GAP, 0, 0), pad_edge=False, header_style="dim")
    widths = _widths(columns, width)
    for column, column_width in zip(columns, widths, strict=True):
        table.add_column(
            Text(column.heading),
            width=column_width,
            justify=column.justify,
            no_wrap=True,
            overflow="ellipsis",
        )
    cells_by_column = [column.cells for column in columns]
    for row in zip(*cells_by_column, strict=True):
        table.add_row(*row)
    return lines_of(table, width)


def _columns_that_fit(columns: Sequence[Column], width: int) -> list[Column]:
    """Return the columns that fit into `width` cells together.

    The least important ones are left out first; columns of text always stay.
    """
    fitting = list(columns)
    while True:
        gaps = GAP * (len(fitting) - 1)
        needed_width = gaps + sum(column.least_width for column in fitting)
        removable = [column for column in fitting if not column.is_text]
        if needed_width <= width or not removable:
            return fitting
        least_important = min(removable, key=lambda column: column.importance)
        fitting.remove(least_important)


def _widths(columns: Sequence[Column], width: int) -> list[int]:
    """Return the width of each column of a table that is at most `width` cells wide.

    Each column has its least width at first. The cells that are left go to the columns of text, the
    first ones first. If even the least widths do not fit, the columns of text shrink.
    """
    gaps = GAP * (len(columns) - 1)
    # This is negative if the least widths do not fit.
    spare = width - gaps - sum(column.least_width for column in columns)
    last = columns[-1]
    widths = []
    for column in columns:
        greatest_width = column.width
        # The last column may be wider: nothing stands to the right of it.
        if column.is_text and column is not last:
            greatest_width = min(greatest_width, MOST_TEXT)
        growth = min(spare, greatest_width - column.least_width)
        column_width = max(1, column.least_width + growth)
        widths.append(column_width)
        spare -= column_width - column.least_width
    return widths


def lines_of(renderable: RenderableType, width: int) -> list[Text]:
    """Render an object of rich, such as a table, as lines of at most `width` cells."""
    console = Console(width=max(1, width), file=StringIO(), markup=False, highlight=False)
    lines = []
    for segments in console.render_lines(renderable, pad=False):
        line = Text()
        for segment in segments:
            line.append(segment.text, segment.style)
        line.rstrip()
        lines.append(line)
    return lines


def flow(parts: Iterable[Text], width: int) -> list[Text]:
    """Return texts side by side, on as many lines as they need; no text is broken."""
    lines: list[Text] = []
    for part in parts:
        if lines and lines[-1].cell_len + len(SEPARATOR) + part.cell_len <= width:
            lines[-1].append(SEPARATOR).append_text(part)
        else:
            lines.append(part.copy())
    return lines


@dataclass(frozen=True, kw_only=True, eq=False)
class Section:
    """A part of the screen: a line of headings, and as many rows below it as there is room for.

    Attributes:
        rows: number of rows that there are.
        draw: returns the line of headings and the given number of rows.
        least: number of rows without which the section is left out, if there are so many.
        most: greatest number of rows.
    """

    rows: int
    draw: Callable[[int], list[Text]]
    least: int = 1
    most: int = 1000


def stack_sections(sections: Sequence[Section], height: int) -> list[Text]:
    """Return sections below each other, in at most `height` lines, with a blank line before each.

    Each section gets its least number of rows, if they fit; the first sections come first. The
    lines that are left are shared: each section gets one more row in turn.
    """
    rows_by_section: dict[Section, int] = {}
    free_lines = height
    for section in sections:
        rows = min(section.least, section.rows)
        # The headings and the blank line before them are two more lines.
        lines = rows + 2
        if rows and lines <= free_lines:
            rows_by_section[section] = rows
            free_lines -= lines

    growing = list(rows_by_section)
    while free_lines and growing:
        for section in list(growing):
            if rows_by_section[section] >= min(section.most, section.rows):
                growing.remove(section)
            elif free_lines:
                rows_by_section[section] += 1
                free_lines -= 1

    stacked: list[Text] = []
    for section, rows in rows_by_section.items():
        stacked += [Text(), *section.draw(rows)]
    return stacked
