"""Looks at the followed files to find what has changed, and reads what was added.

The caller decides when to look, and passes the time. Everything here runs in a thread, since disks
may be slow.
"""

from __future__ import annotations

import os
import stat
from collections import deque
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from graphrag_eval_async.records import Position
from graphrag_eval_async.sources.follow.descriptors import lacks_descriptor
from graphrag_eval_async.sources.follow.identity import Identities, root_of
from graphrag_eval_async.sources.follow.log import place_of
from graphrag_eval_async.sources.follow.names import GONE, SETTLING_SECONDS, Candidate
from graphrag_eval_async.sources.follow.packed import PackedLogs
from graphrag_eval_async.sources.follow.rotation import Rotation, Skips
from graphrag_eval_async.sources.follow.table import LogTable
from graphrag_eval_async.sources.lines import LOGGER

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from graphrag_eval_async.records import Copy, Known, Record
    from graphrag_eval_async.sources.follow.log import Log
    from graphrag_eval_async.sources.follow.names import Paths
    from graphrag_eval_async.sources.follow.unread import Unread

CHUNK_BYTES = 1 << 18
"""Bytes read of a file before the next file gets a turn."""

PASS_BYTES = 1 << 20
"""Bytes read of all files in one pass."""

MAX_LISTINGS = 5
"""Maximum number of listings in one look. Chosen: even the second one rarely finds new files."""

NEVER_SEEN = -1
"""Sorts files that were never opened before all logs that wait to be opened again."""


class Chunk(NamedTuple):
    """What was read in one pass.

    Attributes:
        size: number of bytes that were read.
        lines: the lines that they complete.
    """

    size: int
    lines: list[Record]


class Logs:
    """Follows files. Call `begin` once, and then `look` and `read` again and again.

    Attributes:
        paths: the files that are followed.
        unread: the files that could not be read so far.
        identities: recognizes files that earlier runs have read.
    """

    def __init__(
        self, paths: Paths, unread: Unread, *, ignore_older: float, rotate_wait: float
    ) -> None:
        """Prepare to follow files.

        Args:
            paths: the files.
            unread: gets the files that cannot be read.
            ignore_older: age in seconds from which on existing lines of a file are skipped.
            rotate_wait: seconds after the last write for which a rotated file is still read.
        """
        self.paths = paths
        self.unread = unread
        self.identities = Identities({}, {})
        self._ignore_older = ignore_older
        self._rotate_wait = rotate_wait
        self._reset()

    def _reset(self) -> None:
        """Forget all files that were found, and apply the present `identities` to the next ones."""
        self._table = LogTable(self.unread)
        self._rotation = Rotation(self._table, self.identities, Skips(self._ignore_older))
        self._compressed_logs = PackedLogs(self.paths, self._table, self.unread)
        # Files to open once there is room.
        self._postponed: deque[Candidate] = deque()

    def begin(
        self,
        known: Mapping[str, Known],
        copies: Mapping[str, Copy | str],
        start: str | Position | None,
        now: float,
    ) -> None:
        """Find the existing files, and where to begin reading each of them.

        Args:
            known: how far earlier runs have read each file, by its key.
            copies: the files that earlier runs found to repeat another file; see `Identities`.
            start: the argument of `follow_jsonl` in the first run; None in later runs.
            now: the time.
        """
        start_line = start if isinstance(start, Position) else None
        self.identities = Identities(known, copies, start_line)
        self._reset()

        skips = self._rotation.skips
        skips.all_files = start == "end"
        # A later run also reads files that were rotated since the run before.
        is_first_run = start is not None
        skips.rotated = is_first_run
        self.look(now, at_once=True)
        is_start_line_found = bool(skips.resumed)
        if start_line is not None and not is_start_line_found:
            LOGGER.warning(
                "%s: line to start after not found; reading from the start", start_line.path
            )
        self._compressed_logs.find_unread(self._rotation)

        # Files that appear from now on are read from their start, unless they are old.
        self._rotation.skips = Skips(self._ignore_older)

    # Looking

    def look(self, now: float, *, at_once: bool = False) -> None:
        """Find the files that are new, have grown, or were truncated, renamed or deleted.

        Args:
            now: the time.
            at_once: whether to list all directories, even those that seem unchanged.
        """
        self._table.now = now
        for _ in range(MAX_LISTINGS):
            has_found_new = self._look_once(at_once=at_once)
            if not has_found_new:
                return
            # Copies of the new logs may have appeared after the listing, so list once more.
            at_once = True

    def _look_once(self, *, at_once: bool) -> bool:
        """Check all open logs, list the directories, and open new files.

        Returns:
            whether a file was opened.
        """
        # Check the open logs. Their sizes are taken before the directories are listed: if a log is
        # copied and then grows, the bytes that the copy lacks are read only after the listing has
        # found the copy.
        checked_names = dict.fromkeys(self.paths.names)
        candidates = self._check_named(checked_names)
        for log in self._table.nameless():
            self._table.check(log)

        # List the directories. If a log was truncated, list all of them: it may have been copied
        # before, and the copy has the rest of its lines.
        was_any_truncated = bool(self._table.lost)
        if self.paths.look(self._table.now, at_once=at_once or was_any_truncated):
            followed = set(self.paths.names)
            self._table.keep_names(followed)
            candidates = [candidate for candidate in candidates if candidate.name in followed]
            new_names = [name for name in self.paths.names if name not in checked_names]
            candidates += self._check_named(new_names)
            candidates += self.paths.rotated()

        # Open the new files, and those that were replaced or truncated.
        has_found_new = self._open_candidates(candidates)
        self._warn_of_lost()

        # Close logs that were renamed or deleted, once nobody writes to them any more.
        self._update_names()
        self._close_nameless()
        return has_found_new

    def _check_named(self, names: Iterable[str]) -> list[Candidate]:
        """Check the open logs at these paths, and return the files there that are not open.

        Args:
            names: followed paths.
        """
        candidates = []
        table = self._table
        # A log that has changed after this time may change again without a new time stamp.
        settled = table.now - SETTLING_SECONDS
        for name in names:
            try:
                status = os.stat(name)
            except GONE:
                table.by_name.pop(name, None)
                continue
            except OSError as error:
                self.unread.retry(name, error)
                continue

            # For an idle file, nothing but the following lines runs. Plain tuples are faster than
            # a `Place` and a `Stamp`, and equal them.
            log = table.by_place.get((status.st_dev, status.st_ino))
            if log is None:
                # Another file has this path now. The one that had it before is read to its end.
                former_log = table.by_name.get(name)
                if former_log is not None and former_log.is_open:
                    table.check(former_log)
                candidates.append(Candidate(status, name, name))
                continue

            table.by_name[name] = log
            is_changed = log.seen != (status.st_size, status.st_mtime_ns)
            has_changed_lately = log.changed >= settled
            if log.is_open and (is_changed or has_changed_lately):
                table.check(log, status)
            if not log.is_open:
                # It was closed to make room, or just now because it was truncated.
                candidates.append(Candidate(status, name, name))
        return candidates

    def _open_candidates(self, candidates: list[Candidate]) -> bool:
        """Open the files that are new or have changed; return whether one of them is read."""
        self._postponed.clear()
        changed = [file for file in candidates if self._rotation.must_open(file.status)]
        self._rotation.paths_by_root = {root_of(file.status): file.path for file in changed}
        has_found_new = False
        for file in sorted(changed, key=self._opening_order):
            # What an earlier file turned out to be may make it unnecessary to open this one.
            if self._rotation.must_open(file.status) and self._open_candidate(file):
                has_found_new = True
        return has_found_new

    def _opening_order(self, candidate: Candidate) -> tuple[bool, int, int]:
        """Return the key that sorts files in the order in which they are opened.

        Files that are not rotated come first, since rotated ones may be copies of them. Among
        rotated files, those that earlier runs have read come first, and then long ones, since a
        short copy may lack a part. Among others, the one that waits longest to be opened comes
        first, since there may not be room for all.
        """
        # Whether an earlier run has read a file with this inode. It may have been another file.
        is_known = self.identities.is_known(root_of(candidate.status))
        is_rotated = bool(candidate.former_paths)
        if is_rotated:
            return is_rotated, not is_known, -candidate.status.st_size

        log = self._table.by_place.get(place_of(candidate.status))
        last_seen = NEVER_SEEN
        if log is not None:
            last_seen = log.seen.modified_ns
        return is_rotated, last_seen, not is_known

    def _open_candidate(self, candidate: Candidate) -> bool:
        """Open a file, and find out which log it is and whether it is to be read.

        Returns:
            whether the file is read from now on. It is not if it cannot be opened, or repeats
            another file.
        """
        table = self._table
        descriptor = self._open_file(candidate)
        if descriptor is None:
            return False

        # Find out which log it is. The descriptor stays open only if the log is read from it.
        try:
            log = self._find_log(candidate, descriptor)
        except OSError as error:
            self.unread.retry(candidate.path, error)
            log = None
        is_descriptor_used = log is not None and log.descriptor == descriptor
        if not is_descriptor_used:
            os.close(descriptor)

        # Update the name of the log.
        table.by_name.pop(candidate.path, None)
        if log is None:
            return False
        if candidate.path == candidate.name:
            table.by_name[candidate.name] = log
        else:
            table.rename(log, candidate.name)
            log.nameless_since = table.now
        table.check(log)
        return True

    def _open_file(self, candidate: Candidate) -> int | None:
        """Open a file; return its descriptor, or None if it cannot be opened now.

        If too many files are open, this one is postponed until there is room. Other failures are
        added to `unread`, unless the file is gone.
        """
        table = self._table
        if not table.open.make_room():
            self._postponed.append(candidate)
            return None
        try:
            return table.open.open(candidate.path)
        except GONE:
            table.by_name.pop(candidate.path, None)
        except OSError as error:
            table.by_name.pop(candidate.path, None)
            can_close_others = lacks_descriptor(error) and len(table.open) > 0
            if can_close_others:
                self._postponed.append(candidate)
            else:
                # A file whose existing lines are skipped need not be opened for that.
                is_skipped = self._rotation.skip_unopened(candidate)
                if not is_skipped:
                    self.unread.retry(candidate.path, error)
        return None

    def _find_log(self, candidate: Candidate, descriptor: int) -> Log | None:
        """Find out which log an open file is, and read the log from it from now on.

        Returns:
            the log; None if nothing is to be read in the file.

        Raises:
            OSError: the file cannot be read.
        """
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            # A glob such as `logs/*` also matches directories, which are ignored. A directory whose
            # name is that of a log is reported.
            is_ignored = stat.S_ISDIR(status.st_mode) and not candidate.path.endswith(".jsonl")
            if not is_ignored:
                self.unread.retry(candidate.path, "not a regular file")
            return None

        self.unread.forget(candidate.path)
        log = self._rotation.log_of(candidate._replace(status=status), descriptor)
        if log is None:
            return None
        is_read_from_file = log.is_open and log.place == place_of(status)
        if not is_read_from_file:
            self._table.attach(log, descriptor, status)
        return log

    def _warn_of_lost(self) -> None:
        """Warn of logs that were truncated and of which this look has found no copy."""
        for log in self._table.lost:
            LOGGER.warning(
                "%s: was truncated or rewritten after %d bytes were read, %d of them of an "
                "unfinished line; unread data is lost",
                log.name,
                log.offset,
                log.unfinished_bytes,
            )
        self._table.lost.clear()

    def _update_names(self) -> None:
        """Rename each log whose file now has another followed path, and mark it as named."""
        table = self._table
        for name, log in table.by_name.items():
            # If the file has several followed paths, the log keeps its name.
            is_name_valid = table.by_name.get(log.name) is log
            if not is_name_valid:
                table.rename(log, name)
            log.nameless_since = None

    def _close_nameless(self) -> None:
        """Close logs that were renamed or deleted, once they are read and nobody writes to them.

        After `rotate_wait` seconds without a change, nobody is expected to write any more.
        """
        table = self._table
        for log in table.nameless():
            if log.nameless_since is None:
                log.nameless_since = table.now
            quiet_seconds = table.now - max(log.nameless_since, log.changed)
            is_finished = log.is_unpacked or quiet_seconds >= self._rotate_wait
            if is_finished and log.unread == 0:
                table.finish(log)

    # Reading

    @property
    def unread_bytes(self) -> int:
        """Number of bytes to read, as far as it is known.

        Files that are not open yet count as one byte each, so that the number is not 0.
        """
        of_open_logs = sum(log.unread for log in self._table.open if log.seen.size > log.offset)
        return of_open_logs + len(self._compressed_logs) + len(self._postponed)

    def read(self) -> Chunk:
        """Read the next bytes of each log, `PASS_BYTES` in all, and return the completed lines.

        Of the logs of a family, older ones are read to their end before newer ones.
        """
        table = self._table
        if self._postponed and table.open.make_room():
            self.look(table.now, at_once=True)

        lines = table.take_unfinished_lines()
        size = 0
        # In these families, an older log has to be read first. Compressed logs are the oldest.
        blocked_families = self._compressed_logs.names
        unread_logs = [log for log in table.open if log.seen.size > log.offset]
        for log in sorted(unread_logs, key=_reading_order):
            if size >= PASS_BYTES:
                break
            is_blocked = log.family in blocked_families and not log.is_unpacked
            if is_blocked:
                continue
            offset_before = log.offset
            lines += self._read_log(log, min(CHUNK_BYTES, PASS_BYTES - size))
            size += log.offset - offset_before
            if log.unread:
                blocked_families.add(log.family)

        # Decompress the next log, once the text of the one before is read.
        is_text_unread = any(log.is_unpacked and log.unread for log in table.open)
        if len(self._compressed_logs) > 0 and not is_text_unread:
            self._compressed_logs.unpack(self._rotation, may_wait=size > 0)
        return Chunk(size, lines)

    def _read_log(self, log: Log, limit: int) -> list[Record]:
        """Read the next bytes of a log, and return the lines that they complete.

        If nothing can be read, the file was truncated or its disk fails. The log then counts as
        read, and the next look checks it.

        Args:
            log: the log.
            limit: maximum number of bytes to read.
        """
        offset_before = log.offset
        lines: list[Record] = []
        try:
            if log.has_proof_in_open_file():
                lines = log.read(limit)
                self._table.open.mark_recently_read(log)
                self.unread.forget(log.name)
        except OSError as error:
            self.unread.retry(log.name, error)
        is_nothing_read = log.offset == offset_before
        if is_nothing_read:
            log.mark_as_read()
        return lines

    # Ending

    def finish(self) -> list[Record]:
        """Close all logs, and return their unfinished last lines.

        Call it after everything was read.
        """
        for log in list(self._table.by_place.values()):
            self._table.finish(log)
        return self._table.take_unfinished_lines()

    def close(self) -> None:
        """Close all files."""
        self._compressed_logs.close()
        self._table.open.close_all()


def _reading_order(log: Log) -> float:
    """Return the key that sorts logs in the order in which they are read.

    Rotated logs come first, in the order of their last changes, since they are older.
    """
    if log.is_rotated:
        return log.seen.modified_ns
    # Logs that are not rotated come last.
    return inf
