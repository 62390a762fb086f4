"""Metrics of a result that apply but have no value, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from graphrag_eval_async.errors import FAILURES
from graphrag_eval_async.records.metrics import JUDGED, RESOURCES, RESULT_KEYS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

# A metric and the kind of its failure, or `REASON` and why the steps or the answer are wrong.
Outcome: TypeAlias = tuple[str, str]

OUTPUTS = "judge"
"""Stands for the outputs of all custom evaluations in a result that was not judged, which names none of them.
Such a result lacks this key.
"""

REFERENCE_QUERY = "reference_query"
"""Key of a reference step: the query with which the agent's is compared."""

REASON = "failure"
"""Key of the reason why the steps or the answer are wrong, which is counted as metrics are."""

EXECUTION_ERROR = "execution_error"
"""Key of the reason why queries could not be run, which leaves the steps without a score."""

RESPONSE_ERROR, NO_ANSWER, NO_STEPS, NOT_SCORED = "response_error", "no_answer", "no_steps", "not_scored"
NOT_RUN = "not_run"

OF_AGENT = frozenset({NO_ANSWER, NO_STEPS, RESPONSE_ERROR})
"""Why a score has no value, if that is the agent's doing; otherwise its judge failed."""

OTHER, TEXT = "other", "text"

ERRORS_OF_RESULT: Mapping[str, tuple[str, ...]] = {
    key: values
    for metric in JUDGED
    if not metric.of_step
    for key, values in (metric.errors or {f"{metric.name}_error": metric.values}).items()
} | {EXECUTION_ERROR: ("steps_score",)}
ERRORS_OF_STEP: Mapping[str, tuple[str, ...]] = {
    key: values for metric in JUDGED if metric.of_step for key, values in metric.errors.items()
}
"""The metrics that an error leaves without a value, by the key of the error in a result or retrieval step."""

_UNANSWERED: Mapping[tuple[bool, bool], tuple[Outcome, ...]] = {
    (absent, with_reference): (
        *(
            (value, NO_ANSWER)
            for metric in JUDGED
            if metric.counts_unanswered and (with_reference or not metric.needs_reference)
            if absent or metric.name != "answer_correctness"
            for value in metric.values
        ),
        (OUTPUTS, NO_ANSWER),
    )
    for absent in (False, True)
    for with_reference in (False, True)
}
"""The metrics that an absent or blank answer lacks. A blank answer has correctness: it makes no claims.

By whether the answer is absent, and whether there is a reference answer.
"""

OF_PENDING: Mapping[str, tuple[str, ...]] = {metric.name: metric.values for metric in JUDGED}
"""The metrics by their name in `pending`."""


def missing_of(result: Mapping[str, Any]) -> list[Outcome]:
    """Metrics without a value because the agent gave no answer, or took no steps, without an error."""
    missing: list[Outcome] = []
    if not says_something(result.get("actual_answer")):
        absent = result.get("actual_answer") is None
        unanswered = _UNANSWERED[absent, result.get("reference_answer") is not None]
        missing = [outcome for outcome in unanswered if result.get(outcome[0]) is None]
    groups = result.get("reference_steps")
    if groups is not None and result.get("steps_score") is None:
        missing.append(("steps_score", NOT_SCORED if result.get("actual_steps") else NO_STEPS))
    if has_reference_query(groups) and result.get("query_similarity") is None:
        missing.append(("query_similarity", NOT_SCORED if result.get("actual_steps") else NO_STEPS))
    return missing


def has_reference_query(groups: Any) -> bool:
    """Whether a step of the groups has a reference query. The groups may be of any shape."""
    for group in groups if isinstance(groups, list | tuple) else ():
        for step in group if isinstance(group, list | tuple) else ():
            if type(step) is dict and REFERENCE_QUERY in step and step[REFERENCE_QUERY] is not None:
                return True
    return False


def failures_of(
    result: Mapping[str, Any], errors: Iterable[str], *, failed: bool, counts: bool
) -> list[Outcome]:
    """Metrics of the result itself, not of its steps, that have no value, each with the kind of failure.

    Args:
        result: the result dict.
        errors: those of its keys that are in `ERRORS_OF_RESULT`.
        failed: whether the agent failed. All metrics that could apply are then included.
        counts: whether the values that it has count.
    """
    kinds = dict(missing_of(result))
    if failed:
        kinds = dict.fromkeys(kinds, RESPONSE_ERROR)
        with_reference = result.get("reference_answer") is not None
        kinds |= {metric: RESPONSE_ERROR for metric, _ in _UNANSWERED[True, with_reference]}
        if result.get("reference_steps") is not None:
            kinds["steps_score"] = RESPONSE_ERROR
    for key in errors:
        if result[key] is not None:
            kind = NOT_RUN if key == EXECUTION_ERROR else _kind(result[key])
            kinds |= dict.fromkeys(ERRORS_OF_RESULT[key], kind)
    if not counts:
        kinds |= {metric: RESPONSE_ERROR for metric in RESOURCES if result.get(metric) is not None}
        return [outcome for outcome in kinds.items() if outcome[0] != OUTPUTS or result.get(OUTPUTS) is None]
    return [outcome for outcome in kinds.items() if result.get(outcome[0]) is None]


def says_something(answer: Any) -> bool:
    """Whether the answer is a string that is not blank."""
    return isinstance(answer, str) and bool(answer) and not answer.isspace()


def failures_of_step(step: Mapping[str, Any], errors: Sequence[str]) -> list[Outcome]:
    """Metrics of a retrieval step without a value. F1 fails as recall does, or else as precision."""
    kinds = {
        metric: _kind(step[key])
        for key in reversed(errors)
        if step[key] is not None
        for metric in ERRORS_OF_STEP[key]
    }
    return [item for item in kinds.items() if step.get(item[0]) is None]


def failures_of_outputs(result: Mapping[str, Any], outputs: Iterable[str]) -> Iterator[Outcome]:
    """Outputs of custom evaluations that have no number.

    A failed output is null and comes before its error. A text is not a failure, but it is not a number
    either, so it is counted as `TEXT`.
    """
    for output in outputs:
        value = result.get(output)
        if isinstance(value, str):
            yield output, TEXT
        elif value is None and output in result:
            keys = [*result]
            after = keys[keys.index(output) :]
            error = next((key for key in after if isinstance(key, str) and key.endswith("_error")), "")
            yield output, _kind(result.get(error)) if error not in RESULT_KEYS else OTHER
        elif output not in result and not says_something(result.get("actual_answer")):
            yield output, NO_ANSWER


def _kind(error: Any) -> str:
    """The kind of failure, which an error text begins with."""
    kind = error.partition(":")[0] if isinstance(error, str) else OTHER
    return kind if kind in FAILURES else OTHER
