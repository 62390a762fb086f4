"""Remembers which lines are done, by their content or by their position in followed files."""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections import defaultdict
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import msgspec

from graphrag_eval_async.records import Known, Line, LongLine, Position
from graphrag_eval_async.unicode import in_utf8

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphrag_eval_async.records import FileId, Record

Dedupe = Literal["position", "content"]
"""How to recognise lines that were already evaluated."""

ResultSource = dict[str, Any]
"""The `source` of a result or reject: where its line came from."""

BUCKETS = 1 << 14
"""Number of buckets of a `ContentSet`."""

Size = Annotated[int, msgspec.Meta(ge=0, lt=1 << 62)]
"""Size of a line or a file, in bytes; a sum of two fits into 64 bits."""


class DoneLine(msgspec.Struct):
    """A line that an earlier run has evaluated or rejected.

    It is read from the `source` of its result or reject.

    Attributes:
        sha256: hexadecimal digest of the line.
        offset: bytes of the file before the line.
        length: length of the line in bytes, without the newline.
        occurrence: 1 if it is the first line with this content, 2 if it is the second, and so on;
            None if it is not known, since only a part of the file was read.
        path: path of the file.
        file: key of the file.
        whole: whether the line had its newline when it was read.
    """

    sha256: Annotated[str, msgspec.Meta(min_length=64, max_length=64)]
    offset: Size
    length: Size
    occurrence: Annotated[int, msgspec.Meta(ge=1)] | None = None
    path: str | None = None
    file: str | None = None
    whole: bool = True


class ContentSet:
    """A set of the contents of lines, which may occur several times.

    An entry is the SHA-256 digest of a line, and the number of its occurrence among lines with the
    same content, from 1. It takes 8 bytes, since only its hash is stored, which is different in
    each process. Of a million entries, two have the same hash with a probability of 10^-7. Hashes
    are stored in buckets, which are searched linearly. With a million entries, a bucket has half a
    kilobyte.
    """

    def __init__(self) -> None:
        self._buckets: defaultdict[int, bytearray] = defaultdict(bytearray)
        # How often `add_next` was called for a content, by hash of its first occurrence. Contents
        # that occur once are missing.
        self._counts: dict[int, int] = {}

    def has(self, sha256: str, number: int = 1) -> bool:
        """Return whether an occurrence of a content is in the set.

        Args:
            sha256: the hexadecimal digest of the content.
            number: the number of the occurrence.
        """
        key = _hash_of(sha256, number)
        return _as_bytes(key) in self._buckets[key % BUCKETS]

    def add(self, sha256: str, number: int = 1) -> bool:
        """Add an occurrence of a content; return False if the set had it already.

        Args:
            sha256: the hexadecimal digest of the content.
            number: the number of the occurrence.
        """
        key = _hash_of(sha256, number)
        bucket = self._buckets[key % BUCKETS]
        stored_key = _as_bytes(key)
        if stored_key in bucket:
            return False
        bucket += stored_key
        return True

    def add_next(self, sha256: str) -> int:
        """Add the next occurrence of a content, and return its number.

        It is 1 in the first call for this content, 2 in the second, and so on.
        """
        if self.add(sha256):
            return 1
        key = _hash_of(sha256, number=1)
        number = self._counts.get(key, 1) + 1
        self._counts[key] = number
        self.add(sha256, number)
        return number


def _hash_of(sha256: str, number: int) -> int:
    """Return the hash of an occurrence of a content."""
    if number == 1:
        # Hashing a string takes less time than a tuple, and most contents occur only once.
        return hash(sha256)
    return hash((sha256, number))


def _as_bytes(key: int) -> bytes:
    return key.to_bytes(8, "little", signed=True)


_LATER = 0
"""The number that stands for all occurrences after the first together, in a `ContentSet`."""


class _Stretch(NamedTuple):
    """Adjacent lines of a file that are done.

    Attributes:
        start: offset of the first line.
        end: offset after the newline of the last line.
        lines: number of lines.
    """

    start: int
    end: int
    lines: int


class _DoneInFile:
    """The lines of one followed file that earlier runs have evaluated or rejected.

    Adjacent lines are joined to stretches, so that memory grows with the number of gaps between
    them, not with the number of lines.

    Attributes:
        unfinished: offsets of lines that had no newline when they were read.
    """

    def __init__(self) -> None:
        self.unfinished: set[int] = set()
        # The same stretches, by offset of their start and of their end.
        self._by_start: dict[int, _Stretch] = {}
        self._by_end: dict[int, _Stretch] = {}
        # The starts of all stretches. The list is filled when it is needed for the first time.
        self._sorted_starts: list[int] = []
        # The line with the greatest offset.
        self._last: DoneLine | None = None

    def add(self, line: DoneLine) -> None:
        """Add a line, which must not have been added before."""
        if self._last is None or self._last.offset <= line.offset:
            self._last = line
        if not line.whole:
            self.unfinished.add(line.offset)
            return

        # Join the line with the stretches before and after it.
        start = line.offset
        end = line.offset + line.length + len(b"\n")
        lines = 1
        before = self._by_end.pop(start, None)
        if before is not None:
            start = before.start
            lines += before.lines
        after = self._by_start.pop(end, None)
        if after is not None:
            end = after.end
            lines += after.lines
        stretch = _Stretch(start=start, end=end, lines=lines)
        self._by_start[start] = stretch
        self._by_end[end] = stretch

    def read_progress(self, origin: int) -> Known:
        """Return how far the file was read without a gap, and the last line that was read.

        Args:
            origin: the offset at which reading of the file began.
        """
        resume_offset = origin
        resume_number = 1
        for start in sorted(self._by_start):
            is_after_gap = start > resume_offset
            if is_after_gap:
                break
            stretch = self._by_start[start]
            resume_offset = max(resume_offset, stretch.end)
            resume_number += stretch.lines

        last_position = None
        if self._last is not None:
            last_position = Position(
                path=self._last.path or "",
                file=self._last.file or "",
                offset=self._last.offset,
                length=self._last.length,
                sha256=self._last.sha256,
            )
        return Known(begin=resume_offset, number=resume_number, last=last_position)

    def __contains__(self, offset: int) -> bool:
        """Return whether the line at this offset is done."""
        if offset in self.unfinished:
            return True
        if len(self._sorted_starts) != len(self._by_start):
            self._sorted_starts = sorted(self._by_start)
        # The last stretch that starts at the offset or before it.
        index = bisect_right(self._sorted_starts, offset) - 1
        if index < 0:
            return False
        stretch = self._by_start[self._sorted_starts[index]]
        return offset < stretch.end


class Done:
    """The lines that this run and earlier runs of the same journal have evaluated or rejected.

    How lines are recognised depends on `dedupe`. With "content", a line is done if an equal line
    is. With "position", a line of a followed file is done if an equal line at its offset is. Other
    sources are read again from their start. There, the second of two equal lines is done only if
    the journal has two such lines. A line takes 10 bytes of memory. In the last case, it takes
    twice as much if there are earlier runs.

    Attributes:
        skipped: number of lines that `admit` skipped.
    """

    def __init__(self, dedupe: Dedupe) -> None:
        """Start without lines; `dedupe` says how to recognise lines that are done."""
        self.skipped = 0
        self._by_content = dedupe == "content"
        # The lines of earlier runs, and those that this run has read.
        self._earlier_contents = ContentSet()
        self._read_contents = ContentSet()
        # The lines of earlier runs in followed files, by key of the file.
        self._earlier_in_files: dict[str, _DoneInFile] = {}
        self._is_resumed = False

    def admit(self, record: Record) -> ResultSource | None:
        """Register a line that was read, unless it is done, and return the `source` of its result.

        The source says where the line is, so that a later run recognises it. It is None if the line
        is done: then the caller must skip it.
        """
        sha256 = sha256_of(record)
        occurrence = self._next_occurrence(record, sha256)
        if occurrence is None:
            self.skipped += 1
            return None

        file = record.file
        # If only a part of a file is read, nobody knows how many lines, and how many equal lines,
        # are before this one.
        is_numbered = file is None or not file.is_part
        source: ResultSource = {}
        if file is not None:
            source["path"] = in_utf8(file.path)
            source["file"] = file.key
        if is_numbered:
            source["line"] = record.number
        source["offset"] = record.offset
        source["length"] = record.length if isinstance(record, LongLine) else len(record.data)
        source["sha256"] = sha256
        if is_numbered:
            source["occurrence"] = occurrence
        if isinstance(record, Line | LongLine) and not record.whole:
            source["whole"] = False
        return source

    def _next_occurrence(self, record: Record, sha256: str) -> int | None:
        """Register a line that was read, and return its number among the lines with its content.

        Args:
            record: the line.
            sha256: the hexadecimal digest of the line.

        Returns:
            None if the line is done.
        """
        file = record.file
        is_followed = file is not None and file.followed
        if file is not None and is_followed and self._is_done_in(file, record, sha256):
            return None
        if self._by_content:
            is_done_earlier = self._is_resumed and self._earlier_contents.has(sha256)
            if is_done_earlier:
                return None
            is_first = self._read_contents.add(sha256)
            return 1 if is_first else None

        number = self._read_contents.add_next(sha256)
        while self._is_resumed and self._earlier_contents.has(sha256, number):
            if not is_followed:
                return None
            # In a followed file, a line is done only at its own position. This line is at another
            # one, so it gets the next number that no earlier line has.
            number = self._read_contents.add_next(sha256)
        return number

    def _is_done_in(self, file: FileId, record: Record, sha256: str) -> bool:
        """Return whether an earlier run has done a line at its position in a followed file.

        Args:
            file: the file.
            record: the line.
            sha256: the hexadecimal digest of the line.
        """
        done_lines = self._earlier_in_files.get(file.key)
        if done_lines is None or record.offset not in done_lines:
            return False
        if record.offset in done_lines.unfinished and isinstance(record, Line):
            # The earlier run may have read the line before its writer added CRLF.
            sha256 = hashlib.sha256(record.data.rstrip()).hexdigest()
        # The file may have been rewritten, with another line at this offset.
        return self._earlier_contents.has(sha256) or self._earlier_contents.has(sha256, _LATER)

    def knows(self, identity: bytes) -> bool:
        """Return whether `admit` would skip the next trace with this identity.

        Args:
            identity: the text by which traces are recognised, such as their id.
        """
        sha256 = hashlib.sha256(identity).hexdigest()
        is_read = self._read_contents.has(sha256)
        is_earlier = self._earlier_contents.has(sha256)
        if self._by_content:
            return is_read or is_earlier
        return is_earlier and not is_read

    def __contains__(self, line: DoneLine) -> bool:
        """Return whether this line of an earlier run was restored before.

        It is False if the number of its occurrence is not known.
        """
        if line.occurrence is None:
            return False
        return self._earlier_contents.has(line.sha256, line.occurrence)

    def restore(self, line: DoneLine) -> None:
        """Add a line of an earlier run, which must not have been restored before."""
        self._is_resumed = True
        if line.occurrence is None:
            self._earlier_contents.add_next(line.sha256)
        else:
            self._earlier_contents.add(line.sha256, line.occurrence)
            if line.occurrence > 1:
                # This tells that the content is done even if its first occurrence is not.
                self._earlier_contents.add(line.sha256, _LATER)
        if line.file is not None:
            self._earlier_in_files.setdefault(line.file, _DoneInFile()).add(line)

    def files(self, origins: Mapping[str, int]) -> dict[str, Known]:
        """Return how far earlier runs have read each followed file, by key of the file.

        Args:
            origins: the offset at which reading of a file began, by key of the file. For a file
                that is missing here, it is 0.
        """
        progress_by_key = {}
        for key in [*origins, *self._earlier_in_files]:
            done_lines = self._earlier_in_files.get(key, _DoneInFile())
            origin = origins.get(key, 0)
            progress_by_key[key] = done_lines.read_progress(origin)
        return progress_by_key


def sha256_of(record: Record) -> str:
    """Return the hexadecimal SHA-256 digest of a line.

    The digest of a trace is that of its identity, such as its id, since its text may be written in
    another way each time.
    """
    if isinstance(record, LongLine):
        return record.sha256
    return hashlib.sha256(getattr(record, "identity", record.data)).hexdigest()
