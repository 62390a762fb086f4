"""Which lines are done: by their content, and by their place in followed files."""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections import defaultdict
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec

from graphrag_eval_async.errors import in_utf8
from graphrag_eval_async.records import Known, Line, LongLine, Position

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphrag_eval_async.records import Record

Dedupe = Literal["position", "content"]
Source = dict[str, Any]
"""The `source` of a result or reject: where its line came from."""

BUCKETS = 1 << 14

ANY = 0
"""Stands for the occurrences of a content after the first one."""

Size = Annotated[int, msgspec.Meta(ge=0, lt=1 << 62)]
"""Size of a line or a file, in bytes; a sum of two fits into 64 bits."""


class DoneLine(msgspec.Struct):
    """A line that an earlier run has evaluated or rejected, from the `source` of its result or
    reject.
    """

    sha256: Annotated[str, msgspec.Meta(min_length=64, max_length=64)]
    offset: Size
    length: Size
    # Which line with this content it is; None if only a part of the file was read.
    occurrence: Annotated[int, msgspec.Meta(ge=1)] | None = None
    path: str | None = None
    file: str | None = None  # Key of the file.
    whole: bool = True  # Whether it had its newline.


class Contents:
    """A set of occurrences of contents: SHA-256 digests in hex, with numbers from 1.

    Each takes 8 bytes, the process's own keyed hash of it: of a million, two are equal with a
    probability of 10^-7. Buckets of hashes are searched linearly; with a million lines, each has
    half a kilobyte.
    """

    def __init__(self) -> None:
        self._buckets: defaultdict[int, bytearray] = defaultdict(bytearray)
        # Of contents that were counted several times, by their hashes.
        self._counts: dict[int, int] = {}

    def has(self, sha256: str, number: int = 1) -> bool:
        """Whether an occurrence is there."""
        key = hash(sha256) if number == 1 else hash((sha256, number))
        return key.to_bytes(8, "little", signed=True) in self._buckets[key % BUCKETS]

    def add(self, sha256: str, number: int = 1) -> bool:
        """Add an occurrence; return whether it was missing."""
        key = hash(sha256) if number == 1 else hash((sha256, number))
        bucket, stored = self._buckets[key % BUCKETS], key.to_bytes(8, "little", signed=True)
        if stored in bucket:
            return False
        bucket += stored
        return True

    def count(self, sha256: str) -> int:
        """Add the occurrence after the one that the last call added; return its number."""
        if self.add(sha256):
            return 1
        key = hash(sha256)
        number = self._counts[key] = self._counts.get(key, 1) + 1
        self.add(sha256, number)
        return number


class _File:
    """The lines of one file that earlier runs have done, as stretches: memory grows with gaps,
    not lines.
    """

    def __init__(self) -> None:
        self._by_start: dict[int, tuple[int, int]] = {}  # End and number of lines of each stretch.
        self._by_end: dict[int, tuple[int, int]] = {}  # Start and number of lines.
        self._starts: list[int] = []  # Sorted once all lines are added.
        self.unfinished: set[int] = set()  # Offsets of lines that had no newline.
        self._last: DoneLine | None = None

    def add(self, line: DoneLine) -> None:
        """Add a line that was not added before."""
        if self._last is None or self._last.offset <= line.offset:
            self._last = line
        if not line.whole:
            self.unfinished.add(line.offset)
            return
        start, before = self._by_end.pop(line.offset, (line.offset, 0))
        end = line.offset + line.length + 1
        end, after = self._by_start.pop(end, (end, 0))
        lines = before + 1 + after
        self._by_start[start], self._by_end[end] = (end, lines), (start, lines)

    def known(self, origin: int) -> Known:
        """Return the beginning that need not be read again, given where reading began."""
        begin, number, last = origin, 1, self._last
        for start, (end, lines) in sorted(self._by_start.items()):
            if start > begin:
                break
            begin, number = max(begin, end), number + lines
        if last is None:
            return Known(begin, number, None)
        position = Position(last.path or "", last.file or "", last.offset, last.length, last.sha256)
        return Known(begin, number, position)

    def __contains__(self, offset: int) -> bool:
        """Whether a line at this offset is done."""
        if len(self._starts) != len(self._by_start):
            self._starts = sorted(self._by_start)
        index = bisect_right(self._starts, offset) - 1
        is_whole = index >= 0 and offset < self._by_start[self._starts[index]][0]
        return is_whole or offset in self.unfinished


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
        self.skipped = 0
        self._by_content = dedupe == "content"
        self._earlier, self._read = Contents(), Contents()
        self._files: dict[str, _File] = {}
        self._is_resumed = False

    def admit(self, record: Record) -> Source | None:
        """Return the `source` of a line's result; None if the line is done."""
        sha256, file = sha256_of(record), record.file
        if not (occurrence := self._occurrence(record, sha256)):
            self.skipped += 1
            return None
        source: Source = {} if file is None else {"path": in_utf8(file.path), "file": file.key}
        source |= {
            "line": record.number,
            "offset": record.offset,
            "length": record.length if isinstance(record, LongLine) else len(record.data),
            "sha256": sha256,
            "occurrence": occurrence,
        }
        if file is not None and file.is_part:
            del source["line"], source["occurrence"]
        if isinstance(record, Line | LongLine) and not record.whole:
            source["whole"] = False
        return source

    def _occurrence(self, record: Record, sha256: str) -> int:
        """Return which line with its content a line is; 0 if it is done."""
        file = record.file if record.file is not None and record.file.followed else None
        if file is not None and self._is_in(self._files.get(file.key), record, sha256):
            return 0
        if self._by_content:
            return int(
                not (self._is_resumed and self._earlier.has(sha256)) and self._read.add(sha256)
            )
        number = self._read.count(sha256)
        while self._is_resumed and self._earlier.has(sha256, number):
            if file is None:
                return 0
            number = self._read.count(sha256)
        return number

    def _is_in(self, file: _File | None, record: Record, sha256: str) -> bool:
        """Whether a line is done at its place in a followed file."""
        if file is None or record.offset not in file:
            return False
        if record.offset in file.unfinished and isinstance(record, Line):
            sha256 = hashlib.sha256(record.data.rstrip()).hexdigest()  # Its end may be CRLF.
        return self._earlier.has(sha256) or self._earlier.has(sha256, ANY)

    def knows(self, identity: bytes) -> bool:
        """Whether `admit` would skip the next trace with this identity."""
        sha256 = hashlib.sha256(identity).hexdigest()
        is_read, is_earlier = self._read.has(sha256), self._earlier.has(sha256)
        return is_read or is_earlier if self._by_content else is_earlier and not is_read

    def __contains__(self, line: DoneLine) -> bool:
        """Whether this very line was restored before."""
        return line.occurrence is not None and self._earlier.has(line.sha256, line.occurrence)

    def restore(self, line: DoneLine) -> None:
        """Add a line of an earlier run that was not restored before."""
        self._is_resumed = True
        if line.occurrence is None:
            self._earlier.count(line.sha256)
        else:
            self._earlier.add(line.sha256, line.occurrence)
            if line.occurrence > 1:
                self._earlier.add(line.sha256, ANY)
        if line.file is not None:
            self._files.setdefault(line.file, _File()).add(line)

    def files(self, origins: Mapping[str, int]) -> dict[str, Known]:
        """Return what is known of each file, by its key, given the offsets where reading began."""
        files = {key: _File() for key in origins} | self._files
        return {key: file.known(origins.get(key, 0)) for key, file in files.items()}


def sha256_of(record: Record) -> str:
    """Return the SHA-256 of a line, or of the identity of a trace, in hex."""
    if isinstance(record, LongLine):
        return record.sha256
    return hashlib.sha256(getattr(record, "identity", record.data)).hexdigest()
