"""Writes lines that could not be evaluated, with their positions and reasons."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from graphrag_eval_async.errors import in_utf8

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphrag_eval_async.records import Reject
    from graphrag_eval_async.sinks.files import LineFile

MAX_REJECT_BYTES = 1 << 30
"""Maximum size of a file of rejects; beyond it, rejects are written without their content."""


class Rejected(NamedTuple):
    """A reject to store, and the `source` of its line."""

    reject: Reject
    source: Any


class RejectWriter:
    """Writes each reject as a line of JSON; streams write large ones in a thread.

    The first key is `file`, if the reject has a path. Then come the keys of `Reject`, except
    `head`, and `content`: the whole line as text, or `content_base64` if the line is not UTF-8. A
    line that is longer than the limit has its first 1,000 characters as `head` instead. If the file
    would exceed `max_bytes`, the content is omitted. `lines`, the file, may be opened after the
    stream is created.
    """

    def __init__(self, lines: LineFile | None = None, *, max_bytes: int = MAX_REJECT_BYTES) -> None:
        self.lines = lines
        self._max_bytes = max_bytes

    def __call__(self, reject: Reject) -> None:
        assert self.lines is not None  # noqa: S101
        more = {} if reject.path is None else {"file": in_utf8(reject.path)}
        self.lines.write(reject_line(reject, more, self._max_bytes - self.lines.length))


def reject_line(reject: Reject, more: Mapping[str, Any], room: int) -> bytes:
    """Return the line of a reject: keys of `more`, its own, and its content if it fits in
    `room`.
    """
    record = {
        **more,
        "line": reject.line,
        "offset": reject.offset,
        "reason": reject.reason,
        "message": in_utf8(reject.message),
        "length": reject.length,
        "sha256": reject.sha256,
    }
    line = orjson.dumps({**record, **_content(reject)}, option=orjson.OPT_APPEND_NEWLINE)
    return line if len(line) <= room else orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE)


def _content(reject: Reject) -> dict[str, str]:
    if reject.content is None:
        return {"head": reject.head.decode(errors="replace")[:1000]}
    try:
        return {"content": reject.content.decode()}
    except UnicodeDecodeError:
        return {"content_base64": base64.b64encode(reject.content).decode()}
