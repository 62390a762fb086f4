"""The tables of ``answer-correctness``: TSV as spreadsheets have it, with plain newlines."""

from __future__ import annotations

import csv
import os
import sys
from codecs import BOM_UTF8
from contextlib import suppress
from functools import partial
from io import FileIO, StringIO
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

from graphrag_eval_async.cli.files import open_output
from graphrag_eval_async.errors import UsageError
from graphrag_eval_async.records.tabular import escape_formula

if TYPE_CHECKING:
    from collections.abc import Iterable

IN = ("Question", "Reference answer", "Actual answer")
OUT = ("#Reference", "#PTarget", "#Matching", "Reasoning", "Error")

csv.field_size_limit(sys.maxsize)


class Answer(NamedTuple):
    """A row of the input; `problem` says why it cannot be judged, if so."""

    question: str
    reference_answer: str
    actual_answer: str
    problem: str | None


def read_answers(path: str) -> list[Answer]:
    """The rows of the input, without blank lines; raises a `UsageError` if it is no such table."""
    try:
        text = _read(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path!r} is not UTF-8: {error.reason} at byte {error.start}") from None
    lines = csv.reader(StringIO(text, newline=""), "excel-tab", strict=True)
    try:
        header, *rows = [row for row in lines if row] or [[]]
    except csv.Error:
        raise UsageError(
            f"{path!r}: line {lines.line_num}: a quoted field does not end where the cell does; a cell that "
            'begins with a quote ends with one, and doubles those in it, as in """Yes"", he said"'
        ) from None
    for name in IN:
        if header.count(name) != 1:
            what = "no column" if name not in header else "more than one column"
            raise UsageError(f"{path!r} has {what} {name!r}; its columns are {', '.join(map(repr, header))}")
    indexes = [header.index(name) for name in IN]
    return [_answer(row, indexes, len(header)) for row in rows]


def _answer(row: list[str], indexes: list[int], columns: int) -> Answer:
    question, reference, actual = (row[index] if index < len(row) else "" for index in indexes)
    cells = zip(IN, (question, reference, actual), strict=True)
    missing = [f"no {name.lower()}" for name, text in cells if not text.strip()]
    problem = " and ".join(missing)
    if "".join(row[columns:]).strip():
        problem = f"the row has {len(row)} cells, but there are {columns} columns"
    return Answer(question, reference, actual, problem or None)


def read_written(path: str, rows: int) -> tuple[int, int]:
    """Return how many of `rows` rows the output at `path` holds, and the number of bytes up to their end.

    A last row that is cut off does not count. A file that is not the output of such a run is a `UsageError`.
    """
    data = _read(path) if os.path.exists(path) else b""
    start = len(BOM_UTF8) if data.startswith(BOM_UTF8) else 0
    if encode(OUT).startswith(data[start:]):
        return 0, 0
    # A character for each byte, so that places in the text are places in the file.
    lines = StringIO(data[start:].decode("latin-1"), newline="")
    ends: list[int] = []
    with suppress(csv.Error):
        for row in csv.reader(lines, "excel-tab", strict=True):
            end = start + lines.tell()
            if len(row) != len(OUT) or data[end - 1 : end] != b"\n" or not (ends or row == [*OUT]):
                break
            ends.append(end)
    if not ends:
        raise UsageError(f"{path!r} exists, with another header than {', '.join(OUT)}")
    if lines.read(1):
        raise UsageError(f"{path!r} exists, and its row {len(ends)} was not written by this command")
    done, length = len(ends) - 1, ends[-1]
    if done + bool(data[length:].strip()) > rows:
        raise UsageError(f"{path!r} exists, with more rows than the input, which has {rows}")
    return done, length


def encode(cells: Iterable[str]) -> bytes:
    text = StringIO(newline="")
    csv.writer(text, "excel-tab").writerow(cells)
    return (text.getvalue().removesuffix("\r\n") + "\n").encode(errors="backslashreplace")


class Output:
    """Appends rows to a file, each at once, so that they survive the end of the process.

    Attributes:
        size: how many rows there should be.
        consumed: how many there are.
    """

    def __init__(self, path: str, rows: int, *, escape_formulas: bool = True) -> None:
        """Read what the file at `path` has already of `rows` rows; `escape_formulas` is for those to come."""
        self.size = rows
        self.consumed, self._length = read_written(path, rows)
        self._path = path
        self._escape_formulas = escape_formulas

    def __enter__(self) -> Self:
        """Open or create the file, and cut off an incomplete row."""
        self._file = open_output(partial(FileIO, mode="a"), self._path)
        self._file.truncate(self._length)
        if not self._length:
            self._write(encode(OUT))
        return self

    def write(self, cells: Iterable[str]) -> None:
        """Write the next row; an `OSError` carries the name of the file."""
        self._write(encode(map(escape_formula, cells) if self._escape_formulas else cells))
        self.consumed += 1

    def _write(self, line: bytes) -> None:
        try:
            while line:
                line = line[self._file.write(line) :]
        except OSError as error:
            error.filename = self._path
            raise

    def __exit__(self, *exc_info: object) -> None:
        self._file.close()


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise UsageError(f"{path!r} cannot be read: {error.strerror}") from error
