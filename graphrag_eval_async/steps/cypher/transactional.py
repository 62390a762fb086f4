"""Reads rows of Neo4j's transactional HTTP API, which keeps kinds and properties apart.

A cell of ``row`` holds the properties of a node or relationship alone. ``meta`` has the ids of the
row's nodes and relationships in the order in which the cells hold them, and null for each other
value. ``graph`` has the labels, types and ends by these ids.

https://neo4j.com/docs/http-api/current/actions/result-format/
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from graphrag_eval_async.errors import MalformedStep
from graphrag_eval_async.steps.cypher.entities import value_of
from graphrag_eval_async.steps.cypher.values import (
    Node,
    Path,
    Point,
    Relationship,
    Value,
    path_of_parts,
    with_ends,
)

T = TypeVar("T", Node, Relationship)


def transactional_row(item: Mapping[str, Any]) -> list[Value]:
    """Return the cells of one row, which is an item of the list under ``data``.

    If the item lacks ``meta`` or ``graph``, nodes and relationships are maps of their properties.

    Raises:
        MalformedStep: ``row`` is no list.
    """
    cells = item.get("row")
    if not isinstance(cells, list):
        raise MalformedStep("results[].data[].row is no list")
    meta = item.get("meta")
    graph = item.get("graph")
    if not (isinstance(meta, list) and isinstance(graph, Mapping)):
        return [value_of(cell) for cell in cells]
    row = _Row(meta, graph)
    return [row.read_cell(cell) for cell in cells]


class _Row:
    """The cells of a row, read in order beside the metadata of the row."""

    def __init__(self, meta: list[Any], graph: Mapping[str, Any]) -> None:
        """Take the metadata and the graph of a row, as the API returns them."""
        # Items are popped from the end, so the metadata of the next cell must be last.
        self._meta = meta[::-1]
        nodes = _entities_by_id(graph.get("nodes"), Node)
        relationships = _entities_by_id(graph.get("relationships"), Relationship)
        self._entities: dict[str, Mapping[str, Value]] = {
            "node": nodes,
            "relationship": {
                key: with_ends(relationship, nodes) for key, relationship in relationships.items()
            },
        }

    def read_cell(self, cell: Any) -> Value:
        """Return the value of the next cell, and remove its metadata from `_meta`.

        A list or a map has metadata for each value in it; a path has one list of metadata.
        """
        following = None
        if self._meta:
            following = self._meta[-1]
        if isinstance(cell, list) and isinstance(following, list):
            return self._path(self._meta.pop())
        if isinstance(cell, list):
            return [self.read_cell(item) for item in cell]
        if isinstance(cell, Mapping):
            entity = self._entity(following)
            if entity is not None and _is_written_as(entity, cell):
                self._meta.pop()
                return entity
            point = value_of(cell)
            if isinstance(point, Point):
                self._meta.pop()
                return point
            return {key: self.read_cell(item) for key, item in cell.items()}
        if self._meta:
            self._meta.pop()
        return value_of(cell)

    def _entity(self, meta: Any) -> Node | Relationship | None:
        """Return the node or relationship that an item of metadata names; None if it names none."""
        if not isinstance(meta, Mapping):
            return None
        entities: Mapping[str, Value] = self._entities.get(str(meta.get("type")), {})
        entity = entities.get(str(meta.get("id")))
        return entity if isinstance(entity, Node | Relationship) else None

    def _path(self, metas: list[Any]) -> Path:
        """Return the path whose nodes and relationships a list of metadata names in turns.

        Raises:
            MalformedStep: the graph of the row lacks one of them, or they are in another order.
        """
        entities = [self._entity(meta) for meta in metas]
        path = path_of_parts(nodes=entities[::2], relationships=entities[1::2])
        if path is None:
            raise MalformedStep("results[].data[].meta of a path does not fit its graph")
        return path


def _entities_by_id(items: Any, kind: type[T]) -> dict[str, T]:
    """Return the nodes or relationships of a graph by their internal ids.

    Args:
        items: the nodes or relationships as a list of JSON. Any other value is an empty list.
        kind: `Node` or `Relationship`. Items that are not of this class are left out.
    """
    if not isinstance(items, list):
        return {}
    entities: dict[str, T] = {}
    for item in items:
        entity = value_of(item)
        if isinstance(item, Mapping) and isinstance(entity, kind):
            entities[str(item.get("id"))] = entity
    return entities


def _is_written_as(entity: Node | Relationship, cell: Mapping[str, Any]) -> bool:
    """Return whether a cell holds exactly the properties of a node or relationship.

    Any other map in the cell is a map of its own.
    """
    return {key: value_of(item) for key, item in cell.items()} == dict(entity.properties)
