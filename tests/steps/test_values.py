"""F1 over the sets of all values of SPARQL results."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag_eval_async import Evaluator, ReferenceDataError, RunningAggregates, evaluate_stream
from graphrag_eval_async.catalogue.media_types import CSV, TSV, XML
from tests.execution.support import NAMES, PREFIX, graph, ran, results_of
from tests.execution.support import templates as queries
from tests.steps.support import (
    encode,
    groups,
    literal,
    query,
    result_of,
    texts,
    to_csv,
    to_markdown,
    to_objects,
    to_tsv,
    to_xml,
)

if TYPE_CHECKING:
    from pathlib import Path

    from tests.steps.support import Table

SHARES = ("values_precision", "values_recall", "values_f1")
TERMS = [None, literal("a"), literal("1", "integer"), literal("1.0", "decimal"), literal("true")]
TERMS += [{"type": "uri", "value": "urn:a"}, {"type": "literal", "value": "a", "xml:lang": "en"}]
TABLES = st.lists(st.lists(st.sampled_from(TERMS), min_size=2, max_size=2), max_size=4)
RESULTS = TABLES | st.booleans()
FORMATS = [encode, to_xml, to_tsv, to_csv, to_objects, to_markdown]


def step(output: str, **more: Any) -> dict[str, Any]:
    return query(output, score="values_f1", **more)


def shares_of(expected: str, actual: Any, **more: Any) -> list[float]:
    result = result_of(step(expected), actual, **more)
    assert result["steps_score"] == result["values_f1"]
    return [result[name] for name in SHARES]


def written(results: Table | bool, way: Any = encode) -> str:
    if isinstance(results, bool):
        return json.dumps({"head": {}, "boolean": results} if way is encode else results)
    return str(way(results, "xy"))


def plain_set(results: Table | bool) -> set[str]:
    if isinstance(results, bool):
        return {"true"} if results else set()
    return {term["value"] for row in results for term in row if term is not None}


@given(RESULTS, RESULTS, st.sampled_from(FORMATS))
def test_agrees_with_a_plain_oracle(expected: Table | bool, actual: Table | bool, way: Any) -> None:
    ours, theirs = plain_set(expected), plain_set(actual)
    if isinstance(expected, bool) != isinstance(actual, bool):
        # The answer to an ASK is no table.
        ours, theirs = {"an answer"}, {"a table"}
    both = len(ours & theirs)
    precision, recall = (Fraction(both, len(side)) if both else 0 for side in (theirs, ours))
    f1 = 2 * precision * recall / (precision + recall) if both else 0
    wanted = [precision, recall, f1] if ours or theirs else [1, 1, 1]
    assert shares_of(written(expected), written(actual, way)) == pytest.approx(
        [float(x) for x in wanted]
    )


@pytest.mark.parametrize(
    ("expected", "actual", "failure", "diff"),
    [
        pytest.param(
            texts("ab", "cd"),
            texts("ad", "cx"),
            "wrong_query_result",
            ["missing_value b", "extra_value x"],
            id="wrong value",
        ),
        pytest.param(texts("a"), texts(names="x"), "empty_result", None, id="empty"),
        pytest.param(texts("a"), "true", "wrong_query_result", None, id="boolean"),
        pytest.param(texts("ab"), "x\nb\na\n", "none", None, id="one of two columns"),
    ],
)
def test_failure_and_differences(
    expected: str, actual: str, failure: str, diff: list[str] | None
) -> None:
    result = result_of(step(expected, ordered=True), actual)
    assert (result["failure"], "steps_score_error" in result) == (failure, False)
    found = result["reference_steps"][0][0].get("diff")
    assert (found and [f"{each['kind']} {each['value']}" for each in found]) == diff


def test_formats_of_the_reference_and_strict_types() -> None:
    strict = {"steps": {"strict_types": True}}
    for media_type, way in ((XML, to_xml), (TSV, to_tsv), (CSV, to_csv)):
        expected = step(way([[literal("1", "integer"), None]], "xy"), output_media_type=media_type)
        assert result_of(expected, "x,y\n,1\n")["values_f1"] == 1
        assert result_of(expected, "x,y\n,1\n", config=strict)["values_f1"] == (media_type == CSV)
    assert shares_of(texts("a"), "no table") == [0, 0, 0]
    long = step(encode([[literal(str(i))] for i in range(60_000)], "x"))
    assert result_of(long, texts("1"))["values_recall"] == 1 / 60_000


ONLY = "values_f1 is only for outputs that are compared as"


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        pytest.param(
            {"required_columns": ["a"]},
            "required_columns: not with score: values_f1",
            id="required columns",
        ),
        pytest.param(
            {"ignore_duplicates": False},
            "ignore_duplicates: not with score: values_f1",
            id="duplicates",
        ),
        pytest.param({"output_media_type": "text/turtle"}, ONLY, id="graph"),
        pytest.param({"name": "retrieval"}, ONLY, id="retrieval"),
        pytest.param({"output": None, "args": {}, "args_match": "exact"}, ONLY, id="no output"),
        pytest.param({"output": None, "reference_query": "DESCRIBE <urn:a>"}, ONLY, id="DESCRIBE"),
        pytest.param({"score": "values"}, "expected exact, f1 or values_f1", id="unknown score"),
    ],
)
def test_mistakes_in_the_reference(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(ReferenceDataError, match=message):
        Evaluator(groups([{**step(texts("a")), **keys}]))


async def test_means_over_steps_are_aggregated_with_what_is_missing() -> None:
    one, other = step(texts("a", "b")), step(texts("c", "d"), args={"k": 1}, args_match="exact")
    reference = groups([step(texts("e"))], [one, other, query(texts("e"), name="plain")])
    ok = {"name": "sparql_query", "status": "success"}
    right, near, far = (
        {**ok, "args": {"k": 1}, "output": texts(*rows)} for rows in ("ab", "c", "xyzc")
    )
    wrong_args = {**ok, "args": {"k": 2}, "output": texts("c", "d")}
    steps: list[Any] = [[right, near, far, wrong_args], [right], [], None, [right]]
    responses = [{"question_id": "q", "actual_steps": each} for each in steps]
    responses[-1]["error"] = "timeout"
    for mode, count in (("last", 2), ("all", 3)):
        config = {"steps": {"groups": mode, "tool_calls": True}}
        async with evaluate_stream(reference, responses, config=config) as stream:
            results = [result async for result in stream]
        best = [2 / count, 1.5 / count, (1 + 2 / 3) / count]
        assert [[each[name] for name in SHARES] for each in results] == [
            best, [1 / count] * 3, [0] * 3, [None] * 3, [None] * 3,
        ]  # fmt: skip
        read = RunningAggregates()
        for result in results:
            read.add(result)
        for aggregates in (stream.aggregates, read):
            found = aggregates.snapshot(detail=True)["micro"]["values_f1"]
            assert found["mean"] == pytest.approx((best[2] + 1 / count) / 3)
            assert found["coverage"]["failed"] == {"no_steps": 1, "response_error": 1}
    [result] = await results_of([responses[0]], None, groups([one], [query(texts("e"))]))
    assert not {*SHARES} & {*result}, "no step of the last group asks for them"


async def test_with_queries_that_are_run(tmp_path: Path) -> None:
    right, config = PREFIX + "SELECT ?n ?n2 { ?x cim:name ?n . ?x cim:rated 110 }", graph(tmp_path)
    fetched = {"name": "sparql_query", "score": "values_f1", "reference_query": NAMES}
    [result] = await results_of([ran(right)], config, queries(fetched))
    assert [result[name] for name in SHARES] == [1, 0.5, 2 / 3]
    reference = queries({**fetched, "reference_query": "SELECT ?x { ?x"})
    async with evaluate_stream(reference, [ran(right)], config=config) as stream:
        [result] = [result async for result in stream]
    read = RunningAggregates()
    read.add(result)
    assert (result["values_f1"], result["execution_error"][:15]) == (None, "invalid_request")
    for aggregates in (stream.aggregates, read):
        found = aggregates.snapshot(detail=True)["micro"]["values_f1"]["coverage"]
        assert (found["values"], found["failed"]) == (0, {"not_run": 1})
