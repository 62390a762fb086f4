"""Cells of Cypher results as cells of tables.

A list, map, node, relationship, path or point becomes its canonical JSON text, which is equal for
equal values. In it, the labels of a node, the keys of a map and, unless order counts, the items of
a list are sorted; null keys are left out; numbers have up to `DIGITS` significant digits; dates and
times are in UTC. Internal ids are not in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from json.encoder import encode_basestring as quoted
from math import isfinite, isnan
from typing import TYPE_CHECKING, Any, NamedTuple

from graphrag_eval_async.steps.cypher.detail import DIGITS, STEPS_PER_VALUE, Detail, is_backward
from graphrag_eval_async.steps.cypher.moments import Moment, read_moment
from graphrag_eval_async.steps.cypher.reduction import is_in_order, reduce_to_detail
from graphrag_eval_async.steps.cypher.values import (
    CypherTable,
    Node,
    Path,
    PathEnds,
    Point,
    Relationship,
    UntypedText,
    Value,
    count_values,
)
from graphrag_eval_async.steps.formats.results import SparqlResults
from graphrag_eval_async.steps.formats.terms import untyped_term
from graphrag_eval_async.steps.tables.columns import Column, values_of
from graphrag_eval_async.steps.tables.temporal import DATE_TIME, Temporal

if TYPE_CHECKING:
    from graphrag_eval_async.steps.budget import Budget
    from graphrag_eval_async.steps.tables.columns import Value as CellValue

LARGE_BITS = 1000
"""Bits from which an integer is not compared with other numbers: a double has at most 1,024."""

MIDNIGHT = "T00:00:00"
"""How a time without a zone ends at midnight."""

JSON_WORDS = {True: "true", False: "false", None: "null"}
"""How JSON writes booleans and null."""

JSON_STARTS = ('"', "[", "{")
"""How JSON of a text, a list and an object begins."""


class Cell(NamedTuple):
    """A cell of a table.

    Attributes:
        text: its text; None for null.
        value: what is compared: a number, a boolean, a date, time or duration, or a text.
    """

    text: str | None
    value: CellValue


NULL = Cell(None, None)


def results_of_cypher(
    table: CypherTable,
    detail: Detail,
    budget: Budget,
    *,
    has_blanks: bool,
    default_names: Sequence[str],
) -> SparqlResults:
    """Return Cypher results as a table of cells that can be compared.

    Args:
        table: the results.
        detail: which parts of their values count.
        budget: what may be spent.
        has_blanks: whether the other output cannot distinguish null from empty text. Then empty
            text is null.
        default_names: the names of the columns if the table has none, as an empty list has.

    Raises:
        ComparisonBudgetExceeded: the table is too large for the budget.
    """
    columns: list[Column] = []
    for position, name in enumerate(table.names):
        cells: list[Cell] = []
        for row in table.rows:
            value = row[position]
            budget.spend(STEPS_PER_VALUE * count_values(value))
            cell = to_cell(value, detail)
            if has_blanks and cell.text == "":
                cell = NULL
            cells.append(cell)
        texts = [cell.text for cell in cells]
        # A column without any value is only among the names, as in results of SPARQL.
        if any(text is not None for text in texts):
            columns.append(Column(name, texts, [cell.value for cell in cells]))
    names = table.names or default_names
    return SparqlResults(dict.fromkeys(names), columns, len(table.rows))


def to_cell(whole_value: Value, detail: Detail) -> Cell:
    """Convert a value of Cypher to a cell of a table.

    Args:
        whole_value: the value.
        detail: which parts of values count; the cell has no others.
    """
    value = reduce_to_detail(whole_value, detail)
    if value is None:
        return NULL
    if isinstance(value, bool) and detail.types:
        # A value that is a text never equals a number. Texts such as "true" are in quotes.
        return Cell(JSON_WORDS[value], JSON_WORDS[value])
    if isinstance(value, bool):
        # The value of a boolean is a tuple, since a plain True would equal the number 1.
        return Cell(JSON_WORDS[value], (value,))
    if isinstance(value, int):
        return _integer_cell(value)
    if isinstance(value, float):
        return _float_cell(value)
    if isinstance(value, UntypedText):
        return _untyped_cell(value, detail)
    if isinstance(value, str):
        return _text_cell(value, detail)
    text = _CanonicalWriter(detail).text(value)
    return Cell(text, text)


def _integer_cell(number: int) -> Cell:
    """Return a cell with an integer, which is compared as text if it is too large for a double."""
    text = _integer_text(number)
    if number.bit_length() >= LARGE_BITS:
        return Cell(text, text)
    return Cell(text, number)


def _float_cell(number: float) -> Cell:
    """Return a cell with a number; NaN is compared as text, since only texts of NaN are equal."""
    if isnan(number):
        return Cell("NaN", "NaN")
    return Cell(repr(number), number)


def _text_cell(text: str, detail: Detail) -> Cell:
    """Return a cell with a text or, if the text is a date, time or duration, with that.

    If types count, a text that may be written like a value of another type is in quotes, as in
    JSON.
    """
    moment = _read_moment_in(text, detail)
    if moment is not None:
        return Cell(moment.text, moment.value)
    if detail.types and _may_be_written_like_another_type(text):
        return Cell(quoted(text), quoted(text))
    return Cell(text, text)


def _may_be_written_like_another_type(text: str) -> bool:
    """Return whether a text may equal the text of a number, boolean, list, map or text in quotes.

    True for all texts that do, and for a few others.
    """
    if text.startswith(JSON_STARTS) or text in JSON_WORDS.values():
        return True
    try:
        float(text)
    except ValueError:
        return False
    return True


def _untyped_cell(text: UntypedText, detail: Detail) -> Cell:
    """Return a cell with the number, boolean, date or text that an untyped text seems to be."""
    plain_text = str(text)
    datatype = untyped_term(plain_text).get("datatype")
    [value] = values_of([plain_text], [datatype])
    if isinstance(value, str | Temporal):
        # Cypher has more spellings of dates, times and durations than RDF.
        return _text_cell(plain_text, detail)
    return Cell(plain_text, value)


def _read_moment_in(text: str, detail: Detail) -> Moment | None:
    """Return the date, time or duration that a text is; None if it is something else.

    Args:
        text: the text.
        detail: what counts. If midnights are dates, a time at midnight without a zone is a date.
    """
    moment = read_moment(text)
    if moment is None or not detail.midnights_are_dates:
        return moment
    is_midnight = moment.text.endswith(MIDNIGHT) and moment.value.kind == DATE_TIME
    if is_midnight:
        return read_moment(moment.text.removesuffix(MIDNIGHT))
    return moment


class _CanonicalWriter:
    """Writes values as canonical JSON, without the parts that do not count."""

    def __init__(self, detail: Detail) -> None:
        self._detail = detail

    def text(self, whole_value: Value) -> str:
        """Return the canonical JSON of a value of any type."""
        value = reduce_to_detail(whole_value, self._detail)
        if isinstance(value, bool) or value is None:
            return JSON_WORDS[value]
        if isinstance(value, int | float):
            return _number_text(value)
        if isinstance(value, str):
            return self._string(value)
        if isinstance(value, Node):
            return self._node(value)
        if isinstance(value, Relationship):
            return self._relationship(value)
        if isinstance(value, Path):
            return self._path(value)
        if isinstance(value, PathEnds):
            return self._path_ends(value)
        if isinstance(value, Point):
            return self._point(value)
        if isinstance(value, Mapping):
            return self._map(value)
        return self._list(list(value))

    def _string(self, text: str) -> str:
        """Return a text in quotes; dates, times and durations that are equal get equal texts."""
        moment = _read_moment_in(text, self._detail)
        if moment is None:
            return quoted(text)
        if self._detail.zones:
            return quoted(moment.utc_text)
        return quoted(moment.local_text)

    def _list(self, items: list[Any]) -> str:
        """Return a list, with its items sorted unless their order counts."""
        texts = [self.text(item) for item in items]
        if not is_in_order(items, self._detail):
            texts.sort()
        return f"[{','.join(texts)}]"

    def _map(self, entries: Mapping[str, Any]) -> str:
        """Return a map with sorted keys and without null values."""
        members = {key: self.text(entries[key]) for key in sorted(entries)}
        return _object({key: text for key, text in members.items() if text != "null"})

    def _node(self, node: Node) -> str:
        """Return an object with the sorted labels and the properties of a node."""
        labels = ",".join(quoted(label) for label in sorted(node.labels))
        return _object({"labels": f"[{labels}]", "properties": self._map(node.properties)})

    def _relationship(self, relationship: Relationship) -> str:
        """Return an object with a relationship, and with the nodes at its ends if these count."""
        members = self._type_and_properties(relationship)
        if self._detail.ends:
            members["start"] = self.text(relationship.start)
            members["end"] = self.text(relationship.end)
        return _object(members)

    def _type_and_properties(self, relationship: Relationship) -> dict[str, str]:
        """Return the type and the properties of a relationship, each as JSON, without its ends."""
        return {
            "type": quoted(relationship.type),
            "properties": self._map(relationship.properties),
        }

    def _path(self, path: Path) -> str:
        """Return a path as a list of its nodes and relationships in turns.

        The neighbours of a relationship in the list are its ends. If directions count, it has a
        mark if the path passes it from its end to its start.
        """
        texts = [self.text(path.nodes[0])]
        for index, relationship in enumerate(path.relationships):
            members = self._type_and_properties(relationship)
            if self._detail.directions and is_backward(path, index):
                members["backward"] = "true"
            texts.append(_object(members))
            texts.append(self.text(path.nodes[index + 1]))
        return f"[{','.join(texts)}]"

    def _path_ends(self, path: PathEnds) -> str:
        """Return an object with the first node, the last node and the length of a path."""
        members = {"start": self.text(path.start), "end": self.text(path.end)}
        members["length"] = str(path.length)
        return _object(members)

    def _point(self, point: Point) -> str:
        """Return an object with a point, and with its reference system if that counts."""
        coordinates = ",".join(_number_text(number) for number in point.coordinates)
        members = {"coordinates": f"[{coordinates}]"}
        if self._detail.reference_systems:
            members["srid"] = str(point.srid)
        return _object(members)


def _object(members: Mapping[str, str]) -> str:
    """Return a JSON object.

    Args:
        members: its values as JSON by their keys, which are not in quotes yet.
    """
    pairs = [f"{quoted(key)}:{text}" for key, text in members.items()]
    return f"{{{','.join(pairs)}}}"


def _number_text(number: float) -> str:
    """Return a number as JSON.

    1 and 1.0 have the same text, and so have numbers that differ only beyond `DIGITS` digits. What
    JSON has no number for, such as NaN, is in quotes.
    """
    if isinstance(number, int):
        return _integer_text(number)
    if isnan(number):
        return '"NaN"'
    if not isfinite(number):
        if number > 0:
            return '"Infinity"'
        return '"-Infinity"'
    rounded = float(f"{number:.{DIGITS}g}")
    if rounded.is_integer():
        return str(int(rounded))
    return repr(rounded)


def _integer_text(number: int) -> str:
    """Return an integer of any length as text: decimal or, if it is very long, hexadecimal."""
    try:
        return str(number)
    except ValueError:
        # Python refuses to write more than 4,300 decimal digits.
        return hex(number)
