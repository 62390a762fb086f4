"""Words that terminal, pages and reports share about runs and reasons of failure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphrag_eval_async.catalogue.metrics import is_score
from graphrag_eval_async.catalogue.outcomes import AGENT_ERROR, CAUSED_BY_AGENT, NOT_RUN
from graphrag_eval_async.helpers.text import interval_cell, number, plural
from graphrag_eval_async.records.snapshots import (
    INTERVAL_KINDS,
    counts_of,
    interval_of_mean,
    mean_of_questions,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from graphrag_eval_async.catalogue.conditions import Condition

RESOURCE_HEADINGS = {"total_tokens": "tokens", "elapsed_sec": "seconds"}
"""The metrics besides scores that tables show, and their headings."""

NOTHING_SCORED = (
    "Nothing scored the responses: there are no steps to compare, and no scores of answers. To "
    "compare answers, set match on questions, or evaluate with --llm PROVIDER/MODEL or "
    "--config FILE. To compare steps, questions need reference_steps, and responses actual_steps."
)
VALIDITY = INTERVAL_KINDS


FAILURES = {
    AGENT_ERROR: "the agent failed: it raised an error, took too long or reported an error",
    "forbidden_step": "the agent took a step that the question forbids",
    "too_many_steps": "the agent took more steps than the question allows",
    "no_answer": "no answer, though no step is wrong",
    "no_steps": "the agent took no expected step",
    "missing_step": "the agent took other expected steps, but not this one",
    "wrong_step_order": "right steps in the wrong order",
    "step_error": "the step failed",
    "wrong_args": "the step has other arguments",
    "empty_result": "the step returned nothing",
    "missing_columns": "the query returned too few columns",
    "wrong_order": "right rows in the wrong order",
    "missing_rows": "mostly missing rows",
    "extra_rows": "mostly extra rows",
    "wrong_values": "mostly wrong values in rows that are otherwise right",
    "missing_triples": "mostly missing triples",
    "extra_triples": "mostly extra triples",
    "missed_retrieval": "some relevant documents were not found",
    "wrong_query_result": "the step returned something else",
    "right_steps_wrong_answer": "right steps, but a wrong answer",
    "wrong_answer": "the answer is wrong; there are no reference steps",
    "wrong_steps_right_answer": "the answer is right, though the steps are wrong",
}
"""What the reasons of failure mean."""


def reason_in_words(reason: str) -> str:
    """Return a reason of failure, followed by what it means, if it is one of `FAILURES`."""
    if reason not in FAILURES:
        return reason
    return f"{reason}: {FAILURES[reason]}"


def repeats_rows(group: Mapping[str, Any]) -> list[list[str]]:
    """Return rows of pass@k and pass^k as text: k, both rates, and the number of questions.

    Of many k, some are left out.

    Args:
        group: a group of a snapshot, with the rates under ``repeats``, if questions have samples.
    """
    rates = group.get("repeats") or {}
    # There are three values for each k.
    largest_k = len(rates) // 3
    rows: list[list[str]] = []
    for k in range(1, largest_k + 1):
        if k <= 5 or k in (10, 20, 50, largest_k):
            any_right = f"{rates[f'pass@{k}']:.3f}"
            all_right = f"{rates[f'pass^{k}']:.3f}"
            rows.append([str(k), any_right, all_right, str(rates[f"questions@{k}"])])
    return rows


def right_in_words(conditions: Iterable[Condition]) -> str:
    """Return what a right sample has, in words."""
    in_words = ", ".join(condition.text for condition in conditions)
    return f"no error, {in_words}, as far as the run has them"


def variances(group: Mapping[str, Any]) -> dict[str, str]:
    """Return in words how each score varies between questions and between their samples.

    Args:
        group: the statistics of metrics; those without a known variance are left out.
    """
    in_words: dict[str, str] = {}
    for metric, stats in group.items():
        variance = stats.get("variance") if isinstance(stats, dict) else None
        if not variance:
            continue
        parts: list[str] = []
        # An estimated variance may be below 0.
        if "between" in variance:
            parts.append(f"{max(variance['between'], 0):.3g} between questions")
        if "within" in variance:
            parts.append(f"{max(variance['within'], 0):.3g} between samples of a question")
        in_words[metric] = f"variance {', '.join(parts)}"
    return in_words


def unscored(micro: Mapping[str, Any]) -> str:
    """Return why no response has a score, and the cure.

    Returns:
        "" if a response has a score, if a judge failed or still works, or if all responses are
        errors.
    """
    coverages = [
        stats["coverage"]
        for name, stats in micro.items()
        if isinstance(stats, dict) and is_score(name) and "coverage" in stats
    ]
    was_scored = any(
        coverage["values"]
        or coverage["pending"]
        or not CAUSED_BY_AGENT.issuperset(coverage["failed"])
        for coverage in coverages
    )
    results, errors = counts_of(micro)
    if was_scored or results == errors:
        return ""
    return NOTHING_SCORED


def not_run_in_words(coverage: Mapping[str, Any]) -> str:
    """Return how many results have no score of their steps because queries could not be run.

    Returns:
        "" if there are none.
    """
    count = coverage.get("failed", {}).get(NOT_RUN, 0)
    if count == 0:
        return ""
    return f"the queries of {plural(count, 'result')} could not be run"


def mean_cell(stats: Mapping[str, Any]) -> str:
    """Return the mean of a metric over questions and the ends of its interval, for a table.

    Returns:
        "" without a mean.
    """
    if "mean" not in stats:
        return ""
    mean = mean_of_questions(stats)
    interval = interval_of_mean(stats)
    if interval is not None:
        return f"{mean:.3f} {interval_cell(interval['low'], interval['high'])}"
    if abs(mean) >= 1000:
        return number(mean)
    if "interval" in stats:
        # The interval is that of first samples, but the metric has one elsewhere in the table.
        return f"{mean:.3f}"
    return f"{mean:.3g}"


def value_of(change: Mapping[str, Any]) -> str:
    """Return the value of an alert in words, or why it has none.

    Args:
        change: the state of the alert, with its `value` and number of `samples` in the window.
    """
    if change["value"] is not None:
        return number(change["value"])
    if change.get("samples"):
        return "window not full yet"
    return "no values"
