"""Reads result dicts of any origin. Each is checked completely before any of it is counted."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
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
    """Return an evaluation with those values and steps of a result that count.

    Args:
        result: a result dict, or an evaluation, which need not be checked.
        include_errors: whether the values and steps of responses that are errors count.

    Raises:
        AggregationError: `result` is not a result, or one of its metrics is not a finite number of
            at most 64 bits.
    """
    if isinstance(result, Evaluation):
        if result.failed and not include_errors:
            return result.without_values()
        return result

    # `dict` comes first, since checking for `Mapping` takes ten times as long.
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
        # A result with this key is incomplete, even if it names no metric.
        evaluation.pending = result["pending"] or ()
    if "tags" in result:
        evaluation.tags = _tags(result)

    if failed and not include_errors:
        errors = _layout_of_result(result).errors
        outcomes = tuple(missing_values(result, errors, failed=True, values_count=False))
        evaluation.outcomes = outcomes
        evaluation.outcomes_of_error = outcomes
    else:
        evaluation.steps = step_outcomes(steps)
        count_metrics(evaluation, result, steps)
    return evaluation


def _check_keys(result: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Check the keys of a result that are not metrics, and return its steps.

    Raises:
        AggregationError: `result` is not a result.
    """
    template_id = result.get("template_id")
    lacks_ids = template_id is None or result.get("question_id") is None
    if lacks_ids:
        # It may be a response or a reference set, which a better message can say.
        message = kind_of_no_result(result)
        if message:
            raise AggregationError(message)
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
    """Return a copy of a result that lists the outputs of custom evaluations that it may have.

    A result that lists outputs already, or that is not a result, is returned unchanged.

    Args:
        result: a result, which is not checked.
        kinds: keys to add to what the result has under `judge`: `outputs`, and lists of those
            outputs that are texts or from 0 to 1.
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
    """Set the metrics of an evaluation from a result, and why some of them have no value.

    Args:
        evaluation: the evaluation, of which this sets `metrics`, `numbers`, `outcomes`, `fractions`
            and `votes`.
        result: the result dict.
        steps: the steps of the result, some of which may be retrieval steps with own metrics.
    """
    layout = _layout_of_result(result)
    values = _values(result, layout.metrics, result)
    outcomes = missing_values(result, layout.errors, failed=evaluation.failed, values_count=True)
    panels = [(result, key) for key in layout.panels]

    # Add the outputs of custom evaluations and of metrics in code, which the result lists.
    evaluation.fractions = ()
    if CUSTOM_METRICS in result and OUTPUTS not in result:
        # There was no judge, so no output of a custom evaluation is missing.
        outcomes = [outcome for outcome in outcomes if outcome[0] != OUTPUTS]
    for place in (OUTPUTS, CUSTOM_METRICS):
        listed = result.get(place)
        if listed is None:
            continue
        if not isinstance(listed, (dict, Mapping)) or "outputs" not in listed:
            continue
        texts = _output_names(listed, place, "texts", result)
        outputs = [
            name for name in _output_names(listed, place, "outputs", result) if name not in texts
        ]
        outcomes += missing_outputs(result, outputs, place)
        numbers = [name for name in outputs if isinstance(result.get(name), Real)]
        values += _values(result, numbers, result)
        evaluation.fractions += tuple(_output_names(listed, place, "fractions", result))

    # Add the metrics of retrieval steps.
    for step in steps:
        if step.get("name") == "retrieval":
            layout = _layout_of_step(step)
            values += _values(step, layout.metrics, result)
            outcomes += missing_values_of_step(step, layout.errors)
            panels += [(step, key) for key in layout.panels]

    if panels:
        evaluation.votes = tuple(vote for item, key in panels for vote in _votes(item, key))
    evaluation.metrics = tuple([metric for metric, _ in values])
    evaluation.numbers = tuple([number for _, number in values])
    evaluation.outcomes = tuple(outcomes)


class _Layout(NamedTuple):
    """The keys of a result, or of a retrieval step, by what they mean.

    Attributes:
        metrics: names of metrics.
        errors: keys of errors, each of which leaves some metrics without a value.
        panels: keys under which several judges have their scores.
    """

    metrics: list[str]
    errors: list[str]
    panels: list[str]


def _layout_of_result(result: Mapping[str, Any]) -> _Layout:
    """Return the keys of a result by what they mean."""
    return _layout((False, *result))


def _layout_of_step(step: Mapping[str, Any]) -> _Layout:
    """Return the keys of a retrieval step by what they mean."""
    return _layout((True, *step))


@remember(entries=512)
def _layout(is_step_and_keys: tuple[Any, ...]) -> _Layout:
    """Return the keys of a result or of a retrieval step by what they mean.

    Many results have the same keys, so layouts are cached. The cache takes a single argument, a
    tuple that begins with whether it is a step. Its keys follow.
    """
    is_step, *keys = is_step_and_keys
    metrics: Container[str] = RESULT_METRICS
    errors: Container[str] = ERRORS_OF_RESULT
    if is_step:
        metrics = RETRIEVAL_METRICS
        errors = ERRORS_OF_STEP
    names = [key for key in keys if isinstance(key, str)]
    return _Layout(
        metrics=[name for name in names if name in metrics or name.endswith(COST)],
        errors=[name for name in names if name in errors],
        panels=[name for name in names if name.endswith(BY)],
    )


def _values(item: Mapping[str, Any], metrics: Sequence[str], result: Mapping[str, Any]) -> Values:
    """Return the values of some metrics of a result or of one of its steps, without nulls.

    Args:
        item: the result or the step.
        metrics: keys of the item.
        result: the result, for the message of an error.

    Raises:
        AggregationError: a value is not a finite number of at most 64 bits.
    """
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
    """Return a number of any type, such as one of NumPy, as an int or a float.

    Args:
        value: the number.
        key: its key, for the message of an error.
        result: the result that it is in, for the message of an error.

    Raises:
        AggregationError: it is not a finite number of at most 64 bits.
    """
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    if is_number:
        # A `Fraction` that is too large raises an error; a number of NumPy becomes infinite.
        with suppress(OverflowError):
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
    """Yield each metric that at least two judges scored, with the score of each judge.

    Args:
        item: a result or a retrieval step.
        key: the key of the item under which each judge has its scores.
    """
    metrics_by_judge = item[key]
    if not isinstance(metrics_by_judge, Mapping):
        return
    if not all(isinstance(metrics, Mapping) for metrics in metrics_by_judge.values()):
        return
    names = dict.fromkeys(name for metrics in metrics_by_judge.values() for name in metrics)
    for name in names:
        # Other keys are not scores: the item itself has no such metric, or they are costs.
        is_scored = name in item and not name.endswith(COST)
        if not is_scored:
            continue
        score_by_judge = {
            judge: metrics[name]
            for judge, metrics in metrics_by_judge.items()
            if _is_score(metrics.get(name))
        }
        if len(score_by_judge) > 1:
            yield name, score_by_judge


def _is_score(value: Any) -> bool:
    """Return whether a value is a finite number."""
    return type(value) in {int, float} and -inf < value < inf


def outputs_where_lower_is_better(result: Mapping[str, Any]) -> list[str]:
    """Return the names of judged outputs of a result whose lower values are better.

    Raises:
        AggregationError: the result does not list them as names.
    """
    listed = result.get(OUTPUTS)
    if not isinstance(listed, (dict, Mapping)):
        return []
    return _output_names(listed, OUTPUTS, "lower_is_better", result)


def _output_names(
    listed: Mapping[str, Any], place: str, key: str, result: Mapping[str, Any]
) -> list[str]:
    """Return the names of outputs that a result lists, without names that mean something else.

    Args:
        listed: what the result has under the key `place`.
        place: the key of the result, for the message of an error.
        key: the key of `listed` that has the names; they are empty if it is missing.
        result: the result, for the message of an error.

    Raises:
        AggregationError: they are not a list of names.
    """
    names = listed.get(key, [])
    is_list = isinstance(names, list | tuple)
    if not is_list or not all(isinstance(name, str) for name in names):
        raise _error(result, f"{place}.{key}", "a list of names", names)
    return [name for name in names if name not in RESULT_KEYS and not name.endswith(COST)]


def _tags(result: Mapping[str, Any]) -> Tags:
    """Return the tags of a result, which must have the key `tags`.

    Raises:
        AggregationError: the tags are invalid.
    """
    try:
        return read_tags(result["tags"])
    except ValueError as error:
        question = describe(result.get("question_id"))
        raise AggregationError(f"question {question}: {error}") from None


def _error(result: Mapping[str, Any], place: str, expected: str, value: Any) -> AggregationError:
    """Return the error for a value in a result that is not as expected.

    Args:
        result: the result.
        place: where the value is in it.
        expected: what it must be, in words.
        value: the value.
    """
    question = describe(result.get("question_id"))
    problem = f"must be {expected}, not {describe(value)}"
    return AggregationError(f"question {question}: {place}: {problem}")
