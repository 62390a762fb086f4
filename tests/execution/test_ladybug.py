"""Cypher queries on a file of Ladybug, in processes that can be killed."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from graphrag_eval_async import (
    ConfigError,
    Evaluator,
    ExecutionUnavailable,
    ReferenceDataError,
    compute_aggregates,
    evaluate_stream,
)
from graphrag_eval_async.execution.outcomes import Query, QueryFailed
from graphrag_eval_async.execution.processes import LADYBUG, Processes
from graphrag_eval_async.execution.worker import Setup
from tests.execution.cypher_support import (
    CRASH,
    RIGHT,
    SLOW,
    STEP,
    TITLES,
    WRONG,
    asks,
    error_of,
    films,
    queried,
    rows_in,
    step_of,
)
from tests.execution.support import graph, results_of, templates
from tests.support.deadlines import until

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]

MEDIA_TYPE = "application/vnd.neo4j.query"


def engines(parent: int | None = None) -> list[int]:
    """Return the ids of the processes that run queries, where the system tells.

    Args:
        parent: the process that started them; None for this one.
    """
    ids = []
    for folder in Path("/proc").glob("[0-9]*"):
        # It may have ended.
        with suppress(OSError):
            parent_id = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            is_engine = b"execution.ladybug_engine" in (folder / "cmdline").read_bytes()
            if is_engine and parent_id == (parent or os.getpid()):
                ids.append(int(folder.name))
    return ids


def used_ticks(process: int) -> int:
    """Return the time that a process has computed, in ticks of the system's clock."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11])


@pytest.fixture(autouse=True)
def no_process_stays() -> Iterator[None]:
    yield
    assert engines() == []


async def test_expected_and_actual_outputs_are_fetched(tmp_path: Path) -> None:
    right, wrong = await results_of([queried(RIGHT), queried(WRONG)], films(tmp_path), asks())
    assert (right["steps_score"], right["failure"]) == (1, "none")
    assert wrong["steps_score"] == 0
    [[reference_step]] = right["reference_steps"]
    assert rows_in(reference_step["output"]) == [["Playtime"], ["Vagabond"]]
    assert reference_step["output_media_type"] == MEDIA_TYPE
    assert rows_in(step_of(wrong)["executed_output"]) == [["Vagabond"]]
    at = reference_step["executed_at"]
    assert right["execution"] == {"graph": str(tmp_path / "films.lbug"), "at": at}


async def test_results_have_types(tmp_path: Path) -> None:
    query = "MATCH p = (a)-[d:DIRECTED]->(f:Film {title: 'Playtime'}) RETURN p, f.year AS year"
    [result] = await results_of([queried(query)], films(tmp_path), asks())
    data = json.loads(step_of(result)["executed_output"])["data"]
    assert data["fields"] == ["p", "year"]
    [[path, year]] = data["values"]
    assert year == {"$type": "Integer", "_value": "1967"}
    assert [part["$type"] for part in path["_value"]] == ["Node", "Relationship", "Node"]
    assert path["_value"][2]["_value"]["_properties"] == {
        "title": {"$type": "String", "_value": "Playtime"},
        "year": year,
    }


REFERENCES: dict[str, dict[str, Any]] = {
    "reference query": STEP,
    "arguments": {"name": "cypher_query", "args": {"cypher": TITLES}, "output": [{"t": "stale"}]},
    "name of a tool": {"name": "read_neo4j_cypher", "reference_query": TITLES},
    "media type": {"name": "q", "reference_query": TITLES, "output_media_type": MEDIA_TYPE},
    "compared as a table": {
        "name": "q",
        "reference_query": TITLES,
        "output_media_type": "application/json",
        "compare": "table",
    },
}


@pytest.mark.parametrize("step", REFERENCES.values(), ids=REFERENCES)
async def test_steps_with_cypher_are_run(tmp_path: Path, step: dict[str, Any]) -> None:
    name = "query-graph" if "q" not in step["name"][:1] else "q"
    responses = [queried(RIGHT, name=name), queried(WRONG, name=name)]
    results = await results_of(responses, films(tmp_path), asks(step))
    assert [result["steps_score"] for result in results] == [1, 0]


async def test_parameters_are_those_of_the_arguments(tmp_path: Path) -> None:
    by_year = "MATCH (f:Film) WHERE f.year > $year RETURN f.title"
    args = {"query": by_year, "params": {"year": 1980}}
    reference = {"name": "cypher_query", "args": args, "output": [{"t": "stale"}]}
    arguments: list[dict[str, Any]] = [
        {"query": by_year, "params": {"year": 1984}},
        {"query": by_year, "parameters": '{"year": 1984}'},
        {"query": by_year, "params": {"year": 1900}},
        {"query": by_year},
    ]
    responses = [queried("", args=args) for args in arguments]
    results = await results_of(responses, films(tmp_path), asks(reference))
    assert [result["steps_score"] for result in results] == [1, 1, 0, 0]
    assert results[3]["failure"] == "query_invalid"
    assert error_of(results[3]) == "invalid: args.params has no value of $year"


NOT_RUN = {
    "syntax": ("MATCH (f:Film) RETURN f.title AS", "query_invalid", "invalid: Parser exception"),
    "unknown label": ("MATCH (f:Book) RETURN f", "query_invalid", "invalid: Binder exception"),
    "unknown function": ("RETURN nope(1)", "query_invalid", "invalid: Catalog exception"),
    "division by zero": ("RETURN 1 / 0", "step_error", "failed: Runtime exception"),
    "typing error": ("MATCH (f) RETRUN f", "query_invalid", "invalid: 'RETRUN' is no clause"),
    "write": ("MATCH (f:Film) SET f.year = 1", "step_error", "refused: SET is not run"),
    "file": ("LOAD FROM '/etc/passwd' RETURN *", "step_error", "refused: LOAD is not run"),
    "export": ("COPY (MATCH (f) RETURN f) TO 'f.csv'", "step_error", "refused: COPY is not run"),
    "checkpoint": ("CHECKPOINT", "step_error", "refused: CHECKPOINT is not run"),
    "setting": ("CALL timeout = 1", "step_error", "refused: CALL timeout = is not run"),
    "rows": ("UNWIND range(1, 9) AS x RETURN x", "step_error", "failed: it returns more than 3"),
    "bytes": ("RETURN repeat('x', 9000)", "step_error", "failed: it returns more than 5,000 bytes"),
    "crash": (CRASH, "step_error", "failed: the query engine died"),
}  # fmt: skip


@pytest.mark.parametrize(("query", "failure", "error"), NOT_RUN.values(), ids=NOT_RUN)
async def test_what_has_no_result_scores_0_and_the_next_query_runs(
    tmp_path: Path, query: str, failure: str, error: str
) -> None:
    config = films(tmp_path, max_rows=3, max_bytes=5000)
    before = (tmp_path / "films.lbug").read_bytes()
    bad, good = await results_of([queried(query), queried(RIGHT)], config, asks())
    assert (bad["steps_score"], bad["failure"]) == (0, failure)
    assert error_of(bad).startswith(error)
    assert good["steps_score"] == 1
    assert (tmp_path / "films.lbug").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["films.lbug"]


HOSTILE = {
    "rows": "UNWIND range(1, 30000) AS x UNWIND range(1, 30000) AS y RETURN x, y",
    "collect": "UNWIND range(1, 100000000) AS x RETURN collect(x)",
    "text": "RETURN repeat('x', 1000000000)",
    "order": "UNWIND range(1, 9999) AS x UNWIND range(1, 9999) AS y RETURN x ORDER BY x * y",
    "nesting": f"RETURN {'(' * 5000}1{')' * 5000}",
    "lists": f"RETURN {'[' * 3000}1{']' * 3000}",
    "chain": f"RETURN {'+'.join('1' * 20000)}",
    "endless": SLOW,
}
"""Queries that take all time, memory or stack there is."""


@pytest.mark.soak
async def test_hostile_queries_end_and_the_next_one_runs(tmp_path: Path) -> None:
    """About 20 s."""
    config = films(tmp_path, max_memory_bytes=300 << 20, max_rows=1000, timeout_sec=2)
    queries = [query for bad in HOSTILE.values() for query in (bad, RIGHT)]
    results = await results_of(map(queried, queries), config, asks())
    for name, bad, good in zip(HOSTILE, results[::2], results[1::2], strict=True):
        assert error_of(bad).startswith("failed: "), name
        assert (bad["steps_score"], good["steps_score"]) == (0, 1), name


async def test_slow_queries_of_one_response_end_it_soon(tmp_path: Path) -> None:
    steps = [
        queried(f"{SLOW} // {number}")["actual_steps"][0] | {"id": f"c{number}"}
        for number in range(9)
    ]
    response = {"question_id": "q0", "actual_steps": steps}
    [result, good] = await results_of(
        [response, queried(RIGHT)], films(tmp_path, timeout_sec=0.5), asks()
    )
    errors = [step.get("execution_error", "") for step in result["actual_steps"]]
    assert sum("it took more than 0.5 s" in error for error in errors) <= 7
    assert sum("not run, as" in error for error in errors) >= 2
    assert (result["steps_score"], good["steps_score"]) == (0, 1)


@pytest.mark.parametrize(
    ("query", "limits", "error"),
    [
        pytest.param(SLOW, {"timeout_sec": 0.5}, "failed: {}: it took more than", id="slow"),
        pytest.param("RETURN nope(1)", {}, "invalid_request: {}: Catalog exc", id="invalid"),
        pytest.param("CREATE (:Film)", {}, "refused: {}: CREATE is not run", id="refused"),
    ],
)
async def test_a_reference_query_that_fails_leaves_the_score_out(
    tmp_path: Path, query: str, limits: dict[str, Any], error: str
) -> None:
    step = {**STEP, "reference_query": query}
    [result] = await results_of([queried(RIGHT)], films(tmp_path, **limits), asks(step))
    assert result["execution_error"].startswith(error.format("reference_steps[0][0]"))
    assert (result["steps_score"], result["failure"]) == (None, None)
    coverage = compute_aggregates([result], detail=True)["micro"]["steps_score"]["coverage"]
    assert (coverage["values"], coverage["failed"]) == (0, {"not_run": 1})


async def test_cancelling_and_breaking_out_kill_the_queries(tmp_path: Path) -> None:
    config = films(tmp_path, max_in_flight=2)
    async with evaluate_stream(asks(), [queried(SLOW)] * 3, config=config) as stream:
        task = asyncio.ensure_future(anext(stream))
        await until(engines)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert engines() == []
    responses = [queried(RIGHT), queried(SLOW)]
    async with evaluate_stream(asks(), responses, config=config) as stream:
        result = await anext(stream)
        assert result["steps_score"] == 1
    assert engines() == []


async def test_a_killed_process_is_replaced(tmp_path: Path) -> None:
    async with Evaluator(asks(), config=films(tmp_path)) as evaluator:
        assert (await evaluator.evaluate(queried(WRONG)))["steps_score"] == 0
        [engine] = engines()
        used_before = used_ticks(engine)
        slow = asyncio.create_task(evaluator.evaluate(queried(SLOW)))
        await until(lambda: used_ticks(engine) > used_before + 5)
        os.kill(engine, signal.SIGKILL)
        assert error_of(await slow).startswith("failed: the query engine died")
        assert (await evaluator.evaluate(queried(RIGHT)))["steps_score"] == 1


PROGRAM = """
import asyncio, sys
from pathlib import Path
from tests.execution.cypher_support import SLOW, asks, films, queried
from tests.execution.support import results_of

config = films(Path(sys.argv[1]), timeout_sec=2)
asyncio.run(results_of([queried(SLOW)], config, asks()))
"""


async def test_processes_end_after_the_program_was_killed(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", PROGRAM, str(tmp_path)], cwd=ROOT) as program:
        await until(lambda: engines(program.pid))
        [engine] = engines(program.pid)
        program.kill()
    await until(lambda: not Path(f"/proc/{engine}").exists())


async def test_what_slips_through_cannot_open_files(tmp_path: Path) -> None:
    """The process itself, without the checks before it."""
    setup = Setup(films(tmp_path)["execute"]["graph"], {}, 30, 99, 9999, 1 << 28)
    written = tmp_path / "written.csv"
    queries = {
        "LOAD FROM '/etc/passwd' (file_format='csv', delim=':') RETURN *": "failed",
        f"COPY (MATCH (f:Film) RETURN f.title) TO '{written}'": "failed",
        f"EXPORT DATABASE '{tmp_path / 'exported'}'": "failed",
        "CREATE (:Film {title: 'Mon Oncle'})": "refused",
        "RETURN 1; RETURN 2": "refused",
    }
    processes = Processes(setup, 1, "graph", LADYBUG)
    try:
        for query, kind in queries.items():
            with pytest.raises(QueryFailed) as caught:
                await processes.run(Query(query))
            assert caught.value.kind == kind, query
        answer = await processes.run(Query(TITLES))
    finally:
        await processes.aclose()
    assert rows_in(answer.output) == [["Playtime"], ["Vagabond"]]
    assert not written.exists()


async def test_several_processes_read_one_file(tmp_path: Path) -> None:
    responses = [queried(f"{RIGHT}; // {number}") for number in range(9)]
    results = await results_of(responses, films(tmp_path, max_in_flight=3), asks())
    assert {result["steps_score"] for result in results} == {1}


async def test_a_file_that_cannot_be_read_ends_the_run(tmp_path: Path) -> None:
    config = films(tmp_path)
    (tmp_path / "films.lbug").write_bytes(b"no database" * 1000)
    with pytest.raises(
        ExecutionUnavailable, match=r"execute\.graph: .*films\.lbug: cannot be read"
    ):
        await results_of([queried(RIGHT)] * 3, config, asks())


async def test_steps_in_the_other_language_are_not_run(tmp_path: Path) -> None:
    stale = {"output": "stale", "output_media_type": "text/plain"}
    sparql = {"name": "sparql_query", "reference_query": "ASK {}"}
    with pytest.raises(ReferenceDataError, match=r"reference_query, in SPARQL, is run"):
        Evaluator(templates(sparql), config=films(tmp_path))
    with pytest.raises(ReferenceDataError, match=r"reference_query, in Cypher, is run"):
        Evaluator(templates(STEP), config=graph(tmp_path))
    response = queried(RIGHT, output="stale")
    [result] = await results_of([response], graph(tmp_path), templates({**STEP, **stale}))
    assert result["steps_score"] == 1
    assert step_of(result).keys().isdisjoint({"executed_output", "execution_error"})


async def test_queries_in_cypher_are_not_parsed_as_sparql() -> None:
    step = {**STEP, "output": "title\nPlaytime\n", "output_media_type": "text/csv"}
    response = queried("SELECT nothing", output="title\nPlaytime\n")
    unmatched = queried("MATCH (n) RETURN n {.a}", name="query_graph")["actual_steps"]
    response["actual_steps"] = [*unmatched, *response["actual_steps"]]
    checks = {"steps": {"check_queries": True}}
    [result] = await results_of([response], checks, templates(step))
    assert result["steps_score"] == 1
    assert "query_facts" not in step_of(result)


def test_configurations_have_fingerprints(tmp_path: Path) -> None:
    step = {**STEP, "output": [{"t": "stale"}]}
    configs = [
        films(tmp_path),
        {"execute": {"database": "bolt://localhost"}},
        {"execute": {"database": "bolt://localhost:7688"}},
        {"execute": {"database": "bolt://localhost", "database_name": "films"}},
    ]
    fingerprints = {
        Evaluator(templates(step), config=config).fingerprints()["configuration"]
        for config in configs
    }
    assert len(fingerprints) == len(configs)


@pytest.mark.parametrize(
    ("execute", "package"),
    [
        pytest.param({"graph": "films.lbug"}, "ladybug", id="file"),
        pytest.param({"database": "bolt://localhost"}, "neo4j", id="database"),
    ],
)
def test_a_missing_package_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, execute: dict[str, str], package: str
) -> None:
    films(tmp_path)
    monkeypatch.chdir(tmp_path)
    session = "graphrag_eval_async.execution.session"
    monkeypatch.setattr(f"{session}.find_spec", lambda name: None if name == package else name)
    with pytest.raises(ConfigError, match=r"needs the extra cypher"):
        Evaluator(asks(), config={"execute": execute})
