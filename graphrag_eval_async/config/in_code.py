"""Metrics in code: functions of users, how they declare what they return, and their paths."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from inspect import iscoroutinefunction, signature
from math import inf
from pkgutil import resolve_name
from typing import Any, NamedTuple, TypeAlias, TypeVar, overload

from graphrag_eval_async.errors import UsageError, describe_exception

F = TypeVar("F", bound=Callable[..., Any])
Range: TypeAlias = tuple[float, float] | None

is_key = re.compile(r"[A-Za-z0-9_-]{1,128}(?<!_cost)(?<!_error)").fullmatch
"""Whether a text can be the key of a value in a result."""


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
    limits = None
    is_valid = _are_texts(keys) and (function is None or callable(function))
    if range is not None:
        limits = _read_range(range)
        is_valid = is_valid and limits is not None
    if not is_valid:
        example = '@metric(range=(0, 1), keys=["a", "b"])'
        raise UsageError(
            f"metric: expected, for example, {example}; got {(function, range, keys)!r}"
        )
    declaration = Declaration(limits, tuple(keys))

    def declare(function: F) -> F:
        """Attach the declaration to a function, and return the function."""
        function._graphrag_eval = declaration  # type: ignore[attr-defined]
        return function

    # `@metric` calls this with the function, `@metric(...)` without.
    if function is None:
        return declare
    return declare(function)


def _are_texts(keys: Any) -> bool:
    """Return whether keys are a list or another collection of texts."""
    if isinstance(keys, str) or not isinstance(keys, Iterable):
        return False
    return all(isinstance(key, str) for key in keys)


class Declaration(NamedTuple):
    """What a function declares as a metric.

    Attributes:
        range: the least and the greatest value; None if any number is possible.
        keys: keys of the dict that it returns; empty if it may return any.
    """

    range: Range = None
    keys: tuple[str, ...] = ()


def _read_range(declared_range: Any) -> tuple[float, float] | None:
    """Return the least and the greatest value of a declared range; None if it is invalid."""
    try:
        low, high = map(float, declared_range)
    except (TypeError, ValueError, OverflowError):
        return None
    if not -inf < low < high < inf:
        return None
    return low, high


class CodeMetric(NamedTuple):
    """A function of the question, the response and the result.

    Attributes:
        name: its name in the configuration.
        function: the function.
        path: ``module:function``; None if it cannot be imported.
        is_async: whether it is to be awaited.
        range: the least and the greatest value; None if any number is possible.
        outputs: keys of its values, as far as they are known before it is called.
        is_open: whether it may return a dict with any keys.
    """

    name: str
    function: Callable[..., Any]
    path: str | None
    is_async: bool
    range: Range
    outputs: tuple[str, ...]
    is_open: bool

    def may_give(self, key: str) -> bool:
        """Return whether a result may have its value at `key`."""
        return key in self.outputs or (self.is_open and key.startswith(f"{self.name}_"))


def find_metric(name: str, function_or_path: Any) -> CodeMetric:
    """Return the metric in code that is a function, or is at a path.

    Args:
        name: its name, which is also the beginning of its keys of results.
        function_or_path: a function, or a path such as ``mypackage.mymodule:brevity``.

    Raises:
        ValueError: the name is invalid, or the path cannot be imported, or what it leads to is no
            function of three arguments.
    """
    # Find the function.
    if isinstance(function_or_path, str):
        path: str | None = function_or_path
        function = _import(function_or_path)
        if _is_of_ragas(function):
            raise ValueError(
                f"{function_or_path!r} is a metric of ragas: name it in the section ragas, or give "
                "its class"
            )
    else:
        function = function_or_path
        path = _path_of(function)
    try:
        signature(function).bind(None, None, None)
    except (TypeError, ValueError) as error:
        raise ValueError(f"expected a function of (question, response, result): {error}") from None

    # Check the keys that results may have.
    declaration: Declaration = getattr(function, "_graphrag_eval", Declaration())
    outputs = tuple(f"{name}_{key}" for key in declaration.keys) or (name,)
    for key in (name, *outputs):
        if not is_key(key):
            raise ValueError(
                f"{key!r}: expected letters, digits, _ and -, and no end in _cost or _error"
            )

    # An object may have an async method `__call__`.
    is_async = iscoroutinefunction(function) or iscoroutinefunction(type(function).__call__)
    return CodeMetric(
        name=name,
        function=function,
        path=path,
        is_async=is_async,
        range=declaration.range,
        outputs=outputs,
        is_open=not declaration.keys,
    )


def _import(path: str) -> Any:
    """Return the function at a path.

    Raises:
        ValueError: there is none.
    """
    try:
        return resolve_name(path)
    except (Exception, SystemExit) as error:  # noqa: BLE001  (it runs the user's module)
        raise ValueError(
            f"cannot import {path!r}: {describe_exception(error)}; expected module:function, of a "
            "module that is installed, in the working directory or, on the command line, beside "
            "the configuration"
        ) from None


def _is_of_ragas(function: Any) -> bool:
    """Return whether an object is a class of a metric of ragas, or an object of one."""
    kind = type(function)
    if isinstance(function, type):
        kind = function
    packages_of_bases = {base.__module__.partition(".")[0] for base in kind.__mro__}
    return "ragas" in packages_of_bases


def _path_of(function: Any) -> str | None:
    """Return the path by which a function can be imported; None if there is none."""
    path = f"{getattr(function, '__module__', '')}:{getattr(function, '__qualname__', '')}"
    try:
        object_at_path = resolve_name(path)
    except (Exception, SystemExit):  # noqa: BLE001  (it may run the user's module)
        return None
    # A function in a function, or one that was replaced, has the path of another object.
    if object_at_path is not function:
        return None
    return path
