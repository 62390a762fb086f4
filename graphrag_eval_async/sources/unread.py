"""The files that there is something to read of, and whose turn it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from graphrag_eval_async.sources.lines import Splitter
from graphrag_eval_async.sources.tail import CLOSED

if TYPE_CHECKING:
    from graphrag_eval_async.records import Record
    from graphrag_eval_async.sources.registry import Registry
    from graphrag_eval_async.sources.tail import Tail

CHUNK_BYTES = 1 << 18
"""How much is read of a file before it is the turn of the next."""

PASS_BYTES = 1 << 20
"""How much is read of all files at a time."""


class Event(NamedTuple):
    """What was read of a file; None if no more is expected of it."""

    tail: Tail
    data: bytes | None

    def lines(self, max_line_bytes: int, *, spool: bool) -> list[Record]:
        """The lines that this completes; to be asked for once, in the order of the events."""
        tail, data = self
        if data is None:
            return tail.end()
        if tail.splitter is None:
            offset = tail.offset - len(data)
            tail.splitter = Splitter(
                max_line_bytes, spool=spool, file=tail.file, number=tail.number, offset=offset
            )
        return tail.splitter.feed(data)


class Unread:
    """A queue of tails, each once."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._queue: dict[Tail, None] = {}

    def __contains__(self, tail: Tail) -> bool:
        return tail in self._queue

    def __bool__(self) -> bool:
        return bool(self._queue)

    @property
    def size(self) -> int:
        """How many bytes there is, as far as is known."""
        return sum(tail.unread for tail in self._queue)

    def add(self, tail: Tail) -> None:
        self._queue[tail] = None

    def discard(self, tail: Tail) -> None:
        self._queue.pop(tail, None)

    def read(self) -> list[Event]:
        """A piece of each file, in turn, of as many as come to `PASS_BYTES`."""
        events = []
        budget = PASS_BYTES
        for tail in list(self._queue):
            if budget <= 0:
                break
            if not self._is_first(tail):
                continue
            del self._queue[tail]
            if data := self._read(tail, min(CHUNK_BYTES, budget)):
                events.append(Event(tail, data))
                budget -= len(data)
                if tail.unread:
                    self._queue[tail] = None
        return events

    def _is_first(self, tail: Tail) -> bool:
        """Whether all is read that is to be read before it."""
        while tail.after is not None and tail.after not in self._queue:
            tail.after = tail.after.after
        return tail.after is None

    def _read(self, tail: Tail, limit: int) -> bytes:
        try:
            if tail.descriptor != CLOSED or self._registry.wake(tail):
                self._registry.hold(tail)
                if tail.is_intact():
                    return tail.read(min(limit, tail.unread))
        except OSError as error:
            self._registry.opener.tell(tail.name, error)
            self._registry.release(tail)
        tail.suspect()
        return b""
