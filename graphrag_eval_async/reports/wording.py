"""Words that terminal, pages and reports share about runs and reasons of failure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphrag_eval_async.catalogue.metrics import is_score
from graphrag_eval_async.catalogue.outcomes import AGENT_ERROR, CAUSED_BY_AGENT, NOT_RUN
from graphrag_eval_async.helpers.text import interval_cell, number, plural
from graphrag_eval_async.records.snapshots import (
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


MEANING_BY_REASON = {
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
    """Return a reason of failure, followed by what it means.

    Reasons of other programs, whose meaning is not known, are returned alone.
    """
    if reason not in MEANING_BY_REASON:
        return reason
    return f"{reason}: {MEANING_BY_REASON[reason]}"


def repeats_rows(group: Mapping[str, Any]) -> list[list[str]]:
    """Return rows of texts: a number k of samples, pass@k, pass^k, and the number of questions.

    Args:
        group: the aggregates of a group. If questions have several samples, ``repeats`` has
            "pass@k", "pass^k" and "questions@k" for each k from 1.
    """
    rates = group.get("repeats") or {}
    rows: list[list[str]] = []
    for k in shown_numbers_of_samples(rates):
        any_right = f"{rates[f'pass@{k}']:.3f}"
        all_right = f"{rates[f'pass^{k}']:.3f}"
        rows.append([str(k), any_right, all_right, str(rates[f"questions@{k}"])])
    return rows


def shown_numbers_of_samples(rates: Mapping[str, float]) -> list[int]:
    """Return the numbers k of samples for which tables show pass@k: not all, if there are many.

    They are 1 to 5, 10, 20, 50, and the largest number.

    Args:
        rates: "pass@k", "pass^k" and "questions@k" for each k from 1.
    """
    rates_per_k = 3
    largest_k = len(rates) // rates_per_k
    return [k for k in range(1, largest_k + 1) if k <= 5 or k in (10, 20, 50, largest_k)]


def right_in_words(conditions: Iterable[Condition]) -> str:
    """Return what a sample has that counts as right, such as "no error, steps_score >= 1, ..."."""
    in_words = ", ".join(condition.text for condition in conditions)
    return f"no error, {in_words}, as far as the run has them"


def variances(group: Mapping[str, Any]) -> dict[str, str]:
    """Return in words how much each metric varies between questions and between samples.

    Args:
        group: the statistics of metrics by name. Those without a known variance, and entries that
            are no statistics, are left out.
    """
    in_words: dict[str, str] = {}
    for metric, stats in group.items():
        if not isinstance(stats, dict):
            continue
        variance = stats.get("variance")
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

    Args:
        micro: the aggregates of all results.

    Returns:
        "" if a response has a score, if a judge failed or still works, or if all responses are
        errors.
    """
    coverages = [
        stats["coverage"]
        for name, stats in micro.items()
        if isinstance(stats, dict) and is_score(name) and "coverage" in stats
    ]
    for coverage in coverages:
        failed_only_by_agent = CAUSED_BY_AGENT.issuperset(coverage["failed"])
        if coverage["values"] or coverage["pending"] or not failed_only_by_agent:
            return ""
    results, errors = counts_of(micro)
    if results == errors:
        return ""
    return NOTHING_SCORED


def not_run_in_words(coverage: Mapping[str, Any]) -> str:
    """Return in words how many results have no score of their steps, since queries were not run.

    Args:
        coverage: the coverage of the score of steps.

    Returns:
        "" if there are no such results.
    """
    count = coverage.get("failed", {}).get(NOT_RUN, 0)
    if count == 0:
        return ""
    return f"the queries of {plural(count, 'result')} could not be run"


def mean_cell(stats: Mapping[str, Any]) -> str:
    """Return the cell of a metric in a table: its mean over questions, and its interval.

    Args:
        stats: the statistics of the metric.

    Returns:
        "" if there is no mean.
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
        # The interval is of another mean, and is left out. The mean has three decimals as in cells
        # with an interval.
        return f"{mean:.3f}"
    return f"{mean:.3g}"


def value_of(change: Mapping[str, Any]) -> str:
    """Return the value of an alert as text, or why it has none.

    Args:
        change: the state of the alert, with its `value`, which may be None, and the number of
            `samples` in its window.
    """
    if change["value"] is not None:
        return number(change["value"])
    if change.get("samples"):
        return "window not full yet"
    return "no values"
