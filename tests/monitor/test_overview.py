"""What the first page of a run shows, and the pages that it leads to."""

from __future__ import annotations

import re
from html import unescape
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docs.scenarios import SCENARIOS, showing
from graphrag_eval_async.aggregates import Last, Seconds
from graphrag_eval_async.reports import timeline
from graphrag_eval_async.reports.charts import BOTTOM, TOP, ChangeMark, time_chart
from graphrag_eval_async.reports.overview import MAX_TEMPLATES
from graphrag_eval_async.reports.timeline import MAX_SPANS, TimelineRecorder
from tests.cli.support import failed, response
from tests.support.dashboard import finished, get, text_of
from tests.support.summaries import seen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphrag_eval_async.reports.timeline import Timeline

pytest.importorskip("jinja2")
pytest.importorskip("uvicorn")

SCORE = "steps_score"


def part_of(html: str, section_id: str) -> str:
    """Return what is read in a section of a page; empty if there is no such section."""
    found = re.search(rf'<section id="{section_id}".*?</section>', html, re.DOTALL)
    return "" if found is None else " ".join(unescape(re.sub("<[^>]+>", " ", found[0])).split())


@pytest.mark.parametrize(
    ("name", "state", "progress"),
    [
        ("fall", "Getting worse since 16:4", "2,400 results of 240 questions, "),
        ("doubt", "Perhaps getting worse since 16:", "1,400 results of 240 questions, "),
        ("steady", "Steady", "900 results of 240 questions, "),
        ("early", "Too early to say: 24 of ", "24 of 240 questions, "),
        ("errors", "Steady", "700 results of 240 questions, "),
        ("ended", "Steady", "Ended after 1,500 results"),
        ("waiting", "Steady", "Waiting for lines since 16:13 UTC, after 600 results"),
    ],
)
async def test_the_page_begins_with_the_state_and_the_progress(
    name: str, state: str, progress: str
) -> None:
    async with showing(name) as dashboard:
        html = (await get(dashboard.url))[2]
    assert part_of(html, "state").startswith(state)
    assert part_of(html, "progress").startswith(progress)
    order = [html.index(f'id="{part}"') for part in ("state", "progress", "metrics", "templates")]
    assert order == sorted(order)
    [connection] = re.findall(r'<p id="connection"[^>]*>(.*?)</p>', html)
    without_script = "<noscript>Not updated without JavaScript</noscript>"
    assert connection == ("Ended" if name == "ended" else without_script)


async def test_after_the_end_the_big_number_is_of_all_results() -> None:
    async with showing("ended") as dashboard:
        html = (await get(dashboard.url))[2]
    cards = part_of(html, "metrics")
    assert re.search(
        r"steps_score 0\.\d{3} all 1,500 results over .*? 0\.\d{3} in the last 200", cards
    )
    assert re.search(r"error_rate [\d.]+% \d+ of 1,500 results [\d.]+% in the last 200", cards)


async def test_an_alert_that_recovers_says_why_it_is_active() -> None:
    async with showing("errors") as dashboard:
        html = (await get(dashboard.url))[2]
    alerts = part_of(html, "alerts")
    assert "mean of error_rate is now" in alerts
    recovering = "still active: the window must meet the bound again"
    assert ("now 0.9" in alerts) == (recovering in alerts)


async def test_a_fall_is_told_with_its_place_time_and_cause() -> None:
    async with showing("fall") as dashboard:
        html = (await get(dashboard.url))[2]
    shown = text_of(html)
    assert re.match(
        r"Getting worse since 16:4\d UTC: steps_score of lines_between 0.9\d to 0.7\d\b.*? "
        r"Why: step_error: TypeError: 'NoneType' object is not subscriptable "
        r"\d+ of \d+ failures of lines_between since then All results with this reason "
        r"1 active alert ",
        shown,
    )
    first_template = re.findall(r'<tr data-key="(.*?)"', part(html, "templates"))[0]
    assert first_template == "lines_between"
    assert re.search(r"0\.\d{3} . from 0\.9\d since 16:4\d", part_of(html, "templates"))
    assert re.search(r"lines_between since 16:4\d</text>", html)


async def test_a_tentative_fall_is_marked_as_such_and_is_no_clear_change() -> None:
    async with showing("doubt") as dashboard:
        html = (await get(dashboard.url))[2]
    assert re.match(
        r"Perhaps getting worse since 16:\d\d UTC: steps_score of lines_between 0.9\d to 0.7\d "
        r"\(not certain yet\) Why: .*? failures of lines_between since then",
        part_of(html, "state"),
    )
    assert '<section id="state" class="state perhaps_worse"' in html
    assert re.findall(r'<tr data-key="(.*?)"', part(html, "templates"))[0] == "lines_between"
    assert '<article class="card worse"' not in html
    assert 'class="change worse"' not in html


def part(html: str, section_id: str) -> str:
    """Return the HTML of a section of a page."""
    found = re.search(rf'<section id="{section_id}".*?</section>', html, re.DOTALL)
    assert found is not None
    return found[0]


@pytest.mark.parametrize(
    ("name", "gap"),
    [
        ("fall", r"no results from 15:03 to 15:33"),
        ("waiting", r"no results from 16:13 to 16:38"),
        ("steady", None),
    ],
)
async def test_charts_show_times_without_results(name: str, gap: str | None) -> None:
    async with showing(name) as dashboard:
        html = (await get(dashboard.url))[2]
    assert 'viewBox="0 0 400 140"' in html
    assert {*re.findall(r'<rect class="gap".*?<title>(.*?)</title>', html)} == (
        set() if gap is None else {gap}
    )


async def test_an_interval_is_of_the_number_beside_it() -> None:
    answers = [response("q1"), response("q2", False), response("q3")]
    async with finished(answers) as dashboard:
        html = (await get(dashboard.url))[2]
        interval = dashboard.aggregates.snapshot(detail=True)["micro"][SCORE]["confidence"]
    ends = f"{interval['low']:.2f} to {interval['high']:.2f}"
    assert f"0.667 all 3 results over 3 questions, 95% interval {ends}" in text_of(html)
    # In the window is another mean: the interval stays with the mean of all.
    async with finished(answers, window=Last(1)) as dashboard:
        html = (await get(dashboard.url))[2]
    expected = (
        f"0.667 all 3 results over 3 questions, 95% interval {ends}, 1.000 in the last 1 result"
    )
    assert expected in text_of(html)
    # With repeats, the interval is of first samples, and so of no number on the page.
    async with finished([*answers, response("q1", False)]) as dashboard:
        html = (await get(dashboard.url))[2]
    assert "interval" not in part_of(html, "metrics")


async def test_the_count_beside_the_error_rate_is_of_the_same_mean() -> None:
    # One error in three results of q1, and none of q2: a mean of 17 %, but 25 % of results.
    answers = [response("q1"), response("q1"), failed("q1"), response("q2")]
    async with finished(answers) as dashboard:
        metrics = part_of((await get(dashboard.url))[2], "metrics")
    assert "16.7% over 2 of 3 questions" in metrics
    assert "1 of 4 results" not in metrics
    # Of the same number of results each, both are the same share.
    async with finished([response("q1"), failed("q2")]) as dashboard:
        metrics = part_of((await get(dashboard.url))[2], "metrics")
    assert "50.0% 1 of 2 results" in metrics


async def test_repeats_say_how_many_questions_have_k_samples() -> None:
    answers = [response("q1"), response("q1", False), response("q1"), response("q2")]
    async with finished(answers) as dashboard:
        repeats = part_of((await get(dashboard.url))[2], "repeats")
    assert "Over the questions with k samples or more: 2 for k = 1, 1 for k = 2, 1 for k = 3." in (
        repeats
    )
    async with finished([*answers[:2], response("q2"), response("q2")]) as dashboard:
        repeats = part_of((await get(dashboard.url))[2], "repeats")
    assert "Over 2 questions." in repeats


async def test_reasons_lead_to_their_results() -> None:
    async with showing("errors") as dashboard:
        html = (await get(dashboard.url))[2]
        section = part(html, "failures")
        links = re.findall(r'href="(/failures\?reason=(\w+))".*?class="times">([\d,]+)', section)
        assert [reason for _, reason, _ in links][:2] == ["agent_error", "step_error"]
        for path, reason, count in links:
            status, _, page = await get(dashboard.url + path[1:])
            assert status == 200
            assert text_of(page, "h1") == f"Failures: {reason}"
            rows = re.findall(r"<tr data-key=.*?</tr>", page, re.DOTALL)
            assert len(rows) >= min(20, int(count))
            told = "error:" if reason == "agent_error" else reason
            assert all(told in row for row in rows)
        nothing = await get(f"{dashboard.url}failures?reason=%3Cb%3E")
    assert "TimeoutError: the agent gave no answer within 60 s" in part_of(html, "failures")
    assert "No result failed for the reason &lt;b&gt; so far." in nothing[2]


async def test_what_says_nothing_is_not_drawn() -> None:
    # All right, each question once, one template: no chart, no tables of templates or repeats.
    async with finished([response("q1"), response("q2")]) as dashboard:
        html = (await get(dashboard.url))[2]
    for part_id in ("alerts", "templates", "repeats", "missing", "worst", "tags", "judge"):
        assert f'<section id="{part_id}"' not in html
    assert "<svg" not in html
    assert "No failure so far." in html
    assert "1.000 all 2 results" in text_of(html)
    # Errors of the agent are counted once, not as missing values of each metric too.
    async with finished([response("q1"), failed("q3")]) as dashboard:
        html = (await get(dashboard.url))[2]
    assert '<section id="missing"' not in html
    assert "without a value" not in html


async def test_of_many_templates_the_lowest_are_shown_and_all_are_a_link_away() -> None:
    step = {"name": "look_up", "args": {}, "output": "right"}
    reference = [
        {
            "template_id": f"t{i:03}",
            "questions": [{"id": f"q{i}", "question_text": "?", "reference_steps": [[step]]}],
        }
        for i in range(70)
    ]
    responses = [
        {
            "question_id": f"q{i}",
            "actual_steps": [
                step | {"id": "1", "status": "success", "output": "wrong" if i > 60 else "right"}
            ],
        }
        for i in range(70)
    ]
    async with finished(responses, reference) as dashboard:
        first = (await get(dashboard.url))[2]
        every = (await get(f"{dashboard.url}templates"))[2]
    shown = re.findall(r'<tr data-key="(t\d+)"', part(first, "templates"))
    assert len(shown) == MAX_TEMPLATES
    assert shown[:9] == [f"t{i:03}" for i in range(61, 70)]
    assert '<a href="/templates">All 70 templates</a>' in first
    assert len(re.findall(r'<tr data-key="t\d+"', every)) == 70


# Charts and timelines


LAST_200 = Last(200)


class Clock:
    """A time that a test sets."""

    now = 1_000_000.0


def recorded(
    arrivals: Sequence[tuple[float, float | None]], window: Last | Seconds = LAST_200
) -> Timeline:
    """Return the timeline of results, each with the seconds since the one before, and a score."""
    recorder = TimelineRecorder(window)
    Clock.now = 1_000_000.0
    with patch.object(timeline, "time", lambda: Clock.now):
        for seconds, score in arrivals:
            Clock.now += seconds
            recorder.add(seen(None if score is None else {SCORE: score}), restored=False)
    return recorder.timeline()


ARRIVALS = st.lists(
    st.tuples(st.sampled_from([0.0, 0.1, 1.0, 30.0, 5000.0]), st.sampled_from([0.0, 0.5, 1.0])),
    min_size=1,
    max_size=400,
)


@settings(max_examples=60, deadline=None)
@given(ARRIVALS, st.sampled_from([Last(3), Last(50), Seconds(1.0), Seconds(100.0)]))
def test_a_timeline_has_the_means_of_what_came_until_each_moment(
    arrivals: list[tuple[float, float]], window: Last | Seconds
) -> None:
    line = recorded(arrivals, window)
    assert len(line.spans) <= MAX_SPANS
    scores = [score for _, score in arrivals]
    counts = [span.results for span in line.spans]
    assert counts[-1] == len(scores)
    for count, mean in zip(counts, line.means_so_far(SCORE), strict=True):
        assert mean == pytest.approx(sum(scores[:count]) / count)
    for place, mean in enumerate(line.recent_means(SCORE)):
        # Spans are not divided, so a few more results than the window has may count.
        count = counts[place]
        assert mean is not None
        if isinstance(window, Last):
            start = max([0, *(earlier for earlier in counts if earlier <= count - window.count)])
        else:
            begin = line.spans[place].end - window.seconds
            start = max([0, *(span.results for span in line.spans if span.end <= begin)])
        assert mean == pytest.approx(sum(scores[start:count]) / (count - start))


def test_restored_results_count_but_have_no_time() -> None:
    recorder = TimelineRecorder(Last(4))
    for _ in range(3):
        recorder.add(seen({SCORE: 0.0}), restored=True)
    recorder.add(seen({SCORE: 1.0}), restored=False)
    line = recorder.timeline()
    assert (line.restored, len(line.spans)) == (3, 1)
    assert line.means_so_far(SCORE) == [0.25]
    assert line.recent_means(SCORE) == [0.25]


def heights(path: str) -> list[float]:
    """Return the heights of the points of a path."""
    return [float(y) for y in re.findall(r"[ML][\d.]+ ([\d.]+)", path)]


def test_a_chart_has_an_axis_from_0_to_1_and_ends_at_the_number_beside_it() -> None:
    line = recorded([(10.0, 1.0)] * 50 + [(10.0, 0.5)] * 50, Last(10))
    chart = time_chart(line, SCORE, recent=0.25)
    assert chart is not None
    assert all(TOP <= y <= BOTTOM for y in heights(chart.recent))
    assert heights(chart.recent)[0] == TOP
    assert chart.last[1] == pytest.approx(BOTTOM - 0.25 * (BOTTOM - TOP))
    assert chart.gaps == []
    assert chart.recent.count("M") == 1
    assert len(chart.ticks) <= 5


@pytest.mark.parametrize(
    ("scores", "labels"),
    [
        pytest.param((0.2, 0.8), ["1", "0.5", "0"], id="within 0 and 1"),
        pytest.param((13.0, 18.0), ["20", "15", "10"], id="above 1"),
        pytest.param((-0.4, 0.4), ["0.5", "0", "-0.5"], id="below 0"),
        pytest.param((40_000.0, 80_000.0), ["80k", "60k", "40k"], id="thousands"),
    ],
)
def test_a_chart_has_an_axis_that_fits_its_values(scores: Any, labels: list[str]) -> None:
    low, high = scores
    line = recorded([(10.0, low)] * 50 + [(10.0, high)] * 50, Last(10))
    chart = time_chart(line, SCORE, recent=None)
    assert chart is not None
    assert [label.text for label in chart.values] == labels
    points = heights(chart.recent)
    assert all(TOP <= y <= BOTTOM for y in points)
    assert points[-1] < points[0]


@pytest.mark.parametrize(
    ("arrivals", "gaps"),
    [
        pytest.param([(10.0, i % 2) for i in range(99)], 0, id="evenly"),
        pytest.param([(10.0 + i * 7 % 20, i % 2) for i in range(99)], 0, id="unevenly"),
        pytest.param([(900.0 * (i == 50) + 10, i % 2) for i in range(99)], 1, id="one pause"),
        pytest.param([(900.0 * (i % 40 == 39) + 1, i % 2) for i in range(99)], 2, id="two pauses"),
        pytest.param([(0.0, i % 2) for i in range(99)] + [(60.0, 1.0)], 0, id="at once, then one"),
    ],
)
def test_only_long_times_without_results_interrupt_a_chart(arrivals: Any, gaps: int) -> None:
    chart = time_chart(recorded(arrivals), SCORE, recent=None)
    assert chart is not None
    assert len(chart.gaps) == gaps
    assert chart.recent.count("M") == gaps + 1
    assert all(gap.text in chart.text for gap in chart.gaps)


def test_a_chart_marks_a_change_within_it() -> None:
    line = recorded([(10.0, i % 2) for i in range(99)])
    moment = line.spans[30].end
    chart = time_chart(line, SCORE, recent=None, change=ChangeMark("worse", moment))
    assert chart is not None
    assert chart.change is not None
    assert chart.change.text.startswith("worse since ")
    outside = time_chart(line, SCORE, recent=None, change=ChangeMark("worse", 0.0))
    assert outside is not None
    assert outside.change is None


@pytest.mark.parametrize(
    "arrivals", [[], [(1.0, 1.0)], [(1.0, 1.0)] * 20, [(1.0, None)] * 20], ids=len
)
def test_a_level_line_is_no_chart(arrivals: Any) -> None:
    assert time_chart(recorded(arrivals), SCORE, recent=None) is None


def test_scenarios_are_all_tested() -> None:
    assert {*SCENARIOS} == {"fall", "doubt", "steady", "early", "errors", "ended", "waiting"}
