"""Which cells are near each other, and classes of values that near cells share."""

from __future__ import annotations

import math
from collections import defaultdict
from functools import partial
from itertools import chain, compress, count, islice
from types import NoneType
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from graphrag_eval_async.steps.sparql.columns import Cell, Column, Value

Number: TypeAlias = "int | float"
N = TypeVar("N", int, float)

_isclose = partial(math.isclose, rel_tol=1e-8, abs_tol=1e-8)


def close(one: Number, other: Number) -> bool:
    """Whether two numbers are within 1e-8, relative to the greater or absolute."""
    try:
        return _isclose(one, other)
    except OverflowError:  # an integer beyond a double, which only itself is close to
        return one == other


def near(one: Cell, other: Cell) -> bool:
    """Whether two cells count as equal: by value where their types compare, by text where they do not."""
    if one == other:
        return True
    (one_type, one_value, one_text), (other_type, other_value, other_text) = one, other
    if isinstance(one_value, int | float) and isinstance(other_value, int | float):
        exact = one_type is other_type is int
        return one_value == other_value if exact else close(one_value, other_value)
    return one_value == other_value if one_type is other_type else one_text == other_text


class Classes:
    """Classes of values such that near cells always share one.

    Nearness is not transitive, so that the converse holds only outside the `loose` classes. A class is named
    by one of its values.
    """

    __slots__ = ("_class_of", "loose")

    def __init__(self, columns: Collection[Column]) -> None:
        # Only of values that share a class with different ones.
        self._class_of: dict[Value, Value] = {}
        self.loose: set[Value] = set()
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
        floats = set(_of_type(columns, float))
        integers = set(_of_type(columns, int))
        for linked in _chains(sorted(floats | integers)):
            if floats.isdisjoint(linked):
                continue
            name = linked[0]
            self._class_of.update((number, name) for number in linked)
            if not close(name, linked[-1]) or sum(number in integers for number in linked) > 1:
                self.loose.add(name)

    def _join_alike(self, columns: Iterable[Column]) -> None:
        """Join numbers, booleans and plain texts that are written alike.

        The class that results holds together only if all in it are written alike.
        """
        numbers = dict(_written(columns, int, float))
        booleans = dict(_written(columns, tuple))
        class_of = self._class_of
        mixed = set()
        for text in booleans.keys() & numbers.keys():
            class_of[booleans[text]] = name = class_of.get(numbers[text], numbers[text])
            mixed.add(name)
        typed = {text: class_of.get(value, value) for text, value in chain(booleans.items(), numbers.items())}
        for column in columns:
            for text in typed.keys() & column.distinct if str in column.types else ():
                class_of[text] = typed[text]
                mixed.add(typed[text])
        spellings = defaultdict(set)
        for text, name in typed.items():
            if name in mixed:
                spellings[name].add(text)
        self.loose.update(name for name, texts in spellings.items() if len(texts) > 1)


_FAMILIES = {int: "number", float: "number", tuple: "boolean", str: "text"}


def _of_type(columns: Iterable[Column], kind: type[N]) -> Iterator[N]:
    return (
        value
        for column in columns
        if kind in column.types
        for value in column.values
        if isinstance(value, kind)
    )


def _written(columns: Iterable[Column], *kinds: type) -> Iterator[tuple[Any, Value]]:
    """Text and value of the cells of such types."""
    for column in columns:
        if not column.types.isdisjoint(kinds):
            cells = zip(column.texts, column.values, strict=True)
            yield from (cell for cell in cells if type(cell[1]) in kinds)


def _chains(numbers: list[Number]) -> Iterator[list[Number]]:
    """Slices, two or more long, of sorted numbers in which each is close to the next."""
    try:
        links = list(map(_isclose, numbers, islice(numbers, 1, None)))
    except OverflowError:
        links = list(map(close, numbers, islice(numbers, 1, None)))
    start = stop = 0
    for index in compress(count(), links):
        if index != stop:
            if stop > start:
                yield numbers[start : stop + 1]
            start = index
        stop = index + 1
    if stop > start:
        yield numbers[start : stop + 1]
