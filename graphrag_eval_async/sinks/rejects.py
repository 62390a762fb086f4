"""Lines that could not be evaluated, as a file has them: whole, with their places and the reasons."""

from __future__ import annotations

import base64
from io import BytesIO
from typing import TYPE_CHECKING, Any, BinaryIO

import orjson

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from graphrag_eval_async.records import Reject
    from graphrag_eval_async.sinks.line_file import LineFile

PIECE_BYTES = 3 << 16
"""How much of a long line is held at a time; a multiple of 3, so that the pieces join to one base64 text."""


def write_reject(lines: LineFile, reject: Reject, *, file: str | None = None) -> None:
    """Write a reject as a JSON object on a line of its own.

    Its first key is `file`, or the path that the reject knows itself. Then come those of `Reject`, except
    `head`, and `content`: the whole line as text, or as `content_base64` if it is not UTF-8 or was too long
    to be held in memory.

    Raises:
        OSError: it cannot be written.
    """
    name = reject.path if file is None else file
    lines.write(reject_line(reject, {} if name is None else {"file": _text(name)}))


def reject_line(reject: Reject, more: Mapping[str, Any]) -> Iterator[bytes]:
    """The line of a reject, in pieces: the keys of `more`, then its own."""
    record = {
        **more,
        "line": reject.line,
        "offset": reject.offset,
        "reason": reject.reason,
        "message": _text(reject.message),
        "length": reject.length,
        "sha256": reject.sha256,
    }
    content = reject.content
    if isinstance(content, bytes):
        try:
            record["content"] = content.decode()
        except UnicodeDecodeError:
            content = BytesIO(content)
    if content is None or isinstance(content, bytes):
        yield orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE)
    else:
        yield orjson.dumps(record)[:-1] + b',"content_base64":"'
        yield from _base64(content)
        yield b'"}\n'


def _base64(content: BinaryIO) -> Iterator[bytes]:
    while piece := content.read(PIECE_BYTES):
        yield base64.b64encode(piece)


def _text(text: str) -> str:
    """Text with its lone surrogates escaped: file names and quoted keys may have them, JSON cannot."""
    return text.encode(errors="backslashreplace").decode()
