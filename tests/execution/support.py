"""A small graph, questions about it, responses to them, and an endpoint that queries it."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

import pyoxigraph

from graphrag_eval_async import evaluate_stream
from tests.support.judge_server import JudgeServer, Reply

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from tests.support.judge_server import Request

TURTLE = """\
@prefix cim: <urn:cim#> .
<urn:t1> a cim:Transformer ; cim:name "T1" ; cim:rated 110 .
<urn:t2> a cim:Transformer ; cim:name "T2" ; cim:rated 220.0 .
<urn:s1> a cim:Station ; cim:name "Bergheim" ; cim:next <urn:s2> .
<urn:s2> a cim:Station ; cim:name "Lindau" ; cim:next <urn:s1> .
"""
PREFIX = "PREFIX cim: <urn:cim#> "
NAMES = PREFIX + "SELECT ?name { ?t a cim:Transformer ; cim:name ?name }"
STEP: dict[str, Any] = {"name": "sparql_query", "reference_query": NAMES}
RIGHT = PREFIX + "SELECT ?n { ?x cim:name ?n . ?x a cim:Transformer }"
WRONG = PREFIX + "SELECT ?n { ?x cim:name ?n . ?x a cim:Station }"

JOIN = " ".join(f"?a{i} ?b{i} ?c{i} ." for i in range(20))
TENFOLD = " ".join(
    f"BIND(CONCAT({', '.join([f'?{a}'] * 10)}) AS ?{b})" for a, b in pairwise("abcdefghij")
)
HOSTILE = {
    "cross join": f"SELECT (COUNT(*) AS ?n) {{ {JOIN} }}",
    "many rows": f"SELECT * {{ {JOIN} }}",
    "nesting": "SELECT * { " + "{" * 5000 + "?s ?p ?o" + "}" * 5000 + " }",
    "chain": "SELECT * { FILTER(" + "+".join(["?a"] * 20000) + ") }",
    "text": f"SELECT (STRLEN(?j) AS ?n) {{ BIND('xxxxxxxxxx' AS ?a) {TENFOLD} }}",
    "group": f"SELECT (GROUP_CONCAT(?c0) AS ?g) {{ {JOIN} }}",
}
"""Queries that take all time, memory or stack there is."""


def templates(*steps: dict[str, Any], count: int = 1) -> list[dict[str, Any]]:
    questions = [
        {"id": f"q{i}", "question_text": "Which?", "reference_steps": [[*(steps or [STEP])]]}
        for i in range(count)
    ]
    return [{"template_id": "t", "questions": questions}]


def ran(query: str, question: str = "q0", **keys: Any) -> dict[str, Any]:
    step = {
        "name": "sparql_query",
        "id": "c1",
        "status": "success",
        "args": {"query": query},
    } | keys
    return {"question_id": question, "actual_steps": [step]}


def graph(folder: Path, **more: Any) -> dict[str, Any]:
    """A configuration that runs queries on a file with the graph."""
    path = folder / "data.ttl"
    path.write_text(TURTLE)
    return {"execute": {"graph": str(path), "max_in_flight": 1, **more}}


async def results_of(
    responses: Iterable[dict[str, Any]], config: Any, reference: Any = None, **options: Any
) -> list[dict[str, Any]]:
    """The results in the order of the responses."""
    stream = evaluate_stream(
        templates() if reference is None else reference,
        [*responses],
        config=config,
        ordered=True,
        **options,
    )
    async with stream:
        return [result async for result in stream]


JSON = "application/sparql-results+json"
PROBE = "ASK {}"
STORE = pyoxigraph.Store()
STORE.load(TURTLE, format=pyoxigraph.RdfFormat.TURTLE)


def replying(
    status: int, body: bytes = b"no such luck", kind: str = "text/plain", **headers: str
) -> Reply:
    named = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    return Reply(body, status, named, content_type=kind)


def answering(query: str, status: int = 200, **headers: str) -> Reply:
    """What the graph says, after a byte order mark."""
    results = STORE.query(query)
    if isinstance(results, pyoxigraph.QueryTriples):
        data, kind = (
            results.serialize(format=pyoxigraph.RdfFormat.N_TRIPLES),
            "application/n-triples",
        )
    else:
        data = results.serialize(format=pyoxigraph.QueryResultsFormat.JSON)
        kind = f"{JSON}; charset=utf-8"
    return replying(status, b"\xef\xbb\xbf" + (data or b""), kind, **headers)


def query_in(request: Request) -> str:
    [query] = parse_qs(request.raw.decode())["query"]
    return query


def endpoint(script: Callable[[str, Request], Reply | None] = lambda *_: None) -> JudgeServer:
    """A SPARQL endpoint at its `origin`: answers from the graph where the script has no reply to
    a query.
    """

    def reply(request: Request) -> Reply:
        query = query_in(request)
        return script(query, request) or answering(query)

    return JudgeServer(reply)


def asked(server: JudgeServer) -> Counter[str]:
    """How often each query came, except probes."""
    return Counter(query for request in server.requests if (query := query_in(request)) != PROBE)
