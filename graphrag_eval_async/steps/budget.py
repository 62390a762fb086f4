"""A budget for the work of comparisons, counted in steps, so that scores do not depend on timing.

A step is about the work of looking up a cell or two in loops that run in C: 0.05 to 0.3
microseconds. Work in Python costs several steps. Every loop over rows or columns spends its steps
before it starts or as it runs, so that `Budget.stop` takes effect within tens of milliseconds at
10,000 rows.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from graphrag_eval_async.errors import ComparisonBudgetExceeded

if TYPE_CHECKING:
    from collections.abc import Iterator

STEPS = 20_000_000  # Budget for all comparisons of one response: two to five seconds.
QUICK_STEPS = 20_000  # The same on an event loop: a few milliseconds.
STEPS_PER_COMPARISON = 100  # Cost of each comparison of a pair of steps, besides its own.


class Budget:
    """Steps that successive comparisons may spend. Another thread may stop them at any time."""

    __slots__ = ("left", "quick", "stopped", "strict_types")

    def __init__(
        self, steps: int = STEPS, *, quick: bool = False, strict_types: bool = False
    ) -> None:
        self.left = steps
        self.quick = quick  # For an event loop; what exceeds it is compared in a thread.
        self.strict_types = strict_types  # Tables with untyped cells are refused.
        self.stopped = False

    def spend(self, steps: int) -> None:
        """Spend steps before they are taken; raises `ComparisonBudgetExceeded` if fewer are
        left.
        """
        self.left -= steps
        if self.left < 0:
            self.left = 0
            raise ComparisonBudgetExceeded(
                "not compared: the comparison budget of this response is exhausted"
            )
        if self.stopped:
            raise ComparisonBudgetExceeded("stopped")

    def stop(self) -> None:
        """Make every later `spend` raise. May be called from any thread."""
        self.stopped = True

    @contextmanager
    def limited(self, steps: int) -> Iterator[None]:
        """Let no more than so many steps be taken; the others are left afterwards."""
        kept = max(0, self.left - steps)
        self.left -= kept
        try:
            yield
        finally:
            self.left += kept
