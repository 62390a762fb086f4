"""Decoding of JSON text. Large text is decoded in pieces, so that other threads run in between."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec
import orjson

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

LARGE_BYTES = 1 << 18
"""Minimum size of text that is decoded in pieces."""

PIECE_BYTES = 1 << 16
"""Approximate size of a piece. A longer string or number is one piece."""

MAX_LEVELS = 64
"""Levels of lists and objects that are taken apart. Each is scanned once, at about 1 GB a second; what is
large and nests deeper is one piece."""

MIN_BYTES_PER_VALUE = 4
"""Text with shorter values is one piece: decoding them takes less time than telling them apart."""

_MEMBERS = msgspec.json.Decoder(list[msgspec.Raw] | dict[str, msgspec.Raw])


def count_values(text: bytes) -> int:
    """Number of lists, objects and commas in JSON text, including those in strings. Estimates its values."""
    count, size = 0, PIECE_BYTES
    for start in range(0, len(text), size):  # Other threads run in between.
        piece = text[start : start + size]
        count += len(piece) - len(piece.translate(None, b"[{,"))
    return count


def loads(text: bytes | str, decode: Callable[[bytes | str], Any] = orjson.loads) -> Any:
    """The value of `decode(text)`, which decodes JSON.

    Of large text, a value may be invalid if an equal key that comes later in the same object replaces it.

    Raises:
        ValueError: the text is not JSON; `orjson.JSONDecodeError` with the default `decode`.
    """
    if len(text) < LARGE_BYTES:
        return decode(text)
    data = text if isinstance(text, bytes) else text.encode()
    if count_values(data) * MIN_BYTES_PER_VALUE <= len(data):
        with suppress(ValueError, RecursionError):
            return _in_pieces(data, decode, MAX_LEVELS)
    return decode(data)  # It tells what is wrong and where; and it reads long strings and what nests deeply.


def _in_pieces(text: bytes | msgspec.Raw, decode: Callable[[bytes], Any], levels: int) -> Any:
    members = _MEMBERS.decode(text)
    if isinstance(members, list):
        return _values(members, decode, levels - 1)
    return dict(zip(members, _values([*members.values()], decode, levels - 1), strict=True))


def _values(texts: Sequence[msgspec.Raw], decode: Callable[[bytes], Any], levels: int) -> list[Any]:
    """The values of members, of which small ones are decoded together."""
    values: list[Any] = []
    first = size = 0
    for index, text in enumerate(texts):
        length = len(text)
        if length >= PIECE_BYTES and levels and memoryview(text)[0] in b"[{":
            values += _joined(texts[first:index], decode)
            values.append(_in_pieces(text, decode, levels))
            first, size = index + 1, 0
        elif (size := size + length) >= PIECE_BYTES:
            values += _joined(texts[first : index + 1], decode)
            first, size = index + 1, 0
    return values + _joined(texts[first:], decode)


def _joined(texts: Sequence[msgspec.Raw], decode: Callable[[bytes], list[Any]]) -> list[Any]:
    return decode(b"[" + b",".join(texts) + b"]") if texts else []
