"""Reads decoded JSON as values of Cypher: nodes, relationships, paths and points by their keys.

Neo4j's HTTP APIs and drivers, Memgraph, Neptune, Ladybug and APOC write them under different keys.
People may write them in reference sets as ``{labels: [Film], properties: {...}}`` and ``{type:
DIRECTED, properties: {...}, start: {...}, end: {...}}``.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isnan
from types import NoneType
from typing import Any

from graphrag_eval_async.errors import MalformedStep
from graphrag_eval_async.steps.cypher.literals import OBJECT_STARTS, read_literal
from graphrag_eval_async.steps.cypher.points import (
    may_be_point,
    point_of_object,
    point_of_text,
)
from graphrag_eval_async.steps.cypher.typed import is_typed, typed_value
from graphrag_eval_async.steps.cypher.values import (
    Node,
    Path,
    PathEnds,
    Point,
    Relationship,
    UntypedText,
    Value,
    path_of_parts,
)

ID_KEYS = (
    "elementId", "element_id", "_element_id", "_ID", "~id", "identity", "id",
)  # fmt: skip
"""Keys of the internal id of a node or relationship."""

START_KEYS = (
    "_start_node_element_id", "startNodeElementId", "startElementId", "start_node_element_id",
    "_SRC", "~start", "startNode", "start_node", "start",
)  # fmt: skip
"""Keys under which a relationship has the id of its first node, or that node itself."""

END_KEYS = (
    "_end_node_element_id", "endNodeElementId", "endElementId", "end_node_element_id",
    "_DST", "~end", "endNode", "end_node", "end",
)  # fmt: skip
"""Keys under which a relationship has the id of its last node, or that node itself."""

LABELS_KEYS = ("labels", "_labels", "~labels")
PROPERTIES_KEYS = ("properties", "_properties", "~properties")
TYPE_KEYS = ("_type", "~type", "type", "label")
KIND_KEYS = ("~entityType",)
"""Keys of which one may say whether an object is a node or a relationship."""

NODE_KEYS = frozenset({*ID_KEYS, *LABELS_KEYS, *PROPERTIES_KEYS, *KIND_KEYS, "type"})
RELATIONSHIP_KEYS = frozenset(
    {*ID_KEYS, *START_KEYS, *END_KEYS, *PROPERTIES_KEYS, *TYPE_KEYS, *KIND_KEYS}
)

LADYBUG_KEYS = frozenset({"_ID", "_LABEL", "_SRC", "_DST"})
"""Keys that Ladybug puts among the properties of nodes and relationships."""

TELLING_KEYS = frozenset(
    {*LABELS_KEYS, *PROPERTIES_KEYS, "_LABEL", "_NODES", "nodes", "segments", "$type", "low"}
    | {"crs", "srid", "coordinates"}
)
"""Keys of which each object that is more than a map has at least one."""

PATH_KEYS = frozenset({"nodes", "relationships", "start", "end", "length"})
JAVASCRIPT_PATH_KEYS = frozenset({"start", "end", "segments", "length"})
SEGMENT_KEYS = frozenset({"start", "relationship", "end"})


def value_of(raw: Any) -> Value:
    """Convert a value of JSON, with all values inside it, to a value of Cypher.

    `raw` may also be a value of Cypher, as the reader of literals returns it. Then only the values
    inside it are converted.

    Raises:
        MalformedStep: a text begins like an object of Neo4j's driver and cannot be read, or a value
            is of another type.
    """
    if isinstance(raw, str):
        return _value_of_text(raw)
    if isinstance(raw, float):
        # Pandas writes null as NaN.
        return None if isnan(raw) else raw
    if isinstance(raw, int | NoneType | Point):
        return raw
    if isinstance(raw, Mapping):
        return _value_of_object(raw)
    if isinstance(raw, list | tuple):
        return _path_or_list([value_of(item) for item in raw])
    if isinstance(raw, Node):
        return _with_values(raw)
    if isinstance(raw, Relationship):
        return _relationship_with_values(raw)
    if isinstance(raw, Path):
        nodes = [_with_values(node) for node in raw.nodes]
        relationships = [_relationship_with_values(item) for item in raw.relationships]
        return Path(tuple(nodes), tuple(relationships))
    if isinstance(raw, PathEnds):
        return PathEnds(_with_values(raw.start), _with_values(raw.end), raw.length)
    raise MalformedStep(f"a cell that is no value of Cypher: {str(raw)[:40]}")


def _with_values(node: Node) -> Node:
    """Return a copy of a node whose properties are converted to values of Cypher."""
    return Node(node.labels, _map(node.properties), node.id)


def _relationship_with_values(relationship: Relationship) -> Relationship:
    """Return a copy of a relationship whose properties are converted to values of Cypher.

    The properties of the nodes at its ends are converted, too.
    """
    start = relationship.start
    end = relationship.end
    return Relationship(
        type=relationship.type,
        properties=_map(relationship.properties),
        start=None if start is None else _with_values(start),
        end=None if end is None else _with_values(end),
        start_id=relationship.start_id,
        end_id=relationship.end_id,
    )


def _value_of_text(text: str) -> Value:
    """Return the object of Neo4j's driver or the point that a text shows, or the text itself."""
    if isinstance(text, UntypedText):
        # The reader of its cell has looked for objects already.
        return text
    if text.startswith(OBJECT_STARTS):
        return value_of(read_literal(text))
    if may_be_point(text):
        point = point_of_text(text)
        if point is not None:
            return point
    return text


def _value_of_object(raw: Mapping[str, Any]) -> Value:
    """Return the value that an object stands for by its keys; a map if the keys tell nothing."""
    if raw.keys().isdisjoint(TELLING_KEYS):
        # Most objects are maps. The readers below would find that out more slowly.
        return _map(raw)
    if is_typed(raw):
        return typed_value(raw)
    if raw.keys() == {"low", "high"} and all(type(part) is int for part in raw.values()):
        return _javascript_integer(raw)
    for read in (_node, _relationship, _ladybug_path, _path, point_of_object):
        value = read(raw)
        if value is not None:
            return value
    return _map(raw)


def _map(raw: Mapping[str, Any]) -> dict[str, Value]:
    """Convert the values of a map, or of properties, to values of Cypher; keys become texts."""
    return {str(key): value_of(item) for key, item in raw.items()}


def _javascript_integer(raw: Mapping[str, int]) -> int:
    """Return the integer of 64 bits that Neo4j's JavaScript driver writes in two halves.

    Both halves have 32 bits; the low one may be written as a negative number.
    """
    return (raw["high"] << 32) + (raw["low"] & 0xFFFFFFFF)


def _first_value(raw: Mapping[str, Any], keys: tuple[str, ...]) -> Any:
    """Return the first value under any of `keys` that is not null; None if there is none."""
    for key in keys:
        if raw.get(key) is not None:
            return raw[key]
    return None


def _id_text(raw: Any) -> str | None:
    """Return an internal id as text, so that ids of all forms can be compared; None for null."""
    if raw is None:
        return None
    if isinstance(raw, Mapping) and raw.keys() == {"low", "high"}:
        return str(_javascript_integer(raw))
    return str(raw)


def _node(raw: Mapping[str, Any]) -> Node | None:
    """Read an object as a node; None if it is no node."""
    if "_LABEL" in raw:
        # Ladybug's relationships have a label, too, and a source.
        if "_SRC" in raw:
            return None
        return _ladybug_node(raw)
    labels = _first_value(raw, LABELS_KEYS)
    properties = _first_value(raw, PROPERTIES_KEYS)
    if not (isinstance(labels, list) and isinstance(properties, Mapping)):
        return None
    has_other_keys = not raw.keys() <= NODE_KEYS
    if has_other_keys or not all(isinstance(label, str) for label in labels):
        return None
    return Node(frozenset(labels), _map(properties), _id_text(_first_value(raw, ID_KEYS)))


def _ladybug_node(raw: Mapping[str, Any]) -> Node:
    """Read a node of Ladybug, which has its properties beside its id and its label."""
    labels = raw["_LABEL"]
    if not isinstance(labels, list):
        labels = [labels]
    return Node(
        labels=frozenset(str(name) for name in labels),
        properties=_ladybug_properties(raw),
        id=_id_text(raw.get("_ID")),
    )


def _ladybug_properties(raw: Mapping[str, Any]) -> dict[str, Value]:
    """Return the properties of a node or relationship of Ladybug."""
    return _map({key: item for key, item in raw.items() if key not in LADYBUG_KEYS})


def _relationship(raw: Mapping[str, Any]) -> Relationship | None:
    """Read an object as a relationship; None if it is no relationship."""
    if "_SRC" in raw and "_LABEL" in raw:
        relationship_type = raw["_LABEL"]
        properties = _ladybug_properties(raw)
    else:
        relationship_type = _type_of_relationship(raw)
        raw_properties = _first_value(raw, PROPERTIES_KEYS)
        if not raw.keys() <= RELATIONSHIP_KEYS or not isinstance(raw_properties, Mapping):
            return None
        properties = _map(raw_properties)
    if not isinstance(relationship_type, str):
        return None
    return Relationship(
        type=relationship_type,
        properties=properties,
        start=_node_at_end(_first_value(raw, ("start", "startNode", "start_node"))),
        end=_node_at_end(_first_value(raw, ("end", "endNode", "end_node"))),
        start_id=_id_of_end(_first_value(raw, START_KEYS)),
        end_id=_id_of_end(_first_value(raw, END_KEYS)),
    )


def _type_of_relationship(raw: Mapping[str, Any]) -> Any:
    """Return the type of a relationship; None if its object has none."""
    if raw.get("type") == "relationship" and "label" in raw:
        # APOC and Memgraph write the kind of the object under `type`.
        return raw["label"]
    return _first_value(raw, TYPE_KEYS)


def _node_at_end(raw: Any) -> Node | None:
    """Return a node at an end of a relationship; None if the relationship has only its id."""
    if isinstance(raw, Mapping):
        return _node(raw)
    return None


def _id_of_end(raw: Any) -> str | None:
    """Return the internal id of a node at an end of a relationship; None if there is none.

    Args:
        raw: the id, or the whole node.
    """
    node = _node_at_end(raw)
    if node is None:
        return _id_text(raw)
    return node.id


def _ladybug_path(raw: Mapping[str, Any]) -> Path | list[Value] | None:
    """Read a path of Ladybug; None if the object lacks the keys of a path.

    A relationship of variable length also has these keys, but only the nodes between its ends. In
    Cypher, it is a list of relationships, so such a list is returned.
    """
    if raw.keys() != {"_NODES", "_RELS"}:
        return None
    nodes = [value_of(node) for node in raw["_NODES"]]
    relationships = [value_of(relationship) for relationship in raw["_RELS"]]
    path = path_of_parts(nodes, relationships)
    if path is None:
        return relationships
    return path


def _path(raw: Mapping[str, Any]) -> Path | None:
    """Read an object as a path; None if it is no path.

    The object has lists of nodes and relationships or, from Neo4j's JavaScript driver, segments.
    """
    # Read lists of nodes and relationships.
    if {"nodes", "relationships"} <= raw.keys() <= PATH_KEYS:
        nodes = raw["nodes"]
        relationships = raw["relationships"]
        if isinstance(nodes, list) and isinstance(relationships, list):
            return path_of_parts(
                [value_of(node) for node in nodes],
                [value_of(relationship) for relationship in relationships],
            )

    # Read segments. Each begins with the node with which the segment before it ends.
    segments = raw.get("segments")
    if raw.keys() == JAVASCRIPT_PATH_KEYS and isinstance(segments, list):
        if not all(isinstance(part, Mapping) and part.keys() == SEGMENT_KEYS for part in segments):
            return None
        nodes = [value_of(raw["start"]), *(value_of(part["end"]) for part in segments)]
        return path_of_parts(nodes, [value_of(part["relationship"]) for part in segments])
    return None


def _path_or_list(items: list[Value]) -> Path | list[Value]:
    """Return a list, or a path if nodes and relationships take turns in the list."""
    # A list of a single node is not taken for a path.
    if len(items) < 3 or not isinstance(items[0], Node):
        return items
    path = path_of_parts(items[::2], items[1::2])
    if path is None:
        return items
    return path
