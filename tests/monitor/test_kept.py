"""The latest and the worst results, and those of a question in the file of a run."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from math import inf
from random import Random
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag_eval_async.aggregates import Last
from graphrag_eval_async.monitor.board import Board, ResultsOfQuestions
from graphrag_eval_async.monitor.counting import KEPT, Counting, Kept, shorten
from graphrag_eval_async.monitor.dashboard_server import DashboardServer
from graphrag_eval_async.monitor.facts import Facts
from graphrag_eval_async.records.results import observe
from tests.monitor.summaries import idle_run
from tests.monitor.test_dashboard import fetch
from tests.support.deadlines import WAIT_SECONDS

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("jinja2")
pytest.importorskip("uvicorn")

RESULT: dict[str, Any] = {
    "template_id": "t",
    "question_id": "q",
    "sample": 2,
    "status": "success",
    "steps_score": 0.5,
    "elapsed_sec": 3,
    "answer_f1": None,
    "answer_eval_error": "timeout: no reply",
    "score": 0.75,
    "answer_correctness_cost": 0.25,
    "failure": "wrong_order",
    "judge": {"outputs": ["score", "why"]},
    "actual_steps": [
        {"name": "retrieval", "retrieval_answer_recall": 1.0, "retrieval_answer_recall_cost": 3}
    ],
}


def test_a_result_in_short() -> None:
    assert shorten(observe(RESULT, include_errors=False)) == {
        **{key: RESULT[key] for key in ("question_id", "template_id", "sample", "status", "failure")},
        "error": "timeout: no reply",
        "metrics": {"steps_score": 0.5, "elapsed_sec": 3, "score": 0.75},
        "cost": 3.25,
    }
    result = {
        "template_id": "t",
        "question_id": "q",
        "status": "error",
        "error": "y" * 10_000,
        "elapsed_sec": 3,
    }
    failed = shorten(observe(result, include_errors=False))
    assert (len(failed["error"]), failed["metrics"]) == (500, {})


SCORES = st.dictionaries(
    st.sampled_from(["steps_score", "answer_f1", "answer_relevance", "elapsed_sec"]),
    st.sampled_from([0.0, 0.25, 0.5, 1.0]),
)
RESULTS = st.lists(st.tuples(st.sampled_from(["error", "success"]), SCORES), max_size=30)


@given(RESULTS, st.sampled_from([1, 20]))
def test_the_latest_and_the_worst_against_sorting_all(
    results: list[tuple[str, dict[str, float]]], times: int
) -> None:
    kept, rated = Kept(), []
    for number, (status, metrics) in enumerate(results * times, 1):
        result = {"template_id": "t", "question_id": "q", "status": status, **metrics}
        kept.add(observe(result, include_errors=True))
        scores = [value for name, value in metrics.items() if name != "elapsed_sec"]
        if status == "error" or scores:
            rated.append((-inf if status == "error" else sum(scores) / len(scores), -number))
    assert [each.row["number"] for each in kept.worst()] == [-n for _, n in sorted(rated)[:KEPT]]
    assert [each.number for each in kept.worst(1)] == [-n for rank, n in sorted(rated)[:KEPT] if rank < 1]
    assert [each.number for each in kept.latest] == [*range(kept.count, 0, -1)][:KEPT]
    assert kept.find(kept.count + 1) is None


def test_a_second_look_reads_what_came_since(tmp_path: Path) -> None:
    """Also of lines that were not complete, and of another file under this name."""
    rng, path, looking = Random(3), tmp_path / "results.jsonl", ResultsOfQuestions()
    for number in range(300):
        line = orjson.dumps({"template_id": "t", "question_id": f"q{rng.randrange(4)}", "sample": number})
        place = rng.randrange(len(line))
        for part in (line[:place], line[place:] + b"\n"):
            with path.open("ab") as file:
                file.write(part)
            fresh = ResultsOfQuestions().of_question(str(path), "q1")
            assert looking.of_question(str(path), "q1") == fresh
        if rng.random() < 0.05:
            path.write_bytes(b"")
            assert looking.of_question(str(path), "q1") == []


async def test_one_scan_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others wait without a thread, so that other pages need not."""
    path, active, most, gate = tmp_path / "results.jsonl", [0], [0], threading.Event()
    path.write_bytes(orjson.dumps({"template_id": "t", "question_id": "q1"}) + b"\n")
    scan = ResultsOfQuestions.of_question

    def counted(*arguments: Any) -> Any:
        active[0] += 1
        most[0] = max(most[0], active[0])
        assert gate.wait(WAIT_SECONDS)
        try:
            return scan(*arguments)
        finally:
            active[0] -= 1

    monkeypatch.setattr(ResultsOfQuestions, "of_question", counted)
    counting = Counting(Last(3), "last", [], include_errors=False)
    server = DashboardServer("127.0.0.1", 0)
    server.start(Board(Facts(idle_run(), counting), counting, "Nightly", str(path)))
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(41) as clients:
        asked = [loop.run_in_executor(clients, fetch, f"{server.url}question?id=q{i % 2}") for i in range(40)]
        try:
            assert (await loop.run_in_executor(clients, fetch, f"{server.url}latest"))[0] == 200
        finally:
            gate.set()
        found = await asyncio.gather(*asked)
    await server.aclose()
    assert sorted(status for status, _, _ in found) == [200] * 20 + [404] * 20
    assert most == [1]
