"""What is there to read and was not handed out, and for how long."""

from __future__ import annotations

from collections import deque
from threading import Lock
from typing import NamedTuple

MAX_ARRIVALS = 256
"""How many times of arrival are kept. More are merged in pairs, which makes `Lag.seconds` too long."""


class Lag(NamedTuple):
    """How far a follower is behind the ends of the files.

    Attributes:
        bytes: in the files that were not handed out, without an unfinished line.
        seconds: for how long the oldest of these bytes has been there; 0.0 if there are none.
    """

    bytes: int
    seconds: float


class Backlog:
    """Counts bytes when they are found and when they are handed out; threads may share it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._handed_out = self._read = self._unread = 0
        self._arrivals: deque[tuple[float, int]] = deque()  # Times, and the bytes found until then.

    def note(self, unread: int, now: float, read: int = 0) -> None:
        """Note that so many bytes were read since, and so many more are in the files."""
        with self._lock:
            self._read += read
            self._unread = unread
            found = self._read + unread
            while self._arrivals and self._arrivals[-1][1] > found:  # Some were truncated.
                now, _ = self._arrivals.pop()
            self._drop()
            if found > (self._arrivals[-1][1] if self._arrivals else self._handed_out):
                self._arrivals.append((now, found))
            if len(self._arrivals) > MAX_ARRIVALS:
                times, counts = list(self._arrivals)[::2], list(self._arrivals)[1::2]
                merged = [(time, count) for (time, _), (_, count) in zip(times, counts, strict=False)]
                self._arrivals = deque([*merged, *times[len(counts) :]])

    def hand_out(self, size: int) -> None:
        """Note that so many bytes of what was read are handed out."""
        with self._lock:
            self._handed_out += size
            self._drop()

    def _drop(self) -> None:
        while self._arrivals and self._arrivals[0][1] <= self._handed_out:
            self._arrivals.popleft()

    def lag(self, now: float) -> Lag:
        """What is left, and since when."""
        with self._lock:
            size = self._read - self._handed_out + self._unread
            return Lag(size, now - self._arrivals[0][0] if size and self._arrivals else 0.0)
