"""Rotation: which log an opened file is, however logs were renamed, truncated, copied or replaced.

A file may be, in the order in which that is checked:

1. a log of this run, under the same inode, whatever its name is now;
2. a longer version of a log that was deleted, as rsync makes it: the log goes on in it;
3. a file that an earlier run has read: it is resumed (`identity` says how it is recognised);
4. a copy of a log that is still there: nothing is read in it, unless it was noted as one of a log
   that was truncated in this run (5);
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
        max_age: files that were last written more seconds ago are read from their ends only.
        all_files: whether all files are read from their ends only.
        rotated: whether rotated files are read from their ends only.
        resumed: when the file was modified that has the line to start after, by its followed name.
            Files that were rotated later are read.
    """

    max_age: float
    all_files: bool = False
    rotated: bool = False
    resumed: dict[str, float] = field(default_factory=dict)

    def skip(self, candidate: Candidate) -> bool:
        """Return whether a new file is read from its end only."""
        modified = candidate.status.st_mtime
        is_old = time() - modified > self.max_age
        if self.all_files or is_old:
            return True

        is_rotated = candidate.path != candidate.name and not candidate.is_member
        rotated_before = self.resumed.get(candidate.name, inf)
        return self.rotated and is_rotated and modified < rotated_before


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
        place = place_of(status)
        log = self._table.by_place.get(place)
        if log is not None:
            has_changed = log.seen != stamp_of(status)
            return not log.is_open and has_changed

        copy = self._copies.get(place)
        if copy is None or copy.stamp != stamp_of(status):
            return True
        return copy.original is not None and self._table.is_truncated(copy.original)

    def log_of(self, candidate: Candidate, descriptor: int) -> Log | None:
        """Return the log that is, or goes on, in an open file; None if nothing is to be read in
        it.
        """
        log = self._same_log(candidate, descriptor)
        if log is not None:
            return log

        size = os.fstat(descriptor).st_size
        is_rotated = bool(candidate.former_paths)
        if is_rotated and size == 0:
            # It may become a copy.
            return None

        log = self._replaced(candidate, descriptor) or self._read_earlier(candidate, descriptor)
        if log is not None:
            return log
        if is_rotated:
            is_copy, log = self._log_of_copy(candidate, descriptor, size)
            if is_copy:
                return log
        return self._begin_new(candidate, descriptor, size)

    def _log_of_copy(
        self, candidate: Candidate, descriptor: int, size: int
    ) -> tuple[bool, Log | None]:
        """Return whether a rotated file is a copy of a log, and the log of what is to be read in
        it, if there is anything.
        """
        root = root_of(candidate.status, candidate.path)
        noted_copy = self.identities.noted_copy(root, descriptor)
        is_of_truncated = noted_copy is not None and self._has_lost(noted_copy.original)
        if not is_of_truncated:
            original = self._original(candidate, descriptor, size)
            if original is not None:
                self._skip_copy(candidate, original, size, descriptor)
                return True, None

        if noted_copy is not None:
            return True, self._rest_of_copy(candidate, noted_copy, size)
        truncated_log = self._truncated_in(candidate, descriptor)
        if truncated_log is not None:
            return True, truncated_log
        moved_copy = self.identities.moved_copy(root, descriptor)
        if moved_copy is not None:
            return True, self._rest_of_copy(candidate, moved_copy, size)
        return False, None

    def _same_log(self, candidate: Candidate, descriptor: int) -> Log | None:
        """Return the log at the place of a file, unless it was truncated."""
        log = self._table.by_place.get(place_of(candidate.status))
        if log is None or log.is_open:
            return log
        # It was closed to make room.
        has_only_grown = os.fstat(descriptor).st_size >= log.seen.size and log.is_in(descriptor)
        if has_only_grown:
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
        is_empty = status.st_size == 0
        if not is_deleted or is_empty:
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
        """Return the log of a file that is no other one."""
        is_skipped = self.skips.skip(candidate)
        offset = 0
        if is_skipped:
            # The last line may still grow.
            offset = line_start(descriptor, size)
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
        key = self.identities.new_key(root)
        start = Start(key, offset=candidate.status.st_size, is_skipped=True)
        log = self._new_log(candidate, start)
        log.place = place_of(candidate.status)
        log.seen = stamp_of(candidate.status)
        self._table.by_place[log.place] = log
        return True

    def _new_log(self, candidate: Candidate, start: Start) -> Log:
        """Return the log of a file that is read from `start`, which is noted."""
        self.identities.note_start(start)
        skipped_bytes = None
        if start.is_skipped:
            skipped_bytes = start.offset
        return Log(
            file=FileId(candidate.path, start.key, followed=True),
            name=candidate.name,
            number=start.number,
            offset=start.offset,
            skipped=skipped_bytes,
        )

    # Copies

    def _original(self, candidate: Candidate, descriptor: int, size: int) -> Log | None:
        """Return the log that begins with all that a rotated file has."""
        for log in self._table.relatives(candidate.former_paths):
            if log.is_open:
                if is_repeated(descriptor, log.descriptor, size):
                    return log
                # It may have been truncated just now.
                self._table.check(log)
            elif self._is_repeated_in_closed(descriptor, log, size):
                return log
        return None

    def _has_lost(self, key: str) -> bool:
        """Check whether the log with a key was truncated, and has not gone on in a copy."""
        return any(log.file.key == key for log in self._table.truncated.values())

    def _is_repeated_in_closed(self, descriptor: int, log: Log, size: int) -> bool:
        """Check whether a log that was closed to make room begins with the first `size` bytes of a
        file.
        """
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

    def _rest_of_copy(self, candidate: Candidate, copy: Copy, size: int) -> Log | None:
        """Return the log of what a file has that was not read of its original; None if that is
        nothing.

        Args:
            candidate: the file.
            copy: what was noted when it was seen to be a copy.
            size: the size of the file.
        """
        # The original was truncated in this run: it goes on in the copy.
        for log in self._table.truncated.values():
            if log.file.key != copy.original:
                continue
            if size > log.offset:
                return log
            if log.unread == 0:
                # The copy shows that all was read.
                self._table.lost.pop(log, None)

        # An earlier run has read a part of the original, which is unknown to this run.
        start = self.identities.resume_original(copy.original, size)
        if start is not None:
            return self._new_log(candidate, start)

        # The original lacks the lines that were added to the copy.
        logs = self._table.by_place.values()
        is_original_there = any(log.file.key == copy.original for log in logs)
        if is_original_there and size > copy.length:
            key = self.identities.new_key(root_of(candidate.status, candidate.path))
            return self._new_log(candidate, Start(key, copy.length, is_skipped=True))

        # Nothing is left to read.
        self._copies[place_of(candidate.status)] = SkippedCopy(stamp_of(candidate.status), None)
        return None

    def _truncated_in(self, candidate: Candidate, descriptor: int) -> Log | None:
        """Return the truncated log of which a rotated file has what was read last."""
        for former_path in candidate.former_paths:
            log = self._table.truncated.get(former_path)
            if log is not None and log.has_proof and log.is_in(descriptor):
                self.identities.note_heir(root_of(candidate.status, candidate.path), log.file.key)
                return log
        return None
