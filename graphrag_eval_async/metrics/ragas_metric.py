"""Any metric of the package ragas, judged as all others are.

It asks our judges, so their limits, retries, budget, prices and cache apply. `ragas_lookup` makes
such metrics.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from inspect import signature
from math import isfinite
from numbers import Real
from typing import TYPE_CHECKING, Any

import orjson

from graphrag_eval_async.errors import JudgeError, describe_exception
from graphrag_eval_async.metrics.metric import Metric, Task
from graphrag_eval_async.metrics.ragas_inputs import read_inputs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphrag_eval_async.metrics.metric import Calls, Case
    from graphrag_eval_async.metrics.ragas_models import MetricRun

ROUNDING = 1e-9
"""How far rounding may lead a value beyond its range; such a value becomes the end of the range."""


@dataclass(frozen=True)
class Outcome:
    """What a metric of ragas returned.

    Attributes:
        value: the value, of any kind; it may be NaN or None.
        reason: the reason of the value, if the metric gives one.
        replies: the replies of the judge, as the output models of the prompts.
    """

    value: Any
    reason: str | None = None
    replies: tuple[Any, ...] = ()


async def run_metric(metric: Any, inputs: Mapping[str, Any], calls: Calls) -> Outcome:
    """Run a metric of ragas that asks our judge, and return its value, reason and replies.

    Args:
        metric: the metric, an object.
        inputs: the inputs, by the names of ragas.
        calls: asks the judge.

    Raises:
        JudgeError: a call failed, or the metric raised an exception.
    """
    from graphrag_eval_async.metrics.ragas_models import MetricRun

    # A metric may ask for vectors in a function that cannot wait for them. Then the run fails, the
    # texts are embedded here, and the metric runs again with the vectors. In the next run, equal
    # calls to the LLM get the replies of the first run.
    vectors: dict[str, list[float]] = {}
    while True:
        run = MetricRun(calls, vectors)
        outcome = await _run_once(metric, inputs, run)
        if not run.texts_without_vectors:
            break
        texts = list(dict.fromkeys(run.texts_without_vectors))
        new_vectors = await calls.embed(texts)
        vectors.update(zip(texts, new_vectors, strict=True))

    # The error of a call counts first, since the metric may have turned it into a number.
    if run.error is not None:
        raise run.error.with_traceback(None)
    if isinstance(outcome, Exception):
        message = f"ragas: {describe_exception(outcome)}"
        # If a package is missing, the judge's reply is not to blame.
        if isinstance(outcome, ImportError):
            raise JudgeError("invalid_request", message, final=True) from outcome
        raise JudgeError("invalid_reply", message, final=True) from outcome
    return outcome


async def _run_once(metric: Any, inputs: Mapping[str, Any], run: MetricRun) -> Outcome | Exception:
    """Run a metric of ragas once, and return its outcome, or the exception that it raises.

    If the current task is cancelled from outside, the cancellation is raised.
    """
    with run.entered():
        try:
            value, reason = await _call_metric(metric, inputs)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            is_cancelled_from_outside = task is not None and task.cancelling() > 0
            if is_cancelled_from_outside:
                raise
            await run.finish()
            return RuntimeError("the metric cancelled itself")
        except Exception as error:  # noqa: BLE001  (metrics of ragas raise anything)
            await run.finish()
            return error
    return Outcome(value, reason, replies=tuple(run.replies))


async def _call_metric(metric: Any, inputs: Mapping[str, Any]) -> tuple[Any, str | None]:
    """Call a metric of ragas, and return its value and its reason; None if it gives no reason."""
    # Only metrics of the older module `ragas.metrics` have this method.
    if hasattr(metric, "get_required_columns"):
        return await _call_older_metric(metric, inputs), None
    # Only metrics that are made from a prompt have this method. They take the LLM with each call.
    if hasattr(metric, "get_variables"):
        from graphrag_eval_async.metrics.ragas_models import LLM

        result = await metric.ascore(llm=LLM, **inputs)
    else:
        result = await metric.ascore(**inputs)
    return result.value, result.reason


async def _call_older_metric(metric: Any, inputs: Mapping[str, Any]) -> Any:
    """Call a metric of the older module `ragas.metrics`, and return its value."""
    from ragas.dataset_schema import MultiTurnSample, SingleTurnSample

    if takes_conversation(metric):
        return await metric.multi_turn_ascore(MultiTurnSample(**inputs))
    return await metric.single_turn_ascore(SingleTurnSample(**inputs))


def takes_conversation(metric: Any) -> bool:
    """Return whether a metric of ragas takes a whole conversation as its input `user_input`.

    Other metrics take the question.
    """
    # Metrics of the older module have one of these methods, or both.
    if hasattr(metric, "single_turn_ascore"):
        return False
    if hasattr(metric, "multi_turn_ascore"):
        return True
    # Of newer metrics, only the type of the parameter says so, such as `list[HumanMessage]`. The
    # type is searched as text, since it may be a forward reference.
    user_input = signature(metric.ascore).parameters.get("user_input")
    return "Message" in str(user_input)


def _is_json(value: Any) -> bool:
    """Return whether a value can be encoded as JSON."""
    try:
        orjson.dumps(value)
    except TypeError:
        return False
    return True


def _sorted_json(value: Any) -> str:
    """Return a value as JSON in which keys are sorted, so that equal values give equal texts."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()


@dataclass(frozen=True)
class RagasMetric:
    """A metric of ragas that is ready to run.

    Attributes:
        name: its name in the configuration and in results.
        needs: the inputs without which it is skipped, by the names of ragas.
        takes: all inputs that it takes.
        constants: inputs that the configuration gives, such as rubrics.
        asks_llm: whether it asks an LLM.
        asks_embeddings: whether it asks an embedding model.
        limits: the least and the greatest value; None if ragas does not say.
        gives_text: whether its values are texts.
        lower_is_better: whether lower values are better.
        metric: the object of ragas, which asks our judge.
        identity: texts that tell its code apart from other metrics' code, such as the path of its
            class.
    """

    name: str
    needs: tuple[str, ...]
    takes: frozenset[str]
    constants: Mapping[str, Any]
    asks_llm: bool
    asks_embeddings: bool
    limits: tuple[float, float] | None
    gives_text: bool
    lower_is_better: bool
    metric: Any
    identity: tuple[str, ...]

    @property
    def is_fraction(self) -> bool:
        """Whether values are from 0 to 1 by definition, and higher values are better.

        Comparisons of runs decide only about such metrics.
        """
        is_from_0_to_1 = not self.gives_text and self.limits == (0.0, 1.0)
        return is_from_0_to_1 and not self.lower_is_better

    def as_metric(self) -> Metric:
        """Return the metric in the form that all judged metrics have."""
        return Metric(self.name, self._prompts(), self._tasks)

    def _prompts(self) -> list[str]:
        """Return texts that change if values may change for another reason than the data.

        These are the version of ragas, the code, the settings and constants that are JSON, and the
        instructions of the prompts.
        """
        settings: dict[str, Any] = {}
        instructions = []
        for attribute, value in sorted(vars(self.metric).items()):
            # An attribute with an instruction is a prompt of ragas.
            if isinstance(getattr(value, "instruction", None), str):
                instructions.append(value.instruction)
            elif _is_json(value):
                settings[attribute] = value
        constants = {name: value for name, value in self.constants.items() if _is_json(value)}
        version = metadata.version("ragas")
        return [
            f"ragas {version} {' '.join(self.identity)}",
            _sorted_json([settings, constants]),
            *instructions,
        ]

    def _tasks(self, case: Case) -> list[Task]:
        """Return the one task for a response; the task is skipped if an input is missing."""
        inputs = self._inputs(case)
        missing = [name for name in self.needs if name not in inputs]
        if missing:
            return [Task(self.name, None, missing=missing)]
        return [Task(self.name, partial(self._score, inputs))]

    def _inputs(self, case: Case) -> dict[str, Any]:
        """Return the inputs of the metric for a response, by name.

        They are the inputs that the response and its question have, and the constants. A constant
        replaces an input of the same name.
        """
        inputs = read_inputs(case, self.takes, is_conversation=takes_conversation(self.metric))
        inputs.update(self.constants)
        return inputs

    async def _score(self, inputs: Mapping[str, Any], calls: Calls) -> dict[str, Any]:
        """Run the metric, and return the entries of a result: the value and the reason.

        If the metric gives no value, only the reason is returned.

        Raises:
            JudgeError: a call or the metric failed, or its value is not valid.
        """
        outcome = await run_metric(self.metric, inputs, calls)
        value = self._checked_value(outcome)
        reason = outcome.reason
        entries: dict[str, Any] = {}
        if value is not None:
            entries[self.name] = value
        elif not reason:
            reason = "ragas gave no value"
        if reason:
            entries[f"{self.name}_reason"] = reason
        return entries

    def _checked_value(self, outcome: Outcome) -> float | str | None:
        """Return the value of a metric as a text or a number.

        The result is None if there is no value, or if it is NaN or infinite. A number that lies
        outside `limits` only because of rounding becomes the nearest limit.

        Raises:
            JudgeError: the metric failed, or its value is of another type or outside `limits`.
        """
        value = outcome.value
        if isinstance(value, str):
            if not self.gives_text:
                raise _invalid_value("expected a number, got a text")
            return value
        if value is None:
            if outcome.reason:
                # A decorated function that failed gives no value, and the error as the reason.
                raise _invalid_value(outcome.reason)
            return None
        if not isinstance(value, Real):
            raise _invalid_value(f"expected a number or a text, got {type(value).__name__}")

        try:
            number = float(value)
        except OverflowError:
            raise _invalid_value("the value is too large for a number of 64 bits") from None
        if not isfinite(number):
            return None
        if self.limits is None:
            return number
        low, high = self.limits
        if number < low - ROUNDING or number > high + ROUNDING:
            raise _invalid_value(f"the value {number:g} is not from {low:g} to {high:g}")
        return min(max(number, low), high)


def _invalid_value(problem: str) -> JudgeError:
    """Return the error for a value of a metric of ragas that cannot be used, without a retry."""
    return JudgeError("invalid_reply", f"ragas: {problem}", final=True)
