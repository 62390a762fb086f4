"""What reference queries lend to the agent's, and queries that the graph's engine cannot run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from graphrag_eval_async import compute_aggregates
from graphrag_eval_async.catalogue.media_types import SPARQL_RESULTS
from tests.execution.support import graph, ran, results_of
from tests.support.data import question, template

if TYPE_CHECKING:
    from pathlib import Path

PREFIXED = "PREFIX cim: <urn:cim#> SELECT ?n { ?t cim:name ?n . ?t cim:rated 110 }"
UNPREFIXED = "SELECT ?n { ?t cim:name ?n . ?t cim:rated 110 }"
CAST = (
    "PREFIX xsd: <http://www.w3.org/2001/XMLSchema#> PREFIX cim: <urn:cim#> "
    "SELECT ?n { ?t cim:name ?n ; cim:rated ?r FILTER(xsd:int(?r) = 110) }"
)


def step(query: str, **keys: Any) -> dict[str, Any]:
    return {"name": "sparql_query", "reference_query": query, **keys}


OWN_PREFIXES = "PREFIX other: <urn:cim#> SELECT ?n { ?t cim:name ?n . ?t cim:rated 110 }"
PREFIX_CASES: dict[str, tuple[str, dict[str, Any], float]] = {
    "no prefix": (UNPREFIXED, {}, 1),
    "in lower case, after a comment": (f"# PREFIX c: <urn:c>\n{UNPREFIXED.lower()}", {}, 1),
    "forbidden": (UNPREFIXED, {"reference_prefixes": False}, 0),
    "own prefixes": (OWN_PREFIXES, {}, 0),
}


@pytest.mark.parametrize(
    ("query", "settings", "score"), PREFIX_CASES.values(), ids=PREFIX_CASES.keys()
)
async def test_queries_without_prefixes_run_with_those_of_the_reference(
    query: str, settings: dict[str, Any], score: float, tmp_path: Path
) -> None:
    reference = template(question(step(PREFIXED)))
    # N-Triples declare no prefixes, which the agent's queries could use.
    config = graph(tmp_path, **settings)
    config["execute"]["graph"] = without_prefixes(tmp_path, config["execute"]["graph"])
    [result] = await results_of([ran(query, "q")], config, reference)
    assert result["steps_score"] == score
    assert result["actual_steps"][0]["args"]["query"] == query
    if score == 0:
        assert result["failure"] == "query_invalid"


def without_prefixes(folder: Path, path: str) -> str:
    """Write a graph as N-Triples, and return the path."""
    import pyoxigraph

    triples = pyoxigraph.parse(path=path)
    written = folder / "data.nt"
    written.write_text("".join(f"{triple.triple} .\n" for triple in triples))
    return str(written)


@pytest.mark.parametrize("who", ["reference", "agent"])
async def test_a_cast_that_the_engine_lacks_is_nobodys_fault(who: str, tmp_path: Path) -> None:
    reference_query, query = (CAST, PREFIXED) if who == "reference" else (PREFIXED, CAST)
    reference = template(
        question(step(reference_query), question_id="q0"),
        question(step(PREFIXED), question_id="q1"),
    )
    responses = [ran(query, "q0"), ran(PREFIXED, "q1")]
    results = await results_of(responses, graph(tmp_path), reference)
    assert [result["steps_score"] for result in results] == [None, 1]
    assert "has no function xsd:int" in results[0]["execution_error"]
    coverage = compute_aggregates(results, detail=True)["micro"]["steps_score"]["coverage"]
    assert coverage == {"applied": 2, "values": 1, "failed": {"not_run": 1}, "pending": 0}


@pytest.mark.parametrize("function", ["urn:is-nice", "http://www.w3.org/2001/XMLSchema#nice"])
async def test_another_function_that_does_not_exist_is_the_agents_fault(
    function: str, tmp_path: Path
) -> None:
    query = f"SELECT ?n {{ ?t <urn:cim#name> ?n FILTER(<{function}>(?n)) }}"
    [result] = await results_of(
        [ran(query, "q")], graph(tmp_path), template(question(step(PREFIXED)))
    )
    assert (result["steps_score"], result["failure"]) == (0, "step_error")


@pytest.mark.parametrize("is_run", [True, False])
async def test_queries_of_alternatives_are_run(is_run: bool, tmp_path: Path) -> None:
    other = "SELECT ?n { ?s a <urn:cim#Station> ; <urn:cim#name> ?n }"
    stale = {"output": "n\nold\n", "output_media_type": "text/csv"}
    reference = template(
        question(
            step(
                PREFIXED,
                output="n\nolder\n",
                output_media_type="text/csv",
                alternatives=[{"reference_query": other, **stale}],
            )
        )
    )
    config = graph(tmp_path, reference=is_run)
    [result] = await results_of([ran(other, "q")], config, reference)
    assert result["steps_score"] == is_run
    [[expected]] = result["reference_steps"]
    assert (expected["alternatives"][0]["output"] == "n\nold\n") == (not is_run)


async def test_an_alternative_that_cannot_be_run_is_named(tmp_path: Path) -> None:
    reference = template(
        question(step(PREFIXED, alternatives=[{"reference_query": "SELECT ?n { ?n"}]))
    )
    [result] = await results_of([ran(PREFIXED, "q")], graph(tmp_path), reference)
    assert result["steps_score"] is None
    assert "reference_steps[0][0].alternatives[0]: " in result["execution_error"]


EXECUTABLE_CASES: dict[str, tuple[list[str], float]] = {
    "runs": ([PREFIXED], 1),
    "returns nothing": (["SELECT ?n { ?n <urn:none> ?n }"], 1),
    "does not parse": (["SELECT ?n {"], 0),
    "no query": ([], 0),
    "the last one fails": ([PREFIXED, "SELECT ?n {"], 0),
    "the last one runs": (["SELECT ?n {", PREFIXED], 1),
}


@pytest.mark.parametrize(
    ("queries", "executable"), EXECUTABLE_CASES.values(), ids=EXECUTABLE_CASES.keys()
)
async def test_the_last_query_is_executable_or_not(
    queries: list[str], executable: float, tmp_path: Path
) -> None:
    steps = [ran(query)["actual_steps"][0] for query in queries]
    responses = [{"question_id": "q", "actual_steps": steps}]
    reference = template(question(step(PREFIXED)))
    [result] = await results_of(responses, graph(tmp_path), reference)
    assert result["executable"] == executable
    aggregates = compute_aggregates([result])
    assert aggregates["micro"]["executable"]["mean"] == executable
    [recorded] = await results_of(responses, graph(tmp_path, actual=False), reference)
    assert "executable" not in recorded


ASK = "ASK { ?t <urn:cim#name> ?n }"
SELECT_TRUE = "SELECT (true AS ?boolean) {}"
ASK_FALSE = "PREFIX cim: <urn:cim#> ASK { ?t cim:name 'none' }"


@pytest.mark.parametrize(
    ("expected", "query", "score"),
    [
        pytest.param(ASK, ASK, 1, id="ASK"),
        pytest.param(ASK, SELECT_TRUE, 0, id="SELECT for ASK"),
        pytest.param(SELECT_TRUE, ASK, 0, id="ASK for SELECT"),
        pytest.param(SELECT_TRUE, SELECT_TRUE, 1, id="SELECT"),
        pytest.param(ASK_FALSE, "ASK { ?t cim:name 'nil' }", 1, id="prefix of the reference"),
        pytest.param(ASK_FALSE, "SELECT ?t { ?t cim:name 'none' }", 0, id="SELECT without rows"),
        pytest.param(ASK_FALSE, "SELECT ?t { ?t ex:name 'none' }", 0, id="undeclared in SELECT"),
        pytest.param(ASK_FALSE, "ASK { ?t ex:name 'none' }", 0, id="undeclared in ASK"),
        pytest.param(ASK_FALSE, "# ASK {}\nSELECT ?t { ?t a <urn:nil> }", 0, id="comment"),
        pytest.param(ASK_FALSE, "SELECT (false AS ?result) {}", 0, id="SELECT with false"),
    ],
)
@pytest.mark.parametrize("keys", [{}, {"score": "values_f1"}], ids=["exact", "values"])
async def test_a_select_is_no_ask(
    expected: str, query: str, score: float, keys: dict[str, Any], tmp_path: Path
) -> None:
    reference = template(question(step(expected, output_media_type=SPARQL_RESULTS, **keys)))
    [result] = await results_of([ran(query, "q")], graph(tmp_path), reference)
    assert result["steps_score"] == score
    assert (result["failure"] == "none") == (score == 1)
    if keys:
        assert result["values_f1"] == score
