"""Reads tables whose cells and names end below one another, as pandas prints them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def read_right_aligned(header: str, rows: Sequence[str]) -> list[list[str]] | None:
    """Return the names and then the cells of each row, without the numbers of rows.

    pandas pads each cell on its left to the width of its column, and prints no empty cell for an
    unbound one. So all lines are of equal length, and columns end where a word ends in every line.

    Args:
        header: the line with the names, without blanks at its end.
        rows: the lines below it, without blanks at their ends.

    Returns:
        None if lines are of different lengths, if no line has blanks before its cells, or if words
        are further apart than in a name or a cell.
    """
    if not rows or any(len(row) != len(header) for row in rows):
        return None
    number_width = _width_of_row_numbers(header, rows)
    lines = [line[number_width:] for line in (header, *rows)]
    if not any(line.startswith(" ") or "  " in line for line in lines):
        return None

    # Beside the numbers of rows, pandas leaves two blanks between the cells of a row, and else one.
    gap = "  " if number_width else " "
    ends = [
        place
        for place in _ends_of_words(lines[0])
        if all(line[place - 1] != " " for line in lines)
        and all(line.startswith(gap, place) or place == len(line) for line in lines[1:])
    ]
    starts = [0, *ends[:-1]]
    cells = [
        [line[start:end].strip() for start, end in zip(starts, ends, strict=True)] for line in lines
    ]
    if not ends or any("  " in cell or not cell for row in cells for cell in row):
        return None
    return cells


def _width_of_row_numbers(header: str, rows: Sequence[str]) -> int:
    """Return the width of the numbers of rows, from 0, before the first column.

    It is 0 if the first column has no such numbers before it. Nothing stands above the numbers. In
    a shortened table, a row of dots stands for some of them.
    """
    numbers = [row.partition(" ")[0] for row in rows]
    if any(not row.strip(". ") for row in rows):
        are_numbers = numbers[0] == "0" and all(
            number.isdigit() or number.strip(".") == "" for number in numbers
        )
    else:
        are_numbers = numbers == [str(number) for number in range(len(rows))]
    width = max(map(len, numbers))
    if not are_numbers or header[: width + 1].strip():
        return 0
    return width


def _ends_of_words(line: str) -> list[int]:
    """Return the places after each word of a line."""
    places = range(1, len(line) + 1)
    return [
        place for place in places if line[place - 1] != " " and not line[place : place + 1].strip()
    ]
