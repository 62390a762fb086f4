"""Values that drivers of graph databases return in Python, in outputs of steps."""

from __future__ import annotations

from datetime import UTC, date, timedelta
from typing import Any

import pytest
from neo4j import Record
from neo4j.graph import Graph, Node, Path
from neo4j.spatial import WGS84Point
from neo4j.time import Date, DateTime, Duration, Time

from tests.steps.cypher.forms import score

GRAPH = Graph()
TATI = Node(GRAPH, "4:db:1", 1, ["Person"], {"name": "Jacques Tati", "born": Date(1907, 10, 9)})
PLAYTIME = Node(GRAPH, "4:db:2", 2, ["Film"], {"title": "Playtime", "at": WGS84Point((2.4, 48.8))})
UNKNOWN = Node(GRAPH, "4:db:3", 3)


def relationship_of(start: Node, end: Node) -> Any:
    """A relationship as the driver makes it for a result."""
    relationship: Any = GRAPH.relationship_type("DIRECTED")(GRAPH, "5:db:1", 1, {"since": 1964})
    relationship._start_node = start
    relationship._end_node = end
    return relationship


def typed(kind: str, value: Any) -> dict[str, Any]:
    """A value in the typed JSON of the Query API."""
    return {"$type": kind, "_value": value}


TYPED_TATI = typed(
    "Node",
    {
        "_element_id": "4:x:8",
        "_labels": ["Person"],
        "_properties": {
            "name": typed("String", "Jacques Tati"),
            "born": typed("Date", "1907-10-09"),
        },
    },
)
TYPED_PLAYTIME = typed(
    "Node",
    {
        "_element_id": "4:x:9",
        "_labels": ["Film"],
        "_properties": {
            "title": typed("String", "Playtime"),
            "at": typed("Point", "SRID=4326;POINT (2.4 48.8)"),
        },
    },
)
TYPED_DIRECTED = typed(
    "Relationship",
    {
        "_element_id": "5:x:1",
        "_type": "DIRECTED",
        "_properties": {"since": typed("Integer", "1964")},
        "_start_node_element_id": "4:x:8",
        "_end_node_element_id": "4:x:9",
    },
)
VALUES = [
    pytest.param(Date(1967, 12, 16), typed("Date", "1967-12-16"), id="date"),
    pytest.param(
        DateTime(1967, 12, 16, 20, 30, 0, 5, tzinfo=UTC),
        typed("OffsetDateTime", "1967-12-16T20:30:00.000000005Z"),
        id="datetime",
    ),
    pytest.param(Time(20, 30, 15), typed("LocalTime", "20:30:15"), id="time"),
    pytest.param(
        Duration(months=1, days=2, seconds=3), typed("Duration", "P1M2DT3S"), id="duration"
    ),
    pytest.param(
        timedelta(hours=-1, microseconds=5), typed("Duration", "PT-3599.999995S"), id="timedelta"
    ),
    pytest.param(date(1967, 12, 16), typed("Date", "1967-12-16"), id="date_of_python"),
    pytest.param(WGS84Point((2.4, 48.8)), typed("Point", "SRID=4326;POINT (2.4 48.8)"), id="point"),
    pytest.param(
        WGS84Point((2.4, 48.8, 7)), typed("Point", "SRID=4979;POINT Z (2.4 48.8 7)"), id="height"
    ),
    pytest.param(TATI, TYPED_TATI, id="node"),
    pytest.param(relationship_of(TATI, PLAYTIME), TYPED_DIRECTED, id="relationship"),
    pytest.param(relationship_of(UNKNOWN, UNKNOWN), TYPED_DIRECTED, id="relationship_alone"),
    pytest.param(
        [TATI, {"film": PLAYTIME}],
        typed("List", [TYPED_TATI, typed("Map", {"film": TYPED_PLAYTIME})]),
        id="inside_a_list",
    ),
]


@pytest.mark.parametrize(("value", "typed_value"), VALUES)
def test_values_of_drivers_equal_the_same_values_in_json(value: Any, typed_value: Any) -> None:
    none = typed("Null", None)
    in_json = {"data": {"fields": ["a", "b"], "values": [[typed_value, none]]}}
    wrong = {"data": {"fields": ["a", "b"], "values": [[typed("String", "x"), none]]}}
    record = Record([("a", value), ("b", None)])  # type: ignore[no-untyped-call]
    for rows in ([{"a": value, "b": None}], [record]):
        assert score(in_json, rows) == 1
        assert score(rows, in_json) == 1
        assert score(wrong, rows) == 0
        assert score(rows, wrong) == 0


def test_paths_of_a_driver() -> None:
    path = Path(TATI, relationship_of(TATI, PLAYTIME))
    typed_path = typed("Path", [TYPED_TATI, TYPED_DIRECTED, TYPED_PLAYTIME])
    in_json = {"data": {"fields": ["a"], "values": [[typed_path]]}}
    assert score(in_json, [{"a": path}]) == 1
    assert score([{"a": path}], in_json) == 1
    assert score([{"a": [TATI]}], [{"a": path}]) == 0
