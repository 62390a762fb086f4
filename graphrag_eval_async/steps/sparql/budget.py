"""Budgets for the work of comparisons. Work is counted in steps, so that scores do not depend on timing.

A step is about the work of projecting one row on its columns and looking it up, in loops that run in C: 0.05
to 0.3 microseconds. Work in Python costs several steps. Every loop over rows or columns spends its steps
before it starts or as it runs, so `Budget.stop` takes effect within tens of milliseconds at 10,000 rows.

The first comparisons of a response are free except for searches; most responses need no others. Searches and
all further comparisons of one response share a budget. Exact pairings of rows have a budget of their own,
since a comparison can do without them.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from graphrag_eval_async.errors import ComparisonBudgetExceeded

if TYPE_CHECKING:
    from collections.abc import Iterator

SEARCH_STEPS = 10_000_000
"""Budget for all searches of one response: one to three seconds."""

EXACT_PAIRING_STEPS = 4_000_000
"""Budget for all exact pairings of rows of one response: half a second."""

QUICK_SEARCH_STEPS = 20_000
"""Budget for all searches of one response on an event loop: a few milliseconds."""

FREE_COMPARISONS = 20
"""Number of comparisons per response that are free except for searches."""

QUICK_COMPARISONS = 4
"""Number of free comparisons per response on an event loop."""

STEPS_PER_COMPARISON = 100
"""Cost of each further comparison of a pair of steps."""

STEPS_PER_TABLES = 100
"""Cost of each pair of tables that differ, in addition to their cells."""

STEPS_PER_COPIED_VALUE = 4

STEPS_PER_CELL = 8
"""Steps granted for each cell of the two tables."""

# Costs of splitting and hashing a row with loose cells: per row, and per loose cell.
STEPS_PER_LOOSE_ROW = 4
STEPS_PER_LOOSE_CELL = 2
# Cost of finding the rows that are near a row or could be matched with it.
STEPS_PER_LOOKUP = 16
# Cost of comparing a pair of rows, plus a step per cell; or of comparing a pair of cells.
STEPS_PER_PAIR = 8

_AMBIGUOUS = "too ambiguous to compare within the search budget"
_SPENT = "not compared: the comparison budget of this response is exhausted"


class Budget:
    """Steps that successive comparisons may spend. Another thread may stop them at any time.

    Attributes:
        left: number of steps that may still be spent.
        exact: number of those for exact pairings of rows.
        free: number of comparisons that are still free; below 0 once they are used up.
        stopped: whether `stop` was called.
        quick: whether the budget is for an event loop; reading tables then also counts.
        strict_types: whether tables with untyped cells are refused.
    """

    __slots__ = ("exact", "free", "left", "quick", "stopped", "strict_types")

    def __init__(self, steps: int = SEARCH_STEPS, free: int = FREE_COMPARISONS) -> None:
        self.left = steps
        self.exact = EXACT_PAIRING_STEPS
        self.free = free
        self.stopped = self.quick = self.strict_types = False

    def pay(self, steps: int) -> None:
        """Spend the steps of a comparison beyond reading the actual step, unless the comparison is free."""
        if self.free < 0:
            self.spend(steps)

    def spend(self, steps: int) -> None:
        """Spend steps before they are taken.

        Raises:
            ComparisonBudgetExceeded: fewer are left (the budget is then empty), or the budget was stopped.
        """
        self.left -= steps
        if self.left < 0:
            self.left = 0
            raise ComparisonBudgetExceeded(_AMBIGUOUS if self.free >= 0 else _SPENT)
        if self.stopped:
            raise ComparisonBudgetExceeded("stopped")

    def stop(self) -> None:
        """Make every later `spend` raise. May be called from any thread."""
        self.stopped = True

    @contextmanager
    def granted(self, steps: int) -> Iterator[None]:
        """Grant extra steps if the comparison is free. Unspent ones are taken back at the end."""
        before = self.left
        self.left += steps if self.free >= 0 else 0
        try:
            yield
        finally:
            self.left = min(before, self.left)

    @contextmanager
    def halved(self) -> Iterator[None]:
        """Limit spending to half of what is left, rounded up. The other half is restored at the end."""
        kept = self.left // 2
        self.left -= kept
        try:
            yield
        finally:
            self.left += kept

    @contextmanager
    def exactly(self) -> Iterator[None]:
        """Spend the steps for exact pairings of rows instead of the others.

        On an event loop, the others are spent, so that a pairing that takes too long is made in a thread.
        """
        if self.quick:
            yield
            return
        others, self.left = self.left, self.exact
        try:
            yield
        finally:
            self.exact, self.left = self.left, others
