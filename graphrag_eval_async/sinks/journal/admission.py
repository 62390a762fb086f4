"""Which lines are new, and what results say of the line they come from."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Literal

from graphrag_eval_async.records import Line, LongLine, Position
from graphrag_eval_async.sinks.journal.done import DIGEST_BYTES, Contents, Done, Place

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphrag_eval_async.records import Record

SHA256_BYTES = 32

MAX_SIZE = 1 << 62
"""Of a file; a sum of two fits into 64 bits."""

Dedupe = Literal["position", "content"]
Source = dict[str, Any]


class Admission:
    """Knows all lines that were evaluated or rejected, in this run or an earlier one of the same journal.

    By "position", a line of a followed file was there already if its file and offset, and its content, were;
    any other line if its content was there as often as it has come in this run: such a source is read from
    its start again. By "content", a line was there already if its content was. Either way the digests of all
    lines are held, 16 bytes for each.

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

    def admit(self, record: Record) -> Source | None:
        """What the result of a line says of it, as `source`; None if the line was there already."""
        length = record.length if isinstance(record, LongLine) else len(record.data)
        sha256 = _sha256(record)
        digest = _start_of(sha256)
        file = record.file if isinstance(record, Line | LongLine) else None
        position = None
        if file is not None and file.followed:
            position = Position(file.path, file.key, record.offset, length, sha256)
        seen = digest
        if position is not None and self.done.is_unfinished(position) and isinstance(record, Line):
            seen = hashlib.sha256(record.data.rstrip()).digest()[:DIGEST_BYTES]  # Its end may be CRLF.
        if self._was_there(seen, position):
            self.skipped += 1
            return None
        source: Source = {} if file is None else {"path": file.path, "file": file.key}
        source |= {"line": record.number, "offset": record.offset, "length": length, "sha256": sha256}
        source["occurrence"] = self._contents.take(digest)
        whole = not isinstance(record, Line) or record.whole
        if not whole:
            source["whole"] = False
        if position is not None:
            self.done.add(position, whole=whole)
        return source

    def _was_there(self, digest: bytes, position: Position | None) -> bool:
        if self._by_content:
            return digest in self._contents
        if position is not None:
            return position in self.done and digest in self._contents
        return self._met is not None and self._contents.has(digest, self._met.take(digest))

    def is_restored(self, line: KeptLine) -> bool:
        """Whether that very occurrence was restored before."""
        digest, occurrence, place, _ = line
        return (place is None or place in self.done) and self._contents.has(digest, occurrence)

    def restore(self, line: KeptLine) -> None:
        """Note a line of an earlier run, which was not restored before."""
        digest, occurrence, place, whole = line
        if place is not None:
            self.done.add(place, whole=whole)
        self._contents.add(digest, occurrence)
        if self._met is None:
            self._met = Contents()


KeptLine = tuple[bytes, int, Place | None, bool]
"""What a journal says of a line: the start of its digest, its occurrence, where it stands in a file, and
whether it was whole."""


def read_source(source: Mapping[str, Any]) -> KeptLine:
    """The line that a result says it comes from.

    Raises:
        KeyError, TypeError, ValueError: it says nothing of a line.
    """
    sha256, occurrence = source["sha256"], source["occurrence"]
    digest = bytes.fromhex(sha256)
    if len(digest) != SHA256_BYTES or type(occurrence) is not int or occurrence < 1:
        raise ValueError("no digest of a line, or no occurrence of it")
    place = None
    if "file" in source:
        path, file, offset, length = source["path"], source["file"], source["offset"], source["length"]
        if not (type(path) is type(file) is str and type(offset) is type(length) is int):
            raise TypeError("no place of a line")
        if not (0 <= offset < MAX_SIZE and 0 <= length < MAX_SIZE):
            raise ValueError("no place of a line")
        place = path, file, offset, length, sha256
    return digest[:DIGEST_BYTES], occurrence, place, source.get("whole", True)


def digest_of(record: Record) -> bytes:
    """The start of a line's digest, as `KeptLine` has it."""
    return _start_of(_sha256(record))


def _sha256(record: Record) -> str:
    return record.sha256 if isinstance(record, LongLine) else hashlib.sha256(record.data).hexdigest()


def _start_of(sha256: str) -> bytes:
    return bytes.fromhex(sha256[: 2 * DIGEST_BYTES])
