"""Words that terminal, pages and reports share about runs and reasons of failure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphrag_eval_async.catalogue.metrics import is_score
from graphrag_eval_async.catalogue.outcomes import AGENT_ERROR, CAUSED_BY_AGENT, NOT_RUN
from graphrag_eval_async.records.snapshots import (
    INTERVAL_KINDS,
    counts_of,
    interval_of_mean,
    mean_of_questions,
)
from graphrag_eval_async.text import interval_cell, number, plural

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from graphrag_eval_async.catalogue.conditions import Condition

RESOURCE_HEADINGS = {"total_tokens": "tokens", "elapsed_sec": "seconds"}
"""The metrics besides scores that tables show, and their headings."""

NOTHING_SCORED = (
    "Nothing scored the responses: there are no steps to compare, and no scores of answers. To "
    "compare answers, set `match` on questions, or evaluate with --llm PROVIDER/MODEL or "
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
    """A reason of failure and what it means."""
    return f"{reason}: {FAILURES[reason]}" if reason in FAILURES else reason


def repeats_rows(group: Mapping[str, Any]) -> list[list[str]]:
    """Return k, pass@k, pass^k and their number of questions, for some k."""
    own = group.get("repeats") or {}
    shown = [k for k in range(1, len(own) // 3 + 1) if k <= 5 or k in (10, 20, 50, len(own) // 3)]
    rates = ([f"{own[f'{key}{k}']:.3f}" for key in ("pass@", "pass^")] for k in shown)
    return [
        [str(k), *each, str(own[f"questions@{k}"])] for k, each in zip(shown, rates, strict=True)
    ]


def published_lines(group: Mapping[str, Any]) -> list[str]:
    """Return the means as benchmarks publish them, a line each; [] without any."""
    means = group.get("published_means")
    if not means:
        return []
    questions = f"over {means['questions']:,} questions"
    return [
        f"macro F1 QALD: {means['qald_f1']:.3f} {questions}",
        f"mean as TEXT2SPARQL publishes it: {means['published']:.3f} {questions}",
    ]


def right_in_words(conditions: Iterable[Condition]) -> str:
    """Which samples count as right in `repeats`."""
    return f"no error, {', '.join(each.text for each in conditions)}, as far as the run has them"


def variances(group: Mapping[str, Any]) -> dict[str, str]:
    """Return in words how each score of repeated questions varies, as far as known."""
    known = {name: each.get("variance") for name, each in group.items() if isinstance(each, dict)}
    kinds = {"between": "between questions", "within": "between samples of a question"}
    return {
        name: "variance "
        + ", ".join(f"{max(own[key], 0):.3g} {words}" for key, words in kinds.items() if key in own)
        for name, own in known.items()
        if own
    }


def unscored(micro: Mapping[str, Any]) -> str:
    """Return why no response has a score, and the cure; empty if one has, or a judge failed or
    works.
    """
    scores = [each for name, each in micro.items() if isinstance(each, dict) and is_score(name)]
    covered = [each["coverage"] for each in scores if "coverage" in each]
    results, errors = counts_of(micro)
    judged = any(
        each["values"] or each["pending"] or {*each["failed"]} - CAUSED_BY_AGENT for each in covered
    )
    told = f"Errors: {errors} of {plural(results, 'response')}. " if errors else ""
    return told + NOTHING_SCORED if results > errors and not judged else ""


def not_run_in_words(coverage: Mapping[str, Any]) -> str:
    """How many results have no score of steps since queries could not be run; empty if none."""
    count = coverage.get("failed", {}).get(NOT_RUN)
    return f"the queries of {plural(count, 'result')} could not be run" if count else ""


def mean_cell(stats: Mapping[str, Any]) -> str:
    """The mean over questions, and the ends of its interval."""
    if "mean" not in stats:
        return ""
    mean, interval = mean_of_questions(stats), interval_of_mean(stats)
    if interval is None:
        return (
            number(mean)
            if abs(mean) >= 1000
            else f"{mean:.3f}"
            if "interval" in stats
            else f"{mean:.3g}"
        )
    return f"{mean:.3f} {interval_cell(interval['low'], interval['high'])}"


def value_of(change: Mapping[str, Any]) -> str:
    """The value of an alert in words."""
    if change["value"] is not None:
        return number(change["value"])
    return "window not full yet" if change.get("samples") else "no values"
