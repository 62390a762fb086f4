"""Features of POSIX systems; elsewhere, the package can be imported and says what needs them."""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import TYPE_CHECKING

from graphrag_eval_async.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

IS_POSIX = find_spec("fcntl") is not None
"""Whether this system has file locks, signals and forks as POSIX has them."""


def require_posix(what: str) -> None:
    """Check that this is a POSIX system, which has file locks, signals and forks.

    Args:
        what: what needs such a system; the message of the error begins with it.

    Raises:
        UsageError: it is another system.
    """
    if not IS_POSIX:
        raise UsageError(f"{what} needs a POSIX system, such as Linux, macOS or WSL")


def open_flags(*names: str) -> int:
    """Return the flags of `os.open` with these names; a flag that this system lacks is 0."""
    flags = 0
    for name in names:
        flags |= getattr(os, name, 0)
    return flags


def after_fork(function: Callable[[], object]) -> None:
    """Arrange that `function` is called in each child process that this process forks.

    Other systems do not fork, so nothing is arranged there.
    """
    if IS_POSIX:
        os.register_at_fork(after_in_child=function)
