"""Reading of result dicts of any origin. Each is checked completely before any of it is counted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from math import inf
from numbers import Integral, Real
from typing import Any, NamedTuple, TypeAlias

from graphrag_eval_async.catalogue.metrics import (
    BY,
    COST,
    RESULT_KEYS,
    RESULT_METRICS,
    RETRIEVAL_METRICS,
    fits_64_bits,
)
from graphrag_eval_async.catalogue.outcomes import (
    ANSWERED,
    CUSTOM_METRICS,
    ERRORS_OF_RESULT,
    ERRORS_OF_STEP,
    OUTPUTS,
    answer_state,
    missing_outputs,
    missing_values,
    missing_values_of_step,
)
from graphrag_eval_async.catalogue.tags import Tags, read_tags
from graphrag_eval_async.errors import AggregationError, describe
from graphrag_eval_async.records.caching import remember
from graphrag_eval_async.records.evaluation import Evaluation, step_outcomes
from graphrag_eval_async.records.misnamed import kind_of_no_result

Values: TypeAlias = list[tuple[str, float]]
"""Metrics and their values. Metrics of retrieval steps may repeat."""


def observe(result: Mapping[str, Any] | Evaluation, *, include_errors: bool = False) -> Evaluation:
    """Return what counts of a result.

    Skips values and steps of responses that are errors, unless `include_errors`.

    Raises:
        AggregationError: `result` is not a result, or one of its metrics is not a finite number of
            at most 64 bits.
    """
    if isinstance(result, Evaluation):
        if result.failed and not include_errors:
            return result.without_values()
        return result

    # A dict is checked first, since `Mapping` takes ten times as long.
    if not isinstance(result, (dict, Mapping)):
        raise AggregationError(f"a result must be an object, not {describe(result)}")
    steps = _check_keys(result)
    failed = result.get("status", "success") == "error"
    evaluation = Evaluation(
        template_id=result["template_id"],
        question_id=result.get("question_id"),
        failed=failed,
        sample=result.get("sample"),
        result=result,
    )
    evaluation.is_answered = answer_state(result.get("actual_answer")) == ANSWERED
    if "pending" in result:
        evaluation.pending = result["pending"] or ()
    if "tags" in result:
        evaluation.tags = _tags(result)

    if include_errors or not failed:
        evaluation.steps = step_outcomes(steps)
        count_metrics(evaluation, result, steps)
    else:
        layout = _layout((False, *result))
        outcomes = tuple(missing_values(result, layout.errors, failed=True, counts=False))
        evaluation.outcomes = outcomes
        evaluation.outcomes_of_error = outcomes
    return evaluation


def _check_keys(result: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Check the keys of a result that are not metrics; return its steps.

    Raises:
        AggregationError: `result` is not a result.
    """
    template_id = result.get("template_id")
    if template_id is None or result.get("question_id") is None:
        other_kind = kind_of_no_result(result)
        if other_kind:
            raise AggregationError(other_kind)
    if not isinstance(template_id, str):
        raise _error(result, "template_id", "a string", template_id)
    status = result.get("status", "success")
    if status not in ("success", "error"):
        raise _error(result, "status", '"success" or "error"', status)
    steps = result.get("actual_steps")
    if steps is None:
        return []
    if not isinstance(steps, list | tuple):
        raise _error(result, "actual_steps", "a list", steps)
    return [step for step in steps if isinstance(step, (dict, Mapping))]


def with_outputs(result: Any, kinds: Mapping[str, list[str]]) -> Any:
    """Return an unchecked result that lists the outputs of custom evaluations that it may have.

    `kinds` are added to what it says about its judge, unless that lists outputs already.
    """
    if not isinstance(result, Mapping):
        return result
    judge = result.get("judge") or {}
    if not isinstance(judge, Mapping) or "outputs" in judge:
        return result
    return {**result, "judge": {**judge, **kinds}}


def count_metrics(
    evaluation: Evaluation, result: Mapping[str, Any], steps: Sequence[Mapping[str, Any]]
) -> None:
    """Set the metrics of a result and its steps, and record which are missing and why."""
    layout = _layout((False, *result))
    values = _values(result, layout.metrics, result)
    outcomes = missing_values(result, layout.errors, failed=evaluation.failed, counts=True)
    panels = [(result, key) for key in layout.panels]

    # Outputs of custom evaluations and metrics in code, which the result lists.
    evaluation.fractions = ()
    if CUSTOM_METRICS in result and OUTPUTS not in result:
        # There was no judge, and the outputs of metrics in code are known.
        outcomes = [outcome for outcome in outcomes if outcome[0] != OUTPUTS]
    for place in (OUTPUTS, CUSTOM_METRICS):
        listed = result.get(place)
        if listed is None or not isinstance(listed, (dict, Mapping)) or "outputs" not in listed:
            continue
        texts = _output_names(listed, place, "texts", result)
        outputs = [
            name for name in _output_names(listed, place, "outputs", result) if name not in texts
        ]
        outcomes += missing_outputs(result, outputs, place)
        numbers = [name for name in outputs if isinstance(result.get(name), Real)]
        values += _values(result, numbers, result)
        evaluation.fractions += tuple(_output_names(listed, place, "fractions", result))

    for step in steps:
        if step.get("name") == "retrieval":
            layout = _layout((True, *step))
            values += _values(step, layout.metrics, result)
            outcomes += missing_values_of_step(step, layout.errors)
            panels += [(step, key) for key in layout.panels]

    if panels:
        evaluation.votes = tuple(vote for item, key in panels for vote in _votes(item, key))
    evaluation.metrics, evaluation.numbers = zip(*values, strict=True) if values else ((), ())
    evaluation.outcomes = tuple(outcomes)


class _Layout(NamedTuple):
    """Keys of a result or of a retrieval step."""

    metrics: list[str]
    errors: list[str]  # Those that leave metrics without a value.
    panels: list[str]  # Those under which are the metrics by judge, of several judges.


@remember(entries=512)
def _layout(is_step_and_keys: tuple[Any, ...]) -> _Layout:
    """Return the layout of a result or of a retrieval step. There are few, so they are cached.

    The first item says whether it is that of a step; the others are its keys.
    """
    is_step, *keys = is_step_and_keys
    metrics = RETRIEVAL_METRICS if is_step else RESULT_METRICS
    errors = ERRORS_OF_STEP if is_step else ERRORS_OF_RESULT
    names = [key for key in keys if isinstance(key, str)]
    return _Layout(
        metrics=[name for name in names if name in metrics or name.endswith(COST)],
        errors=[name for name in names if name in errors],
        panels=[name for name in names if name.endswith(BY)],
    )


def _values(item: Mapping[str, Any], metrics: Sequence[str], result: Mapping[str, Any]) -> Values:
    """Return the values of some metrics of a result, or of an item that is one of its steps."""
    values: Values = []
    for key in metrics:
        value = item[key]
        if value is None:
            continue
        # Nearly all values pass this fast check; `_number` handles the rest.
        is_finite_float = type(value) is float and -inf < value < inf
        if is_finite_float or (type(value) is int and fits_64_bits(value)):
            values.append((key, value))
        else:
            values.append((key, _number(value, key, result)))
    return values


def _number(value: Any, key: str, result: Mapping[str, Any]) -> float:
    """Return a number of any type as an int or a float.

    Raises:
        AggregationError: it is no finite number of at most 64 bits.
    """
    if not isinstance(value, bool) and isinstance(value, Real):
        with suppress(OverflowError):  # A fraction raises it; numbers of NumPy become infinite.
            if isinstance(value, Integral):
                integer = int(value)
                if fits_64_bits(integer):
                    return integer
            else:
                number = float(value)
                if -inf < number < inf:
                    return number
    raise _error(result, key, "a finite number of at most 64 bits", value)


def _votes(item: Mapping[str, Any], key: str) -> Iterator[tuple[str, Mapping[str, float]]]:
    """Yield each metric that two or more judges gave a score, with the scores by judge.

    `item` is a result or a step, and under `key` it has what each of its judges gave it.
    """
    metrics_by_judge = item[key]
    if not isinstance(metrics_by_judge, Mapping):
        return
    if not all(isinstance(metrics, Mapping) for metrics in metrics_by_judge.values()):
        return
    names = dict.fromkeys(name for metrics in metrics_by_judge.values() for name in metrics)
    for name in names:
        if name not in item or name.endswith(COST):
            continue
        scores = {
            judge: metrics[name]
            for judge, metrics in metrics_by_judge.items()
            if _is_score(metrics.get(name))
        }
        if len(scores) > 1:
            yield name, scores


def _is_score(value: Any) -> bool:
    """Return whether a value is a finite number."""
    return type(value) in {int, float} and -inf < value < inf


def _output_names(
    listed: Mapping[str, Any], place: str, key: str, result: Mapping[str, Any]
) -> list[str]:
    """Return the names of outputs under a key of what a result has at `place`.

    Raises:
        AggregationError: it is not a list of names.
    """
    names = listed.get(key, [])
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise _error(result, f"{place}.{key}", "a list of names", names)
    return [name for name in names if name not in RESULT_KEYS and not name.endswith(COST)]


def _tags(result: Mapping[str, Any]) -> Tags:
    """Return the tags of a result that has some.

    Raises:
        AggregationError: they are no tags.
    """
    try:
        return read_tags(result["tags"])
    except ValueError as error:
        question = describe(result.get("question_id"))
        raise AggregationError(f"question {question}: {error}") from None


def _error(result: Mapping[str, Any], place: str, expected: str, value: Any) -> AggregationError:
    """Return the error for a value at a place of a result that is not as expected."""
    question = describe(result.get("question_id"))
    problem = f"must be {expected}, not {describe(value)}"
    return AggregationError(f"question {question}: {place}: {problem}")
