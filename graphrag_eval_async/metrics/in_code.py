"""Metrics in code: functions of the user's own, called with a complete result."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from inspect import getsource, isawaitable, iscoroutine, unwrap
from math import inf
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import msgspec
import orjson

from graphrag_eval_async.catalogue.metrics import RESULT_KEYS, fits_64_bits
from graphrag_eval_async.catalogue.outcomes import CUSTOM_METRICS
from graphrag_eval_async.config.in_code import CodeMetric, is_key
from graphrag_eval_async.config.metric_keys import check_metrics
from graphrag_eval_async.errors import JudgeError, UsageError, describe, describe_exception, in_utf8
from graphrag_eval_async.records.results import count_metrics

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from graphrag_eval_async.config import Config, LimitsConfig
    from graphrag_eval_async.config.in_code import Range
    from graphrag_eval_async.records.evaluation import Evaluation

MAX_ERROR = 2000
"""The most characters of an error of a metric in a result."""


class CodeMetrics:
    """The metrics in code of an evaluator.

    Attributes:
        names: their names.
        fractions: keys of their values that are from 0 to 1 by declaration.
        seconds: time for one call of an async metric; 0 if there is none.
    """

    def __init__(self, config: Config, functions: Mapping[str, Any], limits: LimitsConfig) -> None:
        """Check the metrics of a configuration, and those that the caller gives.

        Args:
            config: the configuration.
            functions: functions, or their paths, by name.
            limits: limits on calls of async metrics.

        Raises:
            UsageError: a metric is invalid.
        """

        def raise_problem(name: str, what: str) -> None:
            raise UsageError(f"metrics[{name!r}]: {what}")

        all_functions = {**config.custom_metrics, **functions}
        self._metrics = check_metrics(config, all_functions, raise_problem)
        self.names = [metric.name for metric in self._metrics]
        self.fractions = [
            key for metric in self._metrics if metric.range == (0.0, 1.0) for key in metric.outputs
        ]
        self.seconds = 0.0
        if any(metric.is_async for metric in self._metrics):
            self.seconds = limits.result_timeout_sec
        self._slots = asyncio.Semaphore(limits.max_concurrency)

    def paths(self, what: str) -> dict[str, str]:
        """Return the path of each metric.

        Raises:
            UsageError: one has no path, but `what` needs it.
        """
        paths = {}
        for metric in self._metrics:
            if metric.path is None:
                raise UsageError(
                    f"metrics[{metric.name!r}]: {what} imports it by its path, and "
                    f"{metric.function!r} has none; define it at the top of a module"
                )
            paths[metric.name] = metric.path
        return paths

    @property
    def fingerprint(self) -> list[Any]:
        """What differs if a metric may give other values."""
        return [
            [
                metric.name,
                metric.path,
                metric.range,
                metric.outputs,
                _source_of(unwrap(metric.function)),
            ]
            for metric in self._metrics
        ]

    async def complete(self, evaluation: Evaluation) -> None:
        """Add the values of all metrics to a complete evaluation; async ones run together."""
        inputs = Inputs(evaluation)
        async_metrics = [metric for metric in self._metrics if metric.is_async]
        calls = [self._call(metric, inputs) for metric in async_metrics]
        # A metric that cancels itself has failed; a cancellation from outside passes through.
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        names = [metric.name for metric in async_metrics]
        self._add(evaluation, inputs, dict(zip(names, outcomes, strict=True)))

    async def _call(self, metric: CodeMetric, inputs: Inputs) -> Any:
        """Return what an async metric returns, within the limits on concurrency and time."""
        async with self._slots:
            try:
                async with asyncio.timeout(self.seconds) as clock:
                    return await metric.function(*inputs.copies())
            except SystemExit as error:
                # A task that raises it would end the event loop.
                return error
            except TimeoutError as error:
                if clock.expired():
                    text = f"not finished within {self.seconds:g} s"
                    raise JudgeError("timeout", text) from error
                raise

    def add(self, evaluation: Evaluation) -> None:
        """Add the values of the metrics, of which none is async, to a complete evaluation."""
        self._add(evaluation, Inputs(evaluation), {})

    def _add(self, evaluation: Evaluation, inputs: Inputs, outcomes: Mapping[str, Any]) -> None:
        """Add the values of the metrics; `outcomes` are what async ones returned or raised."""
        keys: dict[str, Any] = {}
        outputs: list[str] = []
        fractions: list[str] = []
        for metric in self._metrics:
            taken = (inputs.result, keys, RESULT_KEYS)
            try:
                returned: Any
                if metric.is_async:
                    returned = outcomes[metric.name]
                else:
                    returned = metric.function(*inputs.copies())
                if isinstance(returned, BaseException):
                    raise returned
                values = _values_of(metric, returned, taken)
            except (Exception, SystemExit, asyncio.CancelledError) as error:  # noqa: BLE001  (a metric's)
                values = _nulls_of(metric, keys)
                # The error stands behind the values that it explains.
                keys |= values
                keys[f"{metric.name}_error"] = _describe_error(error)
            keys |= values
            outputs += values
            if metric.range == (0.0, 1.0):
                fractions += values

        keys[CUSTOM_METRICS] = {"names": self.names, "outputs": outputs, "fractions": fractions}
        evaluation.judged = {**evaluation.judged, **keys}
        # The result is to be made again, with these keys.
        evaluation.result = None
        steps = inputs.result.get("actual_steps") or []
        count_metrics(evaluation, inputs.result | keys, steps)


class Inputs:
    """What metrics in code are called with.

    Attributes:
        result: the result without what depends on where and when it is made.
    """

    def __init__(self, evaluation: Evaluation) -> None:
        """Prepare the inputs for a complete evaluation."""
        assert evaluation.response is not None  # noqa: S101  (it was read)
        self._question = evaluation.question
        self.result = msgspec.structs.replace(
            evaluation, result=None, sample=None, source=None
        ).as_dict()
        self._response_text = orjson.dumps(evaluation.response.fields)
        self._result_text = orjson.dumps(self.result)

    def copies(self) -> list[Any]:
        """Return the question, and copies of the response and the result, for one metric."""
        return [
            self._question,
            orjson.loads(self._response_text),
            orjson.loads(self._result_text),
        ]


def _values_of(
    metric: CodeMetric, returned: Any, taken: Sequence[Collection[str]]
) -> dict[str, Any]:
    """Return the values that a metric returned, by their keys in the result.

    Args:
        metric: the metric.
        returned: a number, a dict of numbers, or None.
        taken: keys that a result has already, or that have another meaning.

    Raises:
        TypeError: it returned something to await.
        ValueError: a key or a value is wrong.
    """
    if isawaitable(returned):
        if iscoroutine(returned):
            returned.close()
        raise TypeError(
            "got an awaitable: define the metric, and what its decorators return, by async def"
        )
    if returned is None:
        return {}

    values = {metric.name: returned}
    if isinstance(returned, Mapping):
        values = {f"{metric.name}_{name}": value for name, value in returned.items()}
    for key in values:
        if not metric.is_open and key not in metric.outputs:
            got = f"one with {key!r}" if isinstance(returned, Mapping) else describe(returned)
            raise ValueError(f"expected a dict of the declared keys, not {got}")
        if any(key in keys for keys in taken) or not is_key(key):
            raise ValueError(f"{key!r} cannot be a key of the result: choose another name")
    return {key: _number(value, metric.range) for key, value in values.items() if value is not None}


def _nulls_of(metric: CodeMetric, keys: Collection[str]) -> dict[str, None]:
    """Return the outputs of a metric that failed as null, but for those of another metric."""
    return {output: None for output in metric.outputs if output not in keys}


def _describe_error(error: BaseException) -> str:
    """Return why a metric failed, in at most `MAX_ERROR` characters."""
    text = str(error) if isinstance(error, JudgeError) else describe_exception(error)
    return in_utf8(text)[:MAX_ERROR]


def _number(value: Any, limits: Range) -> float:
    """Return a finite number of any type as an int or a float.

    Raises:
        ValueError: it is no finite number, or outside the limits.
    """
    number: Any = value
    if callable(getattr(value, "item", None)):
        # Of NumPy or PyTorch.
        number = value.item()
    low, high = limits or (-inf, inf)
    is_number: bool = isinstance(number, Real)
    if not is_number or not -inf < number < inf or not low <= number <= high:
        expected = "a finite number"
        if limits is not None:
            expected += f" from {low:g} to {high:g}"
        raise ValueError(f"expected {expected}, not {describe(value)}")
    if isinstance(number, Integral) and fits_64_bits(int(number)):
        return int(number)
    return float(number)


def _source_of(function: Any) -> str:
    """Return the source of a function, or of an object's class; empty if there is none."""
    try:
        return getsource(function if hasattr(function, "__code__") else type(function))
    except (OSError, TypeError):
        return ""
