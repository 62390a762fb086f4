"""Polling of all followed files. Never runs on the event loop, since disks may be slow."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from graphrag_eval_async.records import Position
from graphrag_eval_async.sources import rotation
from graphrag_eval_async.sources.checkpoints import Checkpoints, FollowState, compare, is_replaced
from graphrag_eval_async.sources.lines import LOGGER
from graphrag_eval_async.sources.listing import SETTLING_SECONDS, Directory, Listing
from graphrag_eval_async.sources.registry import Registry
from graphrag_eval_async.sources.tail import CLOSED, Event, seen

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from graphrag_eval_async.records import Known
    from graphrag_eval_async.sources.identity import Access
    from graphrag_eval_async.sources.tail import Tail


class Tails:
    """Follows files. The caller decides when to poll them, and passes the time.

    Attributes:
        registry: registry of all files found so far.
        not_found: given paths for which no poll has found anything.
    """

    def __init__(self, paths: Sequence[str], access: Access, *, rotate_wait: float) -> None:
        directories: dict[str, Directory] = {}
        self._listings = [Listing(path, directories) for path in dict.fromkeys(paths)]
        self._awaited = self._listings
        self.not_found: list[str] = []
        self._rotate_wait = rotate_wait
        self.registry = Registry(Checkpoints({}, {}), access)
        self._places: dict[str, Tail] = {}
        self._departed: dict[Tail, float] = {}
        self._events: list[Event] = []

    @property
    def unread(self) -> int:
        """Bytes to read, as far as is known."""
        return sum(tail.unread for tail in self.registry.unread)

    def begin(
        self,
        known: Mapping[str, Known],
        start: str | Position,
        exclude: Iterable[str],
        *,
        now: float,
        is_first: bool,
        copies: Mapping[str, str],
    ) -> FollowState | None:
        """See `Follower.begin`, which saves the returned state. `start` only applies if `is_first`."""
        line = start if is_first and isinstance(start, Position) else None
        self.registry.access.exclude(exclude)
        self.registry = registry = Registry(Checkpoints(known, copies, line), self.registry.access)
        registry.skip = is_first and start == "end"
        registry.checkpoints.present = rotation.roots(self._listings, now)
        self._look_at_names(now, at_once=True)
        if is_first:
            self._pass_over_rotated(now)
        else:
            self._look_at_rotated(now, at_once=True)
            self._look_at_packed(now)
        if line is not None and not registry.checkpoints.found:
            LOGGER.warning("%s: line to start after not found; reading from the start", line.path)
        return registry.checkpoints.changes()

    def _pass_over_rotated(self, now: float) -> None:
        """Skip files rotated earlier than the file with the line to start after."""
        registry = self.registry
        begun: set[str] = set()
        found = rotation.find_rotated(self._listings, registry, self._places, now, at_once=True)
        for _, path, name in sorted(each[1:] for each in found):
            registry.skip = name not in begun
            tail = self._enter_rotated(path, name, now)
            if tail is not None and tail.origin < 0:
                begun.add(name)
            elif tail is not None:
                del self._departed[tail]
                tail.finish()
                registry.release(tail)
        registry.skip = False
        for root, _, _ in rotation.find_packed(self._listings, registry, now):
            registry.checkpoints.skip(root)

    def _look_at_packed(self, now: float) -> None:
        """Add compressed files. Each is read before all later files."""
        for _, path, name in rotation.find_packed(self._listings, self.registry, now):
            if len(self._departed) >= self.registry.max_open // 2:
                self.registry.access.tell(path, "too many compressed files; the next start reads more")
                return
            try:
                tail = self.registry.register_packed(path, name)
                if tail is not None:
                    self._departed[tail] = now
                    if (present := self._places.get(name)) is not None:
                        present.earliest().after = tail
                    self._see(tail, os.fstat(tail.descriptor), now)
            except OSError as error:
                self.registry.access.tell(path, error)

    def look(self, now: float, *, at_once: bool = False) -> None:
        """Find changes. `at_once` also checks what is otherwise checked less often."""
        before = list(self._places.values())
        self._look_at_names(now, at_once=at_once)
        named = set(self._places.values())
        for tail in (*before, *self.registry.open):
            if tail not in named and not tail.finished:
                self._departed.setdefault(tail, now)
        self._look_at_rotated(now, at_once=at_once)
        for tail, since in list(self._departed.items()):
            self._look_at_departed(tail, since, now)
        self._limit()

    def _look_at_names(self, now: float, *, at_once: bool) -> None:
        names = [name for each in self._listings for name in self._names(each, now, at_once=at_once)]
        if self._awaited:
            self._awaited = [each for each in self._awaited if not any(map(os.path.exists, each.latest))]
            self.not_found = [each.given for each in self._awaited]
        excluded = self.registry.access.is_excluded
        for name in names:  # Originals are added before their copies.
            if not (name in self._places or excluded(name) or rotation.may_be_copy(name, self.registry)):
                with suppress(OSError):  # Already logged.
                    self._enter(name, now)
        for name in names:
            self._look_at(name, now)
        for name in self._places.keys() - set(names):
            del self._places[name]

    def _names(self, listing: Listing, now: float, *, at_once: bool) -> Sequence[str]:
        try:
            return listing.names(now, at_once=at_once)
        except OSError as error:
            self.registry.access.tell(str(error.filename), error)
            return listing.latest

    def _look_at(self, name: str, now: float) -> None:
        tail, registry = self._places.get(name), self.registry
        try:
            is_skipped = tail is None and registry.access.is_excluded(name)
            status = None if is_skipped else registry.access.status(name)
            if status is None:
                self._places.pop(name, None)
                return
            is_known = tail is not None and registry.get(status) is tail
            if tail is None or not is_known or (tail.descriptor == CLOSED and tail.seen != seen(status)):
                tail = self._enter(name, now)
                if tail is None:
                    return
                if tail is not self._places.get(name):
                    self._name(tail, name)
                status = os.fstat(tail.descriptor)
            self._see(tail, status, now)
        except OSError as error:
            registry.access.tell(name, error)

    def _name(self, tail: Tail, name: str) -> None:
        """Record the new name of a file. The file that had the name before is read first."""
        former = self._places.get(name)
        self._places[name] = tail
        tail.name = name
        tail.finished = False
        self._departed.pop(tail, None)
        if former is not None:
            tail.follow(former)

    def _enter(self, path: str, now: float) -> Tail | None:
        """The tail of the file with a name, opened. It may be a copy of a file truncated since."""
        formers = rotation.former_names(path)
        for name in (path, *formers):
            original = self._places.get(name)
            if original is not None and original.descriptor != CLOSED:
                self._see(original, os.fstat(original.descriptor), now)
        opened = self.registry.access.open_file(path)
        if opened is None:
            return None
        met = self.registry.tails.get(opened[1].place)
        if met is None or met.identity != opened[1]:
            # Where nothing had the name for a while, it is another file.
            present = (tail for tail in self.registry.open if tail not in self._departed)
            named = (tail for tail in present if tail.name in (path, *formers))
            if replaced := next((tail for tail in named if is_replaced(tail, opened)), None):
                LOGGER.warning("%s: replaced; skipped %d bytes that were already read", path, replaced.offset)
                self.registry.move(replaced, opened)
                return replaced
        tail = self.registry.register(opened, path, formers)
        self._limit()
        return tail

    def _look_at_rotated(self, now: float, *, at_once: bool = False) -> None:
        found = rotation.find_rotated(self._listings, self.registry, self._places, now, at_once=at_once)
        for _, _, path, name in found:
            self._enter_rotated(path, name, now)
            self._limit()

    def _enter_rotated(self, path: str, name: str, now: float) -> Tail | None:
        """The tail of a file that had a name before; it is read before the file that has the name now."""
        try:
            tail = self._enter(path, now)
            if tail is None or tail in self._places.values():
                return None
            self._departed.setdefault(tail, now)
            tail.name = name
            if (present := self._places.get(name)) is not None:
                if present.after is not None:
                    tail.follow(present.after)
                present.follow(tail)
            self._see(tail, os.fstat(tail.descriptor), now)
        except OSError as error:
            self.registry.access.tell(path, error)
            return None
        return tail

    def _look_at_departed(self, tail: Tail, since: float, now: float) -> None:
        """Keep reading a file that has lost its name, as long as it may still be written to."""
        if tail.descriptor == CLOSED:
            self._finish(tail)
            return
        before = tail.seen
        try:
            self._see(tail, os.fstat(tail.descriptor), now)
        except OSError as error:
            self.registry.access.tell(tail.name, error)
        if tail not in self._departed:
            return
        if tail.seen != before:
            del self._departed[tail]
            self._departed[tail] = now
        elif tail not in self.registry.unread and now - since >= self._rotate_wait:
            self._finish(tail)

    def _limit(self) -> None:
        """If too many files are open, close those idle longest; those that have lost their names for good."""
        excess = max(0, len(self._departed) - self.registry.max_open // 2)
        for tail in [tail for tail in self._departed if tail not in self.registry.unread][:excess]:
            self._finish(tail)
        self.registry.limit(self._departed)

    def _see(self, tail: Tail, status: os.stat_result, now: float) -> None:
        """Check whether there is data to read."""
        if seen(status) != tail.seen:
            tail.changed = now
        elif now > tail.changed + SETTLING_SECONDS:
            return
        is_intact = tail.descriptor == CLOSED or tail.original is not None or tail.is_intact()
        tail.seen = seen(status)  # After a failure, the next poll tries again.
        if tail.original is not None and tail.descriptor != CLOSED:
            compare(tail, self.registry.checkpoints)
        if not is_intact:
            self._restart(tail, now)
        elif tail.unread:
            self.registry.unread[tail] = None

    def _restart(self, tail: Tail, now: float) -> None:
        """Start again with a truncated file. Its earlier lines may be in a copy."""
        new = self.registry.restart(tail)
        self.registry.unread.pop(tail, None)
        self._places.update({name: new for name, holder in self._places.items() if holder is tail})
        if (since := self._departed.pop(tail, None)) is not None:
            self._departed[new] = since
        copy = rotation.find_copy(self._listings, self.registry, tail, now)
        if copy is None:
            LOGGER.warning(
                "%s: was truncated or rewritten after %d bytes were read, %d of them of an unfinished line;"
                " unread data is lost",
                *(tail.name, tail.offset, tail.held),
            )
            tail.finished = True
            tail.drop()
        else:
            self.registry.move(tail, copy)
            self._departed[tail] = now
            new.follow(tail)
            self._see(tail, os.fstat(tail.descriptor), now)
        self._see(new, os.fstat(new.descriptor), now)

    def _finish(self, tail: Tail) -> None:
        if tail.descriptor == CLOSED and tail.unread:
            LOGGER.warning("%s: gone; lost %d unread bytes", tail.name, tail.unread)
        self.registry.unread.pop(tail, None)
        self._departed.pop(tail, None)
        tail.finish()
        self.registry.release(tail)
        self._events.append(Event(tail, None))

    def read(self) -> list[Event]:
        """Some of the data to read; `unread` tells whether there is more."""
        events, self._events = self._events + self.registry.read(), []
        self._limit()
        return events

    def end(self) -> list[Event]:
        """Give up all unfinished lines. Call it after everything was read."""
        for tail in [tail for tail in self.registry.tails.values() if not tail.finished]:
            self._finish(tail)
        return self.read()

    def close(self) -> None:
        """Close all files."""
        self.registry.close()
