"""Which lines are done: by their content, and by their place in followed files."""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections import defaultdict
from operator import itemgetter
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
"""Buckets are searched linearly; with a million lines, each has half a kilobyte."""

Size = Annotated[int, msgspec.Meta(ge=0, lt=1 << 62)]
"""Size of a line or a file, in bytes; a sum of two fits into 64 bits."""


class Numbers:
    """A compact set of numbers from 1: all up to `upto`, and a set of those beyond a gap."""

    __slots__ = ("_beyond", "upto")

    def __init__(self, upto: int = 0) -> None:
        self.upto = upto
        self._beyond: set[int] = set()

    def __contains__(self, number: int) -> bool:
        return number <= self.upto or number in self._beyond

    def add(self, number: int) -> None:
        """Add a number, which may be present already."""
        if number > self.upto:
            self._beyond.add(number)
        while self.upto + 1 in self._beyond:
            self.upto += 1
            self._beyond.remove(self.upto)

    def add_next(self) -> int:
        """Add the lowest missing number and return it."""
        number = self.upto + 1
        self.add(number)
        return number


class Contents:
    """A multiset of SHA-256 digests in hex, whose occurrences are numbered from 1.

    Nearly all digests occur once. Each of these takes 8 bytes, the process's own keyed hash of it: a million
    lines have a collision with a probability of 10^-8.
    """

    def __init__(self) -> None:
        self._once: defaultdict[int, bytearray] = defaultdict(bytearray)
        self._several: dict[int, Numbers] = {}

    def __contains__(self, sha256: str) -> bool:
        key = hash(sha256)
        return key in self._several or _stored(key) in self._once[key % BUCKETS]

    def has(self, sha256: str, number: int) -> bool:
        """Whether the occurrence with this number is there."""
        numbers = self._several.get(hash(sha256))
        return number in numbers if numbers is not None else number == 1 and sha256 in self

    def add(self, sha256: str, number: int | None = None) -> int:
        """Add an occurrence that is missing, by default the lowest one, and return its number."""
        key = hash(sha256)
        numbers = self._several.get(key)
        if numbers is None:
            bucket, stored = self._once[key % BUCKETS], _stored(key)
            is_there = stored in bucket
            if not is_there and (number is None or number == 1):
                bucket += stored
                return 1
            numbers = self._several[key] = Numbers(int(is_there))
        if number is None:
            return numbers.add_next()
        numbers.add(number)
        return number


def _stored(key: int) -> bytes:
    return key.to_bytes(8, "little", signed=True)


class _File:
    """The lines of one followed file that are done, as stretches: memory grows with gaps, not with lines.

    Attributes:
        unfinished: offset of the last line if it had no newline when it was evaluated.
        skipped: bytes at the start that count as done without their lines having been read.
    """

    def __init__(self) -> None:
        self.unfinished: int | None = None
        self.skipped = 0
        self._last: tuple[str, str, int, int, str] | None = None  # A `Position`, but faster to create.
        # Start, end and number of lines of each; neighbours are merged.
        self._stretches: list[list[int]] = []

    def __contains__(self, offset: int) -> bool:
        if offset < self.skipped or offset == self.unfinished:
            return True
        index = bisect_right(self._stretches, offset, key=itemgetter(0)) - 1
        return index >= 0 and offset < self._stretches[index][1]

    def add(self, position: tuple[str, str, int, int, str], *, whole: bool) -> None:
        """Add a line, which may be present already."""
        offset = position[2]
        if whole:
            self._add(offset, offset + position[3] + 1, 1)
        else:
            self.unfinished = offset
        if self._last is None or self._last[2] <= offset:
            self._last = position

    def _add(self, start: int, end: int, lines: int) -> None:
        stretches = self._stretches
        is_last = not stretches or stretches[-1][0] <= start  # The usual case.
        index = len(stretches) if is_last else bisect_right(stretches, start, key=itemgetter(0))
        before = stretches[index - 1] if index else [-1, -1, 0]
        if before[1] > start:
            return
        if before[1] == start:
            before[1:] = end, before[2] + lines
        else:
            before = [start, end, lines]
            stretches.insert(index, before)
            index += 1
        if index < len(stretches) and stretches[index][0] == end:
            _, before[1], more = stretches.pop(index)
            before[2] += more

    def known(self) -> Known:
        """Return the beginning that need not be read again."""
        begin, number = self.skipped, 1
        for start, end, lines in self._stretches:
            if start > begin:
                break
            begin, number = max(begin, end), number + lines
        return Known(begin, number, None if self._last is None else Position(*self._last))


class DoneLine(msgspec.Struct):
    """A line that an earlier run has evaluated or rejected, from the `source` of its result or reject.

    Attributes:
        sha256: digest of its content, in hex.
        offset: bytes of the source before the line.
        length: its length in bytes.
        occurrence: which line with this content it is, from 1; None if only a part of the file was read.
        path: path of its file.
        file: key of its file.
        whole: whether it had its newline.
    """

    sha256: Annotated[str, msgspec.Meta(min_length=64, max_length=64)]
    offset: Size
    length: Size
    occurrence: Annotated[int, msgspec.Meta(ge=1)] | None = None
    path: str | None = None
    file: str | None = None
    whole: bool = True


class Done:
    """The lines that this run and earlier runs of the same journal have evaluated or rejected.

    With "content", a line is done if its content is. With "position", a line of a followed file is done if
    its file, offset and content are. Other sources are read again from their start: there, a line is done if
    the journal has its content at least as often as this run has read it. Takes 10 bytes of memory per line;
    in the last case, twice as much once there are earlier runs.

    Attributes:
        skipped: number of lines not admitted.
    """

    def __init__(self, dedupe: Dedupe) -> None:
        self.skipped = 0
        self._by_content = dedupe == "content"
        self._contents = Contents()
        self._files: defaultdict[str, _File] = defaultdict(_File)
        self._read: Contents | None = None  # By this run; None without earlier runs.

    def admit(self, record: Record) -> Source | None:
        """Return the `source` of a line's result; None if the line is done."""
        sha256, file, offset = sha256_of(record), record.file, record.offset
        known = self._files[file.key] if file is not None and file.followed else None
        if self._has(record, sha256, known):
            self.skipped += 1
            return None
        length = record.length if isinstance(record, LongLine) else len(record.data)
        source: Source = {
            **({} if file is None else {"path": in_utf8(file.path), "file": file.key}),
            "line": record.number,
            "offset": offset,
            "length": length,
            "sha256": sha256,
            "occurrence": self._contents.add(sha256),
        }
        if file is not None and file.is_part:
            del source["line"], source["occurrence"]
        whole = not isinstance(record, Line | LongLine) or record.whole
        if not whole:
            source["whole"] = False
        if known is not None:
            known.add((source["path"], source["file"], offset, length, sha256), whole=whole)
        return source

    def _has(self, record: Record, sha256: str, known: _File | None) -> bool:
        if known is not None and known.unfinished == record.offset and isinstance(record, Line):
            sha256 = hashlib.sha256(record.data.rstrip()).hexdigest()  # Its end may be CRLF.
        if self._by_content:
            return sha256 in self._contents
        if known is not None:
            return record.offset in known and sha256 in self._contents
        return self._read is not None and self._contents.has(sha256, self._read.add(sha256))

    def knows(self, identity: bytes) -> bool:
        """Whether `admit` would skip the next trace with this identity."""
        sha256 = hashlib.sha256(identity).hexdigest()
        if self._by_content:
            return sha256 in self._contents
        return self._read is not None and self._contents.has(sha256, 1) and not self._read.has(sha256, 1)

    def __contains__(self, line: DoneLine) -> bool:
        """Whether this very line was restored before."""
        if line.occurrence is None:
            is_known = line.sha256 in self._contents
        else:
            is_known = self._contents.has(line.sha256, line.occurrence)
        return is_known and (line.file is None or line.offset in self._files.get(line.file, ()))

    def restore(self, line: DoneLine) -> None:
        """Add a line of an earlier run that was not restored before."""
        self._contents.add(line.sha256, line.occurrence)
        if line.file is not None and line.path is not None:
            place = (line.path, line.file, line.offset, line.length, line.sha256)
            self._files[line.file].add(place, whole=line.whole)
        if self._read is None:
            self._read = Contents()

    def skip(self, origins: Mapping[str, int]) -> None:
        """Count the bytes before an offset as done, by the key of the file; a lower offset replaces it."""
        for key, offset in origins.items():
            file = self._files[key]
            if not file.skipped or offset < file.skipped:
                file.skipped = offset

    def files(self) -> dict[str, Known]:
        """Return the beginning of each followed file that need not be read again, by the file's key."""
        return {key: file.known() for key, file in self._files.items()}


def sha256_of(record: Record) -> str:
    """Return the SHA-256 of a line, or of the identity of a trace, in hex."""
    if isinstance(record, LongLine):
        return record.sha256
    return hashlib.sha256(getattr(record, "identity", record.data)).hexdigest()
