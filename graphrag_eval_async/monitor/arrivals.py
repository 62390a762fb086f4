"""Records when the results in a journal arrived, in marks of time beside it."""

from __future__ import annotations

from collections import deque
from math import inf, isfinite
from time import time
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.aggregates import Seconds

if TYPE_CHECKING:
    from collections.abc import Iterable

    from graphrag_eval_async.aggregates import Last

MARKS_PER_WINDOW = 100
LEAST_SECONDS = 1.0


class Arrivals:
    """The times at which results arrived, for windows of time.

    A mark is a time, by the system's clock, and the number of results by then. A result counts as having come
    at the time of the first mark that includes it, which is right to a second or a hundredth of the longest
    window. If a kill prevented that mark, it counts as having come at the last mark; without any mark, long
    ago.

    Attributes:
        seconds: the longest window; 0 if there is none of time.
    """

    def __init__(self, windows: Iterable[Last | Seconds | None]) -> None:
        self.seconds = max((each.seconds for each in windows if isinstance(each, Seconds)), default=0.0)
        self._marks: deque[tuple[float, int]] = deque()
        self._restored = 0
        self._at = 0

    def load(self, marks: Any) -> None:
        """Take the marks of an earlier run.

        Raises:
            OverflowError, TypeError, ValueError: they are none.
        """
        self._marks.extend((float(when), int(count)) for when, count in marks)
        if not all(isfinite(when) for when, _ in self._marks):
            raise ValueError("a mark has no time")

    def restore(self) -> float | None:
        """How many seconds ago the next result in the journal came; None if no window reaches that far."""
        self._restored += 1
        while self._at + 1 < len(self._marks) and self._marks[self._at][1] < self._restored:
            self._at += 1
        age = max(0.0, time() - self._marks[self._at][0]) if self._marks else inf
        return age if age < self.seconds else None

    def resume(self) -> None:
        """Continue from the last result in the journal."""
        when = self._marks[self._at][0] if self._marks else 0.0
        self._marks = deque(mark for mark in self._marks if mark[1] < self._restored)
        if self._restored:
            self._marks.append((when, self._restored))

    def note(self, added: int, *, last: bool = False) -> bool:
        """Record the number of results so far in this run; return whether there is a new mark.

        Marks are a second or more apart, except for the `last` one.
        """
        now, count = time(), self._restored + added
        when, before = self._marks[-1] if self._marks else (0.0, 0)
        if not self.seconds or count == before:
            return False
        if not last and 0 <= now - when < max(LEAST_SECONDS, self.seconds / MARKS_PER_WINDOW):
            return False
        self._marks.append((now, count))
        while len(self._marks) > 1 and self._marks[1][0] <= now - self.seconds:
            self._marks.popleft()
        return True

    def marks(self) -> list[tuple[float, int]]:
        return [*self._marks]
