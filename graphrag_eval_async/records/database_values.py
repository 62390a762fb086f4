"""JSON of the values that drivers of graph databases return in Python.

Classes are recognized by their names, so that no driver needs to be installed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import timedelta


def find_json_writer(value: Any) -> Callable[[Any], Any] | None:
    """Return the function that converts a value of a driver to JSON.

    The function converts the value alone, not the values inside it, such as the properties of a
    node.

    Returns:
        None if `value` is of no class of Neo4j's driver and no `timedelta`, as Ladybug returns.
    """
    # Points and relationships are of subclasses.
    for ancestor in type(value).__mro__:
        package = ancestor.__module__.partition(".")[0]
        writer = _WRITERS.get((package, ancestor.__name__))
        if writer is not None:
            return writer
    return None


def _write_temporal(value: Any) -> str:
    """Return a date, time or duration of Neo4j's driver as text in ISO 8601."""
    return str(value.iso_format())


def _write_timedelta(value: timedelta) -> str:
    """Return a duration of Python as text in ISO 8601, such as ``P1DT30.500000S``."""
    return f"P{value.days}DT{value.seconds}.{value.microseconds:06}S"


def _write_point(point: Any) -> dict[str, str]:
    """Return a point as in the typed JSON of Neo4j's Query API.

    Without its type, it would be a list of numbers.
    """
    coordinates = " ".join(str(number) for number in point)
    text = f"POINT ({coordinates})"
    if len(point) == 3:
        text = f"POINT Z ({coordinates})"
    if point.srid is not None:
        text = f"SRID={point.srid};{text}"
    return {"$type": "Point", "_value": text}


def _write_vector(vector: Any) -> Any:
    """Return a vector of Neo4j's driver as a list of numbers."""
    return vector.to_native()


def _write_node(node: Any) -> dict[str, Any]:
    """Return a node as in the JSON of Neo4j's Query API."""
    return {
        "elementId": node.element_id,
        "labels": sorted(node.labels),
        "properties": dict(node.items()),
    }


def _write_relationship(relationship: Any) -> dict[str, Any]:
    """Return a relationship as in the JSON of Neo4j's Query API, with the nodes at its ends.

    The driver may know only the id of such a node. Then the node has no labels and no properties,
    and only its id is written.
    """
    fields = {
        "elementId": relationship.element_id,
        "type": relationship.type,
        "properties": dict(relationship.items()),
    }
    for name, node in (("start", relationship.start_node), ("end", relationship.end_node)):
        if node is None:
            continue
        fields[f"{name}NodeElementId"] = node.element_id
        if node.labels or len(node) > 0:
            fields[name] = node
    return fields


def _write_path(path: Any) -> dict[str, Any]:
    """Return a path as an object with its nodes and its relationships, in order."""
    return {"nodes": list(path.nodes), "relationships": list(path.relationships)}


_WRITERS: Mapping[tuple[str, str], Callable[[Any], Any]] = {
    ("neo4j", "Record"): dict,
    ("neo4j", "Node"): _write_node,
    ("neo4j", "Relationship"): _write_relationship,
    ("neo4j", "Path"): _write_path,
    ("neo4j", "Point"): _write_point,
    ("neo4j", "Vector"): _write_vector,
    ("neo4j", "Date"): _write_temporal,
    ("neo4j", "DateTime"): _write_temporal,
    ("neo4j", "Time"): _write_temporal,
    ("neo4j", "Duration"): _write_temporal,
    ("datetime", "timedelta"): _write_timedelta,
}
"""The functions that convert values to JSON, by the package and the name of their class."""
