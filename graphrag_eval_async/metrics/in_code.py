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
    from collections.abc import Callable, Collection, Sequence

    from graphrag_eval_async.config import Config, LimitsConfig
    from graphrag_eval_async.config.in_code import Range
    from graphrag_eval_async.records.evaluation import Evaluation


class CodeMetrics:
    """The metrics in code of an evaluator: those of its configuration, and those `given` by name.

    Attributes:
        names: their names.
        fractions: keys of their values that are from 0 to 1 by declaration.
        seconds: time for one call of an async metric; 0 if there is none.
    """

    def __init__(self, config: Config, given: Mapping[str, Any], limits: LimitsConfig) -> None:
        def problem(name: str, what: str) -> None:
            raise UsageError(f"metrics[{name!r}]: {what}")

        self._metrics = check_metrics(config, {**config.custom_metrics, **given}, problem)
        self.names = [metric.name for metric in self._metrics]
        self.fractions = [
            key for each in self._metrics if each.range == (0, 1) for key in each.outputs
        ]
        self.seconds = (
            limits.result_timeout_sec if any(each.is_async for each in self._metrics) else 0.0
        )
        self._slots = asyncio.Semaphore(limits.max_concurrency)

    def paths(self, what: str) -> dict[str, str]:
        """The path of each metric; raises a `UsageError` if one has none, as `what` needs it."""
        for metric in self._metrics:
            if metric.path is None:
                why = f"{what} imports it by its path, and {metric.function!r} has none"
                raise UsageError(
                    f"metrics[{metric.name!r}]: {why}; define it at the top of a module"
                )
        return {metric.name: str(metric.path) for metric in self._metrics}

    @property
    def fingerprint(self) -> list[Any]:
        """What differs if a metric may give other values."""
        return [
            [each.name, each.path, each.range, each.outputs, _source(unwrap(each.function))]
            for each in self._metrics
        ]

    async def complete(self, evaluation: Evaluation) -> None:
        """Add the values of the metrics to a complete evaluation, awaiting the async ones
        together.
        """
        seen = _seen(evaluation)
        asked = [metric for metric in self._metrics if metric.is_async]
        calls = [self._call(metric, seen[1]) for metric in asked]
        # A metric that cancels itself has failed; a cancellation from outside passes through.
        returned = await asyncio.gather(*calls, return_exceptions=True)
        self.add(
            evaluation,
            seen,
            {each.name: value for each, value in zip(asked, returned, strict=True)},
        )

    async def _call(self, metric: CodeMetric, arguments: Callable[[], list[Any]]) -> Any:
        async with self._slots:
            try:
                async with asyncio.timeout(self.seconds) as clock:
                    return await metric.function(*arguments())
            except SystemExit as error:  # A task that raises it would end the event loop.
                return error
            except TimeoutError as error:
                late = JudgeError("timeout", f"not finished within {self.seconds:g} s")
                raise late if clock.expired() else error from None

    def add(self, evaluation: Evaluation, seen: Any = None, returned: Any = None) -> None:
        """Add the values of the metrics to a complete evaluation; `returned` has those of async
        ones.
        """
        result, arguments = seen or _seen(evaluation)
        listed: dict[str, list[str]] = {"names": self.names, "outputs": [], "fractions": []}
        keys = dict[str, Any]()
        for metric in self._metrics:
            try:
                value = returned[metric.name] if metric.is_async else metric.function(*arguments())
                if isinstance(value, BaseException):
                    raise value
                values = _values(metric, value, (result, keys, RESULT_KEYS))
            except (Exception, SystemExit, asyncio.CancelledError) as error:  # noqa: BLE001  (a metric's)
                # Those are of another.
                values = {key: None for key in metric.outputs if key not in keys}
                told = str(error) if isinstance(error, JudgeError) else describe_exception(error)
                keys |= values | {f"{metric.name}_error": in_utf8(told)[:2000]}  # In this order.
            keys |= values
            listed["outputs"] += values
            listed["fractions"] += values if metric.range == (0, 1) else ()
        keys[CUSTOM_METRICS] = listed
        evaluation.judged, evaluation.result = {**evaluation.judged, **keys}, None
        count_metrics(evaluation, result | keys, result.get("actual_steps") or [])


def _seen(evaluation: Evaluation) -> tuple[dict[str, Any], Callable[[], list[Any]]]:
    """The result without what depends on where and when it is made; what returns arguments, as
    copies.
    """
    result = msgspec.structs.replace(evaluation, result=None, sample=None, source=None).as_dict()
    assert evaluation.response is not None  # noqa: S101
    texts = orjson.dumps(evaluation.response.fields), orjson.dumps(result)
    return result, lambda: [evaluation.question, *map(orjson.loads, texts)]


def _values(metric: CodeMetric, value: Any, taken: Sequence[Collection[str]]) -> dict[str, Any]:
    """The values that a metric returned, by their keys in the result; raises an exception if one
    is wrong.
    """
    if isawaitable(value):
        if iscoroutine(value):
            value.close()
        raise TypeError(
            "got an awaitable: define the metric, and what its decorators return, by async def"
        )
    given = value if isinstance(value, Mapping) else {None: value}
    found = {
        metric.name if name is None else f"{metric.name}_{name}": each
        for name, each in given.items()
    }
    for key in found if value is not None else ():
        if not metric.is_open and key not in metric.outputs:
            told = f"one with {key!r}" if isinstance(value, Mapping) else describe(value)
            raise ValueError(f"expected a dict of the declared keys, not {told}")
        if any(key in each for each in taken) or not is_key(key):
            raise ValueError(f"{key!r} cannot be a key of the result: choose another name")
    return {key: _number(each, metric.range) for key, each in found.items() if each is not None}


def _number(value: Any, range_: Range) -> float:
    low, high = range_ or (-inf, inf)
    # Of NumPy or PyTorch.
    number: Any = value.item() if callable(getattr(value, "item", None)) else value
    is_number = isinstance(number, Real)
    if is_number and -inf < number < inf and low <= number <= high:
        return (
            int(number)
            if isinstance(number, Integral) and fits_64_bits(int(number))
            else float(number)
        )
    limits = "" if range_ is None else f" from {low:g} to {high:g}"
    raise ValueError(f"expected a finite number{limits}, not {describe(value)}")


def _source(function: Any) -> str:
    """The source of a function, or of an object's class; empty if there is none."""
    try:
        return getsource(function if hasattr(function, "__code__") else type(function))
    except (OSError, TypeError):
        return ""
