"""Functions for scripts without an event loop."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from graphrag_eval_async.batch import run_evaluation
from graphrag_eval_async.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

P = ParamSpec("P")
R = TypeVar("R")


def _blocking(function: Callable[P, Coroutine[Any, Any, R]], name: str, doc: str) -> Callable[P, R]:
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(function(*args, **kwargs))
        raise UsageError(
            f"{name}: an event loop is running already, as in a notebook; "
            f"use `await {function.__name__}(...)` there"
        )

    call.__name__ = call.__qualname__ = name
    call.__doc__ = doc
    call.__wrapped__ = function  # type: ignore[attr-defined]  # It shows the arguments.
    return call


run_evaluation_sync = _blocking(
    run_evaluation,
    "run_evaluation_sync",
    """Do the same as `run_evaluation`, for scripts without an event loop.

    Raises:
        UsageError: an event loop is running, as in a notebook or an async function, where
            ``await run_evaluation(...)`` works.
    """,
)
