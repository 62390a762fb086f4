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

WORDS_OF_STATUS = frozenset(
    {"error", "errors", "exception", "failed", "failure", "fail", "fatal", "timeout", "timed_out"}
    | {
        "aborted",
        "abort",
        "cancelled",
        "canceled",
        "denied",
        "forbidden",
        "unauthorized",
        "refused",
    }
    | {"unavailable", "invalid", "rejected", "killed", "terminated", "interrupted", "stopped"}
    | {"none", "null", "nil", "nan", "nothing", "empty", "unknown", "undefined", "unbound"}
    | {"true", "false", "yes", "no", "ok", "okay", "done", "success", "successful", "succeeded"}
    | {"finished", "completed", "complete", "ready", "running", "pending", "sorry", "warning"}
    | {"info", "debug", "notfound", "not_found", "missing", "n", "y"}
)
"""Words, in lower case, that a tool may write in place of a table."""

_answer_after_ask = re.compile(
    r"(?:the )?(?:(?:result|answer)\s+(?:of|to)\s+(?:the )?)?[?\"]?_?ask(?:_?result)?\b[\"]?"
    r"(?:\s+(?:query|result|answer|returned|returns|is|was))*\s*(?:=>|->|[:=])?\s*"
    r"(true|false|yes|no)[.!]?"
).fullmatch
"""Finds the answer in a text in lower case that names ASK and then says true or false."""

MOST_NAMES_IN_DOUBT = 5
"""How many names of columns are quoted where a text may be no table."""

LONGEST_DOUBT = 200
"""Characters up to which these names are quoted."""

LONGEST_ANSWER = 100
"""Characters below which a text is looked at for the answer to ASK."""


def is_tsv(text: str) -> bool:
    """Return whether a text begins with a header of TSV.

    It has more tabs than commas, or is a single name with the question mark of a variable.
    """
    header = text.partition("\n")[0]
    if "\t" in header:
        return header.count("\t") >= header.count(",")
    return header[:1] in ("?", "$") and "," not in header


def read_tsv(text: str) -> Table:
    """Read a header of names with tabs in between, and rows of the same width.

    A cell that looks like a term in Turtle's syntax is one, any other cell is text, and an empty
    cell is unbound. Names may have a question mark or quotes.

    Raises:
        MalformedStep: a name is repeated, or a row is not as wide as the header.
    """
    boolean = _answer_to_ask(text)
    if boolean is not None and "\t" not in text:
        return Table(answer(boolean), typed=True)
    header, *lines = text.replace("\r\n", "\n").split("\n")
    if header == "":
        return _table_without_columns(lines)
    names = [column_name(name) for name in header.split("\t")]
    tsv = _split_tsv(lines, width=len(names))

    typed = True
    rows: list[list[Term | None]] = []
    for row in tsv.rows:
        cells = [_read_tsv_cell(text.strip()) for text in row]
        typed = typed and all(cell.is_term for cell in cells)
        rows.append([cell.term for cell in cells])
    try:
        document = document_of_rows(names, rows)
    except MalformedStep as error:
        raise MalformedStep(f"not SPARQL TSV: {error}") from None
    return Table(document, typed=typed, has_blanks=not typed, unread=tsv.note)


class _Rows(NamedTuple):
    """The rows of a table as texts, and the note that follows them."""

    rows: list[list[str]]
    note: str  # Empty if there is none.


def _split_tsv(lines: Sequence[str], *, width: int) -> _Rows:
    """Return the cells of the lines below a header of TSV, some of which may have another width.

    In a table of several columns, no empty line at the end is a row. In a table of one column, only
    the last empty line is no row.
    """
    lines = [*lines]
    while lines and not lines[-1]:
        lines.pop()
        if width == 1:
            break

    rows = [line.split("\t") for line in lines]
    note = ""
    if _states_row_count(rows, width=width):
        note = lines.pop()
        while lines and not lines[-1]:
            lines.pop()
        rows = rows[: len(lines)]
    if rows and len(rows[-1]) < width:
        # Tools strip a text, and so the tabs before empty cells at its end.
        rows[-1] += [""] * (width - len(rows[-1]))
    if any(len(row) != width for row in rows):
        rows = _split_quoted_lines(lines, width=width) or rows
    return _Rows(rows, note)


class _Cell(NamedTuple):
    """A cell of TSV."""

    term: Term | None  # None if it is unbound.
    is_term: bool  # Whether its syntax is that of a term.


def _read_tsv_cell(text: str) -> _Cell:
    """Return the term in a cell of TSV, and whether it is written in Turtle's syntax.

    Other text becomes a term without a type. An empty cell is unbound, which Turtle's syntax
    allows.
    """
    if not text:
        return _Cell(None, is_term=True)
    term = read_term(text)
    if term is not None:
        return _Cell(term, is_term=True)
    return _Cell(untyped_term(text), is_term=False)


def _split_quoted_lines(lines: Sequence[str], *, width: int) -> list[list[str]] | None:
    """Return the cells of rows in which cells in quotes may hold tabs and line breaks.

    None if a row has not as many cells as `width` says.
    """
    try:
        with _long_cells(sum(map(len, lines))):
            rows = list(csv.reader(lines, delimiter="\t", strict=True))
    except csv.Error:
        return None
    if any(len(row) != width for row in rows):
        return None
    return rows


def read_csv(text: str, *, is_declared: bool = False) -> Table:
    """Read a header of names, and rows of the same width.

    Empty cells are unbound. Empty lines at the end are no rows, unless a table with one column has
    no others. A header alone may be a sentence: it is a table only if the text is declared to be
    CSV, or if it has several columns and ends with a line break. `true` or `false` alone, or below
    the `_askResult` of Jena, is the answer to ASK.

    Args:
        text: the table.
        is_declared: whether the step says that its output is CSV.

    Raises:
        MalformedStep: the text is none of these.
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
    terms = [[_read_csv_cell(text) for text in row] for row in rows]
    try:
        document = document_of_rows(names, terms)
    except MalformedStep as error:
        raise _no_csv(str(error)) from None
    doubt = ""
    if not is_declared and not all(map(is_plain_name, names)):
        quoted_names = ", ".join(map(repr, names[:MOST_NAMES_IN_DOUBT]))
        doubt = f"read as CSV with the columns {quoted_names[:LONGEST_DOUBT]}"
    return Table(document, typed=False, has_blanks=True, unread=note, doubt=doubt)


def _read_csv_cell(text: str) -> Term | None:
    """Return the term of a text in a cell; None if it is empty, and so unbound."""
    return untyped_term(text) if text else None


def has_cells_like_terms(text: str) -> bool:
    """Return whether cells of CSV look like RDF terms in Turtle's syntax, not like their text."""
    return '""@' in text or '""^^' in text or _find_iri_cell(text) is not None


def is_lone_header(output: object, name: str, *, allow_others: bool) -> bool:
    """Return whether an output is the header of an empty table of one column.

    Args:
        output: any output. Only text is a header, with one line break at most.
        name: the name of the column.
        allow_others: whether the column may also have another name, which a line break must follow.
            A word by which tools say how it went is no name.
    """
    if not isinstance(output, str):
        return False
    text = output.lstrip("\ufeff \t\r\n").replace("\r\n", "\n")
    line, line_break, rest = text.partition("\n")
    if rest.strip(" \t"):
        return False
    header = column_name(line)
    if header == name:
        return True
    is_other_name = header.isidentifier() and header.lower() not in WORDS_OF_STATUS
    return allow_others and bool(line_break) and is_other_name


def _answer_to_ask(text: str) -> bool | None:
    """Return the answer to ASK in a text; None if the text says something else.

    The answer is a boolean alone, below the header that Jena writes, or after "ASK" as in
    "Ask => Yes" and "The ASK query returned: true".
    """
    if len(text) >= LONGEST_ANSWER:
        return None
    stripped = text.strip().lower()
    if stripped in ("true", "false"):
        return stripped == "true"
    match = _answer_after_ask(stripped)
    if match is None:
        return None
    return match[1] in ("true", "yes")


def _delimiter(text: str) -> str:
    """Return the character that separates the cells of a header.

    It is the first of comma, semicolon and pipe that the header has. Command lines of databases
    write pipes.
    """
    header = text.partition("\n")[0]
    for delimiter in (",", ";", "|"):
        if delimiter in header:
            return delimiter
    return ","


def _split_rows(text: str, delimiter: str) -> list[list[str]]:
    """Return the cells of the header, and of each line that is a row.

    Raises:
        csv.Error, ValueError: the text is no CSV.
    """
    lines = text.rstrip("\r\n")
    with _long_cells(len(lines)):
        try:
            rows = _read_lines(lines, delimiter, strict=True)
        except csv.Error:
            # Some tools break the rules, such as by text after a cell in quotes.
            rows = _read_lines(lines, delimiter, strict=False)
    if len(rows[0]) > 1:
        return rows
    rows = [row or [""] for row in rows]
    if len(rows) == 1:
        # Empty lines below a header with one name are rows with an unbound cell.
        line_breaks = text[len(lines) :].replace("\r\n", "\n")
        rows += [[""]] * (len(line_breaks) - 1)
    return rows


def _read_lines(lines: str, delimiter: str, *, strict: bool) -> list[list[str]]:
    """Return the cells of each line of CSV.

    Raises:
        csv.Error, ValueError: the lines are no CSV. Without `strict`, most mistakes are tolerated.
    """
    reader = csv.reader(
        io.StringIO(lines, newline=""),
        delimiter=delimiter,
        skipinitialspace=_has_blanks_after(delimiter, lines),
        strict=strict,
    )
    return list(reader)


def _has_blanks_after(delimiter: str, text: str) -> bool:
    """Return whether a blank follows each delimiter of the header.

    Then the blanks after delimiters of rows are no part of cells.
    """
    header = text.partition("\n")[0]
    count = header.count(delimiter)
    return count > 0 and header.count(f"{delimiter} ") == count


@contextmanager
def _long_cells(most_characters: int) -> Iterator[None]:
    """Let Python's reader of CSV read cells of up to `most_characters` within the context.

    The reader's limit holds for the whole process, so it is raised only if needed, and set back at
    the end.
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
    """Check that a text of one line, which is read as names of columns, is surely no sentence.

    Raises:
        MalformedStep: the text may be a sentence.
    """
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


def _split_off_note(rows: list[list[str]], *, width: int) -> _Rows:
    """Return the rows of a table, and the note that follows them.

    A note states the number of rows, or stands below an empty line and has no line of the width of
    the table. In a table of one column, text below an empty line may be rows, so it is no note.
    """
    if _states_row_count(rows, width=width):
        return _Rows([row for row in rows[:-1] if row], ",".join(rows[-1]))
    if width == 1 or [] not in rows:
        return _Rows(rows, "")
    end = rows.index([])
    lines_below = [row for row in rows[end:] if row]
    if any(len(line) == width for line in lines_below):
        return _Rows([row for row in rows if row], "")
    return _Rows(rows[:end], "\n".join(",".join(line) for line in lines_below))


def _states_row_count(rows: Sequence[Sequence[str]], *, width: int) -> bool:
    """Return whether the last of some rows is a note that states the number of rows.

    The note has fewer cells than the table. In a table of one column, where it has as many, its
    number must be the number of rows above it.
    """
    if not rows:
        return False
    number = row_count_in(",".join(rows[-1]))
    if number is None:
        return False
    if len(rows[-1]) < width:
        return True
    rows_above = sum(1 for row in rows[:-1] if any(row))
    return width == 1 and number == rows_above


def _table_without_columns(lines: Sequence[str]) -> Table:
    """Return a table without columns, each of whose rows is an empty line below its header.

    The last line is no row: it only ends the text.

    Raises:
        MalformedStep: a line is not empty.
    """
    if any(lines):
        raise MalformedStep("the header is empty")
    rows: list[list[Term | None]] = [[] for _ in lines[:-1]]
    return Table(document_of_rows([], rows), typed=True)


def _no_csv(problem: str) -> MalformedStep:
    """Return the error for a text that is no table in any format, CSV being tried last."""
    return MalformedStep(f"neither SPARQL results nor a table; as CSV: {problem}")
