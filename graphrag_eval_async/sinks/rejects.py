"""Writes lines that could not be evaluated, with their positions and reasons."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from graphrag_eval_async.unicode import in_utf8

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphrag_eval_async.records import Reject
    from graphrag_eval_async.sinks.files import LineFile

MAX_REJECT_BYTES = 1 << 30
"""Maximum size of a file of rejects; beyond it, rejects are written without their content."""

HEAD_CHARACTERS = 1000
"""Characters that are written of a line over the length limit."""


class Rejected(NamedTuple):
    """A reject to write to a journal, and the `source` of its line."""

    reject: Reject
    source: Any


class RejectWriter:
    """Writes each reject as a line of JSON to a file. Streams write large ones in a thread.

    A line has the key `file`, if the reject has a path, and the keys of `Reject`, except `head`. It
    also has the rejected line under the key `content`, or `content_base64` if it is not UTF-8. If
    the rejected line is longer than the limit for lines, its first 1,000 characters are under the
    key `head` instead.

    Attributes:
        lines: the file. It may be set after a stream was created with this writer.
    """

    def __init__(self, lines: LineFile | None = None, *, max_bytes: int = MAX_REJECT_BYTES) -> None:
        """Prepare to write rejects.

        Args:
            lines: the file; None if it is set later.
            max_bytes: maximum size of the file. Rejects that exceed it are written without their
                content.
        """
        self.lines = lines
        self._max_bytes = max_bytes

    def __call__(self, reject: Reject) -> None:
        """Write a reject; block until it is written."""
        assert self.lines is not None  # noqa: S101
        first_keys = {}
        if reject.path is not None:
            first_keys["file"] = in_utf8(reject.path)
        remaining_bytes = self._max_bytes - self.lines.length
        self.lines.write(reject_line(reject, first_keys, remaining_bytes))


def reject_line(reject: Reject, first_keys: Mapping[str, Any], remaining_bytes: int) -> bytes:
    """Return a reject as a line of JSON.

    Args:
        reject: the reject.
        first_keys: keys and values with which the line begins.
        remaining_bytes: how many bytes the file may still grow. A line with more bytes does not get
            the content of the rejected line.
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
    record_with_content = {**record, **_content(reject)}
    line = orjson.dumps(record_with_content, option=orjson.OPT_APPEND_NEWLINE)
    if len(line) <= remaining_bytes:
        return line
    return orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE)


def _content(reject: Reject) -> dict[str, str]:
    """Return a dict with the rejected line, or with its beginning if the rest was not kept.

    Its only key says which it is.
    """
    if reject.content is None:
        return {"head": reject.head.decode(errors="replace")[:HEAD_CHARACTERS]}
    try:
        return {"content": reject.content.decode()}
    except UnicodeDecodeError:
        return {"content_base64": base64.b64encode(reject.content).decode()}
