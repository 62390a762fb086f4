"""Which lines are done: by their content, and by their place in followed files."""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections import defaultdict
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import msgspec

from graphrag_eval_async.errors import in_utf8
from graphrag_eval_async.records import Known, Line, LongLine, Position

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
    """

    sha256: Annotated[str, msgspec.Meta(min_length=64, max_length=64)]
    offset: Size
    length: Size
    # Which line with this content it is; None if only a part of the file was read.
    occurrence: Annotated[int, msgspec.Meta(ge=1)] | None = None
    path: str | None = None
    file: str | None = None  # Key of the file.
    whole: bool = True  # Whether it had its newline.


class ContentSet:
    """A set of occurrences of contents: SHA-256 digests in hex, with numbers from 1.

    Each takes 8 bytes, the process's own keyed hash of it: of a million, two are equal with a
    probability of 10^-7. Buckets of hashes are searched linearly; with a million lines, each has
    half a kilobyte.
    """

    def __init__(self) -> None:
        self._buckets: defaultdict[int, bytearray] = defaultdict(bytearray)
        # How often `add_next` has added a content, by its hash, if more than once.
        self._counts: dict[int, int] = {}

    def has(self, sha256: str, number: int = 1) -> bool:
        """Return whether an occurrence of a content is in the set."""
        key = _hash_of(sha256, number)
        return _as_bytes(key) in self._buckets[key % BUCKETS]

    def add(self, sha256: str, number: int = 1) -> bool:
        """Add an occurrence of a content; return whether it was missing."""
        key = _hash_of(sha256, number)
        bucket = self._buckets[key % BUCKETS]
        stored = _as_bytes(key)
        if stored in bucket:
            return False
        bucket += stored
        return True

    def add_next(self, sha256: str) -> int:
        """Add the occurrence after the one that the last call added; return its number."""
        if self.add(sha256):
            return 1
        key = _hash_of(sha256, 1)
        number = self._counts.get(key, 1) + 1
        self._counts[key] = number
        self.add(sha256, number)
        return number


def _hash_of(sha256: str, number: int) -> int:
    """Return the hash of an occurrence; most are the first one, whose hash takes less time."""
    if number == 1:
        return hash(sha256)
    return hash((sha256, number))


def _as_bytes(key: int) -> bytes:
    return key.to_bytes(8, "little", signed=True)


_LATER = 0
"""In a `ContentSet`, the number that stands for any occurrence of a content after the first."""


class _Stretch(NamedTuple):
    """Adjacent lines of a file that are done."""

    start: int  # Offset of the first line.
    end: int  # Offset after the newline of the last line.
    lines: int  # Number of lines.


class _DoneInFile:
    """The lines of one followed file that earlier runs have done.

    They are kept as stretches, so memory grows with gaps, not lines.

    Attributes:
        unfinished: offsets of lines that had no newline.
    """

    def __init__(self) -> None:
        self.unfinished: set[int] = set()
        self._by_start: dict[int, _Stretch] = {}
        self._by_end: dict[int, _Stretch] = {}
        self._sorted_starts: list[int] = []  # Made when it is first needed.
        self._last: DoneLine | None = None

    def add(self, line: DoneLine) -> None:
        """Add a line that was not added before."""
        if self._last is None or self._last.offset <= line.offset:
            self._last = line
        if not line.whole:
            self.unfinished.add(line.offset)
            return

        # Join the line with the stretches that it touches.
        start = line.offset
        end = line.offset + line.length + 1
        lines = 1
        before = self._by_end.pop(start, None)
        if before is not None:
            start = before.start
            lines += before.lines
        after = self._by_start.pop(end, None)
        if after is not None:
            end = after.end
            lines += after.lines
        stretch = _Stretch(start, end, lines)
        self._by_start[start] = stretch
        self._by_end[end] = stretch

    def known(self, origin: int) -> Known:
        """Return how far the file was read without a gap, from the offset `origin`."""
        begin = origin
        number = 1
        for start in sorted(self._by_start):
            if start > begin:
                break
            stretch = self._by_start[start]
            begin = max(begin, stretch.end)
            number += stretch.lines

        last = self._last
        if last is None:
            return Known(begin, number, None)
        position = Position(
            path=last.path or "",
            file=last.file or "",
            offset=last.offset,
            length=last.length,
            sha256=last.sha256,
        )
        return Known(begin, number, position)

    def __contains__(self, offset: int) -> bool:
        """Return whether a line at this offset is done."""
        if offset in self.unfinished:
            return True
        if len(self._sorted_starts) != len(self._by_start):
            self._sorted_starts = sorted(self._by_start)
        index = bisect_right(self._sorted_starts, offset) - 1
        if index < 0:
            return False
        return offset < self._by_start[self._sorted_starts[index]].end


class Done:
    """The lines that this run and earlier runs of the same journal have evaluated or rejected.

    With "content", a line is done if its content is. With "position", a line of a followed file is
    done if its file, offset and content are. Other sources are read again from their start: there,
    a line is done if the journal has that occurrence of its content. Takes 10 bytes of memory per
    line; in the last case, twice as much once there are earlier runs.

    Attributes:
        skipped: number of lines not admitted.
    """

    def __init__(self, dedupe: Dedupe) -> None:
        """Start without lines; `dedupe` says how lines are recognised."""
        self.skipped = 0
        self._by_content = dedupe == "content"
        self._earlier_contents = ContentSet()  # Of earlier runs.
        self._read_contents = ContentSet()  # Of this run.
        self._earlier_in_files: dict[str, _DoneInFile] = {}  # By the key of the file.
        self._is_resumed = False

    def admit(self, record: Record) -> ResultSource | None:
        """Return the `source` of a line's result; None if the line is done."""
        sha256 = sha256_of(record)
        occurrence = self._next_occurrence(record, sha256)
        if occurrence is None:
            self.skipped += 1
            return None

        file = record.file
        # Of a part of a file, neither the number of a line nor that of equal lines is known.
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
        """Count a line that is read; return which line with its content it is, None if it is done.

        Args:
            record: the line.
            sha256: what `sha256_of` returns for it.
        """
        file = record.file
        is_followed = file is not None and file.followed
        if file is not None and is_followed and self._is_done_in(file, record, sha256):
            return None
        if self._by_content:
            is_done_earlier = self._is_resumed and self._earlier_contents.has(sha256)
            if is_done_earlier or not self._read_contents.add(sha256):
                return None
            return 1

        number = self._read_contents.add_next(sha256)
        while self._is_resumed and self._earlier_contents.has(sha256, number):
            if not is_followed:
                return None
            # That one was at another place, so this one is a later occurrence.
            number = self._read_contents.add_next(sha256)
        return number

    def _is_done_in(self, file: FileId, record: Record, sha256: str) -> bool:
        """Return whether a line is done at its place in a followed file."""
        done_lines = self._earlier_in_files.get(file.key)
        if done_lines is None or record.offset not in done_lines:
            return False
        if record.offset in done_lines.unfinished and isinstance(record, Line):
            # An earlier run may have read the line before its writer added CRLF.
            sha256 = hashlib.sha256(record.data.rstrip()).hexdigest()
        return self._earlier_contents.has(sha256) or self._earlier_contents.has(sha256, _LATER)

    def knows(self, identity: bytes) -> bool:
        """Return whether `admit` would skip the next trace with this identity."""
        sha256 = hashlib.sha256(identity).hexdigest()
        is_read = self._read_contents.has(sha256)
        is_earlier = self._earlier_contents.has(sha256)
        if self._by_content:
            return is_read or is_earlier
        return is_earlier and not is_read

    def __contains__(self, line: DoneLine) -> bool:
        """Return whether this very line was restored before."""
        if line.occurrence is None:
            return False
        return self._earlier_contents.has(line.sha256, line.occurrence)

    def restore(self, line: DoneLine) -> None:
        """Add a line of an earlier run that was not restored before."""
        self._is_resumed = True
        if line.occurrence is None:
            self._earlier_contents.add_next(line.sha256)
        else:
            self._earlier_contents.add(line.sha256, line.occurrence)
            if line.occurrence > 1:
                self._earlier_contents.add(line.sha256, _LATER)
        if line.file is not None:
            self._earlier_in_files.setdefault(line.file, _DoneInFile()).add(line)

    def files(self, origins: Mapping[str, int]) -> dict[str, Known]:
        """Return how far earlier runs have read each followed file, by the key of the file.

        Args:
            origins: the offsets where reading of files began, by key; 0 for other files.
        """
        known_by_key = {}
        for key in [*origins, *self._earlier_in_files]:
            done_lines = self._earlier_in_files.get(key, _DoneInFile())
            known_by_key[key] = done_lines.known(origins.get(key, 0))
        return known_by_key


def sha256_of(record: Record) -> str:
    """Return the SHA-256 of a line, or of the identity of a trace, in hex."""
    if isinstance(record, LongLine):
        return record.sha256
    return hashlib.sha256(getattr(record, "identity", record.data)).hexdigest()
