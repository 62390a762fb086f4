"""Reads tables whose columns are aligned by blanks, as pandas and command lines print them."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from graphrag_eval_async.errors import MalformedStep
from graphrag_eval_async.steps.formats.pipes import check_all_rows_shown, is_type
from graphrag_eval_async.steps.formats.right_aligned import read_right_aligned
from graphrag_eval_async.steps.formats.row_counts import row_count_in
from graphrag_eval_async.steps.formats.table import (
    AmbiguousStep,
    Table,
    column_name,
    document_of_rows,
    without_row_numbers,
)
from graphrag_eval_async.steps.formats.terms import untyped_term

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_CHARACTERS = 1_000_000
"""Characters of a table up to which it is read: people and models look at such tables."""

_has_gap = re.compile(r"\S {2,}\S|^ {3,}\S").search
"""Whether a line has two blanks between words, or begins with more, as above numbers of rows."""

_gaps = re.compile(" {2,}")

_other_separator = re.compile(r"[,;\t|<>{}]").search

_DASHES = "-=─━═"
"""Characters of the lines below names and around tables."""

_NO_NAMES = frozenset({"", "...", "…"})
"""What stands in the place of a name if a column has none, or if columns are not shown."""

_is_shape = re.compile(r"\[\d+ rows x \d+ columns\]|shape: \(\d+, \d+\)").fullmatch
"""Whether a line states the size of a table as pandas and polars do."""


class _Lines(NamedTuple):
    """The lines of a text with a table."""

    header: str
    rows: list[str]
    notes: list[str]
    """Lines around the table."""


def seems_aligned(text: str) -> bool:
    """Return whether rows follow a header that has gaps between its words, or a rule below it, or
    whether all cells end below the names.

    A header with commas, semicolons, tabs or pipes is one of another format.
    """
    first_line = text.lstrip("\n").partition("\n")[0]
    if _other_separator(first_line) is not None and not _is_shape(first_line.strip()):
        return False
    lines = _split_lines(text[:MOST_CHARACTERS])
    if not (lines.rows or lines.notes) or _other_separator(lines.header) is not None:
        return False
    if lines.rows and _has_gap(lines.header) is not None:
        return True
    if read_right_aligned(lines.header, lines.rows) is not None:
        return True
    # psql writes a rule below the name of a single column, which has no gap.
    second_line = text.lstrip("\n").partition("\n")[2].partition("\n")[0]
    return _is_rule(second_line.strip())


def read_aligned(text: str) -> Table:
    """Read names and rows whose cells stand below one another.

    The numbers of rows that pandas prints before them are no column.

    Raises:
        MalformedStep: a column has no name.
        AmbiguousStep: the table is shortened, or too long.
    """
    if len(text) > MOST_CHARACTERS:
        raise AmbiguousStep(
            f"a table aligned by blanks of more than {MOST_CHARACTERS:,} characters, which is too "
            "long to be read; write CSV or JSON"
        )
    lines = _split_lines(text)
    table = read_right_aligned(lines.header, lines.rows)
    if table is None:
        starts = _starts_of_columns(lines)
        table = [_cells(line, starts) for line in (lines.header, *lines.rows)]
    names = [column_name(name) for name in table[0]]
    rows = table[1:]

    for row in rows:
        # A first column without a name has the numbers of rows, which are always shown.
        check_all_rows_shown(row[1:] if names[0] == "" else row)
    names, rows = without_row_numbers(names, rows)
    if names[0] == "":
        raise MalformedStep("aligned by blanks: a column has no name")
    if not _NO_NAMES.isdisjoint(names):
        raise AmbiguousStep("the table is shortened: some columns are not shown, or have no name")

    terms = [[untyped_term(cell) if cell else None for cell in row] for row in rows]
    document = document_of_rows(names, terms)
    return Table(document, typed=False, has_blanks=True, unread="\n".join(lines.notes))


def _is_rule(line: str) -> bool:
    """Return whether a line consists of dashes, of which it begins with two, and of blanks."""
    if len(line) < 2 or line[0] not in _DASHES or line[1] not in _DASHES:
        return False
    return line.strip(f"{_DASHES} \t") == ""


def _split_lines(text: str) -> _Lines:
    """Return the header, the rows and the notes of a table, without the rules in it."""
    table: list[str] = []
    notes: list[str] = []
    is_below_dashes = False
    has_rule = False
    for line in text.split("\n"):
        plain = line.strip()
        if not plain:
            continue
        if _is_rule(plain):
            # polars writes three dashes below each name, and the types of columns below these.
            is_below_dashes = set(plain.split()) == {"---"}
            has_rule = True
            continue
        if is_below_dashes and all(map(is_type, _gaps.split(plain))):
            continue
        row_count = row_count_in(plain)
        # psql prints "(0 rows)" below the rule of a table without rows.
        is_below_header = row_count == 0 and len(table) == 1 and has_rule
        if _is_shape(plain) or (len(table) > 1 and row_count is not None) or is_below_header:
            notes.append(plain)
        else:
            table.append(line.rstrip())
        is_below_dashes = False
    if not table:
        return _Lines("", [], notes)
    return _Lines(table[0], table[1:], notes)


def _cells(line: str, starts: Sequence[int]) -> list[str]:
    """Split a line where columns start."""
    return [line[start:end].strip() for start, end in zip(starts, [*starts[1:], None], strict=True)]


def _starts_of_columns(lines: _Lines) -> list[int]:
    """Return the places where columns start, which are after places that are blank in all lines.

    Two blank places or more separate columns. If a name has a blank then, one place is enough:
    pandas leaves only one before texts.
    """
    width = max(map(len, [lines.header, *lines.rows]))
    is_blank = [True] * width
    for line in [lines.header, *lines.rows]:
        for place, character in enumerate(line):
            if character != " ":
                is_blank[place] = False
    starts = _starts_after_blanks(is_blank, least=2)
    if not any(" " in name for name in _cells(lines.header, starts)):
        return starts

    # Blanks in texts may stand below one another. pandas writes a name at the right of its column,
    # so a part of the line without a name belongs to the column that follows.
    starts = _starts_after_blanks(is_blank, least=1)
    named = starts[:1]
    for start, following in pairwise(starts):
        if lines.header[start:following].strip() or start == 0:
            named.append(following)
    return named


def _starts_after_blanks(is_blank: Sequence[bool], *, least: int) -> list[int]:
    """Return the places that are not blank and follow at least `least` blank places.

    The first place is also returned if it is not blank, although no blanks precede it.
    """
    starts: list[int] = []
    blanks = least
    for place, blank in enumerate(is_blank):
        if blank:
            blanks += 1
            continue
        if blanks >= least:
            starts.append(place)
        blanks = 0
    return starts
