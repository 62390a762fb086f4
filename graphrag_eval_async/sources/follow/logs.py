"""What a look at the followed files does, and what is read after it.

The caller decides when to look, and passes the time. Nothing here runs on the event loop, since
disks may be slow.
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
from graphrag_eval_async.sources.follow.log import UNSEEN, Stamp, place_of
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
"""Number of listings in one look, if each one finds new logs. Chosen: the second one rarely
does.
"""

NEVER_SEEN = -1
"""Sorts a file that is no log yet before all logs that wait to be opened again."""


class Chunk(NamedTuple):
    """What was read in one pass.

    Attributes:
        size: number of bytes that were read.
        lines: the lines that they complete.
    """

    size: int
    lines: list[Record]


class Logs:
    """Follows files: `begin` once, then `look` and `read` again and again.

    Attributes:
        paths: what is followed.
        unread: what could not be read so far.
        identities: which file is which, from one run to the next.
    """

    def __init__(
        self, paths: Paths, unread: Unread, *, ignore_older: float, rotate_wait: float
    ) -> None:
        """Prepare to follow `paths`; see `follow_jsonl` for the other arguments."""
        self.paths = paths
        self.unread = unread
        self.identities = Identities({}, {})
        self._ignore_older = ignore_older
        self._rotate_wait = rotate_wait
        self._start_afresh()

    def _start_afresh(self) -> None:
        """Forget all files."""
        self._table = LogTable(self.unread)
        self._rotation = Rotation(self._table, self.identities, Skips(self._ignore_older))
        self._packed = PackedLogs(self.paths, self._table, self.unread)
        # Files to open once there is room.
        self._postponed: deque[Candidate] = deque()

    def begin(
        self,
        known: Mapping[str, Known],
        copies: Mapping[str, Copy | str],
        start: str | Position | None,
        now: float,
    ) -> None:
        """Find the existing files.

        Args:
            known: how far earlier runs have read, by key.
            copies: what earlier runs have found to repeat another file; see `Identities`.
            start: that of `follow_jsonl` in the first run, later None.
            now: the time.
        """
        start_line = start if isinstance(start, Position) else None
        self.identities = Identities(known, copies, start_line)
        self._start_afresh()

        skips = self._rotation.skips
        skips.all_files = start == "end"
        # A later run, without a start, reads what was rotated while nothing followed it.
        skips.rotated = start is not None
        self.look(now, at_once=True)
        if start_line is not None and not skips.resumed:
            LOGGER.warning(
                "%s: line to start after not found; reading from the start", start_line.path
            )
        self._packed.find(self._rotation)

        # All lines are read of files that appear from now on.
        self._rotation.skips = Skips(self._ignore_older)

    # Looking

    def look(self, now: float, *, at_once: bool = False) -> None:
        """Find what has changed. `at_once` also checks what is otherwise checked less often."""
        self._table.now = now
        for _ in range(MAX_LISTINGS):
            is_any_new = self._look_once(at_once=at_once)
            if not is_any_new:
                return
            # The sizes of new logs were taken after the listing: list again for their copies.
            at_once = True

    def _look_once(self, *, at_once: bool) -> bool:
        """Look at everything; return whether there is a log that was not open before."""
        # Take the size of each log, and check that it still has what was read of it. This comes
        # before the listing, so that a copy which lacks bytes that will be read is there when that
        # is done.
        checked_names = dict.fromkeys(self.paths.names)
        candidates = self._check_named(checked_names)
        for log in self._table.nameless():
            self._table.check(log)

        # List the directories, without fail if a log was truncated: it may have been copied before.
        is_urgent = at_once or bool(self._table.lost)
        if self.paths.look(self._table.now, at_once=is_urgent):
            followed = set(self.paths.names)
            self._table.keep_names(followed)
            candidates = [candidate for candidate in candidates if candidate.name in followed]
            new_names = [name for name in self.paths.names if name not in checked_names]
            candidates += self._check_named(new_names)
            candidates += self.paths.rotated()

        # Find out what the new files are, and what the changed ones are now.
        is_any_new = self._enter_all(candidates)
        self._warn_of_lost()

        # Close logs that have lost their names, once nobody writes to them any more.
        self._settle_names()
        self._close_nameless()
        return is_any_new

    def _check_named(self, names: Iterable[str]) -> list[Candidate]:
        """Check the open logs that have these names; return the files that are not open."""
        candidates = []
        table = self._table
        # A log that has changed later may have changed again without another time stamp.
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

            # Plain tuples equal a `Place` and a `Stamp`. This is all that an idle file costs.
            log = table.by_place.get((status.st_dev, status.st_ino))
            if log is None:
                # Another file has the name: the one that had it is read to its end.
                former_log = table.by_name.get(name)
                if former_log is not None and former_log.is_open:
                    table.check(former_log)
                candidates.append(Candidate(status, name, name))
                continue

            table.by_name[name] = log
            is_changed = log.seen != (status.st_size, status.st_mtime_ns)
            if log.is_open and (is_changed or log.changed >= settled):
                table.check(log, status)
            # It was closed to make room, or just now, since it was truncated.
            if not log.is_open:
                candidates.append(Candidate(status, name, name))
        return candidates

    def _enter_all(self, candidates: list[Candidate]) -> bool:
        """Open files and find out what they are; return whether one is a log that was not open
        before.
        """
        self._postponed.clear()
        changed = [file for file in candidates if self._rotation.must_open(file.status)]
        self._rotation.paths_by_root = {root_of(file.status): file.path for file in changed}
        is_any_new = False
        for file in sorted(changed, key=self._rank):
            # What was found out about one of them may have settled another.
            if self._rotation.must_open(file.status) and self._enter(file):
                is_any_new = True
        return is_any_new

    def _rank(self, candidate: Candidate) -> tuple[bool, int, int]:
        """Return what sorts files in the order in which they are opened.

        Originals come before their copies, known files before others, and long copies before short
        ones, which may lack a part. Where there is no room for all logs, the one that waits longest
        comes first.
        """
        # An inode alone is no sign that a former file is known: another may have had it.
        is_known = self.identities.is_known(root_of(candidate.status))
        is_rotated = bool(candidate.former_paths)
        if is_rotated:
            return is_rotated, not is_known, -candidate.status.st_size

        log = self._table.by_place.get(place_of(candidate.status))
        last_seen = NEVER_SEEN
        if log is not None:
            last_seen = log.seen.modified_ns
        return is_rotated, last_seen, not is_known

    def _enter(self, candidate: Candidate) -> bool:
        """Open a file and find out what it is; return whether it is a log that was not open
        before.
        """
        table = self._table
        descriptor = self._open(candidate)
        if descriptor is None:
            return False

        try:
            log = self._attach(candidate, descriptor)
        except OSError as error:
            self.unread.retry(candidate.path, error)
            log = None
        if log is None or log.descriptor != descriptor:
            os.close(descriptor)

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

    def _open(self, candidate: Candidate) -> int | None:
        """Open a file, if there is room, and if it is not gone.

        Otherwise, return None, and open it later or note why it cannot be read.
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
            will_be_room = lacks_descriptor(error) and len(table.open) > 0
            if will_be_room:
                self._postponed.append(candidate)
            elif not self._rotation.skip_unopened(candidate):
                self.unread.retry(candidate.path, error)
        return None

    def _attach(self, candidate: Candidate, descriptor: int) -> Log | None:
        """Return the log that is read from an open file; None if there is none."""
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            # A glob such as `logs/*` fits directories, too.
            if not stat.S_ISDIR(status.st_mode) or candidate.path.endswith(".jsonl"):
                self.unread.retry(candidate.path, "not a regular file")
            return None

        self.unread.forget(candidate.path)
        log = self._rotation.log_of(candidate._replace(status=status), descriptor)
        if log is None:
            return None
        is_attached = log.is_open and log.place == place_of(status)
        if not is_attached:
            self._table.attach(log, descriptor, status)
        return log

    def _warn_of_lost(self) -> None:
        """Warn of logs that were truncated, and of which this look has found no copy."""
        for log in self._table.lost:
            LOGGER.warning(
                "%s: was truncated or rewritten after %d bytes were read, %d of them of an "
                "unfinished line; unread data is lost",
                *(log.name, log.offset, log.unfinished_bytes),
            )
        self._table.lost.clear()

    def _settle_names(self) -> None:
        """Give each log that has a followed name this name."""
        table = self._table
        for name, log in table.by_name.items():
            # A log that has several names keeps the one it has.
            has_own_name = table.by_name.get(log.name) is log
            if not has_own_name:
                table.rename(log, name)
            log.nameless_since = None

    def _close_nameless(self) -> None:
        """Close logs without names, as soon as they are read and nobody writes to them any more."""
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
        """Bytes to read, as far as is known; a file that is not open yet counts as one."""
        of_open_logs = sum(log.unread for log in self._table.open if log.seen.size > log.offset)
        return of_open_logs + len(self._packed) + len(self._postponed)

    def read(self) -> Chunk:
        """Read a chunk of each log in turn, up to `PASS_BYTES`; rotated logs before later ones."""
        table = self._table
        if self._postponed and table.open.make_room():
            self.look(table.now, at_once=True)

        lines = table.take_ended()
        size = 0
        # Families of which an older log has to be read first. Compressed logs are the oldest.
        blocked_families = self._packed.names
        unread_logs = [log for log in table.open if log.seen.size > log.offset]
        for log in sorted(unread_logs, key=_age):
            if size >= PASS_BYTES:
                break
            if log.family in blocked_families and not log.is_unpacked:
                continue
            offset_before = log.offset
            lines += self._read_log(log, min(CHUNK_BYTES, PASS_BYTES - size))
            size += log.offset - offset_before
            if log.unread:
                blocked_families.add(log.family)

        is_text_unread = any(log.is_unpacked and log.unread for log in table.open)
        if len(self._packed) and not is_text_unread:
            self._packed.unpack(self._rotation, may_wait=size > 0)
        return Chunk(size, lines)

    def _read_log(self, log: Log, limit: int) -> list[Record]:
        """Read up to `limit` bytes of a log; return the lines that they complete.

        If nothing can be read, the log has nothing unread until the next look finds out why: it was
        truncated, or its disk fails.
        """
        offset_before = log.offset
        lines: list[Record] = []
        try:
            is_same_file = log.is_in(log.descriptor)
            if is_same_file:
                lines = log.read(limit)
                # It is the most recently read one now.
                self._table.open.add(log)
                self.unread.forget(log.name)
        except OSError as error:
            self.unread.retry(log.name, error)
        if log.offset == offset_before:
            log.seen = Stamp(offset_before, UNSEEN.modified_ns)
        return lines

    # Ending

    def end(self) -> list[Record]:
        """Return all unfinished last lines. Call it after everything was read."""
        for log in list(self._table.by_place.values()):
            self._table.finish(log)
        return self._table.take_ended()

    def close(self) -> None:
        """Close all files."""
        self._packed.close()
        self._table.open.close_all()


def _age(log: Log) -> float:
    """Return what sorts logs in the order of reading: rotated ones by their last change, then
    the others.
    """
    if log.is_rotated:
        return log.seen.modified_ns
    return inf
