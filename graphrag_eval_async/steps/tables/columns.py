"""Columns of decoded results: the text of each cell, and its value by its type."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeAlias

from graphrag_eval_async.steps.tables.temporal import KIND_BY_TYPE, Temporal, read_temporal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


class BlankNode:
    """The value of all blank nodes. Whether two of them correspond depends on the whole tables."""

    def __repr__(self) -> str:
        return "BLANK"


BLANK = BlankNode()

Value: TypeAlias = "int | float | tuple[bool] | Temporal | str | BlankNode | None"
"""The value of a cell; None if it is unbound.

It is a number, a boolean as one of `_BOOLEANS`, a date, time or duration, `BLANK`, or a text for
everything else.
"""

_INTEGER = "integer"
_DECIMAL = "decimal"
_DOUBLE = "double"
_BOOLEAN = "boolean"

INTEGERS = (
    "integer",
    "long",
    "int",
    "short",
    "byte",
    "nonNegativeInteger",
    "positiveInteger",
    "nonPositiveInteger",
    "negativeInteger",
    "unsignedLong",
    "unsignedInt",
    "unsignedShort",
    "unsignedByte",
)
"""Local names of the datatypes of integers."""

_KIND_BY_LOCAL_NAME = {
    **dict.fromkeys(INTEGERS, _INTEGER),
    "decimal": _DECIMAL,
    "double": _DOUBLE,
    "float": _DOUBLE,
    "boolean": _BOOLEAN,
    **KIND_BY_TYPE,
}

_KIND_BY_DATATYPE: Mapping[str | None, str] = {
    f"http://www.w3.org/2001/XMLSchema#{name}": kind for name, kind in _KIND_BY_LOCAL_NAME.items()
}
"""How a text is read, by the IRI of its datatype. A text of any other datatype is its own value."""

_TOO_LONG: Mapping[str, float] = {_INTEGER: 19, _DECIMAL: 300, _DOUBLE: math.inf}
"""Integers and decimals of so many characters are texts.

All shorter integers have hashes of their own, and all shorter decimals fit into a double.
"""

_SPACE = " \t\r\n"
"""White space around a value, as XML Schema has it."""

_NUMBERS: Mapping[str, tuple[str, Callable[[str], int | float]]] = {
    _INTEGER: ("+-0123456789", int),
    _DECIMAL: ("+-0123456789.", float),
    _DOUBLE: ("+-0123456789.eE", float),
}
"""The characters of numbers, and the parser, by kind.

Within these alphabets, Python's parsers accept exactly the lexical space of XML Schema. Otherwise
they also take underscores, the digits of other scripts, "nan" and "infinity".
"""

_INFINITIES = {"INF": math.inf, "+INF": math.inf, "-INF": -math.inf}

_BOOLEANS = {
    "true": (True,),
    "1": (True,),
    "false": (False,),
    "0": (False,),
    # As Python and spreadsheets write them.
    "True": (True,),
    "TRUE": (True,),
    "False": (False,),
    "FALSE": (False,),
}
"""The values of booleans by their texts: tuples, since a plain True would equal the number 1."""


class Column:
    """The cells of one variable, in the order of the rows.

    Attributes:
        name: the variable.
        texts: the text of each cell; None if it is unbound.
        values: the value of each cell.
        labels: the label of the blank node in each cell; None where there is another term. None
            instead of a list if the column has no blank nodes.
    """

    __slots__ = ("labels", "name", "texts", "values")

    def __init__(
        self,
        name: str,
        texts: Sequence[str | None],
        values: Sequence[Value],
        labels: Sequence[str | None] | None = None,
    ) -> None:
        """Take as many texts, values and labels as there are rows."""
        self.name = name
        self.texts = texts
        self.values = values
        self.labels = labels


def values_of(texts: list[str], datatypes: list[str | None]) -> Sequence[Value]:
    """Return the values of bound cells, from the text and the datatype of each cell.

    A double or float that is too large for a double is infinite. The value of a cell is its text if
    it is NaN, too long, or not written as its datatype demands. The ranges of types derived from
    integer are not checked.
    """
    different_datatypes = set(datatypes)
    if different_datatypes.isdisjoint(_KIND_BY_DATATYPE):
        # Texts are their own values.
        return texts
    if len(different_datatypes) == 1:
        # This is the usual case, for which there is a quicker way.
        kind = _KIND_BY_DATATYPE[different_datatypes.pop()]
        numbers = _plain_numbers(texts, kind)
        if numbers is not None:
            return numbers
    return list(map(_value, texts, map(_KIND_BY_DATATYPE.get, datatypes)))


def _plain_numbers(texts: list[str], kind: str) -> list[int | float] | None:
    """Return the numbers that texts of one kind stand for; None if any text is no plain number.

    Plain numbers have no white space and are finite. `_value` reads all texts, but is several times
    as slow.
    """
    if kind not in _NUMBERS:
        return None
    alphabet, parse = _NUMBERS[kind]
    has_other_characters = "".join(texts).strip(alphabet) != ""
    if has_other_characters or max(map(len, texts)) >= _TOO_LONG[kind]:
        return None
    try:
        return list(map(parse, texts))
    except ValueError:
        return None


def _value(text: str, kind: str | None) -> Value:
    """Return the value of a bound cell, which is its text if it cannot be read as its kind.

    Args:
        text: the text of the cell.
        kind: how to read the text, one of the values in `_KIND_BY_DATATYPE`; None if the text is
            its own value.
    """
    if kind is None:
        return text
    trimmed = text.strip(_SPACE)
    if kind == _BOOLEAN:
        return _BOOLEANS.get(trimmed, text)
    if kind == _DOUBLE and trimmed in _INFINITIES:
        return _INFINITIES[trimmed]
    if kind not in _NUMBERS:
        # All other kinds are dates, times and durations.
        moment = read_temporal(trimmed, kind)
        if moment is None:
            return text
        return moment
    alphabet, parse = _NUMBERS[kind]
    has_other_characters = trimmed.strip(alphabet) != ""
    if has_other_characters or len(trimmed) >= _TOO_LONG[kind]:
        return text
    try:
        return parse(trimmed)
    except ValueError:
        return text
