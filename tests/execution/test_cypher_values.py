"""Results of Cypher queries as typed JSON text: values of Neo4j's driver, and of Ladybug."""

from __future__ import annotations

import json
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from graphrag_eval_async.execution.cypher_values import (
    CypherResultWriter,
    typed_by_driver,
    typed_by_ladybug,
)
from graphrag_eval_async.execution.outcomes import QueryFailed

neo4j = pytest.importorskip("neo4j", reason="needs the extra cypher")
ladybug = pytest.importorskip("ladybug", reason="needs the extra cypher")
pytz = pytest.importorskip("pytz", reason="needs the extra cypher")

from neo4j.graph import Graph, Node, Path, Relationship  # noqa: E402
from neo4j.spatial import CartesianPoint, WGS84Point  # noqa: E402
from neo4j.time import Date, DateTime, Duration, Time  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path as FilePath

PLAIN = {
    "null": (None, "Null", None),
    "boolean": (True, "Boolean", True),
    "integer": (-1, "Integer", "-1"),
    "large integer": (10**30, "Integer", f"{10**30}"),
    "float": (1.5, "Float", "1.5"),
    "whole float": (2.0, "Float", "2.0"),
    "nan": (float("nan"), "Float", "NaN"),
    "infinity": (float("-inf"), "Float", "-Infinity"),
    "string": ("é'\n", "String", "é'\n"),
    "bytes": (b"a\x00", "Base64", "YQA="),
    "list": (
        [1, None],
        "List",
        [{"$type": "Integer", "_value": "1"}, {"$type": "Null", "_value": None}],
    ),
    "map": ({"a": "b"}, "Map", {"a": {"$type": "String", "_value": "b"}}),
}

FROM_DRIVER = PLAIN | {
    "date": (Date(2020, 1, 2), "Date", "2020-01-02"),
    "local time": (Time(3, 4, 5, 600), "LocalTime", "03:04:05.0000006"),
    "time": (Time(3, 4, 5, 0, pytz.FixedOffset(-90)), "Time", "03:04:05-01:30"),
    "local date and time": (
        DateTime(2020, 1, 2, 3, 4, 5, 10**8),
        "LocalDateTime",
        "2020-01-02T03:04:05.1",
    ),
    "date and time": (
        DateTime(1, 1, 2, 3, 4, 5, 0, pytz.UTC),
        "ZonedDateTime",
        "0001-01-02T03:04:05Z[UTC]",
    ),
    "date and time with an offset": (
        DateTime(2020, 1, 2, 3, 4, 5, 0, pytz.FixedOffset(120)),
        "OffsetDateTime",
        "2020-01-02T03:04:05+02:00",
    ),
    "date and time in a zone": (
        pytz.timezone("Europe/Oslo").localize(DateTime(2020, 7, 2, 3, 4, 5, 0)),
        "ZonedDateTime",
        "2020-07-02T03:04:05+02:00[Europe/Oslo]",
    ),
    "duration": (Duration(months=14, days=3, seconds=4), "Duration", "P1Y2M3DT4S"),
    "point": (CartesianPoint((1, 2.5)), "Point", "SRID=7203;POINT (1.0 2.5)"),
    "point in space": (WGS84Point((1, 2, 3)), "Point", "SRID=4979;POINT Z (1.0 2.0 3.0)"),
}

FROM_LADYBUG = PLAIN | {
    "integer of 128 bits": (Decimal(5), "Integer", "5"),
    "decimal": (Decimal("1.50"), "Float", "1.50"),
    "uuid": (UUID(int=1), "String", "00000000-0000-0000-0000-000000000001"),
    "date": (date(2020, 1, 2), "Date", "2020-01-02"),
    "local date and time": (
        datetime(2020, 1, 2, 3, 4, 5, 60),
        "LocalDateTime",
        "2020-01-02T03:04:05.00006",
    ),
    "date and time": (
        datetime.fromisoformat("2020-01-02T03:04:05Z"),
        "OffsetDateTime",
        "2020-01-02T03:04:05Z",
    ),
    "duration": (timedelta(days=1, seconds=2, microseconds=3), "Duration", "P1DT2.000003S"),
    "map with other keys": ({1: None}, "Map", {"1": {"$type": "Null", "_value": None}}),
}


@pytest.mark.parametrize(("value", "kind", "text"), FROM_DRIVER.values(), ids=FROM_DRIVER)
def test_values_of_the_driver_have_types(value: object, kind: str, text: object) -> None:
    assert typed_by_driver(value) == {"$type": kind, "_value": text}


@pytest.mark.parametrize(("value", "kind", "text"), FROM_LADYBUG.values(), ids=FROM_LADYBUG)
def test_values_of_ladybug_have_types(value: object, kind: str, text: object) -> None:
    assert typed_by_ladybug(value) == {"$type": kind, "_value": text}


def plain(typed: Any) -> Any:
    """Return a typed value without internal ids and without types of plain values."""
    match typed:
        case {"$type": "Node", "_value": value}:
            return value["_labels"], plain(value["_properties"])
        case {"$type": "Relationship", "_value": value}:
            return value["_type"], plain(value["_properties"])
        case {"$type": "Path" | "List" | "Map", "_value": value}:
            return plain(value)
        case {"$type": _, "_value": value}:
            return value
        case list():
            return [plain(item) for item in typed]
        case dict():
            return {name: plain(item) for name, item in typed.items()}
    raise AssertionError(typed)


def test_nodes_relationships_and_paths_of_the_driver() -> None:
    graph = Graph()
    ada = Node(graph, "4:a:0", 0, ["Person", "Author"], {"name": "Ada"})
    bob = Node(graph, "4:a:1", 1, ["Person"], {})
    knows = graph.relationship_type("KNOWS")(graph, "5:a:0", 0, {"since": 1840})
    knows._start_node, knows._end_node = bob, ada
    assert isinstance(knows, Relationship)
    typed = typed_by_driver(Path(ada, knows))
    assert typed["$type"] == "Path"
    assert plain(typed) == [
        (["Author", "Person"], {"name": "Ada"}),
        ("KNOWS", {"since": "1840"}),
        (["Person"], {}),
    ]
    ends = typed["_value"][1]["_value"]
    assert (ends["_start_node_element_id"], ends["_end_node_element_id"]) == ("4:a:1", "4:a:0")
    assert typed["_value"][0]["_value"]["_element_id"] == "4:a:0"


def rows_of_ladybug(folder: FilePath, query: str) -> list[Any]:
    """Return the rows of a query on two people, one of whom knows the other."""
    limits = {"max_db_size": 1 << 28, "buffer_pool_size": 32 << 20}
    with (
        ladybug.Database(folder / "people.lbug", **limits) as database,
        ladybug.Connection(database) as connection,
    ):
        connection.execute("CREATE NODE TABLE Person(name STRING PRIMARY KEY, born INT64)")
        connection.execute("CREATE REL TABLE KNOWS(FROM Person TO Person, since INT64)")
        connection.execute(
            "CREATE (:Person {name: 'Ada', born: 1815})-[:KNOWS {since: 1840}]->"
            "(:Person {name: 'Bob'})"
        )
        with connection.execute(query) as result:
            writer = CypherResultWriter(
                result.get_column_names(), typed_by_ladybug, max_rows=9, max_bytes=9999
            )
            while result.has_next():
                writer.add(result.get_next())
    data = json.loads(writer.text())["data"]
    assert all(len(row) == len(data["fields"]) for row in data["values"])
    return [[plain(value) for value in row] for row in data["values"]]


ADA: Any = (["Person"], {"name": "Ada", "born": "1815"})
BOB: Any = (["Person"], {"name": "Bob"})
KNOWS = ("KNOWS", {"since": "1840"})


@pytest.mark.parametrize(
    ("query", "row"),
    [
        pytest.param("MATCH (a)-[k]->(b) RETURN b, k, a", [BOB, KNOWS, ADA], id="entities"),
        pytest.param("MATCH p = (a)-[k]->(b) RETURN p", [[ADA, KNOWS, BOB]], id="path"),
        pytest.param("MATCH (a)-[k*1..2]->(b) RETURN k", [[KNOWS]], id="variable length"),
        pytest.param("MATCH (a)-[k]->(b) RETURN {x: [a, b]}", [{"x": [ADA, BOB]}], id="nested"),
        pytest.param("MATCH (a) RETURN sum(a.born), min(a.born)", ["1815", "1815"], id="sum"),
    ],
)
def test_nodes_relationships_and_paths_of_ladybug(
    tmp_path: FilePath, query: str, row: list[Any]
) -> None:
    assert rows_of_ladybug(tmp_path, query) == [row]


def nested(depth: int) -> list[Any]:
    """Return a list in a list, and so on, that deep."""
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("values", "message"),
    [
        pytest.param([1, 2, 3], "failed: it returns more than 2 rows", id="rows"),
        pytest.param(["a" * 1000], "failed: it returns more than 1,000 bytes", id="bytes"),
        pytest.param([nested(300)], "failed: it returns a value that cannot be", id="nesting"),
        pytest.param([object()], "failed: it returns a value that cannot be", id="type"),
        pytest.param(["\ud800"], "failed: it returns a value that cannot be", id="surrogate"),
    ],
)
@pytest.mark.parametrize("to_typed", [typed_by_driver, typed_by_ladybug])
def test_results_have_limits(
    to_typed: Callable[[Any], Any], values: list[object], message: str
) -> None:
    writer = CypherResultWriter(["x"], to_typed, max_rows=2, max_bytes=1000)
    for value in values[:-1]:
        writer.add([value])
    with pytest.raises(QueryFailed) as caught:
        writer.add([values[-1]])
    assert str(caught.value).startswith(message)


def test_a_result_without_rows_has_its_columns() -> None:
    writer = CypherResultWriter(["a", "b"], typed_by_ladybug, max_rows=2, max_bytes=1000)
    assert json.loads(writer.text()) == {"data": {"fields": ["a", "b"], "values": []}}
