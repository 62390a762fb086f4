"""Runs that a test makes up, and what screens are given of them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.catalogue.conditions import parse_condition
from graphrag_eval_async.records.evaluation import Evaluation
from graphrag_eval_async.records.token_usage import TokenUsage
from graphrag_eval_async.reports.html_report import html_report
from graphrag_eval_async.reports.report_results import ReportResults
from graphrag_eval_async.reports.summary import Reading, Summary

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

MODEL = {
    "provider": "openai",
    "model": "gpt-4o-mini",
    "api_key": "k",
    "pricing": {"input_usd_per_million": 1.0, "output_usd_per_million": 10.0},
}
LAG: Any = SimpleNamespace(lag=SimpleNamespace(bytes=12, seconds=0.5), not_found=["logs"])
"""What a run sees of the files that it follows."""


class _Judge:
    """Finds the one claim of the reference answer among two."""

    model = "scripted"

    async def complete(self, *_: Any) -> tuple[Any, TokenUsage]:
        matches = [{"reference": 0, "actual": 0}]
        claims = {"reference_claims": ["a"], "actual_claims": ["a", "b"]}
        return {**claims, "reason": "so", "matches": matches}, TokenUsage(100, 10)


JUDGE: Any = _Judge()


def with_answers(reference: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same reference set, whose questions have answers."""
    return [
        each
        | {"questions": [question | {"reference_answer": "a"} for question in each["questions"]]}
        for each in reference
    ]


def result(question_id: str, score: float | None = 1.0, **more: Any) -> dict[str, Any]:
    """A result whose steps have a score, or none."""
    scored = (
        {}
        if score is None
        else {"steps_score": score, "failure": "none" if score == 1 else "wrong_order"}
    )
    return {"question_id": question_id, "template_id": "t", "status": "success", **scored} | more


def failed(question_id: str, error: str = "no answer", **more: Any) -> dict[str, Any]:
    return result(question_id, None, status="error", error=error, **more)


def seen(values: Mapping[str, float] | None, template: str = "t") -> Evaluation:
    """What screens see of a result with these values, None for an error."""
    failed, values = values is None, values or {}
    return Evaluation(template, None, failed, 0, (*values,), (*values.values(),))


def summary_of(
    results: Iterable[Mapping[str, Any]],
    baseline: Iterable[Mapping[str, Any]] | None = None,
    *,
    pass_if: Iterable[str] = (),
    **more: Any,
) -> Summary:
    reading = Reading([*map(parse_condition, pass_if)], compares=baseline is not None)
    for each in baseline or ():
        reading.add_baseline(each)
    for each in results:
        reading.add(each)
    return reading.summary(**more)


def report_of(
    results: Iterable[Mapping[str, Any]],
    baseline: Iterable[Mapping[str, Any]] | None = None,
    **more: Any,
) -> str:
    """The HTML report of a run with these results."""
    kept = [*results]
    collected = ReportResults()
    for each in kept:
        collected.add(each)
    return html_report(summary_of(kept, baseline, **more), collected)
