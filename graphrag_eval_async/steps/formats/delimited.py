"""Reads CSV and TSV, as the standard says and as stores and tools write them.

https://www.w3.org/TR/sparql11-results-csv-tsv/
"""

from __future__ import annotations

import csv
import io
import re
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from graphrag_eval_async.errors import MalformedStep
from graphrag_eval_async.steps.formats.row_counts import row_count_in
from graphrag_eval_async.steps.formats.table import (
    Table,
    answer,
    column_name,
    document_of_rows,
    is_plain_name,
)
from graphrag_eval_async.steps.formats.terms import read_term, untyped_term

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from graphrag_eval_async.steps.formats.terms import Term

_find_iri_cell = re.compile(r"(?:^|[,;])<[A-Za-z][\w+.-]*:", re.MULTILINE).search

USUAL_LIMIT = 131_072
"""Characters of a cell that Python's reader of CSV reads by default."""

_limit_lock = threading.Lock()

LONGEST_ANSWER = 100
"""Characters below which a text is looked at for the answer to ASK."""


def is_tsv(text: str) -> bool:
    """Return whether the header of a text is that of TSV: names with tabs in between, or one with a
    question mark.
    """
    header = text.partition("\n")[0]
    if "\t" in header:
        return header.count("\t") >= header.count(",")
    return header[:1] in ("?", "$") and "," not in header


def read_tsv(text: str) -> Table:
    """Read a header of names with tabs in between, and rows that are as wide.

    A cell is a term in Turtle's syntax if it looks like one, or else text; an empty cell is
    unbound. Names may have a question mark or quotes. If the table has several columns, no empty
    line at its end is a row; if it has one, the last empty line is none.

    Raises:
        MalformedStep: a name is repeated, or a row is not as wide as the header.
    """
    header, *lines = text.replace("\r\n", "\n").split("\n")
    if header == "":
        return _table_without_columns(lines)
    names = [column_name(name) for name in header.split("\t")]
    while lines and not lines[-1]:
        lines.pop()
        if len(names) == 1:
            break
    rows = [line.split("\t") for line in lines]
    note = ""
    if rows and _states_row_count(rows, width=len(names)):
        note = lines.pop()
        while lines and not lines[-1]:
            lines.pop()
        rows = rows[: len(lines)]
    if rows and len(rows[-1]) < len(names):
        # Tools strip a text, and so the tabs before empty cells at its end.
        rows[-1] += [""] * (len(names) - len(rows[-1]))
    if any(len(row) != len(names) for row in rows):
        rows = _split_quoted_lines(lines, width=len(names)) or rows

    typed = True
    terms: list[list[Term | None]] = []
    for row in rows:
        cells = [_read_tsv_cell(text.strip()) for text in row]
        typed = typed and all(cell.is_term for cell in cells)
        terms.append([cell.term for cell in cells])
    try:
        document = document_of_rows(names, terms)
    except MalformedStep as error:
        raise MalformedStep(f"not SPARQL TSV: {error}") from None
    return Table(document, typed=typed, has_blanks=not typed, unread=note)


class _Cell(NamedTuple):
    term: Term | None  # None if it is unbound.
    is_term: bool  # Whether its syntax is that of a term.


def _read_tsv_cell(text: str) -> _Cell:
    if not text:
        return _Cell(None, is_term=True)
    term = read_term(text)
    if term is not None:
        return _Cell(term, is_term=True)
    return _Cell(untyped_term(text), is_term=False)


def _split_quoted_lines(lines: Sequence[str], *, width: int) -> list[list[str]] | None:
    """Split rows whose cells in quotes hold tabs and line breaks; None if they are not as wide."""
    try:
        rows = list(csv.reader(lines, delimiter="\t", strict=True))
    except csv.Error:
        return None
    if any(len(row) != width for row in rows):
        return None
    return rows


def read_csv(text: str, *, is_declared: bool = False) -> Table:
    """Read a header of names, and rows that are as wide.

    Empty cells are unbound. Empty lines at the end are no rows, unless a table with one column has
    no others. A header alone may be a sentence: it is a table only if the text is declared to be
    CSV, or if it has several columns and ends with a line break. `true` or `false` alone, or below
    the `_askResult` of Jena, is the answer to ASK.

    Raises:
        MalformedStep: it is nothing of this.
    """
    boolean = _answer_to_ask(text)
    if boolean is not None:
        return Table(answer(boolean), typed=True)
    if is_declared and text[:1] in ("\r", "\n"):
        lines = text.replace("\r\n", "\n").split("\n")
        return _table_without_columns(lines[1:])
    if not text.strip():
        raise _no_csv("empty, a header is missing")
    delimiter = _delimiter(text)
    try:
        header, *rows = _split_rows(text, delimiter)
    except (csv.Error, ValueError) as error:
        raise _no_csv(str(error)) from None
    names = [column_name(name) for name in header]
    if not rows and not is_declared:
        _check_lone_header(text, names)
    rows, note = _split_off_note(rows, width=len(names))
    terms = [[untyped_term(cell) if cell else None for cell in row] for row in rows]
    try:
        document = document_of_rows(names, terms)
    except MalformedStep as error:
        raise _no_csv(str(error)) from None
    return Table(document, typed=False, has_blanks=True, unread=note)


def has_cells_like_terms(text: str) -> bool:
    """Return whether cells of CSV look like RDF terms in Turtle's syntax, not like their text."""
    return '""@' in text or '""^^' in text or _find_iri_cell(text) is not None


def is_lone_header(output: object, name: str) -> bool:
    """Return whether an output is the header of an empty table whose one column has this name."""
    if not isinstance(output, str):
        return False
    line = output.strip("\ufeff \t\r\n")
    return "\n" not in line and column_name(line) == name


def _answer_to_ask(text: str) -> bool | None:
    """Return the boolean that a text says, alone or below the header of Jena; None if none."""
    if len(text) >= LONGEST_ANSWER:
        return None
    words = text.lower().split()
    if not words or words[-1] not in ("true", "false") or words[:-1] not in ([], ["_askresult"]):
        return None
    return words[-1] == "true"


def _delimiter(text: str) -> str:
    """Return what separates the cells of the header: a comma, or else a semicolon, or else a pipe,
    as command lines of databases write it.
    """
    header = text.partition("\n")[0]
    for delimiter in (",", ";", "|"):
        if delimiter in header:
            return delimiter
    return ","


def _split_rows(text: str, delimiter: str) -> list[list[str]]:
    """Return the cells of each line that is a row.

    Raises:
        csv.Error, ValueError: it is no CSV.
    """
    lines = text.rstrip("\r\n")
    has_blanks = _has_blanks_after(delimiter, lines)

    def read(*, strict: bool) -> list[list[str]]:
        source = io.StringIO(lines, newline="")
        reader = csv.reader(source, delimiter=delimiter, skipinitialspace=has_blanks, strict=strict)
        return list(reader)

    with _cells_of_any_length(len(lines)):
        try:
            rows = read(strict=True)
        except csv.Error:  # Such as text after a cell in quotes.
            rows = read(strict=False)
    if len(rows[0]) > 1:
        return rows
    rows = [row or [""] for row in rows]
    if len(rows) == 1:
        # Empty lines below a header with one name are rows with an unbound cell.
        line_breaks = text[len(lines) :].replace("\r\n", "\n")
        rows += [[""]] * (len(line_breaks) - 1)
    return rows


def _has_blanks_after(delimiter: str, text: str) -> bool:
    """Return whether a blank follows each delimiter of the header: those in rows are no text."""
    header = text.partition("\n")[0]
    count = header.count(delimiter)
    return count > 0 and header.count(f"{delimiter} ") == count


@contextmanager
def _cells_of_any_length(most_characters: int) -> Iterator[None]:
    """Let Python's reader of CSV read cells of so many characters.

    Its limit is one for the whole process, so it is raised only if need be, and set back.
    """
    if most_characters <= USUAL_LIMIT:
        yield
        return
    with _limit_lock:
        limit = csv.field_size_limit()
        csv.field_size_limit(max(limit, most_characters))
        try:
            yield
        finally:
            csv.field_size_limit(limit)


def _check_lone_header(text: str, names: Sequence[str]) -> None:
    """Raise `MalformedStep` unless a text of one line is surely a header, not a sentence."""
    if not all(map(is_plain_name, names)):
        raise MalformedStep(
            "neither SPARQL results nor a table; not JSON, XML, TSV, Markdown or a list of "
            "objects; as CSV, the first line is not a header"
        )
    if len(names) == 1 or not text.endswith("\n"):
        raise MalformedStep(
            "neither SPARQL results nor a table; not JSON, XML, TSV, Markdown or a list of "
            "objects; as CSV, there is only a header; output_media_type: text/csv in the step "
            "makes that an empty table"
        )


def _split_off_note(rows: list[list[str]], *, width: int) -> tuple[list[list[str]], str]:
    """Return the rows of a table, and the text that follows it below an empty line.

    It is a note only if it has no row of the table's width. One column is too narrow to tell. A
    last line that states the number of rows is a note, too, also without an empty line.
    """
    if rows and len(rows[-1]) > 0 and _states_row_count(rows, width=width):
        return [row for row in rows[:-1] if row], ",".join(rows[-1])
    if width == 1 or [] not in rows:
        return rows, ""
    end = rows.index([])
    below = [row for row in rows[end:] if row]
    if any(len(row) == width for row in below):
        return [row for row in rows if row], ""
    return rows[:end], "\n".join(",".join(row) for row in below)


def _states_row_count(rows: Sequence[Sequence[str]], *, width: int) -> bool:
    """Return whether the last of some rows states a number of rows: any number if it is narrower
    than the table, or else the number of rows above it.
    """
    number = row_count_in(",".join(rows[-1]))
    if number is None:
        return False
    if len(rows[-1]) < width:
        return True
    return width == 1 and number == sum(1 for row in rows[:-1] if any(row))


def _table_without_columns(lines: Sequence[str]) -> Table:
    """Return the table below an empty header: each empty line is a row, but for the last."""
    if any(lines):
        raise MalformedStep("the header is empty")
    rows: list[list[Term | None]] = [[] for _ in lines[:-1]]
    return Table(document_of_rows([], rows), typed=True)


def _no_csv(problem: str) -> MalformedStep:
    return MalformedStep(f"neither SPARQL results nor a table; as CSV: {problem}")
