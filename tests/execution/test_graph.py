"""Queries on a file, in processes that can be killed."""

from __future__ import annotations

import asyncio
import copy
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from graphrag_eval_async import (
    Evaluator,
    ExecutionUnavailable,
    ReferenceDataError,
    compute_aggregates,
    evaluate_file,
    evaluate_stream,
    run_evaluation,
)
from tests.deadlines import WAIT_SECONDS
from tests.execution.support import (
    HOSTILE,
    NAMES,
    PREFIX,
    RIGHT,
    STEP,
    WRONG,
    graph,
    hurry,
    ran,
    results_of,
    templates,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

SPARQL = "application/sparql-results+json"


def engines() -> list[str]:
    """The ids of the processes of this one that run queries, where the system tells."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            command = (folder / "cmdline").read_bytes()
        except OSError:  # It has ended.
            continue
        if parent == os.getpid() and b"graphrag_eval_async.execution.engine" in command:
            found.append(folder.name)
    return found


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    yield
    assert engines() == []


async def test_expected_and_actual_outputs_are_fetched(tmp_path: Path) -> None:
    right, wrong = await results_of([ran(RIGHT), ran(WRONG)], graph(tmp_path))
    assert (right["steps_score"], right["failure"]) == (1, "none")
    assert (wrong["steps_score"], wrong["failure"]) == (0, "wrong_query_result")
    [[step]] = right["reference_steps"]
    names = {row["name"]["value"] for row in json.loads(step["output"])["results"]["bindings"]}
    assert (names, step["output_media_type"]) == ({"T1", "T2"}, SPARQL)
    assert step["executed_at"] <= right["actual_steps"][0]["executed_at"]
    assert right["execution"] == {"graph": str(tmp_path / "data.ttl"), "at": step["executed_at"]}
    assert "output" not in right["actual_steps"][0]
    assert json.loads(right["actual_steps"][0]["executed_output"])["head"]["vars"] == ["n"]


async def test_inputs_are_not_changed(tmp_path: Path) -> None:
    reference, response = templates(), ran(RIGHT)
    before = copy.deepcopy([reference, response])
    await results_of([response], graph(tmp_path), reference)
    assert [reference, response] == before


async def test_the_data_decide_not_what_was_recorded(tmp_path: Path) -> None:
    stale = json.dumps({"head": {"vars": ["n"]}, "results": {"bindings": []}})
    step = {**STEP, "output": stale, "output_media_type": SPARQL}
    [result] = await results_of([ran(RIGHT, output=stale)], graph(tmp_path), templates(step))
    assert result["steps_score"] == 1
    [result] = await results_of([ran(RIGHT, output=stale)], graph(tmp_path, actual=False), templates(step))
    assert (result["steps_score"], result["failure"]) == (0, "empty_result")


async def test_the_query_in_the_arguments_is_run_if_there_is_no_other(tmp_path: Path) -> None:
    stale = json.dumps({"head": {"vars": ["n"]}, "results": {"bindings": []}})
    step = {"name": "sparql_query", "args": {"query": NAMES}, "output": stale, "output_media_type": SPARQL}
    [result] = await results_of([ran(RIGHT)], graph(tmp_path), templates(step))
    assert result["steps_score"] == 1
    plain = {"name": "sparql_query", "args": {"query": "Bergheim"}, "output": "x"}
    [result] = await results_of([ran("Bergheim", output="x")], graph(tmp_path), templates(plain))
    assert (result["steps_score"], "execution" in result) == (1, False)


async def test_asking_and_constructing(tmp_path: Path) -> None:
    ask = {**STEP, "reference_query": PREFIX + "ASK { <urn:t1> a cim:Transformer }"}
    responses = [ran(PREFIX + "ASK { <urn:s1> a cim:Station }"), ran("ASK { <urn:s1> <urn:x> 1 }")]
    results = await results_of(responses, graph(tmp_path), templates(ask))
    assert [result["steps_score"] for result in results] == [1, 0]
    where = "{ ?t a cim:Transformer }"
    build = {**STEP, "reference_query": f"{PREFIX} CONSTRUCT {where} WHERE {where}"}
    responses = [
        ran(f"{PREFIX} CONSTRUCT {{ ?x a cim:Transformer }} {where.replace('?t', '?x')}"),
        ran("DESCRIBE <urn:s1>"),
    ]
    results = await results_of(responses, graph(tmp_path), templates(build))
    assert [result["steps_score"] for result in results] == [1, 0]
    assert results[0]["reference_steps"][0][0]["output"].count("\n") == 2


async def test_prefixes_of_the_file_and_of_the_configuration_are_known(tmp_path: Path) -> None:
    queries = [
        "SELECT ?n { ?t a cim:Transformer ; cim:name ?n }",
        "SELECT ?n { ?t a c:Transformer ; c:name ?n }",
    ]
    config = graph(tmp_path, prefixes={"c": "urn:cim#"})
    results = await results_of(map(ran, queries), config)
    assert [result["steps_score"] for result in results] == [1, 1]
    [result] = await results_of([ran(queries[1])], graph(tmp_path))
    assert result["failure"] == "query_invalid"


REFUSED = [
    ("query_invalid", "Bergheim"),
    ("query_invalid", "SELECT * { ?s ?p }"),
    ("step_error", "INSERT DATA { <urn:a> <urn:b> 1 }"),
    ("step_error", "DELETE WHERE { ?s ?p ?o }"),
    ("step_error", "LOAD <http://127.0.0.1:9/>"),
    ("step_error", "SELECT * { SERVICE <http://127.0.0.1:9/> { ?s ?p ?o } }"),
    ("step_error", "SELECT * { ?s ?p ?a FILTER(?a<?b)SERVICE?x#>\n{ ?s ?p ?o } }"),
    ("empty_result", "SELECT * FROM <http://127.0.0.1:9/> { ?s ?p ?o }"),  # It is no address here.
    ("step_error", "SELECT * { ?s ?p 1 }" + " " * 100_000),
]


async def test_what_is_not_run_scores_0_with_the_reason(tmp_path: Path) -> None:
    results = await results_of([ran(query) for _, query in REFUSED], graph(tmp_path))
    assert [result["failure"] for result in results] == [failure for failure, _ in REFUSED]
    assert {result["steps_score"] for result in results} == {0}
    message = results[5]["actual_steps"][0]["execution_error"]
    assert message == "refused: SERVICE is not allowed: it makes the server fetch addresses"


async def test_what_slips_through_cannot_open_a_socket(tmp_path: Path) -> None:
    """The process itself, without the checks before it."""
    from graphrag_eval_async.config import load_config
    from graphrag_eval_async.execution.outcomes import QueryFailed
    from graphrag_eval_async.execution.session import ExecutionSession
    from tests.execution.server import EndpointServer

    config = load_config(graph(tmp_path)).execute
    session = ExecutionSession(config, checks=False)
    engine = session._engine
    assert engine is not None
    with EndpointServer("<urn:a> <urn:b> 1 .") as server:
        try:
            await engine.open()
            with pytest.raises(QueryFailed, match="failed"):
                await engine.run(f"SELECT * {{ SERVICE <{server.url}> {{ ?s ?p ?o }} }}")
        finally:
            await session.aclose()
        assert server.queries == []


async def test_hostile_queries_end_and_the_next_one_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hurry(monkeypatch, 1.5, *HOSTILE.values())
    config = graph(tmp_path, max_memory_bytes=200 << 20, max_rows=1000)
    responses = [
        ran(query) for query in HOSTILE.values() for query in (query, RIGHT + " " * (len(query) % 50))
    ]
    results = await results_of(responses, config)
    for name, bad, good in zip(HOSTILE, results[::2], results[1::2], strict=True):
        assert (bad["steps_score"], bad["failure"]) == (0, "step_error"), name
        assert bad["actual_steps"][0]["execution_error"].startswith("failed: "), name
        assert good["steps_score"] == 1, name


@pytest.mark.parametrize(
    ("limit", "message"),
    [
        ({"max_rows": 3}, "failed: it returns more than 3 rows"),
        ({"max_bytes": 200}, "failed: it returns more than 200 bytes"),
    ],
)
async def test_limits_on_what_is_returned(tmp_path: Path, limit: dict[str, int], message: str) -> None:
    [result] = await results_of([ran("SELECT * { ?s ?p ?o }")], graph(tmp_path, **limit))
    assert result["actual_steps"][0]["execution_error"] == message


async def test_a_reference_query_that_fails_leaves_the_score_out(tmp_path: Path) -> None:
    bad = {**STEP, "reference_query": HOSTILE["cross join"]}
    invalid = {**STEP, "reference_query": "SELECT ?n { ?s no:such ?n }"}
    columns = {**STEP, "required_columns": ["none"]}
    for step, limits, error in [
        (bad, {"timeout_sec": 0.5}, "failed: reference_steps[0][0]: it took more than 0.5 s"),
        (invalid, {}, "invalid_request: reference_steps[0][0]: error at 1:23: a prefix is not declared"),
        (columns, {}, "invalid_reply: reference_steps[0][0]: required_columns"),
    ]:
        [result] = await results_of([ran(RIGHT)], graph(tmp_path, **limits), templates(step))
        assert result["execution_error"].startswith(error)
        assert (result["steps_score"], result["failure"]) == (None, None)
        steps_score = compute_aggregates([result], detail=True)["micro"]["steps_score"]
        assert (steps_score.get("mean"), steps_score["coverage"]["values"]) == (None, 0)
        assert steps_score["coverage"]["failed"] == {"not_run": 1}


async def test_streams_count_execution_errors_as_their_results_do(tmp_path: Path) -> None:
    invalid = {**STEP, "reference_query": "SELECT ?n { ?s no:such ?n }"}
    stream = evaluate_stream(templates(invalid), [ran(RIGHT), ran(WRONG)], config=graph(tmp_path))
    async with stream:
        results = [result async for result in stream]
    assert stream.aggregates.snapshot(detail=True) == compute_aggregates(results, detail=True)


async def test_queries_that_return_nothing_count_as_empty_results(tmp_path: Path) -> None:
    nothing = PREFIX + "SELECT ?n { ?x cim:none ?n }"
    responses = [ran(nothing), ran(nothing, output="T1"), ran(RIGHT)]
    async with evaluate_stream(templates(), responses, config=graph(tmp_path)) as stream:
        results = [result async for result in stream]
    snapshot = stream.aggregates.snapshot()
    assert snapshot["micro"]["steps"]["empty_results"] == {"sparql_query": 1}
    assert snapshot == compute_aggregates(results)


async def test_reference_queries_run_once_however_many_responses_there_are(tmp_path: Path) -> None:
    """A graph that is deleted after the first result shows it."""
    config = graph(tmp_path)
    async with evaluate_stream(templates(), [ran(RIGHT)] * 20, config=config, max_in_flight=1) as stream:
        results = [await anext(stream)]
        Path(config["execute"]["graph"]).write_text("")
        results += [result async for result in stream]
    assert {result["steps_score"] for result in results} == {1}
    assert len({result["execution"]["at"] for result in results}) == 1


async def test_many_at_a_time(tmp_path: Path) -> None:
    queries = [f"{RIGHT} # {i}" for i in range(60)]
    results = await results_of(map(ran, queries), graph(tmp_path, max_in_flight=3))
    assert [result["steps_score"] for result in results] == [1] * 60


async def test_failed_responses_and_steps_are_not_run(tmp_path: Path) -> None:
    failed = {"question_id": "q0", "error": "down"}
    results = await results_of([ran(RIGHT, status="error"), failed, {"question_id": "q0"}], graph(tmp_path))
    assert [result["failure"] for result in results] == ["step_error", "no_steps", "no_steps"]
    assert "executed_at" not in results[0]["actual_steps"][0]


async def test_cancelling_kills_the_queries(tmp_path: Path) -> None:
    stream = evaluate_stream(
        templates(), [ran(HOSTILE["cross join"])] * 3, config=graph(tmp_path, max_in_flight=2)
    )
    async with stream:
        task = asyncio.ensure_future(anext(stream))
        async with asyncio.timeout(WAIT_SECONDS):
            while not engines():  # noqa: ASYNC110  (only the system knows)
                await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert engines() == []


async def test_breaking_out_kills_the_queries(tmp_path: Path) -> None:
    responses = [ran(RIGHT), ran(HOSTILE["cross join"])]
    async with evaluate_stream(templates(), responses, config=graph(tmp_path, max_in_flight=2)) as stream:
        async for result in stream:
            assert result["steps_score"] == 1
            break
    assert engines() == []


async def test_an_evaluator_on_its_own(tmp_path: Path) -> None:
    async with Evaluator(templates(), config=graph(tmp_path)) as evaluator:
        assert (await evaluator.evaluate(ran(RIGHT)))["steps_score"] == 1
        assert (await evaluator.evaluate(json.dumps(ran(WRONG))))["steps_score"] == 0
        assert len(engines()) == 1


async def test_finished_sets_and_files(tmp_path: Path) -> None:
    config = graph(tmp_path)
    [result] = await run_evaluation(templates(), [ran(RIGHT)], config=config)
    assert result["steps_score"] == 1
    path = tmp_path / "responses.jsonl"
    path.write_text("".join(f"{json.dumps(each)}\n" for each in [ran(RIGHT), ran(WRONG)] * 5))
    evaluated = await evaluate_file(templates(), path, jobs=3, config=config)
    assert evaluated.aggregates.snapshot()["micro"]["steps_score"]["mean"] == 0.5


async def test_a_graph_that_cannot_be_read_ends_the_run(tmp_path: Path) -> None:
    config = graph(tmp_path)
    Path(config["execute"]["graph"]).write_text("<urn:a> <urn:b> .")
    with pytest.raises(ExecutionUnavailable, match=r"execute\.graph: .*data\.ttl: cannot be read: .*line 1"):
        await results_of([ran(RIGHT)] * 5, config)


def test_without_execution_a_step_needs_its_output() -> None:
    for config in (None, {"steps": {"check_queries": True}}):
        with pytest.raises(
            ReferenceDataError, match=r"question 'q0': reference_steps\[0\]\[0\]\.output: missing"
        ):
            Evaluator(templates(), config=config)


def test_an_evaluator_that_runs_queries_is_not_pickled(tmp_path: Path) -> None:
    import pickle

    with pytest.raises(TypeError, match="runs or parses queries"):
        pickle.dumps(Evaluator(templates(), config=graph(tmp_path)))


def test_fingerprints_tell_other_executions_apart(tmp_path: Path) -> None:
    step = {**STEP, "output": "x"}
    configs: list[Any] = [
        None,
        graph(tmp_path),
        graph(tmp_path, actual=False),
        {"steps": {"check_queries": True}},
    ]
    found = {Evaluator(templates(step), config=config).fingerprints()["configuration"] for config in configs}
    assert len(found) == 4


async def test_pages_show_what_the_queries_returned(tmp_path: Path) -> None:
    from graphrag_eval_async.monitor.evidence import pairs_of

    right, refused = await results_of([ran(RIGHT), ran("CLEAR ALL", output="mine")], graph(tmp_path))
    [pair] = pairs_of(right)
    assert pair.expected is not None
    assert pair.actual is not None
    assert pair.expected.args == NAMES
    assert pair.expected.table is not None
    assert pair.actual.table is not None
    [pair] = pairs_of(refused)
    assert pair.actual is not None
    assert (pair.actual.text, pair.actual.error) == ("mine", "refused: updates are not run")


async def test_a_graph_that_vanishes_is_not_the_agents_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hurry(monkeypatch, 0.3, HOSTILE["cross join"])
    config = graph(tmp_path)
    responses = [ran(RIGHT), ran(HOSTILE["cross join"]), ran(RIGHT + " ")]
    async with evaluate_stream(templates(), responses, config=config, max_in_flight=1) as stream:
        results = [await anext(stream)]
        Path(config["execute"]["graph"]).unlink()
        results += [result async for result in stream]
    assert [result["steps_score"] for result in results] == [1, 0, None]
    assert results[2]["execution_error"].startswith("unavailable: actual_steps[0]: execute.graph: ")


def test_the_page_has_the_limits() -> None:
    from graphrag_eval_async import ExecuteConfig
    from graphrag_eval_async.execution.outcomes import MAX_QUERIES
    from graphrag_eval_async.execution.session import CACHE_BYTES, PARSE_SECONDS
    from graphrag_eval_async.steps.tokens import MAX_QUERY_CHARACTERS

    page = (Path(__file__).parents[2] / "docs" / "execution.md").read_text()
    config = ExecuteConfig(graph="data.ttl")
    for row in (
        f"| time of one attempt of a query | {config.timeout_sec:g} s | `timeout_sec` |",
        f"| rows or triples that it returns | {config.max_rows:,} | `max_rows` |",
        f"| bytes that it returns | {config.max_bytes >> 20} MiB | `max_bytes` |",
        f"| queries at a time | {config.max_in_flight} | `max_in_flight` |",
        f"| queries of one response | {MAX_QUERIES} | fixed |",
        f"| length of a query | {MAX_QUERY_CHARACTERS:,} characters | fixed |",
        f"since queries repeat | {CACHE_BYTES >> 20} MiB | fixed |",
        f"longer than {PARSE_SECONDS:g} seconds to parse counts as valid",
    ):
        assert row in page


async def test_blank_nodes_have_the_same_labels_in_all_processes(tmp_path: Path) -> None:
    path = tmp_path / "blank.ttl"
    path.write_text("@prefix e: <urn:e:> . " + " ".join(f"e:s{i} e:p [ e:v {i} ] ." for i in range(9)))
    query = "SELECT ?b ?v { ?b <urn:e:v> ?v }"
    responses = [ran(f"{query} # {i}") for i in range(12)]
    settings = {"execute": {"graph": str(path), "max_in_flight": 4}}
    results = await results_of(responses, settings, templates({**STEP, "reference_query": query}))
    assert [result["steps_score"] for result in results] == [1] * 12


async def test_slow_queries_of_one_response_end_it_soon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = HOSTILE["cross join"]
    steps = [ran(f"{slow} # {i}")["actual_steps"][0] | {"id": f"c{i}"} for i in range(40)]
    hurry(monkeypatch, 0.5, slow)
    settings = graph(tmp_path, max_in_flight=4)
    [result] = await results_of([{"question_id": "q0", "actual_steps": steps}], settings)
    errors = [step.get("execution_error", "") for step in result["actual_steps"]]
    assert sum("not run, as" in error for error in errors) >= 30
    assert result["steps_score"] == 0
