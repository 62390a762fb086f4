"""Which lines are done: by their content, and by their place in followed files."""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections import defaultdict
from operator import itemgetter
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import msgspec

from graphrag_eval_async.errors import in_utf8
from graphrag_eval_async.records import Known, Line, LongLine, Position

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphrag_eval_async.records import FileId, Record

Dedupe = Literal["position", "content"]
Source = dict[str, Any]
"""The `source` of a result or reject: where its line came from."""

SHA256_BYTES = 32

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
    """A multiset of SHA-256 digests, whose occurrences are numbered from 1.

    Nearly all digests occur once. Each of these takes 8 bytes, the process's own keyed hash of it: a million
    lines have a collision with a probability of 10^-8.
    """

    def __init__(self) -> None:
        self._once: defaultdict[int, bytearray] = defaultdict(bytearray)
        self._several: dict[int, Numbers] = {}

    def __contains__(self, digest: bytes) -> bool:
        key = hash(digest)
        return key in self._several or _stored(key) in self._once[key % BUCKETS]

    def has(self, digest: bytes, number: int) -> bool:
        """Whether the occurrence with this number is there."""
        numbers = self._several.get(hash(digest))
        return number in numbers if numbers is not None else number == 1 and digest in self

    def add(self, digest: bytes, number: int | None = None) -> int:
        """Add an occurrence that is missing, by default the lowest one, and return its number."""
        key = hash(digest)
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
        last: the last line done.
        skipped: bytes at the start that count as done without their lines having been read.
    """

    def __init__(self) -> None:
        self.unfinished: int | None = None
        self.last: Position | None = None
        self.skipped = 0
        # Start, end and number of lines of each; neighbours are merged.
        self._stretches: list[tuple[int, int, int]] = []

    def __contains__(self, offset: int) -> bool:
        index = bisect_right(self._stretches, offset, key=itemgetter(0)) - 1
        return offset == self.unfinished or (index >= 0 and offset < self._stretches[index][1])

    def add(self, line: Position, *, whole: bool) -> None:
        """Add a line, which may be present already."""
        if whole:
            self._add(line.offset, line.offset + line.length + 1, 1)
        else:
            self.unfinished = line.offset
        if self.last is None or self.last.offset <= line.offset:
            self.last = line

    def _add(self, start: int, end: int, lines: int) -> None:
        stretches = self._stretches
        is_last = not stretches or stretches[-1][0] <= start  # The usual case.
        index = len(stretches) if is_last else bisect_right(stretches, start, key=itemgetter(0))
        if index and stretches[index - 1][1] > start:
            return
        if index and stretches[index - 1][1] == start:
            index -= 1
            start, _, before = stretches.pop(index)
            lines += before
        if index < len(stretches) and stretches[index][0] == end:
            _, end, after = stretches.pop(index)
            lines += after
        stretches.insert(index, (start, end, lines))

    def skip(self, offset: int) -> None:
        """Count the bytes before an offset as done, instead of those before a later one."""
        if self.skipped:
            (_, end, lines), *rest = self._stretches
            self._stretches = [(self.skipped, end, lines), *rest] if end > self.skipped else rest
            self.skipped = 0
        if offset and not self.known().begin:
            self._add(0, offset, 0)
            self.skipped = offset

    def known(self) -> Known:
        """Return the beginning that need not be read again."""
        start, end, lines = self._stretches[0] if self._stretches else (0, 0, 0)
        return Known(end, lines + 1, self.last) if start == 0 else Known(0, 1, self.last)


class DoneLine(NamedTuple):
    """A line that an earlier run has evaluated or rejected.

    Attributes:
        sha256: digest of its content.
        occurrence: which line with this content it is, from 1; None if only a part of the file was read.
        position: its place in a file.
        whole: whether it had its newline.
    """

    sha256: bytes
    occurrence: int | None
    position: Position | None
    whole: bool


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
        self._file: FileId | None = None
        self._names: Mapping[str, str] = {}

    def admit(self, record: Record) -> Source | None:
        """Return the `source` of a line's result; None if the line is done."""
        sha256, file, offset = sha256_of(record), record.file, record.offset
        known = self._files[file.key] if file is not None and file.followed else None
        content = sha256
        if known is not None and known.unfinished == offset and isinstance(record, Line):
            content = hashlib.sha256(record.data.rstrip()).digest()  # Its end may be CRLF.
        if self._has(content, known, offset):
            self.skipped += 1
            return None
        length = record.length if isinstance(record, LongLine) else len(record.data)
        whole = not isinstance(record, Line | LongLine) or record.whole
        source: Source = {
            **self._name(file),
            "line": record.number,
            "offset": offset,
            "length": length,
            "sha256": sha256.hex(),
            "occurrence": self._contents.add(sha256),
        }
        if file is not None and file.is_part:
            del source["line"], source["occurrence"]
        if not whole:
            source["whole"] = False
        if known is not None:
            position = Position(source["path"], source["file"], offset, length, source["sha256"])
            known.add(position, whole=whole)
        return source

    def _has(self, sha256: bytes, known: _File | None, offset: int) -> bool:
        if self._by_content:
            return sha256 in self._contents
        if known is not None:
            return offset in known and sha256 in self._contents
        return self._read is not None and self._contents.has(sha256, self._read.add(sha256))

    def _name(self, file: FileId | None) -> Mapping[str, str]:
        """Return a source's keys for the file; cached for consecutive lines of one file."""
        if file is not self._file:
            self._file = file
            self._names = {} if file is None else {"path": in_utf8(file.path), "file": file.key}
        return self._names

    def knows(self, identity: bytes) -> bool:
        """Whether `admit` would skip the next trace with this identity."""
        sha256 = hashlib.sha256(identity).digest()
        if self._by_content:
            return sha256 in self._contents
        return self._read is not None and self._contents.has(sha256, 1) and not self._read.has(sha256, 1)

    def __contains__(self, line: DoneLine) -> bool:
        """Whether this very line was restored before."""
        sha256, occurrence, position, _ = line
        is_known = sha256 in self._contents if occurrence is None else self._contents.has(sha256, occurrence)
        return is_known and (position is None or position.offset in self._files.get(position.file, ()))

    def restore(self, line: DoneLine) -> None:
        """Add a line of an earlier run that was not restored before."""
        self._contents.add(line.sha256, line.occurrence)
        if line.position is not None:
            self._files[line.position.file].add(line.position, whole=line.whole)
        if self._read is None:
            self._read = Contents()

    def skip(self, origins: Mapping[str, int]) -> None:
        """Count the bytes before an offset as done, by the key of the file; a lower offset replaces it."""
        for key, offset in origins.items():
            file = self._files[key]
            if not file.skipped or offset < file.skipped:
                file.skip(offset)

    def files(self) -> dict[str, Known]:
        """Return the beginning of each followed file that need not be read again, by the file's key."""
        return {key: file.known() for key, file in self._files.items()}


class _Source(msgspec.Struct):
    sha256: str
    offset: Size
    length: Size
    occurrence: Annotated[int, msgspec.Meta(ge=1)] | None = None
    path: str | None = None
    file: str | None = None
    whole: bool = True


def read_source(source: Any) -> DoneLine:
    """Return the line described by the `source` of a result.

    Raises:
        ValueError: `source` does not describe a line.
    """
    line = msgspec.convert(source, _Source)
    sha256 = bytes.fromhex(line.sha256)
    if sha256.hex() != line.sha256 or len(sha256) != SHA256_BYTES:
        raise ValueError("sha256: not a SHA-256 in lower-case hex")
    position = None
    if line.path is not None and line.file is not None:
        position = Position(line.path, line.file, line.offset, line.length, line.sha256)
    elif line.path != line.file:
        raise ValueError("path and file: one of them is missing")
    return DoneLine(sha256, line.occurrence, position, line.whole)


def sha256_of(record: Record) -> bytes:
    """Return the SHA-256 of a line, or of the identity of a trace."""
    if isinstance(record, LongLine):
        return bytes.fromhex(record.sha256)
    return hashlib.sha256(getattr(record, "identity", record.data)).digest()
