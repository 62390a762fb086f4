"""Reads how pandas and MySQL print a table without rows."""

from __future__ import annotations

import re

from graphrag_eval_async.steps.formats.json_tables import empty_table
from graphrag_eval_async.steps.formats.table import (
    AmbiguousStep,
    Table,
    column_name,
    document_of_rows,
)

_empty_frame = re.compile(
    r"\s*Empty DataFrame\s+Columns: \[([^\n]*)\]\s+Index: \[\]\s*"
).fullmatch  # fmt: skip
"""Finds the names of columns where pandas prints a table without rows."""

_empty_set = re.compile(
    r"\s*Empty set(?:, \d+ warnings?)?(?: \([\d.]+ sec\))?;?\s*"
).fullmatch  # fmt: skip
"""Whether a text is what MySQL prints in place of a table without rows."""


def read_empty_table(text: str) -> Table | None:
    """Return the table without rows that a text stands for; None if the text stands for none.

    A table without names equals any other table without rows.

    Raises:
        AmbiguousStep: some columns are not shown.
    """
    if _empty_set(text) is not None:
        return empty_table()
    match = _empty_frame(text)
    if match is None:
        return None
    if not match[1]:
        return empty_table()
    names = [column_name(name) for name in match[1].split(", ")]
    if "..." in names:
        raise AmbiguousStep("the table is shortened: some columns are not shown")
    return Table(document_of_rows(names, []), typed=False, has_blanks=True)
