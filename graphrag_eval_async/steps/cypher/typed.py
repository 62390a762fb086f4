"""Reads the typed JSON of Neo4j's Query API, in which each value says its type.

https://neo4j.com/docs/query-api/current/result-formats/
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from graphrag_eval_async.errors import MalformedStep
from graphrag_eval_async.steps.cypher.points import point_of_text
from graphrag_eval_async.steps.cypher.values import (
    Node,
    Path,
    Point,
    Relationship,
    Value,
    path_of_parts,
)

TEXT_TYPES = frozenset(
    {
        "String", "Base64", "Date", "Time", "LocalTime", "DateTime", "OffsetDateTime",
        "ZonedDateTime", "LocalDateTime", "Duration",
    }
)  # fmt: skip
"""Types whose values are text; dates, times and durations are recognized as such later."""


def is_typed(value: Any) -> bool:
    """Return whether a value of JSON is an object with ``$type`` and ``_value`` alone."""
    return isinstance(value, Mapping) and value.keys() == {"$type", "_value"}


def typed_value(raw: Any) -> Value:
    """Convert an object with ``$type`` and ``_value`` to a value of Cypher.

    Raises:
        MalformedStep: `raw` is no such object, or its ``_value`` does not fit its ``$type``.
    """
    if not is_typed(raw):
        raise MalformedStep(f"expected a value with $type and _value, got {str(raw)[:40]}")
    kind = raw["$type"]
    contents = raw["_value"]
    try:
        return _read_contents(kind, contents)
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError):
        # The readers of the types do not check the contents, which may be any JSON.
        raise MalformedStep(f"no {str(kind)[:20]}: {str(contents)[:40]}") from None


def _read_contents(kind: str, contents: Any) -> Value:
    """Convert the ``_value`` of an object to a value of Cypher.

    Args:
        kind: its ``$type``.
        contents: its ``_value``, which is not checked yet.
    """
    if kind == "Null" or contents is None:
        return None
    read = _READERS.get(kind)
    if read is not None:
        return read(contents)
    if isinstance(contents, str | int | float | bool):
        # Neo4j may add types later; plain values of these are taken as they are.
        return contents
    raise MalformedStep(f"unknown type {kind[:20]}")


def _boolean(contents: Any) -> bool:
    """Return a boolean, which may be written as text."""
    if isinstance(contents, bool):
        return contents
    if contents not in ("true", "false"):
        raise ValueError
    return bool(contents == "true")


def _list(contents: list[Any]) -> list[Value]:
    """Convert the items of a list, which have a type each."""
    return [typed_value(item) for item in contents]


def _map(contents: Mapping[str, Any]) -> dict[str, Value]:
    """Convert the values of a map, which have a type each."""
    return {key: typed_value(item) for key, item in contents.items()}


def _point(contents: str) -> Point:
    """Convert a point in well-known text."""
    point = point_of_text(contents)
    if point is None:
        raise ValueError
    return point


def _node(contents: Mapping[str, Any]) -> Node:
    """Convert a node, whose properties have a type each."""
    properties = _map(contents["_properties"])
    return Node(frozenset(contents["_labels"]), properties, contents.get("_element_id"))


def _relationship(contents: Mapping[str, Any]) -> Relationship:
    """Convert a relationship, which names its nodes by their internal ids."""
    return Relationship(
        type=contents["_type"],
        properties=_map(contents["_properties"]),
        start_id=contents.get("_start_node_element_id"),
        end_id=contents.get("_end_node_element_id"),
    )


def _path(contents: list[Any]) -> Path:
    """Convert a path, which is a list of nodes and relationships in turns.

    Raises:
        ValueError: the list has other parts, or does not begin and end with a node.
    """
    parts = [typed_value(part) for part in contents]
    path = path_of_parts(nodes=parts[::2], relationships=parts[1::2])
    if path is None:
        raise ValueError
    return path


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
"""The function that converts a ``_value``, by its ``$type``."""
