"""Queries on a SPARQL endpoint, a real server."""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import random
import socket
import sys
import threading
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from graphrag_eval_async import (
    ConfigError,
    Evaluator,
    ExecutionUnavailable,
    RunningAggregates,
    evaluate_stream,
)
from graphrag_eval_async.execution import endpoint
from tests.deadlines import wait
from tests.execution.server import JSON, EndpointServer, Handler, failing, never, slow, together
from tests.execution.support import (
    NAMES,
    PREFIX,
    RIGHT,
    STEP,
    TURTLE,
    WRONG,
    Clock,
    ran,
    results_of,
    templates,
)

if TYPE_CHECKING:
    from tests.execution.server import Script


def serving(*scripts: Script) -> EndpointServer:
    return EndpointServer(TURTLE, *scripts)


def config(server: EndpointServer, **more: Any) -> dict[str, Any]:
    return {"execute": {"endpoint": server.url, **more}}


async def test_expected_and_actual_outputs_are_fetched() -> None:
    with serving() as server:
        results = await results_of([ran(RIGHT), ran(WRONG), ran("SELECT {")], config(server))
    assert [result["steps_score"] for result in results] == [1, 0, 0]
    assert [result["failure"] for result in results] == ["none", "wrong_query_result", "query_invalid"]
    assert results[0]["execution"]["endpoint"] == server.url
    assert results[2]["actual_steps"][0]["execution_error"].startswith("invalid: HTTP 400: Malformed query: ")
    assert {headers["accept"] for headers in server.headers} == {JSON}


async def test_graphs_are_asked_for_as_n_triples() -> None:
    build = PREFIX + "CONSTRUCT { <urn:t1> a cim:Transformer } WHERE { <urn:t1> a cim:Transformer }"
    with serving() as server:
        step = {**STEP, "reference_query": build}
        [result] = await results_of([ran(build + " ")], config(server), templates(step))
    assert result["steps_score"] == 1
    assert result["reference_steps"][0][0]["output_media_type"] == "application/n-triples"
    assert server.headers[-1]["accept"].startswith("application/n-triples, ")


async def test_equal_queries_run_once() -> None:
    responses = [ran(query, f"q{i}") for i in range(10) for query in (RIGHT, WRONG)]
    with serving(slow(0.05)) as server:
        await results_of(responses, config(server, max_in_flight=2), templates(count=10), max_in_flight=1)
        assert server.asked == {NAMES: 1, RIGHT: 1, WRONG: 1}
    with serving(slow(0.05)) as server:  # Those that run at the same time, too.
        await results_of(responses, config(server), templates(count=10))
        assert server.asked == {NAMES: 1, RIGHT: 1, WRONG: 1}


async def test_a_query_that_several_wait_for_goes_on_without_one_of_them() -> None:
    arrived, let_go = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def wait(_: Handler, query: str) -> bool:
        if query == RIGHT:
            loop.call_soon_threadsafe(arrived.set)
            let_go.wait(60)
        return False

    with serving(wait) as server:
        async with Evaluator(templates(), config=config(server)) as evaluator:
            first, second, third = (asyncio.create_task(evaluator.evaluate(ran(RIGHT))) for _ in range(3))
            await asyncio.wait_for(arrived.wait(), 60)
            first.cancel()
            await asyncio.wait([first])
            let_go.set()
            assert [(await each)["steps_score"] for each in (second, third)] == [1, 1]
        assert server.asked == {NAMES: 1, RIGHT: 1}


async def test_so_many_run_at_a_time() -> None:
    responses = [ran(f"{RIGHT} # {i}") for i in range(30)]
    with serving(together(3, " # ")) as server:
        results = await results_of(responses, config(server, max_in_flight=3))
        assert server.most_in_flight == 3
    assert {result["steps_score"] for result in results} == {1}


async def test_headers_and_passwords_are_sent_and_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAPH_TOKEN", "s3cret-token")
    monkeypatch.setenv("GRAPH_PASSWORD", "s3cret-word")

    def tell(handler: Handler, query: str) -> bool:
        handler.reply(
            400 if query != "ASK {}" else 200, handler.headers["X-Token"].encode() + b" s3cret-word", JSON
        )
        return True

    more = {"headers": {"X-Token": "${GRAPH_TOKEN}"}, "username": "me", "password": "${GRAPH_PASSWORD}"}
    with serving(tell) as server:
        [result] = await results_of([ran(RIGHT)], config(server, **more))
    assert result["execution_error"] == "invalid_request: reference_steps[0][0]: HTTP 400: *** ***"
    sent = server.headers[0]
    assert (sent["x-token"], sent["authorization"]) == (
        "s3cret-token",
        f"Basic {base64.b64encode(b'me:s3cret-word').decode()}",
    )
    assert "s3cret" not in json.dumps(result)


async def test_an_address_from_the_environment_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving() as server:
        monkeypatch.setenv("GRAPH_URL", server.url)
        [result] = await results_of([ran(RIGHT)], {"execute": {"endpoint": "${GRAPH_URL}"}})
    assert (result["steps_score"], result["execution"]["endpoint"]) == (1, "${GRAPH_URL}")


async def test_prefixes_are_declared() -> None:
    with serving() as server:
        query = "SELECT ?n { ?x c:name ?n . ?x a c:Transformer }"
        [result] = await results_of([ran(query)], config(server, prefixes={"c": "urn:cim#"}))
    assert result["steps_score"] == 1
    assert "PREFIX c: <urn:cim#>\n" + query in server.queries


@pytest.mark.parametrize(
    ("query", "error"),
    [
        ("SELECT * { SERVICE <http://127.0.0.1:9/> { ?s ?p ?o } }", "refused: SERVICE is not allowed"),
        ("SELECT * FROM <http://127.0.0.1:9/> { ?s ?p ?o }", "refused: FROM is not allowed"),
        (
            "SELECT * FROM NAMED <http://127.0.0.1:9/> { GRAPH ?g { ?s ?p ?o } }",
            "refused: FROM is not allowed",
        ),
        ("CLEAR ALL", "refused: updates are not run"),
    ],
)
async def test_what_could_fetch_or_change_is_not_sent(query: str, error: str) -> None:
    with serving() as server:
        [result] = await results_of([ran(query)], config(server))
        assert server.asked == {NAMES: 1}
    assert result["actual_steps"][0]["execution_error"].startswith(error)
    assert (result["steps_score"], result["failure"]) == (0, "step_error")


async def test_from_may_be_allowed() -> None:
    query = "SELECT * FROM <urn:g> { ?s ?p ?o }"
    with serving() as server:
        await results_of([ran(query)], config(server, allow_from=True))
        assert server.asked[query] == 1


async def test_an_overloaded_endpoint_is_asked_again() -> None:
    with serving(failing(503, times=2)) as server:
        [result] = await results_of([ran(RIGHT)], config(server))
        assert server.asked == {NAMES: 3, RIGHT: 1}
    assert result["steps_score"] == 1


async def test_what_is_not_the_agents_fault_leaves_the_score_out() -> None:
    def only_actual(handler: Handler, query: str) -> bool:
        return query == RIGHT and failing(404)(handler, query)

    with serving(failing(503)) as server:
        [result] = await results_of([ran(RIGHT)], config(server))
    assert (
        result["execution_error"] == "unavailable: reference_steps[0][0]: it answers HTTP 503: no such luck"
    )
    with serving(only_actual) as server:
        [result] = await results_of([ran(RIGHT)], config(server))
    assert result["execution_error"] == "unavailable: actual_steps[0]: it answers HTTP 404"
    assert (result["steps_score"], result["failure"]) == (None, None)


async def test_a_query_for_which_the_endpoint_times_out_scores_0() -> None:
    """The mean counts it, and the other queries cost no probe."""
    statuses = (408, 502, 503, 504, 503, 504)

    def own_timeout(handler: Handler, query: str) -> bool:
        found = [i for i in range(len(statuses)) if query.endswith(f"# {i}")]
        for i in found:
            handler.reply(statuses[i], b"Query timed out")
        return bool(found)

    responses = [ran(f"{RIGHT} # {i}", f"q{i}") for i in range(8)]
    with serving(own_timeout) as server:
        stream = evaluate_stream(templates(count=8), responses, config=config(server), ordered=True)
        async with stream:
            results = [result async for result in stream]
        assert server.asked == {NAMES: 1} | {f"{RIGHT} # {i}": 3 if i < 6 else 1 for i in range(8)}
        assert server.queries.count("ASK {}") == 1 + 6 * 4
    assert stream.aggregates.snapshot()["micro"]["steps_score"]["mean"] == 2 / 8
    assert {result["failure"] for result in results[:6]} == {"step_error"}
    assert results[0]["actual_steps"][0]["execution_error"] == (
        "failed: 3 attempts failed while the endpoint answered ASK {}: it answers HTTP 408: Query timed out"
    )


async def test_who_is_to_blame(monkeypatch: pytest.MonkeyPatch) -> None:
    """The query, if probes succeed before and after each of two attempts that end with such a status."""
    monkeypatch.setattr(endpoint, "PAUSES", (0.0, 0.0))
    rng = random.Random(1)
    log: list[tuple[bool, int]] = []

    def any_status(handler: Handler, query: str) -> bool:
        is_attempt = query.startswith(RIGHT)
        odd = (429, 404, 200) if is_attempt else (429, 503, 400)
        status = rng.choice(odd) if rng.random() < 0.08 else 503 if is_attempt else 200
        log.append((is_attempt, status))
        if status == 200:
            handler.answer(query)
        else:
            handler.reply(status)
        return True

    outcomes = set()
    with serving() as server:
        async with Evaluator(templates(), config=config(server)) as evaluator:
            await evaluator.evaluate(ran(WRONG))
            server.scripts.append(any_status)
            for number in range(150):
                log.clear()
                result = await evaluator.evaluate(ran(f"{RIGHT} # {number}"))
                attempts = [status for is_attempt, status in log if is_attempt]
                order = "".join("A" if is_attempt else "p" for is_attempt, _ in log)
                answered = all(status in (200, 400) for is_attempt, status in log if not is_attempt)
                assert len(attempts) <= 3
                assert len(log) - len(attempts) <= 4
                if attempts[-1] == 200:
                    expected: Any = 1
                elif attempts == [503] * 3 and order == "ApAppAp" and answered:
                    expected = 0
                else:
                    expected = None
                assert result["steps_score"] == expected
                assert ("execution_error" in result) == (expected is None)
                outcomes.add(expected)
    assert outcomes == {0, 1, None}


async def test_429_blames_no_query_and_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "PAUSES", (0.0, 0.0))
    times = []

    def busy(handler: Handler, query: str) -> bool:
        if query != RIGHT:
            return False
        times.append(time.monotonic())
        if len(times) < 3:
            handler.reply(429, Retry_After="1")
        return len(times) < 3

    with serving(busy) as server:
        [result] = await results_of([ran(RIGHT)], config(server))
        assert "ASK {}" not in server.queries[1:]
    assert result["steps_score"] == 1
    assert all(later - earlier >= 1 for earlier, later in itertools.pairwise(times))

    def only_actual(handler: Handler, query: str) -> bool:
        return query == RIGHT and failing(429, Retry_After="3600")(handler, query)

    with serving(only_actual) as server:
        [result] = await results_of([ran(RIGHT)], config(server))
        assert server.asked[RIGHT] == 1
    assert result["execution_error"] == (
        "unavailable: actual_steps[0]: it answers HTTP 429 and asks to wait for 3600 s: no such luck"
    )


@pytest.mark.parametrize(
    ("status", "headers", "said"),
    [
        (206, {}, "HTTP 206"),
        (200, {"X_SQL_State": "S1TAT"}, "X-SQL-State"),
        (200, {"X_SPARQL_MaxRows": "2"}, "as many rows as X-SPARQL-MaxRows allows"),
        (200, {"X_SPARQL_MaxRows": "3"}, None),
    ],
)
@pytest.mark.parametrize("is_graph", [False, True])
async def test_partial_answers_are_truncated(
    status: int, headers: dict[str, str], said: str | None, is_graph: bool
) -> None:
    reference, actual = NAMES, RIGHT
    if is_graph:
        reference = f"{PREFIX}CONSTRUCT {{ ?t a cim:Transformer }} WHERE {{ ?t a cim:Transformer }}"
        actual = f"{reference} # again"

    for part in (reference, actual):

        def partial(handler: Handler, query: str, part: str = part) -> bool:
            if query == part:
                handler.answer(query, status, headers)
            return query == part

        with serving(partial) as server:
            step = {**STEP, "reference_query": reference}
            [result] = await results_of([ran(actual)], config(server), templates(step))
        if said is None:
            assert result["steps_score"] == 1
        elif part == reference:
            assert result["execution_error"].startswith("truncated: reference_steps[0][0]: ")
            assert said in result["execution_error"]
            assert result["steps_score"] is None
        else:
            assert (result["steps_score"], result["failure"]) == (0, "step_error")
            assert result["actual_steps"][0]["execution_error"].startswith("truncated: ")
            assert "execution_error" not in result


async def test_a_bom_is_skipped() -> None:
    def marked(handler: Handler, query: str) -> bool:
        handler.answer(query, mark=b"\xef\xbb\xbf")
        return True

    build = PREFIX + "CONSTRUCT { ?t a cim:Transformer } WHERE { ?t a cim:Transformer }"
    for reference, actual in [(NAMES, RIGHT), (build, build + " ")]:
        with serving(marked) as server:
            step = {**STEP, "reference_query": reference}
            [result] = await results_of([ran(actual)], config(server), templates(step))
        assert result["steps_score"] == 1


async def test_what_failed_is_tried_for_the_next_response() -> None:
    with serving(failing(503, times=3)) as server:
        results = await results_of([ran(RIGHT), ran(RIGHT)], config(server), max_in_flight=1)
    assert "execution_error" in results[0]
    assert results[1]["steps_score"] == 1


async def test_a_query_that_the_endpoint_cannot_run_scores_0() -> None:
    def only_actual(handler: Handler, query: str) -> bool:
        return query == WRONG and failing(500)(handler, query)

    with serving(only_actual, never("?slow", Clock())) as server:
        slowly = RIGHT.replace("?n", "?slow")
        results = await results_of([ran(WRONG), ran(slowly)], config(server), max_in_flight=1)
    assert [result["failure"] for result in results] == ["step_error", "step_error"]
    errors = [result["actual_steps"][0]["execution_error"] for result in results]
    assert errors == ["failed: HTTP 500: no such luck", "failed: it took more than 30 s"]


@pytest.mark.parametrize(
    ("form", "limit", "message"),
    [
        ("SELECT *", {"max_rows": 3}, "returns more than 3 rows"),
        ("SELECT *", {"max_bytes": 300}, "returns more than 300 bytes"),
        ("CONSTRUCT { ?s ?p ?o }", {"max_rows": 3}, "returns more than 3 triples"),
    ],
)
async def test_limits_on_what_is_returned(form: str, limit: dict[str, int], message: str) -> None:
    with serving() as server:
        [result] = await results_of([ran(f"{form} WHERE {{ ?s ?p ?o }}")], config(server, **limit))
    assert message in result["actual_steps"][0]["execution_error"]


async def test_a_body_without_an_end_is_not_read_to_it() -> None:
    def endless(handler: Handler, query: str) -> bool:
        if query != RIGHT:
            return False
        handler.send_response(200)
        handler.end_headers()
        handler.close_connection = True
        for _ in range(10_000):
            handler.wfile.write(b" " * 10_000)
        return True

    with serving(endless) as server:
        [result] = await results_of([ran(RIGHT)], config(server, max_bytes=100_000))
    assert result["actual_steps"][0]["execution_error"] == "failed: it returns more than 100,000 bytes"


@pytest.mark.parametrize(
    ("body", "headers", "error"),
    [
        (b"<html>", {}, "the endpoint returned no SPARQL results in JSON"),
        (b"[]", {}, "the endpoint returned no SPARQL results in JSON"),
        (b'{"results": 5}', {}, "the endpoint returned no SPARQL results in JSON"),
        (b"{}", {"Content_Encoding": "gzip"}, "it compresses results although it was asked not to"),
    ],
)
async def test_other_bodies(body: bytes, headers: dict[str, str], error: str) -> None:
    def odd(handler: Handler, query: str) -> bool:
        if query != "ASK {}":
            handler.reply(200, body, JSON, **headers)
        return query != "ASK {}"

    with serving(odd) as server:
        [result] = await results_of([ran(RIGHT)], config(server))
    assert result["execution_error"] == f"unavailable: reference_steps[0][0]: {error}"


@pytest.mark.parametrize(
    ("body", "kind", "error"),
    [
        (b"<html>login", "text/html", "the endpoint returned text/html, not a graph"),
        (b"<html>login", "text/turtle", "the endpoint returned text/turtle that cannot be read"),
        (b"\xff", "application/n-triples", "the endpoint returned application/n-triples that cannot be read"),
    ],
)
@pytest.mark.parametrize("only_actual", [False, True])
async def test_what_is_no_graph(body: bytes, kind: str, error: str, only_actual: bool) -> None:
    build = {**STEP, "reference_query": "CONSTRUCT WHERE { ?s ?p ?o }"}
    actual = "CONSTRUCT { ?s ?p ?o } WHERE { ?s ?p ?o }"

    def odd(handler: Handler, query: str) -> bool:
        is_odd = query != "ASK {}" and (query == actual or not only_actual)
        if is_odd:
            handler.reply(200, body, kind)
        return is_odd

    with serving(odd) as server:
        [result] = await results_of([ran(actual)], config(server), templates(build))
    place = "actual_steps[0]" if only_actual else "reference_steps[0][0]"
    assert result["execution_error"] == f"unavailable: {place}: {error}"
    assert result["steps_score"] is None


async def test_credentials_that_a_server_quotes_are_not_shown() -> None:
    def quoting(handler: Handler, query: str) -> bool:
        if query == WRONG:
            handler.reply(500, str(handler.headers["authorization"]).encode())
        return query == WRONG

    with serving(quoting) as server:
        given = config(server, username="bob", password="pa55word!x")  # noqa: S106
        [result] = await results_of([ran(WRONG)], given)
    assert result["actual_steps"][0]["execution_error"] == "failed: HTTP 500: Basic ***"


async def test_redirects_stay_on_the_host() -> None:
    def move(handler: Handler, query: str) -> bool:
        if handler.path == "/sparql" and query != "ASK {}":
            handler.reply(307, Location="/new")
        return handler.path == "/sparql" and query != "ASK {}"

    with serving(move) as server:
        [result] = await results_of([ran(RIGHT)], config(server))
    assert result["steps_score"] == 1
    with serving() as other, serving(failing(307, Location=other.url)) as server:
        [result] = await results_of([ran(RIGHT)], config(server))
        assert other.queries == []
    assert "redirects to another host" in result["execution_error"]
    with serving(failing(308, Location="/sparql")) as server:
        [result] = await results_of([ran(RIGHT)], config(server))
    assert "redirects again and again" in result["execution_error"]


async def test_an_endpoint_that_is_down_ends_the_run() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/sparql"
        with pytest.raises(
            ExecutionUnavailable, match=f"^execute.endpoint: {url}: it cannot be reached: ConnectError$"
        ):
            await results_of([ran(RIGHT)] * 50, {"execute": {"endpoint": url}})
    with serving(failing(401, first=True)) as server:
        with pytest.raises(ExecutionUnavailable, match="HTTP 401; check headers, username and password"):
            await results_of([ran(RIGHT)] * 5, config(server))
        assert len(server.queries) == 1


@pytest.mark.skipif(sys.platform != "linux", reason="other systems count waiting connections in another way")
async def test_an_endpoint_that_cannot_be_connected_to_in_time_ends_the_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(endpoint, "PAUSES", (0.0, 0.0))
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full, ExitStack() as stack:
        for _ in range(4):  # The system keeps no more of them waiting.
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(full.getsockname())
        url = f"http://127.0.0.1:{full.getsockname()[1]}/sparql"
        with pytest.raises(ExecutionUnavailable, match="it cannot be reached: ConnectTimeout"):
            await results_of([ran(RIGHT)], {"execute": {"endpoint": url, "timeout_sec": 0.4}})


async def test_an_endpoint_that_hangs_at_the_start_ends_the_run() -> None:
    hang = never("ASK {}", Clock())
    with serving(hang) as server, pytest.raises(ExecutionUnavailable, match=r"took more than 30 s"):
        await results_of([ran(RIGHT)], config(server))


async def test_cancelling_ends_the_requests() -> None:
    asked = threading.Event()

    def hang(handler: Handler, query: str) -> bool:
        if query != "ASK {}":
            asked.set()
            wait(handler.endpoint.released)
        return False

    with serving(hang) as server:
        stream = evaluate_stream(templates(), [ran(RIGHT)] * 3, config=config(server))
        async with stream:
            task = asyncio.create_task(anext(stream))
            await asyncio.to_thread(wait, asked, "a request")
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        names = {task.get_name() for task in asyncio.all_tasks()}
        assert not any("query" in name or "queries" in name for name in names)


async def test_nothing_is_opened_without_queries() -> None:
    url = "http://127.0.0.1:9/sparql"
    step = {"name": "grid_api", "output": "5"}
    response = ran("", output="5", name="grid_api", args={})
    with pytest.raises(ExecutionUnavailable):
        await results_of([ran(RIGHT)], {"execute": {"endpoint": url}})
    [result] = await results_of([response], {"execute": {"endpoint": url}}, templates(step))
    assert result["steps_score"] == 1


def test_the_package_is_named_if_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    from graphrag_eval_async import Evaluator
    from graphrag_eval_async.execution import session

    monkeypatch.setattr(session, "find_spec", lambda _: None)
    both = {"execute": {"endpoint": "http://127.0.0.1:9/"}, "steps": {"check_queries": True}}
    with pytest.raises(ConfigError) as caught:
        Evaluator(templates(), config=both)
    assert caught.value.problems == [
        'steps.check_queries: needs the package pyoxigraph: pip install "graphrag-eval-async[rdf]"',
        'execute: needs the package httpx: pip install "graphrag-eval-async[execute]"',
    ]


@pytest.mark.parametrize("include_errors", [False, True])
async def test_queries_that_could_not_be_run_count_the_same_again(include_errors: bool) -> None:
    failed = {"status": "error", "error": "e"}
    given = [ran(RIGHT), {"question_id": "q0"}, ran(RIGHT) | failed, {"question_id": "q0"} | failed]
    again, counted = (RunningAggregates(include_errors=include_errors) for _ in range(2))
    with serving(failing(503)) as server:
        async with evaluate_stream(
            templates(), given, config=config(server), ordered=True, aggregates=counted
        ) as stream:
            results = [result async for result in stream]
    for result in results:
        again.add(result)
    assert again.snapshot(detail=True) == counted.snapshot(detail=True)
    assert again.snapshot(detail=True)["micro"]["steps_score"]["coverage"]["failed"] == {"not_run": 4}
    assert [result["failure"] for result in results] == [None, "no_steps", "step_error", "no_steps"]
