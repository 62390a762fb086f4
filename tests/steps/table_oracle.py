"""A plain comparison of tables, which tries every pairing of columns and of rows."""

from __future__ import annotations

import math
import re
from collections import Counter
from itertools import permutations
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from tests.steps.support import XSD, literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tests.steps.support import Table, Term


INTEGERS = {f"{XSD}{name}" for name in ("integer", "int", "unsignedByte")}
FLOATS = {f"{XSD}double", f"{XSD}float"}
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)", re.ASCII)
SPACE = " \t\r\n"
BOOLEANS = {"true": True, "1": True, "false": False, "0": False}


def number(term: dict[str, Any]) -> int | float | None:
    """Return the number that a term is; None if it is none, or too long."""
    text = term["value"].strip(SPACE)
    datatype = term.get("datatype")
    if datatype in INTEGERS and re.fullmatch(r"[+-]?\d+", text, re.ASCII):
        return int(text) if len(text) < 19 else None
    if datatype in FLOATS:
        if re.fullmatch(r"[+-]?INF", text):
            return float(text)
        mantissa, *exponents = re.split("[eE]", text, maxsplit=1)
        is_number = NUMBER.fullmatch(mantissa) is not None
        for exponent in exponents:
            is_number = is_number and re.fullmatch(r"[+-]?\d+", exponent, re.ASCII) is not None
        return float(text) if is_number else None
    if datatype == f"{XSD}decimal" and len(text) < 300 and NUMBER.fullmatch(text):
        return float(text)
    return None


def truth(term: dict[str, Any]) -> bool | None:
    """Return the boolean that a term is; None if it is none."""
    if term.get("datatype") != f"{XSD}boolean":
        return None
    return BOOLEANS.get(term["value"].strip(SPACE))


Cell: TypeAlias = tuple[str, tuple[str, Any]]
"""The text of a term, and the type and value by which it is compared."""


class Kinds:
    """Classes of the terms of two tables; those of one class agree."""

    def __init__(self, *tables: Iterable[Term], way: int) -> None:
        """Sort the terms of two tables into classes, in one of four ways to read them."""
        expected, actual = ([term for term in table if term is not None] for table in tables)
        self._groups = self._group_numbers([*expected, *actual])
        expected_cells = {self._cell(term) for term in expected}
        actual_cells = {self._cell(term) for term in actual}
        # For each side, the class of each cell.
        self._kinds: list[dict[Cell, Any]] = [{}, {}]
        for part in self._parts(expected_cells | actual_cells):
            kinds_of_sides = self._read(part & expected_cells, part & actual_cells, way)
            for all_kinds, kinds in zip(self._kinds, kinds_of_sides, strict=True):
                all_kinds |= kinds

    @staticmethod
    def _group_numbers(terms: Sequence[dict[str, Any]]) -> list[list[float]]:
        """Return groups of numbers that are close to their least one, with one integer at most."""
        numbers = {value for value in map(number, terms) if value is not None}
        integers = {value for value in map(number, terms) if isinstance(value, int)}
        groups: list[list[float]] = []
        for value in sorted(integers | numbers):
            last = groups[-1] if groups else [math.nan]
            is_close = math.isclose(last[0], value, rel_tol=1e-8, abs_tol=1e-8)
            if is_close and (value not in integers or integers.isdisjoint(last)):
                last.append(value)
            else:
                groups.append([value])
        return groups

    def _cell(self, term: dict[str, Any]) -> Cell:
        text = term["value"]
        value = number(term)
        if value is not None:
            [group] = [group for group in self._groups if value in group]
            return text, ("number", group[0])
        boolean = truth(term)
        if boolean is not None:
            return text, ("boolean", boolean)
        return text, ("text", text)

    @staticmethod
    def _parts(cells: set[Cell]) -> list[set[Cell]]:
        """Cells that are linked, step by step, by their texts or values."""
        parts: list[set[Cell]] = []
        for cell in cells:
            linked = [part for part in parts if any({*cell} & {*other} for other in part)]
            parts = [part for part in parts if part not in linked]
            parts.append({cell}.union(*linked))
        return parts

    @staticmethod
    def _read(expected: set[Cell], actual: set[Cell], way: int) -> list[dict[Cell, Any]]:
        """Return the classes of linked cells, for each side.

        By value or text if all agree; otherwise by value, by text, or by the texts of the other
        side.
        """
        if all({*one} & {*other} for one in expected for other in actual):
            cells = expected | actual
            return [dict.fromkeys(cells, min(cells))] * 2
        shared = {text for text, _ in expected} & {text for text, _ in actual}
        first_types = {"text"} if way == 2 else {"text", "boolean"}
        kinds_of_sides: list[dict[Cell, Any]] = []
        for side in (expected, actual):
            first_texts = {text for text, kind in side if kind[0] in first_types}
            kinds: dict[Cell, Any] = {}
            for text, kind in side:
                is_first = kind[0] in first_types or text not in first_texts
                is_by_text = way == 1 or (way > 1 and is_first)
                kinds[text, kind] = ("text", text) if is_by_text and text in shared else kind
            kinds_of_sides.append(kinds)
        return kinds_of_sides

    def rows(self, table: Table, columns: Sequence[int], side: int = 0) -> list[tuple[Any, ...]]:
        """Return the classes in some columns of a table, row by row."""
        return [tuple(self._kind(row[column], side) for column in columns) for row in table]

    def _kind(self, term: Term, side: int) -> Any:
        return None if term is None else self._kinds[side][self._cell(term)]


def rows_agree(
    left: Sequence[Any], right: Sequence[Any], *, ordered: bool, ignore_duplicates: bool
) -> bool:
    if ordered:
        return left == right
    return {*left} == {*right} if ignore_duplicates else Counter(left) == Counter(right)


class Reading(NamedTuple):
    """Classes of the terms of two tables, and the tables as they are read."""

    kinds: Kinds
    expected: Table
    actual: Table


def readings(expected: Table, required: list[int], actual: Table) -> list[Reading]:
    found = [
        Reading(Kinds(*terms_of(expected, required, actual), way=way), expected, actual)
        for way in range(4)
    ]
    ours, theirs = (
        any(term and truth(term) is not None for term in side)
        for side in terms_of(expected, required, actual)
    )
    if ours != theirs:
        numbers = with_integers(expected), with_integers(actual)
        terms = terms_of(numbers[0], required, numbers[1])
        found += [Reading(Kinds(*terms, way=way), *numbers) for way in range(4)]
    return found


def terms_of(expected: Table, required: list[int], actual: Table) -> tuple[list[Term], list[Term]]:
    return (
        [row[each] for row in expected for each in required],
        [term for row in actual for term in row],
    )


def with_integers(table: Table) -> Table:
    """The table with 1 for true and 0 for false."""
    return [
        [
            term
            if term is None or (value := truth(term)) is None
            else literal(str(int(value)), "int")
            for term in row
        ]
        for row in table
    ]


def oracle(expected: Table, required: list[int], actual: Table, width: int, **how: bool) -> float:
    """1 if any pairing of columns makes the rows agree, else 0."""
    return float(
        any(
            rows_agree(
                reading.kinds.rows(reading.expected, required),
                reading.kinds.rows(reading.actual, chosen, 1),
                **how,
            )
            for reading in readings(expected, required, actual)
            for chosen in permutations(range(width), len(required))
        )
    )
