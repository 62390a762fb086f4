"""Registry of all files found so far, each once whatever its names. Tracks open files, reads them in turn."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from graphrag_eval_async.records import FileId
from graphrag_eval_async.sources.checkpoints import Start, find_original, pass_over, still_copy
from graphrag_eval_async.sources.identity import line_start
from graphrag_eval_async.sources.lines import LOGGER
from graphrag_eval_async.sources.packed import Packed, open_packed, unpack
from graphrag_eval_async.sources.tail import CLOSED, Event, Tail

if TYPE_CHECKING:
    from collections.abc import Collection, Container

    from graphrag_eval_async.sources.checkpoints import Checkpoints
    from graphrag_eval_async.sources.identity import Access, Opened


OPEN_SHARE = 0.75
"""Share of the file descriptors limit for followed files; half of it is for files that lost their names."""

MAX_OPEN = 65_536
"""Maximum number of files kept open."""

CHUNK_BYTES = 1 << 18
"""Bytes read of a file before the next file gets a turn."""

PASS_BYTES = 1 << 20
"""Bytes read of all files in one pass."""


def open_limit() -> int:
    """Number of files to keep open. A file that is not open is lost if it is deleted before it is read."""
    import resource  # Only POSIX systems have it.

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MAX_OPEN if soft == resource.RLIM_INFINITY else max(2, min(MAX_OPEN, int(soft * OPEN_SHARE)))


class Registry:
    """All tails, by identity of their files. A closed file is recognised when it is found again.

    Takes about a kilobyte of memory for each file ever found.

    Attributes:
        access: opens files.
        checkpoints: what earlier runs have read.
        tails: tails by device and inode number.
        open: tails whose files are open, least recently read first.
        max_open: maximum number of open files.
        unread: tails with unread data, each once, in the order of their turns.
        skip: whether new files begin at their ends.
    """

    def __init__(self, checkpoints: Checkpoints, access: Access) -> None:
        self.access = access
        self.checkpoints = checkpoints
        self.open: dict[Tail, None] = {}
        self.max_open = open_limit()
        self._is_limited = False
        self.unread: dict[Tail, None] = {}
        self.skip = False
        self.tails: dict[tuple[int, int], Tail] = {}

    def get(self, status: os.stat_result) -> Tail | None:
        """The tail of a known file, or of one that had the same inode number."""
        return self.tails.get((status.st_dev, status.st_ino))

    def register(self, opened: Opened, name: str, bases: Collection[str]) -> Tail | None:
        """The tail of a file opened as `name`. If it was rotated, it had one of the names in `bases`.

        None if the file is new and still empty, and may become a copy of one of these.

        Raises:
            OSError: the file cannot be read.
        """
        descriptor, identity = opened
        tail = self.tails.get(identity.place)
        try:
            if tail is not None and tail.descriptor != CLOSED:
                os.close(descriptor)
                return tail
            if tail is not None and tail.identity == identity:
                tail.descriptor = descriptor
            elif bases and not os.fstat(descriptor).st_size:
                os.close(descriptor)
                return None
            else:
                tail = self._new(opened, name, bases)
        except OSError:
            os.close(descriptor)
            raise
        self.hold(tail)
        return tail

    def _new(self, opened: Opened, name: str, bases: Collection[str]) -> Tail:
        (descriptor, identity), checkpoints = opened, self.checkpoints
        start = checkpoints.find(identity.root, descriptor)
        original, begin = None, 0
        if start is None:
            original = find_original(self.open, opened, bases) if bases else None
            if original is None and (start := checkpoints.find_content(descriptor, name, bases)):
                LOGGER.warning("%s: skipped %d bytes that an earlier run has read", name, start.offset)
                checkpoints.note_copy(identity.root, start.key)
        elif start.passed_over and identity.root in checkpoints.copies:
            start, original = still_copy(self.open, opened, start, checkpoints)
        if start is None:
            skip = self.skip or self.access.is_old(descriptor)
            is_read = not skip and original is None
            offset = 0 if is_read else line_start(descriptor, os.fstat(descriptor).st_size)
            start = Start(checkpoints.new_key(identity.root), offset, 1, passed_over=not is_read)
            begin = offset if skip else 0
        checkpoints.note_start(start)
        tail = Tail(
            file=FileId(name, start.key, followed=True),
            identity=identity,
            name=name,
            descriptor=descriptor,
            offset=start.offset,
            number=start.number,
            origin=start.offset if start.passed_over else -1,
            begin=begin,
        )
        self.tails[identity.place] = tail
        if original is not None:
            pass_over(tail, original, checkpoints)
        return tail

    def register_packed(self, path: str, name: str) -> Tail | None:
        """The tail of a compressed file that was named `name` before; None if it need not be read.

        Raises:
            OSError: the file cannot be read.
        """
        opened = self.access.open_file(path)
        if opened is None:
            return None
        descriptor, identity = opened
        tail = None
        try:
            if identity.place not in self.tails:
                tail = open_packed(opened, path, name, self.open, self.checkpoints)
        finally:
            if tail is None:
                os.close(descriptor)
        if tail is not None:
            tail.content = unpack(tail, self.checkpoints, is_old=self.access.is_old(descriptor))
            self.tails[identity.place] = tail
            self.hold(tail)
        return tail

    def restart(self, tail: Tail) -> Tail:
        """A new tail for the current content of a rewritten file. The old tail loses its file."""
        file = FileId(tail.name, self.checkpoints.new_key(tail.identity.root), followed=True)
        new = Tail(file=file, identity=tail.identity, name=tail.name, descriptor=tail.descriptor)
        self.tails[tail.identity.place] = new
        tail.descriptor = CLOSED
        self.open.pop(tail, None)
        self.hold(new)
        return new

    def move(self, tail: Tail, opened: Opened) -> None:
        """Give a tail a copy of its file to resume in."""
        if tail.descriptor != CLOSED:
            self.release(tail)
            del self.tails[tail.identity.place]
        tail.descriptor, tail.identity = opened
        if (other := self.tails.get(tail.identity.place)) is not None:
            self.release(other)
        self.tails[tail.identity.place] = tail
        self.checkpoints.note_copy(tail.identity.root, tail.file.key)
        self.hold(tail)

    def hold(self, tail: Tail) -> None:
        """Note that a file is open and in use."""
        self.open.pop(tail, None)
        self.open[tail] = None

    def release(self, tail: Tail) -> None:
        """Close the file of a tail."""
        self.open.pop(tail, None)
        if tail.descriptor != CLOSED:
            os.close(tail.descriptor)
            tail.descriptor = CLOSED

    def limit(self, needed: Container[Tail]) -> None:
        """If too many files are open, close the least recently read ones that are not needed."""
        if (excess := len(self.open) - self.max_open) > 0:
            if not self._is_limited:
                self._is_limited = True
                LOGGER.warning(
                    "more than %d files are followed, too many to hold all open: one that is deleted or moved"
                    " between two looks may lose its last lines; raise the limit on open files (ulimit -n)",
                    self.max_open,
                )
            idle = [tail for tail in self.open if tail not in needed][:-1]  # The last is in use.
            for tail in idle[:excess]:
                self.release(tail)

    def read(self) -> list[Event]:
        """A chunk of each file in turn, up to `PASS_BYTES` in total."""
        events = []
        budget = PASS_BYTES
        for tail in list(self.unread):
            if budget <= 0:
                break
            while tail.after is not None and tail.after not in self.unread:
                tail.after = tail.after.after
            if tail.after is not None:
                continue
            del self.unread[tail]
            data = self._read(tail, min(CHUNK_BYTES, budget))
            if data:
                events.append(Event(tail, data))
                budget -= len(data)
            if tail.unread and (data or (data is not None and isinstance(tail, Packed))):
                self.unread[tail] = None
        return events

    def _read(self, tail: Tail, limit: int) -> bytes | None:
        try:
            if tail.descriptor != CLOSED or self._reopen(tail):
                self.hold(tail)
                if tail.is_intact():
                    return tail.read(min(limit, tail.unread))
        except OSError as error:
            self.access.tell(tail.name, error)
            self.release(tail)
        tail.suspect()
        return None

    def _reopen(self, tail: Tail) -> bool:
        """Reopen the file of a tail. Returns False if it is no longer in its place."""
        opened = self.access.open_file(tail.name)
        if opened is None or opened[1] == tail.identity:
            tail.descriptor = CLOSED if opened is None else opened[0]
        else:
            os.close(opened[0])
        return tail.descriptor != CLOSED

    def measure(self) -> int:
        """Unread bytes of the open files."""
        return sum(tail.measure() for tail in self.open)

    def close(self) -> None:
        """Close all files, and give up unfinished lines."""
        for tail in list(self.open):
            self.release(tail)
        for tail in self.tails.values():
            tail.drop()
