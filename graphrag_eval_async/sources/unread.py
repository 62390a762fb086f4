"""Which followed files there is something to read of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphrag_eval_async.sources.tail import CLOSED, Event

if TYPE_CHECKING:
    from graphrag_eval_async.sources.registry import Registry
    from graphrag_eval_async.sources.tail import Tail

CHUNK_BYTES = 1 << 18
"""How much is read of a file before it is the turn of the next."""

PASS_BYTES = 1 << 20
"""How much is read of all files at a time."""


class Unread:
    """A queue of the tails that there is something to read of, each once."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._queue: dict[Tail, None] = {}

    def __contains__(self, tail: Tail) -> bool:
        return tail in self._queue

    def __bool__(self) -> bool:
        return bool(self._queue)

    @property
    def size(self) -> int:
        """How many bytes there are to read, as far as is known."""
        return sum(tail.unread for tail in self._queue)

    def add(self, tail: Tail) -> None:
        self._queue[tail] = None

    def discard(self, tail: Tail) -> None:
        self._queue.pop(tail, None)

    def read(self) -> list[Event]:
        """A chunk of each file in turn, of as many files as come to `PASS_BYTES`."""
        events = []
        budget = PASS_BYTES
        for tail in list(self._queue):
            if budget <= 0:
                break
            while tail.after is not None and tail.after not in self._queue:
                tail.after = tail.after.after
            if tail.after is not None:
                continue
            del self._queue[tail]
            if data := self._read(tail, min(CHUNK_BYTES, budget)):
                events.append(Event(tail, data))
                budget -= len(data)
                if tail.unread:
                    self._queue[tail] = None
        return events

    def _read(self, tail: Tail, limit: int) -> bytes:
        try:
            if tail.descriptor != CLOSED or self._registry.wake(tail):
                self._registry.hold(tail)
                if tail.is_intact():
                    return tail.read(min(limit, tail.unread))
        except OSError as error:
            self._registry.tell(tail.name, error)
            self._registry.release(tail)
        tail.suspect()
        return b""
