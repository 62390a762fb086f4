"""Queries on a file, in processes that can be killed; queries that are only parsed; what judges
see.
"""

from __future__ import annotations

import asyncio
import copy
import json
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from graphrag_eval_async import Evaluator, ExecutionUnavailable, compute_aggregates, evaluate_stream
from graphrag_eval_async.execution.outcomes import Query, QueryFailed
from graphrag_eval_async.execution.processes import Processes
from graphrag_eval_async.execution.worker import Setup
from tests.execution.support import (
    HOSTILE,
    JSON,
    NAMES,
    RIGHT,
    STEP,
    WRONG,
    endpoint,
    graph,
    ran,
    results_of,
    templates,
)
from tests.metrics.support import Judge
from tests.support.data import question, template
from tests.support.deadlines import until

if TYPE_CHECKING:
    from collections.abc import Iterator

EMPTY = '{"head": {"vars": ["n"]}, "results": {"bindings": []}}'


def engines() -> list[str]:
    """The ids of the processes of this one that run queries, where the system tells."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # It has ended.
            parent = (folder / "stat").read_text().rpartition(")")[2].split()[1]
            if (
                parent == f"{os.getpid()}"
                and b"execution.engine" in (folder / "cmdline").read_bytes()
            ):
                found.append(folder.name)
    return found


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    yield
    assert engines() == []


def step_of(result: dict[str, Any]) -> dict[str, Any]:
    return dict(result["actual_steps"][0])


async def test_expected_and_actual_outputs_are_fetched(tmp_path: Path) -> None:
    reference, responses = templates(), [ran(RIGHT), ran(WRONG)]
    before = copy.deepcopy([reference, responses])
    right, wrong = await results_of(responses, graph(tmp_path), reference)
    assert [reference, responses] == before
    assert (right["steps_score"], right["failure"]) == (1, "none")
    assert (wrong["steps_score"], wrong["failure"]) == (0, "wrong_query_result")
    [[step]] = right["reference_steps"]
    names = {row["name"]["value"] for row in json.loads(step["output"])["results"]["bindings"]}
    assert (names, step["output_media_type"]) == ({"T1", "T2"}, JSON)
    assert step["executed_at"] <= step_of(right)["executed_at"]
    assert right["execution"] == {"graph": str(tmp_path / "data.ttl"), "at": step["executed_at"]}
    assert json.loads(step_of(right)["executed_output"])["head"]["vars"] == ["n"]


async def test_the_data_decide_not_what_was_recorded(tmp_path: Path) -> None:
    stale = {"output": EMPTY, "output_media_type": JSON}
    asked = [
        question(step | stale, question_id=f"q{i}")
        for i, step in enumerate((STEP, {"name": "sparql_query", "args": {"query": NAMES}}))
    ]
    responses = [ran(RIGHT, f"q{i}", output=EMPTY) for i in range(2)]
    for actual, score in ((True, 1), (False, 0)):
        results = await results_of(responses, graph(tmp_path, actual=actual), template(*asked))
        assert [result["steps_score"] for result in results] == [score] * 2


WHERE = "{ ?t a <urn:cim#Transformer> }"
FORMS = [
    ("ASK { <urn:t1> a <urn:cim#Transformer> }", "ASK { <urn:s1> a <urn:cim#Station> }", 1),
    (f"CONSTRUCT {WHERE} WHERE {WHERE}", f"CONSTRUCT {WHERE} WHERE {WHERE} #", 1),
    (f"CONSTRUCT {WHERE} WHERE {WHERE}", "DESCRIBE <urn:s1>", 0),
    (NAMES, "PREFIX cim: <urn:cim#> SELECT ?n { ?t a cim:Transformer ; c:name ?n }", 1),
    (NAMES, WRONG, 0),
]


async def test_forms_and_prefixes(tmp_path: Path) -> None:
    asked = [
        question({**STEP, "reference_query": query}, question_id=f"q{i}")
        for i, (query, *_) in enumerate(FORMS)
    ]
    responses = [ran(query, f"q{i}") for i, (_, query, _) in enumerate(FORMS)]
    async with endpoint() as server:
        for source in ({"graph": graph(tmp_path)["execute"]["graph"]}, {"endpoint": server.origin}):
            config = {"execute": source | {"prefixes": {"c": "urn:cim#"}}}
            results = await results_of(responses, config, template(*asked))
            assert [result["steps_score"] for result in results] == [score for *_, score in FORMS]
            assert results[0]["execution"].items() >= source.items()


async def test_blank_nodes_have_the_same_labels_in_all_processes(tmp_path: Path) -> None:
    path = tmp_path / "blank.ttl"
    path.write_text(
        "@prefix e: <urn:e:> . " + " ".join(f"e:s{i} e:p [ e:v {i} ] ." for i in range(9))
    )
    query = "SELECT ?b ?v { ?b <urn:e:v> ?v }"
    settings = {"execute": {"graph": str(path), "max_in_flight": 2}}
    responses = [ran(f"{query} # {i}") for i in range(12)]
    results = await results_of(responses, settings, templates({**STEP, "reference_query": query}))
    assert [result["steps_score"] for result in results] == [1] * 12


NOT_RUN = [
    ("query_invalid", "Bergheim", "invalid: expected ASK, CONSTRUCT, DESCRIBE, SELECT"),
    (
        "query_invalid",
        "SELECT ?n { ?s no:such ?n }",
        "invalid: error at 1:23: a prefix is not declared",
    ),
    (
        "step_error",
        "SELECT * { SERVICE <http://[::1]/> { ?s ?p ?o } }",
        "refused: SERVICE is not allowed",
    ),
    (
        "empty_result",
        "SELECT * FROM <http://127.0.0.1:9/> { ?s ?p ?o }",
        "None",
    ),  # It is no address here.
    (
        "step_error",
        "SELECT * { ?s ?p 1 }" + " " * 100_000,
        "refused: it has more than 100,000 characters",
    ),
    ("step_error", "SELECT * { ?s ?p ?o } # rows", "failed: it returns more than 3 rows"),
    ("step_error", "SELECT * { ?a ?b ?c . ?d ?e ?f }", "failed: it returns more than 5,000 bytes"),
]


async def test_what_is_not_run_scores_0_with_the_reason(tmp_path: Path) -> None:
    settings = graph(tmp_path, max_rows=3, max_bytes=5000)
    results = await results_of([ran(query) for _, query, _ in NOT_RUN], settings)
    for (failure, query, error), result in zip(NOT_RUN, results, strict=True):
        assert (result["steps_score"], result["failure"]) == (0, failure), query
        told = step_of(result).get("execution_error")
        assert str(told).startswith(error), query
        detail = f"actual_steps[0] (sparql_query): {told}" if failure == "step_error" else None
        assert result.get("failure_detail") == detail


async def test_what_an_agent_says_was_run_is_dropped(tmp_path: Path) -> None:
    said = dict.fromkeys(
        ("executed_output", "executed_at", "execution_error", "query_facts"), "said"
    )
    responses = [
        ran("SELECT nonsense", **said),
        ran("", **said),
        ran(RIGHT, **said),
        ran(RIGHT, **said),
    ]
    results = await results_of([*responses[:3], responses[3] | {"error": "gone"}], graph(tmp_path))
    found = [step_of(result).keys() & said for result in results]
    assert found == [{"execution_error"}, set(), {"executed_at", "executed_output"}, set()]
    assert json.loads(step_of(results[2])["executed_output"])["head"]["vars"] == ["n"]
    assert responses[0]["actual_steps"][0].items() >= said.items()
    [result] = await results_of(responses[:1], None, templates({**STEP, "output": EMPTY}))
    assert step_of(result).items() >= said.items()  # Nothing is run.


async def test_what_slips_through_cannot_open_a_socket(tmp_path: Path) -> None:
    """The process itself, without the checks before it."""
    engine = Processes(
        Setup(graph(tmp_path)["execute"]["graph"], {}, 30, 9, 999, 1 << 28), 1, "graph"
    )
    async with endpoint() as server:
        try:
            with pytest.raises(QueryFailed, match="failed"):
                await engine.run(Query(f"SELECT * {{ SERVICE <{server.origin}> {{ ?s ?p ?o }} }}"))
        finally:
            await engine.aclose()
        assert server.requests == []


async def test_a_query_that_kills_its_process_ends_and_the_next_one_runs(tmp_path: Path) -> None:
    bad, good = await results_of([ran(HOSTILE["nesting"]), ran(RIGHT)], graph(tmp_path))
    assert (bad["steps_score"], bad["failure"], good["steps_score"]) == (0, "step_error", 1)
    assert step_of(bad)["execution_error"].startswith("failed: the query engine died")


@pytest.mark.soak
async def test_hostile_queries_end_and_the_next_one_runs(tmp_path: Path) -> None:
    """Proves it of queries that take all time, memory or stack there is; about 6 s."""
    config = graph(tmp_path, max_memory_bytes=200 << 20, max_rows=1000, timeout_sec=1.5)
    queries = [query for name, bad in HOSTILE.items() for query in (bad, f"{RIGHT} # {name}")]
    results = await results_of(map(ran, queries), config)
    for name, bad, good in zip(HOSTILE, results[::2], results[1::2], strict=True):
        assert step_of(bad)["execution_error"].startswith("failed: "), name
        assert (bad["steps_score"], good["steps_score"]) == (0, 1), name


async def test_slow_queries_of_one_response_end_it_soon(tmp_path: Path) -> None:
    steps = [
        ran(f"{HOSTILE['cross join']} # {i}")["actual_steps"][0] | {"id": f"c{i}"}
        for i in range(12)
    ]
    responses = [{"question_id": "q0", "actual_steps": steps}]
    [result] = await results_of(responses, graph(tmp_path, timeout_sec=0.1), templates(TABLE))
    errors = [step.get("execution_error", "") for step in result["actual_steps"]]
    assert sum("it took more than 0.1 s" in error for error in errors) <= 7
    assert sum("not run, as" in error for error in errors) >= 5
    assert result["steps_score"] == 0


async def test_a_reference_query_that_fails_leaves_the_score_out(tmp_path: Path) -> None:
    slow = {**STEP, "reference_query": HOSTILE["cross join"]}
    invalid = {**STEP, "reference_query": "SELECT ?n { ?s no:such ?n }"}
    for step, limits, error in [
        (slow, {"timeout_sec": 0.1}, "failed: reference_steps[0][0]: it took more than 0.1 s"),
        (
            invalid,
            {},
            "invalid_request: reference_steps[0][0]: error at 1:23: a prefix is not declared",
        ),
        (
            {**STEP, "required_columns": ["none"]},
            {},
            "invalid_reply: reference_steps[0][0]: required_col",
        ),
    ]:
        [result] = await results_of([ran(RIGHT)], graph(tmp_path, **limits), templates(step))
        assert result["execution_error"].startswith(error)
        assert (result["steps_score"], result["failure"]) == (None, None)
        coverage = compute_aggregates([result], detail=True)["micro"]["steps_score"]["coverage"]
        assert (coverage["values"], coverage["failed"]) == (0, {"not_run": 1})


async def test_cancelling_and_breaking_out_kill_the_queries(tmp_path: Path) -> None:
    config = graph(tmp_path, max_in_flight=2)
    responses = [ran(RIGHT), ran(HOSTILE["cross join"])]
    async with evaluate_stream(templates(), responses[1:] * 3, config=config) as stream:
        task = asyncio.ensure_future(anext(stream))
        await until(engines)
        # Ctrl-C is not for them.
        assert all(os.getsid(int(engine)) != os.getsid(0) for engine in engines())
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert engines() == []
    async with evaluate_stream(templates(), responses, config=config) as stream:
        async for result in stream:
            assert result["steps_score"] == 1
            break


async def test_a_graph_that_cannot_be_read_ends_the_run_or_is_not_the_agents_fault(
    tmp_path: Path,
) -> None:
    config = graph(tmp_path)
    path = Path(config["execute"]["graph"])
    path.write_text("<urn:a> <urn:b> .")
    with pytest.raises(
        ExecutionUnavailable, match=r"execute\.graph: .*data\.ttl: cannot be read: .*line 1"
    ):
        await results_of([ran(RIGHT)] * 5, config)
    config = graph(tmp_path)
    responses = [ran(RIGHT), ran(HOSTILE["nesting"]), ran(RIGHT + " ")]
    async with evaluate_stream(templates(), responses, config=config, max_in_flight=1) as stream:
        results = [await anext(stream)]
        path.unlink()
        results += [result async for result in stream]
    assert [result["steps_score"] for result in results] == [1, 0, None]
    assert results[2]["execution_error"].startswith("unavailable: actual_steps[0]: execute.graph: ")


def written_args(query: str) -> list[Any]:
    """Return arguments with a query, as agents and frameworks write them."""
    return [
        query,
        json.dumps({"query": query}),
        {"sparqlQuery": query},
        {"query_string": query},
        {"input": {"query": query}},
        {"input": json.dumps({"query": query})},
        {"input": query},
        {"tool_input": {"sparql": query}},
        json.dumps({"arguments": {"query": query}}),
    ]


CHECKS: dict[str, Any] = {"steps": {"check_queries": True}}
ONE = (
    '{"head": {"vars": ["n"]}, "results": {"bindings": [{"n": {"type": "literal", "value": '
    '"T1"}}]}}'
)
TABLE: dict[str, Any] = {"name": "sparql_query", "output": ONE, "output_media_type": JSON}


FAILED = {"status": "error", "output": None}
PARSED: list[tuple[str, dict[str, Any], str, str]] = [
    ("SELECT ?n { ?s ?p }", FAILED, "query_invalid", "error at 1:"),
    ("SELECT ?n { ?s ?p ?n }", FAILED, "step_error", "None"),
    ("INSERT DATA { <urn:a> <urn:b> 1 }", {}, "query_invalid", "an update, not a query"),
    ("Which?", {}, "query_invalid", "not a query: expected ASK, CONSTRUCT, DESCRIBE, SELECT"),
    ("SELECT ?n { vendor syntax }", {"output": ONE}, "none", "error at 1:"),
    (HOSTILE["nesting"], {}, "empty_result", "None"),
    (RIGHT, {}, "empty_result", "None"),
]


async def test_queries_are_parsed_on_demand() -> None:
    query = (
        "PREFIX cim: <urn:cim#> SELECT ?n "
        "{ ?t a cim:Transformer ; cim:in <urn:oslo> ; other:name ?n }"
    )
    responses = [ran(query, **({"output": EMPTY} | keys)) for query, keys, _, _ in PARSED]
    *results, last = await results_of(
        [*responses, ran(query, output=EMPTY)], CHECKS, templates(TABLE)
    )
    for (query, _, failure, error), result in zip(PARSED, results, strict=True):
        assert result["failure"] == failure, query
        assert str(step_of(result).get("query_facts", {}).get("error")).startswith(error)
    facts = step_of(last)["query_facts"]
    assert (facts["form"], facts["iris"]) == ("SELECT", ["urn:oslo"])
    assert facts["classes"] == ["urn:cim#Transformer"]
    assert facts["predicates"] == ["other:name", "urn:cim#in"]


@pytest.mark.parametrize(
    ("step", "has_facts"),
    [
        pytest.param({"name": "sparql_query", "args": {"query": "SELECT ?n {"}}, True, id="name"),
        pytest.param({"name": "ask", "args": {"sparql": "?n { ?s"}}, True, id="argument"),
        pytest.param({"name": "run", "args": {"query": "ASK { ?s ?p }"}}, True, id="form"),
        *(
            pytest.param({"name": "run", "args": args}, True, id=f"args-{index}")
            for index, args in enumerate(written_args("ASK { ?s ?p }"))
        ),
        pytest.param({"name": "sparql", "args": "?n { ?s"}, True, id="text-by-name"),
        pytest.param({"name": "sparql", "args": {"query_string": "?n {"}}, True, id="key-by-name"),
        pytest.param({"name": "run", "args": "SELECT n FROM t"}, False, id="text-in-sql"),
        pytest.param({"name": "run", "args": {"input": "films of 1927"}}, False, id="input"),
        pytest.param({"name": "run", "args": '{"query": broken'}, False, id="broken-json"),
        pytest.param({"name": "sql", "args": {"query": "SELECT n FROM t"}}, False, id="sql"),
        pytest.param({"name": "search", "args": {"query": "films of 1927"}}, False, id="words"),
    ],
)
async def test_queries_are_parsed_whatever_the_reference_step_is(
    step: dict[str, Any], has_facts: bool
) -> None:
    expected = {"name": "search", "output": "x", "output_media_type": "text/plain"}
    taken = {**step, "status": "error", "output": None}
    response = {"question_id": "q0", "status": "success", "actual_steps": [taken]}
    [result] = await results_of([response], CHECKS, templates(expected))
    facts = step_of(result).get("query_facts")
    assert (facts is not None) == has_facts
    if facts is not None:
        assert facts["error"]


@pytest.mark.parametrize("index", range(len(written_args(""))))
async def test_queries_run_however_the_arguments_are_written(tmp_path: Path, index: int) -> None:
    args = written_args(RIGHT)[index]
    response = ran(RIGHT)
    response["actual_steps"][0]["args"] = args
    [result] = await results_of([response], graph(tmp_path), templates())
    assert result["steps_score"] == 1
    assert "executed_output" in step_of(result)


async def test_judges_see_what_the_agent_saw_and_what_the_reference_queries_returned(
    tmp_path: Path,
) -> None:
    inputs, outputs = (
        ["question", "reference_steps"],
        {"seen": {"type": "string", "description": "what"}},
    )
    own = {"name": "own", "inputs": inputs, "instructions": "Look.", "outputs": outputs}
    for keys, seen, unseen in (({"output": ONE.replace("T1", "T7")}, "T7", "T1"), ({}, "T1", "T7")):
        judge = Judge()
        config = graph(tmp_path) | {"sparql_groundedness": {}, "custom_evaluations": [own]}
        async with Evaluator(templates(), config=config, judge=judge) as evaluator:
            response = ran(RIGHT, **keys) | {"actual_answer": "It is T1 or T7."}
            assert (await evaluator.evaluate(response))["steps_score"] == 1
        [rows] = [blocks["rows"] for blocks in judge.blocks if "rows" in blocks]
        assert (seen in rows, unseen in rows) == (True, False)
        assert any('"value":"T1"' in blocks.get("reference_steps", "") for blocks in judge.blocks)


def test_configurations_have_fingerprints(tmp_path: Path) -> None:
    step, configs = (
        {**STEP, "output": "x"},
        [None, graph(tmp_path), graph(tmp_path, actual=False), CHECKS],
    )
    found = {
        Evaluator(templates(step), config=config).fingerprints()["configuration"]
        for config in configs
    }
    assert len(found) == 4
