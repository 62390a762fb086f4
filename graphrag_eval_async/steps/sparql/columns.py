"""Columns of results: the text of each cell, its value by its type, and which cells are near each other."""

from __future__ import annotations

import math
from collections import defaultdict
from functools import partial
from itertools import chain, compress, count, islice
from operator import ne
from types import NoneType
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from graphrag_eval_async.errors import ComparisonBudgetExceeded

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence

    from graphrag_eval_async.steps.sparql.budget import Budget

H = TypeVar("H", bound="Hashable")

Number: TypeAlias = "int | float"
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

# Maximum number of items that may share a hash, and maximum size of sets that are not checked.
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
    """The cells of one variable in row order: the text of each, None if unbound, and its value."""

    __slots__ = ("_distinct", "name", "texts", "types", "values")

    def __init__(self, name: str, texts: Sequence[str | None], values: Sequence[Value]) -> None:
        self.name = name
        self.texts = texts
        self.values = values
        self.types = frozenset(map(type, values))
        self._distinct: frozenset[Value] | None = None

    @property
    def distinct(self) -> frozenset[Value]:
        """The distinct values; equal numbers of different types count once. Raises what `unique` raises."""
        if self._distinct is None:  # Thread-safe.
            # Any number of integers can be made to share a hash, but only a few dozen doubles, and no texts.
            self._distinct = (unique if int in self.types else frozenset)(self.values)
        return self._distinct

    def at(self, rows: Collection[int]) -> Column:
        """The cells in some of the rows."""
        return Column(self.name, [self.texts[row] for row in rows], [self.values[row] for row in rows])

    def blanked(self) -> Column:
        """The cells with empty texts unbound."""
        texts = [text or None for text in self.texts]
        cells = zip(texts, self.values, strict=True)
        return Column(self.name, texts, [None if text is None else value for text, value in cells])

    def cells(self) -> Iterator[Cell]:
        """Type, value and text of each cell."""
        return zip(map(type, self.values), self.values, self.texts, strict=True)


def unique(items: Collection[H]) -> frozenset[H]:
    """The distinct items."""
    check_hashes(items)
    return frozenset(items)


def check_hashes(items: Collection[Hashable]) -> None:
    """Check that a set of numbers, or of tuples or sets of them, can be built in linear time."""
    for _ in range(_MOST_ALIKE):
        if len(items) <= _MANY:
            return
        hashes = list(map(hash, items))
        one_of = dict(zip(hashes, items, strict=True))
        items = list(compress(items, map(ne, items, map(one_of.__getitem__, hashes))))
    raise ComparisonBudgetExceeded("too many numbers share their hashes")


def values_of(texts: list[str], datatypes: list[str | None]) -> Sequence[Value]:
    """The values of bound cells.

    A double or float too large for a double is infinite. A cell is text if it is NaN, an integer or decimal
    of `_LONG` characters or more, or outside the lexical space of its type (ranges of types derived from
    integer are not checked).
    """
    different = set(datatypes)
    if different.isdisjoint(_KINDS):
        return texts
    values = _numbers_in_bulk(texts, _KINDS[different.pop()]) if len(different) == 1 else None
    return values or list(map(_value, texts, map(_KINDS.get, datatypes)))


def _numbers_in_bulk(texts: list[str], kind: str) -> list[int | float] | None:
    """The numbers, or None if any of the texts is not a plain number."""
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


NUMERIC = frozenset({int, float})

close = partial(math.isclose, rel_tol=1e-8, abs_tol=1e-8)
"""Whether two numbers are within 1e-8, relative to the greater or absolute."""


def near(one: Cell, other: Cell) -> bool:
    """Whether two cells count as equal: by value if their types are comparable, else by text."""
    if one == other:
        return True
    (one_type, one_value, one_text), (other_type, other_value, other_text) = one, other
    if one_type in NUMERIC and other_type in NUMERIC:
        exact = one_type is other_type is int
        return bool(one_value == other_value) if exact else close(one_value, other_value)
    return bool(one_value == other_value if one_type is other_type else one_text == other_text)


class Classes:
    """Classes of values such that near cells always share one.

    Nearness is not transitive, so that the converse holds only outside the `loose` classes. A class is named
    by one of its values.
    """

    __slots__ = ("_budget", "_class_of", "loose")

    def __init__(self, columns: Collection[Column], budget: Budget) -> None:
        # Only values that share a class with different values.
        self._class_of: dict[Value, Value] = {}
        self.loose: set[Value] = set()
        self._budget = budget
        types = frozenset().union(*(column.types for column in columns))
        if float in types:
            self._chain_numbers(columns)
        if len({_FAMILIES[kind] for kind in types - {NoneType}}) > 1:
            self._join_alike(columns)

    def of(self, values: Collection[Value]) -> Collection[Value]:
        """The class of each value."""
        return list(map(self._class_of.get, values, values)) if self._class_of else values

    def _chain_numbers(self, columns: Iterable[Column]) -> None:
        """Join numbers that are linked by neighbours, in numerical order, which are close.

        Closeness never spans two such chains: a number between two close ones is close to both. Integers
        by themselves are equal or not.
        """
        self._budget.spend(2 * sum(len(column.values) for column in columns))
        exact = _union(columns, frozenset({int}))
        inexact = _union(columns, frozenset({float}))
        for linked in _chains(sorted(exact | inexact)):
            self._budget.spend(len(linked))
            if exact and inexact.isdisjoint(linked):
                continue
            name = linked[0]
            self._class_of.update((number, name) for number in linked)
            if not close(name, linked[-1]) or len(exact.intersection(linked)) > 1:
                self.loose.add(name)

    def _join_alike(self, columns: Iterable[Column]) -> None:
        """Join numbers, booleans and plain texts that are written alike.

        The class that results holds together only if all in it are written alike.
        """
        numbers = dict(_written(columns, NUMERIC))
        booleans = dict(_written(columns, frozenset({tuple})))
        class_of = self._class_of
        mixed = set()
        for text in booleans.keys() & numbers.keys():
            class_of[booleans[text]] = name = class_of.get(numbers[text], numbers[text])
            mixed.add(name)
        typed = {text: class_of.get(value, value) for text, value in chain(booleans.items(), numbers.items())}
        for column in columns:
            self._budget.spend(len(column.values))
            for text in typed.keys() & column.distinct if str in column.types else ():
                class_of[text] = typed[text]
                mixed.add(typed[text])
        spellings = defaultdict(set)
        for text, name in typed.items():
            if name in mixed:
                spellings[name].add(text)
        self.loose.update(name for name, texts in spellings.items() if len(texts) > 1)


_FAMILIES = {int: "number", float: "number", tuple: "boolean", str: "text"}


def _of_types(column: Column, kinds: frozenset[type]) -> frozenset[Any]:
    """The values of cells with these types."""
    if column.types <= kinds:
        return column.distinct
    if column.types.isdisjoint(kinds):
        return frozenset()
    return unique([value for value in column.values if type(value) in kinds])


def _union(columns: Iterable[Column], kinds: frozenset[type]) -> frozenset[Number]:
    # Each column may have few integers that share a hash, and all together many.
    return unique(list(chain.from_iterable(_of_types(column, kinds) for column in columns)))


def _written(columns: Iterable[Column], kinds: frozenset[type]) -> Iterator[tuple[Any, Value]]:
    """Text and value of cells with these types."""
    for column in columns:
        if not column.types.isdisjoint(kinds):
            cells = zip(column.texts, column.values, strict=True)
            yield from (cell for cell in cells if type(cell[1]) in kinds)


def _chains(numbers: list[Number]) -> Iterator[list[Number]]:
    """Slices of two or more sorted numbers in which each is linked to the next."""
    start = stop = 0
    for index in compress(count(), map(close, numbers, islice(numbers, 1, None))):
        if index != stop:
            if stop > start:
                yield numbers[start : stop + 1]
            start = index
        stop = index + 1
    if stop > start:
        yield numbers[start : stop + 1]
