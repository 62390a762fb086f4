from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st

from graphrag_eval_async.cli.commands.watch.screen import render, sparkline
from tests.cli.watch.support import ALERT, JUDGE, facts, group, result
from tests.support.cases import each

if TYPE_CHECKING:
    from collections.abc import Mapping

SCREENS = Path(__file__).parent / "screens"


def shown(facts: Mapping[str, Any], columns: int, rows: int, **more: Any) -> list[str]:
    """The lines in a terminal of a size, of which the last column and the last row stay free."""
    lines = render(facts, width=columns - 1, height=rows - 1, **more)
    assert len(lines) < rows
    assert all(line.cell_len < columns for line in lines)
    return [line.plain for line in lines]


GOLDEN: dict[str, dict[str, Any]] = {
    "80x24": facts(),
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


def test_the_address_of_the_page_comes_second() -> None:
    address = "http://127.0.0.1:8080/"
    without, lines = shown(facts(), 80, 24), shown(facts(), 80, 24, address=address)
    assert lines[:3] == [without[0], address, without[1]]


@each("name", GOLDEN)
def test_golden(name: str) -> None:
    columns, rows = map(int, name.split("-")[0].split("x"))
    assert shown(GOLDEN[name], columns, rows) == (SCREENS / f"{name}.txt").read_text().splitlines()


def test_quoted_text_is_one_line_without_control_characters() -> None:
    results = [{**result(3, judged=False), "question_id": "q\n\x1b[2J", "error": "e\n\x9b"}]
    evil: dict[str, Any] = {
        "alerts": [{**ALERT, "alert": "\x1b"}],
        "not_found": ["gone\x1b[2J"],
        "paths": ["a\x07"],
    }
    odd = facts(templates=("t\x1b[31m\nx",), results=results, **evil)
    text = "\n".join(shown(odd, 120, 40))
    assert all(character.isprintable() or character == "\n" for character in text)
    for quoted in (
        r"t\x1b[31m x",
        r"q \x1b[2J",
        r"e \x9b",
        r"a\x07",
        r"ALERT \x1b: ",
        r"gone\x1b[2J",
    ):
        assert quoted in text


def test_the_lowest_templates_come_first() -> None:
    """Templates whose responses fail, or have low scores, count as worse than those without
    scores.
    """
    names = {"good": (0.9, 0.0), "low": (0.5, 0.0), "failing": (0.9, 0.9), "unscored": (None, None)}
    mixed = facts(judged=False, templates=tuple(names), results=[])
    for row, (score, error_rate) in zip(mixed["templates"].values(), names.values(), strict=True):
        row["metrics"]["steps_score"]["mean"] = score
        row["error_rate"]["mean"] = error_rate
    mixed["templates"]["unscored"]["metrics"].clear()
    lines = shown(mixed, 80, 60)
    found = [line.split()[0] for line in lines if line.startswith((*names,))]
    assert found == ["failing", "low", "good", "unscored"]


def test_the_worst_results_say_why_they_failed() -> None:
    reason = "right_steps_wrong_answer"
    results = [
        result(1, judged=True) | {"failure": reason},
        result(2, judged=True) | {"failure": "none"},
    ]
    lines = shown(facts(results=results, show="worst"), 60, 40)
    first, second = lines[lines.index("worst results") + 1 :]
    assert reason in first
    assert reason not in second
    assert not any(reason in line for line in shown(facts(results=results), 80, 40))


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
    many = facts(judged=judged, templates=tuple(templates), alerts=[ALERT])
    many["results"] = many["results"][:results]
    screen = shown(many, columns, rows)
    assert screen == [line.rstrip() for line in screen]
    assert rows < 8 or columns < 30 or any(line.startswith("overall") for line in screen)


@given(st.integers(1, 40), st.integers(8, 60))
def test_as_many_templates_are_shown_as_fit(count: int, rows: int) -> None:
    names = [f"t{i:02}" for i in range(count)]
    many = facts(judged=False, templates=tuple(names), results=[])
    for place, name in enumerate(names):
        many["templates"][name]["metrics"]["steps_score"]["mean"] = place / count
    lines = shown(many, 80, rows)
    found = [line.split()[0] for line in lines if line.startswith("t") and line[1].isdigit()]
    assert found == names[: len(found)]
    assert (f"{len(found)} of {count} templates, lowest first" in lines) == (len(found) < count)


@given(st.lists(st.none() | st.floats(-1e100, 1e100), max_size=40))
def test_sparklines(points: list[float | None]) -> None:
    """Higher points have higher bars, of which the lowest and the highest are there."""
    line = sparkline(points)
    latest = points[-6:]
    assert [bar == " " for bar in line] == [point is None for point in latest]
    known = sorted(
        (point, bar) for point, bar in zip(latest, line, strict=True) if point is not None
    )
    assert [bar for _, bar in known] == sorted(bar for _, bar in known)
    assert not known or known[0][0] == known[-1][0] or (known[0][1], known[-1][1]) == ("▁", "█")
