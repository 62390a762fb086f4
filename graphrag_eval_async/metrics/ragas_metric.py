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

    from graphrag_eval_async.metrics.metric import Calls, Case, Keys
    from graphrag_eval_async.metrics.ragas_models import MetricRun

ROUNDING = 1e-9
"""How far beyond its range rounding may lead a value, which then counts as the end of the range."""


@dataclass(frozen=True)
class Outcome:
    """What a metric of ragas returned.

    Attributes:
        value: its value, of any kind.
        reason: why, if the metric says so.
        replies: the replies of the judge, as the output models of the prompts.
    """

    value: Any
    reason: str | None = None
    replies: tuple[Any, ...] = ()


async def run_metric(metric: Any, inputs: Mapping[str, Any], calls: Calls) -> Outcome:
    """Run a metric of ragas that has our models, and return what it returns.

    Raises:
        JudgeError: a call failed, or the metric raised an exception.
    """
    from graphrag_eval_async.metrics.ragas_models import MetricRun

    vectors: dict[str, list[float]] = {}
    while True:
        run = MetricRun(calls, vectors)
        outcome = await _run_once(metric, inputs, run)
        if not run.texts_without_vectors:
            break
        # In the next run, equal calls share the replies of this one.
        texts = [*dict.fromkeys(run.texts_without_vectors)]
        vectors |= zip(texts, await calls.embed(texts), strict=True)

    if run.error is not None:
        raise run.error.with_traceback(None)
    if isinstance(outcome, Exception):
        problem = describe_exception(outcome)
        # A package that is missing is no fault of the judge's reply.
        if isinstance(outcome, ImportError):
            raise JudgeError("invalid_request", f"ragas: {problem}", final=True) from outcome
        raise JudgeError("invalid_reply", f"ragas: {problem}", final=True) from outcome
    return outcome


async def _run_once(metric: Any, inputs: Mapping[str, Any], run: MetricRun) -> Outcome | Exception:
    """Return what a metric returns, or the exception that it raises."""
    with run.entered():
        try:
            value, reason = await _call_metric(metric, inputs)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            await run.finish()
            return RuntimeError("the metric cancelled itself")
        except Exception as error:  # noqa: BLE001  (metrics of ragas raise anything)
            await run.finish()
            return error
    return Outcome(value, reason, replies=tuple(run.replies))


async def _call_metric(metric: Any, inputs: Mapping[str, Any]) -> tuple[Any, str | None]:
    """Return the value and the reason that a metric returns."""
    if hasattr(metric, "get_required_columns"):
        return await _call_older_metric(metric, inputs), None
    if hasattr(metric, "get_variables"):
        from graphrag_eval_async.metrics.ragas_models import LLM

        result = await metric.ascore(llm=LLM, **inputs)
    else:
        result = await metric.ascore(**inputs)
    return result.value, result.reason


async def _call_older_metric(metric: Any, inputs: Mapping[str, Any]) -> Any:
    """Return the value that a metric of `ragas.metrics` returns."""
    from ragas.dataset_schema import MultiTurnSample, SingleTurnSample

    if is_conversation(metric):
        return await metric.multi_turn_ascore(MultiTurnSample(**inputs))
    return await metric.single_turn_ascore(SingleTurnSample(**inputs))


def is_conversation(metric: Any) -> bool:
    """Return whether a metric is about all messages of a conversation."""
    if hasattr(metric, "single_turn_ascore"):
        return False
    if hasattr(metric, "multi_turn_ascore"):
        return True
    user_input = signature(metric.ascore).parameters.get("user_input")
    return "Message" in str(user_input)


def _is_json(value: Any) -> bool:
    """Return whether a value is JSON; sets and objects differ from one process to the next."""
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
        asks_llm: whether it asks a model.
        asks_embeddings: whether it asks for embeddings.
        limits: the least and the greatest value; None if ragas does not say.
        gives_text: whether its values are texts.
        lower_is_better: whether lower values are better.
        metric: the object of ragas, which has our models.
        path: the name or the path of its class.
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
    path: str

    @property
    def is_fraction(self) -> bool:
        """Whether its values are from 0 to 1 by definition, and comparisons may decide it.

        They take higher values for better.
        """
        is_from_0_to_1 = not self.gives_text and self.limits == (0.0, 1.0)
        return is_from_0_to_1 and not self.lower_is_better

    def as_metric(self) -> Metric:
        """Return the metric that is judged."""
        return Metric(self.name, self._prompts(), self._tasks)

    def _prompts(self) -> list[str]:
        """Return what values depend on besides the data: the version, settings and prompts."""
        settings: dict[str, Any] = {}
        instructions = []
        for key, value in sorted(vars(self.metric).items()):
            if isinstance(getattr(value, "instruction", None), str):
                instructions.append(value.instruction)
            elif _is_json(value):
                settings[key] = value
        constants = {key: value for key, value in self.constants.items() if _is_json(value)}
        version = metadata.version("ragas")
        return [
            f"ragas {version} {self.path}",
            _sorted_json([settings, constants]),
            *instructions,
        ]

    def _tasks(self, case: Case) -> list[Task]:
        inputs = self._inputs(case)
        missing = [name for name in self.needs if name not in inputs]
        if missing:
            return [Task(self.name, None, missing=missing)]
        return [Task(self.name, partial(self._score, inputs))]

    def _inputs(self, case: Case) -> dict[str, Any]:
        """Return the inputs that the metric takes, as far as a response has them."""
        return read_inputs(case, self.takes, is_conversation=is_conversation(self.metric)) | dict(
            self.constants
        )

    async def _score(self, inputs: Mapping[str, Any], calls: Calls) -> Keys:
        """Return the keys of a result: a value with its reason, or the reason why there is none.

        Raises:
            JudgeError: a call failed, or the metric did.
        """
        outcome = await run_metric(self.metric, inputs, calls)
        return self._keys(outcome)

    def _keys(self, outcome: Outcome) -> Keys:
        """Return the keys of a result, with a value only if it is one.

        Raises:
            JudgeError: the value is not within the range that ragas states.
        """
        value = self._checked_value(outcome)
        keys: Keys = {}
        if value is not None:
            keys[self.name] = value
        reason = outcome.reason
        if value is None and not reason:
            reason = "ragas gave no value"
        if reason:
            keys[f"{self.name}_reason"] = reason
        return keys

    def _checked_value(self, outcome: Outcome) -> float | str | None:
        """Return the value as a finite number or a text; None if there is none."""
        value = outcome.value
        if isinstance(value, str):
            return value
        if value is None and outcome.reason:
            # A function decorated as a metric failed, and ragas says so.
            raise JudgeError("invalid_reply", f"ragas: {outcome.reason}", final=True)
        if value is None:
            return None
        if not isinstance(value, Real):
            kind = type(value).__name__
            raise JudgeError(
                "invalid_reply", f"ragas: expected a number or a text, got {kind}", final=True
            )
        number = float(value)
        if not isfinite(number):
            return None
        if self.limits is None:
            return number
        low, high = self.limits
        if not low - ROUNDING <= number <= high + ROUNDING:
            raise JudgeError(
                "invalid_reply",
                f"ragas: the value {number:g} is not from {low:g} to {high:g}",
                final=True,
            )
        return min(max(number, low), high)
