"""Outcomes of a result besides its values: which metrics lack a value, and why it is wrong."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

from graphrag_eval_async.catalogue.judged import JUDGED
from graphrag_eval_async.catalogue.metrics import (
    ANSWER_MATCH,
    RESOURCES,
    RESULT_KEYS,
    TOOL_CALLS,
    VALUES,
    VALUES_F1,
)
from graphrag_eval_async.errors import FAILURES

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

Outcome: TypeAlias = tuple[str, str]
"""A metric and the cause why it has no value; or `REASON` and why the steps or the answer are
wrong.
"""

Outcomes: TypeAlias = tuple[Outcome, ...]

OUTPUTS = "judge"
"""In an outcome, all outputs of custom evaluations, of a result that does not name them.

A result that was not judged lacks the key of this name, which lists them.
"""

CUSTOM_METRICS = "custom_metrics"
"""Key of a result that names the values of metrics in code, as `judge` names the outputs."""

REASON = "failure"
"""Key of the reason why the steps or the answer are wrong, which is counted as metrics are."""

AGENT_ERROR = "agent_error"
"""The reason of responses that are errors: nothing was scored."""

EXECUTION_ERROR = "execution_error"
"""Key of the reason why queries could not be run, which leaves the steps without a score."""

# Causes, besides those of `JudgeError`, which are `FAILURES`.
RESPONSE_ERROR = "response_error"
"""The response is an error."""

NO_ANSWER = "no_answer"
"""There is no answer, or a blank one."""

NO_STEPS = "no_steps"
"""The response lists no steps."""

NOT_SCORED = "not_scored"
"""There are steps, but they have no score."""

NOT_RUN = "not_run"
"""Queries could not be run."""

METRIC_ERROR = "metric_error"
"""A metric in code raised."""

TEXT = "text"
"""The output of a custom evaluation is text."""

OTHER = "other"
"""An error that does not say its kind."""

CAUSED_BY_AGENT = frozenset({NO_ANSWER, NO_STEPS, RESPONSE_ERROR})
"""The causes that are the agent's doing; otherwise the judge or the metric failed."""

RETRYABLE = frozenset({*FAILURES, OTHER, METRIC_ERROR, NOT_RUN})
"""The causes that may be gone in another evaluation of the same response."""

ERRORS_OF_RESULT: Mapping[str, tuple[str, ...]] = {
    key: values
    for metric in JUDGED
    if not metric.of_step
    for key, values in metric.missing_by_error.items()
} | {EXECUTION_ERROR: ("steps_score", *VALUES)}
"""The metrics that an error leaves without a value, by the key of the error in a result."""

ERRORS_OF_STEP: Mapping[str, tuple[str, ...]] = {
    key: values for metric in JUDGED if metric.of_step for key, values in metric.errors.items()
}
"""The same by the key of the error in a retrieval step."""

# States of an answer. Integers, since an enum would be slow as a part of the key of a cache.
ABSENT = 0
BLANK = 1
ANSWERED = 2


def answer_state(answer: Any) -> int:
    """Return whether an answer is `ABSENT`, `BLANK` or, if it says something, `ANSWERED`."""
    if answer is None:
        return ABSENT
    says_something = isinstance(answer, str) and answer and not answer.isspace()
    return ANSWERED if says_something else BLANK


@lru_cache(maxsize=4096)
def outcomes_of(
    metrics: tuple[str, ...],
    failed: bool,
    answer: int,
    has_answer: bool,
    has_steps: bool,
    took_steps: bool,
    failure: str | None,
    not_run: bool,
    keys: tuple[str, ...] = (),
) -> tuple[tuple[str, ...], Outcomes, Outcomes]:
    """Return the outcomes of a response before it is judged.

    Results share few of them, so they are cached. The arguments are positional for the same reason.

    Args:
        metrics: the metrics that have a value.
        failed: whether the response is an error.
        answer: the state of the answer.
        has_answer: whether the question has a reference answer.
        has_steps: whether the question has reference steps.
        took_steps: whether the response lists steps.
        failure: why the steps or the answer are wrong; None if that is not known.
        not_run: whether queries could not be run.
        keys: those of the metrics that a result has as null if they lack a value.

    Returns:
        `metrics` itself, so that equal ones are one object; the outcomes; and the outcomes if the
        values of responses that are errors do not count.
    """
    causes = dict(_causes_if_absent(failed, answer, has_answer, has_steps, took_steps))
    if keys:
        causes |= _causes_if_null(keys, failed, took_steps)
    if not_run:
        unscored = [name for name in ERRORS_OF_RESULT[EXECUTION_ERROR] if name in causes]
        causes |= dict.fromkeys(unscored, NOT_RUN)
    reason: Outcomes = () if failure is None else ((REASON, failure),)

    missing = tuple((metric, cause) for metric, cause in causes.items() if metric not in metrics)
    if not failed:
        return metrics, missing + reason, ()

    uncounted = [metric for metric in metrics if metric in RESOURCES]
    causes |= dict.fromkeys(uncounted, RESPONSE_ERROR)
    return metrics, missing + reason, (*causes.items(), *reason)


@lru_cache(maxsize=256)
def _causes_if_absent(
    failed: bool, answer: int, has_answer: bool, has_steps: bool, took_steps: bool
) -> dict[str, str]:
    """Return the metrics that a result should have, judged or not, with the cause if one is absent.

    See `outcomes_of` for the arguments. The result is cached: callers copy it before they change
    it.
    """
    state = ABSENT if failed else answer
    causes: dict[str, str] = {}
    if state != ANSWERED:
        for metric in JUDGED:
            if not metric.counts_unanswered or (metric.needs_reference and not has_answer):
                continue
            if state == ABSENT or not metric.scores_blank_answers:
                causes |= dict.fromkeys(metric.values, NO_ANSWER)
        causes[OUTPUTS] = NO_ANSWER
    if has_steps:
        causes["steps_score"] = NOT_SCORED if took_steps else NO_STEPS
    return dict.fromkeys(causes, RESPONSE_ERROR) if failed else causes


def _causes_if_null(keys: Collection[str], failed: bool, took_steps: bool) -> dict[str, str]:
    """Return the cause for each of `keys` that is a metric which is null if it lacks a value.

    These metrics apply only where they are switched on. Then a result has their key in any case.
    """
    cause_of_steps = NOT_SCORED if took_steps else NO_STEPS
    causes = {ANSWER_MATCH: NO_ANSWER} | dict.fromkeys((*TOOL_CALLS, *VALUES), cause_of_steps)
    return {
        metric: RESPONSE_ERROR if failed else cause
        for metric, cause in causes.items()
        if metric in keys
    }


def missing_values(
    result: Mapping[str, Any], errors: Iterable[str], *, failed: bool, counts: bool
) -> list[Outcome]:
    """Return the outcomes of a result itself, not of its steps and custom evaluations.

    Args:
        result: the result.
        errors: its keys that are in `ERRORS_OF_RESULT`.
        failed: whether its response is an error.
        counts: whether the values that it has count.
    """
    # What would be the cause for each metric that applies.
    took_steps = bool(result.get("actual_steps"))
    causes = dict(
        _causes_if_absent(
            failed,
            answer_state(result.get("actual_answer")),
            result.get("reference_answer") is not None,
            result.get("reference_steps") is not None,
            took_steps,
        )
    )
    if ANSWER_MATCH in result or TOOL_CALLS[0] in result or VALUES_F1 in result:
        causes |= _causes_if_null(result, failed, took_steps)

    # An error that the result names is a better cause.
    for key in errors:
        error = result[key]
        if error is None:
            continue
        cause = NOT_RUN if key == EXECUTION_ERROR else _kind_of(error)
        for metric in ERRORS_OF_RESULT[key]:
            # `VALUES` apply only where they are switched on.
            if metric not in VALUES or metric in result:
                causes[metric] = cause

    # Metrics that have a value after all have no outcome.
    if not counts:
        uncounted = [metric for metric in RESOURCES if result.get(metric) is not None]
        causes |= dict.fromkeys(uncounted, RESPONSE_ERROR)
    outcomes = []
    for metric, cause in causes.items():
        has_counted_value = result.get(metric) is not None and (counts or metric == OUTPUTS)
        if not has_counted_value:
            outcomes.append((metric, cause))

    reason = result.get(REASON)
    if isinstance(reason, str):
        outcomes.append((REASON, reason))
    return outcomes


def missing_values_of_step(step: Mapping[str, Any], errors: Sequence[str]) -> list[Outcome]:
    """Return the metrics of a retrieval step without a value, with the causes.

    `errors` are its keys that are in `ERRORS_OF_STEP`. F1 fails as recall does, or else as
    precision.
    """
    causes: dict[str, str] = {}
    for key in reversed(errors):
        error = step[key]
        if error is not None:
            causes |= dict.fromkeys(ERRORS_OF_STEP[key], _kind_of(error))
    return [(metric, cause) for metric, cause in causes.items() if step.get(metric) is None]


def missing_outputs(
    result: Mapping[str, Any], outputs: Iterable[str], place: str
) -> Iterator[Outcome]:
    """Yield the outputs that have no number, with the causes; `place` is the key that lists
    them.
    """
    unknown = METRIC_ERROR if place == CUSTOM_METRICS else OTHER
    for output in outputs:
        value = result.get(output)
        if isinstance(value, str):
            yield output, TEXT
        elif value is None and output in result:
            yield output, _kind_of(_error_after(output, result), unknown)
        elif output not in result and answer_state(result.get("actual_answer")) != ANSWERED:
            yield output, NO_ANSWER


def _error_after(output: str, result: Mapping[str, Any]) -> Any:
    """Return the error of an output that is null: the first key after it that is one of an
    error.
    """
    keys = [*result]
    for key in keys[keys.index(output) :]:
        if isinstance(key, str) and key.endswith("_error"):
            # A key of this package is of another metric.
            return None if key in RESULT_KEYS else result[key]
    return None


def _kind_of(error: Any, unknown: str = OTHER) -> str:
    """Return the kind of failure that an error's text begins with, or else `unknown`."""
    if not isinstance(error, str):
        return unknown
    kind = error.partition(":")[0]
    return kind if kind in FAILURES else unknown
