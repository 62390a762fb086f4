"""Rejects: lines and records that could not be evaluated, and why."""

from __future__ import annotations

import dataclasses
import hashlib
from collections import Counter
from typing import TYPE_CHECKING

# `Reason` is imported at run time, too: msgspec decodes rejects by their annotations.
from graphrag_eval_async.records.line import SHORTEN, Reason, Unwritable
from graphrag_eval_async.unicode import in_utf8

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
        place = f"byte {self.offset}"
        if self.line:
            place = f"line {self.line} ({place})"
        return f"{place}: {self.reason}: {self.message}"

    def described(self) -> str:
        """Return the reject as one line of a log, with its path and without control characters."""
        text = str(self)
        if self.path is not None:
            text = f"{self.path}: {text}"
        # The message and the path may hold characters that would control a terminal.
        return "".join(
            character if character.isprintable() else repr(character)[1:-1] for character in text
        )


def reject(line: Line | Unwritable, reason: Reason, message: str) -> Reject:
    """Return the reject for a line that was read whole.

    Args:
        line: the line.
        reason: why it cannot be evaluated, in a word.
        message: what is wrong, and what to do.
    """
    if len(message) > MESSAGE_CHARACTERS:
        message = f"{message[:MESSAGE_CHARACTERS]}..."
    return Reject(
        line=_number_of(line),
        offset=line.offset,
        reason=reason,
        # The message may quote a key with a lone surrogate, which UTF-8 cannot encode.
        message=in_utf8(message),
        head=line.data[:HEAD_BYTES],
        length=len(line.data),
        sha256=hashlib.sha256(line.data).hexdigest(),
        content=line.data,
        path=_path_of(line),
    )


def reject_unread(record: LongLine | Unwritable) -> Reject:
    """Return the reject for a line that is too long to read, or a record without JSON text."""
    if isinstance(record, Unwritable):
        return reject(record, record.reason, record.message)

    reason: Reason = "too_long"
    message = f"{record.length} bytes, more than {record.limit}; {SHORTEN}"
    if not record.whole:
        # The file may still grow, and the line with it.
        reason = "incomplete"
        message = f"no newline yet; so far: {message}"
    return Reject(
        line=_number_of(record),
        offset=record.offset,
        reason=reason,
        message=message,
        head=record.head,
        length=record.length,
        sha256=record.sha256,
        path=_path_of(record),
    )


def _number_of(record: Record) -> int:
    """Return the number of a line; 0 if it is not known, since only a part of the file is read."""
    if record.file is not None and record.file.is_part:
        return 0
    return record.number


def _path_of(record: Record) -> str | None:
    """Return the path of the file from which a record was read; None if it is not known."""
    if record.file is None:
        return None
    return record.file.path


class Rejects(list[Reject]):
    """The rejects of a stream: a list of those that are kept, and counts of all.

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
        """Count a reject, and append it to the list without its content.

        Args:
            reject: the reject.
            keep: whether to append it; it is not appended in any case after `KEPT_REJECTS` others.
        """
        self.counts[reject.reason] += 1
        has_room = len(self) < KEPT_REJECTS
        if keep and has_room:
            self.append(dataclasses.replace(reject, content=None))

    def __repr__(self) -> str:
        return f"<Rejects: {self.total} in total, {len(self)} kept: {dict(self.counts)}>"
