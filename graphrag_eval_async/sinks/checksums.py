"""Lines of JSON with a checksum as their last member."""

from __future__ import annotations

from typing import Any
from zlib import crc32

import orjson

CHECKSUM = b'%b,"crc32":"%08x"}\n'
"""End of a line with a checksum, after the text without its closing brace and newline."""

CHECKSUM_BYTES = len(CHECKSUM % (b"", 0))


def seal(line: bytes) -> bytes:
    """Return the line of a nonempty JSON object with its CRC-32 added as the last member."""
    text = memoryview(line)[: -len("}\n")]
    return CHECKSUM % (text, crc32(text))


def unseal(line: bytes) -> Any:
    """Return the object in a line made by `seal`, without the checksum.

    Raises:
        ValueError: the line is damaged.
    """
    text = memoryview(line)[:-CHECKSUM_BYTES]
    if not line.endswith(CHECKSUM % (b"", crc32(text))):
        raise ValueError("its checksum is missing or wrong")
    record = orjson.loads(line)
    del record["crc32"]
    return record
