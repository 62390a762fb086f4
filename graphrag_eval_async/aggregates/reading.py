"""What the statistics take from a result, checked before anything is counted."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from functools import lru_cache
from math import inf
from typing import Any, NamedTuple, TypeAlias

from graphrag_eval_async.aggregates.failures import (
    ERRORS_OF_RESULT,
    ERRORS_OF_STEP,
    REASON,
    Tally,
    failures_of,
    failures_of_outputs,
    failures_of_step,
    missing_of,
)
from graphrag_eval_async.errors import AggregationError
from graphrag_eval_async.records.metrics import (
    BOUNDED_METRICS,
    COST,
    RESULT_KEYS,
    RESULT_METRICS,
    RETRIEVAL_METRICS,
)

_POSITIONS = {metric: i for i, metric in enumerate(RESULT_METRICS + RETRIEVAL_METRICS)}
_OF_RESULT = frozenset(RESULT_METRICS)
_OF_RETRIEVAL = frozenset(RETRIEVAL_METRICS)

Values: TypeAlias = list[tuple[str, float]]
Steps: TypeAlias = list[Mapping[str, Any]]


class Observation(NamedTuple):
    """What counts of a result.

    Attributes:
        template: its id.
        failed: whether the agent failed.
        values: metrics, and a value for each time that the result or a step of it has it.
        steps: the actual steps.
        failures: metrics that apply and have no value, and of what kind the failure is; and the reason why
            the steps or the answer are not right, where the result says it.
        fractions: outputs of custom evaluations that are from 0 to 1 by their definition.
    """

    template: str
    failed: bool
    values: Values
    steps: Steps
    failures: Sequence[Tally] = ()
    fractions: Sequence[str] = ()


def observe(result: Mapping[str, Any], *, include_errors: bool) -> Observation:
    """What counts of a result: of a failed one neither values nor steps, unless `include_errors`.

    Raises:
        AggregationError: it is not a result, or a metric of it is not a finite number of at most 64 bits.
    """
    if not _is_mapping(result):
        raise AggregationError(f"a result must be an object, not {describe(result)}")
    template_id = result.get("template_id")
    if not isinstance(template_id, str):
        raise _error(result, "template_id", "a string", template_id)
    status = result.get("status", "success")
    if not isinstance(status, str) or status not in {"success", "error"}:
        raise _error(result, "status", '"success" or "error"', status)
    steps = result.get("actual_steps")
    if not (steps is None or isinstance(steps, list | tuple)):
        raise _error(result, "actual_steps", "a list", steps)
    failed = status == "error"
    counts = include_errors or not failed
    layout = _layout_of_result(tuple(result))
    if failed or layout.errors:
        failures = failures_of(result, layout.errors, failed=failed, counts=counts)
    else:
        failures = missing_of(result)
    if isinstance(reason := result.get(REASON), str):
        failures.append((REASON, reason))
    if not counts:
        return Observation(template_id, failed, [], [], failures)
    steps = [step for step in steps or () if type(step) is dict or isinstance(step, Mapping)]
    values: Values = []
    _collect(result, layout.metrics, values, result)
    fractions: Sequence[str] = ()
    judge = result.get("judge")
    if judge is not None and _is_mapping(judge) and "outputs" in judge:
        texts = _outputs(judge.get("texts", []), "texts", result)
        _collect_outputs(judge["outputs"], texts, values, failures, result)
        fractions = _outputs(judge.get("fractions", []), "fractions", result)
    _collect_of_steps(steps, values, failures, result)
    return Observation(template_id, failed, values, steps, failures, fractions)


def metric_position(metric: str) -> tuple[int, str]:
    """A sort key: the metrics in their fixed order, the costs after them by name."""
    return _POSITIONS.get(metric, len(_POSITIONS)), metric


def is_bounded(name: str) -> bool:
    """Whether a metric is from 0 to 1 by its definition; outputs of custom evaluations have their own."""
    return name in BOUNDED_METRICS


def may_be_bounded(name: str) -> bool:
    """Whether it is, or may be the output of a custom evaluation."""
    return name in BOUNDED_METRICS or not (name in RESULT_KEYS or name.endswith(COST))


def is_metric(name: str) -> bool:
    """Whether a key of this name in a result or a retrieval step is a metric, whatever the result."""
    return name in _POSITIONS or name.endswith(COST)


def may_be_metric(name: str) -> bool:
    """Whether some result may have a metric of this name: it may be an output of a custom evaluation."""
    return is_metric(name) or name not in RESULT_KEYS


def fits(value: float) -> bool:
    """Whether an int, or a float that stands for one, is one of 64 bits, signed or not."""
    return -(2**63) <= value < 2**64


def _is_mapping(value: Any) -> bool:
    return type(value) is dict or isinstance(value, Mapping)


class _Layout(NamedTuple):
    """Which of some keys are of metrics, and which of errors of metrics."""

    metrics: tuple[str, ...]
    errors: tuple[str, ...]


@lru_cache(maxsize=256)
def _layout_of_result(keys: tuple[Any, ...]) -> _Layout:
    """Cached, since the results of a stream have few layouts."""
    return _layout(keys, _OF_RESULT, ERRORS_OF_RESULT)


@lru_cache(maxsize=256)
def _layout_of_step(keys: tuple[Any, ...]) -> _Layout:
    return _layout(keys, _OF_RETRIEVAL, ERRORS_OF_STEP)


def _layout(keys: Iterable[Any], metrics: Container[str], errors: Container[str]) -> _Layout:
    return _Layout(
        tuple(key for key in keys if key in metrics or (isinstance(key, str) and key.endswith(COST))),
        tuple(key for key in keys if key in errors),
    )


def _collect(
    item: Mapping[str, Any], metrics: Iterable[str], values: Values, result: Mapping[str, Any]
) -> None:
    for key in metrics:
        value = item[key]
        if value is not None:
            # As nearly all are; `_number` takes the rest.
            if not (-inf < value < inf if type(value) is float else type(value) is int and fits(value)):
                value = _number(value, key, result)
            values.append((key, value))


def _collect_of_steps(steps: Steps, values: Values, failures: list[Tally], result: Mapping[str, Any]) -> None:
    for step in steps:
        if step.get("name") == "retrieval":
            layout = _layout_of_step(tuple(step))
            _collect(step, layout.metrics, values, result)
            if layout.errors:
                failures += failures_of_step(step, layout.errors)


def _collect_outputs(
    outputs: Any, texts: Container[str], values: Values, failures: list[Tally], result: Mapping[str, Any]
) -> None:
    names = [name for name in _outputs(outputs, "outputs", result) if name not in texts]
    failures += failures_of_outputs(result, names)
    for key in names:
        value = result.get(key)
        if isinstance(value, int | float):
            values.append((key, _number(value, key, result)))


def _outputs(outputs: Any, key: str, result: Mapping[str, Any]) -> list[str]:
    """The names of outputs of custom evaluations, of which those that are numbers are metrics."""
    if not isinstance(outputs, list | tuple) or not all(isinstance(name, str) for name in outputs):
        raise _error(result, f"judge.{key}", "a list of names", outputs)
    return [name for name in outputs if name not in RESULT_KEYS and not name.endswith(COST)]


def _number(value: Any, key: str, result: Mapping[str, Any]) -> float:
    if isinstance(value, int) and not isinstance(value, bool) and fits(value):
        return int(value)
    if isinstance(value, float) and -inf < value < inf:
        return float(value)
    raise _error(result, key, "a finite number of at most 64 bits", value)


def _error(result: Mapping[str, Any], place: str, wanted: str, value: Any) -> AggregationError:
    question = describe(result.get("question_id"))
    return AggregationError(f"question {question}: {place}: must be {wanted}, not {describe(value)}")


def describe(value: Any) -> str:
    """`value` in a few words, whatever it is: printing an int of 10,000 digits is itself an error."""
    if isinstance(value, str):
        return repr(value[:200])
    if value is None or isinstance(value, bool | float):
        return repr(value)
    if isinstance(value, int):
        return repr(value) if fits(value) else f"an int of {value.bit_length()} bits"
    return type(value).__name__
