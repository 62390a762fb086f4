"""What earlier runs have read of which files, and the keys that files have."""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING, NamedTuple

from graphrag_eval_async.sources.identity import generation_key, split_key
from graphrag_eval_async.sources.tail import has

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphrag_eval_async.records import Known, Position

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


class Recall:
    """Recognises files by what an earlier run knows of them, and gives keys to those it does not know."""

    def __init__(self, known: Mapping[str, Known]) -> None:
        self._known = known
        self._generations: dict[str, list[int]] = {}
        self._met: dict[str, None] = {}
        for key in known:
            if parts := split_key(key):
                self._generations.setdefault(parts[0], []).append(parts[1])
        self._next = {root: max(generations) + 1 for root, generations in self._generations.items()}
        self.found: set[str] = set()

    def knows(self, root: str) -> bool:
        """Whether there may be something of a file, by the root of its key."""
        return root in self._generations

    def find(self, root: str, descriptor: int) -> Start | None:
        """Where to go on with a file; None if none of what is known still stands in it."""
        generations = sorted(self._generations.get(root, ()), reverse=True)
        keys = [generation_key(root, generation) for generation in generations]
        self._met.update(dict.fromkeys(keys))
        for key in keys:
            # Of an older generation, where there is no line to tell it by, nothing can be left.
            if key == keys[0] or self._known[key].last is not None:
                start = self._start(key, descriptor)
                if start is not None:
                    return start
        return None

    def find_copy(self, descriptor: int) -> Start | None:
        """The same for a copy of a file that was met, made before that was truncated."""
        for key in self._met:
            if self._known[key].last is not None and (start := self._start(key, descriptor)):
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
