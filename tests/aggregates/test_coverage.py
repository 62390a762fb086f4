"""How many samples a metric applies to, and what came of it in them."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st

from graphrag_eval_async import compute_aggregates
from graphrag_eval_async.errors import FAILURES
from graphrag_eval_async.records.results import observe
from tests.aggregates.made import aggregated, bits, result
from tests.aggregates.strategies import CARRIED, CORRECTNESS, JUDGE, PARTS, RETRIEVAL, judged

if TYPE_CHECKING:
    from collections.abc import Iterator


def kind(error: Any) -> str:
    words = error.split(":") if isinstance(error, str) else [""]
    return words[0] if words[0] in FAILURES else "other"


def outcomes(result: dict[str, Any], include_errors: bool) -> Iterator[tuple[str, Any]]:
    """Each metric that may apply to a result, with its value or, as a text, the kind of its
    failure.
    """
    failed = result["status"] == "error"
    counts = include_errors or not failed
    yield from (
        (metric, result[metric] if counts else "response_error")
        for metric in CARRIED
        if metric in result
    )
    for metric in (*CORRECTNESS, "answer_relevance", "ragas_answer_correctness", "steps_score"):
        error = "answer_eval_error" if metric in CORRECTNESS else f"{metric}_error"
        needed = {"steps_score": "reference_steps", "answer_relevance": "status"}.get(
            metric, "reference_answer"
        )
        if metric in result and counts:
            yield metric, Fraction(result[metric])
        elif result.get(error) is not None:
            yield metric, kind(result[error])
        elif failed and needed in result:
            yield metric, "response_error"
        elif metric != "steps_score" and needed in result and not answered(result, metric):
            yield metric, "no_answer"
        elif metric == "steps_score" and needed in result:
            yield metric, "not_scored" if result.get("actual_steps") else "no_steps"
    if "judge" not in result and (failed or not answered(result, "tone")):
        yield from (
            (output, "response_error" if failed else "no_answer") for output in JUDGE["outputs"]
        )
    if counts:
        yield from outcomes_of_outputs(result)
        for step in result.get("actual_steps", ()):
            yield from outcomes_of_step(step)


def answered(result: dict[str, Any], metric: str) -> bool:
    """Claims can be counted in an answer that says nothing, and there are none."""
    answer = result.get("actual_answer")
    return answer is not None if metric in CORRECTNESS else bool((answer or "").strip())


def outcomes_of_outputs(result: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for output, evaluation in (("tone", "style"), ("length", "style"), ("note", "words")):
        if output in result:
            value = result[output]
            value = "text" if isinstance(value, str) else value
            yield output, kind(result[f"{evaluation}_error"]) if value is None else value
        elif "judge" in result and not answered(result, "tone"):
            yield output, "no_answer"


def outcomes_of_step(step: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    if step["name"] != "retrieval":
        return
    for metric in RETRIEVAL:
        if metric in step:
            yield metric, Fraction(step[metric])
        elif step.get(f"{metric}_error") is not None:
            yield metric, kind(step[f"{metric}_error"])
    for about in ("answer", "context"):
        f1, errors = f"retrieval_{about}_f1", [f"retrieval_{about}_{part}_error" for part in PARTS]
        if f1 in step:
            yield f1, Fraction(step[f1])
        elif error := next((error for error in errors if step.get(error) is not None), None):
            yield f1, kind(step[error])


@given(st.lists(judged(), max_size=12), st.booleans())
def test_coverage_and_bounds(results: list[dict[str, Any]], include_errors: bool) -> None:
    read = [observe(result) for result in results]
    assert bits(aggregated(read)) == bits(aggregated(results))
    shown = compute_aggregates(results, include_errors=include_errors, detail=True)
    found = [
        (result["template_id"], *each)
        for result in results
        for each in outcomes(result, include_errors)
    ]
    known = {metric for _, metric, value in found if not isinstance(value, str)} | {"steps_score"}
    texts = {metric for _, metric, value in found if value == "text"} - known
    never = {metric for _, metric, value in found if value not in ("response_error", "no_answer")}
    known |= never - texts
    known |= {*CORRECTNESS} if known.intersection(CORRECTNESS) else set()
    assert {
        metric for metric, part in shown["micro"].items() if "coverage" in str(part)
    } == known & {metric for _, metric, _ in found}
    bounded = {"steps_score", *CORRECTNESS, "retrieval_context_f1"}
    counted = [result for result in results if include_errors or result["status"] != "error"]
    if any(result.get("judge") == JUDGE for result in counted):
        bounded.add("tone")
    for place, group in [*shown["per_template"].items(), ("micro", shown["micro"])]:
        for metric in known:
            own = [
                value
                for template, name, value in found
                if name == metric and place in (template, "micro")
            ]
            values = [value for value in own if not isinstance(value, str)]
            failed = Counter(value for value in own if isinstance(value, str))
            coverage = {
                "applied": len(own),
                "values": len(values),
                "failed": dict(failed),
                "pending": 0,
            }
            assert group.get(metric, {}).get("coverage") == (coverage if own else None)
            if own and metric in bounded:
                assert ("confidence" in group[metric]) == (values != [])
                low, high = (
                    float((sum(values) + end * failed.total()) / len(own)) for end in (0, 1)
                )
                assert group[metric]["bounds"] == {"low": low, "high": high}
                assert low <= group[metric].get("mean", low) <= high
        reasons = Counter(
            r["failure"] for r in results if "failure" in r and place in (r["template_id"], "micro")
        )
        assert group.get("failure", {}) == reasons
    for metric, macro in shown["macro"].items():
        groups = [group[metric] for group in shown["per_template"].values() if metric in group]
        for end in macro.get("bounds", ()):
            ends = [Fraction(group["bounds"][end]) for group in groups]
            assert macro["bounds"][end] == float(sum(ends) / len(ends))


def test_pending() -> None:
    """Until its complete version comes, a part counts as such in detailed snapshots alone."""
    whole = {"template_id": "a", "question_id": "q", "sample": 1}
    names = ["answer_correctness", "retrieval_context", "tone"]
    named = [("retrieval", "success"), ("retrieval", "error"), ("sparql", "success")]
    steps = [{"name": name, "status": status} for name, status in named]
    first = {**whole, "actual_steps": steps, "steps_score": 1, "elapsed_sec": 2, "pending": names}
    second = {**whole, "sample": 2, "pending": ["answer_correctness"]}
    aggregates = aggregated([first, second])
    assert aggregates.snapshot()["per_template"] == {}
    group = aggregates.snapshot(detail=True)["per_template"]["a"]
    coverage = {name: part["coverage"] for name, part in group.items() if isinstance(part, dict)}
    assert {name: part["pending"] for name, part in coverage.items()} == {
        **dict.fromkeys(CORRECTNESS, 2),
        **{f"retrieval_context_{part}": 1 for part in (*PARTS, "f1")},
        **dict.fromkeys(("tone", "steps_score", "elapsed_sec"), 1),
    }
    assert all(part["applied"] == part["pending"] for part in coverage.values())
    aggregates.add({**whole, "answer_recall": 1.0})
    aggregates.add({**whole, "sample": 3})
    micro = aggregates.snapshot(detail=True)["micro"]
    assert micro["answer_recall"]["coverage"] == {
        "applied": 2,
        "values": 1,
        "failed": {},
        "pending": 1,
    }
    assert "tone" not in micro


def test_outputs_that_are_fractions_may_be_known_late() -> None:
    one = aggregated([result(question_id="q2", tone=0.25, judge={"outputs": ["tone"]})])
    assert "confidence" not in one.snapshot(detail=True)["micro"]["tone"]
    one.merge(aggregated([result(tone=0.5, judge={"outputs": ["tone"], "fractions": ["tone"]})]))
    assert "confidence" in one.snapshot(detail=True)["micro"]["tone"]
