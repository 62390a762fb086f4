from __future__ import annotations

import re
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from graphrag_eval_async.cli.watch.screen import ROOMY_RESULTS, render
from tests.cli.watch.support import ALERT, JUDGE, facts, group, result

if TYPE_CHECKING:
    from collections.abc import Mapping

SCREENS = Path(__file__).parent / "screens"


def shown(facts: Mapping[str, Any], columns: int, rows: int, **more: Any) -> list[str]:
    """The lines in a terminal of a size, of which the last column and the last row stay free."""
    lines = render(facts, width=columns - 1, height=rows - 1, **more)
    assert len(lines) < rows
    assert all(line.cell_len < columns for line in lines)
    return [line.plain for line in lines]


ROW = {"difference": -0.0512, "pairs": 1200, "wins": 40, "losses": 101}
ROWS = {
    "error_rate": ROW | {"confidence": {"low": -0.1, "high": 0.012}, "verdict": "undecided"},
    "steps_score": ROW | {"confidence": {"low": -0.0904, "high": -0.0123}, "verdict": "worse"},
    "answer_relevance": ROW | {"difference": 0.00123},
}
COMPARISON: dict[str, Any] = {
    "overall": ROWS | {"total_tokens": ROW},
    "per_template": {
        "lines": {"steps_score": {"verdict": "worse"}, "answer_f1": {"verdict": "worse"}, "total_tokens": {}},
        "settings": {"steps_score": {"verdict": "better"}},
        "sums": {"error_rate": {"verdict": "worse"}},
    },
    "warnings": [],
    "only_in_baseline": 40,
    "only_in_candidate": 0,
}

GOLDEN: dict[str, dict[str, Any]] = {
    "80x24": facts(),
    "80x24-alert": facts(alerts=[ALERT], show="worst"),
    "80x24-steps": facts(judged=False, templates=("sums",)),
    "80x24-many": facts(templates=tuple(f"template {i}: " + "long " * 20 for i in range(30))),
    "80x24-baseline": facts(comparison=COMPARISON),
    "60x20": facts(),
    "80x60": facts(),
    "120x40": facts(
        overall=group(1206, 200, 0.8312, judged=True)
        | {
            "coverage": {
                "steps_score": {"applied": 9, "values": 6, "failed": {"no_steps": 3}, "pending": 0},
                "answer_f1": {
                    "applied": 9,
                    "values": 4,
                    "failed": {"timeout": 2, "response_error": 1},
                    "pending": 2,
                },
            },
            "failure": {"none": 800, "wrong_order": 6},
        },
        journal={"restored": 1000},
        skipped=20,
        window={"seconds": 300.0},
        judge=JUDGE
        | {"paused_sec": 12.4, "dollars": None, "budget_usd": None, "retries": {}, "errors": {"timeout": 2}},
    ),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_golden(name: str) -> None:
    columns, rows = map(int, name.split("-")[0].split("x"))
    assert shown(GOLDEN[name], columns, rows) == (SCREENS / f"{name}.txt").read_text().splitlines()


def test_colours_do_not_change_the_text() -> None:
    lines = render(facts(alerts=[ALERT]), width=79, height=23)
    console = Console(file=StringIO(), force_terminal=True, color_system="standard", width=200)
    with console.capture() as capture:
        for line in lines:
            console.print(line, soft_wrap=True)
    coloured = capture.get()
    assert "\x1b[1;31mALERT lines" in coloured
    plain = re.sub(r"\x1b\[[\d;]*m", "", coloured)
    assert (
        plain.splitlines() == (SCREENS / "80x24-alert.txt").read_text().replace("worst", "last").splitlines()
    )


def test_quoted_text_is_one_line_without_control_characters() -> None:
    results = [{**result(3, judged=False), "question_id": "q\n\x1b[2J", "error": "e\n\x9b"}]
    odd = facts(
        templates=("t\x1b[31m\nx",), results=results, paths=["a\x07"], alerts=[{**ALERT, "alert": "\x1b"}]
    )
    text = "\n".join(shown(odd, 120, 40))
    assert all(character.isprintable() or character == "\n" for character in text)
    for quoted in (r"t\x1b[31m x", r"q \x1b[2J", r"e \x9b", r"watching a\x07", r"ALERT \x1b: 0.7951"):
        assert quoted in text


def test_a_long_path_gives_its_name() -> None:
    assert shown(facts(paths=["/long" * 20 + "/agent.jsonl", "logs/"]), 80, 24)[0].startswith(
        "watching agent.jsonl logs  "
    )


def test_the_window_line_appears_only_if_it_differs() -> None:
    """Which leaves room for more templates."""
    names = tuple(f"t{i:02}" for i in range(20))
    many = facts(judged=False, templates=names, alerts=[], results=[])
    shown_before = sum(line.startswith("t") for line in shown(many, 80, 24))
    for each in many["templates"].values():
        each["samples"]["window"] = each["samples"]["total"]
    lines = shown(many, 80, 24)
    assert sum(line.startswith("t") for line in lines) >= 2 * shown_before
    assert sum(line.startswith("  last 200") for line in lines) == 1
    assert len(lines) == 23


def test_the_worst_templates_come_first() -> None:
    """Those whose responses fail, or have low scores, count as worse than those without scores."""
    names = ("good", "low", "failing", "unscored")
    mixed = facts(judged=False, templates=names, results=[])
    for name, score, error_rate in (("good", 0.9, 0.0), ("low", 0.5, 0.0), ("failing", 0.9, 0.9)):
        mixed["templates"][name]["metrics"]["steps_score"]["mean"] = score
        mixed["templates"][name]["error_rate"]["mean"] = error_rate
    mixed["templates"]["unscored"]["metrics"].clear()
    mixed["templates"]["unscored"]["error_rate"]["mean"] = None
    found = [line.split()[0] for line in shown(mixed, 80, 60) if line.startswith(names)]
    assert found == ["failing", "low", "good", "unscored"]
    assert [*mixed["templates"]] == [*names]


@pytest.mark.parametrize("columns", [40, 60, 80, 120])
def test_the_worst_results_say_why_they_failed(columns: int) -> None:
    reason = "right_steps_wrong_answer"
    results = [{**result(1, judged=True), "failure": reason}, {**result(2, judged=True), "failure": "none"}]
    lines = shown(facts(results=results, show="worst"), columns, 40)
    first, second = lines[lines.index("worst results") + 1 :]
    assert columns < 60 or (reason in first and "#1" in first)
    assert reason not in second
    assert not any(reason in line for line in shown(facts(results=results), columns, 40))


def test_paths_that_are_not_there_yet() -> None:
    paths = ["agent.jsonl", "logs/*.jsonl", "evil\x1b[2J", "d", "e"]
    lines = [line.plain for line in render(facts(not_found=paths), 80, 40)]
    first = lines.index("not there yet: agent.jsonl")
    assert lines[first + 1] == "not there yet: logs/*.jsonl"
    assert "\x1b" not in lines[first + 2]
    assert lines[first + 3] == "... and 2 more paths"


def test_three_alerts_and_how_many_more() -> None:
    alerts = [{"alert": f"x < {i}", "value": None} for i in range(7)]
    screen = shown(facts(alerts=alerts), 80, 20)
    assert [line for line in screen if line.startswith(("ALERT", "... and"))] == [
        *("... and 2 more templates", "ALERT x < 0: no values", "ALERT x < 1: no values"),
        *("ALERT x < 2: no values", "... and 4 more alerts"),
    ]


def test_a_comparison_is_dropped_first() -> None:
    def compared(rows: int) -> list[str]:
        lines = shown(facts(comparison=COMPARISON), 80, rows)
        return [line.split()[2] for line in lines if line.startswith("vs baseline: ")]

    assert compared(40) == ["worse", "error_rate", "steps_score", "answer_relevance"]
    assert compared(16) == ["worse", "error_rate"]
    assert compared(8) == []
    nothing = COMPARISON | {"overall": {}, "per_template": {}}
    assert "vs baseline: no question in common yet" in shown(facts(comparison=nothing), 80, 24)


@pytest.mark.parametrize("count", range(1, 6))
def test_results_have_lines_before_the_trust_in_templates(count: int) -> None:
    """As many lines as tell it of all templates, and nine for results, or it is told of none."""
    many = facts(templates=tuple(f"t{i}" for i in range(count)))
    trusted = set()
    for rows in range(24, 60):
        screen = shown(many, 80, rows)
        told = sum(line.startswith("  95 % from") for line in screen) - 1
        assert told in (0, count)
        results = len(screen) - screen.index("last results")
        assert not told or results >= ROOMY_RESULTS - 1
        trusted.add(told)
    assert trusted == {0, count}


def test_comparison_warnings_come_first() -> None:
    def first(**more: Any) -> tuple[str, Any]:
        lines = render(facts(comparison=COMPARISON | more), width=79, height=15)
        line = next(line for line in lines if line.plain.startswith("vs baseline: "))
        return line.plain.removeprefix("vs baseline: "), line.style

    warnings = ["the two were judged by different models: \x1b"]
    assert first()[0] == "worse in lines (steps_score, answer_f1), sums (error_rate)"
    assert first(only_in_candidate=3) == ("3 questions are not in it", "dim")
    assert first(warnings=warnings) == (r"warning: the two were judged by different models: \x1b", "red")
    text, style = first(warnings=warnings * 2, only_in_candidate=1)
    assert text.startswith("1 question is not in it; warning: the two were judged by")
    assert style == "red"


def test_nothing_yet() -> None:
    empty = {"total": 0, "window": 0, "trend": [0]}
    nothing = {
        "samples": empty,
        "errors": empty,
        "error_rate": {"mean": None, "window": None},
        "metrics": {},
        "coverage": {},
        "failure": {},
    }
    screen = shown(facts(judged=False, templates=(), overall=nothing, results=[], rejects={}), 80, 24)
    assert [line.split() for line in screen[2:4]] == [["samples", "errors"], ["overall", "0", "0"]]
    assert not any("last 200" in line for line in screen)
    assert "rejects none" in screen[-2]


@given(
    st.integers(2, 200),
    st.integers(1, 60),
    st.booleans(),
    st.lists(st.text("x \u754c", max_size=60), max_size=12, unique=True),
    st.integers(0, 5),
    st.integers(0, 40),
)
def test_any_size_is_kept_to(
    columns: int, rows: int, judged: bool, templates: list[str], alerts: int, results: int
) -> None:
    many = facts(judged=judged, templates=tuple(templates), alerts=[ALERT] * alerts)
    many["results"] = many["results"][:results]
    screen = shown(many, columns, rows)
    assert screen == [line.rstrip() for line in screen]
    assert not screen or rows < 8 or columns < 30 or any(line.startswith("overall") for line in screen)
