"""How fast a count grows."""

from __future__ import annotations

from collections import deque

SECONDS = 10.0
"""Over which a rate is taken, or since it was last asked for where that is longer."""


class Rate:
    """What a count grew by in a second."""

    def __init__(self, now: float) -> None:
        self._points = deque([(now, 0)])

    def at(self, now: float, count: int) -> float:
        """The rate until `now`, when the count is this."""
        while len(self._points) > 1 and self._points[1][0] <= now - SECONDS:
            self._points.popleft()
        since, before = self._points[0]
        self._points.append((now, count))
        return (count - before) / max(now - since, 1.0)
