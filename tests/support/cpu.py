"""Bounds on CPU time, which other processes on the machine do not spend."""

from __future__ import annotations

from contextlib import contextmanager
from time import process_time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

PER_MIB = 1.0
"""Seconds of CPU time that a MiB of input may cost."""

SLACK = 10
"""A test fails only at so many times the limit: machines differ, and what is quadratic is beyond
that.
"""


@contextmanager
def affordable(size: int) -> Iterator[None]:
    """Fail if the block takes much more CPU time than so many bytes of input may cost, at least
    1 MiB.
    """
    start = process_time()
    yield
    spent, limit = process_time() - start, max(1.0, size / 2**20) * PER_MIB
    assert spent < SLACK * limit, f"{spent:.1f} s of CPU time for {size} bytes, limit {limit:.1f} s"
