"""Disks that are full, fail, or are watched."""

from __future__ import annotations

import errno
import os
import resource
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from tests.support.deadlines import wait

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def full_at(size: int) -> Iterator[None]:
    """No file may grow beyond `size` bytes; not even a log of this test run, so keep it short."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


class Disk:
    """Knows how much of each file was flushed; it may fail, or hold up whoever flushes."""

    def __init__(self) -> None:
        self.fails = False
        self.held, self.go_on = threading.Event(), threading.Event()
        self.go_on.set()
        self._sizes: dict[int, int] = {}

    def flush(self, descriptor: int) -> None:
        if self.fails:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        status = os.fstat(descriptor)
        self.held.set()
        wait(self.go_on)
        self._sizes[status.st_ino] = status.st_size

    def has(self, path: Path) -> int:
        """How many bytes of a file would survive a power failure."""
        return self._sizes.get(path.stat().st_ino, 0)


@contextmanager
def disk() -> Iterator[Disk]:
    """Put a disk in place of the real one, of which nobody can see what it has, and which does
    not fail.
    """
    made = Disk()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fdatasync", made.flush)
        yield made
