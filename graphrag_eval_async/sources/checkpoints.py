"""Checkpoints: what is known of followed files between runs, and which files are copies of others."""

from __future__ import annotations

import hashlib
import os
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from graphrag_eval_async.records import Known
from graphrag_eval_async.sources.identity import generation_key, has, line_start, repeated, split_key
from graphrag_eval_async.sources.lines import LOGGER
from graphrag_eval_async.sources.tail import CLOSED

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from graphrag_eval_async.records import Position
    from graphrag_eval_async.sources.identity import Opened
    from graphrag_eval_async.sources.tail import Tail

HASHED_BYTES = 1 << 20
"""Bytes read at a time."""


class Start(NamedTuple):
    """Where to begin reading the file with a key."""

    key: str
    offset: int
    number: int  # Number of the line at the offset.
    passed_over: bool  # Whether no line before the offset has been read.


class FollowState(NamedTuple):
    """State of files that later runs need, besides the lines that were read."""

    origins: Mapping[str, int]  # Start of reading by key, if not the start of the file.
    copies: Mapping[str, str]  # Key of the original by root of the copy, for all known copies.


class Checkpoints:
    """Recognises files that earlier runs have read, and assigns keys to new files.

    Attributes:
        found: keys of the files that were recognised.
        copies: copies of this run and earlier ones, as in `FollowState`.
        present: roots of the files that existed when this run began; these files claim their keys themselves.
    """

    def __init__(
        self, known: Mapping[str, Known], copies: Mapping[str, str], start: Position | None = None
    ) -> None:
        """If `start` is given, reading begins after that line."""
        self.found: set[str] = set()
        self.copies = dict(copies)
        self.present: set[str] = set()
        self._origins: dict[str, int] = {}
        self._is_kept = True
        self._earlier = self._known = known
        if start is not None:
            self._known = {start.file: Known(start.offset + start.length + 1, 1, start), **known}
        self._met: set[str] = set()
        self._generations: dict[str, list[int]] = {}
        self._next: dict[str, int] = {}
        for key in (*self._known, *copies.values()):
            if parts := split_key(key):
                root, generation = parts
                self._next[root] = max(self._next.get(root, 0), generation + 1)
                if key in self._known:
                    self._generations.setdefault(root, []).append(generation)

    def knows(self, root: str) -> bool:
        """Whether an earlier run has found a file with this root that is not a copy."""
        return root in self._generations and root not in self.copies

    def find(self, root: str, descriptor: int) -> Start | None:
        """Where to resume a file; None if nothing in it is known."""
        original = self.copies.get(root)
        # A skipped copy must be read if nothing of the original has been read.
        is_lost = original is not None and original not in self._known
        if original is not None and not is_lost and (start := self._start(original, descriptor)):
            return start
        generations = sorted(self._generations.get(root, ()), reverse=True)
        keys = [generation_key(root, generation) for generation in generations]
        self._met.update(keys)
        for key in keys:
            # An older generation without a line to recognise it by has nothing left to read.
            can_be = (key == keys[0] and not is_lost) or self._known[key].last is not None
            if can_be and (start := self._start(key, descriptor)):
                return start
        return None

    def find_content(self, descriptor: int, name: str, bases: Collection[str]) -> Start | None:
        """Where to resume a copy of a file that was read, in any directory, or its replacement."""
        size = os.fstat(descriptor).st_size
        for key in sorted(self._known.keys() - self.found, key=partial(self._likeness, name), reverse=True):
            last = self._known[key].last
            if last is None or last.offset + last.length > size:
                continue
            was_truncated = bool(bases) and (key in self._met or last.path in bases)
            parts = split_key(key)
            is_absent = parts is not None and parts[0] not in self.present
            if (was_truncated or is_absent) and (start := self._start(key, descriptor)):
                return start
        return None

    def _likeness(self, name: str, key: str) -> tuple[bool, bool, int]:
        last = self._known[key].last
        if last is None:
            return False, False, 0
        return last.path == name, os.path.basename(last.path) == os.path.basename(name), last.offset

    def _start(self, key: str, descriptor: int) -> Start | None:
        known = self._known[key]
        offset = resume_at(descriptor, known) if key not in self.found else None
        if offset is None:
            return None
        self.found.add(key)
        number = known.number if offset == known.begin else max(1, known.number - 1)
        return Start(key, offset, number, known.last is None)

    def skip(self, root: str) -> None:
        """Record that a compressed file is skipped."""
        start = Start(self.new_key(root), 0, 1, passed_over=True)
        self.note_copy(root, start.key)
        self.note_start(start)

    def is_read(self, root: str, size: int) -> bool:
        """Whether an earlier run has read or skipped all of a compressed file whose text has this size."""
        own = self.copies.get(root)
        if own is None or own not in self._known:
            return False
        self.found.add(own)
        return self._known[own].last is None or self._known[own].begin % (1 << 32) == size

    def last_lines(self, root: str) -> list[Position]:
        """The last lines that earlier runs have read of files that a compressed one may contain."""
        own = self.copies.get(root, "")
        known = [self._known[own]] if own in self._known else self._known.values()
        return [last for _, _, last in known if last is not None]

    def resume(self, found: Mapping[str, bool], root: str, name: str) -> Start | None:
        """Where to resume a compressed file with these lines: by key, whether the line has a newline."""
        keys = [key for key in found if key not in self.found or key == self.copies.get(root)]
        if not keys:
            return None
        key = max(keys, key=partial(self._likeness, name))
        begin, number, last = self._known[key]
        self.found.add(key)
        if found[key] or last is None or begin <= last.offset:
            return Start(key, begin, number, passed_over=False)
        return Start(key, last.offset, max(1, number - 1), passed_over=False)

    def new_key(self, root: str) -> str:
        """A key that was never used."""
        generation = self._next.get(root, 0)
        self._next[root] = generation + 1
        return generation_key(root, generation)

    def note_start(self, start: Start) -> None:
        """Record where reading of a file began."""
        if (start.offset or start.passed_over) and start.key not in self._earlier:
            self._origins[start.key] = start.offset
            self._is_kept = False

    def note_copy(self, root: str, original: str) -> None:
        """Record that files with this root are copies of the file with this key."""
        self.copies[root] = original
        self._is_kept = False

    def forget_copy(self, root: str, key: str, begin: int = 0) -> None:
        """Record that the file with this key is not a copy after all, and is read from an offset."""
        self.copies.pop(root, None)
        self._origins[key] = begin
        self._is_kept = False

    def changes(self) -> FollowState | None:
        """State that later runs need, if it has changed since the last call."""
        if self._is_kept:
            return None
        self._is_kept = True
        return FollowState(dict(self._origins), dict(self.copies))


def resume_at(descriptor: int, known: Known) -> int | None:
    """The offset of the next line to read; None if the file is not the one that was read.

    A last line that had no newline when it was read is read again.
    """
    begin, last = known.begin, known.last
    if last is not None and not _has_line(descriptor, last):
        return None
    if begin <= os.fstat(descriptor).st_size and (begin == 0 or has(descriptor, b"\n", begin)):
        return begin
    if last is not None and begin == last.offset + last.length + 1:
        return last.offset
    return None


def _has_line(descriptor: int, line: Position) -> bool:
    digest = hashlib.sha256()
    offset, end = line.offset, line.offset + line.length
    while offset < end and (block := os.pread(descriptor, min(end - offset, HASHED_BYTES), offset)):
        digest.update(block)
        offset += len(block)
    return offset == end and digest.hexdigest() == line.sha256


def find_original(tails: Iterable[Tail], opened: Opened, bases: Collection[str]) -> Tail | None:
    """The original of a copy: a file with one of these names that was created earlier."""
    descriptor, identity = opened
    for tail in tails:
        if tail.name not in bases or tail.identity.born > identity.born:
            continue
        if repeated(descriptor, tail.descriptor) is not None or (
            not tail.is_intact() and has(descriptor, tail.trace, tail.trace_end)  # It was just truncated.
        ):
            return tail.original or tail
    return None


def still_copy(
    tails: Iterable[Tail], opened: Opened, start: Start, checkpoints: Checkpoints
) -> tuple[Start, Tail | None]:
    """Where to read a file that an earlier run took for a copy, and its original if it is still a copy."""
    descriptor, identity = opened
    original = next((tail for tail in tails if tail.file.key == checkpoints.copies[identity.root]), None)
    if original is None or repeated(descriptor, original.descriptor) is not None:
        return start, original
    checkpoints.forget_copy(identity.root, start.key)
    return Start(start.key, 0, 1, passed_over=False), None


def is_replaced(tail: Tail, opened: Opened) -> bool:
    """Whether a file was deleted and another file, which now has its name, contains all of it."""
    if tail.descriptor == CLOSED or tail.original is not None:
        return False
    status = os.fstat(tail.descriptor)
    if status.st_nlink or not status.st_size or not tail.is_intact():
        return False
    return repeated(tail.descriptor, opened[0]) is not None


def pass_over(tail: Tail, original: Tail, checkpoints: Checkpoints) -> None:
    """Skip a copy until it differs from its original."""
    checkpoints.note_copy(tail.identity.root, original.file.key)
    tail.original, tail.offset = original, 0
    compare(tail, checkpoints)
    if tail.offset and tail.original is not None:
        LOGGER.warning(
            "%s: so far repeats %s; its first %d bytes are not evaluated again, unless it becomes different",
            *(tail.name, original.name, tail.offset),
        )


def compare(tail: Tail, checkpoints: Checkpoints) -> None:
    """Read a copy that has grown, unless it is still equal to its original."""
    original = tail.original
    assert original is not None  # noqa: S101
    if original.descriptor == CLOSED:  # The added data cannot have been read yet.
        tail.original, tail.offset = None, line_start(tail.descriptor, tail.offset)
    elif (size := repeated(tail.descriptor, original.descriptor, tail.offset)) is not None:
        tail.offset = size
    elif original.is_intact():
        LOGGER.warning("%s: no longer repeats %s; read from byte %d", tail.name, original.name, tail.begin)
        checkpoints.forget_copy(tail.identity.root, tail.file.key, tail.begin)
        tail.original, tail.offset, tail.origin = None, tail.begin, tail.begin or -1
        tail.finished = False
    else:
        tail.suspect()  # It was truncated just now.
