"""A budget for the work of comparisons, counted in steps, so that scores do not depend on timing.

A step is about the work of looking up a cell or two in loops that run in C: 0.05 to 0.3
microseconds. Work in Python costs several steps. Every loop over rows or columns spends its steps
before it starts or as it runs, so that `Budget.stop` takes effect within tens of milliseconds at
10,000 rows.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from graphrag_eval_async.catalogue.reference_steps import BY_CONTENTS
from graphrag_eval_async.errors import ComparisonBudgetExceeded

if TYPE_CHECKING:
    from collections.abc import Iterator

STEPS = 20_000_000
"""Budget for all comparisons of one response: two to five seconds."""

QUICK_STEPS = 20_000
"""Budget for all comparisons of one response on an event loop: a few milliseconds."""

STEPS_PER_COMPARISON = 100
"""Cost of each comparison of a reference step with an actual one, besides what it spends itself."""


class Budget:
    """Steps that successive comparisons may spend. Another thread may stop them at any time.

    Attributes:
        left: the steps that are not yet spent.
        quick: whether the comparisons run on an event loop. If the steps do not suffice there, the
            response is compared again in a thread.
        strict_types: whether tables with untyped cells are refused where the reference has types.
        match_columns: which columns of tables are paired, one of `COLUMN_RULES`, for reference
            steps that do not say so.
        stopped: whether `stop` was called.
    """

    __slots__ = ("left", "match_columns", "quick", "stopped", "strict_types")

    def __init__(
        self,
        steps: int = STEPS,
        *,
        quick: bool = False,
        strict_types: bool = False,
        match_columns: str = BY_CONTENTS,
    ) -> None:
        """Begin with `steps` to spend. For the other arguments, see the attributes."""
        self.left = steps
        self.quick = quick
        self.strict_types = strict_types
        self.match_columns = match_columns
        self.stopped = False

    def spend(self, steps: int) -> None:
        """Subtract the steps that some work will take, before the work is done.

        Raises:
            ComparisonBudgetExceeded: fewer steps than these are left, or the budget was stopped.
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
        """Allow at most `steps` to be spent within the block.

        The other steps are withheld, and can be spent again after the block.
        """
        withheld = max(0, self.left - steps)
        self.left -= withheld
        try:
            yield
        finally:
            self.left += withheld
