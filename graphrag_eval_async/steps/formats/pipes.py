"""Reads tables whose cells have pipes in between: Markdown, and what command lines print."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from graphrag_eval_async.errors import MalformedStep
from graphrag_eval_async.steps.formats.table import Table, column_name, document_of_rows
from graphrag_eval_async.steps.formats.terms import read_term, untyped_term

if TYPE_CHECKING:
    from graphrag_eval_async.steps.formats.terms import Term

_RULES = "-=+:| \t"
"""Characters of the lines between the rows of a table."""

MOST_LINES_ABOVE = 40
"""How many lines of other text may stand above a table."""

_pipes = re.compile(r"(?<!\\)\|").split


def has_pipes(text: str) -> bool:
    """Return whether a text seems to hold a table with pipes: a rule, and a line with pipes beside
    it.
    """
    lines = [line.strip() for line in text.split("\n", MOST_LINES_ABOVE)[:MOST_LINES_ABOVE]]
    return any(_is_rule_of_table(lines, index) for index in range(len(lines)))


def _is_rule_of_table(lines: list[str], index: int) -> bool:
    """Return whether a line is a rule beside a line with pipes, not below a heading."""
    if not _is_rule(lines[index]):
        return False
    beside = lines[max(index - 1, 0) : index + 2]
    return any("|" in line and not _is_rule(line) for line in beside)


def read_pipes(text: str) -> Table:
    """Read a header, a rule, and rows that are as wide; rules may also stand around and between.

    Empty cells are unbound. A pipe in a cell has a backslash before it. Every line of the table has
    a pipe or is a rule; other text may stand above and below it.

    Raises:
        MalformedStep: there is no such table, or lines with pipes stand elsewhere, too.
    """
    lines = [line.strip() for line in text.split("\n")]
    start = 0
    while start < len(lines) and not (_is_rule_of_table(lines, start) or "|" in lines[start]):
        start += 1
    end = start
    while end < len(lines) and ("|" in lines[end] or _is_rule(lines[end])):
        end += 1
    table = lines[start:end]
    around = [line for line in [*lines[:start], *lines[end:]] if line]
    if any("|" in line for line in around):
        raise MalformedStep("not one table with pipes: a line in it has none")

    is_boxed = _is_rule(table[0]) if table else False
    if is_boxed:
        header, *rows = [line for line in table if not _is_rule(line)] or [""]
    elif len(table) > 1 and _is_rule(table[1]):
        header, rows = table[0], table[2:]
    else:
        raise MalformedStep("not a table with pipes: the second line must be dashes")
    has_edges = header.startswith("|")
    names = [column_name(name) for name in _cells(header, has_edges=has_edges)]
    terms = []
    for row in rows:
        cells = _cells(row, has_edges=has_edges)
        terms.append([_read_cell(cell, is_boxed=is_boxed) for cell in cells])
    document = document_of_rows(names, terms)
    return Table(document, typed=False, has_blanks=True, unread="\n".join(around))


def _is_rule(line: str) -> bool:
    """Return whether a line consists of dashes or equals signs, and what separates columns."""
    return bool(line) and not line.strip(_RULES) and ("-" in line or "=" in line)


def _cells(line: str, *, has_edges: bool) -> list[str]:
    """Split a line at its pipes; with edges, the first and the last of them are no separators."""
    cells = _pipes(line)
    if has_edges and cells[0] == "":
        cells = cells[1:]
    if has_edges and len(cells) > 1 and cells[-1] == "":
        cells = cells[:-1]
    return [cell.strip().replace("\\|", "|") for cell in cells]


def _read_cell(text: str, *, is_boxed: bool) -> Term | None:
    """Return the term in a cell; None if it is empty. Stores print terms in boxes."""
    if not text:
        return None
    term = read_term(text) if is_boxed else None
    return untyped_term(text) if term is None else term
