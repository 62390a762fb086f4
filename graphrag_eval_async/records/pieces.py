"""Decoding of JSON text. Large text is decoded in pieces, so that other threads run in between."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LARGE_BYTES = 1 << 18
"""Minimum size of text that is decoded in pieces."""

PIECE_BYTES = 1 << 16
"""Approximate size of a piece. A longer string or number is one piece."""

MOST_OPEN = 1024
"""Maximum nesting of lists and objects, which is that of the decoder."""

_TOKEN = re.compile(rb'[\[\]{},]|"(?:[^"\\]++|\\.)*+("?)', re.DOTALL)
_IN_STRING = re.compile(rb'(?:[^"\\]++|\\.)*+', re.DOTALL)
_LIST, _OBJECT, _COMMA, _QUOTE = b'[{,"'
_CLOSING = {_LIST: b"]"[0], _OBJECT: b"}"[0]}


def count_values(text: bytes) -> int:
    """Number of lists, objects and commas in JSON text, including those in strings. Estimates its values."""
    count = 0
    for start in range(0, len(text), LARGE_BYTES):  # Other threads run in between.
        piece = text[start : start + LARGE_BYTES]
        count += len(piece) - len(piece.translate(None, b"[{,"))
    return count


def loads(text: bytes | str, decode: Callable[[bytes | str], Any] = orjson.loads) -> Any:
    """The value of `decode(text)`, which decodes JSON.

    Raises:
        ValueError: the text is not JSON; `orjson.JSONDecodeError` with the default `decode`.
    """
    if len(text) < LARGE_BYTES:
        return decode(text)
    return _loads_in_pieces(text if isinstance(text, bytes) else text.encode(), decode)


def _loads_in_pieces(data: bytes, decode: Callable[[bytes], Any]) -> Any:
    """The value of `decode(data)`, with large lists and objects built from runs of their members."""
    stack: list[_Container] = []
    for place in _brackets_and_commas(data):
        character = data[place]
        if character in _CLOSING:
            if len(stack) == MOST_OPEN:
                raise orjson.JSONDecodeError("Recursion limit reached", "", place)
            stack.append(_Container(data, place, decode))
        elif not stack:
            raise _unexpected(data, place)
        elif character == _COMMA:
            stack[-1].end_member(place)
        else:
            container = stack.pop()
            if character != container.closing:
                raise _unexpected(data, place)
            if container.value is None:  # Small: decoded as a part of its parent.
                continue
            container.close(place)
            if not stack:
                _check_blank(data, 0, container.start)
                _check_blank(data, place + 1, len(data))
                return container.value
            stack[-1].insert(container, place + 1)
    if stack:
        raise _unexpected(data, len(data))
    return decode(data)  # It is large because of a string or number.


class _Container:
    """An open list or object, some of whose members are decoded.

    Attributes:
        start: offset of its opening bracket.
        closing: the bracket that closes it.
        value: the members decoded so far; None if there are none.
    """

    __slots__ = ("_data", "_decode", "_inserted", "_member", "_run", "closing", "start", "value")

    def __init__(self, data: bytes, start: int, decode: Callable[[bytes], Any]) -> None:
        self._data = data
        self._decode = decode
        self.start = start
        self.closing = _CLOSING[data[start]]
        self.value: Any = None
        self._run = self._member = start + 1  # Starts of the first undecoded and of the last member.
        self._inserted = False  # Whether the last member was inserted.

    def end_member(self, comma: int) -> None:
        """End a member at a comma."""
        if self._inserted or comma - self._run >= PIECE_BYTES:
            self.close(comma)
            self._run = comma + 1
            self._inserted = False
        self._member = comma + 1

    def close(self, end: int) -> None:
        """Decode the members up to `end`."""
        if self._inserted:
            _check_blank(self._data, self._run, end)
        else:
            self._take(self._run, end)

    def insert(self, child: _Container, end: int) -> None:
        """Append a container that was decoded separately and ends at `end` as the last member."""
        data, member = self._data, self._member
        if self._inserted:
            raise _unexpected(data, child.start)
        if self._run < member:
            self._take(self._run, member - 1)
        if self.closing == _CLOSING[_LIST]:
            _check_blank(data, member, child.start)
            self.value = self.value or []
            self.value.append(child.value)
        else:
            self._take(member, child.start, b"[]")
            self.value[next(iter(self._loads(member, child.start, b"[]")))] = child.value
        self._run, self._inserted = end, True

    def _take(self, start: int, end: int, last: bytes = b"") -> None:
        members = self._loads(start, end, last)
        if not members:
            raise _unexpected(self._data, end)
        if self.value is None:
            self.value = members
        elif type(members) is dict:
            self.value.update(members)
        else:
            self.value += members

    def _loads(self, start: int, end: int, last: bytes) -> Any:
        data = self._data
        text = b"%c%b%b%c" % (data[self.start], data[start:end], last, self.closing)
        try:
            return self._decode(text)
        except orjson.JSONDecodeError as error:
            raise orjson.JSONDecodeError(error.msg, "", start + max(0, error.pos - 1)) from None


def _brackets_and_commas(data: bytes) -> Iterator[int]:
    """Offsets of the brackets and commas outside strings."""
    place, in_string = 0, False
    while place < len(data):
        end = place + PIECE_BYTES
        if in_string:
            found = _IN_STRING.match(data, place, end)
            assert found is not None  # noqa: S101  (also matches the empty string)
            if found.end() == place and data[place] != _QUOTE:  # A backslash at the end of the text.
                return
            place = found.end()
            if data[place : place + 1] == b'"':
                place, in_string = place + 1, False
            continue
        for token in _TOKEN.finditer(data, place, end):
            if data[token.start()] != _QUOTE:
                yield token.start()
            elif not token[1]:
                place, in_string = token.end(), True
                break
        else:
            place = end


def _check_blank(data: bytes, start: int, end: int) -> None:
    if data[start:end].strip(b" \t\r\n"):
        raise _unexpected(data, start)


def _unexpected(data: bytes, place: int) -> orjson.JSONDecodeError:
    found = f"unexpected character {chr(data[place])!r}" if place < len(data) else "unexpected end of data"
    return orjson.JSONDecodeError(found, "", place)
