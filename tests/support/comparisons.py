"""Results made for comparisons, and how tests compare them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphrag_eval_async.inference.comparison import RunningComparison

if TYPE_CHECKING:
    from collections.abc import Iterable

Results = list[dict[str, Any]]


def result(question: str, template: str = "t", **more: Any) -> dict[str, Any]:
    """Return a result without a score."""
    return {"template_id": template, "question_id": question, "status": "success", **more}


def compared(baseline: Iterable[Any], candidate: Iterable[Any], **options: Any) -> dict[str, Any]:
    """Return the snapshot of a comparison of these results."""
    comparison = RunningComparison(**options)
    for baseline_result in baseline:
        comparison.add_baseline(baseline_result)
    for candidate_result in candidate:
        comparison.add(candidate_result)
    return comparison.snapshot()


def scored(
    values: Iterable[float], template: str = "t", *, separator: str = "", **more: Any
) -> Results:
    """Return a result for each of these values of `steps_score`.

    `separator` stands between the template and the number in the ids of the questions.
    """
    return [
        result(f"{template}{separator}{number}", template, steps_score=value, **more)
        for number, value in enumerate(values)
    ]


def scored_in(template: str, values: Iterable[float], **more: Any) -> Results:
    """Return the same with questions such as lines-0."""
    return scored(values, template, separator="-", **more)


LONG_NAME = "very long names of templates"
GOOD = scored_in("lines", [0.5] * 40, total_tokens=900) + scored_in(LONG_NAME, [1.0] * 12)
BETTER = scored_in("lines", [1.0] * 40, total_tokens=1200) + GOOD[40:]
WORSE = [
    *scored_in("lines", [0.5] * 40, total_tokens=1200),
    *scored_in(LONG_NAME, [0.05 * number for number in range(12)]),
]
