"""Queries on a SPARQL endpoint, a real server."""

from __future__ import annotations

import asyncio
import json
import random
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from graphrag_eval_async import Evaluator, ExecutionUnavailable, evaluate_stream
from graphrag_eval_async.execution import endpoint
from tests.execution.server import JSON, PROBE, EndpointServer, Handler, hang, on, replying
from tests.execution.support import NAMES, PREFIX, RIGHT, STEP, WRONG, ran, results_of, templates
from tests.support.deadlines import WAIT_SECONDS, wait

if TYPE_CHECKING:
    from tests.execution.server import Act, Script

BUILD = PREFIX + "CONSTRUCT { ?t a cim:Transformer } WHERE { ?t a cim:Transformer }"


def config(server: EndpointServer, **more: Any) -> dict[str, Any]:
    return {"execute": {"endpoint": server.url, **more}}


async def one(*scripts: Script, query: str = RIGHT, reference: str = NAMES, **more: Any) -> dict[str, Any]:
    """The result of one response."""
    with EndpointServer(*scripts) as server:
        step = {**STEP, "reference_query": reference}
        [result] = await results_of([ran(query)], config(server, **more), templates(step))
    return result


def error_of(result: dict[str, Any]) -> str:
    return str(result.get("execution_error") or result["actual_steps"][0].get("execution_error"))


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "PAUSES", (0.0, 0.0))


async def test_equal_queries_run_once_even_if_one_that_waits_is_cancelled() -> None:
    arrived, let_go = threading.Event(), threading.Event()

    def hold(handler: Handler) -> None:
        arrived.set()
        wait(let_go)
        handler.answer(RIGHT)

    with EndpointServer(on(RIGHT, hold)) as server:
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
    barrier, running, most = threading.Barrier(3), set[str](), [0]

    def together(handler: Handler) -> None:
        running.add(name := threading.current_thread().name)
        most.append(len(running))
        barrier.wait(WAIT_SECONDS)
        running.remove(name)
        handler.answer(RIGHT)

    with EndpointServer(on(" # ", together)) as server:
        responses = [ran(f"{RIGHT} # {i}") for i in range(30)]
        results = await results_of(responses, config(server, max_in_flight=3))
    assert ({result["steps_score"] for result in results}, max(most)) == ({1}, 3)


async def test_headers_passwords_and_addresses_are_sent_and_not_shown(monkeypatch: Any) -> None:
    def tell(handler: Handler) -> None:
        said = f"{handler.headers['X-Token']} s3cret-word {handler.headers['authorization']}"
        handler.reply(400, said.encode().ljust(1990) + b"s3cret-word")

    more = {"headers": {"X-Token": "${GRAPH_TOKEN}"}, "username": "me", "password": "${GRAPH_PASSWORD}"}
    with EndpointServer(on(RIGHT, tell)) as server:
        for name, value in (("TOKEN", "s3cret-token"), ("PASSWORD", "s3cret-word"), ("URL", server.url)):
            monkeypatch.setenv(f"GRAPH_{name}", value)
        [result] = await results_of([ran(RIGHT)], {"execute": {"endpoint": "${GRAPH_URL}", **more}})
    assert error_of(result) == "invalid: HTTP 400: *** *** Basic *** ***"
    assert result["execution"]["endpoint"] == "${GRAPH_URL}"
    assert server.headers[0]["x-token"] == "s3cret-token"
    assert server.headers[0]["authorization"] == "Basic bWU6czNjcmV0LXdvcmQ="  # me:s3cret-word
    assert "s3cret" not in json.dumps(result)


async def test_what_could_fetch_or_change_is_not_sent() -> None:
    for query, word in [
        ("SELECT * { SERVICE <http://127.0.0.1:9/> { ?s ?p ?o } }", "SERVICE"),
        ("SELECT * FROM <http://127.0.0.1:9/> { ?s ?p ?o }", "FROM"),
        ("SELECT * FROM NAMED <urn:g> { GRAPH ?g { ?s ?p ?o } }", "FROM"),
        ("CLEAR ALL", "updates"),
    ]:
        with EndpointServer() as server:
            [result] = await results_of([ran(query)], config(server))
            assert server.asked == {NAMES: 1}
        assert error_of(result).startswith(f"refused: {word} ")
        assert (result["steps_score"], result["failure"]) == (0, "step_error")
        assert ("refused" in error_of(await one(query=query, allow_from=True))) == (word != "FROM")


def answering(query: str = NAMES, status: int = 200, **headers: str) -> Act:
    """After a byte order mark."""
    return lambda handler: handler.answer(query, status, b"\xef\xbb\xbf", headers)


def endless(handler: Handler) -> None:
    handler.send_response(200)
    handler.end_headers()
    handler.wfile.flush()
    for _ in range(10_000):
        handler.connection.sendall(b" " * 10_000)


# What the endpoint does, with which query, how often it is asked, and how the error begins and goes on.
REPLIES: list[tuple[Act, str, int, str, str]] = [
    *((replying(status), NAMES, 1, "failed", f"HTTP {status}") for status in (413, 414, 422, 500)),
    *(
        (replying(code), NAMES, 1, "unavailable", f"answers HTTP {code}")
        for code in (401, 403, 404, 405, 418)
    ),
    *((replying(status), NAMES, 3, "failed", f"it answers HTTP {status}") for status in (408, 502, 503, 504)),
    (replying(400), NAMES, 1, "invalid", "no such luck"),
    (replying(429), NAMES, 3, "unavailable", "it answers HTTP 429: no such luck"),
    (replying(429, Retry_After="3600"), NAMES, 1, "unavailable", "asks to wait for 3600 s"),
    (replying(308, Location="/sparql"), NAMES, 4, "unavailable", "it redirects again and again"),
    (hang, NAMES, 1, "failed", "it took more than 1.5 s"),
    (answering(status=206), NAMES, 1, "truncated", "HTTP 206"),
    (answering(X_SQL_State="S1TAT"), NAMES, 1, "truncated", "X-SQL-State"),
    (answering(X_SPARQL_MaxRows="2"), NAMES, 1, "truncated", "as many rows as X-SPARQL-MaxRows allows"),
    (answering(BUILD, X_SPARQL_MaxRows="2"), BUILD, 1, "truncated", "X-SPARQL-MaxRows"),
    (answering(X_SPARQL_MaxRows="3"), NAMES, 1, "", ""),
    (answering("SELECT * { ?s ?p ?o }"), NAMES, 1, "failed", "it returns more than 9 rows"),
    (answering("CONSTRUCT { ?s ?p ?o } { ?s ?p ?o }"), BUILD, 1, "failed", "it returns more than 9 triples"),
    (endless, NAMES, 1, "failed", "it returns more than 100,000 bytes"),
    *((replying(200, body, JSON), NAMES, 1, "unavailable", "no SPARQL") for body in (b"<", b"[]", b"\xff")),
    (replying(200, b"{}", JSON, Content_Encoding="gzip"), NAMES, 1, "unavailable", "it compresses results"),
    (replying(200, b"<html>", "text/html"), BUILD, 1, "unavailable", "text/html, from which no graph"),
    *((replying(200, body, "text/turtle"), BUILD, 1, "unavailable", "no graph") for body in (b"<", b"\xff")),
]


@pytest.mark.parametrize(("act", "reference", "count", "kind", "error"), REPLIES)
async def test_how_replies_are_read(act: Act, reference: str, count: int, kind: str, error: str) -> None:
    limits = {"max_rows": 9, "max_bytes": 100_000, "timeout_sec": 1.5}
    for part, score in (("# own", None if kind == "unavailable" else 0), (reference, None)):
        acted = list[Handler]()

        def counted(handler: Handler, acted: list[Handler] = acted) -> None:
            acted.append(handler)
            act(handler)

        result = await one(on(part, counted), reference=reference, query=f"{reference} # own", **limits)
        assert (result["steps_score"], error in error_of(result)) == (score if kind else 1, True)
        if part == "# own":
            assert error_of(result).startswith(kind or "None")
        if kind:
            assert len(acted) == count


async def test_an_overloaded_endpoint_is_asked_again() -> None:
    times: list[float] = []

    def busy(handler: Handler) -> None:
        times.append(time.monotonic())
        handler.reply(429, Retry_After="1")

    assert (await one(on(RIGHT, busy, times=2)))["steps_score"] == 1
    assert times[1] - times[0] >= 1
    with EndpointServer(on(NAMES, replying(503), times=3)) as server:  # The next response tries it again.
        results = await results_of([ran(RIGHT), ran(RIGHT)], config(server), max_in_flight=1)
    assert [result["steps_score"] for result in results] == [None, 1]


async def test_who_is_to_blame() -> None:
    """The query, if probes succeed before and after each of two attempts that end with such a status."""
    rng, log, outcomes = random.Random(1), list[tuple[str, int]](), set[Any]()

    def any_status(handler: Handler, query: str) -> bool:
        kind = "A" if query.startswith(RIGHT) else "p"
        odd = (429, 404, 200) if kind == "A" else (429, 503, 400)
        status = rng.choice(odd) if rng.random() < 0.08 else 503 if kind == "A" else 200
        log.append((kind, status))
        if status != 200:
            handler.reply(status)
        return status != 200

    with EndpointServer() as server:
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


async def test_redirects_stay_on_the_host() -> None:
    def move(handler: Handler) -> bool:
        handler.reply(307, Location="/new")
        return True

    assert (await one(lambda handler, _: handler.path == "/sparql" and move(handler)))["steps_score"] == 1
    with EndpointServer() as other:
        result = await one(on(NAMES, replying(307, Location=other.url)))
        assert other.queries == []
    assert "redirects to another host" in error_of(result)


async def test_an_endpoint_that_is_down_ends_the_run() -> None:
    denied = "HTTP 401; check headers, username and password"
    for act, error in ((replying(401), denied), (hang, "it took more than 1 s")):
        with EndpointServer(on(PROBE, act)) as server:
            with pytest.raises(ExecutionUnavailable, match=error):
                await results_of([ran(RIGHT)] * 5, config(server, timeout_sec=1))
            assert len(server.queries) == 1


async def test_cancelling_ends_the_requests() -> None:
    asked = threading.Event()

    def held(handler: Handler) -> None:
        asked.set()
        hang(handler)

    with EndpointServer(on("", held)) as server:
        async with evaluate_stream(templates(), [ran(RIGHT)] * 3, config=config(server)) as stream:
            task = asyncio.create_task(anext(stream))
            await asyncio.to_thread(wait, asked, "a request")
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        names = {task.get_name() for task in asyncio.all_tasks()}
        assert not any("query" in name or "queries" in name for name in names)
