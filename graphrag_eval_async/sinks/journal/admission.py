"""Decides which lines are new, and describes the source lines of results."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec

from graphrag_eval_async.errors import in_utf8
from graphrag_eval_async.records import Line, LongLine, Position, Unwritable
from graphrag_eval_async.sinks.journal.done import DIGEST_BYTES, Contents, Done, Place, Size

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphrag_eval_async.records import FileId, Record

Dedupe = Literal["position", "content"]
Source = dict[str, Any]

SHA256_BYTES = 32


class Admission:
    """Remembers the lines evaluated or rejected in this run and in earlier runs of the same journal.

    With "content", a line is known if its content is. With "position", a line of a followed file is known if
    its file, offset and content are. Other sources are read again from the start: there, a line is known if
    the journal has its content at least as often as this run has seen it. Takes 24 bytes of memory per line;
    in the last case, 22 more once there are earlier runs.

    Attributes:
        done: the lines of followed files.
        skipped: number of lines not admitted.
    """

    def __init__(self, dedupe: Dedupe) -> None:
        self.done = Done()
        self.skipped = 0
        self._by_content = dedupe == "content"
        self._contents = Contents()
        self._met: Contents | None = None
        self._file: FileId | None = None
        self._names: Mapping[str, str] = {}

    def admit(self, record: Record) -> Source | None:
        """Return the `source` of a line's result; None if the line is already known."""
        length = record.length if isinstance(record, LongLine) else len(record.data)
        sha256 = _sha256(record)
        digest = sha256[:DIGEST_BYTES]
        file = record.file if isinstance(record, Line | LongLine) else None
        position = None
        if file is not None and file.followed:
            position = Position(in_utf8(file.path), file.key, record.offset, length, sha256.hex())
        seen = digest
        if position is not None and self.done.is_unfinished(position) and isinstance(record, Line):
            seen = hashlib.sha256(record.data.rstrip()).digest()[:DIGEST_BYTES]  # Its end may be CRLF.
        if self._was_there(seen, position):
            self.skipped += 1
            return None
        source: Source = {
            **self._name(file),
            "line": record.number,
            "offset": record.offset,
            "length": length,
            "sha256": sha256.hex(),
            "occurrence": self._contents.take(digest),
        }
        if file is not None and file.is_part:
            del source["line"], source["occurrence"]
        if not (whole := isinstance(record, Unwritable) or record.whole):
            source["whole"] = False
        if position is not None:
            self.done.add(position, whole=whole)
        return source

    def knows(self, identity: bytes) -> bool:
        """Whether `admit` would skip the next line with this identity."""
        digest = hashlib.sha256(identity).digest()[:DIGEST_BYTES]
        if self._by_content:
            return digest in self._contents
        return self._met is not None and self._contents.has(digest, 1) and not self._met.has(digest, 1)

    def _name(self, file: FileId | None) -> Mapping[str, str]:
        """Return a source's keys for the file; cached for consecutive lines of one file."""
        if file is not self._file:
            self._file = file
            self._names = {} if file is None else {"path": in_utf8(file.path), "file": file.key}
        return self._names

    def _was_there(self, digest: bytes, position: Position | None) -> bool:
        if self._by_content:
            return digest in self._contents
        if position is not None:
            return position in self.done and digest in self._contents
        return self._met is not None and self._contents.has(digest, self._met.take(digest))

    def is_restored(self, line: KeptLine) -> bool:
        """Whether this occurrence of the line was already restored."""
        digest, occurrence, place, _ = line
        is_known = digest in self._contents if occurrence is None else self._contents.has(digest, occurrence)
        return is_known and (place is None or place in self.done)

    def restore(self, line: KeptLine) -> None:
        """Record a line of an earlier run that was not restored before."""
        digest, occurrence, place, whole = line
        if place is not None:
            self.done.add(place, whole=whole)
        if occurrence is None:
            self._contents.take(digest)
        else:
            self._contents.add(digest, occurrence)
        if self._met is None:
            self._met = Contents()


KeptLine = tuple[bytes, int | None, Place | None, bool]
"""A line in a journal: start of the digest, occurrence, place in a file, and whether the line was whole.

A line of a part of a file has no occurrence.
"""


class _Source(msgspec.Struct):
    sha256: str
    offset: Size
    length: Size
    occurrence: Annotated[int, msgspec.Meta(ge=1)] | None = None  # Not known of a part of a file.
    path: str | None = None
    file: str | None = None
    whole: bool = True


def read_source(source: Any) -> KeptLine:
    """Return the line described by the `source` of a result.

    Raises:
        ValueError: `source` does not describe a line.
    """
    line = msgspec.convert(source, _Source)
    sha256 = bytes.fromhex(line.sha256)
    if sha256.hex() != line.sha256 or len(sha256) != SHA256_BYTES:
        raise ValueError("sha256: not a SHA-256 in lower-case hex")
    place = None
    if line.path is not None and line.file is not None:
        place = line.path, line.file, line.offset, line.length, line.sha256
    elif line.path != line.file:
        raise ValueError("path and file: one of them is missing")
    return sha256[:DIGEST_BYTES], line.occurrence, place, line.whole


def digest_of(record: Record) -> bytes:
    """Return the start of a line's digest, as in `KeptLine`."""
    return _sha256(record)[:DIGEST_BYTES]


def _sha256(record: Record) -> bytes:
    if isinstance(record, LongLine):
        return bytes.fromhex(record.sha256)
    if (identity := getattr(record, "identity", None)) is not None:  # Of a trace.
        return hashlib.sha256(identity).digest()
    return hashlib.sha256(record.data).digest()
