"""Reads the typed JSON of Neo4j's Query API, in which each value says its type.

https://neo4j.com/docs/query-api/current/result-formats/
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from graphrag_eval_async.errors import MalformedStep
from graphrag_eval_async.steps.cypher.points import point_of_text
from graphrag_eval_async.steps.cypher.values import Node, Path, Point, Relationship, Value

TEXT_TYPES = frozenset(
    {
        "String", "Base64", "Date", "Time", "LocalTime", "DateTime", "OffsetDateTime",
        "ZonedDateTime", "LocalDateTime", "Duration",
    }
)  # fmt: skip
"""Types whose values are text; dates, times and durations are recognized as such later."""


def is_typed(value: Any) -> bool:
    """Return whether a value of JSON is a value with its type."""
    return isinstance(value, Mapping) and value.keys() == {"$type", "_value"}


def typed_value(raw: Any) -> Value:
    """Return the value of Cypher that a value with its type is.

    Raises:
        MalformedStep: it is no value with a type, or has the wrong contents.
    """
    if not is_typed(raw):
        raise MalformedStep(f"expected a value with $type and _value, got {str(raw)[:40]}")
    kind = raw["$type"]
    contents = raw["_value"]
    try:
        return _read_contents(kind, contents)
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError):
        raise MalformedStep(f"no {str(kind)[:20]}: {str(contents)[:40]}") from None


def _read_contents(kind: str, contents: Any) -> Value:
    """Return the value of a type, whose contents may be anything."""
    if kind == "Null" or contents is None:
        return None
    read = _READERS.get(kind)
    if read is not None:
        return read(contents)
    if isinstance(contents, str | int | float | bool):
        return contents  # Of a type that Neo4j added later.
    raise MalformedStep(f"unknown type {kind[:20]}")


def _boolean(contents: Any) -> bool:
    if isinstance(contents, bool):
        return contents
    return {"true": True, "false": False}[contents]


def _list(contents: list[Any]) -> list[Value]:
    return [typed_value(item) for item in contents]


def _map(contents: Mapping[str, Any]) -> dict[str, Value]:
    return {key: typed_value(item) for key, item in contents.items()}


def _point(contents: str) -> Point:
    point = point_of_text(contents)
    if point is None:
        raise ValueError
    return point


def _node(contents: Mapping[str, Any]) -> Node:
    properties = _map(contents["_properties"])
    return Node(frozenset(contents["_labels"]), properties, contents.get("_element_id"))


def _relationship(contents: Mapping[str, Any]) -> Relationship:
    return Relationship(
        type=contents["_type"],
        properties=_map(contents["_properties"]),
        start_id=contents.get("_start_node_element_id"),
        end_id=contents.get("_end_node_element_id"),
    )


def _path(contents: list[Any]) -> Path:
    parts = [typed_value(part) for part in contents]
    nodes = tuple(part for part in parts[::2] if isinstance(part, Node))
    relationships = tuple(part for part in parts[1::2] if isinstance(part, Relationship))
    if len(parts) != len(nodes) + len(relationships) or len(nodes) != len(relationships) + 1:
        raise ValueError
    return Path(nodes, relationships)


_READERS: Mapping[str, Callable[[Any], Value]] = {
    "Boolean": _boolean,
    "Integer": int,
    "Float": float,
    **dict.fromkeys(TEXT_TYPES, str),
    "List": _list,
    "Map": _map,
    "Point": _point,
    "Node": _node,
    "Relationship": _relationship,
    "Path": _path,
}
"""What reads the contents of a value, by its type."""
