"""Columns of decoded results: the text of each cell, and its value by its type."""

from __future__ import annotations

import math
from bisect import bisect_left
from functools import partial
from itertools import compress, count, islice
from types import NoneType
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence, Set

    from graphrag_eval_async.steps.budget import Budget

Value: TypeAlias = "int | float | tuple[bool] | str | None"
"""A number, a boolean as one of `_BOOLEANS`, or a text for everything else; None for an unbound cell."""

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

_LONG: Mapping[str, float] = {_INTEGER: 19, _DECIMAL: 300, _DOUBLE: math.inf}
"""Integers and decimals of so many characters are texts: all shorter integers have hashes of their own, and
all shorter decimals fit into a double."""

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

    __slots__ = ("name", "texts", "values")

    def __init__(self, name: str, texts: Sequence[str | None], values: Sequence[Value]) -> None:
        self.name = name
        self.texts = texts
        self.values = values

    def blanked(self) -> Column:
        """The cells with empty texts unbound."""
        texts = [text or None for text in self.texts]
        cells = zip(texts, self.values, strict=True)
        return Column(self.name, texts, [None if text is None else value for text, value in cells])


def values_of(texts: list[str], datatypes: list[str | None]) -> Sequence[Value]:
    """The values of bound cells.

    A double or float too large for a double is infinite. A cell is text if it is NaN, as long as `_LONG`
    says, or outside the lexical space of its type (ranges of types derived from integer are not checked).
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
    alphabet, parse = _NUMBERS[kind]
    if trimmed.strip(alphabet) or len(trimmed) >= _LONG[kind]:
        return text
    try:
        return parse(trimmed)
    except ValueError:
        return text


_close = partial(math.isclose, rel_tol=1e-8, abs_tol=1e-8)
"""Whether two numbers are within 1e-8, relative to the greater or absolute."""


def classes_of(
    reference: Sequence[Column], actual: Sequence[Column], budget: Budget
) -> tuple[list[Sequence[Value]], list[Sequence[Value]]]:
    """For each column, the class of each cell, which is one of its values; cells agree if theirs are equal.

    Numbers that are close agree if they are in one group: groups are formed upwards from the least number,
    are close to their least, and have one integer at most. A text, a number and a boolean agree if they are
    written alike; a number that is near none of the other side is nothing but its text.
    """
    reference, actual = _only_texts(reference, actual), _only_texts(actual, reference)
    classes = join_classes([*reference, *actual], budget)
    return classes[: len(reference)], classes[len(reference) :]


def _only_texts(columns: Sequence[Column], others: Sequence[Column]) -> Sequence[Column]:
    """The columns of one side, with numbers as texts if the other has these texts, and no such numbers."""
    if all({*map(type, column.values)}.isdisjoint({int, float}) for column in columns):
        return columns
    texts: set[Any] = _of_type({str}, others)
    if not texts or all(texts.isdisjoint(column.texts) for column in columns):
        return columns
    numbers: list[Any] = sorted(_of_type({int, float}, others))

    def value_of(text: str | None, value: Any) -> Any:
        if type(value) not in {int, float} or text not in texts:
            return value
        place = bisect_left(numbers, value)
        near = numbers[max(0, place - 1) : place + 1]
        return value if any(_close(value, each) for each in near) else str(text)

    return [
        column
        if texts.isdisjoint(column.texts)
        else Column(column.name, column.texts, [*map(value_of, column.texts, column.values)])
        for column in columns
    ]


def _of_type(types: set[type], columns: Sequence[Column]) -> set[Any]:
    return {value for column in columns for value in {*column.values} if type(value) in types}


def join_classes(columns: Sequence[Column], budget: Budget) -> list[Sequence[Value]]:
    """The classes of the cells of columns, whose numbers are compared by value in any case."""
    budget.spend(sum(len(column.values) for column in columns))
    kinds = [{*map(type, column.values)} for column in columns]
    if len(set().union(*kinds) - {NoneType}) < 2 and all(float not in own for own in kinds):
        return [column.values for column in columns]
    class_of: dict[Value, Value] = {}
    integers, floats, booleans = (_written(kind, columns, kinds) for kind in (int, float, tuple))
    if floats:
        exact = {*integers.values()}
        numbers = sorted(exact.union(floats.values()))
        budget.spend(4 * len(numbers))
        for group in _groups(numbers, exact):
            class_of.update(dict.fromkeys(group, group[0]))
    for known in (integers, floats):
        for text in booleans.keys() & known.keys():
            class_of[booleans[text]] = class_of.get(known[text], known[text])
    for column, own in zip(columns, kinds, strict=True):
        for typed in (integers, floats, booleans) if str in own else ():
            for text in typed.keys() & column.values:
                class_of[text] = class_of.get(typed[text], typed[text])
    if not class_of:
        return [column.values for column in columns]
    return [[*map(class_of.get, column.values, column.values)] for column in columns]


def _written(kind: type, columns: Sequence[Column], kinds: Sequence[set[type]]) -> dict[str | None, Any]:
    """The values of this type by their texts."""
    found: dict[str | None, Any] = {}
    for column, own in zip(columns, kinds, strict=True):
        if kind in own:
            cells = zip(column.texts, column.values, strict=True)
            found.update(cells if len(own) == 1 else (cell for cell in cells if type(cell[1]) is kind))
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
