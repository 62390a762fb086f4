"""The files that were ever met, each once whatever its names: which are open, and reading them in turn."""

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
"""How much of the descriptors that a process may have is for followed files, half of it for departed ones."""

MAX_OPEN = 65_536
"""How many files are held open at most."""

CHUNK_BYTES = 1 << 18
"""How much is read of a file before it is the turn of the next."""

PASS_BYTES = 1 << 20
"""How much is read of all files at a time."""


def open_limit() -> int:
    """How many files to hold open. A file that is not is lost if it is deleted before it is read."""
    import resource  # Only POSIX systems have it.

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MAX_OPEN if soft == resource.RLIM_INFINITY else max(2, min(MAX_OPEN, int(soft * OPEN_SHARE)))


class Registry:
    """All tails by the identity of their files. A file that was closed is recognised when it is met again.

    Memory grows with the files that there ever were, by about a kilobyte for each.

    Attributes:
        access: opens files.
        checkpoints: what earlier runs have read.
        tails: by device and inode number.
        open: the tails whose files are open; those that were read longest ago come first.
        max_open: how many these may be.
        unread: the tails that there is something to read of, each once, in the order of their turns.
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
        """The tail of a file that was met, or of one that had its inode number."""
        return self.tails.get((status.st_dev, status.st_ino))

    def register(self, opened: Opened, name: str, bases: Collection[str]) -> Tail | None:
        """The tail of a file that was opened by `name`, and was called one of `bases` if it was rotated.

        None if it is new and still empty, and may become a copy of one of these.

        Raises:
            OSError: it cannot be read.
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
                LOGGER.warning("%s: has %d bytes that an earlier run has read; skipped", name, start.offset)
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
        """The tail of a compressed file, which was called `name` before; None if it need not be read.

        Raises:
            OSError: it cannot be read.
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
        """A tail for what stands now in a file that was rewritten; the old one is left without a file."""
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
        """If too many files are open, close those that were read longest ago, but none that is needed."""
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
        """A chunk of each file in turn, of as many files as come to `PASS_BYTES`."""
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
        """Open the file of a tail again; False if it is no longer where it was."""
        opened = self.access.open_file(tail.name)
        if opened is None or opened[1] == tail.identity:
            tail.descriptor = CLOSED if opened is None else opened[0]
        else:
            os.close(opened[0])
        return tail.descriptor != CLOSED

    def measure(self) -> int:
        """Bytes that were not read of the files that are open."""
        return sum(tail.measure() for tail in self.open)

    def close(self) -> None:
        """Close all files, and give up unfinished lines."""
        for tail in list(self.open):
            self.release(tail)
        for tail in self.tails.values():
            tail.drop()
