"""Rejects: lines and records that could not be evaluated, and why."""

from __future__ import annotations

import dataclasses
import hashlib
from collections import Counter
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.errors import in_utf8
from graphrag_eval_async.records.line import (
    SHORTEN,
    Reason,
    Unwritable,
)  # `Reason`, to decode rejects.

if TYPE_CHECKING:
    from graphrag_eval_async.records.line import Line, LongLine, Record

HEAD_BYTES = 4096
"""Bytes of a rejected line that are kept in memory."""

MESSAGE_CHARACTERS = 500
"""Maximum length of a message, which may quote a key or an id of any length."""

KEPT_REJECTS = 10_000
"""Maximum number of rejects that a stream keeps. More are only counted, so that memory stays
bounded.
"""


@dataclasses.dataclass(frozen=True, slots=True)
class Reject:
    """One line, or one record of an iterable, that could not be evaluated.

    Attributes:
        line: number of the line, or of the record in its iterable, from 1; 0 if it is not known,
            since only a part of the file is read.
        offset: bytes of the source before the line.
        reason: one of the words of `Reason`.
        message: what is wrong, with the key if there is one, and what to do.
        head: the first 4 KiB of the line.
        length: length of the line in bytes, without the newline.
        sha256: hexadecimal digest of the whole line, without the newline.
        content: the whole line; None if it is over the limit, and in collected rejects.
        path: path of the file, if known.
    """

    line: int
    offset: int
    reason: Reason
    message: str
    head: bytes
    length: int
    sha256: str
    content: bytes | None = dataclasses.field(default=None, repr=False, compare=False)
    path: str | None = None

    def __str__(self) -> str:
        place = f"line {self.line} (byte {self.offset})" if self.line else f"byte {self.offset}"
        return f"{place}: {self.reason}: {self.message}"

    def described(self) -> str:
        """Text for a log: with the path, on one line, without control characters."""
        text = f"{self.path}: {self}" if self.path is not None else str(self)
        return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def reject(line: Line | Unwritable, reason: Reason, message: str) -> Reject:
    """The reject for a line that is in memory."""
    data = line.data
    if len(message) > MESSAGE_CHARACTERS:
        message = message[:MESSAGE_CHARACTERS] + "..."
    message = in_utf8(message)  # A key may hold a lone surrogate.
    return _at(
        line, reason, message, data[:HEAD_BYTES], len(data), hashlib.sha256(data).hexdigest(), data
    )


def reject_unread(record: LongLine | Unwritable) -> Reject:
    """The reject for a line over the length limit, or a record that has no JSON text."""
    if isinstance(record, Unwritable):
        return reject(record, record.reason, record.message)
    message = f"{record.length} bytes, more than {record.limit}; {SHORTEN}"
    if not record.whole:
        message = f"no newline yet; so far: {message}"
    reason: Reason = "too_long" if record.whole else "incomplete"
    return _at(record, reason, message, record.head, record.length, record.sha256)


def _at(record: Record, reason: Reason, *rest: Any) -> Reject:
    file = record.file
    number = 0 if file is not None and file.is_part else record.number
    rejected = Reject(number, record.offset, reason, *rest)
    return rejected if file is None else dataclasses.replace(rejected, path=file.path)


class Rejects(list[Reject]):
    """The rejects of a stream: a list of the kept ones, and counts of all.

    Attributes:
        counts: number of rejects by reason, kept or not.
    """

    def __init__(self) -> None:
        self.counts: Counter[Reason] = Counter()

    @property
    def total(self) -> int:
        """Number of rejects, kept or not."""
        return self.counts.total()

    def add(self, reject: Reject, *, keep: bool = True) -> None:
        """Count one reject. If fewer than `KEPT_REJECTS` are kept, `keep` it too, without its
        content.
        """
        self.counts[reject.reason] += 1
        if keep and len(self) < KEPT_REJECTS:
            self.append(dataclasses.replace(reject, content=None))

    def __repr__(self) -> str:
        return f"<Rejects: {self.total} in total, {len(self)} kept: {dict(self.counts)}>"
