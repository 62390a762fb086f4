"""Queries on a SPARQL endpoint, a real server."""

from __future__ import annotations

import asyncio
import base64
import json
import random
import socket
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from graphrag_eval_async import ConfigError, Evaluator, ExecutionUnavailable, evaluate_stream
from graphrag_eval_async.execution import endpoint, session
from tests.deadlines import WAIT_SECONDS, wait
from tests.execution.server import JSON, PROBE, EndpointServer, Handler, hang, on, replying
from tests.execution.support import NAMES, PREFIX, RIGHT, STEP, TURTLE, WRONG, ran, results_of, templates

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.execution.server import Script

BUILD = PREFIX + "CONSTRUCT { ?t a cim:Transformer } WHERE { ?t a cim:Transformer }"


def serving(*scripts: Script) -> EndpointServer:
    return EndpointServer(TURTLE, *scripts)


def config(server: EndpointServer, **more: Any) -> dict[str, Any]:
    return {"execute": {"endpoint": server.url, **more}}


async def one(
    *scripts: Script, query: str = RIGHT, reference: str = NAMES, limits: Mapping[str, Any] = {}, **more: Any
) -> dict[str, Any]:
    """The result of one response."""
    with serving(*scripts) as server:
        step = {**STEP, "reference_query": reference}
        [result] = await results_of([ran(query)], config(server, **more, **limits), templates(step))
    return result


def error_of(result: dict[str, Any]) -> str:
    return str(result.get("execution_error") or result["actual_steps"][0].get("execution_error"))


async def test_expected_and_actual_outputs_are_fetched() -> None:
    with serving() as server:
        results = await results_of([ran(RIGHT), ran(WRONG), ran("SELECT {")], config(server))
    assert [result["steps_score"] for result in results] == [1, 0, 0]
    assert [result["failure"] for result in results] == ["none", "wrong_query_result", "query_invalid"]
    assert results[0]["execution"]["endpoint"] == server.url
    assert error_of(results[2]).startswith("invalid: HTTP 400: Malformed query: ")
    assert {headers["accept"] for headers in server.headers} == {JSON}
    query = "SELECT ?n { ?x c:name ?n . ?x a c:Transformer }"
    assert (await one(query=query, prefixes={"c": "urn:cim#"}))["steps_score"] == 1
    result = await one(reference=BUILD, query=BUILD + " ")
    assert result["reference_steps"][0][0]["output_media_type"] == "application/n-triples"


async def test_equal_queries_run_once_even_if_one_that_waits_is_cancelled() -> None:
    arrived, let_go = threading.Event(), threading.Event()

    def hold(handler: Handler) -> None:
        arrived.set()
        wait(let_go)
        handler.answer(RIGHT)

    with serving(on(RIGHT, hold)) as server:
        async with Evaluator(templates(), config=config(server)) as evaluator:
            first, second = (asyncio.create_task(evaluator.evaluate(ran(RIGHT))) for _ in range(2))
            await asyncio.to_thread(wait, arrived)
            first.cancel()
            await asyncio.wait([first])
            let_go.set()
            assert (await second)["steps_score"] == 1
            assert (await evaluator.evaluate(ran(RIGHT)))["steps_score"] == 1
        assert server.asked == {NAMES: 1, RIGHT: 1}


async def test_so_many_run_at_a_time() -> None:
    barrier, running, most = threading.Barrier(3), Counter[str](), 0

    def together(_: Handler, query: str) -> bool:
        nonlocal most
        if " # " in query:
            running[query] += 1
            most = max(most, running.total())
            barrier.wait(WAIT_SECONDS)
            running[query] -= 1
        return False

    with serving(together) as server:
        responses = [ran(f"{RIGHT} # {i}") for i in range(30)]
        results = await results_of(responses, config(server, max_in_flight=3))
    assert ({result["steps_score"] for result in results}, most) == ({1}, 3)


async def test_headers_passwords_and_addresses_are_sent_and_not_shown(
    monkeypatch: Any,
) -> None:
    def tell(handler: Handler) -> None:
        said = f"{handler.headers['X-Token']} s3cret-word {handler.headers['authorization']}"
        handler.reply(400, said.encode().ljust(1990) + b"s3cret-word")

    more = {"headers": {"X-Token": "${GRAPH_TOKEN}"}, "username": "me", "password": "${GRAPH_PASSWORD}"}
    with serving(on(RIGHT, tell)) as server:
        for name, value in (("TOKEN", "s3cret-token"), ("PASSWORD", "s3cret-word"), ("URL", server.url)):
            monkeypatch.setenv(f"GRAPH_{name}", value)
        [result] = await results_of([ran(RIGHT)], {"execute": {"endpoint": "${GRAPH_URL}", **more}})
    assert error_of(result) == "invalid: HTTP 400: *** *** Basic *** ***"
    assert result["execution"]["endpoint"] == "${GRAPH_URL}"
    sent = server.headers[0]
    credentials = base64.b64encode(b"me:s3cret-word").decode()
    assert (sent["x-token"], sent["authorization"]) == ("s3cret-token", f"Basic {credentials}")
    assert "s3cret" not in json.dumps(result)


async def test_what_could_fetch_or_change_is_not_sent() -> None:
    for query, error in [
        ("SELECT * { SERVICE <http://127.0.0.1:9/> { ?s ?p ?o } }", "refused: SERVICE is not allowed"),
        ("SELECT * FROM <http://127.0.0.1:9/> { ?s ?p ?o }", "refused: FROM is not allowed"),
        ("SELECT * FROM NAMED <urn:g> { GRAPH ?g { ?s ?p ?o } }", "refused: FROM is not allowed"),
        ("CLEAR ALL", "refused: updates are not run"),
    ]:
        with serving() as server:
            [result] = await results_of([ran(query)], config(server))
            assert server.asked == {NAMES: 1}
        assert error_of(result).startswith(error)
        assert (result["steps_score"], result["failure"]) == (0, "step_error")
        allowed = await one(query=query, allow_from=True)
        assert ("refused" in error_of(allowed)) == ("FROM" not in query)


# Status, headers, whether it is tried again, whether the query is to blame, and how the error begins.
STATUSES: list[tuple[int, dict[str, str], bool, bool, str]] = [
    *[(status, {}, False, True, f"failed: HTTP {status}") for status in (413, 414, 422, 500)],
    *[(status, {}, False, False, f"it answers HTTP {status}") for status in (401, 403, 404, 405, 418)],
    *[(status, {}, True, True, "failed: 3 attempts failed") for status in (408, 502, 503, 504)],
    (429, {}, True, False, "it answers HTTP 429: no such luck"),
    (429, {"Retry_After": "3600"}, False, False, "it answers HTTP 429 and asks to wait for 3600 s"),
    (400, {}, False, True, "invalid: HTTP 400"),
    (308, {"Location": "/sparql"}, False, False, "it redirects again and again"),
]


@pytest.mark.parametrize(("status", "headers", "again", "blames_query", "error"), STATUSES)
async def test_status_codes(
    status: int, headers: dict[str, str], again: bool, blames_query: bool, error: str, monkeypatch: Any
) -> None:
    monkeypatch.setattr(endpoint, "PAUSES", (0.0, 0.0))
    with serving(on(RIGHT, replying(status, headers=headers))) as server:
        [result] = await results_of([ran(RIGHT)], config(server))
        assert server.asked[RIGHT] == (3 if again else 4 if status == 308 else 1)
        assert server.queries.count(PROBE) == (5 if again and blames_query else 1)
    prefix = "" if blames_query else "unavailable: actual_steps[0]: "
    assert error_of(result).startswith(prefix + error)
    assert result["steps_score"] == (0 if blames_query else None)
    assert (await one(on(NAMES, replying(status, headers=headers))))["steps_score"] is None


async def test_an_overloaded_endpoint_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (await one(on(NAMES, replying(503), times=2)))["steps_score"] == 1
    monkeypatch.setattr(endpoint, "PAUSES", (0.0, 0.0))
    times: list[float] = []

    def busy(handler: Handler) -> None:
        times.append(time.monotonic())
        handler.reply(429, Retry_After="1")

    assert (await one(on(RIGHT, busy, times=2)))["steps_score"] == 1
    assert times[1] - times[0] >= 1
    with serving(on(NAMES, replying(503), times=3)) as server:  # What failed is tried for the next response.
        results = await results_of([ran(RIGHT), ran(RIGHT)], config(server), max_in_flight=1)
    assert [result["steps_score"] for result in results] == [None, 1]


async def test_who_is_to_blame(monkeypatch: pytest.MonkeyPatch) -> None:
    """The query, if probes succeed before and after each of two attempts that end with such a status."""
    monkeypatch.setattr(endpoint, "PAUSES", (0.0, 0.0))
    rng, log, outcomes = random.Random(1), list[tuple[str, int]](), set[Any]()

    def any_status(handler: Handler, query: str) -> bool:
        kind = "A" if query.startswith(RIGHT) else "p"
        odd = (429, 404, 200) if kind == "A" else (429, 503, 400)
        status = rng.choice(odd) if rng.random() < 0.08 else 503 if kind == "A" else 200
        log.append((kind, status))
        if status != 200:
            handler.reply(status)
        return status != 200

    with serving() as server:
        async with Evaluator(templates(), config=config(server)) as evaluator:
            await evaluator.evaluate(ran(WRONG))
            server.scripts.append(any_status)
            for number in range(150):
                log.clear()
                result = await evaluator.evaluate(ran(f"{RIGHT} # {number}"))
                attempts = [status for kind, status in log if kind == "A"]
                answered = all(status in (200, 400) for kind, status in log if kind == "p")
                in_order = [kind for kind, _ in log] == [*"ApAppAp"]
                blames = attempts == [503] * 3 and answered and in_order
                assert len(attempts) <= 3
                assert result["steps_score"] == (1 if attempts[-1] == 200 else 0 if blames else None)
                outcomes.add(result["steps_score"])
    assert outcomes == {0, 1, None}


async def test_a_query_that_takes_too_long_scores_0() -> None:
    result = await one(on(RIGHT, hang), timeout_sec=1)
    assert (error_of(result), result["failure"]) == ("failed: it took more than 1 s", "step_error")


@pytest.mark.parametrize(
    ("status", "headers", "said"),
    [
        (206, {}, "HTTP 206"),
        (200, {"X_SQL_State": "S1TAT"}, "X-SQL-State"),
        (200, {"X_SPARQL_MaxRows": "2"}, "as many rows as X-SPARQL-MaxRows allows"),
        (200, {"X_SPARQL_MaxRows": "3"}, None),
    ],
)
async def test_partial_answers_are_truncated(status: int, headers: dict[str, str], said: str | None) -> None:
    for reference, actual in ((NAMES, RIGHT), (BUILD, f"{BUILD} # again")):
        for part in (reference, actual):

            def partial(handler: Handler, query: str, part: str = part) -> bool:
                if query == part:
                    handler.answer(query, status, b"\xef\xbb\xbf", headers=headers)
                return query == part

            result = await one(partial, reference=reference, query=actual)
            assert result["steps_score"] == (1 if said is None else None if part == reference else 0)
            assert said is None or (said in error_of(result) and "truncated: " in error_of(result))


async def test_limits_on_what_is_returned() -> None:
    for form, limit, message in [
        ("SELECT *", {"max_rows": 3}, "returns more than 3 rows"),
        ("SELECT *", {"max_bytes": 300}, "returns more than 300 bytes"),
        ("CONSTRUCT { ?s ?p ?o }", {"max_rows": 3}, "returns more than 3 triples"),
    ]:
        assert message in error_of(await one(query=f"{form} WHERE {{ ?s ?p ?o }}", limits=limit))

    def endless(handler: Handler) -> None:
        handler.send_response(200)
        handler.end_headers()
        handler.close_connection = True
        for _ in range(10_000):
            handler.wfile.write(b" " * 10_000)

    result = await one(on(RIGHT, endless), max_bytes=100_000)
    assert error_of(result) == "failed: it returns more than 100,000 bytes"


OTHER_BODIES: list[tuple[str, bytes, str, dict[str, str], str]] = [
    *((NAMES, body, JSON, {}, "no SPARQL results in JSON") for body in (b"<html>", b"[]", b'{"results": 5}')),
    (NAMES, b"{}", JSON, {"Content_Encoding": "gzip"}, "it compresses results"),
    (BUILD, b"<html>", "text/html", {}, "text/html, not a graph"),
    *((BUILD, body, "text/turtle", {}, "text/turtle that cannot be read") for body in (b"<html>", b"\xff")),
]


@pytest.mark.parametrize(("reference", "body", "kind", "headers", "error"), OTHER_BODIES)
async def test_other_bodies(reference: str, body: bytes, kind: str, headers: Any, error: str) -> None:
    for part, place in ((reference, "reference_steps[0][0]"), ("# own", "actual_steps[0]")):
        act = replying(200, body, kind, headers)
        result = await one(on(part, act), reference=reference, query=f"{reference} # own")
        assert error_of(result).startswith(f"unavailable: {place}: ")
        assert error in error_of(result)
        assert result["steps_score"] is None


async def test_redirects_stay_on_the_host() -> None:
    def move(handler: Handler, query: str) -> bool:
        is_old = handler.path == "/sparql" and query != PROBE
        if is_old:
            handler.reply(307, Location="/new")
        return is_old

    assert (await one(move))["steps_score"] == 1
    with serving() as other:
        result = await one(on(NAMES, replying(307, headers={"Location": other.url})))
        assert other.queries == []
    assert "redirects to another host" in error_of(result)


async def test_an_endpoint_that_is_down_ends_the_run() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/sparql"
        error = f"^execute.endpoint: {url}: it cannot be reached: ConnectError$"
        with pytest.raises(ExecutionUnavailable, match=error):
            await results_of([ran(RIGHT)] * 50, {"execute": {"endpoint": url}})
    with serving(on(PROBE, replying(401))) as server:
        with pytest.raises(ExecutionUnavailable, match="HTTP 401; check headers, username and password"):
            await results_of([ran(RIGHT)] * 5, config(server))
        assert len(server.queries) == 1
    with serving(on(PROBE, hang)) as server, pytest.raises(ExecutionUnavailable, match="took more than 0"):
        await results_of([ran(RIGHT)], config(server, timeout_sec=0.1))


async def test_cancelling_ends_the_requests() -> None:
    asked = threading.Event()

    def held(handler: Handler) -> None:
        asked.set()
        hang(handler)

    with serving(on("", held)) as server:
        stream = evaluate_stream(templates(), [ran(RIGHT)] * 3, config=config(server))
        async with stream:
            task = asyncio.create_task(anext(stream))
            await asyncio.to_thread(wait, asked, "a request")
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        names = {task.get_name() for task in asyncio.all_tasks()}
        assert not any("query" in name or "queries" in name for name in names)


def test_the_package_is_named_if_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "find_spec", lambda _: None)
    both = {"execute": {"endpoint": "http://127.0.0.1:9/"}, "steps": {"check_queries": True}}
    with pytest.raises(ConfigError, match=r"pyoxigraph.*\[rdf\][^$]*httpx.*\[execute\]"):
        Evaluator(templates(), config=both)
