from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag_eval_async.aggregates import Last, Seconds
from graphrag_eval_async.cli.watch.columns import BARS, lay_out, sparkline
from graphrag_eval_async.monitor.windows import POINTS, Trends
from tests.cli.watch.support import facts as shown_facts

LINES: list[tuple[list[float | None], int, str]] = [
    ([], 5, ""),
    ([0.5], 5, "▄"),
    ([1, 1, 1], 5, "▄▄▄"),
    ([0, 1], 5, "▁█"),
    ([0, 1, 2, 3, 4, 5, 6, 7], 8, BARS),
    ([7, 6, 5, 4, 3, 2, 1, 0], 4, "█▆▃▁"),
    ([None, 1, None, 2], 4, " ▁ █"),
    ([None, None], 4, "  "),
    ([None, 3, 5, None], 2, "▁█"),
    ([1, 2, 3], 0, ""),
]


@pytest.mark.parametrize(("points", "width", "line"), LINES)
def test_sparkline(points: list[float | None], width: int, line: str) -> None:
    assert sparkline(points, width) == line


@given(st.lists(st.none() | st.floats(-1e100, 1e100), max_size=40), st.integers(0, 20))
def test_any_points_have_a_line(points: list[float | None], width: int) -> None:
    line = sparkline(points, width)
    assert len(line) == min(width, len(points))
    assert set(line) <= {" ", *BARS}


def facts(number: int, value: float | None = 0.5) -> dict[str, Any]:
    """Of so many results after as many seconds."""
    group = {"samples": {"window": number}, "errors": {"window": 0}, "metrics": {"cost": {"window": value}}}
    return {
        "overall": group,
        "templates": {"cost": {**group, "cost": {"window": 2.0}}},
        "elapsed_sec": number,
    }


def trend(trends: Trends, number: int, value: float | None = 0.5) -> list[float | None]:
    """That of a metric, which is called like something else."""
    now = facts(number, value)
    now["overall"]["samples"]["total"] = number
    trends.add_to(now)
    assert now["templates"]["cost"]["cost"]["trend"][-1] == 2.0
    assert now["overall"]["samples"]["trend"][-1] == number
    result: list[float | None] = now["overall"]["metrics"]["cost"]["trend"]
    return result


@pytest.mark.parametrize("window", [Last(80), Seconds(80)])
def test_a_trend_has_a_point_for_each_eighth_of_a_window(window: Last | Seconds) -> None:
    trends = Trends(window)
    assert trend(trends, 0, None) == [None]
    assert trend(trends, 5, 0.25) == [None, 0.25]
    assert trend(trends, 9, 0.5) == [None, 0.5]
    assert trend(trends, 10, 0.75) == [None, 0.75]
    assert trend(trends, 11, 0.5) == [None, 0.75, 0.5]
    for number in range(20, 10_000, 10):
        points = trend(trends, number)
    assert len(points) == POINTS
    assert len(trend(trends, 9_991)) == POINTS + 1


def test_all_that_the_screen_shows_has_a_trend() -> None:
    now = shown_facts()
    groups = [now["overall"], *now["templates"].values()]
    for group in groups:
        for each in (group["samples"], group["errors"], group["cost"], *group["metrics"].values()):
            del each["trend"]
    Trends(Last(200)).add_to(now)
    grid = lay_out(now["overall"], ["name"], 200)
    assert len(grid.columns) > 8
    for group in groups:
        for column in grid.columns:
            found = column.of(group)
            assert found["trend"] == [found["window"]]
