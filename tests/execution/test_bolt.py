"""Cypher queries on a scripted server that speaks Bolt."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from graphrag_eval_async import Evaluator, ExecutionUnavailable, evaluate_stream
from tests.execution.cypher_support import STEP, asks, error_of, queried, rows_in, step_of
from tests.execution.support import results_of
from tests.metrics.support import Judge
from tests.support.bolt_server import BoltQuery, BoltServer, Reply, Structure
from tests.support.deadlines import until
from tests.support.ports import free_port
from tests.support.virtual_time import now, without_waiting

PASSWORD = "s3cret-word"  # noqa: S105

pytest.importorskip("neo4j", reason="needs the extra cypher")

TITLES = STEP["reference_query"]
RIGHT = "MATCH (x:Film) RETURN x.title"
ROWS = Reply(("title",), (("Playtime",), ("Vagabond",)))


def config(server: BoltServer, **keys: Any) -> dict[str, Any]:
    """Return a configuration that runs queries on a server."""
    return {"execute": {"database": server.address, **keys}}


def script(replies: dict[str, Reply]) -> Any:
    """Return a script that has one reply for each of these queries, and films for other queries."""
    return lambda query: replies.get(query.text, None if query.text == "RETURN 1" else ROWS)


@without_waiting
async def test_queries_are_sent_for_reading_with_parameters_and_a_timeout() -> None:
    args = {"query": "MATCH (f {year: $year}) RETURN f.title", "params": {"year": 1967}}
    async with BoltServer(script({})) as server:
        settings = config(server, database_name="films", timeout_sec=7)
        [result] = await results_of([queried("", args=args)], settings, asks())
    assert result["steps_score"] == 1
    assert (
        result["execution"].items()
        >= {"database": server.address, "database_name": "films"}.items()
    )
    probe, reference, actual = server.queries
    assert probe.text == "RETURN 1"
    assert (reference.text, reference.parameters) == (TITLES, {})
    assert (actual.text, actual.parameters) == (args["query"], {"year": 1967})
    assert actual.extra == {"mode": "r", "db": "films", "tx_timeout": 7000}
    assert server.open_connections == 0


@without_waiting
async def test_in_a_cluster_queries_go_to_servers_for_reading() -> None:
    async with BoltServer(script({})) as server:
        settings = {"execute": {"database": server.address.replace("bolt://", "neo4j://")}}
        [result] = await results_of([queried(RIGHT)], settings, asks())
    assert result["steps_score"] == 1
    assert server.texts() == [TITLES, RIGHT]


@without_waiting
async def test_values_keep_their_types() -> None:
    ada = Structure(0x4E, [1, ["Person"], {"name": "Ada"}, "4:x:1"])
    bob = Structure(0x4E, [2, ["Person", "Author"], {}, "4:x:2"])
    unbound = Structure(0x72, [7, "KNOWS", {"since": 1840}, "5:x:7"])
    path = Structure(0x50, [[bob, ada], [unbound], [-1, 1]])
    knows = Structure(0x52, [7, 1, 2, "KNOWS", {}, "5:x:7", "4:x:1", "4:x:2"])
    point = Structure(0x58, [7203, 1.0, 2.0])
    day = Structure(0x44, [366])
    values = [ada, knows, path, point, day, [1, None], {"a": b"\x00"}]
    reply = Reply([f"c{index}" for index in range(len(values))], [values])
    async with BoltServer(lambda query: None if query.text == "RETURN 1" else reply) as server:
        [result] = await results_of([queried(RIGHT)], config(server), asks())
    data = json.loads(step_of(result)["executed_output"])["data"]
    [row] = data["values"]
    assert [value["$type"] for value in row] == [
        "Node",
        "Relationship",
        "Path",
        "Point",
        "Date",
        "List",
        "Map",
    ]
    assert row[3]["_value"] == "SRID=7203;POINT (1.0 2.0)"
    assert row[4]["_value"] == "1971-01-02"
    steps = [part["_value"] for part in row[2]["_value"]]
    assert steps[0]["_labels"] == ["Author", "Person"]
    assert (steps[1]["_start_node_element_id"], steps[1]["_type"]) == ("4:x:1", "KNOWS")


FAILURES = {
    "syntax": ("Neo.ClientError.Statement.SyntaxError", 1, "invalid", "no such luck"),
    "semantics": ("Neo.ClientError.Statement.SemanticError", 1, "invalid", "no such luck"),
    "procedure": ("Neo.ClientError.Procedure.ProcedureNotFound", 1, "invalid", "no such luck"),
    "type": ("Neo.ClientError.Statement.TypeError", 1, "failed", "no such luck"),
    "execution": ("Neo.DatabaseError.Statement.ExecutionFailed", 1, "failed", "no such luck"),
    "forbidden": ("Neo.ClientError.Security.Forbidden", 1, "refused", "the database refuses it"),
    "read access": ("Neo.ClientError.Statement.AccessMode", 1, "refused", "the database refuses"),
    "login": ("Neo.ClientError.Security.Unauthorized", 1, "unavailable", "check username and pass"),
    "database": ("Neo.ClientError.Database.DatabaseNotFound", 1, "unavailable", "database_name"),
    "timeout": ("Neo.ClientError.Transaction.TransactionTimedOut", 1, "failed", "it took too long"),
    "memory": ("Neo.TransientError.General.OutOfMemoryError", 3, "failed", "overloaded"),
    "deadlock": ("Neo.TransientError.Transaction.DeadlockDetected", 3, "unavailable", "overloaded"),
    "of Memgraph": ("Memgraph.ClientError.MemgraphError.MemgraphError", 1, "failed", "no such"),
}  # fmt: skip


@without_waiting
@pytest.mark.parametrize(("code", "count", "kind", "message"), FAILURES.values(), ids=FAILURES)
async def test_failures_are_those_of_the_query_or_of_the_database(
    code: str, count: int, kind: str, message: str
) -> None:
    """Each failure of an agent's query, for a score of 0 or none, and of a reference query."""
    replies = {"RETURN 2": Reply(code=code)}
    async with BoltServer(script(replies)) as server:
        responses = [queried("RETURN 2"), queried(RIGHT)]
        bad, good = await results_of(responses, config(server), asks())
        assert server.texts().count("RETURN 2") == count
        failing = {**STEP, "reference_query": "RETURN 2"}
        [reference_failed] = await results_of([queried(RIGHT)], config(server), asks(failing))
    assert bad["steps_score"] == (None if kind == "unavailable" else 0)
    assert (bad["failure"] == "query_invalid") == (kind == "invalid")
    assert error_of(bad).startswith(f"{kind}: ")
    assert message in error_of(bad)
    assert good["steps_score"] == 1
    assert reference_failed["steps_score"] is None
    assert message in reference_failed["execution_error"]


@without_waiting
async def test_messages_of_databases_without_codes_are_read() -> None:
    message = "Error on line 1 position 8. The underlying parsing error is mismatched input 'x'"
    reply = Reply(code="Memgraph.ClientError.MemgraphError.MemgraphError", message=message)
    async with BoltServer(script({"RETURN 2": reply})) as server:
        [result] = await results_of([queried("RETURN 2")], config(server), asks())
    assert (result["failure"], error_of(result)) == ("query_invalid", f"invalid: {message}")


@pytest.mark.parametrize(
    ("slow_probe", "score", "error"),
    [
        pytest.param(False, 0, "failed: it took more than 0.5 s", id="the query is to blame"),
        pytest.param(True, None, "and the database does not answer RETURN 1", id="the database is"),
    ],
)
async def test_a_query_that_takes_too_long_is_to_blame_if_the_database_answers(
    slow_probe: bool, score: int | None, error: str
) -> None:
    slow_queries: list[str] = []

    def answer(query: BoltQuery) -> Reply | None:
        if query.text == "RETURN 2":
            slow_queries.append(query.text)
            return Reply(seconds=1000)
        if query.text == "RETURN 1":
            return Reply(seconds=1000) if slow_queries and slow_probe else None
        return ROWS

    async with BoltServer(answer) as server:
        [result] = await results_of([queried("RETURN 2")], config(server, timeout_sec=0.5), asks())
    assert slow_queries == ["RETURN 2"]
    assert result["steps_score"] == score
    assert error in error_of(result)


async def test_rows_that_come_too_slowly_take_too_long() -> None:
    reply = Reply(rows=[[1]] * 9, seconds_per_row=0.2)
    async with BoltServer(script({"RETURN 2": reply})) as server:
        [result] = await results_of([queried("RETURN 2")], config(server, timeout_sec=0.5), asks())
    assert (result["steps_score"], error_of(result)) == (0, "failed: it took more than 0.5 s")


@without_waiting
@pytest.mark.parametrize(
    ("reply", "error"),
    [
        pytest.param(Reply(rows=[[1]] * 99_999), "it returns more than 9 rows", id="rows"),
        pytest.param(Reply(rows=[["x" * 999]] * 9), "it returns more than 5,000 bytes", id="bytes"),
    ],
)
async def test_results_have_limits(reply: Reply, error: str) -> None:
    async with BoltServer(script({"RETURN 2": reply})) as server:
        settings = config(server, max_rows=9, max_bytes=5000)
        bad, good = await results_of([queried("RETURN 2"), queried(RIGHT)], settings, asks())
    assert (bad["steps_score"], error_of(bad)) == (0, f"failed: {error}")
    assert good["steps_score"] == 1


@without_waiting
async def test_results_of_many_rows_are_fetched_in_parts() -> None:
    rows = [[number] for number in range(1001)]
    async with BoltServer(script({"RETURN 2": Reply(rows=rows)})) as server:
        [result] = await results_of([queried("RETURN 2")], config(server), asks())
    values = [int(value) for [value] in rows_in(step_of(result)["executed_output"])]
    assert values == [*range(1001)]


@without_waiting
@pytest.mark.parametrize(
    ("count", "score"),
    [pytest.param(2, 1, id="it answers again"), pytest.param(3, None, id="it is gone")],
)
async def test_a_lost_connection_is_tried_again(count: int, score: int | None) -> None:
    attempts: list[float] = []

    def answer(query: BoltQuery) -> Reply | None:
        if query.text == RIGHT:
            attempts.append(now())
            return Reply(resets=True) if len(attempts) <= count else ROWS
        return None if query.text == "RETURN 1" else ROWS

    async with BoltServer(answer) as server:
        [result] = await results_of([queried(RIGHT)], config(server), asks())
    assert result["steps_score"] == score
    assert len(attempts) == 3
    assert attempts[-1] - attempts[0] == pytest.approx(1.2, abs=0.2)
    if score is None:
        assert error_of(result).startswith("unavailable: actual_steps[0]: it cannot be reached: ")


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        pytest.param(f"bolt://127.0.0.1:{free_port()}", "Connection refused", id="nobody listens"),
        pytest.param("bolt://host.invalid", "the host is unknown", id="unknown host"),
    ],
)
async def test_a_database_that_is_down_ends_the_run(address: str, reason: str) -> None:
    expected = rf"execute\.database: {address}: it cannot be reached: {reason}"
    with pytest.raises(ExecutionUnavailable, match=expected):
        await results_of([queried(RIGHT)] * 3, {"execute": {"database": address}}, asks())


async def test_a_server_without_tls_ends_the_run() -> None:
    async with BoltServer() as server:
        address = server.address.replace("bolt://", "bolt+ssc://")
        with pytest.raises(ExecutionUnavailable, match=r"bolt\+ssc://.*: it cannot be reached: "):
            await results_of([queried(RIGHT)], {"execute": {"database": address}}, asks())


async def test_a_server_that_never_answers_ends_the_run() -> None:
    async with BoltServer(is_silent=True) as server:
        with pytest.raises(ExecutionUnavailable, match=r"execute\.database: bolt"):
            await results_of([queried(RIGHT)], config(server, timeout_sec=0.5), asks())


@without_waiting
async def test_passwords_and_addresses_are_sent_and_not_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    message = "no s3cret-word for me"
    replies = {"RETURN 2": Reply(code="Neo.ClientError.Statement.TypeError", message=message)}
    async with BoltServer(script(replies), password=PASSWORD) as server:
        monkeypatch.setenv("NEO4J_URI", server.address)
        monkeypatch.setenv("NEO4J_PASSWORD", "s3cret-word")
        execute = {"database": "${NEO4J_URI}", "username": "me", "password": "${NEO4J_PASSWORD}"}
        [result] = await results_of([queried("RETURN 2")], {"execute": execute}, asks())
        monkeypatch.setenv("NEO4J_PASSWORD", "another")
        with pytest.raises(ExecutionUnavailable) as caught:
            await results_of([queried(RIGHT)], {"execute": execute}, asks())
    assert error_of(result) == "failed: no *** for me"
    assert result["execution"]["database"] == "${NEO4J_URI}"
    assert "s3cret" not in json.dumps(result)
    assert "${NEO4J_URI}: " in str(caught.value)
    assert "check username and password" in str(caught.value)
    assert server.address not in str(caught.value)


@without_waiting
async def test_so_many_run_at_a_time_and_equal_queries_once() -> None:
    async with BoltServer(lambda _query: Reply(seconds=1)) as server:
        responses = [queried(f"{RIGHT} // {number % 9}") for number in range(18)]
        results = await results_of(responses, config(server, max_in_flight=3), asks())
    assert {result["steps_score"] for result in results} == {1}
    assert server.most_running == 3
    assert len(server.texts()) == len({*server.texts()}) == 10


@without_waiting
async def test_only_queries_that_read_are_sent() -> None:
    queries = ["CREATE (n)", "LOAD CSV FROM 'x' AS r RETURN r", "RETURN 1; RETURN 2", "CALL a.b()"]
    async with BoltServer() as server:
        results = await results_of(map(queried, queries), config(server), asks())
    assert {result["steps_score"] for result in results} == {0}
    assert server.texts() == [TITLES]


async def test_cancelling_takes_effect_at_once() -> None:
    async with BoltServer(script({"RETURN 2": Reply(seconds=1000)})) as server:
        stream = evaluate_stream(asks(), [queried("RETURN 2")] * 2, config=config(server))
        async with stream:
            task = asyncio.ensure_future(anext(stream))
            await until(lambda: "RETURN 2" in server.texts())
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        await until(lambda: server.open_connections == 0)

        async with Evaluator(asks(), config=config(server)) as evaluator:
            slow = asyncio.create_task(evaluator.evaluate(queried("RETURN 2")))
            await until(lambda: server.texts().count("RETURN 2") == 2)
            slow.cancel()
            await asyncio.wait([slow])
            assert (await evaluator.evaluate(queried(RIGHT)))["steps_score"] == 1
        await until(lambda: server.open_connections == 0)


@without_waiting
async def test_the_password_from_the_environment_goes_with_a_judge(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NEO4J_PASSWORD", "s3cret-word")
    judge = Judge()
    async with BoltServer(script({}), password=PASSWORD) as server:
        settings = config(server)
        settings["execute"] |= {"username": "me", "password": "${NEO4J_PASSWORD}"}
        settings["sparql_groundedness"] = {}
        response = queried(RIGHT) | {"actual_answer": "Playtime."}
        [result] = await results_of([response], settings, asks(), judge=judge)
    assert result["steps_score"] == 1
