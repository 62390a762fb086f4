"""Features of POSIX systems; elsewhere, the package can be imported and says what needs them."""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import TYPE_CHECKING

from graphrag_eval_async.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

IS_POSIX = find_spec("fcntl") is not None


def require_posix(what: str) -> None:
    """Raise a `UsageError`, which begins with `what`, on a system without file locks and the
    like.
    """
    if not IS_POSIX:
        raise UsageError(f"{what} needs a POSIX system, such as Linux, macOS or WSL")


def open_flags(*names: str) -> int:
    """Return the flags of `os.open` with these names, as far as this system has them."""
    return sum(getattr(os, name, 0) for name in names)


def after_fork(function: Callable[[], object]) -> None:
    """Call `function` in each child that this process forks."""
    if IS_POSIX:
        os.register_at_fork(after_in_child=function)
