from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import pytest

from graphrag_eval_async import evaluate_stream, load_config, load_reference
from graphrag_eval_async.aggregates import Last
from graphrag_eval_async.inference.comparison import RunningComparison
from graphrag_eval_async.monitor.alerts import parse_alert
from graphrag_eval_async.monitor.counting import Counting
from graphrag_eval_async.monitor.facts import Facts, complete
from tests.cli.support import COLOURS, REFERENCE, failed, response
from tests.judge.support import ScriptedJudge

LAG: Any = SimpleNamespace(lag=SimpleNamespace(bytes=12, seconds=0.5), not_found=["logs"])
DETAILS = ("quantiles", "bounds", "confidence")
VERDICT = {
    "reference_claims": ["a"],
    "actual_claims": ["a", "b"],
    "reason": "so",
    "matches": [{"reference": 0, "actual": 0}],
}
CONFIG = {
    "llm": {
        "generation": {"provider": "openai", "model": "gpt-4o-mini"},
        "limits": {"max_concurrency": 7, "budget_usd": 2.5},
        "pricing": {"input_usd_per_million": 1.0, "output_usd_per_million": 10.0},
    },
    "answer_correctness": {},
}


def with_answers(template: dict[str, Any]) -> dict[str, Any]:
    return template | {"questions": [each | {"reference_answer": "a"} for each in template["questions"]]}


async def facts_of(responses: list[Any], *, judged: bool = False, **more: Any) -> dict[str, Any]:
    reference = load_reference([with_answers(template) for template in REFERENCE])
    config = load_config(CONFIG, judge=True) if judged else None
    alerts = [parse_alert("error_rate > 0 over 1")]
    counting = Counting(Last(2), more.pop("show", "last"), alerts, include_errors=False)
    judge = ScriptedJudge(lambda _: VERDICT) if judged else None
    stream = evaluate_stream(reference, responses, config=config, judge=judge, ordered=True, **more)
    facts = Facts(stream, counting, source=LAG, config=config, paths=["a.jsonl", "logs"])
    assert facts.collect()["overall"]["samples"] == {"total": 0, "window": 0}
    async with stream:
        async for result in stream:
            counting.add(result)
    collected = facts.collect()
    complete(collected)
    check_details(collected, stream.aggregates.snapshot(detail=True))
    assert json.loads(json.dumps(collected)) == collected
    return collected


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


async def test_facts_of_steps() -> None:
    responses = [response("q1"), response("q2", False), b"{", response("q3"), failed("q3")]
    facts = await facts_of(responses)
    assert all(facts[key] for key in ("time", "elapsed_sec", "results_per_sec"))
    assert [(each["alert"], each["value"]) for each in facts["alerts"]] == [("error_rate > 0 over 1", 1.0)]
    assert [result["question_id"] for result in facts["results"]] == ["q3", "q3", "q2", "q1"]
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


async def test_slow_work_does_not_block_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between any two templates, of all results and of a comparison."""
    monkeypatch.setattr("graphrag_eval_async.threads.SLICE_SECONDS", -1.0)
    reference = load_reference(REFERENCE)
    comparison = RunningComparison()
    counting = Counting(Last(2), "last", [], include_errors=False, comparison=comparison)
    async with evaluate_stream(reference, [response("q1"), response("q3")]) as stream:
        async for result in stream:
            comparison.add_baseline(result)
            counting.add(result)
        facts = Facts(stream, counting, source=LAG)
        expected = facts.collect()
        taken, task = 0, asyncio.ensure_future(facts.prepare())
        while not task.done():
            await asyncio.sleep(0)
            taken += 1
        assert taken > 1
        collected = facts.collect()
        assert collected["templates"] == expected["templates"]
        assert collected["comparison"] == expected["comparison"]
