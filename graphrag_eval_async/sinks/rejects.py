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

HEAD_CHARACTERS = 1000
"""Characters that are written of a line over the length limit."""


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
        """Write a reject; block until it is written."""
        assert self.lines is not None  # noqa: S101
        first_keys = {}
        if reject.path is not None:
            first_keys["file"] = in_utf8(reject.path)
        room = self._max_bytes - self.lines.length
        self.lines.write(reject_line(reject, first_keys, room))


def reject_line(reject: Reject, first_keys: Mapping[str, Any], room: int) -> bytes:
    """Return a reject as a line of JSON.

    Args:
        reject: the reject.
        first_keys: keys of the line before those of the reject.
        room: maximum length of a line with the content of the reject; a longer one goes without.
    """
    record = {
        **first_keys,
        "line": reject.line,
        "offset": reject.offset,
        "reason": reject.reason,
        "message": in_utf8(reject.message),
        "length": reject.length,
        "sha256": reject.sha256,
    }
    line = orjson.dumps({**record, **_content(reject)}, option=orjson.OPT_APPEND_NEWLINE)
    if len(line) <= room:
        return line
    return orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE)


def _content(reject: Reject) -> dict[str, str]:
    """Return the content of a rejected line, or its start, under the key that says which it is."""
    if reject.content is None:
        return {"head": reject.head.decode(errors="replace")[:HEAD_CHARACTERS]}
    try:
        return {"content": reject.content.decode()}
    except UnicodeDecodeError:
        return {"content_base64": base64.b64encode(reject.content).decode()}
