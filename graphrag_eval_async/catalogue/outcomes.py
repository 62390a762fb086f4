"""Metrics of a result that apply but have no value, and why."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

from graphrag_eval_async.catalogue.metrics import (
    ANSWER_MATCH,
    JUDGED,
    RESOURCES,
    RESULT_KEYS,
    TOOL_CALLS,
    VALUES,
    VALUES_F1,
)
from graphrag_eval_async.errors import FAILURES

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

# A metric and the kind of its failure, or `REASON` and why the steps or the answer are wrong.
Outcome: TypeAlias = tuple[str, str]

OUTPUTS = "judge"
"""Stands for the outputs of all custom evaluations in a result that was not judged, which names
none of them. Such a result lacks this key.
"""

CUSTOM_METRICS = "custom_metrics"
"""Key of a result that names the values of metrics in code, as `judge` names the outputs."""

REASON = "failure"
"""Key of the reason why the steps or the answer are wrong, which is counted as metrics are."""

AGENT_ERROR = "agent_error"
"""The reason of responses that are errors: nothing was scored."""

EXECUTION_ERROR = "execution_error"
"""Key of the reason why queries could not be run, which leaves the steps without a score."""

RESPONSE_ERROR, NO_ANSWER, NO_STEPS, NOT_SCORED = (
    "response_error",
    "no_answer",
    "no_steps",
    "not_scored",
)
NOT_RUN = "not_run"

CAUSED_BY_AGENT = frozenset({NO_ANSWER, NO_STEPS, RESPONSE_ERROR})
"""Why a score has no value, if that is the agent's doing; otherwise its judge failed."""

OTHER, TEXT, METRIC_ERROR = "other", "text", "metric_error"

RETRYABLE = frozenset({*FAILURES, OTHER, METRIC_ERROR, NOT_RUN})
"""Why a metric has no value, if another evaluation may find one."""

ERRORS_OF_RESULT: Mapping[str, tuple[str, ...]] = {
    key: values
    for metric in JUDGED
    if not metric.of_step
    for key, values in (metric.errors or {f"{metric.name}_error": metric.values}).items()
} | {EXECUTION_ERROR: ("steps_score", *VALUES)}
ERRORS_OF_STEP: Mapping[str, tuple[str, ...]] = {
    key: values for metric in JUDGED if metric.of_step for key, values in metric.errors.items()
}
"""The metrics that an error leaves without a value, by the key of the error in a result or
retrieval step.
"""

VALUES_BY_METRIC: Mapping[str, tuple[str, ...]] = {metric.name: metric.values for metric in JUDGED}
"""The metrics by their name in `pending`."""


ABSENT, BLANK, ANSWERED = range(3)


def answer_state(answer: Any) -> int:
    """`ABSENT`, `BLANK` or, for an answer that says something, `ANSWERED`."""
    if answer is None:
        return ABSENT
    return ANSWERED if isinstance(answer, str) and answer and not answer.isspace() else BLANK


@lru_cache(maxsize=256)
def _expected(
    failed: bool, answer: int, has_answer: bool, has_steps: bool, took_steps: bool
) -> dict[str, str]:
    """The metrics that a result should have, judged or not, with the kind of failure if one has no
    value.

    `has_answer` and `has_steps` are about the reference. A blank answer has correctness: it makes
    no claims.
    """
    state = ABSENT if failed else answer
    kinds: dict[str, str] = {}
    if state != ANSWERED:
        for metric in JUDGED:
            applies = metric.counts_unanswered and (has_answer or not metric.needs_reference)
            if applies and (state == ABSENT or metric.name != "answer_correctness"):
                kinds |= dict.fromkeys(metric.values, NO_ANSWER)
        kinds[OUTPUTS] = NO_ANSWER
    if has_steps:
        kinds["steps_score"] = NOT_SCORED if took_steps else NO_STEPS
    return dict.fromkeys(kinds, RESPONSE_ERROR) if failed else kinds


def _switched_on(keys: Collection[str], failed: bool, took_steps: bool) -> dict[str, str]:
    """The same for metrics that a result has as null rather than not at all, of which `keys` has
    some.
    """
    of_steps = NOT_SCORED if took_steps else NO_STEPS
    kinds = {ANSWER_MATCH: NO_ANSWER} | dict.fromkeys((*TOOL_CALLS, *VALUES), of_steps)
    return {
        name: RESPONSE_ERROR if failed else kind for name, kind in kinds.items() if name in keys
    }


Outcomes: TypeAlias = tuple[Outcome, ...]


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
    """The metrics before judging, the outcomes, and those if the values of failed responses do
    not count.
    """
    kinds = _expected(failed, answer, has_answer, has_steps, took_steps)
    kinds = kinds | _switched_on(keys, failed, took_steps) if keys else kinds
    if not_run:
        kinds = kinds | {
            name: NOT_RUN for name in ERRORS_OF_RESULT[EXECUTION_ERROR] if name in kinds
        }
    reason = () if failure is None else ((REASON, failure),)
    counted = tuple(outcome for outcome in kinds.items() if outcome[0] not in metrics)
    uncounted = kinds | {metric: RESPONSE_ERROR for metric in metrics if metric in RESOURCES}
    return metrics, counted + reason, (*uncounted.items(), *reason) if failed else ()


def missing_values(
    result: Mapping[str, Any], errors: Iterable[str], *, failed: bool, counts: bool
) -> list[Outcome]:
    """The outcomes of a result itself, not of its steps and custom evaluations.

    `errors` are its keys that are in `ERRORS_OF_RESULT`; `counts` says whether the values that it
    has count.
    """
    groups, steps = result.get("reference_steps"), result.get("actual_steps")
    answer, has_answer = (
        answer_state(result.get("actual_answer")),
        result.get("reference_answer") is not None,
    )
    kinds = _expected(failed, answer, has_answer, groups is not None, bool(steps))
    if ANSWER_MATCH in result or TOOL_CALLS[0] in result or VALUES_F1 in result:
        kinds = kinds | _switched_on(result, failed, bool(steps))
    for key in errors:
        if result[key] is not None:
            kind = NOT_RUN if key == EXECUTION_ERROR else _kind(result[key])
            left_out = (
                name for name in ERRORS_OF_RESULT[key] if name not in VALUES or name in result
            )
            kinds = kinds | dict.fromkeys(left_out, kind)
    if not counts:
        kinds = kinds | {
            metric: RESPONSE_ERROR for metric in RESOURCES if result.get(metric) is not None
        }
    found = [
        each
        for each in kinds.items()
        if result.get(each[0]) is None or not (counts or each[0] == OUTPUTS)
    ]
    if isinstance(reason := result.get(REASON), str):
        found.append((REASON, reason))
    return found


def missing_values_of_step(step: Mapping[str, Any], errors: Sequence[str]) -> list[Outcome]:
    """Metrics of a retrieval step without a value. F1 fails as recall does, or else as
    precision.
    """
    kinds = {
        metric: _kind(step[key])
        for key in reversed(errors)
        if step[key] is not None
        for metric in ERRORS_OF_STEP[key]
    }
    return [item for item in kinds.items() if step.get(item[0]) is None]


def missing_outputs(
    result: Mapping[str, Any], outputs: Iterable[str], place: str
) -> Iterator[Outcome]:
    """Outputs listed at `place` that have no number. A failed one is null and comes before its
    error.
    """
    other = METRIC_ERROR if place == CUSTOM_METRICS else OTHER
    for output in outputs:
        value = result.get(output)
        if isinstance(value, str):
            yield output, TEXT
        elif value is None and output in result:
            keys = [*result]
            after = keys[keys.index(output) :]
            error = next(
                (key for key in after if isinstance(key, str) and key.endswith("_error")), ""
            )
            yield output, _kind(result.get(error) if error not in RESULT_KEYS else None, other)
        elif output not in result and answer_state(result.get("actual_answer")) != ANSWERED:
            yield output, NO_ANSWER


def _kind(error: Any, other: str = OTHER) -> str:
    """The kind of failure, which an error text begins with."""
    kind = error.partition(":")[0] if isinstance(error, str) else other
    return kind if kind in FAILURES else other
