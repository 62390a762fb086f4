"""The similarity of queries, from responses to results and aggregates."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from graphrag_eval_async import (
    Evaluator,
    ReferenceDataError,
    compute_aggregates,
    load_reference,
    run_evaluation,
)
from graphrag_eval_async.records.metrics import BOUNDED_METRICS, RESULT_METRICS
from graphrag_eval_async.steps.sparql.query import TOO_LONG

REFERENCE_QUERY = (
    "PREFIX cim: <urn:cim#> SELECT * { ?t a cim:Transformer ; cim:name ?name ; cim:in <urn:oslo> }"
)
STEP: dict[str, Any] = {"name": "sparql_query", "output": "T1", "reference_query": REFERENCE_QUERY}
SAME = "SELECT ?t ?n { ?t a cim:Transformer . ?t cim:in <urn:oslo> . ?t cim:name ?n }"
HALF = "SELECT ?t { ?t a cim:Transformer ; cim:name ?n ; cim:at <urn:bergen> }"


def templates(*groups: list[dict[str, Any]]) -> list[dict[str, Any]]:
    question = {"id": "q", "question_text": "Which?", "reference_steps": [*groups]}
    return [{"template_id": "t", "questions": [question]}]


def ran(query: str | None, output: str = "T1", **keys: Any) -> dict[str, Any]:
    step = {"name": "sparql_query", "status": "success", "output": output, "args": {"query": query}} | keys
    return step | ({} if query is not None else {"args": {}})


async def evaluate(
    groups: list[list[dict[str, Any]]], steps: list[dict[str, Any]], **options: Any
) -> dict[str, Any]:
    evaluator = Evaluator(templates(*groups), **options)
    return await evaluator.evaluate({"question_id": "q", "actual_steps": steps})


# The elements are a class, two predicates, and a constant.
CASES: list[tuple[float, list[dict[str, Any]]]] = [
    (1, [ran(SAME)]),
    (0.5, [ran(HALF)]),
    (0.5, [ran(SAME, output="T2"), ran(HALF)]),  # The step that was matched counts,
    (1, [ran(SAME, output="T2"), ran(HALF, output="T3")]),  # or else the most similar one,
    (1, [ran(SAME, status="error")]),  # even if it failed.
    (0, [ran(None)]),
    (0, [ran("no query at all")]),
    (0, [{**ran(SAME), "name": "other"}]),
    (0, []),
]


async def test_similarity_of_a_response() -> None:
    for expected, steps in CASES:
        result = await evaluate([[STEP]], steps)
        assert result["query_similarity"] == expected, steps
        assert result["reference_steps"][0][0]["query_similarity"] == expected


async def test_a_result_has_the_mean_over_all_groups() -> None:
    other = {**STEP, "name": "sparql_count", "output": "5"}
    plain = {"name": "grid_api", "output": "1"}
    result = await evaluate([[other], [plain, STEP]], [ran(HALF, name="sparql_count"), ran(SAME)])
    assert result["query_similarity"] == 0.75
    [[one], [none, two]] = result["reference_steps"]
    assert (one["query_similarity"], two["query_similarity"]) == (0.5, 1)
    assert "query_similarity" not in none


async def test_without_a_reference_query_nothing_is_compared() -> None:
    plain = {key: value for key, value in STEP.items() if key != "reference_query"}
    result = await evaluate([[plain]], [ran(SAME)])
    assert "query_similarity" not in result
    assert "query_similarity" not in result["reference_steps"][0][0]
    assert "query_similarity" not in compute_aggregates([result])["micro"]


async def test_the_steps_score_does_not_depend_on_it() -> None:
    result = await evaluate([[STEP]], [ran(HALF)])
    assert (result["steps_score"], result["failure"]) == (1, "none")


async def test_it_is_a_metric_like_others() -> None:
    responses: list[dict[str, Any]] = [
        {"question_id": "q", "actual_steps": [ran(SAME)]},
        {"question_id": "q", "actual_steps": [ran(HALF)]},
        {"question_id": "q", "error": "down"},
        {"question_id": "q"},
    ]
    results = await run_evaluation(templates([STEP]), responses)
    aggregates = compute_aggregates(results, detail=True)
    similarity = aggregates["micro"]["query_similarity"]
    assert similarity["mean"] == 0.75
    assert similarity["coverage"] == {
        "applied": 4,
        "values": 2,
        "failed": {"no_steps": 1, "response_error": 1},
        "pending": 0,
    }
    assert aggregates["macro"]["query_similarity"]["mean"] == 0.75
    assert "query_similarity" in BOUNDED_METRICS
    assert RESULT_METRICS[:2] == ("steps_score", "query_similarity")


async def test_the_stream_counts_as_its_results_do() -> None:
    from graphrag_eval_async import evaluate_stream

    responses: list[dict[str, Any]] = [
        {"question_id": "q", "actual_steps": [ran(SAME)]},
        {"question_id": "q"},
        {"question_id": "q", "error": "x"},
    ]
    stream = evaluate_stream(templates([STEP]), responses, until="query_similarity >= 0.5")
    results = [result async for result in stream]
    assert stream.aggregates.snapshot(detail=True) == compute_aggregates(results, detail=True)


async def test_long_queries_are_compared_in_a_thread() -> None:
    for characters in (11_000, 90_000):
        result = await evaluate([[STEP]], [ran(SAME + " " * characters)])
        assert result["query_similarity"] == 1


async def test_a_query_that_is_too_long_scores_0_and_says_so() -> None:
    result = await evaluate([[STEP]], [ran(SAME + " " * 200_000)])
    assert (result["query_similarity"], result["steps_score_error"]) == (0, TOO_LONG)


async def test_results_may_be_reference_data_again() -> None:
    result = await evaluate([[STEP]], [ran(SAME)])
    again = templates(*result["reference_steps"])
    before = copy.deepcopy(again)
    reference = load_reference(again, strict=True)
    assert again == before
    assert reference.questions["q"].reference_steps == [[STEP]]


def test_a_reference_query_is_text() -> None:
    from graphrag_eval_async import ReferenceDataError

    with pytest.raises(ReferenceDataError, match="reference_query: Expected `str"):
        load_reference(templates([{**STEP, "reference_query": 5}]))


@pytest.mark.parametrize("query", ["", "hello", "DELETE WHERE { ?s ?p ?o }"])
def test_a_reference_query_that_is_none_is_refused(query: str) -> None:
    step = {"name": "sparql_query", "output": "x", "reference_query": query}
    question = {"id": "q", "question_text": "?", "reference_steps": [[step]]}
    with pytest.raises(ReferenceDataError, match=r"reference_query: expected a SPARQL query: ASK, CONSTRUCT"):
        load_reference([{"template_id": "t", "questions": [question]}])
