"""A file layer with faults, to stand for `os` in a module that writes files."""

from __future__ import annotations

import errno
import os
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Callable

WATCHED = {
    "open",
    "write",
    "ftruncate",
    "fsync",
    "fdatasync",
    "replace",
    "close",
    "fchmod",
    "fstat",
    "stat",
    "pread",
}


class Crash(BaseException):
    """Stands for the end of the process: nothing after it has an effect."""


class Faults:
    """The functions of `os`, of which some fail.

    Attributes:
        counts: how often each function was called.
        room: how many bytes can still be written, if there is an end to it.
        most: how many bytes one write takes at most.
        errors: the error that every call of a function raises, by its name.
        before: is called with the name of each function before it does anything.
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.room: int | None = None
        self.most: int | None = None
        self.errors: dict[str, int] = {}
        self.before: Callable[[str], object] = lambda _name: None

    def __getattr__(self, name: str) -> Any:
        function = getattr(os, name)
        return partial(self._call, name, function) if name in WATCHED else function

    def _call(self, name: str, function: Callable[..., Any], *args: Any) -> Any:
        self.counts[name] += 1
        self.before(name)
        if name in self.errors:
            raise OSError(self.errors[name], os.strerror(self.errors[name]))
        return self._write(*args) if name == "write" else function(*args)

    def _write(self, descriptor: int, data: memoryview) -> int:
        if self.most is not None:
            data = data[: self.most]
        if self.room is not None:
            if not self.room:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            data = data[: self.room]
            self.room -= len(data)
        return os.write(descriptor, data)


class CrashAt(Faults):
    """Ends the process before its n-th call, from 0: nothing it calls afterwards has an effect.

    Leaving its context closes what is open, as the system does then.
    """

    def __init__(self, call: int) -> None:
        super().__init__()
        self._left = call
        self._opened: set[int] = set()

    def _call(self, name: str, function: Callable[..., Any], *args: Any) -> Any:
        if name == "close":
            self._opened.discard(*args)
            return os.close(*args)
        self._left -= 1
        if self._left < 0:
            raise Crash
        found = super()._call(name, function, *args)
        if name == "open":
            self._opened.add(found)
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        for descriptor in self._opened:
            os.close(descriptor)


class ErrorAt(Faults):
    """Whose n-th call fails, from 0, and no other."""

    def __init__(self, call: int) -> None:
        super().__init__()
        self.before = self._fail
        self._left = call

    def _fail(self, name: str) -> None:
        if name == "close":
            return
        self._left -= 1
        if self._left == -1:
            raise OSError(errno.EIO, "Input/output error")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        """Nothing is left open."""
