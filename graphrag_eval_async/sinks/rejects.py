"""Writes lines that could not be evaluated, with their positions and reasons."""

from __future__ import annotations

import base64
from io import BytesIO
from typing import TYPE_CHECKING, Any

import orjson

from graphrag_eval_async.errors import in_utf8

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from graphrag_eval_async.records import Reject
    from graphrag_eval_async.sinks.line_file import LineFile

PIECE_BYTES = 3 << 16
"""Bytes of a long line in memory at a time; a multiple of 3, so that the pieces join to one base64 text."""

MAX_REJECT_BYTES = 1 << 30
"""Maximum size of a file of rejects; beyond it, rejects are written without their content."""


class RejectWriter:
    """Writes each reject as a line of JSON; streams write large ones in a thread.

    The first key is `file`, if the reject has a path. Then come the keys of `Reject`, except `head`, and
    `content`: the whole line as text, or `content_base64` if the line is not UTF-8 or was too long for
    memory. If the file would exceed `max_bytes`, the content is omitted.

    Attributes:
        lines: the file; may be opened after the stream is created.
    """

    def __init__(self, lines: LineFile | None = None, *, max_bytes: int = MAX_REJECT_BYTES) -> None:
        self.lines = lines
        self._max_bytes = max_bytes

    def __call__(self, reject: Reject) -> None:
        """Write a reject.

        Raises:
            OSError: the reject cannot be written.
        """
        assert self.lines is not None  # noqa: S101
        more = {} if reject.path is None else {"file": in_utf8(reject.path)}
        self.lines.write(reject_line(reject, more, self._max_bytes - self.lines.length))


def reject_line(reject: Reject, more: Mapping[str, Any], room: int) -> Iterator[bytes]:
    """Yield the line of a reject in pieces: keys of `more`, its own, and its content if it fits in `room`."""
    record = {
        **more,
        "line": reject.line,
        "offset": reject.offset,
        "reason": reject.reason,
        "message": in_utf8(reject.message),
        "length": reject.length,
        "sha256": reject.sha256,
    }
    content = reject.content
    line = orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE)
    if isinstance(content, bytes):
        try:
            whole = orjson.dumps({**record, "content": content.decode()}, option=orjson.OPT_APPEND_NEWLINE)
        except UnicodeDecodeError:
            content = BytesIO(content)
        else:
            yield whole if len(whole) <= room else line
            return
    head, tail = line[:-2] + b',"content_base64":"', b'"}\n'
    if content is None or len(head) + -(-reject.length // 3) * 4 + len(tail) > room:
        yield line
        return
    yield head
    while piece := content.read(PIECE_BYTES):
        yield base64.b64encode(piece)
    yield tail
