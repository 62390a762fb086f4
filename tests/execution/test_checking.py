"""Queries that are parsed, not run."""

from __future__ import annotations

from typing import Any

from graphrag_eval_async.records.outcomes import REFERENCE_QUERY
from tests.execution.support import HOSTILE, NAMES, PREFIX, RIGHT, ran, results_of, templates

CHECKS: dict[str, Any] = {"steps": {"check_queries": True}}
EMPTY = '{"head": {"vars": ["n"]}, "results": {"bindings": []}}'
ONE = '{"head": {"vars": ["n"]}, "results": {"bindings": [{"n": {"type": "literal", "value": "T1"}}]}}'
STEP: dict[str, Any] = {
    "name": "sparql_query",
    "output": ONE,
    "output_media_type": "application/sparql-results+json",
}


async def check(query: str, **keys: Any) -> dict[str, Any]:
    [result] = await results_of([ran(query, **({"output": EMPTY} | keys))], CHECKS, templates(STEP))
    return result


async def test_a_query_that_does_not_parse_is_the_reason() -> None:
    result = await check("SELECT ?n { ?s ?p }", status="error", output=None)
    assert (result["steps_score"], result["failure"]) == (0, "query_invalid")
    facts = result["actual_steps"][0]["query_facts"]
    assert facts["form"] == "SELECT"
    assert facts["error"].startswith("error at 1:")
    assert (await check("SELECT ?n { ?s ?p ?n }", status="error"))["failure"] == "step_error"
    assert (await check("SELECT ?n { ?s ?p ?n }"))["failure"] == "empty_result"
    assert (await check("SELECT ?n { ?s ?p }"))["failure"] == "query_invalid"
    update = await check("INSERT DATA { <urn:a> <urn:b> 1 }")
    assert update["failure"] == "query_invalid"
    facts = update["actual_steps"][0]["query_facts"]
    assert (facts["form"], facts["error"]) == ("UPDATE", "an update, not a query")
    facts = (await check("Which transformers?"))["actual_steps"][0]["query_facts"]
    assert facts["error"] == "not a query: expected ASK, CONSTRUCT, DESCRIBE, SELECT"


async def test_a_step_that_matches_is_right_whatever_the_parser_says() -> None:
    result = await check("SELECT ?n { vendor syntax }", output=ONE)
    assert (result["steps_score"], result["failure"]) == (1, "none")
    assert "error" in result["actual_steps"][0]["query_facts"]


async def test_facts_of_a_query() -> None:
    result = await check(PREFIX + "SELECT ?n { ?t a cim:Transformer ; cim:in <urn:oslo> ; other:name ?n }")
    assert result["actual_steps"][0]["query_facts"] == {
        "form": "SELECT",
        "predicates": ["other:name", "urn:cim#in"],
        "classes": ["urn:cim#Transformer"],
        "iris": ["urn:oslo"],
    }


async def test_hostile_queries_are_not_invalid() -> None:
    """They parse, or that is not known: this ends in time either way."""
    responses = [ran(query, output=EMPTY) for query in [*HOSTILE.values(), RIGHT]]
    results = await results_of(responses, CHECKS, templates(STEP))
    assert {result["failure"] for result in results} == {"empty_result"}


async def test_nothing_is_fetched_and_nothing_is_evaluated() -> None:
    for query in (
        "ASK { SERVICE <http://127.0.0.1:9/> { ?s ?p ?o } }",
        "SELECT * FROM <http://127.0.0.1:9/> {}",
    ):
        assert (await check(query))["failure"] == "empty_result"


async def test_other_steps_are_left_alone() -> None:
    step = {"name": "autocomplete_search", "output": "Oslo"}
    response = ran("Oslo", output="Oslo", name="autocomplete_search")
    [result] = await results_of([response], CHECKS, templates(step))
    assert "query_facts" not in result["actual_steps"][0]


async def test_queries_in_arguments_are_compared_on_demand() -> None:
    step = {**STEP, "args": {"query": NAMES}}
    [plain] = await results_of([ran(RIGHT, output=ONE)], None, templates(step))
    assert "query_similarity" not in plain
    config = {"steps": {"query_similarity": True}}
    [result] = await results_of([ran(RIGHT, output=ONE)], config, templates(step))
    assert result["query_similarity"] == 1
    assert result["reference_steps"][0][0][REFERENCE_QUERY] == NAMES
