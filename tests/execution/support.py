"""A small graph, questions about it, and responses to them."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from graphrag_eval_async import evaluate_stream

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

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
TENFOLD = " ".join(f"BIND(CONCAT({', '.join([f'?{a}'] * 10)}) AS ?{b})" for a, b in pairwise("abcdefghij"))
HOSTILE = {
    "cross join": f"SELECT (COUNT(*) AS ?n) {{ {JOIN} }}",
    "many rows": f"SELECT * {{ {JOIN} }}",
    "join order": "SELECT * { " + " ".join(f"?a{i} ?b ?c{i} ." for i in range(400)) + " }",
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
    step = {"name": "sparql_query", "id": "c1", "status": "success", "args": {"query": query}} | keys
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
        templates() if reference is None else reference, [*responses], config=config, ordered=True, **options
    )
    async with stream:
        return [result async for result in stream]
