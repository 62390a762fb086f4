"""What earlier runs have read of which files, and the keys that files have."""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING, NamedTuple

from graphrag_eval_async.records import Known
from graphrag_eval_async.sources.identity import generation_key, split_key
from graphrag_eval_async.sources.tail import has

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from graphrag_eval_async.records import Position

BLOCK_BYTES = 1 << 20


class Start(NamedTuple):
    """Where reading of a file goes on.

    Attributes:
        key: of the file.
        offset: bytes that need not be read again.
        number: of the line there.
        passed_over: whether nothing of it was read, and what is before the offset need not be.
    """

    key: str
    offset: int
    number: int
    passed_over: bool


class Kept(NamedTuple):
    """What later runs have to know of files beside the lines that were read of them.

    Attributes:
        origins: by the keys of files, where their reading began, if not at the start.
        copies: by the roots of files that are copies, the keys of those that they are copies of.
    """

    origins: Mapping[str, int]
    copies: Mapping[str, str]


class Recall:
    """Recognises files by what an earlier run knows of them, and gives keys to those it does not know."""

    def __init__(
        self, known: Mapping[str, Known], copies: Mapping[str, str], start: Position | None = None
    ) -> None:
        """`copies` as in `Kept`; reading begins after the line `start`."""
        self._earlier = known
        self._known = known
        if start is not None:
            self._known = {start.file: Known(start.offset + start.length + 1, 1, start), **known}
        self._copies = copies
        self._generations: dict[str, list[int]] = {}
        self._next: dict[str, int] = {}
        self._met: dict[str, None] = {}
        for key in (*self._known, *copies.values()):
            if parts := split_key(key):
                root, generation = parts
                self._next[root] = max(self._next.get(root, 0), generation + 1)
                if key in self._known:
                    self._generations.setdefault(root, []).append(generation)
        self.found: set[str] = set()

    def knows(self, root: str) -> bool:
        """Whether there may be something of a file, by the root of its key, that is none of another's."""
        return root in self._generations and root not in self._copies

    def has_met(self, key: str) -> bool:
        """Whether an earlier run has met the file of that key."""
        return key in self._earlier

    def find(self, root: str, descriptor: int) -> Start | None:
        """Where to go on with a file; None if none of what is known still stands in it."""
        original = self._copies.get(root)
        # What was passed over as a copy is to be read if nothing of the original ever was.
        is_lost = original is not None and original not in self._known
        if original is not None and not is_lost and (start := self._start(original, descriptor)):
            return start
        generations = sorted(self._generations.get(root, ()), reverse=True)
        keys = [generation_key(root, generation) for generation in generations]
        self._met.update(dict.fromkeys(keys))
        for key in keys:
            # Of an older generation, where there is no line to tell it by, nothing can be left.
            if (key == keys[0] and not is_lost) or self._known[key].last is not None:
                start = self._start(key, descriptor)
                if start is not None:
                    return start
        return None

    def find_copy(self, descriptor: int, bases: Collection[str]) -> Start | None:
        """The same for a copy of a file that was met or had one of those names, before it was truncated."""
        for key, (_, _, last) in self._known.items():
            if last is None or not (key in self._met or last.path in bases):
                continue
            if start := self._start(key, descriptor):
                return start
        return None

    def _start(self, key: str, descriptor: int) -> Start | None:
        known = self._known[key]
        offset = resume_at(descriptor, known) if key not in self.found else None
        if offset is None:
            return None
        self.found.add(key)
        number = known.number if offset == known.begin else max(1, known.number - 1)
        return Start(key, offset, number, known.last is None)

    def new_key(self, root: str) -> str:
        """A key that no file has had."""
        generation = self._next.get(root, 0)
        self._next[root] = generation + 1
        return generation_key(root, generation)


def resume_at(descriptor: int, known: Known) -> int | None:
    """Where a line begins that is to be read next; None if the file is not the one that was read.

    A last line that had no newline when it was read is read again.
    """
    begin, last = known.begin, known.last
    if last is not None and not _stands(descriptor, last):
        return None
    if begin <= os.fstat(descriptor).st_size and (begin == 0 or has(descriptor, b"\n", begin)):
        return begin
    if last is not None and begin == last.offset + last.length + 1:
        return last.offset
    return None


def _stands(descriptor: int, line: Position) -> bool:
    digest = hashlib.sha256()
    offset, left = line.offset, line.length
    while left > 0:
        block = os.pread(descriptor, min(left, BLOCK_BYTES), offset)
        if not block:
            return False
        digest.update(block)
        offset += len(block)
        left -= len(block)
    return digest.hexdigest() == line.sha256
