"""Adds checksums to lines of JSON, and checks them."""

from __future__ import annotations

from typing import Any
from zlib import crc32

import orjson

SEALED_LINE = b'%b,"crc32":"%08x"}\n'
"""A line with a checksum, given the text of an object without its closing brace, and the CRC-32."""

CHECKSUM_BYTES = len(SEALED_LINE % (b"", 0))
"""The length of the end of such a line, after the text."""


def seal(line: bytes) -> bytes:
    """Add a CRC-32 as the last member to the line of a JSON object, which must not be empty."""
    text = memoryview(line)[: -len("}\n")]
    return SEALED_LINE % (text, crc32(text))


def unseal(line: bytes) -> Any:
    """Return the object in a line that `seal` has returned, without its checksum.

    Raises:
        ValueError: the line is damaged.
    """
    text = memoryview(line)[:-CHECKSUM_BYTES]
    expected_end = SEALED_LINE % (b"", crc32(text))
    if not line.endswith(expected_end):
        raise ValueError("its checksum is missing or wrong")
    record = orjson.loads(line)
    del record["crc32"]
    return record
