"""Which cells are near each other, and classes of values that near cells share."""

from __future__ import annotations

import math
from collections import defaultdict
from functools import partial
from itertools import chain, compress, count, islice
from operator import ne
from types import NoneType
from typing import TYPE_CHECKING, Any, TypeAlias

from graphrag_eval_async.steps.sparql.columns import unique

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from graphrag_eval_async.steps.sparql.budget import Budget
    from graphrag_eval_async.steps.sparql.columns import Cell, Column, Value

Number: TypeAlias = "int | float"

NUMERIC = frozenset({int, float})

close = partial(math.isclose, rel_tol=1e-8, abs_tol=1e-8)
"""Whether two numbers are within 1e-8, relative to the greater or absolute."""


def near(one: Cell, other: Cell) -> bool:
    """Whether two cells count as equal: by value where their types compare, by text where they do not."""
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
        # Only of values that share a class with different ones.
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
        runs = []
        for column in columns:
            self._budget.spend(len(column.values))
            runs.append(sorted(_of_types(column, NUMERIC)))
        exact = self._union(columns, frozenset({int}))
        inexact = self._union(columns, frozenset({float})) if exact else frozenset()
        for linked in _chains(self._merged(runs)):
            self._budget.spend(len(linked))
            if exact and inexact.isdisjoint(linked):
                continue
            name = linked[0]
            self._class_of.update((number, name) for number in linked)
            if not close(name, linked[-1]) or len(exact.intersection(linked)) > 1:
                self.loose.add(name)

    def _union(self, columns: Iterable[Column], kinds: frozenset[type]) -> frozenset[Number]:
        return frozenset().union(*(_of_types(column, kinds) for column in columns))

    def _merged(self, runs: Iterable[list[Number]]) -> list[Number]:
        """The different numbers of all runs, sorted, which takes little longer than merging them."""
        numbers = sorted(chain.from_iterable(runs))
        self._budget.spend(len(numbers))
        return [*numbers[:1], *compress(islice(numbers, 1, None), map(ne, numbers, islice(numbers, 1, None)))]

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
    """The values of such types."""
    if column.types <= kinds:
        return column.distinct
    if column.types.isdisjoint(kinds):
        return frozenset()
    return unique([value for value in column.values if type(value) in kinds])


def _written(columns: Iterable[Column], kinds: frozenset[type]) -> Iterator[tuple[Any, Value]]:
    """Text and value of the cells of such types."""
    for column in columns:
        if not column.types.isdisjoint(kinds):
            cells = zip(column.texts, column.values, strict=True)
            yield from (cell for cell in cells if type(cell[1]) in kinds)


def _chains(numbers: list[Number]) -> Iterator[list[Number]]:
    """Slices, two or more long, of sorted numbers in which each is linked to the next."""
    start = stop = 0
    for index in compress(count(), map(close, numbers, islice(numbers, 1, None))):
        if index != stop:
            if stop > start:
                yield numbers[start : stop + 1]
            start = index
        stop = index + 1
    if stop > start:
        yield numbers[start : stop + 1]
