"""Rotation: which log an opened file is, however logs were renamed, truncated, copied or replaced.

A file may be, in the order in which that is checked:

1. a log of this run, under the same inode, whatever its name is now;
2. a longer version of a log that was deleted, as rsync makes it: the log goes on in it;
3. a file that an earlier run has read: it is resumed (`identity` says how it is recognised);
4. a copy of a log that is still there: nothing is read in it;
5. what was such a copy when it was seen, while the original was truncated since, or is unknown to
   this run: only what was not read of the original is read;
6. a copy, not seen before, of a log that was truncated: the log goes on in it;
7. what was a copy as in 5, and has another inode since it was compressed;
8. a new log.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from math import inf
from time import time
from typing import TYPE_CHECKING, NamedTuple

from graphrag_eval_async.records import FileId
from graphrag_eval_async.sources.follow.identity import (
    Start,
    has_line,
    is_repeated,
    line_start,
    root_of,
)
from graphrag_eval_async.sources.follow.log import Log, Place, Stamp, place_of, stamp_of
from graphrag_eval_async.sources.lines import LOGGER

if TYPE_CHECKING:
    from graphrag_eval_async.records import Copy, Position
    from graphrag_eval_async.sources.follow.identity import Identities
    from graphrag_eval_async.sources.follow.names import Candidate
    from graphrag_eval_async.sources.follow.table import LogTable


@dataclass(slots=True)
class Skips:
    """What is not read of new files.

    Attributes:
        older: seconds: files that were written before are read from their ends only.
        all_files: whether all files are.
        rotated: whether files are that were rotated.
        resumed: when the file was modified that has the line to start after, by its followed name.
            Files that were rotated later are read.
    """

    older: float
    all_files: bool = False
    rotated: bool = False
    resumed: dict[str, float] = field(default_factory=dict)

    def skip(self, candidate: Candidate) -> bool:
        """Return whether a new file is read from its end only."""
        modified = candidate.status.st_mtime
        if self.all_files or time() - modified > self.older:
            return True
        is_rotated = candidate.path != candidate.name and not candidate.is_member
        return self.rotated and is_rotated and modified < self.resumed.get(candidate.name, inf)


class SkippedCopy(NamedTuple):
    """A copy in which nothing has to be read unless it changes, or its original is truncated.

    Attributes:
        stamp: its stamp when that was found out.
        original: the log that it repeats; None once all was read that it has.
    """

    stamp: Stamp
    original: Log | None


class Rotation:
    """Finds out which log an opened file is.

    Attributes:
        identities: which file is which, from one run to the next.
        skips: what is not read of new files.
        paths_by_root: where the files are that this look has found, by the beginning of their keys.
    """

    def __init__(self, table: LogTable, identities: Identities, skips: Skips) -> None:
        self.identities = identities
        self.skips = skips
        self.paths_by_root: dict[str, str] = {}
        self._table = table
        self._copies: dict[Place, SkippedCopy] = {}

    def must_open(self, status: os.stat_result) -> bool:
        """Return whether a file has to be opened to find out what it is."""
        log = self._table.by_place.get(place_of(status))
        if log is not None:
            return not log.is_open and log.seen != stamp_of(status)
        copy = self._copies.get(place_of(status))
        if copy is None or copy.stamp != stamp_of(status):
            return True
        return copy.original is not None and self._table.is_truncated(copy.original)

    def log_of(self, candidate: Candidate, descriptor: int) -> Log | None:
        """Return the log that is, or goes on, in an open file; None if nothing is to be read in
        it.
        """
        same_log = self._same_log(candidate, descriptor)
        if same_log is not None:
            return same_log
        size = os.fstat(descriptor).st_size
        if size == 0 and candidate.former_paths:
            return None  # It may become a copy.

        log = self._replaced(candidate, descriptor) or self._read_earlier(candidate, descriptor)
        if log is not None:
            return log
        if candidate.former_paths:
            root = root_of(candidate.status, candidate.path)
            noted = self.identities.noted_copy(root, descriptor)
            if noted is None or not self._is_truncated(noted.original):
                original = self._original(candidate, descriptor, size)
                if original is not None:
                    self._skip_copy(candidate, original, size, descriptor)
                    return None
            if noted is not None:
                return self._rest_of_copy(candidate, noted, size)
            truncated = self._truncated_in(candidate, descriptor)
            if truncated is not None:
                return truncated
            moved = self.identities.moved_copy(root, descriptor)
            if moved is not None:
                return self._rest_of_copy(candidate, moved, size)
        return self._begin_new(candidate, descriptor, size)

    def _same_log(self, candidate: Candidate, descriptor: int) -> Log | None:
        """Return the log at the place of a file, unless it was truncated."""
        log = self._table.by_place.get(place_of(candidate.status))
        if log is None or log.is_open:
            return log
        # It was closed to make room.
        if os.fstat(descriptor).st_size >= log.seen.size and log.is_in(descriptor):
            return log
        self._table.leave_truncated(log)
        return None

    def _replaced(self, candidate: Candidate, descriptor: int) -> Log | None:
        """Return the log that had the name of a file and was deleted, if the file begins with
        all of it.
        """
        log = self._table.by_name.get(candidate.path)
        if log is None or not log.is_open:
            return None
        status = os.fstat(log.descriptor)
        is_deleted = status.st_nlink == 0
        if not is_deleted or not status.st_size:
            return None
        if not is_repeated(log.descriptor, descriptor, status.st_size):
            return None
        LOGGER.warning(
            "%s: replaced; skipped %d bytes that were already read", candidate.path, log.offset
        )
        self.identities.note_heir(root_of(candidate.status, candidate.path), log.file.key)
        return log

    def _read_earlier(self, candidate: Candidate, descriptor: int) -> Log | None:
        """Return the log of a file that an earlier run has read."""
        root = root_of(candidate.status, candidate.path)
        start = self.identities.resume(root, descriptor, candidate.path, self._is_there)
        if start is None:
            return None
        self.skips.resumed[candidate.name] = candidate.status.st_mtime
        return self._new_log(candidate, start)

    def _is_there(self, root: str, line: Position) -> bool:
        """Check whether a file with this root was found in this look, and has a line."""
        path = self.paths_by_root.get(root)
        if path is None:
            return False
        try:
            descriptor = self._table.open.open(path)
        except OSError:
            return False
        try:
            return has_line(descriptor, line)
        except OSError:
            return False
        finally:
            os.close(descriptor)

    def _begin_new(self, candidate: Candidate, descriptor: int, size: int) -> Log:
        is_skipped = self.skips.skip(candidate)
        offset = line_start(descriptor, size) if is_skipped else 0
        root = root_of(candidate.status, candidate.path)
        key = self.identities.key_from_start(root, descriptor)
        return self._new_log(candidate, Start(key, offset, is_skipped=is_skipped))

    def skip_unopened(self, candidate: Candidate) -> bool:
        """Skip a file that cannot be opened, if it would be skipped otherwise; return whether it
        is.
        """
        root = root_of(candidate.status)
        if not self.skips.skip(candidate) or self.identities.is_known(root):
            return False
        size = candidate.status.st_size
        log = self._new_log(candidate, Start(self.identities.new_key(root), size, is_skipped=True))
        log.place = place_of(candidate.status)
        log.seen = stamp_of(candidate.status)
        self._table.by_place[log.place] = log
        return True

    def _new_log(self, candidate: Candidate, start: Start) -> Log:
        self.identities.note_start(start)
        return Log(
            file=FileId(candidate.path, start.key, followed=True),
            name=candidate.name,
            number=start.number,
            offset=start.offset,
            skipped=start.offset if start.is_skipped else None,
        )

    # Copies

    def _original(self, candidate: Candidate, descriptor: int, size: int) -> Log | None:
        """Return the log that begins with all that a rotated file has."""
        for log in self._table.relatives(candidate.former_paths):
            if not log.is_open:
                if self._is_repeated_in_closed(descriptor, log, size):
                    return log
            elif is_repeated(descriptor, log.descriptor, size):
                return log
            else:
                self._table.check(log)  # It may have been truncated just now.
        return None

    def _is_truncated(self, key: str) -> bool:
        """Check whether the log with a key was truncated, and has not gone on in a copy."""
        return any(log.file.key == key for log in self._table.truncated.values())

    def _is_repeated_in_closed(self, descriptor: int, log: Log, size: int) -> bool:
        """Do the same as `is_repeated`, with a log that was closed to make room."""
        try:
            log_descriptor = self._table.open.open(log.name)
        except OSError:
            return False
        try:
            is_there = place_of(os.fstat(log_descriptor)) == log.place
            return is_there and is_repeated(descriptor, log_descriptor, size)
        finally:
            os.close(log_descriptor)

    def _skip_copy(self, candidate: Candidate, original: Log, size: int, descriptor: int) -> None:
        """Note that the first `size` bytes of a file are a copy, and skip it."""
        place = place_of(candidate.status)
        if place not in self._copies:
            LOGGER.warning(
                "%s: repeats %s; skipped unless it differs", candidate.path, original.name
            )
        self._copies[place] = SkippedCopy(stamp_of(candidate.status), original)
        root = root_of(candidate.status, candidate.path)
        self.identities.note_copy(root, original.file.key, descriptor, size)

    def _rest_of_copy(self, candidate: Candidate, noted: Copy, size: int) -> Log | None:
        """Return the log of what a file has that was not read of its original; None if that is
        nothing.

        Args:
            candidate: the file.
            noted: what was noted when it was seen to be a copy.
            size: the size of the file.
        """
        for log in self._table.truncated.values():
            if log.file.key != noted.original:
                continue
            if size > log.offset:
                return log
            if not log.unread:
                self._table.lost.pop(log, None)

        start = self.identities.resume_original(noted.original, size)
        if start is not None:
            return self._new_log(candidate, start)

        logs = self._table.by_place.values()
        is_original_there = any(log.file.key == noted.original for log in logs)
        if is_original_there and size > noted.length:
            # The original lacks the lines that were added to the copy.
            key = self.identities.new_key(root_of(candidate.status, candidate.path))
            return self._new_log(candidate, Start(key, noted.length, is_skipped=True))
        self._copies[place_of(candidate.status)] = SkippedCopy(stamp_of(candidate.status), None)
        return None

    def _truncated_in(self, candidate: Candidate, descriptor: int) -> Log | None:
        """Return the truncated log of which a rotated file has what was read last."""
        for former in candidate.former_paths:
            log = self._table.truncated.get(former)
            if log is not None and log.has_proof and log.is_in(descriptor):
                self.identities.note_heir(root_of(candidate.status, candidate.path), log.file.key)
                return log
        return None
