from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag_eval_async.cli.commands.watch.cells import bar, trend_bars
from graphrag_eval_async.cli.commands.watch.screen import render
from tests.cli.watch.support import (
    ALERT,
    JUDGE,
    PERHAPS_WORSE,
    STEADY,
    WORSE,
    change,
    courses,
    facts,
    group,
    result,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

SCREENS = Path(__file__).parent / "screens"


def shown(facts: Mapping[str, Any], columns: int, rows: int, **more: Any) -> list[str]:
    """The lines in a terminal of a size, of which the last column and the last row stay free."""
    lines = render(facts, courses(facts), width=columns - 1, height=rows - 1, **more)
    assert len(lines) < rows
    assert all(line.cell_len < columns for line in lines)
    return [line.plain for line in lines]


GOLDEN: dict[str, dict[str, Any]] = {
    "60x20": facts(state=WORSE),
    "80x24": facts(state=WORSE, failure_texts={"wrong_order": "ORDER BY is missing"}),
    "80x24-many": facts(
        templates=tuple(f"template {i}: " + "long " * 20 for i in range(30)),
        alerts=[ALERT],
        show="worst",
        judged=False,
    ),
    "120x40": facts(
        overall=group(1206, 200, 0.8312, judged=True)
        | {"failure": {"none": 800, "wrong_order": 6}},
        journal={"restored": 1000},
        skipped=20,
        window={"seconds": 300.0},
        judge=JUDGE
        | {"paused_sec": 12.4, "dollars": None, "budget_usd": None, "errors": {"timeout": 2}},
    ),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_golden(name: str) -> None:
    columns, rows = map(int, name.split("-")[0].split("x"))
    assert shown(GOLDEN[name], columns, rows) == (SCREENS / f"{name}.txt").read_text().splitlines()


@pytest.mark.parametrize(("columns", "rows"), [(60, 20), (80, 24), (120, 40)])
@pytest.mark.parametrize(
    "state",
    [
        pytest.param(WORSE, id="worse"),
        pytest.param(PERHAPS_WORSE, id="perhaps worse"),
        pytest.param(STEADY, id="steady"),
        pytest.param(
            {**STEADY, "kind": "too_early", "text": "Too early to say: 3 of about 100 results"},
            id="too early",
        ),
    ],
)
def test_the_state_comes_first_then_alerts_then_the_progress(
    state: dict[str, Any], columns: int, rows: int
) -> None:
    run = facts(state=state, alerts=[ALERT])
    lines = shown(run, columns, rows)
    text = " ".join(" ".join(lines).split())
    assert lines[0][:10] == state["text"][:10]
    assert text.index(state["text"]) == 0
    assert text.index("ALERT lines") < text.index(run["progress"]["text"][:20])


@pytest.mark.parametrize(("columns", "rows"), [(60, 20), (80, 24), (120, 40)])
@pytest.mark.parametrize(
    "part", ["steps_score", "error rate", "templates, ", "latest results", "failures", "0        1"]
)
def test_each_part_is_on_the_screen(part: str, columns: int, rows: int) -> None:
    overall = group(1206, 200, 0.8312, judged=False) | {"failure": {"wrong_order": 6}}
    text = "\n".join(shown(facts(judged=False, overall=overall), columns, rows))
    assert part in text.replace("of 4 templates", "templates, ")


def test_an_interval_stands_beside_its_mean() -> None:
    """With its farther end; not if it is about another mean, that of first samples."""
    run = facts(judged=False)
    steps = run["overall"]["metrics"]["steps_score"]
    for columns in (80, 120):
        assert re.search(r"steps_score .* 0\.831  ±0\.05 ", "\n".join(shown(run, columns, 24)))
    narrow = steps["confidence"] | {"low": 0.83, "high": 0.84}
    steps["confidence"] = narrow
    assert " 0.831  ±0.009 " in "\n".join(shown(run, 80, 24))
    steps["confidence"] = narrow | {"mean": 0.75}
    assert "±0.0" not in "\n".join(shown(run, 80, 24))


def test_the_address_of_the_page_stands_beside_what_is_watched() -> None:
    address = "http://127.0.0.1:8080/"
    many = facts(paths=[f"logs/a-long-name-of-a-log-{i}.jsonl" for i in range(9)])
    for columns in (60, 80, 120):
        lines = shown(many, columns, 24, address=address)
        assert [address in line for line in lines if line.startswith("watching ")] == [True]


def test_quoted_text_is_one_line_without_control_characters() -> None:
    results = [{**result(3, judged=False), "question_id": "q\n\x1b[2J", "error": "e\n\x9b"}]
    evil: dict[str, Any] = {
        "alerts": [{**ALERT, "alert": "\x1b"}],
        "not_found": ["gone\x1b[2J"],
        "paths": ["a\x07"],
        "failure_texts": {"x\x1b": "why\x1b"},
        "state": {**STEADY, "text": "state\x1b[2J"},
        "progress": {"text": "progress\x9b"},
    }
    odd = facts(templates=("t\x1b[31m\nx", "b"), results=results, **evil)
    odd["overall"]["failure"] = {"x\x1b": 3}
    odd["overall"]["metrics"]["custom\x1b"] = {"mean": 0.5, "window": 0.5}
    text = "\n".join(shown(odd, 120, 40))
    assert all(character.isprintable() or character == "\n" for character in text)
    for quoted in (
        r"t\x1b[31m x",
        r"q \x1b[2J",
        r"e \x9b",
        r"a\x07",
        r"ALERT \x1b: ",
        r"gone\x1b[2J",
        r"x\x1b",
        r"why\x1b",
        r"state\x1b[2J",
        r"progress\x9b",
        r"custom\x1b",
    ):
        assert quoted in text


def test_the_lowest_templates_come_first() -> None:
    """They are sorted by the score that is shown, then by errors."""
    names = {
        "good": (0.9, 0.0),
        "low": (0.5, 0.0),
        "failing": (0.9, 0.9),
        "unscored": (None, None),
        "broken": (None, 1.0),
    }
    mixed = facts(judged=False, templates=tuple(names), results=[])
    for row, (score, error_rate) in zip(mixed["templates"].values(), names.values(), strict=True):
        row["metrics"]["steps_score"] = {"mean": score, "window": score}
        row["error_rate"] = {"mean": error_rate, "window": error_rate}
    mixed["templates"]["unscored"]["metrics"].clear()
    mixed["templates"]["broken"]["metrics"].clear()
    lines = shown(mixed, 80, 60)
    found = [line.split()[0] for line in lines if line.startswith((*names,))]
    assert found == ["broken", "low", "failing", "good", "unscored"]


def test_the_most_fallen_templates_come_before_the_lowest() -> None:
    """A clear change has the mean before it; others show how the recent mean differs."""
    changes = [
        change("lines", "steps_score", 0.95, 0.73),
        change("transformers", "steps_score", 0.9, 0.85),
        change("settings", "steps_score", 0.5, 0.7, is_loss=False),
        change("transformers", "error_rate", 0.0, 0.02),
    ]
    lines = shown(facts(judged=False, state=WORSE | {"changes": changes}), 100, 40)
    start = lines.index(next(line for line in lines if line.startswith("templates, fallen first")))
    rows = [line.split() for line in lines[start + 1 : start + 5]]
    assert [row[0] for row in rows] == ["lines", "transformers", "settings", "measurements"]
    assert "▼ from 0.95" in lines[start + 1]
    assert "  ▲ 2.0%  " in lines[start + 2]
    assert "▲ from 0.50" in lines[start + 3]
    assert "-0.040" in lines[start + 4]


def test_a_template_that_perhaps_fell_comes_first_without_a_clear_change() -> None:
    lines = shown(facts(judged=False, state=PERHAPS_WORSE), 100, 40)
    start = lines.index(next(line for line in lines if line.startswith("templates, fallen first")))
    assert lines[start + 1].startswith("lines ")
    assert "▼" not in lines[start + 1]


def test_a_tentative_loss_is_yellow() -> None:
    run = facts(state=PERHAPS_WORSE)
    line = render(run, courses(run), 100, 40)[0]
    assert line.plain == PERHAPS_WORSE["text"]
    assert [str(span.style) for span in line.spans] == ["bold yellow"]


def test_a_template_without_recent_results_shows_all() -> None:
    run = facts(judged=False)
    for statistics in run["templates"]["lines"]["metrics"].values():
        statistics["window"] = None
    line = next(line for line in shown(run, 100, 40) if line.startswith("lines "))
    assert re.search(r"0\.850 +none recent", line)


def test_without_older_results_there_is_one_mean() -> None:
    run = facts(overall=group(150, 150, 0.8312, judged=False))
    text = "\n".join(shown(run, 80, 24))
    assert "all 150" in text
    assert "last 200" not in text
    assert "change" not in text


def test_before_the_first_result_there_is_no_table() -> None:
    nothing = group(0, 0, 0.0, judged=False) | {"metrics": {}, "error_rate": value_of_none()}
    lines = shown(facts(overall=nothing, templates=(), results=[], judged=False), 80, 24)
    assert lines[-1].startswith("watching ")


def value_of_none() -> dict[str, None]:
    """A metric without values."""
    return {"mean": None, "window": None}


def test_failures_have_their_commonest_text_or_else_what_they_mean() -> None:
    overall = group(1206, 200, 0.8312, judged=False)
    overall["failure"] = {"none": 9, "missing_rows": 3, "step_error": 1_204}
    texts = {"step_error": "HTTP 504: the query took more than 30 s"}
    lines = shown(facts(judged=False, overall=overall, failure_texts=texts), 120, 40)
    start = lines.index("failures")
    assert lines[start + 1].split(None, 2) == ["1,204", "step_error", texts["step_error"]]
    assert lines[start + 2].split(None, 2) == ["3", "missing_rows", "mostly missing rows"]


@pytest.mark.parametrize("show", ["last", "worst"])
def test_results_say_why_they_failed(show: str) -> None:
    reason = "right_steps_wrong_answer"
    results = [
        result(1, judged=True) | {"failure": reason},
        result(2, judged=True) | {"failure": "none"},
    ]
    lines = shown(facts(results=results, show=show), 120, 40)
    heading = {"last": "latest results", "worst": "worst results"}[show]
    start = lines.index(next(line for line in lines if line.startswith(heading)))
    assert reason in lines[start + 1]
    assert reason not in lines[start + 2]


@given(
    st.integers(2, 200),
    st.integers(1, 60),
    st.booleans(),
    st.lists(st.text("x \u754c", max_size=60), max_size=12, unique=True),
    st.integers(0, 40),
)
def test_any_size_is_kept_to(
    columns: int, rows: int, judged: bool, templates: list[str], results: int
) -> None:
    many = facts(judged=judged, templates=tuple(templates), alerts=[ALERT], state=WORSE)
    many["results"] = many["results"][:results]
    screen = shown(many, columns, rows)
    assert screen == [line.rstrip() for line in screen]
    assert rows < 2 or screen[0].startswith("Getting"[: columns - 2])


@given(st.integers(2, 40), st.integers(16, 60))
def test_as_many_templates_are_shown_as_fit(count: int, rows: int) -> None:
    names = [f"t{i:02}" for i in range(count)]
    many = facts(judged=False, templates=tuple(names), results=[])
    for place, name in enumerate(names):
        many["templates"][name]["metrics"]["steps_score"]["window"] = place / count
    lines = shown(many, 80, rows)
    found = [line.split()[0] for line in lines if re.match(r"t\d", line)]
    assert found == names[: len(found)]
    heading = f"lowest of {count} templates"
    if len(found) == count:
        heading = "templates, lowest first"
    assert any(line.startswith(heading) for line in lines)
    # With nothing else to show, the last line is that of a template.
    assert len(found) == count or len(lines) == rows - 1


@given(st.lists(st.none() | st.floats(0, 1), max_size=40))
def test_trends_have_one_scale(points: list[float | None]) -> None:
    """Equal heights mean equal values, in whichever trend they are."""
    bars = trend_bars(points)
    heights = {None: " ", 0.0: "▁", 1.0: "█"}
    assert len(bars) == len(points)
    for point, height in zip(points, bars, strict=True):
        assert heights.setdefault(point, height) == height
    drawn = sorted((p, height) for p, height in zip(points, bars, strict=True) if p is not None)
    assert [height for _, height in drawn] == sorted(height for _, height in drawn)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param(0.0, "··········", id="none"),
        pytest.param(0.5, "█████·····", id="half"),
        pytest.param(0.55, "█████▌····", id="half of a cell"),
        pytest.param(1.0, "██████████", id="all"),
        pytest.param(0.999, "██████████", id="almost all"),
        pytest.param(None, "", id="no value"),
    ],
)
def test_bars(value: float | None, expected: str) -> None:
    assert bar(value).plain == expected
