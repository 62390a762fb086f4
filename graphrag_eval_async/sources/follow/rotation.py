"""Finding and reading of followed logs, however they are rotated.

Nothing here runs on the event loop, since disks may be slow.
"""

from __future__ import annotations

import gzip
import os
import stat
import tempfile
import zlib
from collections import deque
from math import inf
from time import time
from typing import TYPE_CHECKING

from graphrag_eval_async.records import FileId, Position
from graphrag_eval_async.sources.files import open_at_once
from graphrag_eval_async.sources.follow.identity import (
    CLOSED,
    FileKeys,
    Log,
    Start,
    is_repeated,
    line_start,
    place_of,
    root_of,
    seen_of,
)
from graphrag_eval_async.sources.follow.names import (
    GONE,
    GZIP,
    SETTLING_SECONDS,
    Found,
    Paths,
    former_names,
)
from graphrag_eval_async.sources.lines import LOGGER

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from graphrag_eval_async.records import Known, Record

CHUNK_BYTES = 1 << 18
"""Bytes read of a file before the next file gets a turn."""

PASS_BYTES = 1 << 20
"""Bytes read of all files in one pass."""

OPEN_SHARE = 0.75
"""Share of the limit on file descriptors that followed files may take."""

MAX_OPEN = 65_536


class Logs:
    """Follows files. The caller decides when to look at them, and passes the time.

    Attributes:
        paths: what is followed.
        keys: which file is which.
    """

    def __init__(self, paths: Paths, *, ignore_older: float, rotate_wait: float) -> None:
        """See `follow_jsonl`."""
        self.paths = paths
        self._ignore_older = ignore_older
        self._rotate_wait = rotate_wait
        self.keys = FileKeys({}, {}, None)
        self._logs: dict[tuple[int, int], Log] = {}  # All that were found so far, by their places.
        self._open: dict[Log, None] = {}  # Least recently read first.
        self._named: dict[str, Log] = {}  # Those that have followed names.
        self._copies: dict[
            tuple[int, int], tuple[tuple[int, int], Log]
        ] = {}  # When seen, and of which log.
        self._truncated: list[Log] = []  # During a look; their lines may be in copies.
        self._postponed: list[Found] = []  # Files to open once there is room.
        self._packed: deque[tuple[str, Iterator[None]]] = deque()
        self._ended: list[Record] = []  # Unfinished last lines of files that are closed.
        self._max_open = open_limit()
        self._now = -inf
        self._skips = False
        self._since: dict[str, float] | None = (
            None  # Age of the oldest rotated files to read, by name.
        )

    def begin(
        self,
        known: Mapping[str, Known],
        copies: Mapping[str, str],
        start: str | Position | None,
        now: float,
    ) -> None:
        """Find the existing files. `start` is that of `follow_jsonl` in the first run, later
        None.
        """
        line = start if isinstance(start, Position) else None
        self.keys = FileKeys(known, copies, line)
        self._skips, self._since = start == "end", None if start is None else {}
        self.look(now, at_once=True)
        if line is not None and not self._since:
            LOGGER.warning("%s: line to start after not found; reading from the start", line.path)
        for found in self.paths.rotated(packed=True)[
            : self._max_open // 4
        ]:  # The next start reads more.
            steps = self._unpack(found)
            for _ in steps:
                self._packed.append((found.name, steps))
                break
        self._skips, self._since = False, None

    def _is_skipped(self, found: Found) -> bool:
        """Whether a file that is new is read from its end."""
        modified = found.status.st_mtime
        is_before = self._since is not None and modified < self._since.get(found.name, inf)
        is_rotated = found.path != found.name
        return self._skips or (is_rotated and is_before) or time() - modified > self._ignore_older

    def _unpack(self, found: Found) -> Iterator[None]:
        """If a compressed log is to be read: decompress it step by step into a temporary file."""
        root, path = root_of(found.status, found.path), found.path
        try:
            with open(path, "rb") as packed, tempfile.TemporaryFile() as file:
                packed.seek(max(0, found.status.st_size - 4))
                size = int.from_bytes(packed.read(), "little")  # Of the text, modulo 4 GiB.
                is_there = os.path.exists(path.removesuffix(GZIP))  # Or gzip has not finished it.
                if is_there or self.keys.is_packed_read(root, size):
                    return
                if self._since is not None or self._is_skipped(found):
                    self.keys.note_start(Start(self.keys.new(root), size, is_skipped=True))
                    return
                packed.seek(0)
                yield
                try:
                    text = gzip.GzipFile(fileobj=packed)
                    while piece := text.read1(CHUNK_BYTES):
                        file.write(piece)
                        yield
                except (EOFError, zlib.error, gzip.BadGzipFile) as error:
                    told = "%s: cannot be decompressed; lost the text after %d bytes: %s"
                    LOGGER.warning(told, path, file.tell(), error)
                file.flush()
                if log := self._resume(found, file.fileno()):
                    log.gone = -inf
                    self._check(log, os.fstat(log.descriptor))
                    log.changed = -inf
        except OSError as error:
            LOGGER.warning("%s: cannot be read: %s", path, error)

    # Looking

    def look(self, now: float, *, at_once: bool = False) -> None:
        """Find changes. `at_once` also checks what is otherwise checked less often."""
        self._now, before = now, len(self._truncated)
        is_listed = self.paths.look(now, at_once=at_once)
        for name in self._named.keys() - set(self.paths.names) if is_listed else ():
            del self._named[name]
        found = self._stat()
        if len(self._truncated) > before:  # They may just have been copied.
            self.look(now, at_once=True)
            return
        if is_listed:
            found += self.paths.rotated()
        self._postponed = []
        # Originals come before their copies, and known files before others. An inode alone is no
        # sign that a former file is known: another may have had it.
        found.sort(
            key=lambda each: (bool(each.formers), not self.keys.is_known(root_of(each.status)))
        )
        for each in found:
            if self._is_new(each.status):
                self._enter(each)
        for log in self._truncated:
            LOGGER.warning(
                "%s: was truncated or rewritten after %d bytes were read, %d of them of an "
                "unfinished line; unread data is lost",
                *(log.name, log.offset, 0 if log.splitter is None else log.splitter.held),
            )
        self._truncated = []
        self._look_at_gone()

    def _stat(self) -> list[Found]:
        """Check the logs. Returns files that must be opened."""
        found, logs, settled = [], self._logs, self._now - SETTLING_SECONDS
        for name in self.paths.names:
            try:
                status = os.stat(name)
            except GONE:
                self._named.pop(name, None)
                continue
            except OSError as error:
                self.paths.tell(name, error)
                continue
            log = logs.get((status.st_dev, status.st_ino))
            if log is not None and log.descriptor != CLOSED:
                self._named[name] = log
                if log.changed >= settled or log.seen != seen_of(status):
                    self._check(log, status)
            elif self._is_new(status):
                found.append(Found(status, name, name))
                replaced = self._named.get(name)
                if replaced in self._open:
                    self._check(replaced, os.fstat(replaced.descriptor))
            elif log is not None:
                self._named[name] = log
        named = set(self._named.values())
        for log in [log for log in self._open if log not in named]:
            self._check(log, os.fstat(log.descriptor))
        return found

    def _is_new(self, status: os.stat_result) -> bool:
        """Whether a file must be opened."""
        log, seen = self._logs.get(place_of(status)), seen_of(status)
        if log is not None:
            return log.descriptor == CLOSED and log.seen != seen
        before, original = self._copies.get(place_of(status), (None, None))
        return before != seen or original in self._truncated

    def _check(self, log: Log, status: os.stat_result) -> None:
        """Check whether there is data to read, or the file was truncated."""
        if log.seen != seen_of(status):
            log.changed = self._now
        try:
            if log.is_in(log.descriptor):
                log.seen = seen_of(status)
                return
        except OSError as error:  # The next look tries again.
            self.paths.tell(log.name, error)
            return
        self._close(log)
        del self._logs[log.place]
        self._named = {name: named for name, named in self._named.items() if named is not log}
        self._truncated.append(log)

    def _enter(self, found: Found) -> None:
        if not self._make_room():
            self._postponed.append(found)
            return
        _, path, name = found
        log = None
        try:
            with open(path, "rb", buffering=0, opener=open_at_once) as file:
                status = os.fstat(file.fileno())
                is_regular = stat.S_ISREG(status.st_mode)
                self.paths.tell(path, None if is_regular else "not a regular file")
                log = self._resume(Found(status, path, name), file.fileno()) if is_regular else None
        except GONE:
            pass
        except OSError as error:
            self.paths.tell(path, error)
        self._named.pop(path, None)
        if log is not None:
            if path == name:
                self._named[name] = log
            else:
                log.name, log.gone = name, self._now
            self._check(log, os.fstat(log.descriptor))

    def _resume(self, found: Found, descriptor: int) -> Log | None:
        """Resume or begin the log of an open file; None if it is, or may become, a copy."""
        place = place_of(found.status)
        log = self._identify(found, descriptor)
        if log is not None and (log.descriptor == CLOSED or log.place != place):
            self._close(log)
            if self._logs.get(log.place) is log:
                del self._logs[log.place]
            log.descriptor, log.place, log.seen = os.dup(descriptor), place, (-1, -1)
            log.begin_at(log.offset)
            self._copies.pop(place, None)
            self._logs[place] = log
            self._open[log] = None
        return log

    def _identify(self, found: Found, descriptor: int) -> Log | None:
        status, path, _ = found
        log, former, root = (
            self._logs.get(place_of(status)),
            self._named.get(path),
            root_of(status, path),
        )
        if log is not None and (log.descriptor != CLOSED or log.is_in(descriptor)):
            return log
        if not status.st_size and found.formers:
            return None
        if former in self._open and self._is_replaced(former, descriptor):
            LOGGER.warning(
                "%s: replaced; skipped %d bytes that were already read", path, former.offset
            )
            self.keys.copies[root] = former.file.key
            return former
        start = self.keys.find(root, descriptor, path)
        if start is not None:
            if self._since is not None:
                self._since[found.name] = status.st_mtime
        elif self._is_copy(found, root, descriptor):
            return None
        else:
            for log in self._truncated:
                if log.name in found.formers and log.trace and log.is_in(descriptor):
                    self._truncated.remove(log)
                    self.keys.copies[root] = log.file.key
                    return log
            if self._copies.get(place_of(status), (None,))[0] == seen_of(status):
                return None  # It was a copy of what was truncated.
            self.keys.copies.pop(root, None)
            skips = self._is_skipped(found)
            offset = line_start(descriptor, status.st_size) if skips else 0
            start = Start(self.keys.new(root), offset, is_skipped=skips)
        self.keys.note_start(start)
        skipped = start.offset if start.is_skipped else -1
        return Log(
            FileId(path, start.key, followed=True), found.name, start.number, skipped, start.offset
        )

    def _is_replaced(self, log: Log, descriptor: int) -> bool:
        """Whether a log was deleted, and the file that has its name begins with all of it, as by
        rsync.
        """
        status = os.fstat(log.descriptor)
        return (
            not status.st_nlink and status.st_size > 0 and is_repeated(log.descriptor, descriptor)
        )

    def _is_copy(self, found: Found, root: str, descriptor: int) -> bool:
        """Whether a file repeats an open log, or one that was truncated just now."""
        place, seen, formers = place_of(found.status), seen_of(found.status), found.formers
        original = self.keys.copies.get(root)
        for log in list(self._open) if formers else ():
            if log.name in formers or log.file.key == original:
                if is_repeated(descriptor, log.descriptor):
                    if place not in self._copies:
                        LOGGER.warning(
                            "%s: repeats %s; skipped unless it differs", found.path, log.name
                        )
                    self._copies[place] = seen, log
                    self.keys.copies[root] = log.file.key
                    return True
                self._check(
                    log, os.fstat(log.descriptor)
                )  # It may have been truncated a moment ago.
        return False

    def _look_at_gone(self) -> None:
        """Keep reading files that have lost their names, as long as they may still be written
        to.
        """
        for name, log in self._named.items():
            if name != log.name and self._named.get(log.name) is not log:
                log.name = name
            log.gone = None
        named = set(self._named.values())
        for log in [log for log in self._open if log not in named]:
            if log.gone is None:
                log.gone = self._now
            if not log.unread and self._now - max(log.gone, log.changed) >= self._rotate_wait:
                self._finish(log)

    # Closing

    def _finish(self, log: Log) -> None:
        """Give up an unfinished line, and close the file."""
        self._ended += log.end()
        if log.descriptor != CLOSED and not os.fstat(log.descriptor).st_nlink:
            self._logs.pop(log.place, None)  # Another file may get its inode number.
        self._close(log)

    def _close(self, log: Log) -> None:
        self._open.pop(log, None)
        if log.descriptor != CLOSED:
            os.close(log.descriptor)
            log.descriptor = CLOSED

    def _make_room(self) -> bool:
        """Whether a file can be opened. If need be, close one that has nothing to read, idle
        longest.
        """
        if len(self._open) >= self._max_open:
            idle = [log for log in self._open if not log.unread]
            for log in sorted(idle, key=lambda log: log.gone is not None)[:1]:
                self._close(log) if log.gone is None else self._finish(log)
        return len(self._open) < self._max_open

    def end(self) -> list[Record]:
        """Give up all unfinished lines. Call it after everything was read."""
        for log in list(self._logs.values()):
            self._finish(log)
        lines, self._ended = self._ended, []
        return lines

    def close(self) -> None:
        """Close all files."""
        self._packed.clear()  # Generators close their files.
        for log in list(self._open):
            self._close(log)

    # Reading

    @property
    def left(self) -> int:
        """Bytes to read, as far as is known."""
        unread = sum(log.unread for log in self._open if log.seen[0] > log.offset)
        return unread + len(self._packed) + len(self._postponed)

    def read(self) -> tuple[int, list[Record]]:
        """Read a chunk of each file in turn, up to `PASS_BYTES`; rotated logs before later ones.

        Returns how many bytes were read, and the lines that they complete.
        """
        while self._postponed and self._make_room():
            self._enter(self._postponed.pop())
        lines, self._ended = self._ended, []
        size, blocked = 0, {name for name, _ in self._packed}
        unread = [log for log in self._open if log.seen[0] > log.offset]
        for log in sorted(unread, key=lambda log: log.seen[1] if log.is_rotated else inf):
            family = next(iter(former_names(log.name)), log.name)
            if size < PASS_BYTES and (family not in blocked or log.gone == -inf):
                before = log.offset
                lines += self._read(log, min(CHUNK_BYTES, PASS_BYTES - size))
                size += log.offset - before
                if log.unread:
                    blocked.add(family)
        if self._packed and not any(log.gone == -inf and log.unread for log in self._open):
            for _ in self._packed[0][1]:
                return size, lines
            self._packed.popleft()
        return size, lines

    def _read(self, log: Log, limit: int) -> list[Record]:
        before = log.offset
        try:
            if log.is_in(log.descriptor):
                del self._open[log]
                self._open[log] = None
                return log.read(limit)
        except OSError as error:
            self.paths.tell(log.name, error)
        finally:
            if log.offset == before:
                log.seen = (before, -1)  # The next look finds out why.
        return []


def open_limit() -> int:
    """Number of files to keep open. A file that is not open is lost if it is deleted before it
    is read.
    """
    import resource  # Only POSIX systems have it.

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return (
        MAX_OPEN
        if soft == resource.RLIM_INFINITY
        else max(2, min(MAX_OPEN, int(soft * OPEN_SHARE)))
    )
