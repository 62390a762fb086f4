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


def _blocking(function: Callable[P, Coroutine[Any, Any, R]]) -> Callable[P, R]:
    """Return `run_evaluation_sync`, which runs `run_evaluation` on an event loop of its own."""

    def run_evaluation_sync(*args: P.args, **kwargs: P.kwargs) -> R:
        """Do the same as `run_evaluation`, for scripts without an event loop.

        Raises:
            UsageError: an event loop is running, as in a notebook or an async function, where
                ``await run_evaluation(...)`` works.
        """
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(function(*args, **kwargs))
        raise UsageError(
            "run_evaluation_sync: an event loop is running already, as in a notebook; "
            "use `await run_evaluation(...)` there"
        )

    run_evaluation_sync.__qualname__ = run_evaluation_sync.__name__
    # `help` and editors show the arguments of the wrapped function.
    run_evaluation_sync.__wrapped__ = function  # type: ignore[attr-defined]
    return run_evaluation_sync


run_evaluation_sync = _blocking(run_evaluation)
