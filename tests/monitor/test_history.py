"""The course of a run, and whether it is getting worse, as far as that can be said at every look."""

from __future__ import annotations

import asyncio
from math import fsum, isclose
from random import Random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag_eval_async import Dashboard, Journal, evaluate_stream
from graphrag_eval_async.aggregates import Last, Seconds
from graphrag_eval_async.monitor.changes import getting_worse
from graphrag_eval_async.monitor.history import EVERY, POINTS, STARTS, History
from tests.cli.support import DEADLINE_SECONDS, REFERENCE, response
from tests.inference.test_confidence import weights_of
from tests.monitor.summaries import seen
from tests.monitor.test_dashboard import Cells, get
from tests.support.cases import each

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytest.importorskip("jinja2")
pytest.importorskip("uvicorn")


SCORE = "steps_score"


def mean(values: list[float]) -> float | None:
    return fsum(values) / len(values) if values else None


def same(one: float | None, other: float | None) -> bool:
    return one == other if one is None or other is None else isclose(one, other, abs_tol=1e-9)


SCORES = st.lists(st.none() | st.sampled_from([0.0, 0.25, 1.0]), min_size=1, max_size=700)


@given(SCORES, st.integers(1, 300), st.integers(1, 99))
def test_a_course_has_the_means_by_each_of_its_points(
    scores: list[float | None], window: int, look: int
) -> None:
    """Looks between change nothing."""
    history = History(Last(window))
    for number, score in enumerate(scores):
        history.add(seen(None if score is None else {SCORE: score, "total_tokens": 5}))
        if not number % look:
            history.courses()
    course, templates = history.courses()
    assert course.results == templates["t"].results == len(scores)
    assert len(course.points) <= POINTS + 2
    known = [[score for score in scores[: point.results] if score is not None] for point in course.points]
    assert all(map(same, course.means(SCORE), map(mean, known[1:])))
    assert course.means("total_tokens") == [None] * (len(course.points) - 1)
    assert course.recent == min(window, len(scores) // 2)
    assert [start.results for start in course.starts] == [*range(EVERY, len(scores) + 1, EVERY)][-STARTS:]
    for place, results, weights in course.starts:
        own = [score for score in scores[:results] if score is not None]
        assert place == results / EVERY
        assert weights.get(SCORE, ()) == (weights_of(own) if own else ())


def first_yes(draw: Callable[[int], float], results: int, looks: int, after: int = 0) -> int | None:
    """After how many results it first says yes, by a look after so many each."""
    history = History(Last(200))
    for i in range(1, results + 1):
        history.add(seen({SCORE: draw(i)}))
        is_due = i > after and not i % looks
        if is_due and getting_worse(history.courses(), [SCORE], 0.95).startswith("yes"):
            return i
    return None


def test_a_fall_is_said_soon_and_an_unchanged_run_is_not_getting_worse() -> None:
    for seed in range(6):
        random = Random(seed)
        found = first_yes(lambda i: float(random.random() < (0.9 if i <= 2000 else 0.7)), 2300, 25, 2000)  # noqa: B023
        assert found is not None, seed
    random = Random(1)
    assert first_yes(lambda _: float(random.random() < 0.9), 5_000, 200) is None
    assert first_yes(lambda _: random.random(), 2_000, 100) is None


@each(
    ("values", "expected", "name"),
    [
        ([("t", 1.0)] * 49, "too early to say, after 49 results", SCORE),
        ([("t", 1.0), ("t", 0.0)] * 500, "no clear change", SCORE),
        ([("t", 5.0)] * 1000 + [("t", 1.0)] * 500, "no clear change", "tone"),
        (
            [("t", 1.0)] * 3800 + [("t", 0.5)] * 200,
            "yes: steps_score 0.500 after the first 3800 results, 1.000 before",
            SCORE,
        ),
        (
            [("t", None), ("t", 0.5)] * 300 + [("t", 0.5)] * 300,
            "no, better: errors in 0.0% of the results after the first 600 results, 50.0% before",
            SCORE,
        ),
        # One of 30 templates, while all others stay as they are.
        (
            [(f"t{i}", float((i + j) % 2 if i else j < 100)) for j in range(200) for i in range(30)],
            "yes: template t0: steps_score 0.000 after the first 100 results, 1.000 before",
            SCORE,
        ),
    ],
)
def test_what_is_said(values: list[tuple[str, float | None]], expected: str, name: str) -> None:
    history = History(Last(200))
    for template, value in values:
        history.add(seen(None if value is None else {name: value}, template))
    assert getting_worse(history.courses(), [name], 0.95) == expected


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
            while "over 21 results" not in (html := (await get(dashboard.url))[2]):
                pass
        status, _, result = await get(f"{dashboard.url}results/20")
    is_timed = isinstance(window, Seconds)
    assert "steps_score: mean 1 of the first 1 results, 0.524 of all 21" in html
    recent = "last 1h: <strong>1.00" if is_timed else "last 4: <strong>0.250"
    assert f'<p class="recent">{recent}</strong></p>' in html
    assert ("The window was empty when this run began." in html) == is_timed
    assert "Not active: steps_score &lt; 0.5 over 3. An alert can start once its window is full." in html
    assert status == 200
    assert "wrong" in Cells(result).of("pre")
    axis = [text.partition(": ") for text in Cells(html).of("span") if text.startswith(("1: ", "21: "))]
    assert (axis[0], axis[1][2] == "restored") == (("1", ": ", "restored"), False)
