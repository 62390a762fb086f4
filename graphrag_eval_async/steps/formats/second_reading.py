"""What cells of tables without types may stand for besides their texts.

Tools write an unbound cell as NULL or nan, an infinite number as Infinity, and a term as code, as a
link or in quotes. Such a text may also be meant. So a cell is read in this way only if the
reference has no cell with its text.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.steps.formats.table import document_of_bindings
from graphrag_eval_async.steps.formats.terms import (
    INFINITIES,
    infinity_term,
    read_term,
    untyped_term,
)

if TYPE_CHECKING:
    from collections.abc import Set

    from graphrag_eval_async.steps.formats.table import Document
    from graphrag_eval_async.steps.formats.terms import Term

WORDS_FOR_UNBOUND = frozenset(
    {"", '""', "null", "none", "nan", "<na>", "na", "n/a", "nat", "nil", "undef", "undefined"}
    | {"unbound", "(null)", "<null>", "\\n"}
)
"""The texts, in lower case, by which tools write an unbound cell.

`<NA>` and `NaT` are of pandas, `\\N` of MySQL and PostgreSQL, `UNDEF` of SPARQL.
"""

_link = re.compile(r"\[([^\[\]]*)\]\(<?([^()<>\s]+(?:\([^()\s]*\))?[^()<>\s]*)>?\)").fullmatch
"""A link of Markdown: its text, and its address, which may have parentheses."""

_MARKS = ("`", "**", "__", "*")
"""Characters of Markdown around a text that is code or emphasized."""


def read_again(document: Document, reference: Document) -> Document | None:
    """Return an untyped table with its texts replaced by the terms that they may stand for.

    None if no text is replaced. A text that the reference has, too, stays as it is.

    Args:
        document: the table, as SPARQL results.
        reference: the table with which it is compared.
    """
    expected_rows = _rows_in(reference)
    names = reference.get("head", {}).get("vars", [])
    expected_texts = {str(term.get("value")) for row in expected_rows for term in row.values()}
    may_be_unbound = any(len(row) < len(names) for row in expected_rows)

    is_changed = False
    bindings: list[dict[str, Term]] = []
    for row in _rows_in(document):
        terms: dict[str, Term] = {}
        for name, term in row.items():
            text = term.get("value")
            if not isinstance(text, str) or text in expected_texts:
                terms[name] = term
            elif may_be_unbound and text.strip().lower() in WORDS_FOR_UNBOUND:
                # The cell is unbound, so the row gets no term for it.
                is_changed = True
            else:
                meant = _meant_term(text, expected_texts)
                is_changed = is_changed or meant is not None
                terms[name] = meant or term
        bindings.append(terms)
    if not is_changed:
        return None
    return document_of_bindings(document["head"]["vars"], bindings)


def _rows_in(document: Document) -> list[dict[str, Any]]:
    """Return the rows of a table; an empty list for the answer to ASK."""
    rows: list[dict[str, Any]] = document.get("results", {}).get("bindings", [])
    return rows


def _meant_term(text: str, expected_texts: Set[str]) -> Term | None:
    """Return the term that a text of an untyped table may stand for; None if there is none.

    A link stands for its address, unless the reference has its label and not its address.

    Args:
        text: the text of a cell.
        expected_texts: the texts of all cells of the reference.
    """
    infinity = INFINITIES.get(text)
    if infinity is not None:
        return infinity_term(is_negative=infinity.startswith("-"))
    link = _link(text)
    if link is not None:
        label, address = link.groups()
        if label in expected_texts and address not in expected_texts:
            return untyped_term(label)
        return untyped_term(address)
    for mark in _MARKS:
        inner = text[len(mark) : -len(mark)]
        if inner.strip() and text.startswith(mark) and text.endswith(mark):
            return _meant_term(inner, expected_texts) or untyped_term(inner)
    if text[:1] in ('"', "'", "<"):
        return read_term(text)
    if text.lower() == "nan":
        return {"value": "NaN"}
    return None
