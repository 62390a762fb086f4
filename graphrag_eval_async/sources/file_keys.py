"""Keys of followed files, and where earlier runs have stopped reading them."""

from __future__ import annotations

import hashlib
import os
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, NamedTuple

from graphrag_eval_async.records import Known
from graphrag_eval_async.sources.lines import LOGGER

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphrag_eval_async.records import Position

BLOCK_BYTES = 1 << 16
"""Bytes read at a time, and bytes at the beginning of a copy by which it is recognised later."""


class Start(NamedTuple):
    """Where to begin reading the file with a key."""

    key: str
    offset: int = 0
    number: int = 1  # Number of the line at the offset.
    is_skipped: bool = False  # Whether the lines before the offset have not been read.


class FileKeys:
    """Recognises files that earlier runs have read, and assigns keys to new files.

    A file is its inode and the last line that was read, if that is still at its place. A key is the number of
    the inode (the `root`) and how many files had it before. A file with another inode but that last line is a
    copy or a replacement, and resumes under the key of the original.

    Attributes:
        claimed: keys of the files that were recognised.
    """

    def __init__(
        self, known: Mapping[str, Known], copies: Mapping[str, str], start: Position | None = None
    ) -> None:
        """If `start` is given, reading begins after that line."""
        self.claimed: set[str] = set()
        self._copies = dict(copies)
        self._origins: dict[str, int] = {}
        self._is_saved = True
        self._earlier = self._known = known
        if start is not None:
            self._known = {start.file: Known(start.offset + start.length + 1, 1, start), **known}
        self._next: Counter[str] = Counter()
        self._own: defaultdict[str, list[tuple[int, str]]] = defaultdict(list)  # Known keys by root.
        for key in {*self._known, *(copy.partition("@")[0] for copy in copies.values())}:
            root, _, generation = key.rpartition("-")
            if root and generation.isdecimal():
                self._next[root] = max(self._next[root], int(generation) + 1)
                if key in self._known:
                    self._own[root].append((int(generation), key))

    def is_known(self, root: str) -> bool:
        """Whether an earlier run has found a file with this root that is not a copy."""
        return root in self._own and root not in self._copies

    def original(self, root: str) -> str | None:
        """The key of the original of a copy."""
        return self._copies[root].partition("@")[0] if root in self._copies else None

    def new(self, root: str) -> str:
        """A key that was never used."""
        self._next[root] += 1
        return f"{root}-{self._next[root] - 1}"

    def find(self, root: str, descriptor: int) -> Start | None:
        """Where to resume a file that an earlier run has read, under this inode or as a copy."""
        if (original := self.original(root)) and (start := self._claim(original, descriptor)):
            return start
        own = [key for _, key in sorted(self._own.get(root, ()), reverse=True)]
        for key in own:
            # A former file without a line to recognise it by has nothing left to read.
            is_latest = key == own[0]
            if (is_latest or self._known[key].last) and (start := self._claim(key, descriptor)):
                return start
        return None

    def find_content(self, root: str, descriptor: int, path: str) -> Start | None:
        """Where to resume a copy of a file that an earlier run has read, or its replacement."""

        def likeness(key: str) -> tuple[bool, bool, int]:
            _, _, last = self._known[key]
            former = "" if last is None else last.path
            return former == path, os.path.basename(former) == os.path.basename(path), _end(self._known[key])

        size = os.fstat(descriptor).st_size
        keys = self._known.keys() - self.claimed
        for key in sorted((key for key in keys if 0 < _end(self._known[key]) <= size), key=likeness)[::-1]:
            if start := self._claim(key, descriptor):
                LOGGER.warning("%s: skipped %d bytes that an earlier run has read", path, start.offset)
                self.note_copy(root, key)
                return start
        return None

    def is_packed_read(self, root: str, size: int) -> bool:
        """Whether earlier runs have read or skipped a compressed file whose text has this size, mod 4 GiB."""
        key = self.original(root)
        return key is not None and key in self._known and self._known[key].begin % (1 << 32) == size

    def copied(self, root: str, descriptor: int) -> int:
        """Bytes of a copy that earlier runs have read in its original, which is gone."""
        key, _, proof = self._copies.get(root, "").partition("@")
        if not proof or key in self.claimed or key not in self._known:
            return 0
        size = int(proof.partition("@")[0], 16)
        return size if size <= self._known[key].begin and _proof(descriptor, size) == proof else 0

    def _claim(self, key: str, descriptor: int) -> Start | None:
        """Where to resume under a key; None if the file is not the one that was read."""
        if key in self.claimed or key not in self._known:
            return None
        begin, number, last = self._known[key]
        if last is not None and not _has_line(descriptor, last):
            return None
        size = os.fstat(descriptor).st_size
        if begin <= size and (not begin or os.pread(descriptor, 1, begin - 1) == b"\n"):
            start = Start(key, begin, number, is_skipped=last is None)
        elif last is not None and size == begin - 1 == _end(self._known[key]):  # Its newline is missing.
            start = Start(key, last.offset, max(1, number - 1))
        else:
            return None
        self.claimed.add(key)
        return start

    def note_start(self, start: Start) -> None:
        """Record where reading of a file begins."""
        if (start.offset or start.is_skipped) and start.key not in self._earlier:
            self._origins[start.key] = start.offset
            self._is_saved = False

    def note_copy(self, root: str, original: str) -> None:
        """Record that a file resumes under the key of another."""
        self._set_copy(root, original)

    def note_repeated(self, root: str, original: str, descriptor: int, size: int) -> None:
        """Record that the first `size` bytes of a file, which are whole lines, repeat those of another."""
        self._set_copy(root, f"{original}@{_proof(descriptor, size)}")

    def forget_copy(self, root: str) -> None:
        """Record that a file is not a copy after all."""
        self._set_copy(root, None)

    def _set_copy(self, root: str, copy: str | None) -> None:
        if self._copies.get(root) == copy:
            return
        self._is_saved = False
        if copy is None:
            del self._copies[root]
        else:
            self._copies[root] = copy

    def changes(self) -> tuple[Mapping[str, int], Mapping[str, str]] | None:
        """What later runs need, if it has changed since the last call: see `Follower.begin`."""
        if self._is_saved:
            return None
        self._is_saved = True
        return dict(self._origins), dict(self._copies)


def _end(known: Known) -> int:
    return 0 if known.last is None else known.last.offset + known.last.length


def _proof(descriptor: int, size: int) -> str:
    """A number of bytes, and a digest of the first of them, by which a copy is recognised later."""
    digest = hashlib.blake2b(os.pread(descriptor, min(size, BLOCK_BYTES), 0), digest_size=16).hexdigest()
    return f"{size:x}@{digest}"


def _has_line(descriptor: int, line: Position) -> bool:
    digest = hashlib.sha256()
    offset, end = line.offset, line.offset + line.length
    while offset < end and (block := os.pread(descriptor, min(end - offset, BLOCK_BYTES), offset)):
        digest.update(block)
        offset += len(block)
    return offset == end and digest.hexdigest() == line.sha256
