"""How much work comparisons may take, counted in steps, so that no clock decides a score.

A step is about what it takes to project one row on its columns and to look it up, in loops that run in C:
0.05 to 0.3 microseconds. Work in Python costs several steps. Every loop over rows or columns pays before it
starts or as it goes, so `Budget.stop` takes effect within tens of milliseconds at 10,000 rows.

What any comparison needs is granted to the first of a response, which are all that most responses take. The
rest, search among them, draws on a budget that all comparisons of one response share.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from graphrag_eval_async.errors import ComparisonBudgetExceeded

if TYPE_CHECKING:
    from collections.abc import Iterator

SEARCH_STEPS = 10_000_000
"""For all searches of one response: one to three seconds."""

QUICK_SEARCH_STEPS = 20_000
"""The same on an event loop: a few milliseconds."""

FREE_COMPARISONS = 20
"""So many pairs of steps of one response are compared without a charge but for searches."""

QUICK_COMPARISONS = 4
"""The same on an event loop."""

STEPS_PER_COMPARISON = 100
"""For each other pair, whatever it is."""

STEPS_PER_TABLES = 100
"""For each pair of tables that differ, in addition to their cells."""

STEPS_PER_COPIED_VALUE = 4

STEPS_PER_CELL = 8
"""Granted for each cell of the two tables."""

# A row with cells that need a closer look is taken apart and hashed: so much, and so much for each such cell.
STEPS_PER_LOOSE_ROW = 4
STEPS_PER_LOOSE_CELL = 2
# To find what is near a row, or could be matched with it.
STEPS_PER_LOOKUP = 16
# To look closely at a pair of rows, whose cells cost a step each; or at a pair of cells.
STEPS_PER_PAIR = 8

_AMBIGUOUS = "too ambiguous to compare within the search budget"
_SPENT = "not compared: comparing steps has taken all of the budget of this response"


class Budget:
    """Steps that comparisons may spend, one after the other; another thread may stop them at any time.

    Attributes:
        free: how many more comparisons are free; below 0 once they are used up.
        stopped: whether `stop` was called.
        quick: whether it is that of an event loop, against which also counts what tables take to read.
        strict_types: whether tables with untyped cells are refused.
    """

    __slots__ = ("_left", "free", "quick", "stopped", "strict_types")

    def __init__(self, steps: int = SEARCH_STEPS, free: int = FREE_COMPARISONS) -> None:
        self._left = steps
        self.free = free
        self.stopped = self.quick = self.strict_types = False

    def begin(self) -> None:
        """Spend what comparing two steps takes that is not one of the `free` ones.

        Raises:
            ComparisonBudgetExceeded: as `spend` does.
        """
        self.spend(STEPS_PER_COMPARISON)

    def pay(self, steps: int) -> None:
        """Spend what a comparison takes beyond looking at the actual step, unless it is free.

        Raises:
            ComparisonBudgetExceeded: as `spend` does.
        """
        if self.free < 0:
            self.spend(steps)

    def spend(self, steps: int) -> None:
        """Count steps that are about to be taken.

        Raises:
            ComparisonBudgetExceeded: there are not as many left, and now none, or the budget was stopped.
        """
        self._left -= steps
        if self._left < 0:
            self._left = 0
            raise ComparisonBudgetExceeded(_AMBIGUOUS if self.free >= 0 else _SPENT)
        if self.stopped:
            raise ComparisonBudgetExceeded("stopped")

    def stop(self) -> None:
        """Make every later `spend` raise. May be called from any thread."""
        self.stopped = True

    @contextmanager
    def granted(self, steps: int) -> Iterator[None]:
        """So many steps more if the comparison is free; those not spent are taken back in the end."""
        before = self._left
        self._left += steps if self.free >= 0 else 0
        try:
            yield
        finally:
            self._left = min(before, self._left)

    @contextmanager
    def halved(self) -> Iterator[None]:
        """Half of what is left, rounded up; the other half is given back in the end."""
        kept = self._left // 2
        self._left -= kept
        try:
            yield
        finally:
            self._left += kept
