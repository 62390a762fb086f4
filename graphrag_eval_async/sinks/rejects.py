"""The rejects file: what could not be evaluated, whole, with its place and the reason."""

from __future__ import annotations

import base64
from io import BytesIO
from typing import TYPE_CHECKING, Any, BinaryIO, Self

import orjson

from graphrag_eval_async.sinks.line_file import LineFile

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Mapping

    from graphrag_eval_async.records import Reject

PIECE_BYTES = 3 << 16
"""How much of a long line is held at a time; in threes, so that the pieces join to one base64 text."""


class RejectsFile:
    """Writes rejects to a file as they are found, one JSON object a line; an `on_reject` callable.

    Its keys are those of `Reject`, but for `head`, and `content`: the whole line as text, or as
    `content_base64` where it is not UTF-8 or was too long to be held in memory.
    """

    def __init__(self, path: str | os.PathLike[str], *, wait: Callable[[int], object] | None = None) -> None:
        """Create or empty the file at `path`; see `LineFile`.

        Raises:
            OSError: it cannot be opened for writing.
        """
        self._lines = LineFile(path, wait=wait)

    def __call__(self, reject: Reject, *, file: str | None = None) -> None:
        """Write one reject; `file`, or the path that it knows itself, becomes its first key.

        Raises:
            OSError: it cannot be written.
        """
        name = reject.path if file is None else file
        self._lines.write(reject_line(reject, {} if name is None else {"file": _text(name)}))

    def close(self) -> None:
        """Close the file."""
        self._lines.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


def reject_line(reject: Reject, more: Mapping[str, Any]) -> Iterator[bytes]:
    """The line of a reject, in pieces: its keys after those of `more`."""
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
    """Without the lone surrogates that file names and quoted keys may hold and JSON cannot."""
    return text.encode(errors="backslashreplace").decode()
