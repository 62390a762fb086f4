"""Takes from values of Cypher what one of two outputs does not tell.

The nodes of `record.data()`, for example, are maps of their properties. A node of another output is
reduced to such a map before the two are compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from graphrag_eval_async.steps.cypher.detail import (
    RELATIONSHIP_PARTS,
    Detail,
    Form,
    coordinates_by_size,
    is_chain,
)
from graphrag_eval_async.steps.cypher.moments import duration
from graphrag_eval_async.steps.cypher.values import (
    PLAIN_TYPES,
    Node,
    Path,
    PathEnds,
    Point,
    Relationship,
    Value,
)
from graphrag_eval_async.steps.tables.temporal import SECONDS_PER_DAY

DURATION_PARTS = 4
"""Length of the list of months, days, seconds and nanoseconds that JSON makes of a duration."""

NANOSECONDS = 1_000_000_000

COORDINATES = (2, 3)
"""How many coordinates a point has."""


def reduce_to_detail(value: Value, detail: Detail) -> Value:
    """Return a value without the parts that do not count. Values inside it are not reduced.

    Args:
        value: any value of Cypher.
        detail: which parts of values count.
    """
    if isinstance(value, PLAIN_TYPES):
        return value
    if isinstance(value, Node) and not detail.labels:
        return value.properties
    if isinstance(value, Relationship):
        return _reduce_relationship(value, detail)
    if isinstance(value, Path):
        return _reduce_path(value, detail)
    if isinstance(value, Point) and not detail.points:
        return list(value.coordinates)
    if isinstance(value, list):
        return _reduce_list(value, detail)
    return value


def _reduce_relationship(relationship: Relationship, detail: Detail) -> Value:
    """Return the parts of a relationship that count.

    By `Form`, they are:

    - MAPS: its properties.
    - CHAIN: a list of the properties of its start, its type, and the properties of its end.
    - others: the whole relationship.
    """
    if detail.relationships is Form.MAPS:
        return relationship.properties
    if detail.relationships is Form.CHAIN:
        # Two empty maps stand for nodes that are not known.
        start: Mapping[str, Value] = {}
        end: Mapping[str, Value] = {}
        if relationship.start is not None and relationship.end is not None:
            start = relationship.start.properties
            end = relationship.end.properties
        return _reduce_list([start, relationship.type, end], detail)
    return relationship


def _reduce_path(path: Path, detail: Detail) -> Value:
    """Return the parts of a path that count.

    By `Form`, they are:

    - FULL: the whole path.
    - ENDS: its first node, its last node and its length.
    - CHAIN: a list in which properties of nodes and types of relationships take turns.
    - MAPS: a list in which properties of nodes and properties of relationships take turns.
    """
    if detail.paths is Form.FULL:
        return path
    if detail.paths is Form.ENDS:
        return PathEnds(path.nodes[0], path.nodes[-1], len(path.relationships))
    items: list[Any] = [path.nodes[0].properties]
    for relationship, node in zip(path.relationships, path.nodes[1:], strict=True):
        if detail.paths is Form.CHAIN:
            items.append(relationship.type)
        else:
            items.append(relationship.properties)
        items.append(node.properties)
    return _reduce_list(items, detail)


def _reduce_list(items: list[Any], detail: Detail) -> Value:
    """Return a list or, if JSON made it of a duration, path or relationship, the parts that count.

    A duration becomes text, a path becomes `PathEnds` if only its ends count, and a relationship
    loses its ends if these do not count.
    """
    if detail.durations_from_lists and is_duration(items):
        months, days, seconds, nanoseconds = items
        all_seconds = days * SECONDS_PER_DAY + seconds + Fraction(nanoseconds, NANOSECONDS)
        return duration(months=months, seconds=all_seconds).text
    if not is_chain(items):
        return items
    if detail.paths is Form.ENDS:
        # Labels do not count where a path is such a list, so the nodes have none.
        start = Node(frozenset(), items[0])
        end = Node(frozenset(), items[-1])
        return PathEnds(start, end, length=len(items) // 2)
    if len(items) == RELATIONSHIP_PARTS and not detail.ends:
        return [{}, items[1], {}]
    return items


def is_duration(items: list[Any]) -> bool:
    """Return whether a list has the form that JSON of Neo4j's driver gives a duration.

    It has four integers: months, days, seconds and nanoseconds.
    """
    return len(items) == DURATION_PARTS and all(type(item) is int for item in items)


def is_in_order(items: list[Any], detail: Detail) -> bool:
    """Return whether the order of the items of a list counts.

    It counts in all lists if the reference step asks for it. Otherwise, it counts only in lists
    that stand for relationships, paths and points: for points, if the other output has a point of
    the same coordinates, and for paths, if it has a path of the same length.
    """
    if detail.is_ordered or is_chain(items):
        return True
    if len(items) in COORDINATES and all(type(item) in (int, float) for item in items):
        return coordinates_by_size(items) in detail.coordinates_of_points
    may_be_path = len(items) > 1 and len(items) in detail.sizes_of_paths
    return may_be_path and all(isinstance(item, Mapping) for item in items)
