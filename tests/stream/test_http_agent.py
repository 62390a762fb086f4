"""Agents at an address: a real server, which replies by script."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

import pytest

from graphrag_eval_async import UsageError, evaluate_agent, http_agent
from graphrag_eval_async.reference import load_reference
from tests.support.judge_server import NEVER, JudgeServer, Reply, Request, json_reply
from tests.support.virtual_time import now, without_waiting

if TYPE_CHECKING:
    from collections.abc import Callable

QUESTIONS = [
    {"id": "q0", "question_text": "Wer & {was}?", "tags": {"dataset": "urn:d", "lang": "de"}},
    {"id": "q1", "question_text": "Who?"},
]
REFERENCE = load_reference([{"template_id": "t", "questions": QUESTIONS}])
TAGGED, PLAIN = REFERENCE
QUERY = "SELECT * { ?s ?p ?o }"
STEP = {"name": "sparql", "status": "success", "args": {"query": QUERY}}


async def asked(
    reply: Reply | Callable[[Request], Reply], question: Any = TAGGED, **options: Any
) -> Any:
    """The response, without what varies, and the requests; `url` is appended to the address."""
    async with JudgeServer(reply if callable(reply) else lambda _: reply) as server:
        agent = http_agent(server.origin + options.pop("url", "/"), **options)
        response = await agent(question)
        await agent.aclose()
    assert response.pop("question_id") == question.id
    assert response.pop("elapsed_sec") >= 0
    if "error" in response:
        response["error"] = response["error"].replace(
            server.origin.removeprefix("http://"), "HOST:PORT"
        )
    return response, server.requests


def sent(request: Request) -> Any:
    return request.path, parse_qsl(request.query), request.body


ENDPOINT = [("dataset", "urn:d"), ("question", "Wer & {was}?")]


@pytest.mark.parametrize(
    ("question", "options", "path", "query", "body"),
    [
        pytest.param(TAGGED, {}, "/", ENDPOINT, None, id="dataset"),
        pytest.param(PLAIN, {}, "/", [("question", "Who?")], None, id="no dataset"),
        pytest.param(
            TAGGED,
            {"url": "/ask?k=1#f", "params": {"n": 5}},
            "/ask",
            [("k", "1"), *ENDPOINT, ("n", "5")],
            None,
            id="parameters",
        ),
        pytest.param(
            TAGGED,
            {"url": "/?dataset=%20x"},
            "/",
            [("dataset", " x"), ENDPOINT[1]],
            None,
            id="dataset in the URL",
        ),
        pytest.param(
            PLAIN,
            {"params": {"dataset": "x"}},
            "/",
            [("question", "Who?"), ("dataset", "x")],
            None,
            id="dataset in a parameter",
        ),
        pytest.param(
            TAGGED,
            {"params": {"{lang}": "{question} {{{lang}}}"}},
            "/",
            [("de", "Wer & {was}? {de}")],
            None,
            id="language",
        ),
        pytest.param(
            TAGGED,
            {"params": {"q": "{question}", "i": "{id} {template} ${HELD}"}},
            "/",
            [("q", "Wer & {was}?"), ("i", "q0 t {id}s3cret")],
            None,
            id="placeholders",
        ),
        pytest.param(
            TAGGED,
            {"method": "POST", "headers": {"content-Type": "a/b"}},
            "/",
            [],
            dict(ENDPOINT),
            id="POST",
        ),
        pytest.param(
            PLAIN,
            {"method": "POST", "body": {"stream": 0}},
            "/",
            [],
            {"question": "Who?", "stream": 0},
            id="POST with a body",
        ),
        pytest.param(
            PLAIN,
            {
                "method": "POST",
                "params": {"v": "2"},
                "body": {"m": [{"c": "{question}"}], "n": None},
            },
            "/",
            [("v", "2")],
            {"m": [{"c": "Who?"}], "n": None},
            id="POST with a placeholder",
        ),
        pytest.param(
            PLAIN,
            {"method": "POST", "params": {"q": "{question}"}},
            "/",
            [("q", "Who?")],
            None,
            id="POST with a parameter",
        ),
    ],
)
async def test_what_is_sent(question: Any, options: Any, path: str, query: Any, body: Any) -> None:
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("HELD", "{id}s3cret")
        response, [request] = await asked(json_reply({"query": QUERY}), question, **options)
    assert response == {"actual_steps": [STEP]}
    assert sent(request) == (path, query, body)
    assert request.head.startswith(options.get("method", "GET").encode())
    kind = options.get("headers", {}).get("content-Type", "application/json")
    assert request.headers.get("content-type") == (None if body is None else kind)


@pytest.mark.parametrize(
    ("reply", "options", "expected"),
    [
        pytest.param({"dataset": "d", "query": QUERY}, {}, {"actual_steps": [STEP]}, id="query"),
        pytest.param({"query": None}, {}, {"actual_steps": []}, id="no query"),
        pytest.param(
            {"query": " ", "answer": "no"},
            {},
            {"actual_steps": [], "actual_answer": "no"},
            id="blank query",
        ),
        pytest.param(
            {"answer": ["a", "b"], "steps": [STEP], "query": QUERY},
            {},
            {"actual_answer": "a\nb", "actual_steps": [STEP, STEP]},
            id="answer and steps",
        ),
        pytest.param(
            {"answer": 4.5}, {}, {"actual_answer": "4.5", "actual_steps": []}, id="number"
        ),
        pytest.param(
            {"answer": 10**25, "steps": [{**STEP, "n": [-(2**63), 2**64 - 1, 2**64, 1e20]}]},
            {},
            {
                "actual_answer": "1" + "0" * 25,
                "actual_steps": [
                    {**STEP, "n": [-(2**63), 2**64 - 1, "18446744073709551616", 1e20]}
                ],
            },
            id="large numbers",
        ),
        pytest.param(
            {"answer": {"a": [True]}},
            {},
            {"actual_answer": '{"a":[true]}', "actual_steps": []},
            id="object",
        ),
        pytest.param(
            "text", {"answer": "$"}, {"actual_answer": "text", "actual_steps": []}, id="text"
        ),
        pytest.param(
            {"answer": "x", "steps": 7},
            {"steps": None},
            {"actual_answer": "x", "actual_steps": []},
            id="steps switched off",
        ),
        pytest.param(
            {"answer": "x"},
            {"query": None, "steps": None},
            {"actual_answer": "x"},
            id="only an answer",
        ),
        pytest.param(
            {"choices": [{"message": {"content": "x"}}]},
            {"answer": "$.choices[0].message.content"},
            {"actual_answer": "x", "actual_steps": []},
            id="path",
        ),
        pytest.param(
            {"a": [1, [None, "x"]]},
            {"answer": "$.a[-1][1]"},
            {"actual_answer": "x", "actual_steps": []},
            id="path from the end",
        ),
        pytest.param(
            {"a": "xyz", "b": 1},
            {"answer": "$.a[0]"},
            {"error": "the reply has no answer at $.a[0]; it has the keys a, b"},
            id="path into text",
        ),
        pytest.param(
            [],
            {"answer": "$[0]"},
            {"error": "the reply has no answer at $[0]; it is []"},
            id="path into an empty list",
        ),
        pytest.param(
            None, {}, {"error": "the reply has no answer or query or steps; it is null"}, id="null"
        ),
        pytest.param(
            {"a": 1},
            {},
            {"error": "the reply has no answer or query or steps; it has the keys a"},
            id="other keys",
        ),
        pytest.param(
            {"dataset": "d", "question": "Who?"},
            {},
            {"actual_steps": []},
            id="TEXT2SPARQL without a query",
        ),
        pytest.param(
            {"question": "Who?", "error": None},
            {"answer": None},
            {"actual_steps": []},
            id="TEXT2SPARQL without an error",
        ),
        pytest.param(
            {"question": "Who?", "error": "busy\n!"},
            {},
            {"error": "busy !", "actual_steps": []},
            id="error",
        ),
        pytest.param(
            {"query": QUERY, "error": {"code": 5}},
            {},
            {"error": '{"code":5}', "actual_steps": [STEP]},
            id="error of an object",
        ),
        pytest.param(
            {"query": None, "error": "x"},
            {"answer": "$.a"},
            {"error": "x", "actual_steps": []},
            id="error beats a missing answer",
        ),
        pytest.param({"query": QUERY, "error": ""}, {}, {"actual_steps": [STEP]}, id="blank error"),
        pytest.param(
            {"question": "Who?"},
            {"query": "$.q"},
            {"error": "the reply has no query at $.q; it has the keys question"},
            id="no query at its path",
        ),
        pytest.param(
            {"question": "Who?"},
            {"query": None, "steps": None},
            {"error": "the reply has no answer; it has the keys question"},
            id="no answer",
        ),
        pytest.param(
            {"query": 7}, {}, {"error": "query: expected str, got int"}, id="query of a number"
        ),
        pytest.param(
            {"steps": "x"}, {}, {"error": "steps: expected list, got str"}, id="steps of text"
        ),
        pytest.param(
            {"steps": [1], "query": QUERY},
            {},
            {"error": ("actual_steps[0]: expected an object, got 1")},
            id="step of a number",
        ),
        pytest.param(
            {"steps": [{**STEP, "n": [1] * 600_000}]},
            {},
            {"error": "the reply has too many values"},
            id="too many values",
        ),
        pytest.param(
            "x" * 2**20,
            {"answer": "$"},
            {"actual_answer": "x" * 2**20, "actual_steps": []},
            id="long text",
        ),
    ],
)
async def test_how_replies_are_read(reply: Any, options: Any, expected: Any) -> None:
    response, _ = await asked(Reply(json.dumps(reply).encode()), **options)
    assert response == expected


@pytest.mark.parametrize(
    ("reply", "attempts", "error"),
    [
        pytest.param(Reply(b"boom " + b"x" * 900, 500), 1, "HTTP 500: boom xxx", id="HTTP 500"),
        pytest.param(Reply(b"<h1>", 404), 1, "HTTP 404: <h1>", id="HTTP 404"),
        *(
            pytest.param(Reply(b"busy", status), 3, f"HTTP {status}: busy", id=f"HTTP {status}")
            for status in (429, 502, 503, 504)
        ),
        pytest.param(
            Reply(b"", 429, (("Retry-After", "90"),)),
            1,
            "HTTP 429: it asks to wait for 90 s: ",
            id="long wait",
        ),
        pytest.param(
            Reply(b"busy", 429, (("Retry-After", "35"),)), 5, "HTTP 429: busy", id="short wait"
        ),
        pytest.param(
            Reply(b"busy", 503, (("Retry-After", "0"),)), 3, "HTTP 503: busy", id="no wait"
        ),
        pytest.param(
            Reply(how="reset"), 3, "HOST:PORT: it cannot be reached: ReadError", id="reset"
        ),
        pytest.param(NEVER, 1, "it took more than 2 s", id="never"),
        pytest.param(Reply(b" " * 1001), 1, "it returns more than 1,000 bytes", id="too long"),
        pytest.param(Reply(b"<html>"), 1, "not JSON: unexpected character", id="HTML"),
        pytest.param(Reply(b"\xff"), 1, "not JSON: ", id="not UTF-8"),
        pytest.param(Reply(b" "), 1, "the reply is empty", id="blank"),
        pytest.param(
            Reply(b"{}", headers=(("Content-Encoding", "gzip"),)),
            1,
            "HOST:PORT: it compresses results",
            id="compressed",
        ),
        pytest.param(
            Reply(b"", 302, (("Location", "http://localhost:9/"),)),
            1,
            "HOST:PORT: it redirects to another",
            id="redirect to another host",
        ),
        pytest.param(
            Reply(b'{"answer": %b%b}' % (b"[" * 300, b"]" * 300)),
            1,
            "the reply is nested too deeply",
            id="deep answer",
        ),
        pytest.param(
            Reply(b'{"steps": [{"name": "a", "args": %b%b}]}' % (b"[" * 200, b"]" * 200)),
            1,
            "the reply is nested too deeply",
            id="deep steps",
        ),
        pytest.param(Reply(b"", 302), 1, "HTTP 302: ", id="redirect without a place"),
        pytest.param(Reply(b"", 304), 1, "HTTP 304: ", id="HTTP 304"),
        pytest.param(
            Reply(b"", 302, (("Location", "/"),)),
            4,
            "HOST:PORT: it redirects again and again",
            id="endless redirects",
        ),
    ],
)
@without_waiting
async def test_what_fails(reply: Reply, attempts: int, error: str) -> None:
    response, requests = await asked(reply, url="/a?b=c", timeout=2, max_reply_bytes=1000)
    assert response["error"].startswith(error)
    assert len(response["error"]) <= 500
    assert len(requests) == attempts


@without_waiting
async def test_pauses() -> None:
    def busy(request: Request) -> Reply:
        if request.number < 2:
            return Reply(b"", 503, (("Retry-After", f"{7 * request.number}"),))
        return json_reply({"query": QUERY})

    began = now()
    response, requests = await asked(busy, method="POST", params={"a": "b"})
    assert 0.2 + 7 <= now() - began <= 0.4 + 8.1
    assert response == {"actual_steps": [STEP]}
    assert sent(requests[-1]) == ("/", [("a", "b")], dict(ENDPOINT))


@pytest.mark.parametrize(
    ("status", "method", "body"),
    [
        *(pytest.param(status, "GET", None, id=f"HTTP {status}") for status in (301, 302, 303)),
        *(
            pytest.param(status, "POST", dict(ENDPOINT), id=f"HTTP {status}")
            for status in (307, 308)
        ),
    ],
)
async def test_what_a_redirect_repeats(status: int, method: str, body: Any) -> None:
    moved = Reply(b"", status, (("Location", "/new"),))
    new = json_reply({"query": QUERY})
    response, [_, last] = await asked(
        lambda request: moved if request.path == "/" else new, method="POST"
    )
    assert response == {"actual_steps": [STEP]}
    assert last.head.startswith(f"{method} /new".encode())
    assert last.body == body


async def test_secrets_are_sent_and_not_shown(caplog: pytest.LogCaptureFixture) -> None:
    def echo(request: Request) -> Reply:
        return Reply(
            f"{request.path}?{request.query} {request.headers} {request.raw!r}".encode(), 500
        )

    caplog.set_level(logging.DEBUG)
    names = ["PATH_KEY", "QUERY_KEY", "PARAM", "BODY", "TOKEN"]
    with pytest.MonkeyPatch.context() as environment:
        for name in names:
            environment.setenv(name, f"s3cret/{name}")
        async with JudgeServer(echo) as server:
            agent = http_agent(
                server.origin.replace("//", "//me:s3cret%20word@")
                + "/${PATH_KEY}?key=${QUERY_KEY}",
                method="POST",
                params={"p": "${PARAM}"},
                body={"b": "{question} ${BODY}"},
                headers={"X-Token": "Bearer ${TOKEN}", "X-Other": "Key s3cret-literal"},
            )
            async with evaluate_agent(REFERENCE, agent) as stream:
                results = [result async for result in stream]
    [request, _] = server.requests
    everything = f"{request.path} {request.query} {request.headers} {request.raw!r}"
    assert all(name in everything for name in names)
    assert request.headers["authorization"] == "Basic bWU6czNjcmV0IHdvcmQ="  # me:s3cret word
    assert results[0]["error"].startswith("HTTP 500: /***?key=***")
    shown = json.dumps(results) + repr(agent) + caplog.text
    assert "s3cret" not in shown
    assert "bWU6" not in shown  # me:


@pytest.mark.parametrize(
    ("options", "text", "shown"),
    [
        pytest.param(
            {"headers": {"X-Key": "s3cret<&>"}},
            "a s3cret<&> s3cret%3C&amp;%3E",
            "a *** ***",
            id="header",
        ),
        pytest.param(
            {"headers": {"Cookie": ("sid=s3cr3tvalue==; lang=en")}},
            "s3cr3tvalue==, lang=en",
            "***, lang=en",
            id="value of a cookie",
        ),
        pytest.param(
            {"headers": {"Cookie": "sid=s3cr3tvalue; lang=en"}},
            "sid=s3cr3tvalue; lang=en",
            "***",
            id="whole cookie",
        ),
        pytest.param(
            {"headers": {"Authorization": "Bearer bearer-of-it"}},
            "Bearer bearer-of-it",
            "***",
            id="token",
        ),
        pytest.param({"headers": {"X-Api-Key": "Berlin"}}, "Berlin", "Berlin", id="city"),
        pytest.param(
            {"headers": {"Accept-Language": "de-formal"}}, "de-formal", "de-formal", id="language"
        ),
        pytest.param(
            {"headers": {"X-Sub": "a ${HELD}"}},
            "s3cret+held s3cret%2bheld a",
            "*** *** a",
            id="variable in a header",
        ),
        pytest.param(
            {"params": {"p": ["${HELD}"]}}, "s3cret+held", "***", id="variable in a parameter"
        ),
        pytest.param(
            {"url": "/?p=${HELD}", "method": "POST"}, "s3cret+held", "***", id="variable in the URL"
        ),
        pytest.param(
            {"method": "POST", "body": {"p": "${HELD}"}},
            "s3cret+held",
            "***",
            id="variable in the body",
        ),
        pytest.param(
            {"params": {"p": "${CITY}", "dataset": "${IRI}"}},
            "Berlin <http://h/d#>",
            "Berlin <http://h/d#>",
            id="ordinary variables",
        ),
    ],
)
async def test_which_secrets_are_hidden_in_replies(options: Any, text: str, shown: str) -> None:
    step = {"name": text, "args": {text: [text]}}
    reply = json_reply({"answer": text, "query": text, "steps": [step]})
    with pytest.MonkeyPatch.context() as environment:
        for name, value in {"HELD": "s3cret+held", "CITY": "Berlin", "IRI": "http://h/d#"}.items():
            environment.setenv(name, value)
        response, _ = await asked(reply, **options)
    assert response["actual_answer"] == shown
    query = {"name": "sparql", "status": "success", "args": {"query": shown}}
    assert response["actual_steps"] == [{"name": shown, "args": {shown: [shown]}}, query]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param(
            {"url": "localhost:8000"},
            "url: expected a URL that begins with http:// or https://",
            id="no scheme",
        ),
        pytest.param({"url": "http://[::1"}, "url: expected a URL", id="no host"),
        pytest.param({"url": None}, "url: expected a URL", id="no URL"),
        pytest.param(
            {"url": "http://h/{question}"},
            "url: placeholders belong in params",
            id="placeholder in the URL",
        ),
        pytest.param(
            {"url": "http://h/${NOT_SET_AT_ALL}"},
            "url: the environment variable NOT_SET_AT_ALL is not set",
            id="unset variable in the URL",
        ),
        pytest.param(
            {"method": "get"},
            'method: expected "GET", or "POST" for a body, got',
            id="method in lower case",
        ),
        pytest.param(
            {"body": {}}, 'method: expected "GET", or "POST" for a body, got', id="body of GET"
        ),
        pytest.param(
            {"method": "POST", "body": ["x"]},
            "body: expected a mapping, unless it has {question}",
            id="body of a list",
        ),
        *(
            pytest.param(
                {"method": "POST", "body": {"a": value}},
                "params, body: expected JSON values",
                id=f"body of {name}",
            )
            for name, value in (
                ("an object", object()),
                ("NaN", float("nan")),
                ("a tuple as key", {(1, 2): 3}),
            )
        ),
        pytest.param(
            {"answer": None, "query": None, "steps": None},
            "answer, query, steps: give at least one path",
            id="no paths",
        ),
        pytest.param(
            {"params": "a=b"}, "params, body: expected JSON values", id="parameters of text"
        ),
        *(
            pytest.param(
                {"params": {"a": text}},
                "params.a: has a stray brace; write {question}, or {{ and }}",
                id=f"brace in {text}",
            )
            for text in ("{question", '{question} {"a":1}', "{a b}", "{'a'}", "{:d}", "${A B}")
        ),
        *(
            pytest.param(
                {"params": {"a b": value}},
                "params['a b']: expected text, numbers or a list of them",
                id=f"parameter of {name}",
            )
            for name, value in (
                ("null", None),
                ("an object", {"b": 1}),
                ("a list in a list", ["x", ["y"]]),
            )
        ),
        pytest.param(
            {"method": "POST", "body": {"a": {"b": ["{}"]}}},
            "body.a.b[0]: has a stray brace",
            id="brace in the body",
        ),
        pytest.param(
            {"params": {"question": "x"}}, "question: every question would send", id="same question"
        ),
        pytest.param(
            {"url": "http://localhost/?question=x"},
            "question: every question would send",
            id="same question in the URL",
        ),
        pytest.param(
            {"method": "POST", "body": {"question": "{lang}"}},
            "question: every question would send",
            id="same question in the body",
        ),
        pytest.param(
            {"headers": {"X": "ü"}},
            "headers.X: expected printable ASCII, on one line",
            id="header that is not ASCII",
        ),
        pytest.param(
            {"headers": {"X": "${NOT_SET_AT_ALL}"}},
            "headers.X: the environment variable NOT_SET_AT_ALL",
            id="unset variable in a header",
        ),
        pytest.param({"headers": 5}, "headers: expected a mapping", id="headers of a number"),
        pytest.param({"timeout": 0}, "timeout: expected a number above 0", id="no time"),
        pytest.param(
            {"retries": -1}, "retries: expected an integer of 0 or more", id="negative retries"
        ),
        pytest.param(
            {"max_reply_bytes": 1.5},
            "max_reply_bytes: expected an integer of 1 or more",
            id="fraction of bytes",
        ),
        *(
            pytest.param(
                {"answer": path},
                "answer: expected a path such as $.choices[0].text",
                id=f"path {path!r}",
            )
            for path in ("", "answer", "$..a", "$.a[*]", "$['a']", "$.", "$.*", 5)
        ),
    ],
)
def test_what_is_refused(options: Any, message: str) -> None:
    with pytest.raises(UsageError) as error:
        http_agent(**{"url": "http://localhost:8000/"} | options)
    assert str(error.value).startswith(message)


async def test_a_tag_that_a_question_does_not_have_is_its_error() -> None:
    response, requests = await asked(json_reply({}), params={"question": "{question} {langg}"})
    assert response["error"].startswith("the question has no tag 'langg'; did you mean lang?")
    assert requests == []


async def test_streams_at_a_time_share_connections_which_the_last_one_closes() -> None:
    async with JudgeServer(lambda _: json_reply({"answer": "x"}), latency=0.001) as server:
        agent = http_agent(server.origin)

        async def run(repeats: int) -> None:
            async with evaluate_agent(REFERENCE, agent, repeats=repeats) as stream:
                assert {result.get("actual_answer") async for result in stream} == {"x"}

        await asyncio.gather(run(1), run(20))
        await server.until(lambda: not server.counts.connections)
