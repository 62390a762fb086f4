"""What the readers of all formats return: a table, or the answer to ASK."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from graphrag_eval_async.errors import MalformedStep

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphrag_eval_async.steps.formats.terms import Term

Document: TypeAlias = dict[str, Any]
"""An object of SPARQL results JSON."""


class AmbiguousStep(MalformedStep):
    """An output that can be read as several tables, or that has no whole table, and says why."""


class Table(NamedTuple):
    """A table, or the answer to ASK, that was read from an output."""

    document: Document
    """The same as SPARQL results JSON."""

    typed: bool
    """Whether all cells have types."""

    has_blanks: bool = False
    """Whether its format cannot tell unbound cells from empty texts."""

    unread: str = ""
    """Text around the table, which was passed over."""

    doubt: str = ""
    """How a text was read that may be no table; empty if that is sure."""


def is_plain_name(name: str) -> bool:
    """Return whether a name consists of letters, digits and underscores."""
    return name.replace("_", "a").isalnum()


def column_name(header: str) -> str:
    """Return the name of a column without quotes and without the mark of a variable."""
    name = header.strip()
    if len(name) > 1 and name[0] == name[-1] == '"':
        name = name[1:-1]
    if name[:1] in ("?", "$") and is_plain_name(name[1:]):
        return name[1:]
    return name


def without_row_numbers(
    names: list[str], rows: list[list[str]]
) -> tuple[list[str], list[list[str]]]:
    """Return the names and the rows of a table without a first column of numbers from 0.

    pandas writes the numbers of rows into such a column, which has no name. A table without that
    column is returned unchanged.
    """
    if not names or names[0] != "":
        return names, rows
    if [row[:1] for row in rows] != [[str(number)] for number in range(len(rows))]:
        return names, rows
    return names[1:], [row[1:] for row in rows]


def answer(boolean: bool) -> Document:
    """Return the answer to ASK."""
    return {"head": {}, "boolean": boolean}


def document_of_rows(names: Sequence[str], rows: Sequence[Sequence[Term | None]]) -> Document:
    """Return a table with a cell for each name in each row; None is an unbound cell.

    Raises:
        MalformedStep: a name is repeated, or a row is not as wide as the header.
    """
    if len(set(names)) < len(names):
        raise MalformedStep("a column is repeated")
    bindings = []
    for index, row in enumerate(rows):
        if len(row) != len(names):
            raise MalformedStep(f"row {index}: expected {len(names)} cells, got {len(row)}")
        cells = zip(names, row, strict=True)
        bindings.append({name: term for name, term in cells if term is not None})
    return document_of_bindings(names, bindings)


def document_of_bindings(names: Sequence[str], bindings: Sequence[dict[str, Term]]) -> Document:
    """Return a table whose rows have their bound cells by name."""
    return {"head": {"vars": list(names)}, "results": {"bindings": list(bindings)}}
