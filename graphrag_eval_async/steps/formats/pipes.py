"""Reads tables whose cells have pipes in between: Markdown, and what command lines print."""

from __future__ import annotations

import re
from enum import Enum, auto
from typing import TYPE_CHECKING

from graphrag_eval_async.errors import MalformedStep
from graphrag_eval_async.steps.formats.row_counts import row_count_in
from graphrag_eval_async.steps.formats.table import (
    AmbiguousStep,
    Table,
    column_name,
    document_of_rows,
)
from graphrag_eval_async.steps.formats.terms import read_term, untyped_term

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphrag_eval_async.steps.formats.terms import Term

_RULES = "-=+:| \t"
"""Characters of the lines between the rows of a table."""

MOST_LINES_ABOVE = 40
"""How many lines of other text may stand above a table."""

_BOX_LINES = (
    ("|", "│┃║┆┇┊┋╎╏┃"),
    ("-", "─━┄┅┈┉╌╍╴╶╸╺╼╾"),
    ("=", "═"),
    (" ", "╵╷╹╻╽╿"),
    ("+", "┌┍┎┏┐┑┒┓└┕┖┗┘┙┚┛├┝┞┟┠┡┢┣┤┥┦┧┨┩┪┫┬┭┮┯┰┱┲┳┴┵┶┷┸┹┺┻┼┽┾┿╀╁╂╃╄╅╆╇╈╉╊╋"),
    ("+", "╒╓╔╕╖╗╘╙╚╛╜╝╞╟╠╡╢╣╤╥╦╧╨╩╪╫╬╭╮╯╰"),
)
"""The characters of Unicode that draw boxes, by the character of ASCII that draws the same."""

_ASCII_OF_BOX = {ord(line): plain for plain, lines in _BOX_LINES for line in lines}

_BOX_RULES = "".join(lines for plain, lines in _BOX_LINES if plain != " ") + " "
"""Characters of the lines between the rows of a box that is drawn with Unicode."""

_ELLIPSES = frozenset({"..", "...", "…", "·"})
"""The cells of a row that stands for those that are not shown."""

is_type = re.compile(
    r"(?:u?(?:tiny|small|big|huge)?int(?:eger)?\d*|varchar|double|float|real|boolean|date|time"
    r"|timestamp[ \w]*|interval|uuid|blob|json|decimal\([\d,]+\)"
    r"|str|bool|[iuf]\d+|datetime|duration|list|struct|cat|enum|binary|null|object|decimal)"
    r"(?:\[[^\]]*\]*)?",
    re.IGNORECASE,
).fullmatch
"""Whether a cell is the type of a column, as DuckDB or polars writes it below a name."""

_pipes = re.compile(r"(?<!\\)\|").split


def has_pipes(text: str) -> bool:
    """Return whether a text seems to hold a table with pipes.

    It has a rule beside a line with pipes, or begins with two lines that begin and end with pipes.
    """
    lines = _drawn_in_ascii(text.split("\n", MOST_LINES_ABOVE)[:MOST_LINES_ABOVE])
    if any(_is_rule_of_table(lines, index) for index in range(len(lines))):
        return True
    return len(lines) > 1 and all(map(_has_edges, lines[:2]))


def _drawn_in_ascii(lines: list[str]) -> list[str]:
    """Return stripped lines, with the boxes of Unicode drawn in ASCII.

    If no line is a rule of such a box, its characters may stand in cells and are kept.
    """
    lines = [line.strip() for line in lines]
    if any(_is_rule_of_box(line) for line in lines):
        return [line.translate(_ASCII_OF_BOX).strip() for line in lines]
    return lines


def _has_edges(line: str) -> bool:
    """Return whether a line begins and ends with a pipe."""
    return len(line) > 2 and line.startswith("|") and line.endswith("|")


def _is_rule_of_box(line: str) -> bool:
    """Return whether a line consists of Unicode's characters that draw boxes."""
    return len(line) > 2 and not line.strip(_BOX_RULES)


def _is_rule_of_table(lines: list[str], index: int) -> bool:
    """Return whether a line is a rule of a table: a line next to it has pipes.

    The rule below a heading of Markdown is not.
    """
    if not _is_rule(lines[index]):
        return False
    beside = lines[max(index - 1, 0) : index + 2]
    return any("|" in line and not _is_rule(line) for line in beside)


def read_pipes(text: str) -> Table:
    """Read a header, a rule, and rows of the same width. Rules may also stand around the table and
    between its rows.

    Empty cells are unbound. A pipe in a cell has a backslash before it. Every line of the table has
    a pipe or is a rule; other text may stand above and below it.

    Raises:
        MalformedStep: there is no such table, or lines with pipes stand elsewhere, too.
        AmbiguousStep: rows are not shown.
    """
    # Find the lines of the table; all others are notes.
    lines = _drawn_in_ascii(text.split("\n"))
    start = 0
    while start < len(lines) and not (_is_rule_of_table(lines, start) or "|" in lines[start]):
        start += 1
    end = start
    while end < len(lines) and ("|" in lines[end] or _is_rule(lines[end])):
        end += 1
    notes = [line for line in [*lines[:start], *lines[end:]] if line]
    if any("|" in line for line in notes):
        raise MalformedStep("not one table with pipes: a line in it has none")

    # Read the names and the rows.
    header, rows = _split_header(lines[start:end])
    style = _style_of(lines[start:end])
    has_edges = header.startswith("|")
    names = [column_name(name) for name in _cells(header, has_edges=has_edges)]
    terms: list[list[Term | None]] = []
    for row in rows:
        cells = _cells(row, has_edges=has_edges)
        stated_count = row_count_in(row.strip("| "))
        is_narrow = len(cells) < len(names) and stated_count is not None
        is_count_of_rows = len(names) == 1 and stated_count == len(terms)
        if is_narrow or (is_count_of_rows and style is _Style.BOXED):
            notes.append(row)  # DuckDB writes the number of rows into the box.
            continue
        check_all_rows_shown(cells)
        terms.append([_read_cell(cell, style) for cell in cells])
    document = document_of_rows(names, terms)
    return Table(document, typed=False, has_blanks=True, unread="\n".join(notes))


class _Style(Enum):
    """How the cells of a table with pipes are written."""

    PLAIN = auto()
    """As text."""

    BOXED = auto()
    """As text, or as stores print terms in boxes: in Turtle's syntax."""

    RDFLIB = auto()
    """In Turtle's syntax, with a dash for an unbound cell. A rule without joints follows the names.
    """


def _style_of(table: list[str]) -> _Style:
    """Return how the cells of a table are written, by the rules in its first lines."""
    if _is_rule(table[0]):
        return _Style.BOXED
    if len(table) > 1 and set(table[1]) == {"-"}:
        return _Style.RDFLIB
    return _Style.PLAIN


def _split_header(table: list[str]) -> tuple[str, list[str]]:
    """Return the line with the names, and the lines of rows below its rule.

    The types that DuckDB and polars write below the names of columns are no row.

    Raises:
        MalformedStep: no rule follows the names.
    """
    first = 0
    while first < len(table) and _is_rule(table[first]):
        first += 1
    if first == len(table):
        raise MalformedStep("not a table with pipes: it has no header")

    below = table[first + 1 :]
    has_rule = len(below) > 0 and _is_rule(below[0])
    if first == 0 and not has_rule and not all(map(_has_edges, table)):
        raise MalformedStep("not a table with pipes: the second line must be dashes")

    # polars writes a rule of three dashes below each name, DuckDB none; both write a rule below the
    # types.
    if has_rule and set(_cells(below[0], has_edges=True)) == {"---"}:
        types_and_rule = below[1:3]
    else:
        types_and_rule = below[:2]
    rows = [line for line in below if not _is_rule(line)]
    if len(types_and_rule) == 2:
        types, rule = types_and_rule
        if _is_line_of_types(types) and _is_rule(rule):
            rows = rows[1:]

    header = table[first]
    if header.startswith("||"):  # Jira doubles the pipes beside names.
        header = header.replace("||", "|")
    return header, rows


def _is_line_of_types(line: str) -> bool:
    """Return whether each cell is the type of a column, as DuckDB and polars write it."""
    return all(map(is_type, _cells(line, has_edges=True)))


def check_all_rows_shown(cells: Sequence[str]) -> None:
    """Check that a row holds values, not the dots by which tools shorten tables.

    Raises:
        AmbiguousStep: the row consists of dots.
    """
    if len(cells) > 0 and _ELLIPSES.issuperset(cells):
        raise AmbiguousStep("the table is shortened: some rows are not shown")


def _is_rule(line: str) -> bool:
    """Return whether a line consists of dashes or equals signs, and what separates columns."""
    return bool(line) and not line.strip(_RULES) and ("-" in line or "=" in line)


def _cells(line: str, *, has_edges: bool) -> list[str]:
    """Return the texts between the pipes of a line.

    Args:
        line: a line of a table.
        has_edges: whether lines of the table begin, and may end, with pipes.
    """
    cells = _pipes(line)
    if has_edges and cells[0] == "":
        cells = cells[1:]
    if has_edges and len(cells) > 1 and cells[-1] == "":
        cells = cells[:-1]
    return [cell.strip().replace("\\|", "|") for cell in cells]


def _read_cell(text: str, style: _Style) -> Term | None:
    """Return the term in a cell that is written in a style; None if it is unbound."""
    if not text or (style is _Style.RDFLIB and text == "-"):
        return None
    if style is not _Style.PLAIN:
        # Stores that draw boxes write terms in Turtle's syntax; other tools write plain text.
        term = read_term(text)
        if term is not None:
            return term
    return untyped_term(text)
