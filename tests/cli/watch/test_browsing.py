"""Which templates the screen shows."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag_eval_async.cli.watch.browsing import ORDERS, Browsing
from graphrag_eval_async.cli.watch.screen import render
from tests.cli.watch.support import facts

LINES = st.lists(st.integers(1, 3), max_size=30)


def after(keys: str, count: int = 30, room: int = 4) -> range:
    """What is shown of templates of a line each, with a view after each key."""
    browsing = Browsing()
    lines = [1] * count
    for key in keys.split():
        browsing.fit(lines, room)
        browsing.press({"space": " ", "esc": "\x1b"}.get(key, key.replace("^", "\x1b")))
    return browsing.fit(lines, room)


@pytest.mark.parametrize(
    ("keys", "first"),
    [
        ("", 0),
        ("j j", 2),
        ("^[B ^OB j k ^[A", 1),
        ("k", 0),
        ("space ^[6~ b", 4),
        ("space space ^[5~", 4),
        ("G", 26),
        ("^[F j", 26),
        ("^[4~ k", 25),
        ("^OF g", 0),
        ("G ^[H", 0),
        ("G ^[1~ j", 1),
        ("G ^OA ^OH", 0),
        ("j j s", 0),
        ("jjj", 3),
        ("x é ^[200~ ^ ^[", 0),
    ],
)
def test_keys(keys: str, first: int) -> None:
    assert after(keys) == range(first, first + 4)


@given(LINES, st.integers(-2, 40), st.integers(0, 100))
def test_the_view_fills_the_screen(lines: list[int], room: int, first: int) -> None:
    browsing = Browsing()
    browsing.first = first
    shown = browsing.fit(lines, room)
    assert 0 <= shown.start <= shown.stop <= len(lines)
    assert sum(lines[shown.start : shown.stop]) <= max(0, room)
    if shown.stop < len(lines):
        assert sum(lines[shown.start : shown.stop + 1]) > room
    if shown.start and shown.start < first:
        assert sum(lines[shown.start - 1 :]) > room


@given(LINES.filter(bool), st.integers(3, 40))
def test_each_template_is_on_a_page(lines: list[int], room: int) -> None:
    browsing, seen = Browsing(), set[int]()
    for _ in lines:
        seen.update(browsing.fit(lines, room))
        browsing.press(" ")
    assert seen == {*range(len(lines))}


def shown(browsing: Browsing, count: int, rows: int = 24) -> list[str]:
    many: dict[str, Any] = facts(judged=False, templates=tuple(f"t{i:02}" for i in range(count)), results=[])
    for i, (_, group) in enumerate(many["templates"].items()):
        group["samples"] |= {"total": i + 10, "window": i + 10}
        group["errors"]["total"] = (i * 7) % count
        group["metrics"]["steps_score"]["mean"] = ((i * 11) % count) / count
        group["error_rate"]["mean"] = 0.0
    return [line.plain for line in render(many, 79, rows - 1, browsing=browsing)]


def test_orders() -> None:
    browsing = Browsing()
    browsing.has_keys = True
    found = {}
    for order in ORDERS:
        lines = shown(browsing, 30)
        [note] = [line for line in lines if " of 30 templates, " in line]
        assert note.startswith("1 to ")
        assert order in note
        assert note.endswith("; s sorts, j k PgDn PgUp scroll")
        found[order] = [line.split()[0] for line in lines if line.startswith("t")][:3]
        browsing.press("s")
    assert found == {
        "worst first": ["t00", "t11", "t22"],
        "by name": ["t00", "t01", "t02"],
        "most samples first": ["t29", "t28", "t27"],
        "most errors first": ["t17", "t04", "t21"],
    }
    assert browsing.order == "worst first"


@pytest.mark.parametrize("rows", range(1, 60, 7))
@pytest.mark.parametrize("count", [0, 1, 30])
def test_the_line_about_keys(count: int, rows: int) -> None:
    """It takes the place of the count of those left out."""
    browsing = Browsing()
    assert not any("sorts" in line for line in shown(browsing, count, rows))
    browsing.has_keys = True
    browsing.press("G")
    lines = shown(browsing, count, rows)
    assert len(lines) < rows
    notes = [line for line in lines if " sorts" in line]
    assert len(notes) == (count > 0 and rows > 1)
    assert not any(line.startswith("... and") and "template" in line for line in lines)
    names = [line.split()[0] for line in lines if line.startswith("t")]
    assert not notes or notes[0].startswith(
        f"{count - len(names) + 1} to {count} of " if names else "none of "
    )
