"""The files that were ever met, each once whatever its names, and which of them are held open."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from graphrag_eval_async.records import FileId
from graphrag_eval_async.sources.opening import Opened, Opener
from graphrag_eval_async.sources.recall import Kept, Recall, Start
from graphrag_eval_async.sources.tail import CLOSED, Tail, has, is_beginning, line_start

if TYPE_CHECKING:
    from collections.abc import Collection, Container, Mapping

    from graphrag_eval_async.records import Known, Position
    from graphrag_eval_async.sources.identity import Identity

MAX_OPEN = 128
"""How many files are held open, but for those that have just been rotated and can be read in no other way."""


class Registry:
    """All tails by the identity of their files. A file that was closed is recognised when it is met again.

    Memory grows with the files that there ever were, by less than a kilobyte for each.

    Attributes:
        opener: opens files.
        recall: knows what earlier runs have read.
        open: the tails whose files are open; those that were read longest ago come first.
        skip: whether new files begin at their ends.
    """

    def __init__(self) -> None:
        self.opener = Opener()
        self.recall = Recall({}, {})
        self.open: dict[Tail, None] = {}
        self.skip = False
        self._origins: dict[str, int] = {}
        self._copies: dict[str, str] = {}
        self._is_noted = True
        self._tails: dict[tuple[int, int], Tail] = {}

    def begin(self, known: Mapping[str, Known], copies: Mapping[str, str], start: Position | None) -> None:
        """Go on where earlier runs were, or after a line."""
        self._copies = dict(copies)
        self.recall = Recall(known, self._copies, start)

    def get(self, status: os.stat_result) -> Tail | None:
        """The tail of a file that was met, or that has its inode number."""
        return self._tails.get((status.st_dev, status.st_ino))

    def by_identity(self, identity: Identity) -> Tail | None:
        """The tail of that very file."""
        tail = self._tails.get(identity.place)
        return tail if tail is not None and tail.identity == identity else None

    def all(self) -> list[Tail]:
        return list(self._tails.values())

    def meet(self, opened: Opened, name: str, bases: Collection[str]) -> Tail | None:
        """The tail of a file that was opened by `name`, and was called one of `bases` if it was rotated.

        None if it is empty as yet, and new, and may become a copy of one of these.

        Raises:
            OSError: it cannot be read.
        """
        descriptor, identity = opened
        tail = self._tails.get(identity.place)
        if tail is not None and tail.descriptor != CLOSED:
            os.close(descriptor)
            return tail
        try:
            if tail is not None and tail.identity == identity:
                tail.descriptor = descriptor
            elif bases and not os.fstat(descriptor).st_size:
                os.close(descriptor)
                return None
            else:
                tail = self._new(opened, name, bases)
        except BaseException:
            os.close(descriptor)
            raise
        self.hold(tail)
        return tail

    def _new(self, opened: Opened, name: str, bases: Collection[str]) -> Tail:
        descriptor, identity = opened
        start = self.recall.find(identity.root, descriptor)
        original = None
        if start is None and bases:
            start = self.recall.find_copy(descriptor, bases)
            original = self._original(opened, bases) if start is None else start.key
        is_copy = start is None and original is not None
        if original is not None:
            self._note_copy(identity, original)
        if start is None:
            skip = self.skip or is_copy
            offset = line_start(descriptor, os.fstat(descriptor).st_size) if skip else 0
            start = Start(self.recall.new_key(identity.root), offset, 1, passed_over=skip)
        file = FileId(name, start.key, followed=True)
        tail = Tail(file, identity, descriptor, name=name, offset=start.offset, number=start.number)
        tail.is_copy = is_copy
        if start.passed_over:
            tail.origin = start.offset
        if (start.offset or start.passed_over) and not self.recall.has_met(start.key):
            self._origins[start.key] = start.offset
            self._is_noted = False
        self._tails[identity.place] = tail
        return tail

    def _original(self, opened: Opened, bases: Collection[str]) -> str | None:
        """The key of a file of one of those names, made earlier than one that only repeats it."""
        descriptor, identity = opened
        for tail in self.open:
            if tail.name not in bases or tail.identity.born > identity.born:
                continue
            if is_beginning(descriptor, tail.descriptor) or (
                not tail.is_intact() and has(descriptor, tail.trace, tail.trace_end)  # Truncated just now.
            ):
                return self._copies[tail.identity.root] if tail.is_copy else tail.file.key
        return None

    def _note_copy(self, copy: Identity, original: str) -> None:
        self._copies[copy.root] = original
        self._is_noted = False

    def changes(self) -> Kept | None:
        """What later runs have to know, if that is more than before."""
        if self._is_noted:
            return None
        self._is_noted = True
        return Kept(dict(self._origins), dict(self._copies))

    def renew(self, tail: Tail) -> Tail:
        """A tail for what stands now in a file that was rewritten; the old one is left without a file."""
        key = self.recall.new_key(tail.identity.root)
        new = Tail(FileId(tail.name, key, followed=True), tail.identity, tail.descriptor, name=tail.name)
        self._tails[tail.identity.place] = new
        tail.descriptor = CLOSED
        self.open.pop(tail, None)
        self.hold(new)
        return new

    def move(self, tail: Tail, opened: Opened) -> None:
        """Let a tail that has no file go on with a copy of it."""
        tail.descriptor, tail.identity = opened
        if (other := self._tails.get(tail.identity.place)) is not None:
            self.release(other)
        self._tails[tail.identity.place] = tail
        self._note_copy(tail.identity, tail.file.key)
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
        """Where too many files are open, close those that were read longest ago, but none that is needed."""
        if len(self.open) > MAX_OPEN:
            idle = [tail for tail in self.open if tail not in needed]
            for tail in idle[: max(0, len(idle) - MAX_OPEN)]:
                self.release(tail)

    def wake(self, tail: Tail) -> bool:
        """Open the file of a tail again; False if it is no longer where it was."""
        opened = self.opener.open(tail.name)
        if opened is None:
            return False
        if opened.identity != tail.identity:
            os.close(opened.descriptor)
            return False
        tail.descriptor = opened.descriptor
        self.hold(tail)
        return True

    def measure(self) -> int:
        """How many bytes stand behind what was read, in the files that are open."""
        sizes = [(os.fstat(tail.descriptor).st_size, tail.offset) for tail in self.open if not tail.is_copy]
        return sum(max(0, size - offset) for size, offset in sizes)

    def close(self) -> None:
        """Close all files, and give up unfinished lines."""
        for tail in list(self.open):
            self.release(tail)
        for tail in self.all():
            if tail.splitter is not None:
                tail.splitter.close()
