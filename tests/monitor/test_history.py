"""The course of a run, recorded with each result."""

from __future__ import annotations

import asyncio
import json
import re
from math import fsum, isclose
from random import Random
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag_eval_async import Dashboard, Journal, RunningAggregates, evaluate_stream
from graphrag_eval_async.aggregates import Last, Seconds
from graphrag_eval_async.judge import JudgeUsage
from graphrag_eval_async.monitor.board import Board
from graphrag_eval_async.monitor.captions import judge_facts
from graphrag_eval_async.monitor.counting import Counting
from graphrag_eval_async.monitor.facts import Facts
from graphrag_eval_async.monitor.history import EVERY, MAX_TEMPLATES, POINTS, RECENT, STARTS, History
from graphrag_eval_async.reference import NoReference
from graphrag_eval_async.traces.grouping import LateSpans
from tests.cli.support import DEADLINE_SECONDS, REFERENCE, finish, response, start, told, until
from tests.inference.test_confidence import weights_of
from tests.monitor.test_dashboard import Cells, fetch, get

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("jinja2")
pytest.importorskip("uvicorn")


def short(score: float | None, template: str = "t", sample: int | None = None) -> dict[str, Any]:
    metrics = {} if score is None else {"steps_score": score, "total_tokens": 5.0}
    status = "error" if score is None else "success"
    return {"status": status, "template_id": template, "sample": sample, "metrics": metrics}


def mean(values: list[float]) -> float | None:
    return fsum(values) / len(values) if values else None


def same(one: float | None, other: float | None) -> bool:
    return one == other if one is None or other is None else isclose(one, other, abs_tol=1e-9)


SCORES = st.lists(st.none() | st.sampled_from([0.0, 0.25, 1.0]), min_size=1, max_size=700)


@given(SCORES, st.integers(1, 300))
def test_a_course_has_the_means_by_each_of_its_points(scores: list[float | None], window: int) -> None:
    history = History(Last(window))
    for score in scores:
        history.add(short(score))
    course = history.courses().overall
    assert course.results == len(scores)
    assert len(course.points) <= POINTS + 2
    known = [[score for score in scores[: round(point[0])] if score is not None] for point in course.points]
    assert all(map(same, course.means("steps_score"), map(mean, known[1:])))
    assert course.means("total_tokens") == [None] * (len(course.points) - 1)
    recent = min(window, len(scores) // 2)
    assert course.recent == recent
    assert [start.results for start in course.starts] == [*range(EVERY, len(scores) + 1, EVERY)][-STARTS:]
    for place, results, weights in course.starts:
        own = [score for score in scores[:results] if score is not None]
        assert place == results / EVERY
        assert weights.get("steps_score", ()) == (weights_of(own) if own else ())


def test_points_get_rarer_as_a_run_gets_longer() -> None:
    history = History(Seconds(60))
    for i in range(10_000):
        history.add(short(1.0 if i < 5000 else 0.0, f"t{i % 5}"), restored=i < 9000)
    course, templates = history.courses()
    assert [point[0] for point in course.points] == [*range(0, 9985, 256), 10_000]
    assert course.recents("steps_score", 256)[:19] == [1.0] * 19
    assert course.recents("steps_score", 256)[20:] == [0.0] * 20
    assert course.recent == RECENT
    assert [mark.time is None for mark in course.marks[-6:]] == [True, *[False] * 5]
    assert {*templates} == {f"t{i}" for i in range(5)}
    assert templates["t0"].results == 2000


def test_other_samples_of_a_question_make_no_interval_narrower() -> None:
    history = History(Last(5))
    for sample in (1, 2, 3):
        history.add(short(1.0, sample=sample))
    weights = history.courses().overall.marks[-1].weights["steps_score"]
    assert weights is not None
    assert sum(weights) == 1


def test_the_memory_of_many_templates_is_bounded() -> None:
    history = History(Last(5))
    for i in range(MAX_TEMPLATES + 10):
        history.add(short(1.0, f"t{i}"))
    assert len(history.courses().templates) == MAX_TEMPLATES


JUDGED = ("answer_f1", "answer_recall", "answer_precision", "answer_relevance")
CUSTOM = ("politeness_of_the_answer", "completeness", "style", "safety")


def idle_run(aggregates: RunningAggregates | None = None) -> Any:
    """What pages show of a stream that has these results and does nothing else."""
    return SimpleNamespace(
        aggregates=aggregates or RunningAggregates(),
        reference=NoReference(),
        rejects=SimpleNamespace(counts={}),
        usage=JudgeUsage(),
        in_flight=0,
        missing=(),
        journal=None,
        skipped=0,
        late=LateSpans(),
        is_restored=True,
    )


async def test_a_snapshot_of_thirty_templates_with_judges_is_small() -> None:
    counting, aggregates, random = (
        Counting(Last(200), "last", [], include_errors=False),
        RunningAggregates(),
        Random(3),
    )
    board = Board(Facts(idle_run(aggregates), counting), counting, "Nightly")
    for i in range(39 * 128):  # The most points.
        result = {
            "question_id": f"question-{i % 600}",
            "template_id": f"measurements-latest-{i % 30}",
            "status": "success",
            "question_text": "What is the latest measurement of substation number 12 in the grid?",
            "elapsed_sec": random.expovariate(0.2),
            "total_tokens": random.randrange(9000),
            **{name: random.random() for name in ("steps_score", *JUDGED, *CUSTOM)},
            "judge": {"outputs": CUSTOM},
        }
        aggregates.add(result)
        counting.add(result)
    page = board.pages[""]
    content = await page.content()
    assert content.count('class="chart"') == 10
    assert content.count('class="spark"') >= 30 * 6
    assert len(page.event(content)) < 85_000


@pytest.mark.parametrize(
    ("text", "shown"), [("What is the latest measurement of the grid?", 200), ("是\ud800\u202e<" * 99, 30)]
)
async def test_a_list_of_results_is_small(text: str, shown: int) -> None:
    counting = Counting(Last(200), "last", [], include_errors=False)
    board = Board(Facts(idle_run(), counting), counting, "Nightly")
    for i in range(300):
        result = {"question_id": f"{text[:16]}{i}", "template_id": text[:16], "question_text": text}
        scores = dict.fromkeys(("steps_score", *JUDGED), i / 300)
        counting.add(result | {"status": "success", "failure": "wrong_query_result", **scores})
    for name in ("worst", "latest"):
        page = board.pages[name]
        content = await page.content()
        assert len(page.event(content)) < 85_100
        rows = content.count("<tr data-key")
        assert rows == 200 or shown <= rows < 200
        assert (f"The first {rows} fit on this page." in content) == (rows < 200)
        event = json.loads(page.event(content))
        assert event.count("<tr data-key") == rows


async def test_who_comes_late_sees_the_past() -> None:
    responses = [response("q1", i < 30) for i in range(60)]
    async with Dashboard(evaluate_stream(REFERENCE, responses, ordered=True), port=0) as dashboard:
        async for _ in dashboard:
            pass
        html = (await get(dashboard.url))[2]
    scores = html.partition('id="scores"')[2].partition("</section>")[0]
    assert scores.count("<svg") == 2
    assert "steps_score: mean 1 of the first 2 results, 0.5 of all 60" in scores
    assert "too early" not in scores


def test_a_resumed_run_shows_what_came_before(folder: Any) -> None:
    out, log = folder.file("out.jsonl"), folder.lines(*(response("q1") for _ in range(20)))
    alerts = ["--alert", "steps_score > 0.5 over 3", "--alert", "error_rate > 0 over 3"]
    options = ["-o", out, "--resume", "--web", "127.0.0.1:0", *alerts]
    assert finish(start("watch", folder.reference, log, *options, "--until-idle", "1s"))[0] == 0
    process = start("watch", folder.reference, log, *options)
    url = told(process, "http://").split()[-1]
    html = ""

    def is_restored() -> bool:
        nonlocal html
        html = fetch(url)[2]
        return "of all 20" in html

    until(process, is_restored, "the restored results")
    process.terminate()
    finish(process)
    assert "since 20" in html
    history = html.partition("History")[2].partition("</details>")[0]
    assert re.search(
        r"UTC, (less than a|\d+) minutes? ago: started: steps_score &gt; 0\.5 over 3: 1", history
    )
    axis = [text for text in Cells(html).of("span") if text.endswith("restored")]
    assert axis[:3] == ["1: restored", "11: restored", "20: restored"]


async def test_a_dashboard_shows_what_came_before(tmp_path: Path) -> None:
    restored: list[Any] = []
    journal = Journal(tmp_path / "out.jsonl")
    responses = [response("q1", i < 10) for i in range(20)]
    async with evaluate_stream(REFERENCE, responses, ordered=True, journal=journal) as stream:
        _ = [result async for result in stream]
    more = [*responses, response("q1")]
    stream = evaluate_stream(REFERENCE, more, ordered=True, journal=journal)
    stream.tell_restored(restored.append)
    alerts = ["steps_score < 0.5 over 3"]
    async with Dashboard(stream, port=0, window=Last(4), alerts=alerts) as dashboard:
        assert "Restoring the results of an earlier run: 0 so far" in (await get(dashboard.url))[2]
        assert (await anext(dashboard))["steps_score"] == 1.0
        async with asyncio.timeout(DEADLINE_SECONDS):
            while "over 21 results" not in (html := (await get(dashboard.url))[2]):
                pass
        status, _, result = await get(f"{dashboard.url}results/20")
    assert len(restored) == 20
    assert "steps_score: mean 1 of the first 1 results, 0.524 of all 21" in html
    assert '<p class="recent">last 4: <strong>0.250</strong></p>' in html
    assert "1 active" in html
    assert status == 200
    assert "wrong" in Cells(result).of("pre")


async def test_a_page_says_that_earlier_results_are_not_counted_yet() -> None:
    counting = Counting(Last(200), "last", [], include_errors=False)
    run = idle_run()
    run.is_restored = False
    board = Board(Facts(run, counting), counting, "Nightly")
    counting.restore({"question_id": "q", "template_id": "t", "status": "success", "steps_score": 1.0})
    page = board.pages[""]
    assert "Restoring the results of an earlier run: 1 so far" in await page.content()
    run.is_restored = True
    page.pause = 0
    assert "Scores of all results" in await page.content()


def test_costs_of_earlier_runs_are_told_apart() -> None:
    usage = JudgeUsage()
    assert "spent" in dict(judge_facts(usage.as_dict()))
    facts = dict(judge_facts(usage.as_dict(), restored=True))
    assert facts["all but the costs"] == "since the restart"
    assert "spent in all runs" in facts
