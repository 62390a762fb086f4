"""Columns of results: the text of each cell, and the value that its type gives it."""

from __future__ import annotations

import math
from types import NoneType
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

# A number, a boolean as one of _BOOLEANS, or a text for everything else; None for an unbound cell.
Value: TypeAlias = "int | float | tuple[bool] | str | None"
# The type of the value, the value and the text: 5, 5.0 and 05 are different cells.
Cell: TypeAlias = "tuple[type, Value, str | None]"

_INTEGER, _DECIMAL, _DOUBLE, _BOOLEAN = "integer", "decimal", "double", "boolean"
_INTEGERS = (
    "integer long int short byte nonNegativeInteger positiveInteger nonPositiveInteger negativeInteger "
    "unsignedLong unsignedInt unsignedShort unsignedByte"
)
_KINDS: Mapping[str | None, str] = {
    f"http://www.w3.org/2001/XMLSchema#{name}": kind
    for kind, names in (
        (_INTEGER, _INTEGERS),
        (_DECIMAL, "decimal"),
        (_DOUBLE, "double float"),
        (_BOOLEAN, "boolean"),
    )
    for name in names.split()
}

_SPACE = " \t\r\n"
# Within these alphabets Python's parsers accept exactly the lexical space of XSD; otherwise they also take
# underscores, the digits of other scripts, "nan" and "infinity".
_NUMBERS: Mapping[str, tuple[str, Callable[[str], int | float]]] = {
    _INTEGER: ("+-0123456789", int),
    _DECIMAL: ("+-0123456789.", float),
    _DOUBLE: ("+-0123456789.eE", float),
}
_INFINITIES = {"INF": math.inf, "+INF": math.inf, "-INF": -math.inf}
_INFINITE = frozenset({math.inf, -math.inf})
# Not plain booleans, since True equals 1.
_BOOLEANS = {"true": (True,), "1": (True,), "false": (False,), "0": (False,)}


class Column:
    """The cells of one variable in row order: for each its text, None where unbound, and its value."""

    __slots__ = ("_distinct", "_types", "name", "texts", "values")

    def __init__(self, name: str, texts: Sequence[str | None], values: Sequence[Value]) -> None:
        self.name = name
        self.texts = texts
        self.values = values
        self._distinct: frozenset[Value] | None = None
        self._types: frozenset[type] | None = None

    # The two below are computed when first asked for, which several threads may do without harm.

    @property
    def distinct(self) -> frozenset[Value]:
        """The different values; of equal numbers of different types, one."""
        if self._distinct is None:
            self._distinct = frozenset(self.values)
        return self._distinct

    @property
    def types(self) -> frozenset[type]:
        """The Python types of the values."""
        if self._types is None:
            self._types = frozenset(map(type, self.values))
        return self._types

    @property
    def typed(self) -> bool:
        """Whether there are numbers or booleans."""
        return not self.types <= {str, NoneType}

    def at(self, rows: Collection[int]) -> Column:
        """The cells in some of the rows."""
        return Column(self.name, [self.texts[row] for row in rows], [self.values[row] for row in rows])

    def cells(self) -> Iterator[Cell]:
        """All there is to know about each cell."""
        return zip(map(type, self.values), self.values, self.texts, strict=True)


def values_of(texts: list[str], datatypes: list[str | None]) -> Sequence[Value]:
    """The values of bound cells.

    A cell is a text like any other where it is outside the lexical space of its type (the ranges of types
    derived from integer are not looked at), NaN, a number beyond a double, or an integer too long for int().
    """
    different = set(datatypes)
    if different.isdisjoint(_KINDS):
        return texts
    values = _numbers_in_bulk(texts, _KINDS[different.pop()]) if len(different) == 1 else None
    return values or list(map(_value, texts, map(_KINDS.get, datatypes)))


def _numbers_in_bulk(texts: list[str], kind: str) -> list[int | float] | None:
    """The numbers, or None where any of the texts is not plainly one."""
    alphabet, parse = _NUMBERS.get(kind, ("", float))
    if "".join(texts).strip(alphabet):
        return None
    try:
        numbers = list(map(parse, texts))
    except ValueError:
        return None
    return numbers if _INFINITE.isdisjoint(numbers) else None


def _value(text: str, kind: str | None) -> Value:
    if kind is None:
        return text
    trimmed = text.strip(_SPACE)
    if kind == _BOOLEAN:
        return _BOOLEANS.get(trimmed, text)
    if kind == _DOUBLE and trimmed in _INFINITIES:
        return _INFINITIES[trimmed]
    alphabet, parse = _NUMBERS[kind]
    try:
        number = math.inf if trimmed.strip(alphabet) else parse(trimmed)
    except ValueError:
        return text
    return text if number in _INFINITE else number
