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
"""Keys of which an object has at least one if it is more than a map."""

PATH_KEYS = frozenset({"nodes", "relationships", "start", "end", "length"})
JAVASCRIPT_PATH_KEYS = frozenset({"start", "end", "segments", "length"})
SEGMENT_KEYS = frozenset({"start", "relationship", "end"})


def value_of(raw: Any) -> Value:
    """Return the value of Cypher that a value of JSON stands for.

    Values of Cypher, which a reader of text returns, stay what they are. Texts inside them may
    stand for other values.

    Raises:
        MalformedStep: it claims to be an object of Neo4j's driver, and cannot be read.
    """
    if isinstance(raw, str):
        return _value_of_text(raw)
    if isinstance(raw, float):
        return None if isnan(raw) else raw  # Pandas writes null as NaN.
    if isinstance(raw, int | NoneType | Point):
        return raw
    if isinstance(raw, Mapping):
        return _value_of_object(raw)
    if isinstance(raw, list | tuple):
        items = [value_of(item) for item in raw]
        return _path_of_items(items) or items
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
    """Return a node whose properties were read as values of Cypher."""
    return Node(node.labels, _map(node.properties), node.id)


def _relationship_with_values(relationship: Relationship) -> Relationship:
    """Return a relationship whose properties, and those of its nodes, were read as values."""
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
    """Return a text, or the point or the object of Neo4j's driver that it shows."""
    if isinstance(text, UntypedText):
        return text
    if text.startswith(OBJECT_STARTS):
        return value_of(read_literal(text))
    if may_be_point(text):
        return point_of_text(text) or text
    return text


def _value_of_object(raw: Mapping[str, Any]) -> Value:
    """Return what an object stands for: by its keys, or else a map."""
    if raw.keys().isdisjoint(TELLING_KEYS):
        return _map(raw)  # As most are, which the readers below would find out slowly.
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
    """Return a map, or the properties of a node or relationship, with values of Cypher."""
    return {str(key): value_of(item) for key, item in raw.items()}


def _javascript_integer(raw: Mapping[str, int]) -> int:
    """Return the integer of 64 bits that Neo4j's JavaScript driver writes in two halves."""
    return (raw["high"] << 32) + (raw["low"] & 0xFFFFFFFF)


def _first_value(raw: Mapping[str, Any], keys: tuple[str, ...]) -> Any:
    """Return the value of the first of some keys that an object has; None if it has none."""
    for key in keys:
        if raw.get(key) is not None:
            return raw[key]
    return None


def _id_text(raw: Any) -> str | None:
    """Return an internal id as text, so that ids can be compared; None if there is none."""
    if raw is None:
        return None
    if isinstance(raw, Mapping) and raw.keys() == {"low", "high"}:
        return str(_javascript_integer(raw))
    return str(raw)


def _node(raw: Mapping[str, Any]) -> Node | None:
    """Return the node that an object is; None if it is none."""
    if "_LABEL" in raw:
        return None if "_SRC" in raw else _ladybug_node(raw)
    labels = _first_value(raw, LABELS_KEYS)
    properties = _first_value(raw, PROPERTIES_KEYS)
    if not (isinstance(labels, list) and isinstance(properties, Mapping)):
        return None
    has_other_keys = not raw.keys() <= NODE_KEYS
    if has_other_keys or not all(isinstance(label, str) for label in labels):
        return None
    return Node(frozenset(labels), _map(properties), _id_text(_first_value(raw, ID_KEYS)))


def _ladybug_node(raw: Mapping[str, Any]) -> Node:
    """Return a node of Ladybug, which has its properties beside its id and its label."""
    label = raw["_LABEL"]
    labels = label if isinstance(label, list) else [label]
    return Node(
        labels=frozenset(str(name) for name in labels),
        properties=_ladybug_properties(raw),
        id=_id_text(raw.get("_ID")),
    )


def _ladybug_properties(raw: Mapping[str, Any]) -> dict[str, Value]:
    """Return the properties of a node or relationship of Ladybug."""
    return _map({key: item for key, item in raw.items() if key not in LADYBUG_KEYS})


def _relationship(raw: Mapping[str, Any]) -> Relationship | None:
    """Return the relationship that an object is; None if it is none."""
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
    """Return the type of a relationship; None if the object tells none."""
    if raw.get("type") == "relationship" and "label" in raw:
        return raw["label"]  # As APOC and Memgraph write it.
    return _first_value(raw, TYPE_KEYS)


def _node_at_end(raw: Any) -> Node | None:
    """Return the node in full at the end of a relationship; None if only its id is there."""
    return _node(raw) if isinstance(raw, Mapping) else None


def _id_of_end(raw: Any) -> str | None:
    """Return the internal id of a node at the end of a relationship; None if there is none.

    Args:
        raw: the id, or the node in full.
    """
    node = _node_at_end(raw)
    return _id_text(raw) if node is None else node.id


def _ladybug_path(raw: Mapping[str, Any]) -> Path | list[Value] | None:
    """Return the path in an object of Ladybug; None if it is none.

    A relationship of variable length also has these keys, but only the nodes between its ends. It
    is a list of relationships, as in Cypher.
    """
    if raw.keys() != {"_NODES", "_RELS"}:
        return None
    nodes = [value_of(node) for node in raw["_NODES"]]
    relationships = [value_of(relationship) for relationship in raw["_RELS"]]
    return _path_of_parts(nodes, relationships) or relationships


def _path(raw: Mapping[str, Any]) -> Path | None:
    """Return the path in an object with its nodes and relationships; None if it is none."""
    if {"nodes", "relationships"} <= raw.keys() <= PATH_KEYS:
        nodes = raw["nodes"]
        relationships = raw["relationships"]
        if isinstance(nodes, list) and isinstance(relationships, list):
            return _path_of_parts(
                [value_of(node) for node in nodes],
                [value_of(relationship) for relationship in relationships],
            )
    segments = raw.get("segments")
    if raw.keys() == JAVASCRIPT_PATH_KEYS and isinstance(segments, list):
        if not all(isinstance(part, Mapping) and part.keys() == SEGMENT_KEYS for part in segments):
            return None
        nodes = [value_of(raw["start"]), *(value_of(part["end"]) for part in segments)]
        return _path_of_parts(nodes, [value_of(part["relationship"]) for part in segments])
    return None


def _path_of_parts(nodes: list[Value], relationships: list[Value]) -> Path | None:
    """Return the path of some nodes and relationships; None if they make none."""
    if len(nodes) != len(relationships) + 1:
        return None
    if not all(isinstance(node, Node) for node in nodes):
        return None
    if not all(isinstance(relationship, Relationship) for relationship in relationships):
        return None
    return Path(tuple(nodes), tuple(relationships))  # type: ignore[arg-type]


def _path_of_items(items: list[Value]) -> Path | None:
    """Return the path in a list of nodes and relationships that take turns; None if it is none."""
    if len(items) < 3 or not isinstance(items[0], Node):
        return None
    return _path_of_parts(items[::2], items[1::2])
