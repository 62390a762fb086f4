"""Cypher queries on a real database that speaks Bolt, and that itself refuses nothing."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from graphrag_eval_async import ExecutionUnavailable
from tests.execution.cypher_support import STEP, TITLES, asks, error_of, queried, rows_in, step_of
from tests.execution.support import results_of
from tests.support.arcade_server import DATABASE, PASSWORD, USER, ArcadeServer, arcade_server

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.bolt

FILMS = [
    """
    CREATE (:Person {name: 'Varda'})-[:DIRECTED {year: 1985}]->
    (:Film {title: 'Vagabond', out: date('1985-12-04'), at: point({x: 1, y: 2}), tags: ['a', 1]})
    """,
    "CREATE (:Film {title: 'Playtime', out: date('1967-12-16')})",
]

ENDLESS = """
UNWIND range(1, 100000) AS x UNWIND range(1, 100000) AS y UNWIND range(1, 100000) AS z
RETURN count(*)
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ArcadeServer]:
    """A server with two films."""
    with arcade_server(tmp_path_factory.mktemp("arcade")) as running:
        running.write(FILMS)
        yield running


def config(server: ArcadeServer, **keys: Any) -> dict[str, Any]:
    """Return a configuration that runs queries on a server."""
    execute = {
        "database": server.address,
        "database_name": DATABASE,
        "username": USER,
        "password": PASSWORD,
    }
    return {"execute": execute | keys}


async def test_expected_and_actual_outputs_are_fetched(server: ArcadeServer) -> None:
    right = "MATCH (x:Film) RETURN x.title AS title ORDER BY title;"
    wrong = "MATCH (x:Film) WHERE x.title = 'Playtime' RETURN x.title AS title"
    results = await results_of([queried(right), queried(wrong)], config(server), asks())
    assert [result["steps_score"] for result in results] == [1, 0]
    assert rows_in(step_of(results[0])["executed_output"]) == [["Playtime"], ["Vagabond"]]


async def test_results_have_types(server: ArcadeServer) -> None:
    query = """
    MATCH p = (a:Person {name: $name})-[d:DIRECTED]->(f:Film)
    RETURN a, d, p, f.out, f.at, f.tags, datetime('2020-01-02T03:04:05+01:00'), duration('P1M2D'),
        null, 1.5, {a: true}
    """
    args = {"query": query, "params": {"name": "Varda"}}
    [result] = await results_of([queried("", args=args)], config(server), asks())
    [row] = json.loads(step_of(result)["executed_output"])["data"]["values"]
    assert [value["$type"] for value in row] == [
        "Node",
        "Relationship",
        "Path",
        "Date",
        "Point",
        "List",
        "OffsetDateTime",
        "Duration",
        "Null",
        "Float",
        "Map",
    ]
    assert row[0]["_value"]["_labels"] == ["Person"]
    assert row[1]["_value"]["_type"] == "DIRECTED"
    assert row[3]["_value"] == "1985-12-04"
    assert row[4]["_value"] == "SRID=7203;POINT (1.0 2.0)"


NOT_RUN = {
    "syntax": ("MATCH (f:Film RETURN f", "query_invalid", "invalid: "),
    "unknown function": ("RETURN nope(1)", "query_invalid", "invalid: "),
    "unknown variable": ("RETURN nope", "query_invalid", "invalid: "),
    "division by zero": ("RETURN 1 / 0", "step_error", "failed: "),
    "rows": ("UNWIND range(1, 99) AS x RETURN x", "step_error", "failed: it returns more than 9"),
    "endless": (ENDLESS, "step_error", "failed: it took more than 3 s"),
    "write": ("CREATE (:Film {title: 'Mon Oncle'})", "step_error", "refused: CREATE is not run"),
    "delete": ("MATCH (f:Film) DETACH DELETE f", "step_error", "refused: DETACH is not run"),
    "file": ("LOAD CSV FROM 'file:///etc/passwd' AS r RETURN r", "step_error", "refused: LOAD is"),
}


@pytest.mark.parametrize(("query", "failure", "error"), NOT_RUN.values(), ids=NOT_RUN)
async def test_what_has_no_result_scores_0_and_the_next_query_runs(
    server: ArcadeServer, query: str, failure: str, error: str
) -> None:
    settings = config(server, timeout_sec=3, max_rows=9)
    bad, good = await results_of([queried(query), queried(TITLES)], settings, asks())
    assert (bad["steps_score"], bad["failure"]) == (0, failure)
    assert error_of(bad).startswith(error)
    assert good["steps_score"] == 1


@pytest.mark.parametrize(
    ("keys", "error"),
    [
        pytest.param({"password": "wrong"}, "check username and password", id="login"),
        pytest.param({"database_name": "books"}, "check database_name", id="database"),
    ],
)
async def test_a_database_that_lets_nobody_in_ends_the_run(
    server: ArcadeServer, keys: dict[str, str], error: str
) -> None:
    with pytest.raises(ExecutionUnavailable, match=error):
        await results_of([queried(TITLES)], config(server, **keys), asks(STEP))
