"""The checksum at the end of each line of a journal."""

from __future__ import annotations

from typing import TYPE_CHECKING
from zlib import crc32

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

CHECKSUM = b'%b,"crc32":"%08x"}\n'
CHECKSUM_BYTES = len(CHECKSUM % (b"", 0))


def seal(line: bytes, crc: int = 0) -> bytes:
    """The line of an object that has members, with its CRC-32 as the last of them.

    `crc` is that of what comes before `line`, where that is only the end of a line.
    """
    body = line[:-2]
    return CHECKSUM % (body, crc32(body, crc))


def seal_pieces(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The same for a line in pieces, of which the last has its last two bytes."""
    held, crc = b"", 0
    for piece in pieces:
        yield held
        crc = crc32(held, crc)
        held = piece
    yield seal(held, crc)


def is_intact(line: bytes) -> bool:
    """Whether a line ends with the checksum that `seal` gives it."""
    body = line[:-CHECKSUM_BYTES]
    return line == CHECKSUM % (body, crc32(body))
