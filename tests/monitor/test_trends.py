from __future__ import annotations

from typing import Any

import pytest

from graphrag_eval_async.aggregates import Last, Seconds
from graphrag_eval_async.monitor.windows import POINTS, Trends


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
