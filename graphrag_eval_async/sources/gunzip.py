"""Bytes out of gzip, piece by piece."""

from __future__ import annotations

import zlib
from contextlib import suppress
from typing import Any

GZIP = 31
"""For zlib: the largest window, with the header and the checksum of gzip."""


class Gunzip:
    """Decompresses what comes of a gzip file, of any number of members.

    Attributes:
        problem: what is wrong with the file, once that is known.
    """

    def __init__(self) -> None:
        self.problem: str | None = None
        self._member: Any = None
        self._is_first = True

    def feed(self, data: bytes) -> bytes:
        """What these bytes give, at most a thousand times as much; if they are corrupt, all before that."""
        pieces = []
        while data and self.problem is None:
            if self._member is None:
                if not self._is_first and not (data := data.lstrip(b"\0")):
                    break  # Zeros may fill up a file.
                self._member = zlib.decompressobj(GZIP)
                self._is_first = False
            pieces.append(self._decompress(data))
            data = self._member.unused_data
            if self._member.eof:
                self._member = None
        return b"".join(pieces)

    def _decompress(self, data: bytes) -> bytes:
        before = self._member.copy()
        try:
            content: bytes = self._member.decompress(data)
        except zlib.error as error:
            self.problem = str(error)
        else:
            return content
        pieces: list[bytes] = []
        with suppress(zlib.error):  # It gives nothing with the error; what comes before comes byte by byte.
            pieces.extend(before.decompress(bytes([byte])) for byte in data)
        return b"".join(pieces)

    def finish(self) -> None:
        """There are no more bytes."""
        if self._member is not None and self.problem is None:
            self.problem = "it ends in the middle of its compressed data"
