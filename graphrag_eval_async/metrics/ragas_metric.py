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

    # A metric may want vectors of texts without waiting. Then the run fails, we embed the texts, and
    # the metric runs again with the vectors. Its calls to the LLM share the replies of the first run.
    vectors: dict[str, list[float]] = {}
    while True:
        run = MetricRun(calls, vectors)
        outcome = await _run_once(metric, inputs, run)
        if not run.texts_without_vectors:
            break
        texts = list(dict.fromkeys(run.texts_without_vectors))
        new_vectors = await calls.embed(texts)
        vectors.update(zip(texts, new_vectors, strict=True))

    if run.error is not None:
        raise run.error.with_traceback(None)
    if isinstance(outcome, Exception):
        message = f"ragas: {describe_exception(outcome)}"
        # A package that is missing is no fault of the judge's reply.
        if isinstance(outcome, ImportError):
            raise JudgeError("invalid_request", message, final=True) from outcome
        raise JudgeError("invalid_reply", message, final=True) from outcome
    return outcome


async def _run_once(metric: Any, inputs: Mapping[str, Any], run: MetricRun) -> Outcome | Exception:
    """Run a metric of ragas once, and return its outcome, or the exception that it raises.

    A cancellation of the current task passes through.
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
    """Call a metric of ragas, and return its value, and its reason if it gives one."""
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
    """Return whether the input `user_input` of a metric of ragas is all messages of a conversation.

    Otherwise, it is the question.
    """
    # Metrics of the older module have one of these methods, or both.
    if hasattr(metric, "single_turn_ascore"):
        return False
    if hasattr(metric, "multi_turn_ascore"):
        return True
    # Newer metrics only tell by the type of the parameter, such as `list[HumanMessage]`. It is
    # searched as text, since some metrics have it as a forward reference.
    user_input = signature(metric.ascore).parameters.get("user_input")
    return "Message" in str(user_input)


def _is_json(value: Any) -> bool:
    """Return whether a value can be encoded as JSON.

    Sets and other objects cannot; their text differs from one process to the next.
    """
    try:
        orjson.dumps(value)
    except TypeError:
        return False
    return True


def _sorted_json(value: Any) -> str:
    """Return a value as JSON, equal for equal values."""
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
        """Whether its values are from 0 to 1 by definition, and higher values are better.

        Comparisons may decide only such metrics.
        """
        is_from_0_to_1 = not self.gives_text and self.limits == (0.0, 1.0)
        return is_from_0_to_1 and not self.lower_is_better

    def as_metric(self) -> Metric:
        """Return the metric as one to judge like all others."""
        return Metric(self.name, self._prompts(), self._tasks)

    def _prompts(self) -> list[str]:
        """Return what values depend on besides the data.

        These are the version of ragas, the code, the settings and constants that are JSON, and the
        instructions of the prompts.
        """
        settings: dict[str, Any] = {}
        instructions = []
        for attribute, value in sorted(vars(self.metric).items()):
            # Prompts of ragas have instructions.
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
        """Return the task for a response; it is skipped if an input is missing."""
        inputs = self._inputs(case)
        missing = [name for name in self.needs if name not in inputs]
        if missing:
            return [Task(self.name, None, missing=missing)]
        return [Task(self.name, partial(self._score, inputs))]

    def _inputs(self, case: Case) -> dict[str, Any]:
        """Return the inputs that the metric takes, by name.

        These are the inputs that a response and its question have, and the constants. A constant
        replaces an input of the same name.
        """
        inputs = read_inputs(case, self.takes, is_conversation=takes_conversation(self.metric))
        inputs.update(self.constants)
        return inputs

    async def _score(self, inputs: Mapping[str, Any], calls: Calls) -> dict[str, Any]:
        """Run the metric, and return the entries of a result: the value and the reason.

        If the metric gives no value, there is only the reason.

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
        """Return the value of a metric as a text or a number; None if it is None, NaN or infinite.

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
                # Ragas gives such a reason if a function that is decorated as a metric failed.
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
    """Return the error of a metric of ragas whose value cannot be used; it is not retried."""
    return JudgeError("invalid_reply", f"ragas: {problem}", final=True)
