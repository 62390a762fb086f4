"""Columns of results: the text of each cell, and the value that its type gives it."""

from __future__ import annotations

import math
from itertools import compress
from operator import ne
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from graphrag_eval_async.errors import ComparisonBudgetExceeded

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence

H = TypeVar("H", bound="Hashable")

# A number, a boolean as one of _BOOLEANS, or a text for everything else; None for an unbound cell.
Value: TypeAlias = "int | float | tuple[bool] | str | None"
# The type of the value, the value and the text: 5, 5.0 and 05 are different cells.
Cell: TypeAlias = "tuple[type, Any, str | None]"

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

# Integers and decimals are texts from here on, so that each fits into a double.
_LONG = 300

# So many items may share a hash, or be in sets that are not looked at.
_MOST_ALIKE, _MANY = 50, 1000

_SPACE = " \t\r\n"
# Within these alphabets Python's parsers accept exactly the lexical space of XSD; otherwise they also take
# underscores, the digits of other scripts, "nan" and "infinity".
_NUMBERS: Mapping[str, tuple[str, Callable[[str], int | float]]] = {
    _INTEGER: ("+-0123456789", int),
    _DECIMAL: ("+-0123456789.", float),
    _DOUBLE: ("+-0123456789.eE", float),
}
_INFINITIES = {"INF": math.inf, "+INF": math.inf, "-INF": -math.inf}
# Not plain booleans, since True equals 1.
_BOOLEANS = {"true": (True,), "1": (True,), "false": (False,), "0": (False,)}


class Column:
    """The cells of one variable in row order: for each its text, None where unbound, and its value."""

    __slots__ = ("_distinct", "name", "texts", "types", "values")

    def __init__(self, name: str, texts: Sequence[str | None], values: Sequence[Value]) -> None:
        self.name = name
        self.texts = texts
        self.values = values
        self.types = frozenset(map(type, values))
        self._distinct: frozenset[Value] | None = None

    @property
    def distinct(self) -> frozenset[Value]:
        """The different values; of equal numbers of different types, one. Raises what `unique` does."""
        if self._distinct is None:  # Several threads may do this without harm.
            # Any number of integers can be made up that share a hash; of doubles a few dozen, of texts none.
            self._distinct = (unique if int in self.types else frozenset)(self.values)
        return self._distinct

    def at(self, rows: Collection[int]) -> Column:
        """The cells in some of the rows."""
        return Column(self.name, [self.texts[row] for row in rows], [self.values[row] for row in rows])

    def cells(self) -> Iterator[Cell]:
        """All there is to know about each cell."""
        return zip(map(type, self.values), self.values, self.texts, strict=True)


def unique(items: Collection[H]) -> frozenset[H]:
    """The different items.

    Raises:
        ComparisonBudgetExceeded: so many of them share their hashes that it would take quadratic time.
    """
    check_hashes(items)
    return frozenset(items)


def check_hashes(items: Collection[Hashable]) -> None:
    """See that a set of numbers, or of tuples of them, takes linear time.

    Raises:
        ComparisonBudgetExceeded: it would not.
    """
    for _ in range(_MOST_ALIKE):
        if len(items) <= _MANY:
            return
        hashes = list(map(hash, items))
        one_of = dict(zip(hashes, items, strict=True))
        items = list(compress(items, map(ne, items, map(one_of.__getitem__, hashes))))
    raise ComparisonBudgetExceeded("too many numbers share their hashes")


def values_of(texts: list[str], datatypes: list[str | None]) -> Sequence[Value]:
    """The values of bound cells.

    A double or float beyond a double is infinite. A cell is a text like any other where it is NaN, an integer
    or decimal of `_LONG` characters or more, or outside the lexical space of its type (the ranges of types
    derived from integer are not looked at).
    """
    different = set(datatypes)
    if different.isdisjoint(_KINDS):
        return texts
    values = _numbers_in_bulk(texts, _KINDS[different.pop()]) if len(different) == 1 else None
    return values or list(map(_value, texts, map(_KINDS.get, datatypes)))


def _numbers_in_bulk(texts: list[str], kind: str) -> list[int | float] | None:
    """The numbers, or None where any of the texts is not plainly one."""
    alphabet, parse = _NUMBERS.get(kind, ("", float))
    if "".join(texts).strip(alphabet) or (kind != _DOUBLE and max(map(len, texts)) >= _LONG):
        return None
    try:
        return list(map(parse, texts))
    except ValueError:
        return None


def _value(text: str, kind: str | None) -> Value:
    if kind is None:
        return text
    trimmed = text.strip(_SPACE)
    if kind == _BOOLEAN:
        return _BOOLEANS.get(trimmed, text)
    if kind == _DOUBLE and trimmed in _INFINITIES:
        return _INFINITIES[trimmed]
    alphabet, parse = _NUMBERS[kind]
    if trimmed.strip(alphabet) or (kind != _DOUBLE and len(trimmed) >= _LONG):
        return text
    try:
        return parse(trimmed)
    except ValueError:
        return text
