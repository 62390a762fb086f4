"""Metrics in code: how a function declares what it returns, and where it is found."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from inspect import iscoroutinefunction, signature
from math import inf
from pkgutil import resolve_name
from typing import Any, NamedTuple, TypeAlias, TypeVar, overload

from graphrag_eval_async.errors import UsageError, describe_exception

F = TypeVar("F", bound=Callable[..., Any])
Range: TypeAlias = tuple[float, float] | None

is_key = re.compile(r"[A-Za-z0-9_-]{1,128}(?<!_cost)(?<!_error)").fullmatch


@overload
def metric(function: F, /) -> F: ...
@overload
def metric(*, range: Range = None, keys: Sequence[str] = ()) -> Callable[[F], F]: ...
def metric(function: Any = None, /, *, range: Range = None, keys: Sequence[str] = ()) -> Any:  # noqa: A002
    """Declare what a metric of your own returns; a function without this decorator is a metric,
    too.

    The function gets the `Question`, and the response and the complete result as dicts, which are
    copies. It returns a finite number, a bool, a dict of these, or None to skip the result. If it
    raises an exception or returns anything else, `NAME_error` has the reason. It is not called for
    responses with an error. A plain function runs on the event loop, so it must be quick. Async
    ones have the limits `max_concurrency` and `result_timeout_sec` of judges.

    Args:
        range: the least and the greatest value; any other is an error of the metric. A metric from
            0 to 1 has confidence intervals, and `compare` and `until` can decide it.
        keys: keys of the dict that the function returns. If it fails, each of them counts as
            failed; without `keys`, the metric itself does.

    Raises:
        UsageError: an argument has an invalid value.
    """
    try:
        low, high = map(float, (0, 1) if range is None else range)
        is_valid = -inf < low < high < inf and all(isinstance(each, str) for each in keys)
    except (TypeError, ValueError, OverflowError):
        is_valid = False
    if not (is_valid and (function is None or callable(function))) or isinstance(keys, str):
        wanted = '@metric(range=(0, 1), keys=["a", "b"])'
        raise UsageError(
            f"metric: expected, for example, {wanted}; got {(function, range, keys)!r}"
        )

    def declare(function: F) -> F:
        function._graphrag_eval = (low, high) if range is not None else None, tuple(keys)  # type: ignore[attr-defined]
        return function

    return declare if function is None else declare(function)


class CodeMetric(NamedTuple):
    """A function of the question, the response and the result."""

    name: str
    function: Callable[..., Any]
    path: str | None  # ``module:function``; None if it cannot be imported.
    is_async: bool
    range: Range
    outputs: tuple[str, ...]  # Keys of its values, as far as they are known before it is called.
    is_open: bool  # Whether it may return a dict with any keys.

    def may_give(self, key: str) -> bool:
        """Whether a result may have its value at `key`."""
        return key in self.outputs or (self.is_open and key.startswith(f"{self.name}_"))


def find_metric(name: str, given: Any) -> CodeMetric:
    """Return the metric that a function is, or a path such as ``mypackage.mymodule:brevity``.

    Raises:
        ValueError: the name is invalid, or it cannot be imported, or is no function of three
            arguments.
    """
    is_path = isinstance(given, str)
    path = (
        given
        if is_path
        else f"{getattr(given, '__module__', '')}:{getattr(given, '__qualname__', '')}"
    )
    try:
        found = resolve_name(path)
    except (Exception, SystemExit) as error:  # noqa: BLE001  (it runs the user's module)
        found, where = None, "expected module:function, of a module that is installed, in the "
        where += "working directory or, on the command line, beside the configuration"
        if is_path:
            raise ValueError(
                f"cannot import {path!r}: {describe_exception(error)}; {where}"
            ) from None
    function, path = (found, path) if is_path else (given, path if found is given else None)
    try:
        signature(function).bind(None, None, None)
    except (TypeError, ValueError) as error:
        raise ValueError(f"expected a function of (question, response, result): {error}") from None
    range_, keys = getattr(function, "_graphrag_eval", (None, ()))
    outputs = tuple(f"{name}_{key}" for key in keys) or (name,)
    if wrong := [key for key in (name, *outputs) if not is_key(key)]:
        raise ValueError(
            f"{wrong[0]!r}: expected letters, digits, _ and -, and no end in _cost or _error"
        )
    is_async = iscoroutinefunction(function) or iscoroutinefunction(type(function).__call__)
    return CodeMetric(name, function, path, is_async, range_, outputs, not keys)
