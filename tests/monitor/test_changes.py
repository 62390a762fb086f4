"""What the page says of recent results, and of scores without a value."""

from __future__ import annotations

from itertools import zip_longest
from random import Random
from typing import TYPE_CHECKING

import pytest

from graphrag_eval_async.aggregates import Last
from graphrag_eval_async.monitor.changes import getting_worse
from graphrag_eval_async.monitor.history import History
from tests.cases import each

if TYPE_CHECKING:
    from collections.abc import Callable

LEVEL = 0.95
NO_ERRORS = "errors in 0.0% of the last 200 results, 0.0% before"
Group = tuple[str, list[float | None], list[float | None]]


def spread(mean: float, count: int, start: int = 0) -> list[float | None]:
    """So many zeros and ones with about this mean, evenly spread."""
    return [float(int((i + 1) * mean) - int(i * mean)) for i in range(start, start + count)]


def told(*groups: Group, window: int = 200, score: str = "steps_score") -> str:
    """What is told of templates, each with its scores, None for errors, before and of late."""
    history = History(Last(window))
    for late in (0, 1):
        columns = [iter(group[1 + late]) for group in groups]
        for values in zip_longest(*columns, fillvalue=...):
            for (template, _, _), value in zip(groups, values, strict=True):
                if value is not ...:
                    metrics = {} if value is None else {score: value}
                    status = "error" if value is None else "success"
                    history.add(
                        {"status": status, "template_id": template, "sample": None, "metrics": metrics}
                    )
    return getting_worse(history.courses(), [score], LEVEL)


def others(count: int) -> list[Group]:
    """Templates that stay as they are, each with so many results before and of late."""
    return [(f"t{i}", spread(0.94, count, i), spread(0.94, count, count + i)) for i in range(29)]


@each(
    ("groups", "expected"),
    [
        ([("t", spread(1, 5), spread(1, 5))], "too early to say, after 10 results"),
        (
            [("t", [1.0] * 3800, spread(0.9, 200))],
            "yes: steps_score 0.900 in the last 200 results, 1.000 before",
        ),
        (
            [("t", [*spread(0.9, 457), *[None] * 43], spread(0.9, 200))],
            "no, better: errors in 0.0% of the last 200 results, 8.6% before",
        ),
        # One of 30 templates, while all others stay as they are.
        (
            [("lines", spread(0.75, 60), spread(0.1, 60)), *others(60)],
            "yes: template lines: steps_score 0.100 in its last 50 results, 0.657 before",
        ),
        (
            [("lines", spread(0.94, 12), spread(0.0, 12)), *others(12)],
            "yes: template lines: steps_score 0.000 in its last 12 results, 0.917 before",
        ),
        (
            [("t", spread(0.94, 3800), spread(0.93, 200))],
            f"no clear change: steps_score 0.930 in the last 200 results, 0.940 before; {NO_ERRORS}",
        ),
    ],
)
def test_recent_results(groups: list[Group], expected: str) -> None:
    assert told(*groups) == expected


def test_scores_that_vary_little_need_few_results() -> None:
    before: list[float | None] = [0.7, 0.8, 0.9] * 12
    late: list[float | None] = [0.35, 0.45, 0.55] * 12
    steady: list[Group] = [(f"t{i}", before, before) for i in range(29)]
    expected = "yes: template lines: steps_score 0.450 in its last 36 results, 0.800 before"
    assert told(("lines", before, late), *steady).startswith(expected)


def test_an_output_of_any_range_is_not_judged() -> None:
    """A custom output may have any range."""
    assert told(("t", [5.0] * 1000, [1.0] * 200), score="tone") == f"no clear change: {NO_ERRORS}"


@pytest.mark.parametrize("draw", [lambda u: float(u < 0.8), lambda u: u**0.3, lambda u: 0.5 + (u < 0.9) / 2])
def test_chance_alone_is_rarely_a_clear_change(draw: Callable[[float], float]) -> None:
    random, clear = Random(5), 0
    for _ in range(200):
        groups: list[Group] = [
            (f"t{i}", [draw(random.random()) for _ in range(280)], [1.0]) for i in range(12)
        ]
        clear += not told(*groups).startswith("no clear change")
    assert clear <= 200 * 0.08
