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
from graphrag_eval_async.records.misnamed import what_else

Values: TypeAlias = list[tuple[str, float]]


def observe(result: Mapping[str, Any] | Evaluation, *, include_errors: bool = False) -> Evaluation:
    """The countable data of a result. Skips values and steps of failed responses unless
    `include_errors`.

    Raises:
        AggregationError: `result` is not a result, or one of its metrics is not a finite number of
            at most 64 bits.
    """
    if isinstance(result, Evaluation):
        return result if include_errors or not result.failed else result.without_values()
    if not isinstance(result, (dict, Mapping)):
        raise AggregationError(f"a result must be an object, not {describe(result)}")
    template_id, question_id = result.get("template_id"), result.get("question_id")
    if (template_id is None or question_id is None) and (swapped := what_else(result)):
        raise AggregationError(swapped)
    if not isinstance(template_id, str):
        raise _error(result, "template_id", "a string", template_id)
    status = result.get("status", "success")
    if status not in ("success", "error"):
        raise _error(result, "status", '"success" or "error"', status)
    steps = result.get("actual_steps")
    if steps is not None and not isinstance(steps, list | tuple):
        raise _error(result, "actual_steps", "a list", steps)
    failed = status == "error"
    evaluation = Evaluation(template_id, question_id, failed, result.get("sample"), result=result)
    evaluation.is_answered = answer_state(result.get("actual_answer")) == ANSWERED
    if "pending" in result:
        evaluation.pending = result["pending"] or ()
    if "tags" in result:
        evaluation.tags = _tags(result)
    if include_errors or not failed:
        steps = [step for step in steps or () if isinstance(step, (dict, Mapping))]
        evaluation.steps = step_outcomes(steps)
        count_metrics(evaluation, result, steps)
    else:
        failures = missing_values(
            result, _layout((False, *result)).errors, failed=True, counts=False
        )
        evaluation.outcomes = evaluation.outcomes_of_error = tuple(failures)
    return evaluation


def with_outputs(result: Mapping[str, Any], kinds: Mapping[str, list[str]]) -> Mapping[str, Any]:
    """The result, with the outputs of custom evaluations that it may have added if it does not
    list them.
    """
    judge = (result.get("judge") or {}) if isinstance(result, Mapping) else None
    if not isinstance(judge, Mapping) or "outputs" in judge:
        return result
    return {**result, "judge": {**judge, **kinds}}


def count_metrics(
    evaluation: Evaluation, result: Mapping[str, Any], steps: Sequence[Mapping[str, Any]]
) -> None:
    """Set the metrics of a result and its steps, and record which are missing and why."""
    layout = _layout((False, *result))
    failures = missing_values(result, layout.errors, failed=evaluation.failed, counts=True)
    values, evaluation.fractions = _values(result, layout.metrics, result), ()
    if CUSTOM_METRICS in result and OUTPUTS not in result:  # Its outputs are known.
        failures = [failure for failure in failures if failure[0] != OUTPUTS]
    for place in (OUTPUTS, CUSTOM_METRICS):
        listed = result.get(place)
        if listed is not None and isinstance(listed, (dict, Mapping)) and "outputs" in listed:
            texts = _outputs(listed, place, "texts", result)
            names = [
                name for name in _outputs(listed, place, "outputs", result) if name not in texts
            ]
            failures += missing_outputs(result, names, place)
            numbers = [name for name in names if isinstance(result.get(name), Real)]
            values += _values(result, numbers, result)
            evaluation.fractions += tuple(_outputs(listed, place, "fractions", result))
    panels: list[tuple[Mapping[str, Any], str]] = [(result, key) for key in layout.panels]
    for step in steps:
        if step.get("name") == "retrieval":
            layout = _layout((True, *step))
            values += _values(step, layout.metrics, result)
            failures += missing_values_of_step(step, layout.errors)
            panels += [(step, key) for key in layout.panels]
    if panels:
        evaluation.votes = tuple(vote for item, key in panels for vote in _votes(item, key))
    evaluation.metrics, evaluation.numbers = zip(*values, strict=True) if values else ((), ())
    evaluation.outcomes = tuple(failures)


class _Layout(NamedTuple):
    metrics: list[str]  # Those of its keys that are metrics.
    errors: list[str]
    panels: list[str]  # What each of several judges says.


@remember(entries=512)
def _layout(keys: tuple[Any, ...]) -> _Layout:
    """The layout of a result or, if the first of `keys` is True, of a retrieval step. Layouts
    are few.
    """
    of_step = keys[0] is True
    metrics = RETRIEVAL_METRICS if of_step else RESULT_METRICS
    errors = ERRORS_OF_STEP if of_step else ERRORS_OF_RESULT
    names = [key for key in keys if isinstance(key, str)]
    found = [name for name in names if name in metrics or name.endswith(COST)]
    panels = [name for name in names if name.endswith(BY)]
    return _Layout(found, [name for name in names if name in errors], panels)


def _values(item: Mapping[str, Any], metrics: Sequence[str], result: Mapping[str, Any]) -> Values:
    values: Values = []
    for key in metrics:
        value = item[key]
        if value is not None:
            # Nearly all values pass this fast check; `_number` handles the rest.
            if not (
                -inf < value < inf
                if type(value) is float
                else type(value) is int and fits_64_bits(value)
            ):
                value = _number(item, key, result)
            values.append((key, value))
    return values


def _votes(item: Mapping[str, Any], key: str) -> Iterator[tuple[str, Mapping[str, float]]]:
    """Yield the scores that several judges gave a metric of a result or step, if two or more
    did.
    """
    each = item[key]
    if not isinstance(each, Mapping) or not all(isinstance(own, Mapping) for own in each.values()):
        return
    for metric in dict.fromkeys(name for own in each.values() for name in own):
        if metric in item and not metric.endswith(COST):
            scores = [(judge, own.get(metric)) for judge, own in each.items()]
            votes = {judge: x for judge, x in scores if type(x) in {int, float} and -inf < x < inf}
            if len(votes) > 1:
                yield metric, votes


def _outputs(
    listed: Mapping[str, Any], place: str, key: str, result: Mapping[str, Any]
) -> list[str]:
    """The names of outputs of custom evaluations or metrics in code. Outputs that are numbers
    are metrics.
    """
    names = listed.get(key, [])
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise _error(result, f"{place}.{key}", "a list of names", names)
    return [name for name in names if name not in RESULT_KEYS and not name.endswith(COST)]


def _number(item: Mapping[str, Any], key: str, result: Mapping[str, Any]) -> float:
    value = item[key]
    if not isinstance(value, bool) and isinstance(value, Real):
        with suppress(OverflowError):  # A fraction raises it; numbers of NumPy become infinite.
            number = int(value) if isinstance(value, Integral) else float(value)
            if fits_64_bits(number) if isinstance(number, int) else -inf < number < inf:
                return number
    raise _error(result, key, "a finite number of at most 64 bits", value)


def _tags(result: Mapping[str, Any]) -> Tags:
    try:
        return read_tags(result["tags"])
    except ValueError as error:
        raise AggregationError(f"question {describe(result.get('question_id'))}: {error}") from None


def _error(result: Mapping[str, Any], place: str, wanted: str, value: Any) -> AggregationError:
    question = describe(result.get("question_id"))
    return AggregationError(
        f"question {question}: {place}: must be {wanted}, not {describe(value)}"
    )
