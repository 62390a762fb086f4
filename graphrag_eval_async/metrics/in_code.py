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
from graphrag_eval_async.errors import JudgeError, UsageError, describe, describe_exception
from graphrag_eval_async.records.results import count_metrics
from graphrag_eval_async.unicode import in_utf8

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
        names: the names of the metrics.
        fractions: keys of values that are from 0 to 1 by declaration.
        seconds: time for one call of an async metric; 0 if there is none.
    """

    def __init__(self, config: Config, functions: Mapping[str, Any], limits: LimitsConfig) -> None:
        """Check the metrics in code: those of a configuration, and those given in Python.

        Args:
            config: the configuration.
            functions: what the caller gives in Python: a function or its path, by the name of the
                metric.
            limits: limits on calls of async metrics.

        Raises:
            UsageError: a metric is invalid.
        """

        def raise_problem(name: str, problem: str) -> None:
            """Raise the problem of the metric `name` as an error of the argument `metrics`."""
            raise UsageError(f"metrics[{name!r}]: {problem}")

        all_functions = {**config.custom_metrics, **functions}
        self._metrics = check_metrics(config, all_functions, raise_problem)
        self.names = [metric.name for metric in self._metrics]
        self.fractions: list[str] = []
        for metric in self._metrics:
            if _gives_fractions(metric):
                self.fractions += metric.outputs
        self.seconds = 0.0
        if any(metric.is_async for metric in self._metrics):
            self.seconds = limits.result_timeout_sec
        self._slots = asyncio.Semaphore(limits.max_concurrency)

    def paths(self, importer: str) -> dict[str, str]:
        """Return the path by which each metric can be imported, by the name of the metric.

        Args:
            importer: what imports the metrics, such as the name of an option, for the error.

        Raises:
            UsageError: a metric has no path.
        """
        paths = {}
        for metric in self._metrics:
            if metric.path is None:
                raise UsageError(
                    f"metrics[{metric.name!r}]: {importer} imports it by its path, and "
                    f"{metric.function!r} has none; define it at the top of a module"
                )
            paths[metric.name] = metric.path
        return paths

    @property
    def fingerprint(self) -> list[Any]:
        """A JSON value that changes if the metrics may give other values."""
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
        """Compute all metrics, async ones at the same time, and add their values to `evaluation`.

        All other parts of the evaluation must be complete.
        """
        inputs = Inputs(evaluation)
        async_metrics = [metric for metric in self._metrics if metric.is_async]
        calls = [self._call_async(metric, inputs) for metric in async_metrics]
        # If a metric cancels itself, `gather` returns the error; a cancellation from outside passes
        # through.
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        names = [metric.name for metric in async_metrics]
        self._add_values(evaluation, inputs, dict(zip(names, outcomes, strict=True)))

    async def _call_async(self, metric: CodeMetric, inputs: Inputs) -> Any:
        """Call an async metric within the limits on concurrency and time; return its result.

        A `SystemExit` is returned like a result, since a task that raises it ends the event loop.

        Raises:
            JudgeError: the metric did not finish in time.
        """
        async with self._slots:
            try:
                async with asyncio.timeout(self.seconds) as clock:
                    return await metric.function(*inputs.copies())
            except SystemExit as error:
                return error
            except TimeoutError as error:
                if not clock.expired():
                    # The metric itself raised it.
                    raise
                text = f"not finished within {self.seconds:g} s"
                raise JudgeError("timeout", text) from error

    def add(self, evaluation: Evaluation) -> None:
        """Compute all metrics, of which none may be async, and add their values to `evaluation`.

        All other parts of the evaluation must be complete.
        """
        self._add_values(evaluation, Inputs(evaluation), async_outcomes={})

    def _add_values(
        self, evaluation: Evaluation, inputs: Inputs, async_outcomes: Mapping[str, Any]
    ) -> None:
        """Call the metrics that are not async, and add the values of all metrics to `evaluation`.

        A metric that fails gets null for each of its values, and an entry with the error.

        Args:
            evaluation: a complete evaluation.
            inputs: what the metrics are called with.
            async_outcomes: what each async metric returned or raised, by its name.
        """
        entries: dict[str, Any] = {}
        outputs: list[str] = []
        fractions: list[str] = []
        for metric in self._metrics:
            values, error = _evaluate(metric, inputs, async_outcomes, entries)
            entries |= values
            if error is not None:
                entries[f"{metric.name}_error"] = error
            outputs += values
            if _gives_fractions(metric):
                fractions += values

        entries[CUSTOM_METRICS] = {"names": self.names, "outputs": outputs, "fractions": fractions}
        evaluation.judged = {**evaluation.judged, **entries}
        # If a result was made before, it lacks these entries, so drop it.
        evaluation.result = None
        steps = inputs.result.get("actual_steps") or []
        count_metrics(evaluation, inputs.result | entries, steps)


def _evaluate(
    metric: CodeMetric,
    inputs: Inputs,
    async_outcomes: Mapping[str, Any],
    previous_entries: Mapping[str, Any],
) -> tuple[dict[str, Any], str | None]:
    """Return the values of a metric, by their keys in the result, and the metric's error.

    The error is None if the metric succeeded. If the metric failed, its values are None.

    Args:
        metric: the metric.
        inputs: what the metric is called with, unless it is async.
        async_outcomes: what each async metric returned or raised, by its name.
        previous_entries: entries of other metrics, whose keys the values may not have.
    """
    try:
        outcome: Any
        if metric.is_async:
            outcome = async_outcomes[metric.name]
        else:
            outcome = metric.function(*inputs.copies())
        # The outcome of an async metric may be the exception that the metric raised.
        if isinstance(outcome, BaseException):
            raise outcome
        taken_keys = (inputs.result, previous_entries, RESULT_KEYS)
        return _values_of(metric, outcome, taken_keys), None
    except (Exception, SystemExit, asyncio.CancelledError) as error:  # noqa: BLE001
        # A metric of the user's may raise anything; a failure must not end the run.
        return _nulls_of(metric, previous_entries), _describe_error(error)


def _gives_fractions(metric: CodeMetric) -> bool:
    """Return whether a metric declares that its values are from 0 to 1."""
    return metric.range == (0.0, 1.0)


class Inputs:
    """The inputs of metrics in code: the question, the response and the result.

    Attributes:
        result: the result without its sample and its source, which depend on the run.
    """

    def __init__(self, evaluation: Evaluation) -> None:
        """Encode the response and the result of a complete evaluation, to make copies later."""
        assert evaluation.response is not None  # noqa: S101  (it was read)
        self._question = evaluation.question
        # The sample and the source depend on the run, so metrics do not get them. `as_dict` would
        # return `result` if it were set, with both.
        self.result = msgspec.structs.replace(
            evaluation, result=None, sample=None, source=None
        ).as_dict()
        self._response_text = orjson.dumps(evaluation.response.fields)
        self._result_text = orjson.dumps(self.result)

    def copies(self) -> list[Any]:
        """Return the arguments of one metric: the question, a new response and a new result.

        A metric may change these, so each metric gets copies of its own.
        """
        return [
            self._question,
            orjson.loads(self._response_text),
            orjson.loads(self._result_text),
        ]


def _values_of(
    metric: CodeMetric, returned: Any, taken_keys: Sequence[Collection[str]]
) -> dict[str, Any]:
    """Return the values that a metric returned, by their keys in the result.

    Values that are None are left out.

    Args:
        metric: the metric.
        returned: a number, a dict of numbers, or None.
        taken_keys: collections of keys that a value may not have: keys of the result so far, and
            keys with another meaning.

    Raises:
        TypeError: the metric returned an awaitable.
        ValueError: a key or a value is not valid.
    """
    if isawaitable(returned):
        if iscoroutine(returned):
            # Python would warn that nobody awaited the coroutine.
            returned.close()
        raise TypeError(
            "got an awaitable: define the metric, and what its decorators return, by async def"
        )
    if returned is None:
        return {}

    returned_values = {metric.name: returned}
    if isinstance(returned, Mapping):
        returned_values = {f"{metric.name}_{name}": value for name, value in returned.items()}

    # All keys are checked before the first value.
    values = {}
    for key in returned_values:
        _check_key(metric, key, returned, taken_keys)
    for key, value in returned_values.items():
        if value is not None:
            values[key] = _checked_number(value, metric.range)
    return values


def _check_key(
    metric: CodeMetric, key: str, returned: Any, taken_keys: Sequence[Collection[str]]
) -> None:
    """Check that a value of a metric may stand at a key of a result.

    Args:
        metric: the metric.
        key: the key.
        returned: all that the metric returned, for the error.
        taken_keys: collections of keys that the value may not have.

    Raises:
        ValueError: the metric does not declare the key, or the key is invalid or taken.
    """
    is_declared = metric.is_open or key in metric.outputs
    if not is_declared:
        actual = describe(returned)
        if isinstance(returned, Mapping):
            actual = f"one with {key!r}"
        raise ValueError(f"expected a dict of the declared keys, not {actual}")
    is_taken = any(key in keys for keys in taken_keys)
    if is_taken or not is_key(key):
        raise ValueError(f"{key!r} cannot be a key of the result: choose another name")


def _nulls_of(metric: CodeMetric, entries: Collection[str]) -> dict[str, None]:
    """Return None for each declared value of a failed metric, by the value's key in the result.

    A key is left out if it is in `entries`, the entries of other metrics.
    """
    return {output: None for output in metric.outputs if output not in entries}


def _describe_error(error: BaseException) -> str:
    """Return the reason why a metric failed, in at most `MAX_ERROR` characters."""
    text = describe_exception(error)
    if isinstance(error, JudgeError):
        # The message of a timeout needs no class before it.
        text = str(error)
    return in_utf8(text)[:MAX_ERROR]


def _checked_number(value: Any, allowed_range: Range) -> float:
    """Return a finite number of any type as an int or a float of Python.

    An integer of more than 64 bits becomes a float, since results and aggregates cannot hold such
    integers.

    Args:
        value: a number, or an array of NumPy or a tensor of PyTorch with one number.
        allowed_range: the least and the greatest number; None if any is allowed.

    Raises:
        ValueError: the value is not a finite number, or outside the range.
    """
    number: Any = value
    if callable(getattr(value, "item", None)):
        # This method of arrays and tensors returns a number of Python.
        number = value.item()

    low, high = -inf, inf
    expected = "a finite number"
    if allowed_range is not None:
        low, high = allowed_range
        expected += f" from {low:g} to {high:g}"
    is_number: bool = isinstance(number, Real)
    is_allowed = is_number and -inf < number < inf and low <= number <= high
    if not is_allowed:
        raise ValueError(f"expected {expected}, not {describe(value)}")
    if isinstance(number, Integral) and fits_64_bits(int(number)):
        return int(number)
    return float(number)


def _source_of(function: Any) -> str:
    """Return the source code of a function, or of the class of a callable object.

    The result is "" if there is no source code, as for a function that was typed in a shell.
    """
    source_object = function
    is_function = hasattr(function, "__code__")
    if not is_function:
        source_object = type(function)
    try:
        return getsource(source_object)
    except (OSError, TypeError):
        return ""
