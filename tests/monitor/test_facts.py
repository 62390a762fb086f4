"""The state of a run as JSON, and the results that screens keep of it."""

from __future__ import annotations

import json
from math import inf
from random import Random
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag_eval_async import RunningAggregates, evaluate_stream
from graphrag_eval_async.aggregates import Last
from graphrag_eval_async.inference.comparison import RunningComparison
from graphrag_eval_async.monitor.alerts import parse_alert
from graphrag_eval_async.monitor.board import ResultsOfQuestions
from graphrag_eval_async.monitor.counting import KEPT, Counting, Kept, shorten
from graphrag_eval_async.monitor.facts import Facts, complete
from graphrag_eval_async.records.results import observe
from tests.cli.support import COLOURS, REFERENCE, failed, response
from tests.monitor.summaries import LAG, idle_run, result
from tests.support.loop import LoopClock

if TYPE_CHECKING:
    from pathlib import Path

DETAILS = ("quantiles", "bounds", "confidence")


def check_details(facts: dict[str, Any], snapshot: dict[str, Any]) -> None:
    """What stands beside means is as in a detailed snapshot, of all results and of each template."""
    assert [*facts["templates"]] == [*snapshot["per_template"]]
    groups = [(facts["overall"], snapshot["micro"])]
    groups += [(group, snapshot["per_template"][name]) for name, group in facts["templates"].items()]
    for group, expected in groups:
        stats = {
            name: each for name, each in expected.items() if isinstance(each, dict) and "coverage" in each
        }
        assert group["failure"] == expected.get("failure", {})
        assert group["coverage"] == {name: each["coverage"] for name, each in stats.items()}
        assert [*group["metrics"]] == [name for name, each in stats.items() if "mean" in each]
        for name, shown in group["metrics"].items():
            details = {key: each for key, each in shown.items() if key in DETAILS}
            assert details == {key: stats[name][key] for key in DETAILS if key in stats[name]}


async def test_the_state_of_a_run() -> None:
    counting = Counting(Last(2), "last", [parse_alert("error_rate > 0 over 1")], include_errors=False)
    responses: list[Any] = [response("q1"), response("q2", False), b"{", response("q3"), failed("q3")]
    async with evaluate_stream(REFERENCE, responses, ordered=True) as stream:
        collector = Facts(stream, counting, source=LAG, paths=["a.jsonl", "logs"])
        assert collector.collect()["overall"]["samples"] == {"total": 0, "window": 0}
        async for each in stream:
            counting.add(each)
    facts = collector.collect()
    complete(facts)
    check_details(facts, stream.aggregates.snapshot(detail=True))
    assert json.loads(json.dumps(facts)) == facts
    assert all(facts[key] for key in ("time", "elapsed_sec", "results_per_sec"))
    assert [(each["alert"], each["value"]) for each in facts["alerts"]] == [("error_rate > 0 over 1", 1.0)]
    assert [each["question_id"] for each in facts["results"]] == ["q3", "q3", "q2", "q1"]
    overall, colours = facts["overall"], facts["templates"][COLOURS]
    assert overall["samples"] == {"total": 4, "window": 2}
    assert overall["errors"] == {"total": 1, "window": 1}
    assert overall["error_rate"] == {"mean": 0.25, "mean_of_questions": 0.5 / 3, "window": 0.5}
    assert overall["metrics"]["steps_score"]["mean_of_questions"] == pytest.approx(2 / 3)
    assert overall["metrics"]["steps_score"]["window"] == 1.0
    assert colours["samples"] == {"total": 2, "window": 0}
    assert colours["metrics"]["steps_score"]["window"] is None
    about = {"paths": ["a.jsonl", "logs"], "not_found": ["logs"], "window": {"last": 2}, "level": 0.95}
    counts = {"in_flight": 0, "rejects": {"invalid_json": 1}, "questions": 3, "missing": 0, "skipped": 0}
    absent = ("backlog", "comparison", "judge", "journal", "misnamed", "late")
    assert facts.items() >= {**about, **counts, **dict.fromkeys(absent)}.items()
    assert facts["lag"] == {"bytes": 12, "seconds": 0.5}


async def test_slow_work_does_not_block_the_loop() -> None:
    aggregates, comparison = RunningAggregates(), RunningComparison()
    counting = Counting(Last(2), "last", [], include_errors=False, comparison=comparison)
    for i in range(3000):
        each = result(f"q{i}", i % 2, template_id=f"t{i}")
        aggregates.add(each)
        comparison.add_baseline(each)
        counting.add(each)
    facts = Facts(idle_run(aggregates), counting)
    clock = LoopClock()
    await facts.prepare()
    clock.stop()
    assert clock.turn > 2
    collected = facts.collect()
    complete(collected)
    check_details(collected, aggregates.snapshot(detail=True))


def test_a_result_in_short() -> None:
    whole = result("q", 0.5, sample=2, elapsed_sec=3, answer_f1=None, answer_correctness_cost=0.25)
    whole |= {"answer_eval_error": "timeout: no reply", "score": 0.75, "judge": {"outputs": ["score", "why"]}}
    judged = {"retrieval_answer_recall": 1.0, "retrieval_answer_recall_cost": 3}
    whole["actual_steps"] = [{"name": "retrieval"} | judged]
    assert shorten(observe(whole, include_errors=False)) == {
        **{key: whole[key] for key in ("question_id", "template_id", "sample", "status", "failure")},
        "error": "timeout: no reply",
        "metrics": {"steps_score": 0.5, "elapsed_sec": 3, "score": 0.75},
        "cost": 3.25,
    }
    short = shorten(observe(whole | {"status": "error", "error": "y" * 10_000}, include_errors=False))
    assert (len(short["error"]), short["metrics"]) == (500, {})


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
        each = {"template_id": "t", "question_id": "q", "status": status, **metrics}
        kept.add(observe(each, include_errors=True))
        scores = [value for name, value in metrics.items() if name != "elapsed_sec"]
        if status == "error" or scores:
            rated.append((-inf if status == "error" else sum(scores) / len(scores), -number))
    assert [each.row["number"] for each in kept.worst()] == [-n for _, n in sorted(rated)[:KEPT]]
    assert [each.number for each in kept.worst(1)] == [-n for rank, n in sorted(rated)[:KEPT] if rank < 1]
    assert [each.number for each in kept.latest] == [*range(kept.count, 0, -1)][:KEPT]
    assert kept.find(kept.count + 1) is None


def test_a_second_look_at_a_file_reads_what_came_since(tmp_path: Path) -> None:
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
