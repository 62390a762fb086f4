"""Reads the lines in which databases and tools say how many rows a table has."""

from __future__ import annotations

import re

# A number of rows, such as "(2 rows)", "2 row(s) in 3 ms", "Found 1 row." or "No results".
_row_count = re.compile(
    r"\W*(?:(?:found|returned|query returned|there (?:is|are)|total:?)\s+)?"
    r"(?P<number>\d[\d,]*|no|zero|one)\s+(?:matching\s+)?"
    r"(?:rows?|results?|records?|solutions?|bindings?|tuples?|items?)(?:\(s\))?"
    r"(?P<rest>\b.*|\W*)",
    re.IGNORECASE,
).fullmatch

LONGEST_ROW_COUNT = 100
"""Characters of a line up to which it may be a number of rows."""


def row_count_in(line: str) -> int | None:
    """Return the number of rows that a line states, as databases print it below a table.

    None if the line states no number of rows.
    """
    if len(line) > LONGEST_ROW_COUNT:
        return None
    match = _row_count(line.strip())
    if match is None:
        return None
    number = match["number"].lower()
    if number in ("no", "zero"):
        return 0
    if number == "one":
        return 1
    return int(number.replace(",", ""))


def says_no_rows(text: str) -> bool:
    """Return whether all lines of a text say that there are no rows, and there is one."""
    lines = [line for line in text.splitlines() if line.strip()]
    return bool(lines) and all(row_count_in(line) == 0 for line in lines)
