"""A small graph of films in Ladybug, a question about it, and responses that query it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.execution.support import ran, templates

ladybug = pytest.importorskip("ladybug", reason="needs the extra cypher")

if TYPE_CHECKING:
    from pathlib import Path

STATEMENTS = [
    "CREATE NODE TABLE Film(title STRING PRIMARY KEY, year INT64)",
    "CREATE NODE TABLE Person(name STRING PRIMARY KEY)",
    "CREATE REL TABLE DIRECTED(FROM Person TO Film)",
    "CREATE (:Person {name: 'Varda'})-[:DIRECTED]->(:Film {title: 'Vagabond', year: 1985})",
    "CREATE (:Person {name: 'Tati'})-[:DIRECTED]->(:Film {title: 'Playtime', year: 1967})",
]

TITLES = "MATCH (f:Film) RETURN f.title AS title ORDER BY title"
STEP: dict[str, Any] = {"name": "cypher_query", "reference_query": TITLES}
RIGHT = "MATCH (x:Film) RETURN x.title AS title ORDER BY title"
WRONG = "MATCH (x:Film) WHERE x.year > 1980 RETURN x.title AS title"

SLOW = """
UNWIND range(1, 30000) AS x UNWIND range(1, 30000) AS y UNWIND range(1, 30000) AS z
WITH x, y, z WHERE x * y * z = 7 RETURN sum(x)
"""
"""A query that takes hours."""

CRASH = "RETURN nodes(null)"
"""A query that crashes Ladybug 0.22."""


def write_films(path: Path) -> None:
    """Write a Ladybug database with films."""
    with (
        ladybug.Database(path, max_db_size=1 << 28, buffer_pool_size=32 << 20) as database,
        ladybug.Connection(database) as connection,
    ):
        for statement in STATEMENTS:
            connection.execute(statement)


def films(folder: Path, **keys: Any) -> dict[str, Any]:
    """Return a configuration that runs queries on films in Ladybug, in one process."""
    path = folder / "films.lbug"
    if not path.exists():
        write_films(path)
    return {"execute": {"graph": str(path), "max_in_flight": 1, **keys}}


def asks(*steps: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a reference set with one question, `q0`, and these steps."""
    return templates(*(steps or [STEP]))


def queried(query: str, **keys: Any) -> dict[str, Any]:
    """Return a response to `q0` that ran a Cypher query. `keys` are those of the step."""
    return ran(query, **{"name": "cypher_query"} | keys)


def step_of(result: dict[str, Any]) -> dict[str, Any]:
    """Return the first step of the agent in a result."""
    return dict(result["actual_steps"][0])


def error_of(result: dict[str, Any]) -> str:
    """Return why a query of a result has no answer; "None" if it has one."""
    return str(result.get("execution_error") or step_of(result).get("execution_error"))


def rows_in(text: str) -> list[list[Any]]:
    """Return the values of typed results, without their types."""
    data = json.loads(text)["data"]
    return [[value["_value"] for value in row] for row in data["values"]]
