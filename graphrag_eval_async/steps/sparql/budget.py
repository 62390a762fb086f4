"""How much work one comparison may take."""

from __future__ import annotations

from graphrag_eval_async.errors import ComparisonBudgetExceeded

# Steps for the search alone: the greatest that keep the worst case within about a second or two.
SEARCH_STEPS = 10_000_000
# What a search may take on an event loop: a few milliseconds.
QUICK_SEARCH_STEPS = 20_000
# Steps for each cell of the two tables, which let big tables through that need no search.
STEPS_PER_CELL = 4


class Budget:
    """Counts steps, each about as much work as projecting one row; a count, so that no clock decides."""

    __slots__ = ("_left", "_subject")

    def __init__(self, steps: int = SEARCH_STEPS, subject: str = "") -> None:
        self._left = steps
        self._subject = subject

    def spend(self, steps: int) -> None:
        """Count steps that are about to be taken.

        Raises:
            ComparisonBudgetExceeded: there are not as many left.
        """
        self._left -= steps
        if self._left < 0:
            raise ComparisonBudgetExceeded(
                f"{self._subject}: too ambiguous to compare within the search budget"
            )

    def stop(self) -> None:
        self._left = -1

    def half(self) -> Budget:
        """Another budget, of half the steps that this one has left."""
        return Budget(self._left // 2, self._subject)
