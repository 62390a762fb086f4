"""The table that a benchmark prints."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence


class Row(NamedTuple):
    """One figure."""

    what: str
    measured: str
    target: str


def show(rows: Sequence[tuple[str, str, str]]) -> None:
    """Print figures as a table."""
    table = [("what", "measured", "target"), *rows]
    widths = [max(len(row[column]) for row in table) for column in range(3)]
    for row in table:
        print(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        )
