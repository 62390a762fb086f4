"""Whether a run is getting worse, as far as that can be said at every look."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.aggregates import Last
from graphrag_eval_async.monitor.changes import getting_worse
from graphrag_eval_async.monitor.history import History
from tests.cases import each

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

LEVEL = 0.95


def short(value: float | None, template: str = "t", score: str = "steps_score") -> dict[str, Any]:
    """What a history reads of a result; None stands for an error."""
    metrics = {} if value is None else {score: value}
    status = "error" if value is None else "success"
    return {"status": status, "template_id": template, "sample": None, "metrics": metrics}


def told(values: Sequence[tuple[str, float | None]], score: str = "steps_score") -> str:
    """What is told of results, each with its template."""
    history = History(Last(200))
    for template, value in values:
        history.add(short(value, template, score))
    return getting_worse(history.courses(), [score], LEVEL)


def first_yes(draw: Callable[[int], float], results: int, looks: int, after: int = 0) -> int | None:
    """After how many results it first says yes, by a look after so many each."""
    history = History(Last(200))
    for i in range(1, results + 1):
        history.add(short(draw(i)))
        is_due = i > after and not i % looks
        if is_due and getting_worse(history.courses(), ["steps_score"], LEVEL).startswith("yes"):
            return i
    return None


def test_a_fall_is_said_soon() -> None:
    """From 0.9 to 0.7 after 2,000 results."""
    for seed in range(12):
        random = Random(seed)
        found = first_yes(lambda i: float(random.random() < (0.9 if i <= 2000 else 0.7)), 2300, 25, 2000)  # noqa: B023
        assert found is not None, seed


def test_an_unchanged_run_is_not_getting_worse() -> None:
    random = Random(1)
    assert first_yes(lambda _: float(random.random() < 0.9), 10_000, 200) is None
    assert first_yes(lambda _: random.random(), 2_000, 100) is None


@each(
    ("values", "expected"),
    [
        ([("t", 1.0)] * 49, "too early to say, after 49 results"),
        ([("t", 1.0), ("t", 0.0)] * 500, "no clear change"),
        (
            [("t", 1.0)] * 3800 + [("t", 0.5)] * 200,
            "yes: steps_score 0.500 after the first 3800 results, 1.000 before",
        ),
        (
            [("t", None), ("t", 0.5)] * 300 + [("t", 0.5)] * 300,
            "no, better: errors in 0.0% of the results after the first 600 results, 50.0% before",
        ),
        # One of 30 templates, while all others stay as they are.
        (
            [(f"t{i}", float((i + j) % 2 if i else j < 100)) for j in range(200) for i in range(30)],
            "yes: template t0: steps_score 0.000 after the first 100 results, 1.000 before",
        ),
    ],
)
def test_what_is_said(values: list[tuple[str, float | None]], expected: str) -> None:
    assert told(values) == expected


def test_an_output_of_any_range_is_not_judged() -> None:
    assert told([("t", 5.0)] * 1000 + [("t", 1.0)] * 500, score="tone") == "no clear change"
