"""Results of Cypher queries as JSON text, with the types of their values.

The text is that of typed results of Neo4j's Query API:
https://neo4j.com/docs/query-api/current/result-formats/. So numbers, dates and points of all
databases keep their types, and nodes, relationships and paths have their labels and properties.
"""

from __future__ import annotations

from base64 import b64encode
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from math import isfinite, isnan
from typing import TYPE_CHECKING, Any, TypedDict
from uuid import UUID

import orjson

from graphrag_eval_async.execution.outcomes import QueryFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import neo4j.graph
    import neo4j.time

TypedValue = TypedDict("TypedValue", {"$type": str, "_value": Any})
"""A value of typed results: an object with its type and its contents."""


PLAIN_TYPES = frozenset({type(None), bool, int, float, str, bytes, list, dict})
"""Types of Python that drivers return as they are."""


class CypherResultWriter:
    """Collects the rows that a query returns, up to a limit, and writes them as JSON text."""

    def __init__(
        self,
        fields: Sequence[str],
        to_typed: Callable[[Any], TypedValue],
        *,
        max_rows: int,
        max_bytes: int,
    ) -> None:
        """Begin a result without rows.

        Args:
            fields: the names of its columns.
            to_typed: converts values of the database to typed values: `typed_by_driver` or
                `typed_by_ladybug`.
            max_rows: the query fails if it returns more rows.
            max_bytes: the query fails if the text of its rows has more bytes.
        """
        self._fields = [*fields]
        self._to_typed = to_typed
        self._max_rows = max_rows
        self._max_bytes = max_bytes
        self._rows: list[bytes] = []
        self._bytes = 0

    def add(self, row: Iterable[object]) -> None:
        """Add a row to the result.

        Args:
            row: the values of its cells, as the database returns them.

        Raises:
            QueryFailed: the result has too many rows or bytes, or a value cannot be written.
        """
        if len(self._rows) >= self._max_rows:
            raise QueryFailed("failed", f"it returns more than {self._max_rows:,} rows")
        try:
            encoded = orjson.dumps([self._to_typed(value) for value in row])
        except (TypeError, ValueError, RecursionError) as error:
            message = f"it returns a value that cannot be written as JSON: {error}"
            raise QueryFailed("failed", message) from None
        self._bytes += len(encoded)
        if self._bytes > self._max_bytes:
            raise QueryFailed("failed", f"it returns more than {self._max_bytes:,} bytes")
        self._rows.append(encoded)

    def text(self) -> str:
        """Return the result as JSON text."""
        fields = orjson.dumps(self._fields)
        rows = b",".join(self._rows)
        document = b'{"data":{"fields":' + fields + b',"values":[' + rows + b"]}}"
        return document.decode()


def typed_by_driver(value: object) -> TypedValue:
    """Convert a value that Neo4j's driver returned to a typed value.

    Raises:
        TypeError: typed results have no such type.
    """
    # Most values are of these types. Here, the check is exact, since types of the driver may be
    # subclasses of them.
    if type(value) in PLAIN_TYPES:
        return _typed_plain(value, typed_by_driver)

    import neo4j.graph
    import neo4j.spatial
    import neo4j.vector

    match value:
        case neo4j.graph.Node():
            return _node(
                element_id=value.element_id,
                labels=value.labels,
                properties=_driver_properties(value),
            )
        case neo4j.graph.Relationship():
            return _relationship_by_driver(value)
        case neo4j.graph.Path():
            steps: list[TypedValue] = [typed_by_driver(value.nodes[0])]
            for relationship, node in zip(value.relationships, value.nodes[1:], strict=True):
                steps += [typed_by_driver(relationship), typed_by_driver(node)]
            return _typed("Path", steps)
        case neo4j.spatial.Point():
            return _typed("Point", _point_text(value.srid, [*value]))
        case neo4j.vector.Vector():
            return typed_by_driver(value.to_native())
    # Durations of the driver are tuples, too, so they must not be taken for lists.
    temporal = _temporal_by_driver(value)
    if temporal is not None:
        return temporal
    return _typed_plain(value, typed_by_driver)


def _temporal_by_driver(value: object) -> TypedValue | None:
    """Convert a date, time or duration of Neo4j's driver to a typed value.

    Returns:
        None if `value` is no date, time or duration.
    """
    import neo4j.time

    match value:
        case neo4j.time.Duration():
            return _typed("Duration", value.iso_format())
        case neo4j.time.Date():
            return _typed("Date", value.iso_format())
        case neo4j.time.DateTime():
            return _typed_date_time(value)
        case neo4j.time.Time():
            return _typed_time(value)
    return None


def _driver_properties(
    entity: neo4j.graph.Node | neo4j.graph.Relationship,
) -> dict[str, TypedValue]:
    """Return the properties of a node or a relationship of Neo4j's driver as typed values."""
    return {name: typed_by_driver(value) for name, value in entity.items()}


def _relationship_by_driver(relationship: neo4j.graph.Relationship) -> TypedValue:
    """Convert a relationship of Neo4j's driver to a typed value.

    If the driver does not know a node at its ends, the id of that node is empty.
    """
    start = relationship.start_node
    end = relationship.end_node
    return _relationship(
        element_id=relationship.element_id,
        start_id="" if start is None else start.element_id,
        end_id="" if end is None else end.element_id,
        label=relationship.type,
        properties=_driver_properties(relationship),
    )


def typed_by_ladybug(value: object) -> TypedValue:
    """Convert a value that Ladybug returned to a typed value.

    Ladybug returns nodes, relationships and paths as dicts with keys that begin with `_`, and
    internal identifiers as dicts, too.

    Raises:
        TypeError: typed results have no such type.
    """
    if not isinstance(value, dict):
        return _typed_plain(value, typed_by_ladybug)
    if "_NODES" in value and "_RELS" in value:
        return _path_by_ladybug(value["_NODES"], value["_RELS"])
    if "_SRC" in value and "_DST" in value:
        return _relationship(
            element_id=_ladybug_id(value["_ID"]),
            start_id=_ladybug_id(value["_SRC"]),
            end_id=_ladybug_id(value["_DST"]),
            label=value["_LABEL"],
            properties=_ladybug_properties(value),
        )
    if "_ID" in value and "_LABEL" in value:
        return _node(
            element_id=_ladybug_id(value["_ID"]),
            labels=[value["_LABEL"]],
            properties=_ladybug_properties(value),
        )
    is_identifier = value.keys() == {"offset", "table"}
    if is_identifier:
        return _typed("String", _ladybug_id(value))
    return _typed_plain(value, typed_by_ladybug)


def _path_by_ladybug(
    nodes: Sequence[Mapping[str, Any]], relationships: Sequence[Mapping[str, Any]]
) -> TypedValue:
    """Convert a path of Ladybug to a typed value.

    The value of `r` in `(a)-[r*1..3]->(b)` has only the nodes between the ends. It becomes a list
    of relationships, as other databases return it.
    """
    typed_relationships = [typed_by_ladybug(relationship) for relationship in relationships]
    if len(nodes) != len(relationships) + 1:
        return _typed("List", typed_relationships)
    steps: list[TypedValue] = [typed_by_ladybug(nodes[0])]
    for relationship, node in zip(typed_relationships, nodes[1:], strict=True):
        steps += [relationship, typed_by_ladybug(node)]
    return _typed("Path", steps)


def _ladybug_id(identifier: Mapping[str, int] | None) -> str:
    """Return the internal identifier of a node or relationship as text; "" if that is None."""
    if identifier is None:
        return ""
    return f"{identifier['table']}:{identifier['offset']}"


def _ladybug_properties(entity: Mapping[str, Any]) -> dict[str, TypedValue]:
    """Return the properties of a node or relationship of Ladybug as typed values.

    Ladybug also returns the properties that only other nodes have, as None; these are left out.
    """
    internal_keys = {"_ID", "_LABEL", "_SRC", "_DST"}
    return {
        name: typed_by_ladybug(value)
        for name, value in entity.items()
        if name not in internal_keys and value is not None
    }


def _typed(kind: str, value: Any) -> TypedValue:
    """Return the typed value of a type such as "Integer", with its contents."""
    return {"$type": kind, "_value": value}


def _node(
    *, element_id: str, labels: Iterable[str], properties: Mapping[str, TypedValue]
) -> TypedValue:
    """Return a node as a typed value, with its labels sorted."""
    members = {"_element_id": element_id, "_labels": sorted(labels), "_properties": properties}
    return _typed("Node", members)


def _relationship(
    *,
    element_id: str,
    start_id: str,
    end_id: str,
    label: str,
    properties: Mapping[str, TypedValue],
) -> TypedValue:
    """Return a relationship as a typed value. `label` is its type, such as KNOWS."""
    members = {
        "_element_id": element_id,
        "_start_node_element_id": start_id,
        "_end_node_element_id": end_id,
        "_type": label,
        "_properties": properties,
    }
    return _typed("Relationship", members)


def _typed_plain(value: object, to_typed: Callable[[Any], TypedValue]) -> TypedValue:
    """Convert a value of Python, such as a number or a list, to a typed value.

    Args:
        value: the value.
        to_typed: converts the members of lists and maps.

    Raises:
        TypeError: typed results have no such type.
    """
    match value:
        case None:
            return _typed("Null", None)
        case bool():
            return _typed("Boolean", value)
        case int():
            return _typed("Integer", str(value))
        case float():
            return _typed("Float", _float_text(value))
        case Decimal():
            # Ladybug's integers of 128 bits have no digits after the point; its decimals have some.
            is_integer = value.as_tuple().exponent == 0
            kind = "Integer" if is_integer else "Float"
            return _typed(kind, f"{value:f}")
        case str() | UUID():
            return _typed("String", str(value))
        case bytes() | bytearray():
            return _typed("Base64", b64encode(value).decode())
        case list() | tuple():
            return _typed("List", [to_typed(item) for item in value])
        case dict():
            return _typed("Map", {str(key): to_typed(item) for key, item in value.items()})
    return _typed_temporal(value)


def _typed_temporal(value: object) -> TypedValue:
    """Convert a date, a time or a duration of Python to a typed value.

    Raises:
        TypeError: the value is no date, time or duration.
    """
    # A datetime is a date, too, so it comes first.
    match value:
        case datetime():
            return _typed_date_time(value)
        case date():
            return _typed("Date", value.isoformat())
        case time():
            return _typed_time(value)
        case timedelta():
            seconds = f"{value.seconds}.{value.microseconds:06}".rstrip("0").rstrip(".")
            return _typed("Duration", f"P{value.days}DT{seconds}S")
    raise TypeError(f"the type {type(value).__name__} is unknown")


def _float_text(number: float) -> str:
    """Return a number as typed results write it, such as "1.5", "NaN" or "-Infinity"."""
    if isnan(number):
        return "NaN"
    if isfinite(number):
        return repr(number)
    if number > 0:
        return "Infinity"
    return "-Infinity"


def _point_text(srid: int | None, coordinates: Sequence[float]) -> str:
    """Return a point as typed results write it, such as "SRID=7203;POINT (1.0 2.0)".

    Args:
        srid: the number of its reference system.
        coordinates: its two or three coordinates.
    """
    numbers = " ".join(_float_text(float(coordinate)) for coordinate in coordinates)
    geometry = "POINT"
    if len(coordinates) == 3:
        geometry = "POINT Z"
    return f"SRID={srid};{geometry} ({numbers})"


def _typed_date_time(value: datetime | neo4j.time.DateTime) -> TypedValue:
    """Convert a date with a time to a typed value.

    Its type depends on whether it has no time zone, an offset from UTC alone, or a named zone.
    """
    day = f"{value.year:04}-{value.month:02}-{value.day:02}"
    text = f"{day}T{_time_text(value)}"
    if value.tzinfo is None:
        return _typed("LocalDateTime", text)
    text += _offset_text(value.utcoffset())
    # The driver's time zones are those of pytz, which keeps their names in `zone`. A zone that is
    # only an offset has no name.
    zone = getattr(value.tzinfo, "zone", None)
    if zone is None:
        return _typed("OffsetDateTime", text)
    return _typed("ZonedDateTime", f"{text}[{zone}]")


def _typed_time(value: time | neo4j.time.Time) -> TypedValue:
    """Convert a time of day, with or without an offset from UTC, to a typed value."""
    text = _time_text(value)
    if value.tzinfo is None:
        return _typed("LocalTime", text)
    return _typed("Time", text + _offset_text(value.utcoffset()))


def _time_text(value: time | datetime | neo4j.time.Time | neo4j.time.DateTime) -> str:
    """Return the time of day, such as "12:50:35.5", without zeros at the end of its fraction."""
    # Times of the driver have nanoseconds, those of Python only microseconds.
    nanoseconds: int | None = getattr(value, "nanosecond", None)
    if nanoseconds is None:
        nanoseconds = 1000 * value.microsecond
    text = f"{value.hour:02}:{value.minute:02}:{value.second:02}"
    if nanoseconds == 0:
        return text
    return f"{text}.{nanoseconds:09}".rstrip("0")


def _offset_text(offset: timedelta | None) -> str:
    """Return an offset from UTC, such as "+01:00"; "Z" if it is zero or unknown."""
    if offset is None:
        return "Z"
    minutes = round(offset.total_seconds() / 60)
    if minutes == 0:
        return "Z"
    sign = "-" if minutes < 0 else "+"
    hours, minutes_of_hour = divmod(abs(minutes), 60)
    return f"{sign}{hours:02}:{minutes_of_hour:02}"
