"""What the identity of a file is: how a followed file is recognised in a later run.

A file is its inode and the last line that was read of it, if that line is still at its place. The
number of the inode alone is no sign: another file may get it. Results name a file by a key, which
is the number of the inode (the `root`) and a second number. That grows when the file is truncated
or another one gets the inode, so the key with the greatest number is the latest one of an inode.

Another file with that line at that place is the same log under another inode: a replacement, or a
copy that was made before the log was truncated. It resumes under the key of the log.

A copy may lack that line, if more was written before the truncation. So each copy is noted in the
journal when it is seen: the key of its original, its length and a digest of its beginning. That is
enough, since a look takes the sizes of logs before it lists the copies: whatever was read of a log
that a copy lacks, the copy was there before.

What a file has since a look saw that it was truncated gets a key of its own, which is noted.
Otherwise, a later run would take an equal line for the one that the file had before.
"""

from __future__ import annotations

import hashlib
import os
from collections import defaultdict
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from graphrag_eval_async.records import Copy, Known
from graphrag_eval_async.sources.follow.names import GZIP, former_names
from graphrag_eval_async.sources.lines import LOGGER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from graphrag_eval_async.records import Position

BLOCK_BYTES = 1 << 16
"""Bytes read at a time to compare files, and bytes of a copy by which it is recognised."""

GZIP_MODULUS = 1 << 32
"""A gzip file ends with the size of its text, modulo this."""


class Start(NamedTuple):
    """Where to begin reading the file with a key.

    Attributes:
        key: the `FileId.key`.
        offset: bytes before the first line to read.
        number: the number of that line.
        is_skipped: whether the lines before the offset have not been read.
    """

    key: str
    offset: int = 0
    number: int = 1
    is_skipped: bool = False


class Changes(NamedTuple):
    """What later runs need to know besides the results.

    Attributes:
        origins: where reading of files began, by key, if not at their starts; 0 for what a file
            has since it was truncated.
        copies: files that repeat another, by root.
    """

    origins: dict[str, int]
    copies: dict[str, Copy]


class Identities:
    """Recognises files that earlier runs have read, and assigns keys to new files.

    Attributes:
        saved: what the last call of `changes` has returned, at first what earlier runs have noted.
    """

    def __init__(
        self,
        known: Mapping[str, Known],
        copies: Mapping[str, Copy | str],
        start: Position | None = None,
    ) -> None:
        """Take over what earlier runs have noted.

        Args:
            known: how far files were read, by key.
            copies: the files that repeat another, by root; older journals only have the key of that
                one.
            start: the line after which reading begins; whatever else was read does not count then.
        """
        # Where reading began in these files is in the journal, and does not change.
        self._keys_in_journal = frozenset(known)
        self._progress = known
        if start is not None:
            end_of_line = start.offset + start.length + 1
            self._progress = {start.file: Known(end_of_line, 1, start)}
        self._copies = {
            root: Copy(copy) if isinstance(copy, str) else copy for root, copy in copies.items()
        }
        self._origins: dict[str, int] = {}
        self.saved = Changes({}, self._copies.copy())

        # The number of the next new key by root. It is greater than all that are in use, even if a
        # lower one is free: the next run takes the key with the greatest number for the latest.
        self._next_numbers: defaultdict[str, int] = defaultdict(int)
        for key in (*self._progress, *(copy.original for copy in self._copies.values())):
            root = _root_of_key(key)
            self._next_numbers[root] = max(self._next_numbers[root], _number_of_key(key) + 1)
        # Under these keys, files are read in this run.
        self._resumed_keys: set[str] = set()
        # The keys of earlier runs by root, the latest first.
        self._keys_by_root: defaultdict[str, list[str]] = defaultdict(list)
        for key in sorted(self._progress, key=_number_of_key, reverse=True):
            self._keys_by_root[_root_of_key(key)].append(key)

    # What is recognised

    def is_known(self, root: str) -> bool:
        """Check whether an earlier run has found a file with this root that is not a copy."""
        return root in self._keys_by_root and root not in self._copies

    def resume(
        self, root: str, descriptor: int, path: str, is_there: Callable[[str, Position], bool]
    ) -> Start | None:
        """Return where to resume a file with the last line that an earlier run has read of a file.

        It is that file, or a copy or a replacement of it, which is noted.

        Args:
            root: that of the file.
            descriptor: the open file.
            path: its path.
            is_there: checks whether the file with a root is there, and has a line. Then no other
                file is a copy of it or its replacement, even with an equal line.
        """
        for key in self._keys_of(root):
            start = self._resume_under(key, descriptor)
            if start is not None:
                return start

        for key in self._keys_of_others(root, descriptor, path, is_there):
            start = self._resume_under(key, descriptor)
            if start is not None:
                self._copies[root] = Copy(key)
                if not former_names(path):
                    LOGGER.warning(
                        "%s: skipped %d bytes that an earlier run has read", path, start.offset
                    )
                return start
        return None

    def _keys_of(self, root: str) -> Iterator[str]:
        """Yield the keys of earlier runs that a file with this root may have, the likeliest
        first.
        """
        copy = self._copies.get(root)
        if copy is not None and copy.original in self._progress:
            progress = self._progress[copy.original]
            # Without a line that was read, nothing shows that the file is still the one that was
            # noted. A copy may be a part of its original; another file may have got the inode.
            # Only the replacement of a log of which lines were skipped must not be read as new.
            is_rest_of_skipped = copy.length == 0 and progress.begin > 0
            if progress.last is not None or is_rest_of_skipped:
                yield copy.original

        if self._has_nothing_read(root):
            # The file was truncated and nothing has been read since. Its older keys belong to the
            # content from before the truncation.
            return
        for place, key in enumerate(self._keys_by_root.get(root, [])):
            # A former file without a line to recognise it by has nothing left to read.
            is_latest = place == 0
            if is_latest or self._progress[key].last is not None:
                yield key

    def _has_nothing_read(self, root: str) -> bool:
        """Check whether an earlier run has found a file, and has read or skipped nothing of it."""
        keys = self._keys_by_root.get(root)
        if not keys:
            return False
        latest = self._progress[keys[0]]
        return latest.last is None and latest.begin == 0

    def _keys_of_others(
        self, root: str, descriptor: int, path: str, is_there: Callable[[str, Position], bool]
    ) -> Iterator[str]:
        """Yield the keys of other files whose last line a file has: those of its path first, then
        those of which most was read.

        See `resume` for the arguments.
        """
        size = os.fstat(descriptor).st_size
        own_keys = self._keys_by_root.get(root, [])
        last_lines = []
        for key, progress in self._progress.items():
            line = progress.last
            if line is None or line.offset + line.length > size:
                continue
            if key not in self._resumed_keys and key not in own_keys:
                last_lines.append((line.path == path, line.offset, key, line))

        last_lines.sort(key=itemgetter(0, 1, 2), reverse=True)
        for _, _, key, line in last_lines:
            if not has_line(descriptor, line):
                continue
            roots = [other_root for other_root in self._roots_of(key) if other_root != root]
            if not any(is_there(other_root, line) for other_root in roots):
                yield key

    def _roots_of(self, key: str) -> list[str]:
        """Return the roots of the files that were read under a key: the first one, and those in
        which it went on.
        """
        heirs = [
            root for root, copy in self._copies.items() if copy.original == key and copy.length == 0
        ]
        return [_root_of_key(key), *heirs]

    def _resume_under(self, key: str, descriptor: int) -> Start | None:
        """Return where to resume a file under a key; None if another file has the key in this run,
        or if the file lacks the last line that was read.
        """
        if key in self._resumed_keys:
            return None
        begin, number, last = self._progress[key]
        if last is not None and not has_line(descriptor, last):
            return None

        size = os.fstat(descriptor).st_size
        is_newline_missing = last is not None and size == begin - 1 == last.offset + last.length
        if _is_start_of_line(descriptor, begin, size):
            start = Start(key, begin, number, is_skipped=last is None)
        elif last is not None and is_newline_missing:
            start = Start(key, last.offset, max(1, number - 1))
        else:
            return None
        self._resumed_keys.add(key)
        return start

    def noted_copy(self, root: str, descriptor: int) -> Copy | None:
        """Return what was noted of a file that is a copy, if it still begins as it did then."""
        copy = self._copies.get(root)
        if copy is not None and _begins_like(descriptor, copy):
            return copy
        return None

    def moved_copy(self, root: str, descriptor: int) -> Copy | None:
        """Return what was noted of a copy that has another inode now, and note it of this file.

        It was compressed, or moved to another file system. A beginning is little evidence then, so
        the length must be the same, too.
        """
        size = os.fstat(descriptor).st_size
        for copy in self._copies.values():
            if copy.length == size and _begins_like(descriptor, copy):
                self._copies[root] = copy
                return copy
        return None

    def resume_original(self, key: str, size: int) -> Start | None:
        """Return where to resume in a noted copy; None if there is nothing left to read in it.

        Args:
            key: that of its original.
            size: the size of the copy.
        """
        begin, number, _ = self._progress.get(key, Known(0, 1, None))
        if key in self._resumed_keys or begin >= size:
            return None
        self._resumed_keys.add(key)
        return Start(key, begin, number)

    def is_packed_read(self, root: str, size: int) -> bool:
        """Check whether earlier runs have read or skipped a compressed file.

        Args:
            root: that of the compressed file.
            size: the size of its text, modulo `GZIP_MODULUS`.
        """
        copy = self._copies.get(root)
        if copy is None:
            progress = self._progress.get(f"{root}-0")
            return progress is not None and progress.begin % GZIP_MODULUS == size

        progress = self._progress.get(copy.original)
        if progress is None:
            return False
        if size == progress.begin % GZIP_MODULUS:
            return True
        is_read_part = 0 < copy.length <= progress.begin
        return is_read_part and size == copy.length % GZIP_MODULUS

    # What is noted

    def key_from_start(self, root: str, descriptor: int) -> str:
        """Return the key of a file that is read from its start: a new one, unless an earlier run
        has found the file and read nothing of it.
        """
        if self._has_nothing_read(root):
            key = self._keys_by_root[root][0]
            copies = [copy for copy in self._copies.values() if copy.original == key]
            # What was copied of the file must still be there, or it was truncated since.
            is_same = all(_begins_like(descriptor, copy) for copy in copies)
            if is_same and key not in self._resumed_keys:
                self._resumed_keys.add(key)
                return key
        return self.new_key(root)

    def new_key(self, root: str) -> str:
        """Return a key that was never used; the file is no copy of another."""
        copy = self._copies.pop(root, None)
        number = self._next_numbers[root]
        self._next_numbers[root] = number + 1
        key = f"{root}-{number}"
        self._resumed_keys.add(key)

        was_other = number > 0 or copy is not None
        if was_other:
            # The file had other lines before it was truncated. Its next line may equal one of
            # these: only this note tells a later run that the line is new.
            self._origins[key] = 0
        return key

    def note_start(self, start: Start) -> None:
        """Note where reading of a file begins, if not at its start."""
        is_at_start = start.offset == 0 and not start.is_skipped
        if not is_at_start and start.key not in self._keys_in_journal:
            self._origins[start.key] = start.offset

    def note_copy(self, root: str, original: str, descriptor: int, length: int) -> None:
        """Note that the first `length` bytes of a file repeat those of the one with the key
        `original`.
        """
        self._copies[root] = Copy(original, length, _digest_of_start(descriptor, length))
        if original not in self._keys_in_journal:
            # Later runs must know the key, though the journal may lack lines of the original.
            self._origins.setdefault(original, 0)

    def note_heir(self, root: str, original: str) -> None:
        """Note that a file is read on under the key of another one, which it has replaced."""
        if root not in self._copies or self._copies[root].original != original:
            self._copies[root] = Copy(original)

    def changes(self) -> Changes | None:
        """Return what later runs need, if it has changed since the last call."""
        if (self._origins, self._copies) == self.saved:
            return None
        self.saved = Changes(self._origins.copy(), self._copies.copy())
        return self.saved


def _root_of_key(key: str) -> str:
    """Return the part of a key that files share which had the same inode: all but the number."""
    return key.rpartition("-")[0]


def _number_of_key(key: str) -> int:
    """Return the number of a key; 0 of any other text, which callers may pass as a key."""
    number = key.rpartition("-")[2]
    if not number.isdecimal():
        return 0
    return int(number)


def root_of(status: os.stat_result, path: str = "") -> str:
    """Return the beginning of the keys of a file.

    The device number is no part of it, since it may change at boot.
    """
    if path.endswith(GZIP):
        # A compressed file does not grow, so its size tells it from another one with its inode.
        return f"{status.st_ino:x}.{status.st_size:x}"
    return f"{status.st_ino:x}"


def line_start(descriptor: int, size: int) -> int:
    """Return the offset of the last line in the first `size` bytes of a file."""
    end = size
    while end > 0:
        begin = max(0, end - BLOCK_BYTES)
        block = os.pread(descriptor, end - begin, begin)
        newline = block.rfind(b"\n")
        if newline >= 0:
            return begin + newline + 1
        end = begin
    return 0


def is_repeated(descriptor: int, other_descriptor: int, size: int) -> bool:
    """Check whether the other file begins with the first `size` bytes of a file."""
    if os.fstat(other_descriptor).st_size < size:
        return False
    offset = 0
    while offset < size:
        length = min(BLOCK_BYTES, size - offset)
        block = os.pread(descriptor, length, offset)
        # A file that was truncated meanwhile has no more bytes.
        if not block or os.pread(other_descriptor, len(block), offset) != block:
            return False
        offset += len(block)
    return True


def _is_start_of_line(descriptor: int, offset: int, size: int) -> bool:
    """Check whether a line of a file begins, or may begin, at an offset."""
    if offset > size:
        return False
    if offset == 0:
        return True
    return os.pread(descriptor, 1, offset - 1) == b"\n"


def has_line(descriptor: int, line: Position) -> bool:
    """Check whether a file has a line at its place."""
    digest = hashlib.sha256()
    offset = line.offset
    end = line.offset + line.length
    while offset < end:
        block = os.pread(descriptor, min(end - offset, BLOCK_BYTES), offset)
        if not block:
            return False
        digest.update(block)
        offset += len(block)
    return digest.hexdigest() == line.sha256


def _begins_like(descriptor: int, copy: Copy) -> bool:
    """Check whether a file still begins as a copy did when it was noted."""
    if copy.length == 0 or os.fstat(descriptor).st_size < copy.length:
        return False
    return _digest_of_start(descriptor, copy.length) == copy.sha256


def _digest_of_start(descriptor: int, length: int) -> str:
    """Return the digest of the first `length` bytes of a file, at most `BLOCK_BYTES`."""
    start = os.pread(descriptor, min(length, BLOCK_BYTES), 0)
    return hashlib.sha256(start).hexdigest()
