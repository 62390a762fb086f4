"""Reads tables of HTML, as Virtuoso returns them to browsers and pandas shows them."""

from __future__ import annotations

import re

from graphrag_eval_async.errors import MalformedStep
from graphrag_eval_async.steps.formats.table import (
    AmbiguousStep,
    Table,
    column_name,
    document_of_rows,
    without_row_numbers,
)
from graphrag_eval_async.steps.formats.terms import untyped_term

MOST_CHARACTERS_ABOVE = 10_000
"""Characters within which a table begins, below scripts and styles."""

_table_starts = re.compile(r"<table[\s>]", re.IGNORECASE)

_tags = re.compile(r"<([^<>]*)>")


def has_html_table(text: str) -> bool:
    """Return whether a table of HTML begins in the first characters of a text.

    SPARQL results in XML are no such table, although their literals may hold one.
    """
    if "<sparql" in text[:MOST_CHARACTERS_ABOVE]:
        return False
    return _table_starts.search(text, 0, MOST_CHARACTERS_ABOVE) is not None


def read_html_table(text: str) -> Table:
    """Read the names in the first row of a table of HTML, and the other rows.

    Empty cells are unbound. The numbers of rows that pandas writes before them are no column.

    Raises:
        MalformedStep: there is no table, or a row is not as wide as the first one.
        AmbiguousStep: there are several tables.
    """
    if len(_table_starts.findall(text)) > 1:
        raise AmbiguousStep("several tables of HTML, of which any may be the result")
    rows = _cells_of(text)
    if not rows:
        raise MalformedStep("a table of HTML without rows")
    names, rows = without_row_numbers(rows[0], rows[1:])
    terms = [[untyped_term(cell) if cell else None for cell in row] for row in rows]
    document = document_of_rows([column_name(name) for name in names], terms)
    return Table(document, typed=False, has_blanks=True)


def _cells_of(text: str) -> list[list[str]]:
    """Return the text of each cell in each row of a table of HTML, without tags.

    Raises:
        MalformedStep: the table has a character that does not exist.
    """
    from html import unescape  # Takes a millisecond to import, and few outputs are HTML.

    rows: list[list[str]] = []
    is_in_cell = False
    # Texts and tags take turns; the first is the text before the first tag.
    for index, part in enumerate(_tags.split(text)):
        is_tag = index % 2 == 1
        if not is_tag:
            if is_in_cell:
                rows[-1][-1] += part
            continue
        tag = part.strip().partition(" ")[0].lower()
        if tag == "tr":
            rows.append([])
            is_in_cell = False
        elif tag in ("td", "th") and rows:
            rows[-1].append("")
            is_in_cell = True
        elif tag in ("/td", "/th", "/tr", "/table"):
            is_in_cell = False
    try:
        return [[unescape(cell).strip() for cell in row] for row in rows if row]
    except ValueError:  # The number of a character has too many digits.
        raise MalformedStep("a table of HTML with a character that does not exist") from None
