"""Which lines are new, and what results say of the line they come from."""

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
    """Knows all lines that were evaluated or rejected, in this run or an earlier one of the same journal.

    By "content", a line is known if its content is. By "position", a line of a followed file is known if its
    file, offset and content are; any other line if the journal has its content as often as it has come in
    this run, since such a source is read from its start again. Takes 24 bytes of memory for each line, and
    in the last case 22 more once there are earlier runs.

    Attributes:
        done: the lines of followed files.
        skipped: how many lines were not admitted.
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
        """The `source` of the result of a line; None if the line is known already."""
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
        """What a source says of the file, made once for the lines of one."""
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
        """Whether that very occurrence was restored before."""
        digest, occurrence, place, _ = line
        return self._contents.has(digest, occurrence) and (place is None or place in self.done)

    def restore(self, line: KeptLine) -> None:
        """Note a line of an earlier run, which was not restored before."""
        digest, occurrence, place, whole = line
        if place is not None:
            self.done.add(place, whole=whole)
        self._contents.add(digest, occurrence)
        if self._met is None:
            self._met = Contents()


KeptLine = tuple[bytes, int, Place | None, bool]
"""What a journal says of a line: the start of its digest, its occurrence, its place in a file, and whether it
was whole."""


class _Source(msgspec.Struct):
    sha256: str
    occurrence: Annotated[int, msgspec.Meta(ge=1)]
    offset: Size
    length: Size
    path: str | None = None
    file: str | None = None
    whole: bool = True


def read_source(source: Any) -> KeptLine:
    """The line that a result says it comes from.

    Raises:
        ValueError: it does not describe a line.
    """
    line = msgspec.convert(source, _Source)
    sha256 = bytes.fromhex(line.sha256)
    if sha256.hex() != line.sha256 or len(sha256) != SHA256_BYTES:
        raise ValueError("no SHA-256 in lower case")
    place = None
    if line.path is not None and line.file is not None:
        place = line.path, line.file, line.offset, line.length, line.sha256
    elif line.path != line.file:
        raise ValueError("a path without a key of the file, or a key without a path")
    return sha256[:DIGEST_BYTES], line.occurrence, place, line.whole


def digest_of(record: Record) -> bytes:
    """The start of a line's digest, as `KeptLine` has it."""
    return _sha256(record)[:DIGEST_BYTES]


def _sha256(record: Record) -> bytes:
    if isinstance(record, LongLine):
        return bytes.fromhex(record.sha256)
    if (identity := getattr(record, "identity", None)) is not None:  # Of a trace.
        return hashlib.sha256(identity).digest()
    return hashlib.sha256(record.data).digest()
