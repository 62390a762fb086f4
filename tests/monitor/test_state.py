"""The state of a run as JSON, its course so far, and the results that screens keep of it."""

from __future__ import annotations

import asyncio
import json
from math import fsum, inf, isclose
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag_eval_async import Dashboard, Journal, evaluate_stream
from graphrag_eval_async.aggregates import Last, Seconds
from graphrag_eval_async.monitor import facts as facts_module
from graphrag_eval_async.monitor.alerts import parse_alert
from graphrag_eval_async.monitor.board import result_at, results_of
from graphrag_eval_async.monitor.counting import Counting
from graphrag_eval_async.monitor.facts import Facts, complete
from graphrag_eval_async.records.results import observe
from graphrag_eval_async.reports.charts import sparkline
from graphrag_eval_async.reports.history import MAX_POINTS, History
from graphrag_eval_async.reports.kept import KEPT, Kept
from tests.cli.support import COLOURS, DEADLINE_SECONDS, REFERENCE, failed, response, to_jsonl
from tests.support.dashboard import get, text_of
from tests.support.loop import LoopClock
from tests.support.summaries import LAG, result, seen

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


def check_details(facts: dict[str, Any], snapshot: dict[str, Any]) -> None:
    """What stands beside means is as in a detailed snapshot, of all results, each template and
    each tag.
    """
    assert [*facts["templates"]] == [*snapshot["per_template"]]
    groups = [(facts["overall"], snapshot["micro"])]
    groups += [
        (group, snapshot["per_template"][name]) for name, group in facts["templates"].items()
    ]
    tags = {f"{key}={value}": (key, value) for key in snapshot.get("per_tag", {}) for value in "01"}
    assert [*facts.get("tags", {})] == [*tags]
    groups += [
        (facts["tags"][name], snapshot["per_tag"][key][value])
        for name, (key, value) in tags.items()
    ]
    for group, expected in groups:
        stats = {
            name: each
            for name, each in expected.items()
            if isinstance(each, dict) and "coverage" in each
        }
        assert group["failure"] == expected.get("failure", {})
        assert group["coverage"] == {name: each["coverage"] for name, each in stats.items()}
        assert [*group["metrics"]] == [name for name, each in stats.items() if "mean" in each]
        for name, shown in group["metrics"].items():
            for key in ("quantiles", "bounds", "confidence"):
                assert shown.get(key) == stats[name].get(key)


async def test_the_state_of_a_run() -> None:
    counting = Counting(Last(2), "last", [parse_alert("error_rate > 0 over 1")])
    responses: list[Any] = [
        response("q1"),
        response("q2", False),
        b"{",
        response("q3"),
        failed("q3"),
    ]
    reference = [{**template, "tags": {"place": i}} for i, template in enumerate(REFERENCE)]
    async with evaluate_stream(reference, responses, ordered=True) as stream:
        collector = Facts(stream, counting, source=LAG, paths=["a.jsonl", "logs"])
        assert collector.collect()["overall"]["samples"] == {"total": 0, "window": 0}
        async for given in stream:
            counting.add(given)
    facts = collector.collect()
    complete(facts)
    check_details(facts, stream.aggregates.snapshot(detail=True))
    assert json.loads(json.dumps(facts)) == facts
    assert all(facts[key] for key in ("time", "elapsed_sec", "results_per_sec"))
    assert [(each["alert"], each["value"]) for each in facts["alerts"]] == [
        ("error_rate > 0 over 1", 1.0)
    ]
    assert [each["question_id"] for each in facts["results"]] == ["q3", "q3", "q2", "q1"]
    overall, colours = facts["overall"], facts["templates"][COLOURS]
    assert (overall["samples"], overall["errors"]) == (
        {"total": 4, "window": 2},
        {"total": 1, "window": 1},
    )
    assert overall["error_rate"] == {"mean": 0.5 / 3, "mean_of_results": 0.25, "window": 0.5}
    assert overall["metrics"]["steps_score"]["mean"] == pytest.approx(2 / 3)
    assert facts["state"]["text"] == "Too early to say: 4 of about 100 results"
    assert facts["progress"]["text"] == "ended after 4 results"
    assert overall["metrics"]["steps_score"]["window"] == 1.0
    assert (colours["samples"], colours["metrics"]["steps_score"]["window"]) == (
        {"total": 2, "window": 0},
        None,
    )
    assert facts["tags"]["place=0"]["samples"] == colours["samples"]
    about = {
        "paths": ["a.jsonl", "logs"],
        "not_found": ["logs"],
        "window": {"last": 2},
        "level": 0.95,
    }
    counts = {
        "in_flight": 0,
        "rejects": {"invalid_json": 1},
        "questions": 3,
        "missing": 0,
        "skipped": 0,
    }
    counts["lag"] = {"bytes": 12, "seconds": 0.5}
    absent = ("judge", "journal", "misnamed", "late")
    assert facts.items() >= {**about, **counts, **dict.fromkeys(absent)}.items()


async def test_the_phases_of_a_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Restoring, running, waiting for lines, running again, and ended."""
    now = 1_800_000_000.0
    monkeypatch.setattr(facts_module, "time", lambda: now)
    lines = asyncio.Queue[Any]()

    async def arriving() -> AsyncIterator[Any]:
        while (line := await lines.get()) is not None:
            yield line

    stream = evaluate_stream(REFERENCE, arriving(), journal=tmp_path / "out.jsonl")
    counting = Counting(Last(2), "last", [])
    facts = Facts(stream, counting)

    def progress() -> dict[str, Any]:
        told: dict[str, Any] = facts.collect()["progress"]
        return told

    assert progress()["phase"] == "restoring"
    for question in ("q1", "q2"):
        await lines.put(response(question))
        counting.add(await anext(stream))
        told = progress()
        assert told["phase"] == "running"
        assert told["eta_seconds"] > 0
        now += 4.9
        assert progress()["phase"] == "running"
        now += 0.2
        told = progress()
        assert (told["phase"], told["eta_seconds"]) == ("waiting for lines", None)
        assert (
            told["since"]
            == ("2027-01-15T08:00:00+00:00", "2027-01-15T08:00:05+00:00")[question == "q2"]
        )
    assert told["text"] == "waiting for lines since 08:00 UTC, after 2 results"
    # Many results of the same questions say nothing about when the others come.
    for _ in range(2):
        await lines.put(response("q1"))
        counting.add(await anext(stream))
    told = progress()
    assert (told["done"], told["total"], told["missing"]) == (2, 3, 1)
    assert (told["phase"], told["eta_seconds"]) == ("running", None)
    await lines.put(None)
    assert [each async for each in stream] == []
    assert progress()["text"] == "ended after 4 results"


async def test_one_moment_has_one_mean() -> None:
    """A question that is asked often counts once, in the facts, on the page and in Prometheus."""
    pytest.importorskip("prometheus_client", reason="needs the extra prometheus")
    from graphrag_eval_async import PrometheusCollector
    from tests.support.prometheus import get as get_metric
    from tests.support.prometheus import scrape

    responses: list[Any] = [*[response("q1", False)] * 7, response("q2"), response("q3")]
    stream = evaluate_stream(REFERENCE, responses, ordered=True)
    async with Dashboard(stream, port=0, window=Last(5)) as dashboard:
        async for _ in dashboard:
            pass
        html = text_of((await get(dashboard.url))[2])
        facts = dashboard._board._facts.collect()
        metrics = scrape(PrometheusCollector(stream, recent=dashboard._counting.recent))
    score = facts["overall"]["metrics"]["steps_score"]
    assert (score["mean"], score["mean_of_results"]) == pytest.approx((2 / 3, 2 / 9))
    assert score["window"] == pytest.approx(2 / 3)
    assert get_metric(metrics, "overall_mean", metric="steps_score") == score["mean"]
    assert get_metric(metrics, "overall_window_mean", metric="steps_score") == score["window"]
    assert "0.667" in html


async def test_slow_work_does_not_block_the_loop() -> None:
    stream = evaluate_stream(None, [])
    counting = Counting(Last(2), "last", [])
    for i in range(3000):
        one = result(f"q{i}", i % 2, template_id=f"t{i}") | {"tags": {"odd": i % 2}}
        stream.aggregates.add(one)
        counting.add(one)
    facts, clock = Facts(stream, counting), LoopClock()
    await facts.prepare()
    clock.stop()
    assert clock.turn > 2
    collected = facts.collect()
    complete(collected)
    check_details(collected, stream.aggregates.snapshot(detail=True))


NAMES = st.sampled_from(["steps_score", "answer_f1", "answer_relevance", "elapsed_sec"])
METRICS = st.dictionaries(NAMES, st.sampled_from([0.0, 0.25, 0.5, 1.0]))
RESULTS = st.lists(st.tuples(st.sampled_from(["error", "success"]), METRICS), max_size=30)


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
    assert [each.number for each in kept.worst(1)] == [
        -n for rank, n in sorted(rated)[:KEPT] if rank < 1
    ]
    assert [each.number for each in kept.latest] == [*range(kept.count, 0, -1)][:KEPT]


def test_results_of_a_question_in_a_file(tmp_path: Path) -> None:
    """A line that is not complete is no result yet."""
    path, lines = (
        tmp_path / "results.jsonl",
        to_jsonl(result(f"q{i % 3}", i / 600) for i in range(600)),
    )
    path.write_bytes(lines + lines[:20])
    found = results_of(str(path), "q1")
    assert [each["metrics"]["steps_score"] for each in found] == [
        i / 600 for i in range(598, 0, -3)
    ][:KEPT]
    at = result_at(str(path), int(found[-1]["number"].removeprefix("at/")))
    assert at is not None
    assert at["steps_score"] == found[-1]["metrics"]["steps_score"]


SCORE = "steps_score"


def mean(values: list[float]) -> float | None:
    return fsum(values) / len(values) if values else None


def same(one: float | None, other: float | None) -> bool:
    return one == other if one is None or other is None else isclose(one, other, abs_tol=1e-9)


SCORES = st.lists(st.none() | st.sampled_from([0.0, 0.25, 1.0]), min_size=1, max_size=700)


def test_a_sparkline_breaks_where_no_value_is_known() -> None:
    assert sparkline([0.0, None, 1.0]) == "M0 19h0M96 1h0"


@given(SCORES, st.integers(1, 300), st.integers(1, 99))
def test_a_course_has_the_recent_means_at_each_of_its_points(
    scores: list[float | None], recent: int, look: int
) -> None:
    """Looks between change nothing."""
    history = History()
    for number, score in enumerate(scores):
        history.add(seen(None if score is None else {SCORE: score, "total_tokens": 5}))
        if not number % look:
            history.courses()
    course, templates, _ = history.courses()
    assert course.results == templates["t"].results == len(scores)
    assert len(course.points) <= MAX_POINTS + 2
    places = [point.results for point in course.points]
    expected = []
    for end in places[1:]:
        # The latest point that has so many results after it, or the first one.
        start = max([place for place in places if place <= end - recent], default=0)
        expected.append(mean([each for each in scores[start:end] if each is not None]))
    assert all(map(same, course.recents(SCORE, recent), expected))
    assert course.recents("total_tokens", recent) == [None] * (len(course.points) - 1)


@pytest.mark.parametrize("window", [Last(4), Seconds(3600)])
async def test_a_dashboard_shows_what_came_before(tmp_path: Path, window: Last | Seconds) -> None:
    journal = Journal(tmp_path / "out.jsonl")
    responses = [response("q1", i < 10) for i in range(20)]
    async with evaluate_stream(REFERENCE, responses, ordered=True, journal=journal) as stream:
        _ = [result async for result in stream]
    stream = evaluate_stream(REFERENCE, [*responses, response("q1")], ordered=True, journal=journal)
    alerts = ["steps_score < 0.5 over 3"]
    async with Dashboard(stream, port=0, window=window, alerts=alerts) as dashboard:
        assert "Restoring the results of an earlier run: 0 so far" in (await get(dashboard.url))[2]
        assert (await anext(dashboard))["steps_score"] == 1.0
        async with asyncio.timeout(DEADLINE_SECONDS):
            while "Ended after" not in (html := (await get(dashboard.url))[2]):
                pass
        _, _, result = await get(f"{dashboard.url}results/20")
    is_timed = isinstance(window, Seconds)
    shown = text_of(html)
    recent = "1.000 in the last 1 h" if is_timed else "0.250 in the last 4 results"
    assert f"steps_score 0.524 all 21 results over 1 of 3 questions, {recent}" in shown
    assert "restored from an earlier run 20 results" in shown
    restored = "Recent results only of this run: nobody knows when the restored ones came"
    assert (restored in shown) == is_timed
    assert "Not active: steps_score < 0.5 over 3 An alert can start once" in shown
    assert "wrong" in text_of(result)
