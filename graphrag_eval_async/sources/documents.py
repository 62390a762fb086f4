"""Conversion of JSON arrays, and objects that span several lines, to one object per line."""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress
from typing import TYPE_CHECKING

from graphrag_eval_async.records.line import BROKEN_LINE
from graphrag_eval_async.sources.lines import cut

if TYPE_CHECKING:
    import os
    from collections.abc import AsyncGenerator

LOOKED_AT = 1 << 10
"""Number of bytes at the start of a text that are examined."""

_START = rb"(?:\xef\xbb\xbf)?\s*+"
_ARRAY = re.compile(_START + rb"\[\s*+\{")
_OBJECT = re.compile(_START + rb'\{[ \t\r]*+\n\s*+["}]')
_UNDECIDED = re.compile(rb"\xef\xbb?\Z|" + _START + rb"(?:[\[{]\s*+)?\Z")
_TOKEN = re.compile(rb'\\.|["\[\]{},\n]', re.DOTALL)
_QUOTE, _COMMA, _NEWLINE = b'",\n'
_OPENING, _CLOSING = frozenset(b"[{"), frozenset(b"]}")


async def one_object_per_line(chunks: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    """The text of chunks, rewritten without changing its length: each object of an array is on its own line.

    An object that spans several lines becomes one line that is not JSON: see `BROKEN_LINE`. Only an array or
    object at the start of the text is rewritten, and objects spanning several lines that follow it.
    """
    rewriter = Rewriter()
    try:
        async for chunk in chunks:
            for piece in (chunk,) if rewriter.is_lines else cut(chunk):
                if text := piece if rewriter.is_lines else rewriter.feed(piece):
                    yield text
                else:
                    await asyncio.sleep(0)
        if rest := rewriter.finish():
            yield rest
    finally:
        await chunks.aclose()


def with_one_object_per_line(text: bytes) -> bytes:
    """A complete text, rewritten in the same way."""
    rewriter = Rewriter()
    return rewriter.feed(text) + rewriter.finish()


def is_one_object_per_line(path: str | os.PathLike[str]) -> bool:
    """Whether a file, judged by its start, needs no rewriting. True for a file that cannot be read."""
    start = b""
    with suppress(OSError), open(path, "rb") as file:
        start = file.read(LOOKED_AT)
    return begins_with_lines(start)


def begins_with_lines(start: bytes) -> bool:
    """Whether a text, judged by its start, needs no rewriting."""
    return not (_ARRAY.match(start) or _OBJECT.match(start))


class Rewriter:
    """Rewrites a text chunk by chunk.

    Attributes:
        is_lines: whether the remaining text has one object per line.
    """

    def __init__(self) -> None:
        self.is_lines = False
        self._held = b""  # Too short to decide, or ends inside an escape.
        self._depth = 0
        self._in_string = False
        self._is_array: bool | None = None  # None: not decided.

    def feed(self, chunk: bytes) -> bytes:
        """The next part of the text."""
        source, self._held = self._held + chunk if self._held else chunk, b""
        if (len(source) - len(source.rstrip(b"\\"))) % 2 or source.endswith(b"\n"):  # What follows decides.
            source, self._held = source[:-1], source[-1:]
        text, place = None, 0
        while place < len(source) and not self.is_lines:
            if self._is_array is None and not self._decide(source, place):
                self._held = source[place:] + self._held
                source = source[:place]
            elif not self.is_lines:
                text = text or bytearray(source)
                place = self._rewrite(source, text, place)
        done = source if text is None else bytes(text[: len(source)])
        return done + self.finish() if self.is_lines and self._held else done

    def _decide(self, source: bytes, place: int) -> bool:
        """Whether enough text is available to decide what begins at a place."""
        if _ARRAY.match(source, place):
            self._is_array = True
        elif _OBJECT.match(source, place):
            self._is_array = False
        elif len(source) - place < LOOKED_AT and _UNDECIDED.match(source, place):
            return False
        else:
            self.is_lines = True
        return True

    def _rewrite(self, source: bytes, text: bytearray, start: int) -> int:
        """Rewrite a text from a place; return the end of the array or object, or of the text."""
        for token in _TOKEN.finditer(source, start):
            place = token.start()
            character = source[place]
            if character == _NEWLINE:
                if not self._is_array and source.startswith(b"{", place + 1):  # It is cut off.
                    self._depth, self._is_array, self._in_string = 0, None, False
                    return place + 1
                if self._depth > bool(self._is_array):  # A tab is white space and cannot be in a string.
                    text[place : place + 1] = b"\t" if self._is_array else BROKEN_LINE
            elif character == _QUOTE:
                self._in_string = not self._in_string
            elif not self._in_string and self._take(character, text, place):
                return place + 1
        return len(source)

    def _take(self, character: int, text: bytearray, place: int) -> bool:
        """Rewrite a bracket or comma; returns whether it ends the array or object."""
        if character in _OPENING:
            self._depth += 1
            if self._depth == 1 and self._is_array:
                text[place : place + 1] = b" "
        elif character in _CLOSING:
            self._depth -= 1
            if self._depth <= 0:
                if self._is_array:
                    text[place : place + 1] = b"\n"
                self._depth, self._is_array = 0, None
                return True
        elif character == _COMMA and self._depth == 1 and self._is_array:
            text[place : place + 1] = b"\n"
        return False

    def finish(self) -> bytes:
        """The remaining text, at the end."""
        held, self._held = self._held, b""
        return held
