"""What the page says of recent results, and of scores without a value."""

from __future__ import annotations

from random import Random
from typing import Any

from graphrag_eval_async.monitor.changes import getting_worse
from tests.cases import each

WINDOW = "last 200"


def group(means: dict[str, tuple[float, float]], total: int, window: int, rate: Any = (0.0, 0.0)) -> Any:
    mean, recent = rate
    return {
        "samples": {"total": total, "window": window},
        "errors": {"total": round(total * mean), "window": round(window * recent)},
        "error_rate": {"mean": mean, "window": recent},
        "metrics": {name: {"mean": a, "window": b} for name, (a, b) in means.items()},
    }


def told(overall: Any, **templates: Any) -> str:
    facts = {"overall": overall, "templates": templates, "level": 0.95}
    return getting_worse(facts, WINDOW)


NO_ERRORS = "errors: 0.0% of the last 200, 0.0% of all"
SAME = {"steps_score": (0.94, 0.94)}


@each(
    ("overall", "templates", "expected"),
    [
        (group(SAME, 150, 150), {}, "too early to say: all results are within the last 200"),
        (
            group(SAME, 4000, 200, (0.039, 0.085)),
            {},
            "yes: errors: 8.5% of the last 200, 3.9% of all",
        ),
        (
            group(SAME, 4000, 200),
            {"outages": group({"steps_score": (0.92, 0.62)}, 330, 17), "lines": group(SAME, 330, 17)},
            "yes: template outages: steps_score 0.620 in the last 200, 0.920 over all",
        ),
        (
            group({"steps_score": (0.9, 0.9), "answer_f1": (0.5, 0.8)}, 4000, 200),
            {},
            "no, better: answer_f1 0.800 in the last 200, 0.500 over all",
        ),
        (
            group({"steps_score": (0.943, 0.93)}, 4000, 200),
            {},
            f"no clear change: steps_score 0.930 in the last 200, 0.943 over all; {NO_ERRORS}",
        ),
        # A custom output may have any range.
        (
            group({"tone": (5.0, 1.0)}, 4000, 200),
            {},
            "no clear change: errors: 0.0% of the last 200, 0.0% of all",
        ),
    ],
)
def test_recent_results(overall: Any, templates: dict[str, Any], expected: str) -> None:
    assert told(overall, **templates) == expected


def test_chance_alone_is_rarely_a_clear_change() -> None:
    random, clear = Random(5), 0
    for _ in range(400):
        values = [[random.random() < 0.8 for _ in range(1000)] for _ in range(12)]
        groups = {}
        for i, own in enumerate(values):
            groups[f"t{i}"] = group({"steps_score": (sum(own) / 1000, sum(own[-20:]) / 20)}, 1000, 20)
        every = [value for own in values for value in own]
        recent = [value for own in values for value in own[-20:]]
        overall = group({"steps_score": (sum(every) / 12000, sum(recent) / 240)}, 12000, 240)
        clear += not told(overall, **groups).startswith("no clear change")
    assert clear <= 400 * 0.08
