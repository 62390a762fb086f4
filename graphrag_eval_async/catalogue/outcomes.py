"""Outcomes of a result: which metrics lack a value and why, and why the response is wrong."""

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
"""A metric that applies but has no value, and the cause.

Or `REASON`, and the reason why the steps or the answer are wrong.
"""

Outcomes: TypeAlias = tuple[Outcome, ...]

OUTPUTS = "judge"
"""In place of a metric, stands for all outputs of custom evaluations, if a result names none.

It is also the key of a result that lists these outputs; a result that was not judged lacks it.
"""

CUSTOM_METRICS = "custom_metrics"
"""Key of a result that lists the values of metrics in code, as `judge` lists outputs."""

REASON = "failure"
"""Key of the reason why the steps or the answer are wrong. It is counted like causes of metrics."""

AGENT_ERROR = "agent_error"
"""The reason why responses that are errors are wrong: there was nothing to score."""

EXECUTION_ERROR = "execution_error"
"""Key of the reason why queries could not be run, so that the steps have no score."""

# The causes why a metric has no value, besides those of `JudgeError`, which are `FAILURES`.
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
"""The causes for which the agent is responsible. For others, it is the judge or the metric."""

RETRYABLE = frozenset({*FAILURES, OTHER, METRIC_ERROR, NOT_RUN})
"""The causes that may not occur again if the same response is evaluated again."""

ERRORS_OF_RESULT: Mapping[str, tuple[str, ...]] = {
    key: values
    for metric in JUDGED
    if not metric.of_step
    for key, values in metric.missing_by_error.items()
} | {EXECUTION_ERROR: ("steps_score", *VALUES)}
"""For each key of an error in a result, the metrics that the error leaves without a value."""

ERRORS_OF_STEP: Mapping[str, tuple[str, ...]] = {
    key: values for metric in JUDGED if metric.of_step for key, values in metric.errors.items()
}
"""For each key of an error in a retrieval step, the metrics that it leaves without a value."""

# States of an answer: there is none, it is blank, or it says something. They are ints, since they
# are parts of keys of a cache, where an enum would be slow.
ABSENT = 0
BLANK = 1
ANSWERED = 2


def answer_state(answer: Any) -> int:
    """Return whether an answer is `ABSENT`, `BLANK` or, if it says something, `ANSWERED`."""
    if answer is None:
        return ABSENT
    if not isinstance(answer, str) or not answer or answer.isspace():
        return BLANK
    return ANSWERED


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

    There are few different ones, so they are cached. Pass all arguments by position: a cache treats
    keywords as other arguments, and takes longer.

    Args:
        metrics: the metrics that have a value.
        failed: whether the response is an error.
        answer: the state of the answer.
        has_answer: whether the question has a reference answer.
        has_steps: whether the question has reference steps.
        took_steps: whether the response lists steps.
        failure: why the steps or the answer are wrong; None if they are right, or nobody knows.
        not_run: whether queries could not be run.
        keys: the metrics that are switched on. A result has their keys even if they lack a value.

    Returns:
        the `metrics`, as one object for all calls with equal ones; the outcomes; and the outcomes
        for aggregates in which the values of failed responses do not count.
    """
    # The causes of all metrics that apply, for the case that they have no value.
    causes = dict(_causes_if_absent(failed, answer, has_answer, has_steps, took_steps))
    if keys:
        causes |= _causes_if_null(keys, failed, took_steps)
    if not_run:
        unscored = [name for name in ERRORS_OF_RESULT[EXECUTION_ERROR] if name in causes]
        causes |= dict.fromkeys(unscored, NOT_RUN)
    reason: Outcomes = ()
    if failure is not None:
        reason = ((REASON, failure),)

    missing = tuple((metric, cause) for metric, cause in causes.items() if metric not in metrics)
    if not failed:
        return metrics, missing + reason, ()

    # If values of failed responses do not count, even metrics with a value have an outcome.
    uncounted = [metric for metric in metrics if metric in RESOURCES]
    causes |= dict.fromkeys(uncounted, RESPONSE_ERROR)
    return metrics, missing + reason, (*causes.items(), *reason)


@lru_cache(maxsize=256)
def _causes_if_absent(
    failed: bool, answer: int, has_answer: bool, has_steps: bool, took_steps: bool
) -> dict[str, str]:
    """Return the metrics that a result should have, each with the cause if it has no value.

    The dict is cached, so the caller must not change it.

    Args:
        failed: whether the response is an error.
        answer: the state of the answer: `ABSENT`, `BLANK` or `ANSWERED`.
        has_answer: whether the question has a reference answer.
        has_steps: whether the question has reference steps.
        took_steps: whether the response lists steps.
    """
    if failed:
        # The answer of a failed response does not count.
        answer = ABSENT
    causes: dict[str, str] = {}
    if answer != ANSWERED:
        for metric in JUDGED:
            lacks_reference = metric.needs_reference and not has_answer
            if lacks_reference or not metric.counts_unanswered:
                continue
            if answer == ABSENT or not metric.scores_blank_answers:
                causes |= dict.fromkeys(metric.values, NO_ANSWER)
        causes[OUTPUTS] = NO_ANSWER
    if has_steps:
        causes["steps_score"] = _cause_of_steps(took_steps)
    if failed:
        return dict.fromkeys(causes, RESPONSE_ERROR)
    return causes


def _cause_of_steps(took_steps: bool) -> str:
    """Return why the steps of a response have no score, unless an error says more."""
    if took_steps:
        return NOT_SCORED
    return NO_STEPS


def _causes_if_null(keys: Collection[str], failed: bool, took_steps: bool) -> dict[str, str]:
    """Return the causes of metrics that apply only if they are switched on.

    A result has the key of such a metric if it is switched on, with null if it has no value.

    Args:
        keys: the keys of a result, or the metrics that are switched on.
        failed: whether the response is an error.
        took_steps: whether the response lists steps.

    Returns:
        the cause for each of these metrics in `keys`, if it has no value.
    """
    causes = {ANSWER_MATCH: NO_ANSWER}
    causes |= dict.fromkeys((*TOOL_CALLS, *VALUES), _cause_of_steps(took_steps))
    if failed:
        causes = dict.fromkeys(causes, RESPONSE_ERROR)
    return {metric: cause for metric, cause in causes.items() if metric in keys}


def missing_values(
    result: Mapping[str, Any], errors: Iterable[str], *, failed: bool, values_count: bool
) -> list[Outcome]:
    """Return the outcomes of a result, without those of its steps and custom evaluations.

    Args:
        result: the result.
        errors: those keys of the result that are in `ERRORS_OF_RESULT`.
        failed: whether the response is an error.
        values_count: whether the values of the result count. If not, they have outcomes, too.
    """
    # Start with the cause that each metric that applies has if it has no value.
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

    # An error in the result is a more exact cause.
    causes |= _causes_from_errors(result, errors)

    # Values that do not count have outcomes, too.
    if not values_count:
        uncounted = [metric for metric in RESOURCES if result.get(metric) is not None]
        causes |= dict.fromkeys(uncounted, RESPONSE_ERROR)

    # A metric with a value that counts has no outcome.
    outcomes = []
    for metric, cause in causes.items():
        has_value = result.get(metric) is not None
        # `OUTPUTS` is no metric: if the key is there, the result names its outputs.
        has_counted_value = has_value and (values_count or metric == OUTPUTS)
        if not has_counted_value:
            outcomes.append((metric, cause))

    reason = result.get(REASON)
    if isinstance(reason, str):
        outcomes.append((REASON, reason))
    return outcomes


def _causes_from_errors(result: Mapping[str, Any], errors: Iterable[str]) -> dict[str, str]:
    """Return why metrics have no value, as far as errors in a result say so.

    Args:
        result: the result.
        errors: those keys of the result that are in `ERRORS_OF_RESULT`.
    """
    causes: dict[str, str] = {}
    for key in errors:
        error = result[key]
        if error is None:
            continue
        cause = NOT_RUN
        if key != EXECUTION_ERROR:
            cause = _kind_of(error)
        for metric in ERRORS_OF_RESULT[key]:
            # `VALUES` apply only where they are switched on.
            if metric not in VALUES or metric in result:
                causes[metric] = cause
    return causes


def missing_values_of_step(step: Mapping[str, Any], errors: Sequence[str]) -> list[Outcome]:
    """Return the metrics of a retrieval step that have no value, each with the cause.

    Args:
        step: the retrieval step.
        errors: those keys of the step that are in `ERRORS_OF_STEP`, in their order there.
    """
    causes: dict[str, str] = {}
    # F1 lacks a value if recall or precision does. In reversed order, the error of recall, which is
    # the first, replaces that of precision as its cause.
    for key in reversed(errors):
        error = step[key]
        if error is not None:
            causes |= dict.fromkeys(ERRORS_OF_STEP[key], _kind_of(error))
    return [(metric, cause) for metric, cause in causes.items() if step.get(metric) is None]


def missing_outputs(
    result: Mapping[str, Any], outputs: Iterable[str], place: str
) -> Iterator[Outcome]:
    """Yield the outputs of custom evaluations or metrics in code that have no number.

    Args:
        result: the result.
        outputs: the names of the outputs that the result lists.
        place: the key under which it lists them: `OUTPUTS` or `CUSTOM_METRICS`.

    Yields:
        the name of an output, and the cause.
    """
    default_cause = OTHER
    if place == CUSTOM_METRICS:
        default_cause = METRIC_ERROR
    for output in outputs:
        value = result.get(output)
        if isinstance(value, str):
            yield output, TEXT
        elif output in result:
            if value is None:
                yield output, _kind_of(_error_after(output, result), default_cause)
        elif answer_state(result.get("actual_answer")) != ANSWERED:
            yield output, NO_ANSWER


def _error_after(output: str, result: Mapping[str, Any]) -> Any:
    """Return the error of an output that is null; None if the result has none.

    A result has the error of an evaluation after its outputs, so the error is at the next key that
    ends with ``_error``.
    """
    keys = [*result]
    following_keys = keys[keys.index(output) :]
    for key in following_keys:
        if isinstance(key, str) and key.endswith("_error"):
            # Keys that this package defines are errors of other metrics.
            if key in RESULT_KEYS:
                return None
            return result[key]
    return None


def _kind_of(error: Any, default_kind: str = OTHER) -> str:
    """Return the kind of failure of an error.

    The text of an error of a judge begins with its kind, such as "timeout: ...".

    Args:
        error: the value under the key of an error, of any type.
        default_kind: the kind of an error whose text begins with something else.
    """
    if not isinstance(error, str):
        return default_kind
    kind = error.partition(":")[0]
    if kind not in FAILURES:
        return default_kind
    return kind
