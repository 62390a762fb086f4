"""Columns of decoded results: the text of each cell, and its value by its type."""

from __future__ import annotations

import math
from collections import defaultdict
from functools import partial
from itertools import chain, compress, count, islice, product
from types import NoneType
from typing import TYPE_CHECKING, Any, TypeAlias

from graphrag_eval_async.steps.tables.temporal import (
    DURATION,
    KIND_BY_TYPE,
    Temporal,
    read_temporal,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set

    from graphrag_eval_async.steps.budget import Budget


class BlankNode:
    """The class of all blank nodes: whether two are the same, only their tables can tell."""

    def __repr__(self) -> str:
        return "BLANK"


BLANK = BlankNode()

Value: TypeAlias = "int | float | tuple[bool] | Temporal | str | BlankNode | None"
"""A number, a boolean as one of `_BOOLEANS`, a date, time or duration, `BLANK`, or a text for
everything else; None for an unbound cell.
"""

_INTEGER, _DECIMAL, _DOUBLE, _BOOLEAN = "integer", "decimal", "double", "boolean"
INTEGERS = (  # noqa: SIM905  (longer as a list)
    "integer long int short byte nonNegativeInteger positiveInteger nonPositiveInteger "
    "negativeInteger unsignedLong unsignedInt unsignedShort unsignedByte"
).split()
_KINDS: Mapping[str | None, str] = {
    f"http://www.w3.org/2001/XMLSchema#{name}": kind
    for kind, names in (
        (_INTEGER, INTEGERS),
        (_DECIMAL, ["decimal"]),
        (_DOUBLE, ["double", "float"]),
        (_BOOLEAN, ["boolean"]),
        *((kind, [name]) for name, kind in KIND_BY_TYPE.items()),
    )
    for name in names
}

_LONG: Mapping[str, float] = {_INTEGER: 19, _DECIMAL: 300, _DOUBLE: math.inf}
"""Integers and decimals of so many characters are texts: all shorter integers have hashes of their
own, and all shorter decimals fit into a double.
"""

_SPACE = " \t\r\n"
# Within these alphabets Python's parsers accept exactly the lexical space of XSD; otherwise they
# also take underscores, the digits of other scripts, "nan" and "infinity".
_NUMBERS: Mapping[str, tuple[str, Callable[[str], int | float]]] = {
    _INTEGER: ("+-0123456789", int),
    _DECIMAL: ("+-0123456789.", float),
    _DOUBLE: ("+-0123456789.eE", float),
}
_INFINITIES = {"INF": math.inf, "+INF": math.inf, "-INF": -math.inf}
# Not plain booleans, since True equals 1.
_BOOLEANS = {"true": (True,), "1": (True,), "false": (False,), "0": (False,)}
# As Python and spreadsheets write them.
_BOOLEANS |= {"True": (True,), "TRUE": (True,), "False": (False,), "FALSE": (False,)}


class Column:
    """The cells of one variable in row order.

    Attributes:
        name: the variable.
        texts: the text of each cell; None if it is unbound.
        values: the value of each cell.
        labels: the number of the blank node in each cell, by its label, with a prefix that no text
            needs; None where there is another term. None if the column has no blank nodes.
    """

    __slots__ = ("labels", "name", "texts", "values")

    def __init__(
        self,
        name: str,
        texts: Sequence[str | None],
        values: Sequence[Value],
        labels: Sequence[str | None] | None = None,
    ) -> None:
        self.name = name
        self.texts = texts
        self.values = values
        self.labels = labels


def values_of(texts: list[str], datatypes: list[str | None]) -> Sequence[Value]:
    """The values of bound cells.

    A double or float too large for a double is infinite. A cell is text if it is NaN, as long as
    `_LONG` says, or outside the lexical space of its type (ranges of types derived from integer are
    not checked).
    """
    different = set(datatypes)
    if different.isdisjoint(_KINDS):
        return texts
    values = _numbers_in_bulk(texts, _KINDS[different.pop()]) if len(different) == 1 else None
    return values or list(map(_value, texts, map(_KINDS.get, datatypes)))


def _numbers_in_bulk(texts: list[str], kind: str) -> list[int | float] | None:
    """The numbers, or None if any of the texts is not a plain number."""
    alphabet, parse = _NUMBERS.get(kind, ("", float))
    if "".join(texts).strip(alphabet) or max(map(len, texts)) >= _LONG.get(kind, 0):
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
    if kind not in _NUMBERS:
        return read_temporal(trimmed, kind) or text
    alphabet, parse = _NUMBERS[kind]
    if trimmed.strip(alphabet) or len(trimmed) >= _LONG[kind]:
        return text
    try:
        return parse(trimmed)
    except ValueError:
        return text


_WEAK: Sequence[Set[type]] = {str}, {str, tuple}
"""The types of cells that are read by their texts before others of the same table."""

_FEW = 10_000  # Pairs of cells up to which it is checked whether all that are linked agree.

_close = partial(math.isclose, rel_tol=1e-8, abs_tol=1e-8)
"""Whether two numbers are within 1e-8, relative to the greater or absolute."""


def classes_of(
    reference: Sequence[Column], actual: Sequence[Column], budget: Budget
) -> Iterator[tuple[list[Sequence[Value]], list[Sequence[Value]]]]:
    """For each column, the class of each cell; cells agree if their classes are equal.

    Yields one way to read the cells or, if they can be read in several ways, each: the best one
    counts.

    Numbers that are close agree if they are in one group: groups are formed upwards from the least
    number, are close to their least, and have one integer at most. A text and a value of another
    type agree if they are written alike; see `_meet`. The zones of dates and times do not count if
    one side has none. If one side has no booleans, those of the other may be the integers 0 and 1.
    """
    width = len(reference)
    columns = [*reference, *actual]
    budget.spend(sum(len(column.values) for column in columns))
    types = [set(map(type, column.values)) for column in columns]
    types_by_side = [set().union(*types[:width]), set().union(*types[width:])]
    if all(Temporal in types_of_side for types_of_side in types_by_side):
        columns = _without_zones_of_one_side(columns, width)
    yield from _ways_to_read(columns, types, width, budget)
    if (tuple in types_by_side[0]) != (tuple in types_by_side[1]):
        columns = [_with_booleans_as_integers(column) for column in columns]
        types = [set(map(type, column.values)) for column in columns]
        yield from _ways_to_read(columns, types, width, budget)


def _ways_to_read(
    columns: Sequence[Column], types: Sequence[set[type]], width: int, budget: Budget
) -> Iterator[tuple[list[Sequence[Value]], list[Sequence[Value]]]]:
    """Yield each way to read the cells: their classes, by column, of the reference and actual.

    Args:
        columns: those of the reference, then the actual ones.
        types: the types of the values of each column.
        width: how many columns are of the reference.
        budget: what may be spent.
    """
    classes = [column.values for column in columns]
    all_types = set().union(*types) - {NoneType}
    if len(all_types) < 2 and float not in all_types:
        yield classes[:width], classes[width:]
        return
    integers = _written(int, columns, types)
    floats = _written(float, columns, types)
    booleans = _written(tuple, columns, types)
    moments = _written(Temporal, columns, types)
    if floats:
        exact = set(integers.values())
        numbers = sorted(exact.union(floats.values()))
        budget.spend(4 * len(numbers))
        groups = _groups(numbers, exact)
        group_of = {number: group[0] for group in groups for number in group}
        if group_of:
            classes = [[*map(group_of.get, values, values)] for values in classes]

    # Texts that are written like a value of another type.
    typed = integers | floats | booleans | moments
    alike = booleans.keys() & (integers.keys() | floats.keys())
    for column, types_of_column in zip(columns, types, strict=True):
        if str in types_of_column:
            alike |= typed.keys() & column.values
    if not alike:
        yield classes[:width], classes[width:]
        return
    cells = [
        [*zip(column.texts, column_classes, strict=True)]
        for column, column_classes in zip(columns, classes, strict=True)
    ]
    for expected_class, actual_class in _meet(
        {*chain(*cells[:width])}, {*chain(*cells[width:])}, alike
    ):
        budget.spend(2 * sum(map(len, classes)))
        yield (
            [[expected_class.get(cell, cell[1]) for cell in column] for column in cells[:width]],
            [[actual_class.get(cell, cell[1]) for cell in column] for column in cells[width:]],
        )


def _without_zones_of_one_side(columns: Sequence[Column], width: int) -> list[Column]:
    """Return columns whose dates and times have no zone, if those of one side have none anyway.

    Args:
        columns: those of the reference, then the actual ones.
        width: how many of them are of the reference.
    """
    zones = [_zones_in(columns[:width]), _zones_in(columns[width:])]
    if {True} not in zones or {False} not in zones:
        return [*columns]
    return [
        Column(column.name, column.texts, [*map(_without_zone, column.values)], column.labels)
        for column in columns
    ]


def _zones_in(columns: Sequence[Column]) -> set[bool]:
    """Return whether the dates and times in some columns have a zone, each answer that holds."""
    return {
        value.has_zone
        for column in columns
        for value in column.values
        if type(value) is Temporal and value.kind != DURATION
    }


def _without_zone(value: Value) -> Value:
    return value.without_zone() if type(value) is Temporal and value.has_zone else value


def _with_booleans_as_integers(column: Column) -> Column:
    """Return a column with 1 for true and 0 for false."""
    values = [int(value[0]) if type(value) is tuple else value for value in column.values]
    texts = [
        str(value) if type(old) is tuple else text
        for old, value, text in zip(column.values, values, column.texts, strict=True)
    ]
    return Column(column.name, texts, values, column.labels)


_Cell: TypeAlias = "tuple[str | None, Value]"  # The text of a cell and the class of its value.


def _meet(
    ours: Set[_Cell], theirs: Set[_Cell], alike: Set[str | None]
) -> Sequence[tuple[dict[_Cell, Value], ...]]:
    """Ways to read cells of different types that are written alike, as classes of cells of both
    sides.

    `alike`: the texts of these. If all cells that such texts link agree across the tables, by value
    or by text, they are one class. Otherwise each agrees by its value alone; or by its text alone,
    if both tables have that; or by its text unless its own table has a text, or a text or a
    boolean, that is written alike.
    """
    ways: list[tuple[dict[_Cell, Value], ...]] = [({}, {}) for _ in range(2 + len(_WEAK))]
    most = 1
    for sides in _linked(ours, theirs, alike):
        one, other = sides
        pairs = product(one, other)
        if len(one) * len(other) <= _FEW and all(a[0] == b[0] or a[1] == b[1] for a, b in pairs):
            name = min(one + other, key=repr)[1]
            for own in chain(*ways):
                own.update(dict.fromkeys(one + other, name))
            continue
        most = len(ways)
        shared = {text for text, _ in one} & {text for text, _ in other}
        for place, side in enumerate(sides):
            ways[1][place].update((cell, cell[0]) for cell in side if cell[0] in shared)
            for weak, way in zip(_WEAK, ways[2:], strict=True):
                first = {text for text, value in side if type(value) in weak}
                by_text = (cell for cell in side if type(cell[1]) in weak or cell[0] not in first)
                way[place].update((cell, cell[0]) for cell in by_text if cell[0] in shared)
    return ways[:most]


def _linked(
    ours: Set[_Cell], theirs: Set[_Cell], alike: Set[str | None]
) -> Iterable[tuple[list[_Cell], list[_Cell]]]:
    """The cells of both sides that are linked, step by step, by their texts and values."""
    by_text: dict[str | None, set[Value]] = defaultdict(set)
    for text, value in ours | theirs:
        if text in alike:
            by_text[text].add(value)
    part_of: dict[Value, set[Value]] = {}
    for values in by_text.values():
        parts = [part_of[value] for value in values if value in part_of]
        part = max(parts, key=len, default=set())
        for value in values.union(*(each for each in parts if each is not part)):
            part.add(value)
            part_of[value] = part
    members: dict[int, tuple[list[_Cell], list[_Cell]]] = {
        id(part): ([], []) for part in part_of.values()
    }
    for place, cells in enumerate((ours, theirs)):
        for cell in cells:
            if cell[1] in part_of:
                members[id(part_of[cell[1]])][place].append(cell)
    return members.values()


def _written(
    kind: type, columns: Sequence[Column], kinds: Sequence[set[type]]
) -> dict[str | None, Any]:
    """The values of this type by their texts."""
    found: dict[str | None, Any] = {}
    for column, own in zip(columns, kinds, strict=True):
        if kind in own:
            cells = zip(column.texts, column.values, strict=True)
            found.update(
                cells if len(own) == 1 else (cell for cell in cells if type(cell[1]) is kind)
            )
    return found


def _groups(numbers: Sequence[Any], integers: Set[Any]) -> Iterator[Sequence[Any]]:
    """The groups of two or more among sorted numbers, and some of one."""
    group: list[Any] = []
    last = -1
    for index in compress(count(), map(_close, numbers, islice(numbers, 1, None))):
        one, other = numbers[index : index + 2]
        if index != last:
            if group:
                yield group
            group = [one]
        last = index + 1
        if _close(group[0], other) and (other not in integers or integers.isdisjoint(group)):
            group.append(other)
        else:
            yield group
            group = [other]
    if group:
        yield group
