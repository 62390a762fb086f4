"""Logs compressed by gzip while no follower ran. Each is read once, unless its content is known."""

from __future__ import annotations

import hashlib
import os
import struct
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from graphrag_eval_async.records import FileId
from graphrag_eval_async.sources.checkpoints import Start
from graphrag_eval_async.sources.files import Gunzip
from graphrag_eval_async.sources.lines import LOGGER, cut
from graphrag_eval_async.sources.tail import CLOSED, Tail

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator

    from graphrag_eval_async.records import Position
    from graphrag_eval_async.sources.checkpoints import Checkpoints
    from graphrag_eval_async.sources.identity import Opened

BLOCK_BYTES = 1 << 14
"""Compressed bytes read at a time; they may decompress to a thousand times as much."""

CHECKED_BYTES = 1 << 20
"""Bytes read at a time to compute a checksum."""


@dataclass(slots=True, eq=False, kw_only=True)
class Packed(Tail):
    """A compressed file. Offsets refer to its decompressed text."""

    size: int  # Size of the text, modulo 4 GiB.
    content: Iterator[bytes] | None = None  # What is left to read: pieces, empty ones while it is searched.

    @property
    def unread(self) -> int:
        """Bytes behind the offset, or 1 if that is not known."""
        return 0 if self.content is None else max(1, self.size - self.offset)

    def measure(self) -> int:
        return self.unread

    def read(self, limit: int) -> bytes:  # noqa: ARG002
        """The next piece, which may be empty."""
        assert self.content is not None  # noqa: S101
        data = next(self.content, None)
        if data is None:
            self.content = None
        self.offset += len(data or b"")
        return data or b""


def open_packed(
    opened: Opened, path: str, name: str, present: Iterable[Tail], checkpoints: Checkpoints
) -> Packed | None:
    """A compressed file that was named `name` before; None if nothing in it must be read.

    Raises:
        OSError: the file cannot be read.
    """
    descriptor, identity = opened
    trailer = os.pread(descriptor, 8, max(0, os.fstat(descriptor).st_size - 8))
    checksum, size = struct.unpack("<II", trailer.rjust(8, b"\0"))
    if checkpoints.is_read(identity.root, size):
        LOGGER.info("%s: has nothing that no earlier run has read or skipped", path)
        return None
    first = next(_inflate(descriptor), b"")
    for tail in present:
        if tail.name == name and tail.descriptor != CLOSED and _checksum(tail, size, first) == checksum:
            return None
    return Packed(file=FileId(path, ""), identity=identity, name=name, descriptor=descriptor, size=size)


def _checksum(tail: Tail, size: int, first: bytes) -> int | None:
    """That of the first bytes of a file; None if it does not begin in this way, or the size is of a part."""
    if size < len(first) or os.pread(tail.descriptor, len(first), 0) != first:
        return None
    checksum = offset = 0
    while block := os.pread(tail.descriptor, min(CHECKED_BYTES, size - offset), offset):
        checksum = zlib.crc32(block, checksum)
        offset += len(block)
    return checksum


def unpack(tail: Packed, checkpoints: Checkpoints, *, is_old: bool) -> Iterator[bytes]:
    """The text that no earlier run has read. Yields empty pieces while searching for its start."""
    path, root = tail.file.path, tail.identity.root
    found = yield from _search(tail.descriptor, checkpoints.last_lines(root))
    start = checkpoints.resume(found, root, tail.name)
    if start is None:
        start = Start(checkpoints.new_key(root), 0, 1, passed_over=is_old)
    checkpoints.note_copy(root, start.key)
    checkpoints.note_start(start)
    if start.passed_over:
        return
    LOGGER.info("%s: read after the first %d bytes of its text", path, start.offset)
    tail.file = FileId(path, start.key, followed=True)
    tail.offset, tail.number = start.offset, start.number
    offset = 0
    for piece in _inflate(tail.descriptor, path):
        yield piece[max(0, start.offset - offset) :]
        offset += len(piece)


def _search(descriptor: int, lines: list[Position]) -> Generator[bytes, None, dict[str, bool]]:
    """Those of the given lines that are at their old position: by key of the file, whether with a newline."""
    waiting = sorted(lines, key=lambda line: -line.offset)
    hashed: list[tuple[Position, hashlib._Hash]] = []
    found: dict[str, bool] = {}
    offset = 0
    for piece in _inflate(descriptor) if lines else ():
        while waiting and waiting[-1].offset < offset + len(piece):
            hashed.append((waiting.pop(), hashlib.sha256()))
        for line, digest in hashed.copy():
            end = line.offset + line.length - offset
            digest.update(piece[max(0, line.offset - offset) : end])
            if end <= len(piece) and digest.hexdigest() == line.sha256:
                found[line.file] = piece[end : end + 1] == b"\n"
            if end < len(piece):  # Else the next piece says whether there is a newline.
                hashed.remove((line, digest))
        offset += len(piece)
        yield b""
    return found


def _inflate(descriptor: int, path: str | None = None) -> Iterator[bytes]:
    """The text of a compressed file in small pieces, which may be empty; damage is logged with its path."""
    gunzip = Gunzip()
    place = size = 0
    while gunzip.problem is None:
        block = os.pread(descriptor, BLOCK_BYTES, place)
        place += len(block)
        if not block:
            gunzip.finish()
            break
        for text in gunzip.feed(block):
            size += len(text)
            yield from cut(text)
        yield b""  # A block may be empty, and other files need a turn.
    if gunzip.problem is not None and path is not None:
        LOGGER.warning(
            "%s: cannot be decompressed; lost the text after %d bytes: %s", path, size, gunzip.problem
        )
