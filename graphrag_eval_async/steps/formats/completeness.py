"""Reads what tools say of rows that they left out of a result in JSON."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

SHORTENING_KEYS = (
    "truncated", "is_truncated", "isTruncated", "was_truncated", "results_truncated", "has_more",
    "hasMore", "more_results",
)  # fmt: skip
"""Keys under which `true` says that there are more rows."""

COUNT_KEYS = (
    "row_count", "rowCount", "total", "total_rows", "totalRows", "total_count", "totalCount",
    "total_results", "num_rows", "numRows", "count",
)  # fmt: skip
"""Keys under which tools write the number of all rows."""

_says_part = re.compile(
    r"(?:first|showing|shown|displaying|limited to|truncated to|top)\W+(?:the\W+)?(?:first\W+)?"
    r"(\d[\d,]*)\W+(?:rows?\W+|results?\W+)?(?:out\W+)?of\W+(?:the\W+)?(?:total\W+)?(\d[\d,]*)",
    re.IGNORECASE,
).search
"""Whether a note says that only some rows are shown, such as "first 2 of 100 rows"."""

MOST_CHARACTERS_OF_NOTES = 2_000
"""Characters of the text around a table in which such a note is looked for."""


class Shortening(NamedTuple):
    """What an object says of rows that may not be in the table that it holds."""

    key: str = ""
    """The key that says that there are more rows; empty if none does."""

    count_key: str = ""
    """The key of the number of all rows; empty if there is none."""

    row_count: int = 0
    """The number of all rows under `count_key`."""

    def or_else(self, other: Shortening) -> Shortening:
        """Return what this object says, or what another one says if this one says nothing."""
        if self.key or self.count_key:
            return self
        return other

    def explain(self, row_count: int) -> str | None:
        """Return why a table of so many rows is not whole; None if nothing says so."""
        if self.key:
            return f"the table is shortened: {self.key} is true"
        if self.count_key and self.row_count > row_count:
            counts = f"{self.count_key} is {self.row_count}, and it has {row_count} rows"
            return f"the table is shortened: {counts}"
        return None


def shortening_in(value: dict[str, Any]) -> Shortening:
    """Return what an object says of rows that are not in the table that it holds."""
    for key in SHORTENING_KEYS:
        if value.get(key) is True:
            return Shortening(key=key)
    for key in COUNT_KEYS:
        count = value.get(key)
        if isinstance(count, int) and not isinstance(count, bool):
            return Shortening(count_key=key, row_count=count)
    return Shortening()


def shortening_in_note(note: str) -> str | None:
    """Return why a table is not whole by the text around it; None if the text does not say so."""
    match = _says_part(note, 0, MOST_CHARACTERS_OF_NOTES)
    if match is None:
        return None
    shown, total = (number.replace(",", "") for number in match.groups())
    if int(shown) >= int(total):
        return None
    return f"the table is shortened: {' '.join(match[0].split())}"
