"""A table as facts, and its renderings for a terminal, in Markdown and on a page.

A page renders tables with the macro `table_of_facts` in ``macros.html``.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from io import StringIO
from textwrap import wrap
from typing import TYPE_CHECKING, TextIO

from graphrag_eval_async.helpers.text import name_cell, one_line
from graphrag_eval_async.reports.markdown_text import code_cell, sentence, sentence_cell

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

DEFAULT_WIDTH = 80
"""Columns of a terminal where there is none to ask."""

MIN_WORDS_WIDTH = 16
"""Columns that are kept for each column of words; on a narrower terminal, the table overflows."""

MAX_HEADING_WIDTH = 24
"""Columns that one word of a heading may take."""

GAP = 2
"""Blanks between two columns."""


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table whose cells are text as it came from the data: each renderer escapes it.

    Attributes:
        title: what the table is about; "" for none.
        headings: a heading for each column.
        rows: the cells of each row.
        words: how many leading columns hold words; the others hold numbers.
        totals: how many of the last rows sum up the rows above them.
        notes: sentences that stand below the table.
        key: the id of the table on a page.
    """

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: int = 1
    totals: int = 0
    notes: Sequence[str] = ()
    key: str = ""

    @property
    def has_rows(self) -> bool:
        return len(self.rows) > 0


def render_terminal(
    tables: Iterable[Table], stream: TextIO | None = None, *, width: int | None = None
) -> str:
    """Return tables as plain text, a blank line between two of them.

    Tables without rows are skipped.

    Args:
        tables: what to render.
        stream: where the text will go: its encoding decides how lines are drawn, and the width of
            its terminal how wide tables may be.
        width: replaces the width of the terminal.
    """
    if width is None:
        width = width_of(stream)
    blocks = ["\n".join(_terminal_lines(table, width)) for table in tables if table.has_rows]
    text = "\n\n".join(blocks)

    encoding = "utf-8"
    if stream is not None and stream.encoding:  # A `StringIO` has none.
        encoding = stream.encoding
    if encoding.lower().startswith("utf"):
        return text
    return text.replace("─", "-")


def width_of(stream: TextIO | None) -> int:
    """Return the number of columns of a terminal, or `DEFAULT_WIDTH` if `stream` is no terminal."""
    if stream is None or not stream.isatty():
        return DEFAULT_WIDTH
    # A terminal that does not know its width says 0.
    return os.get_terminal_size(stream.fileno()).columns or DEFAULT_WIDTH


def fold(sentences: Iterable[str]) -> list[str]:
    """Return the lines of sentences, each of which is wrapped at `DEFAULT_WIDTH`."""
    lines: list[str] = []
    for text in sentences:
        # Ids, which may have hyphens, stay whole.
        lines += wrap(one_line(text), DEFAULT_WIDTH, subsequent_indent="  ", break_on_hyphens=False)
    return lines


def _terminal_lines(table: Table, width: int) -> Iterator[str]:
    """Yield the lines of a table: its title, its rows, and its notes.

    If not all columns of numbers fit beside the columns of words, the table is drawn in parts below
    each other. Each part repeats the columns of words.

    Args:
        table: what to render.
        width: the columns of the terminal.
    """
    # Turn rows into columns: each column takes one cell of each row, after its heading.
    lines = [table.headings, *table.rows]
    columns = [list(map(name_cell, column)) for column in zip(*lines, strict=True)]
    word_columns = columns[: table.words]
    number_columns = columns[table.words :]
    for column in number_columns:
        heading = column[0]
        column[0] = _narrow_heading(heading, column[1:])

    if table.title:
        yield from wrap(one_line(table.title), width)
    min_room_for_words = sum(min(MIN_WORDS_WIDTH, _width(column)) + GAP for column in word_columns)
    parts = _split_to_fit(number_columns, width - min_room_for_words)
    for place, numbers_of_part in enumerate(parts):
        is_first = place == 0
        if not is_first:
            yield ""
        room_for_words = width - sum(_width(column) + GAP for column in numbers_of_part)
        columns_of_part = [*_wrapped_words(word_columns, room_for_words), *numbers_of_part]
        yield from _draw(columns_of_part, words=table.words, totals=table.totals)
    yield from fold(table.notes)


def _split_to_fit(columns: Iterable[list[str]], room: int) -> list[list[list[str]]]:
    """Divide columns into parts of neighbours that fit beside each other.

    Args:
        columns: the cells of each column.
        room: how many columns of the terminal a part may take. A single column may take more.

    Returns:
        the columns of each part; one part without columns if there are none.
    """
    parts: list[list[list[str]]] = [[]]
    used = 0
    for column in columns:
        width = _width(column) + GAP
        is_too_wide = used + width > room
        if is_too_wide and parts[-1]:
            parts.append([])
            used = 0
        parts[-1].append(column)
        used += width
    return parts


def _wrapped_words(columns: Sequence[Sequence[str]], room: int) -> list[list[str]]:
    """Return columns of words with their cells wrapped, so that the columns fit beside each other.

    They get equal shares of the room. If a column needs less, the columns to its right get more.

    Args:
        columns: the cells of each column.
        room: how many columns of the terminal they may take together.
    """
    wrapped_columns: list[list[str]] = []
    for place, column in enumerate(columns):
        columns_left = len(columns) - place
        gaps = GAP * (columns_left - 1)
        share = (room - gaps) // columns_left
        width = max(MIN_WORDS_WIDTH, share)
        wrapped = [wrap_name(cell, width) for cell in column]
        wrapped_columns.append(wrapped)
        room -= _width(wrapped) + GAP
    return wrapped_columns


def _draw(columns: Sequence[Sequence[str]], *, words: int, totals: int) -> list[str]:
    """Return the lines of a table whose cells are escaped and wrapped already.

    Args:
        columns: the heading and the cells of each column.
        words: how many leading columns hold words.
        totals: how many of the last rows stand below a line.
    """
    # rich takes long to import, and most commands draw no table.
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    drawn = RichTable(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    # Turn columns into rows, the first of which are the headings.
    headings, *rows = zip(*columns, strict=True)
    for place, heading in enumerate(headings):
        holds_words = place < words
        drawn.add_column(
            Text(heading),
            justify="left" if holds_words else "right",
            vertical="top",
            no_wrap=True,
        )
    rows_above_totals = len(rows) - totals
    for row_number, row in enumerate(rows, start=1):
        is_before_totals = totals > 0 and row_number == rows_above_totals
        drawn.add_row(*map(Text, row), end_section=is_before_totals)

    text = StringIO()
    # The console is wider than any table: rich would wrap the cells, which are wrapped already.
    console = Console(file=text, width=10_000, color_system=None, legacy_windows=False)
    console.print(drawn)
    return [line.rstrip() for line in text.getvalue().splitlines()]


def wrap_name(name: str, width: int) -> str:
    """Return a name on lines of at most `width` columns, broken after blanks and separators.

    A part without a separator that is longer than a line is cut off, with three dots.
    """
    from rich.cells import cell_len

    lines = [""]
    # A part is a word with the blanks and separators after it.
    for part in re.findall(r"[^\s_./:-]*[\s_./:-]*", name):
        if cell_len(lines[-1] + part.rstrip()) <= width:
            lines[-1] += part
        else:
            lines.append(part.lstrip())
    cut_lines = [_cut(line.strip(), width) for line in lines if line.strip()]
    # A name of blanks has no lines, and stays as it is.
    return "\n".join(cut_lines) or name


def _narrow_heading(heading: str, cells: Sequence[str]) -> str:
    """Return a heading on several lines if it is wider than the cells below it.

    The lines are at most as wide as the widest cell or, if this is more, the widest word of the
    heading.
    """
    words = re.split(r"(?<=[_ ])", heading)
    widest_word = min(_width([word.rstrip() for word in words]), MAX_HEADING_WIDTH)
    return wrap_name(heading, max(_width(cells), widest_word))


def _cut(line: str, width: int) -> str:
    """Return a line of at most `width` columns; one that is longer ends with three dots."""
    from rich.cells import cell_len, set_cell_size

    if cell_len(line) <= width:
        return line
    return set_cell_size(line, width - 3).rstrip() + "..."


def _width(cells: Iterable[str]) -> int:
    """Return how many columns of a terminal the widest line of all cells takes; 0 for no cells."""
    from rich.cells import cell_len

    widths = [cell_len(line) for cell in cells for line in cell.split("\n")]
    return max(widths, default=0)


def render_markdown_table(table: Table, *, max_rows: int | None = None) -> list[str]:
    """Return the lines of a table as Markdown, with its title and notes.

    Words are code spans, so that nothing from the data is markup.

    Args:
        table: what to render.
        max_rows: how many rows to show; a line below the table counts the others. None for all.

    Returns:
        [] if the table has no rows.
    """
    if not table.has_rows:
        return []
    lines: list[str] = []
    if table.title:
        lines += [f"### {sentence(table.title)}", ""]

    lines.append(_markdown_row([sentence_cell(heading) for heading in table.headings]))
    # Columns of numbers are aligned to the right.
    number_columns = len(table.headings) - table.words
    lines.append(_markdown_row(["---"] * table.words + ["---:"] * number_columns))
    shown_rows = table.rows[:max_rows]
    for row in shown_rows:
        words = [code_cell(cell) if cell else "" for cell in row[: table.words]]
        numbers = [sentence_cell(cell) for cell in row[table.words :]]
        lines.append(_markdown_row([*words, *numbers]))

    hidden = len(table.rows) - len(shown_rows)
    if hidden:
        lines += ["", f"*Cut: the last {hidden} rows.*"]
    if table.notes:
        lines += ["", " ".join(map(sentence, table.notes))]
    return lines


def _markdown_row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
