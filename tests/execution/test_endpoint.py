"""Queries on a SPARQL endpoint, a real server."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyoxigraph
import pytest

from graphrag_eval_async import Evaluator, ExecutionUnavailable
from tests.execution.support import (
    JSON,
    NAMES,
    PREFIX,
    PROBE,
    RIGHT,
    STEP,
    STORE,
    WRONG,
    answering,
    asked,
    endpoint,
    ran,
    replying,
    results_of,
    templates,
)
from tests.metrics.support import Judge
from tests.support.data import question, template
from tests.support.judge_server import NEVER, JudgeServer, Reply
from tests.support.virtual_time import now, without_waiting

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.judge_server import Request

BUILD = PREFIX + "CONSTRUCT { ?t a cim:Transformer } WHERE { ?t a cim:Transformer }"


def config(server: JudgeServer, **more: Any) -> dict[str, Any]:
    return {"execute": {"endpoint": f"{server.origin}/sparql", **more}}


def error_of(result: dict[str, Any]) -> str:
    return str(result.get("execution_error") or result["actual_steps"][0].get("execution_error"))


@without_waiting
async def test_equal_queries_run_once_even_if_one_that_waits_is_cancelled() -> None:
    def slow(query: str, _: Request) -> Reply | None:
        return replace(answering(RIGHT), latency=1) if query == RIGHT else None

    async with endpoint(slow) as server, Evaluator(templates(), config=config(server)) as evaluator:
        first, second = (asyncio.create_task(evaluator.evaluate(ran(RIGHT))) for _ in range(2))
        await server.until(lambda: asked(server)[RIGHT] == 1)
        first.cancel()
        await asyncio.wait([first])
        assert (await second)["steps_score"] == 1
        assert (await evaluator.evaluate(ran(RIGHT)))["steps_score"] == 1
        assert asked(server) == {NAMES: 1, RIGHT: 1}


@without_waiting
async def test_so_many_run_at_a_time() -> None:
    async with endpoint(lambda query, _: replace(answering(query), latency=1)) as server:
        responses = [ran(f"{RIGHT} # {i}") for i in range(9)]
        results = await results_of(responses, config(server, max_in_flight=3))
    assert {result["steps_score"] for result in results} == {1}
    assert server.counts.most_in_flight == 3


@without_waiting
async def test_only_the_last_fifty_queries_of_a_response_are_run() -> None:
    queries = [f"{RIGHT} # {i}" for i in range(52)]
    steps = [ran(query)["actual_steps"][0] | {"id": f"c{i}"} for i, query in enumerate(queries)]
    async with endpoint() as server:
        await results_of([{"question_id": "q0", "actual_steps": steps}], config(server))
    assert {*asked(server)} == {NAMES, *queries[2:]}


@without_waiting
async def test_headers_passwords_and_addresses_are_sent_and_not_shown() -> None:
    def tell(query: str, request: Request) -> Reply | None:
        said = f"{request.headers['x-token']} s3cret-word {request.headers['authorization']}"
        return replying(400, said.encode().ljust(1990) + b"s3cret-word") if query == RIGHT else None

    more = {"headers": {"X-Token": "${GRAPH_TOKEN}"}, "username": "me", "password": "s3cret-word"}
    with pytest.MonkeyPatch.context() as environment:
        async with endpoint(tell) as server:
            environment.setenv("GRAPH_TOKEN", "s3cret-token")
            environment.setenv("GRAPH_URL", server.origin)
            [result] = await results_of(
                [ran(RIGHT)], {"execute": {"endpoint": "${GRAPH_URL}", **more}}
            )
    assert error_of(result) == "invalid: HTTP 400: *** *** Basic *** ***"
    assert result["execution"]["endpoint"] == "${GRAPH_URL}"
    sent = server.requests[0].headers
    assert sent["x-token"] == "s3cret-token"
    assert sent["authorization"] == "Basic bWU6czNjcmV0LXdvcmQ="  # me:s3cret-word
    assert "s3cret" not in json.dumps(result)


@without_waiting
async def test_headers_from_the_environment_go_with_a_judge(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GRAPH_TOKEN", "s3cret-token")
    headers = {"Authorization": "Bearer ${GRAPH_TOKEN}"}
    judge = Judge()
    async with endpoint() as server:
        own = config(server, headers=headers) | {"sparql_groundedness": {}}
        response = ran(RIGHT) | {"actual_answer": "It is T1 or T7."}
        [result] = await results_of([response], own, judge=judge)
    assert result["steps_score"] == 1
    assert judge.blocks
    assert server.requests[0].headers["authorization"] == "Bearer s3cret-token"
    assert "s3cret" not in json.dumps(result)


@without_waiting
async def test_what_could_fetch_or_change_is_not_sent() -> None:
    queries = {
        "SELECT * { SERVICE SILENT <http://127.0.0.1:9/> { ?s ?p ?o } FILTER(false) }": "SERVICE",
        "SELECT * FROM <http://127.0.0.1:9/> { ?s ?p ?o }": "FROM",
        "SELECT * FROM NAMED <urn:g> { GRAPH ?g { ?s ?p ?o } }": "FROM",
        "CLEAR ALL": "updates",
    }
    for allowed in ("", "FROM", "SERVICE"):
        async with endpoint() as server:
            allowing: dict[str, Any] = {"reference_prefixes": False}
            if allowed:
                allowing[f"allow_{allowed.lower()}"] = True
            results = await results_of(map(ran, queries), config(server, **allowing))
        for result, (query, word) in zip(results, queries.items(), strict=True):
            is_refused = word != allowed
            assert error_of(result).startswith(f"refused: {word} ") == is_refused
            assert (f"execute.allow_{word.lower()} permits" in error_of(result)) == (
                is_refused and word.isupper()
            )
            assert (asked(server)[query] == 0) == is_refused
            assert result["failure"] == ("step_error" if is_refused else "empty_result")


def results_as(kind: Any) -> bytes:
    solutions: Any = STORE.query(NAMES)
    return bytes(solutions.serialize(format=kind))


RESULTS = results_as(pyoxigraph.QueryResultsFormat.JSON)
RESULTS_CSV = results_as(pyoxigraph.QueryResultsFormat.CSV)
RESULTS_TSV = results_as(pyoxigraph.QueryResultsFormat.TSV)
RESULTS_XML = results_as(pyoxigraph.QueryResultsFormat.XML)

TRACE = (
    b"java.util.concurrent.TimeoutException\n"
    b"\tat java.util.concurrent.FutureTask.get(FutureTask.java:205)\n"
    b"\tat java.lang.Thread.run(Thread.java:750)\n"
)

# What the endpoint replies, to which query, how often it is asked, and how the error begins and
# goes on.
REPLIES: list[tuple[Reply, str, int, str, str]] = [
    *((replying(status), NAMES, 1, "failed", f"HTTP {status}") for status in (413, 414, 422, 500)),
    *(
        (replying(code), NAMES, 1, "unavailable", f"answers HTTP {code}")
        for code in (401, 403, 404, 405, 418)
    ),
    *(
        (replying(status), NAMES, 3, "failed", f"it answers HTTP {status}")
        for status in (408, 502, 503, 504)
    ),
    (replying(400), NAMES, 1, "invalid", "no such luck"),
    (replying(429), NAMES, 3, "unavailable", "it answers HTTP 429: no such luck"),
    (replying(429, Retry_After="3600"), NAMES, 1, "unavailable", "asks to wait for 3600 s"),
    (replying(308, Location="/sparql"), NAMES, 4, "unavailable", "it redirects again and again"),
    (Reply(how="reset"), NAMES, 3, "unavailable", "it cannot be reached: ReadError"),
    (NEVER, NAMES, 1, "failed", "it took more than 1.5 s"),
    (answering(NAMES, 206), NAMES, 1, "truncated", "HTTP 206"),
    (answering(NAMES, X_SQL_State="S1TAT"), NAMES, 1, "truncated", "X-SQL-State"),
    (
        answering(NAMES, X_SPARQL_MaxRows="2"),
        NAMES,
        1,
        "truncated",
        "as many rows as X-SPARQL-MaxRows",
    ),
    (answering(NAMES, X_SPARQL_MaxRows="3"), NAMES, 1, "", ""),
    (answering("SELECT * { ?s ?p ?o }"), NAMES, 1, "failed", "it returns more than 9 rows"),
    (
        answering("CONSTRUCT WHERE { ?s ?p ?o }"),
        BUILD,
        1,
        "failed",
        "it returns more than 9 triples",
    ),
    (replying(200, b" " * 200_000), NAMES, 1, "failed", "it returns more than 100,000 bytes"),
    *((replying(200, body, JSON), NAMES, 1, "unavailable", "no SPARQL") for body in (b"<", b"[]")),
    (
        replying(200, b"<html>", "text/html"),
        BUILD,
        1,
        "unavailable",
        "text/html, from which no graph",
    ),
    (replying(200, b"<", "text/turtle"), BUILD, 1, "unavailable", "no graph"),
    # As QLever, Wikidata and Neptune answer.
    (
        replying(429, b"Query timed out."),
        NAMES,
        3,
        "failed",
        "it answers HTTP 429: Query timed out",
    ),
    (
        replying(200, RESULTS[:150] + b"java.util.concurrent.TimeoutException\n\tat x", JSON),
        NAMES,
        1,
        "truncated",
        "java.util.concurrent.TimeoutException",
    ),
    (replying(200, RESULTS[:-20], JSON), NAMES, 1, "truncated", "the results end in the middle"),
    (replying(200, RESULTS + b"\nError: out of memory", JSON), NAMES, 1, "truncated", "of memory"),
    (replying(200, RESULTS_XML, "application/sparql-results+xml"), NAMES, 1, "", ""),
    (replying(200, RESULTS_XML, JSON), NAMES, 1, "", ""),
    (replying(200, RESULTS_XML[:-30], JSON), NAMES, 1, "truncated", "the results end"),
    (
        replying(200, RESULTS.replace(b'"head":{', b'"head":{"link":["\x01\\\'"],'), JSON),
        NAMES,
        1,
        "",
        "",
    ),
    (
        replying(500, b'{"code": "ThrottlingException", "detailedMessage": "Too many requests"}'),
        NAMES,
        3,
        "unavailable",
        "ThrottlingException",
    ),
    *(
        (replying(400, f'{{"code": "{code}"}}'.encode()), NAMES, 3, "unavailable", code)
        for code in ("TooManyRequestsException", "ThrottlingException")
    ),
    (
        replying(400, b'{"code": "MalformedQueryException", "detail": "no overload of STR"}'),
        NAMES,
        1,
        "invalid",
        "no overload",
    ),
    *(
        (replying(200, body, f"{kind}; charset=utf-8"), NAMES, 1, "", "")
        for body, kind in (
            (RESULTS_CSV, "text/csv"),
            (RESULTS_TSV, "text/tab-separated-values"),
            (b"\xef\xbb\xbf" + RESULTS_CSV, "text/csv"),
            (RESULTS, "text/csv"),
        )
    ),
    *(
        (replying(200, body + TRACE, kind), query, 1, "truncated", "java.lang.Thread.run")
        for body, kind, query in (
            (RESULTS_CSV, "text/csv", NAMES),
            (RESULTS_CSV[:-2], "text/csv", NAMES),
            (RESULTS_TSV, "text/tab-separated-values", NAMES),
            (b"a,b\r\n1,2\r\n3", "text/csv", NAMES),
        )
    ),
    (
        replying(200, b"a,b\r\n1,2\r\njava.util.concurrent.TimeoutException", "text/csv"),
        NAMES,
        1,
        "truncated",
        "TimeoutException",
    ),
    (
        replying(200, b"name\n" + b"T1\n" * 10, "text/csv"),
        NAMES,
        1,
        "failed",
        "it returns more than 9 rows",
    ),
    (
        replying(200, RESULTS_CSV, "text/csv", X_SPARQL_MaxRows="2"),
        NAMES,
        1,
        "truncated",
        "as many rows as X-SPARQL-MaxRows",
    ),
    (replying(200, b"a,b\r\n1,2,3", "text/csv"), NAMES, 1, "unavailable", "text/csv"),
]


@without_waiting
async def test_how_replies_are_read() -> None:
    """Each reply to the query of an agent, for a score of 0, and to a reference query, for none."""
    met: Counter[str] = Counter()

    def script(query: str, _: Request) -> Reply | None:
        place = query.partition(" # ")[2]
        met[place] += 1
        return REPLIES[int(place[3:])][0] if place else None

    pairs = [
        pair
        for i, (_, query, *_) in enumerate(REPLIES)
        for pair in ((query, f"{query} # own{i}"), (f"{query} # ref{i}", query))
    ]
    questions = [
        question({**STEP, "reference_query": reference}, question_id=f"q{i}")
        for i, (reference, _) in enumerate(pairs)
    ]
    responses = [ran(query, f"q{i}") for i, (_, query) in enumerate(pairs)]
    limits = {"max_rows": 9, "max_bytes": 100_000, "timeout_sec": 1.5}
    async with endpoint(script) as server:
        results = await results_of(responses, config(server, **limits), template(*questions))
    for i, (_, _, count, kind, error) in enumerate(REPLIES):
        own, reference_failed = results[2 * i : 2 * i + 2]
        assert own["steps_score"] == (1 if not kind else None if kind == "unavailable" else 0)
        assert error_of(own).startswith(kind or "None")
        assert reference_failed["steps_score"] == (None if kind else 1)
        for result in (own, reference_failed):
            assert error in error_of(result)
        assert met[f"own{i}"] == met[f"ref{i}"] == count, error


PLACES = PREFIX + "SELECT ?name { ?p a cim:Place ; cim:name ?name }"
LATIN = (
    '{"head":{"vars":["name"]},"results":{"bindings":[{"name":{"type":"literal","value":"Köln"}}]}}'
)


@without_waiting
@pytest.mark.parametrize(
    ("content_type", "encoding"),
    [
        (f"{JSON}; charset=ISO-8859-1", "latin-1"),
        (f'{JSON};Charset="windows-1252"', "cp1252"),
        (f"{JSON}; charset=utf-8", "utf-8"),
        (f"{JSON}; charset=unknown", "utf-8"),
        (f"{JSON}; charset=punycode", "utf-8"),
    ],
)
async def test_results_are_read_in_their_charset(content_type: str, encoding: str) -> None:
    reply = replying(200, LATIN.encode(encoding), content_type)
    reference = templates({"name": "sparql_query", "output": LATIN, "output_media_type": JSON})
    async with endpoint(only_to(PLACES, reply)) as server:
        [result] = await results_of([ran(PLACES)], config(server), reference)
    assert result["steps_score"] == 1


@without_waiting
@pytest.mark.parametrize("cell", ["T1", '"T1\n\tat a.B.c(B.java:1)"'], ids=["one line", "a trace"])
async def test_csv_is_kept_as_it_is(cell: str) -> None:
    table = f"name\r\nT7\r\n{cell}\r\n"
    reply = replying(200, table.encode(), "text/csv")
    async with endpoint(only_to(PLACES, reply)) as server:
        [result] = await results_of([ran(PLACES)], config(server))
    assert result["actual_steps"][0]["executed_output"] == table


@without_waiting
async def test_csv_without_rows_is_an_empty_result() -> None:
    reply = replying(200, b"name\r\n", "text/csv")
    async with endpoint(only_to(PLACES, reply)) as server:
        [result] = await results_of([ran(PLACES)], config(server))
    assert (result["steps_score"], result["failure"]) == (0, "empty_result")


def only_to(query: str, reply: Reply) -> Callable[[str, Request], Reply | None]:
    """A script that replies to one query."""

    def script(text: str, _: Request) -> Reply | None:
        return reply if text == query else None

    return script


@without_waiting
async def test_words_of_the_query_that_an_error_repeats_do_not_count() -> None:
    query = f'{RIGHT} #\n# <urn:overload> "timed out"'
    repeated = query.replace("\n", "\\n").replace("<", "&lt;").encode()
    replies = [
        (replying(500, b"Internal error in: " + repeated), 1, "failed: "),
        (replying(500, b"Overload. Query: " + repeated), 3, "unavailable: "),
        (replying(429, b"Denied: " + repeated), 3, "unavailable: "),
        (replying(429, repeated + b" timed out after 60 s"), 3, "failed: "),
        (replying(429, b"Timed out"), 3, "failed: "),
    ]
    for reply, count, kind in replies:
        async with endpoint(only_to(query, reply)) as server:
            [result] = await results_of([ran(query)], config(server))
        assert error_of(result).startswith(kind)
        assert asked(server)[query] == count


@without_waiting
async def test_no_part_of_a_secret_is_quoted_of_results_that_are_cut_off() -> None:
    secret = "s3cret-" * 10
    for room in range(230, 301, 5):
        body = RESULTS[:150] + secret.encode() + b"x" * room
        reply = replying(200, body, JSON)
        async with endpoint(only_to(RIGHT, reply)) as server:
            [result] = await results_of([ran(RIGHT)], config(server, headers={"X-Token": secret}))
        assert error_of(result).startswith("truncated: the results end in the middle")
        assert "s3cret" not in json.dumps(result)
        assert "cret-" not in json.dumps(result)


@without_waiting
async def test_an_overloaded_endpoint_is_asked_again() -> None:
    times: list[float] = []

    def busy(query: str, request: Request) -> Reply | None:
        if query == RIGHT:
            times.append(request.time)
        return replying(429, Retry_After="7") if query == RIGHT and len(times) < 3 else None

    async with endpoint(busy) as server:
        [result] = await results_of([ran(RIGHT)], config(server))
    assert result["steps_score"] == 1
    assert [times[1] - times[0], times[2] - times[1]] == pytest.approx([7, 7], abs=0.1)

    def at_first(query: str, _: Request) -> Reply | None:
        return replying(503) if query == NAMES and asked(server)[NAMES] <= 3 else None

    began = now()
    async with endpoint(at_first) as server:  # The next response tries it again.
        results = await results_of([ran(RIGHT), ran(RIGHT)], config(server), max_in_flight=1)
    assert now() - began == pytest.approx(0.2 + 1, abs=0.1)
    assert [result["steps_score"] for result in results] == [None, 1]


@without_waiting
async def test_who_is_to_blame() -> None:
    """The query, if probes succeed before and after each of two attempts that end with such a
    status.
    """
    rng, log, outcomes = random.Random(1), list[tuple[str, int]](), set[Any]()

    def any_status(query: str, _: Request) -> Reply | None:
        if query != PROBE and "# own" not in query:
            return None
        kind = "p" if query == PROBE else "A"
        odd = (429, 404, 200) if kind == "A" else (429, 503, 400)
        status = rng.choice(odd) if rng.random() < 0.08 else 503 if kind == "A" else 200
        log.append((kind, status))
        return None if status == 200 else replying(status)

    async with (
        endpoint(any_status) as server,
        Evaluator(templates(), config=config(server)) as evaluator,
    ):
        await evaluator.evaluate(ran(WRONG))
        for number in range(40):
            log.clear()
            result = await evaluator.evaluate(ran(f"{RIGHT} # own {number}"))
            attempts = [status for kind, status in log if kind == "A"]
            answered = all(status in (200, 400) for kind, status in log if kind == "p")
            in_order = [kind for kind, _ in log] == [*"ApAppAp"]
            blames = attempts == [503] * 3 and answered and in_order
            assert len(attempts) <= 3
            assert result["steps_score"] == (1 if attempts[-1] == 200 else 0 if blames else None)
            outcomes.add(result["steps_score"])
    assert outcomes == {0, 1, None}


@without_waiting
async def test_redirects_stay_on_the_host() -> None:
    def move(_: str, request: Request) -> Reply | None:
        return replying(307, Location="/new") if request.path == "/sparql" else None

    async with endpoint(move) as server:
        [result] = await results_of([ran(RIGHT)], config(server))
    assert result["steps_score"] == 1
    async with endpoint() as other:
        away = replying(307, Location=other.origin)
        async with endpoint(lambda query, _: away if query == NAMES else None) as server:
            [result] = await results_of([ran(RIGHT)], config(server))
        assert other.requests == []
    assert "redirects to another host" in error_of(result)


@without_waiting
async def test_an_endpoint_that_is_down_ends_the_run() -> None:
    denied = "HTTP 401; check headers, username and password"
    for reply, error in ((replying(401), denied), (NEVER, "it took more than 1 s")):
        async with endpoint(lambda *_, reply=reply: reply) as server:
            with pytest.raises(ExecutionUnavailable, match=error):
                await results_of([ran(RIGHT)] * 5, config(server, timeout_sec=1))
            assert len(server.requests) == 1


SELECT = "SELECT * { ?s ?p ?o }"
SEVERAL_STATEMENTS = {
    "load": f"{SELECT} ; LOAD <http://127.0.0.1:9/>",
    "load without a semicolon": f"{SELECT} LOAD <http://127.0.0.1:9/>",
    "in small letters": f"{SELECT} ;\nload silent <http://127.0.0.1:9/> into graph <urn:g>",
    "drop": f"{SELECT};DROP ALL",
    "insert after ASK": "ASK {} ; INSERT DATA { <urn:a> <urn:b> <urn:c> }",
    "insert with a graph": f"{SELECT} ; WITH <urn:g> DELETE {{ ?s ?p ?o }} WHERE {{ ?s ?p ?o }}",
    "after a prefix": f"{SELECT} ; PREFIX a: <urn:a> CLEAR DEFAULT",
    "a second query": f"{SELECT} ; {SELECT}",
    "a semicolon as a code point": f"{SELECT} \\u003B LOAD <http://127.0.0.1:9/>",
    "a keyword as code points": f"{SELECT} \\u004COAD <http://127.0.0.1:9/>",
    "a brace too many": f"{SELECT} }} ; LOAD <http://127.0.0.1:9/>",
    "after a comment": f"{SELECT} # ;\n; LOAD <http://127.0.0.1:9/>",
    "a brace that some read as an IRI": "SELECT * { ?a ?b ?c FILTER(?a<?b)&&?c>?a) } ; DROP ALL",
}
ONE_STATEMENT = {
    "words in a comment": f"{SELECT} # ; LOAD <http://127.0.0.1:9/>",
    "words in a text": 'SELECT * { ?s ?p "} ; LOAD <http://127.0.0.1:9/>" }',
    "words in names": "PREFIX load: <urn:load> SELECT ?drop { ?drop load:clear ?o ; load:add 1 }",
    "an IRI": "SELECT * { ?s <urn:a;LOAD> ?o } ORDER BY ?s",
    "a semicolon at the end": f"{SELECT} ; # done",
}


@pytest.mark.parametrize("query", SEVERAL_STATEMENTS.values(), ids=SEVERAL_STATEMENTS)
@without_waiting
async def test_a_second_statement_is_refused_before_it_is_sent(query: str) -> None:
    async with endpoint() as server:
        [result] = await results_of([ran(query)], config(server))
    assert error_of(result).startswith("refused: it has more than one statement")
    assert not any(sent.endswith(query) for sent in asked(server))


@pytest.mark.parametrize("query", ONE_STATEMENT.values(), ids=ONE_STATEMENT)
@without_waiting
async def test_words_of_updates_in_a_query_do_not_matter(query: str) -> None:
    def answer_all(_query: str, _request: Request) -> Reply:
        return answering(RIGHT)

    async with endpoint(answer_all) as server:
        [result] = await results_of([ran(query)], config(server))
    assert "execution_error" not in result["actual_steps"][0]
    assert any(sent.endswith(query) for sent in asked(server))
