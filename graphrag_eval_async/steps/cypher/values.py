"""The values that a Cypher query returns.

Null, booleans, numbers, text, lists and maps are those of Python. Dates, times and durations stay
text until cells are compared: most forms write them as text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import NoneType
from typing import Any, TypeAlias

PLAIN_TYPES = (str, int, float, NoneType)
"""Types of values that hold no others."""


@dataclass(frozen=True, slots=True)
class Node:
    """A node of a property graph.

    Attributes:
        labels: its labels.
        properties: its properties; one that is null is absent.
        id: its internal id, by which relationships name it; None if the output has none. It never
            counts in comparisons.
    """

    labels: frozenset[str]
    properties: Mapping[str, Value]
    id: str | None = None


@dataclass(frozen=True, slots=True)
class Relationship:
    """A relationship of a property graph.

    Attributes:
        type: its type.
        properties: its properties; one that is null is absent.
        start: the node where it begins; None if the output does not hold that node.
        end: the node where it ends; None if the output does not hold that node.
        start_id: the internal id of the first node; None if the output has none.
        end_id: the internal id of the last node; None if the output has none.
    """

    type: str
    properties: Mapping[str, Value]
    start: Node | None = None
    end: Node | None = None
    start_id: str | None = None
    end_id: str | None = None

    @property
    def has_ends(self) -> bool:
        """Whether both of its nodes are known."""
        return self.start is not None and self.end is not None


@dataclass(frozen=True, slots=True)
class Path:
    """A path: one node more than relationships, in the order in which the path passes them."""

    nodes: tuple[Node, ...]
    relationships: tuple[Relationship, ...]


def path_of_parts(nodes: Iterable[object], relationships: Iterable[object]) -> Path | None:
    """Return the path of nodes and relationships; None if their numbers or types fit no path."""
    path_nodes = []
    for node in nodes:
        if not isinstance(node, Node):
            return None
        path_nodes.append(node)
    path_relationships = []
    for relationship in relationships:
        if not isinstance(relationship, Relationship):
            return None
        path_relationships.append(relationship)
    if len(path_nodes) != len(path_relationships) + 1:
        return None
    return Path(tuple(path_nodes), tuple(path_relationships))


@dataclass(frozen=True, slots=True)
class PathEnds:
    """A path of which an output tells only the first node, the last node and the length.

    The text of a record of Neo4j's Python driver has paths like this.
    """

    start: Node
    end: Node
    length: int


@dataclass(frozen=True, slots=True)
class Point:
    """A point in space.

    Attributes:
        coordinates: two or three numbers: x, y and z, or longitude, latitude and height.
        srid: the number of its reference system, such as 4326; None if the output does not tell.
    """

    coordinates: tuple[float, ...]
    srid: int | None = None


class UntypedText(str):
    """The text of a cell whose format has no types, such as CSV: it may be a number."""

    __slots__ = ()


Value: TypeAlias = (
    "bool | int | float | str | Node | Relationship | Path | PathEnds | Point "
    "| Sequence[Any] | Mapping[str, Any] | None"
)
"""A value of Cypher."""


@dataclass(frozen=True, slots=True)
class CypherTable:
    """The names and rows that were read from an output.

    Attributes:
        names: the names of the columns, in order; numbered if the output does not name them.
        rows: the cells of each row, in the order of the names.
        tells_kinds: whether its form always distinguishes nodes, relationships, points and maps.
        has_types: whether its form distinguishes text from numbers.
        unread: text around the table, which was passed over.
    """

    names: tuple[str, ...]
    rows: Sequence[Sequence[Value]]
    tells_kinds: bool = False
    has_types: bool = True
    unread: str = ""


def walk(value: Value) -> Iterator[Value]:
    """Yield a value and all values inside it at any depth, in no particular order.

    The nodes at the ends of a relationship are not inside it.
    """
    waiting: list[Any] = [value]
    while waiting:
        item = waiting.pop()
        yield item
        if isinstance(item, Node | Relationship):
            waiting += item.properties.values()
        elif isinstance(item, Path):
            waiting += [*item.nodes, *item.relationships]
        elif isinstance(item, PathEnds):
            waiting += [item.start, item.end]
        elif isinstance(item, Mapping):
            waiting += item.values()
        elif isinstance(item, list | tuple):
            waiting += item


def count_values(value: Value) -> int:
    """Return the number of values inside a value at any depth, plus one for the value itself."""
    if isinstance(value, PLAIN_TYPES):
        return 1
    return sum(1 for _ in walk(value))


def with_ends(value: Value, nodes: Mapping[str, Node]) -> Value:
    """Return a copy of a value whose relationships have the nodes at their ends, if known.

    Args:
        value: any value. Relationships inside lists, maps and paths get their nodes, too.
        nodes: the nodes of the output, by their internal ids.
    """
    if isinstance(value, Relationship):
        return _relationship_with_ends(value, nodes)
    if isinstance(value, Path):
        nodes_of_path = {node.id: node for node in value.nodes if node.id is not None}
        all_nodes = {**nodes, **nodes_of_path}
        relationships = [
            _relationship_with_ends(relationship, all_nodes) for relationship in value.relationships
        ]
        return Path(value.nodes, tuple(relationships))
    if isinstance(value, Mapping):
        return {key: with_ends(item, nodes) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [with_ends(item, nodes) for item in value]
    return value


def _relationship_with_ends(relationship: Relationship, nodes: Mapping[str, Node]) -> Relationship:
    """Return a copy of a relationship with the nodes at its ends that its internal ids name.

    Args:
        relationship: the relationship. If it has a node at an end already, that node stays.
        nodes: nodes by their internal ids.
    """
    start = relationship.start
    end = relationship.end
    if start is None and relationship.start_id is not None:
        start = nodes.get(relationship.start_id)
    if end is None and relationship.end_id is not None:
        end = nodes.get(relationship.end_id)
    return replace(relationship, start=start, end=end)
