"""Sorts the cells of two tables into classes: cells agree if their classes are equal."""

from __future__ import annotations

import math
from collections import defaultdict
from functools import partial
from itertools import chain, compress, count, islice, product
from types import NoneType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from graphrag_eval_async.steps.tables.columns import Column
from graphrag_eval_async.steps.tables.temporal import DURATION, Temporal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence, Set

    from graphrag_eval_async.steps.budget import Budget
    from graphrag_eval_async.steps.tables.columns import Value

_MOST_PAIRS_CHECKED = 10_000
"""Pairs of linked cells up to which it is checked whether all of them agree; chosen."""

_TYPES_READ_BY_TEXT_FIRST: Sequence[Set[type]] = (frozenset(), {str}, {str, tuple})
"""For each way to read cells by their texts, the types that come before other types.

If a table has a cell of such a type, only this cell is read by its text, and cells of other types
with the same text are read by their values. The value of a boolean is a tuple.
"""

_are_close = partial(math.isclose, rel_tol=1e-8, abs_tol=1e-8)
"""Whether two numbers are within 1e-8, relative to the greater or absolute."""

Classes: TypeAlias = "Sequence[Value]"
"""The classes of the cells of a column, in row order. Cells of equal classes agree.

A class is the value of one of its cells.
"""


class CellClasses(NamedTuple):
    """One way to read the cells of two tables: the classes of all cells, by column."""

    expected: list[Classes]
    actual: list[Classes]


def classify_cells(
    expected: Sequence[Column], actual: Sequence[Column], budget: Budget
) -> Iterator[CellClasses]:
    """Yield the classes of the cells of two tables: cells agree if their classes are equal.

    If the cells can be read in several ways, the classes of each way are yielded, and the caller
    takes the best way. Cells of equal values agree, and so do these:

    - Numbers that are close to each other. They are put into groups from the least number upwards:
      all numbers of a group are close to its least number, and at most one of them is an integer.
    - A text and a value of another type that are written alike; see `_ways_to_read_alike`.
    - Dates and times that differ only in their zone, if all those of one table have a zone, and
      none of the other table.
    - Booleans and the integers 0 and 1, if only one table has booleans.
    """
    budget.spend(sum(len(column.values) for column in chain(expected, actual)))
    expected_side = _Side.of(expected)
    actual_side = _Side.of(actual)

    if expected_side.has(Temporal) and actual_side.has(Temporal):
        ignores_zones = _only_one_has_zones(expected, actual)
        if ignores_zones:
            # Values without a zone have the same type as before, so `types` need not change.
            expected_side = expected_side._replace(columns=[*map(_without_zones, expected)])
            actual_side = actual_side._replace(columns=[*map(_without_zones, actual)])
    yield from _classify_sides(expected_side, actual_side, budget)

    # If only one table has booleans, a second way is to read them as integers. The value of a
    # boolean is a tuple, since True equals 1.
    only_one_has_booleans = expected_side.has(tuple) != actual_side.has(tuple)
    if only_one_has_booleans:
        yield from _classify_sides(
            _Side.of([_with_booleans_as_integers(column) for column in expected_side.columns]),
            _Side.of([_with_booleans_as_integers(column) for column in actual_side.columns]),
            budget,
        )


class _Side(NamedTuple):
    """The columns of one of two tables, and the types of the values in each column."""

    columns: Sequence[Column]
    types: Sequence[set[type]]

    @classmethod
    def of(cls, columns: Sequence[Column]) -> _Side:
        """Return columns together with the types of their values."""
        return cls(columns, [set(map(type, column.values)) for column in columns])

    def has(self, value_type: type) -> bool:
        """Return whether any value in the table is of this type."""
        return any(value_type in types_of_column for types_of_column in self.types)


def _classify_sides(expected: _Side, actual: _Side, budget: Budget) -> Iterator[CellClasses]:
    """Yield the classes of the cells of two tables for each way to read the texts in them.

    Values of one type agree if they are equal, and numbers also if they are close. A text that is
    written like a value of another type may be read as this value or as a text.
    """
    value_types = set().union(*expected.types, *actual.types) - {NoneType}
    has_one_exact_type = len(value_types) < 2 and float not in value_types
    if has_one_exact_type:
        yield _values_as_classes(expected, actual)
        return

    # All values that are no texts, by type. The value of a boolean is a tuple.
    integers = _values_by_text(int, expected, actual)
    floats = _values_by_text(float, expected, actual)
    booleans = _values_by_text(tuple, expected, actual)
    moments = _values_by_text(Temporal, expected, actual)

    # Close numbers are of one class. Without other numbers, integers agree only if they are equal.
    by_value = _values_as_classes(expected, actual)
    if floats:
        class_by_number = _classes_of_numbers({*integers.values()}, {*floats.values()}, budget)
        if class_by_number:
            by_value = CellClasses(
                expected=_replace_values(by_value.expected, class_by_number),
                actual=_replace_values(by_value.actual, class_by_number),
            )

    # Find the ambiguous texts: those of cells whose value is a text in one place and no text in
    # another, and those that are a boolean in one place and a number in another, such as "1".
    number_texts = integers.keys() | floats.keys()
    typed_texts = number_texts | booleans.keys() | moments.keys()
    ambiguous_texts = booleans.keys() & number_texts
    for side in (expected, actual):
        for column, types_of_column in zip(side.columns, side.types, strict=True):
            if str in types_of_column:
                ambiguous_texts |= typed_texts.intersection(column.values)
    if ambiguous_texts:
        yield from _read_ambiguous_cells(expected, actual, by_value, ambiguous_texts, budget)
    else:
        yield by_value


def _values_as_classes(expected: _Side, actual: _Side) -> CellClasses:
    """Return the values of all cells as their classes, so that only equal values agree."""
    return CellClasses(
        expected=[column.values for column in expected.columns],
        actual=[column.values for column in actual.columns],
    )


def _replace_values(
    columns: Sequence[Classes], replacements: Mapping[Value, Value]
) -> list[Classes]:
    """Return columns of values, each replaced if `replacements` has another value for it."""
    return [list(map(replacements.get, values, values)) for values in columns]


def _values_by_text(value_type: type, *sides: _Side) -> dict[str | None, Any]:
    """Return all values of one type in the given tables, by the text of their cells."""
    value_by_text: dict[str | None, Any] = {}
    for side in sides:
        for column, types_of_column in zip(side.columns, side.types, strict=True):
            if value_type not in types_of_column:
                continue
            cells = zip(column.texts, column.values, strict=True)
            if len(types_of_column) == 1:
                # All values are of this type.
                value_by_text.update(cells)
            else:
                value_by_text.update(
                    (text, value) for text, value in cells if type(value) is value_type
                )
    return value_by_text


def _only_one_has_zones(expected: Sequence[Column], actual: Sequence[Column]) -> bool:
    """Return whether one table has only dates and times with a zone, the other only without one."""
    expected_zones = _zones_in(expected)
    actual_zones = _zones_in(actual)
    if expected_zones == {True}:
        return actual_zones == {False}
    return expected_zones == {False} and actual_zones == {True}


def _zones_in(columns: Sequence[Column]) -> set[bool]:
    """Return a set with True if any date or time has a zone, and with False if any has none."""
    return {
        value.has_zone
        for column in columns
        for value in column.values
        if type(value) is Temporal and value.kind != DURATION
    }


def _without_zones(column: Column) -> Column:
    """Return a column whose dates and times have no time zone."""
    values: list[Value] = []
    for value in column.values:
        if type(value) is Temporal and value.has_zone:
            values.append(value.without_zone())
        else:
            values.append(value)
    return Column(column.name, column.texts, values, column.labels)


def _with_booleans_as_integers(column: Column) -> Column:
    """Return a column with the integers 1 for true and 0 for false, as values and as texts."""
    values: list[Value] = []
    texts: list[str | None] = []
    for text, value in zip(column.texts, column.values, strict=True):
        # The value of a boolean is a tuple, which holds it.
        if type(value) is tuple:
            integer = int(value[0])
            values.append(integer)
            texts.append(str(integer))
        else:
            values.append(value)
            texts.append(text)
    return Column(column.name, texts, values, column.labels)


def _classes_of_numbers(
    integers: Set[int], floats: Set[float], budget: Budget
) -> dict[Value, Value]:
    """Return the class of each number in a group of close numbers: the least number of the group.

    Args:
        integers: all integers in two tables. A group has at most one integer.
        floats: all other numbers in the tables.
        budget: what may be spent.
    """
    numbers = sorted(integers | floats)
    budget.spend(4 * len(numbers))
    return {number: group[0] for group in _groups_of_close(numbers, integers) for number in group}


def _groups_of_close(numbers: Sequence[float], integers: Set[int]) -> Iterator[list[float]]:
    """Yield groups of numbers in which all numbers are close to the group's least number.

    Numbers that are not close to the next or the previous number are in no group. A group may
    consist of one number.

    Args:
        numbers: sorted numbers.
        integers: the integers among them. A group has at most one integer.
    """
    is_close_to_next = map(_are_close, numbers, islice(numbers, 1, None))
    group: list[float] = []
    # Only numbers that are close to the next one are looked at. There are usually few, and
    # `compress` passes over the others quickly.
    for index in compress(count(), is_close_to_next):
        number = numbers[index]
        next_number = numbers[index + 1]
        # The group goes on if its last number is this one. Otherwise, numbers were passed over.
        continues_group = bool(group) and group[-1] == number
        if not continues_group:
            if group:
                yield group
            group = [number]

        has_two_integers = next_number in integers and not integers.isdisjoint(group)
        if _are_close(group[0], next_number) and not has_two_integers:
            group.append(next_number)
        else:
            yield group
            group = [next_number]
    if group:
        yield group


_Cell: TypeAlias = "tuple[str | None, Value]"
"""The text of a cell, and the class of its value."""


class _LinkedCells(NamedTuple):
    """Cells of two tables that equal texts or equal values link, also by way of other cells.

    A cell is a pair of its text and the class of its value.
    """

    expected: list[_Cell]
    actual: list[_Cell]

    def all_agree(self) -> bool:
        """Return whether each expected cell has the same text or value as each actual cell.

        False if there are too many pairs of cells to check.
        """
        if len(self.expected) * len(self.actual) > _MOST_PAIRS_CHECKED:
            return False
        return all(
            expected_text == actual_text or expected_value == actual_value
            for (expected_text, expected_value), (actual_text, actual_value) in product(
                self.expected, self.actual
            )
        )


class _Reclassified(NamedTuple):
    """New classes for some cells of two tables, in one way to read these. Others keep theirs."""

    expected: dict[_Cell, Value]
    actual: dict[_Cell, Value]


def _read_ambiguous_cells(
    expected: _Side,
    actual: _Side,
    by_value: CellClasses,
    ambiguous_texts: Set[str | None],
    budget: Budget,
) -> Iterator[CellClasses]:
    """Yield the classes of all cells for each way to read the cells with ambiguous texts.

    Args:
        expected: the columns of the reference.
        actual: the columns of the other table.
        by_value: the classes of all cells if each is read by its value.
        ambiguous_texts: the texts that cells of different types have in common.
        budget: what may be spent.
    """
    expected_cells = _cells(expected.columns, by_value.expected)
    actual_cells = _cells(actual.columns, by_value.actual)
    ways = _ways_to_read_alike(
        set(chain.from_iterable(expected_cells)),
        set(chain.from_iterable(actual_cells)),
        ambiguous_texts,
    )
    number_of_cells = sum(map(len, chain(expected_cells, actual_cells)))
    for way in ways:
        budget.spend(2 * number_of_cells)
        yield CellClasses(
            expected=_classes_with(way.expected, expected_cells),
            actual=_classes_with(way.actual, actual_cells),
        )


def _cells(columns: Sequence[Column], classes: Sequence[Classes]) -> list[list[_Cell]]:
    """Return the cells of each column as pairs of a text and a class."""
    return [
        list(zip(column.texts, column_classes, strict=True))
        for column, column_classes in zip(columns, classes, strict=True)
    ]


def _classes_with(
    reclassified: Mapping[_Cell, Value], columns: Sequence[Sequence[_Cell]]
) -> list[Classes]:
    """Return the classes of the cells of each column; `reclassified` has new classes for some."""
    return [[reclassified.get(cell, cell[1]) for cell in cells] for cells in columns]


def _ways_to_read_alike(
    expected: Set[_Cell], actual: Set[_Cell], ambiguous_texts: Set[str | None]
) -> list[_Reclassified]:
    """Return each way to read cells of different types that are written alike.

    Linked cells, such as a text "1" and a number 1, are read together. If all of them agree across
    the tables, by value or by text, they are of one class in every way. Otherwise, these are the
    ways:

    - Each cell is read by its value.
    - A cell is read by its text if the other table has this text, too, and otherwise by its value.
    - The same, but if a text and other values in a table are written alike, only the text is read
      by its text.
    - The same, but if a text or a boolean and other values in a table are written alike, only the
      text and the boolean are read by their texts.

    Args:
        expected: the different cells of one table.
        actual: the different cells of the other table.
        ambiguous_texts: the texts that cells of different types have in common.
    """
    by_value = _Reclassified({}, {})
    by_text = [_Reclassified({}, {}) for _ in _TYPES_READ_BY_TEXT_FIRST]
    all_linked_agree = True
    for linked in _linked_cells(expected, actual, ambiguous_texts):
        if linked.all_agree():
            cells = linked.expected + linked.actual
            # Any class will do, as long as it does not depend on the order of sets.
            _, same_class = min(cells, key=repr)
            for way in (by_value, *by_text):
                way.expected.update(dict.fromkeys(cells, same_class))
                way.actual.update(dict.fromkeys(cells, same_class))
            continue

        # By value, these cells keep their classes. By text, they get new ones.
        all_linked_agree = False
        expected_texts = {text for text, _ in linked.expected}
        shared_texts = expected_texts.intersection(text for text, _ in linked.actual)
        for first_types, way in zip(_TYPES_READ_BY_TEXT_FIRST, by_text, strict=True):
            way.expected.update(_texts_as_classes(linked.expected, shared_texts, first_types))
            way.actual.update(_texts_as_classes(linked.actual, shared_texts, first_types))
    if all_linked_agree:
        # All ways give the same classes.
        return [by_value]
    return [by_value, *by_text]


def _texts_as_classes(
    cells: Sequence[_Cell], shared_texts: Set[str | None], first_types: Set[type]
) -> dict[_Cell, Value]:
    """Return the new class of each cell of one table that is read by its text: the text itself.

    Args:
        cells: cells of the table.
        shared_texts: the texts that the other table has, too. Cells of other texts are read by
            their values.
        first_types: if the value of a cell is of one of these types, cells of the same text whose
            values are of other types are read by their values.
    """
    first_texts = {text for text, value in cells if type(value) in first_types}
    text_by_cell: dict[_Cell, Value] = {}
    for cell in cells:
        text, value = cell
        is_preceded = text in first_texts and type(value) not in first_types
        if text in shared_texts and not is_preceded:
            text_by_cell[cell] = text
    return text_by_cell


def _linked_cells(
    expected: Set[_Cell], actual: Set[_Cell], ambiguous_texts: Set[str | None]
) -> Iterable[_LinkedCells]:
    """Return groups of cells of two tables that are linked by ambiguous texts or by values.

    Values are linked if cells with the same ambiguous text have them, directly or by way of other
    values. All cells of linked values are in one group. A value without any ambiguous text is in no
    group, and neither are its cells.
    """
    values_by_text: dict[str | None, set[Value]] = defaultdict(set)
    for text, value in expected | actual:
        if text in ambiguous_texts:
            values_by_text[text].add(value)
    linked_values = _merge_overlapping(values_by_text.values())

    # Linked values share one set object. Sets cannot be keys, so the id of the set is the key.
    groups = {id(values): _LinkedCells([], []) for values in linked_values.values()}
    for text, value in expected:
        if value in linked_values:
            groups[id(linked_values[value])].expected.append((text, value))
    for text, value in actual:
        if value in linked_values:
            groups[id(linked_values[value])].actual.append((text, value))
    return groups.values()


def _merge_overlapping(sets: Iterable[set[Value]]) -> dict[Value, set[Value]]:
    """Merge sets that share a value, and return the merged set by each of its values.

    The set object is the same for all values of a merged set.
    """
    merged_by_value: dict[Value, set[Value]] = {}
    for values in sets:
        overlapping = [merged_by_value[value] for value in values if value in merged_by_value]
        # The other sets are merged into the largest one, so that few values are moved.
        merged = max(overlapping, key=len, default=set())
        moved_values = set(values)
        for other in overlapping:
            if other is not merged:
                moved_values |= other
        for value in moved_values:
            merged.add(value)
            merged_by_value[value] = merged
    return merged_by_value
