"""Registry of followed files: which file is which, however logs are rotated."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from time import time
from typing import TYPE_CHECKING

from graphrag_eval_async.records import FileId
from graphrag_eval_async.sources.file_keys import FileKeys, Start
from graphrag_eval_async.sources.lines import LOGGER
from graphrag_eval_async.sources.log import (
    CLOSED,
    Log,
    line_start,
    open_file,
    place_of,
    repeated,
    root_of,
    seen_of,
)
from graphrag_eval_async.sources.paths import GONE, GZIP, SETTLING_SECONDS, Paths, former_names

if TYPE_CHECKING:
    from graphrag_eval_async.records import Record

OPEN_SHARE = 0.75
"""Share of the file descriptors limit for followed files; half of it is for files that lost their names."""

MAX_OPEN = 65_536
"""Maximum number of files kept open."""


class Registry:
    """All files found so far, each once whatever its names.

    Takes about a kilobyte of memory for each file ever found.

    Attributes:
        paths: what is followed.
        keys: keys of files, and what earlier runs have read.
        named: the files that have followed names now.
        open: files that are open, least recently read first.
        unread: files with unread data, in the order of their turns.
        ended: unfinished last lines of files that are closed.
        max_open: maximum number of open files.
        skips: whether new files begin at their ends.
    """

    def __init__(self, paths: Paths, ignore_older: float) -> None:
        """See `follow_jsonl`."""
        self.paths = paths
        self.keys = FileKeys({}, {})
        self.named: dict[str, Log] = {}
        self.open: dict[Log, None] = {}
        self.unread: dict[Log, None] = {}
        self.ended: list[Record] = []
        self.skips = False
        self._ignore_older = ignore_older
        self._logs: dict[tuple[int, int], Log] = {}
        self.max_open = open_limit()
        self._is_limited = False

    def enter(self, path: str, name: str, now: float) -> Log | None:
        """The log at a path. It was followed as `name`; if that is another path, it is rotated."""
        try:
            status = os.stat(path)
            log = self._logs.get(place_of(status))
            if log is None or (log.descriptor == CLOSED and log.seen != seen_of(status)):
                log = self._find(path, name, now)
            if log is None:
                return None
            if path == name:
                self._name(log, name)
            elif log not in self.named.values():
                log.name = name
            if log.descriptor != CLOSED:
                self.check(log, os.fstat(log.descriptor), now)
            self.limit()
            return log
        except GONE:
            return None
        except OSError as error:
            self.paths.tell(path, error)
            return None

    def _name(self, log: Log, name: str) -> None:
        self.named[name] = log
        if self.named.get(log.name) is not log:
            log.name = name
        log.gone = None

    def check(self, log: Log, status: os.stat_result, now: float) -> None:
        """Check whether there is data to read."""
        if seen_of(status) != log.seen:
            log.changed = now
        elif now > log.changed + SETTLING_SECONDS:
            return
        try:
            if log.original is None and not log.is_intact():
                self._restart(log, now)
                return
            log.seen = seen_of(status)  # After a failure, the next look tries again.
            if log.original is not None:
                self._compare(log, log.original)
            if log.unread:
                self.unread[log] = None
        except OSError as error:
            self.paths.tell(log.name, error)

    def _find(self, path: str, name: str, now: float) -> Log | None:
        """The log of a file that is not open yet; None if it is not regular, or may become a copy."""
        descriptor = open_file(path)
        log = None
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                self.paths.tell(path, "not a regular file")
                return None
            self.paths.tell(path, None)
            log = self._logs.get(place_of(status))
            if log is not None and log.descriptor != CLOSED:
                return log
            if log is not None and log.is_in(descriptor):
                self._move(log, descriptor, status)
            elif not status.st_size and former_names(path):
                log = None
            elif (log := self._replaced(path, descriptor, now)) is not None:
                LOGGER.warning("%s: replaced; skipped %d bytes that were already read", path, log.offset)
                self._move(log, descriptor, status)
                self.keys.note_copy(root_of(status), log.file.key)
            else:
                log = self.add(descriptor, path, name, status)
            if log is not None and path != name:
                log.gone = now
            return log
        finally:
            if log is None or log.descriptor != descriptor:
                os.close(descriptor)

    def _move(self, log: Log, descriptor: int, status: os.stat_result) -> None:
        """Give a log another file, or the same one again, to resume in."""
        self.release(log)
        if self._logs.get(log.place) is log:
            del self._logs[log.place]
        log.descriptor, log.place, log.seen = descriptor, place_of(status), (-1, -1)
        self._logs[log.place] = log
        self.open[log] = None

    def _replaced(self, path: str, descriptor: int, now: float) -> Log | None:
        """The deleted log that had the name just before, if the file contains all of it, as after rsync."""
        log = self.named.get(path)
        if log is not None and log.descriptor != CLOSED:
            status = os.fstat(log.descriptor)
            self.check(log, status, now)  # If it was rewritten before, it is another log from now on.
            log = self.named[path]
            is_deleted = not status.st_nlink and status.st_size and log.original is None
            if is_deleted and log.is_intact() and repeated(log.descriptor, descriptor) is not None:
                return log
        return None

    def add(self, descriptor: int, path: str, name: str, status: os.stat_result) -> Log:
        """The log of a file that is new, or that an earlier run has read."""
        root = root_of(status, path)
        start = self.keys.find(root, descriptor)
        original = (
            self._original(root, descriptor, former_names(path.removesuffix(GZIP))) if start is None else None
        )
        if start is None and original is None:
            start = self.keys.find_content(root, descriptor, path)
        size = os.fstat(descriptor).st_size
        if start is None:
            skips = self.skips or time() - status.st_mtime > self._ignore_older
            copied = self.keys.copied(root, descriptor) if original is None else 0
            offset = line_start(descriptor, size) if skips else copied
            start = Start(self.keys.new(root), offset, is_skipped=offset > 0 or skips)
            if original is None and not copied:
                self.keys.forget_copy(root)
        if original is None:
            self.keys.note_start(start)
        log = Log(
            file=FileId(path, start.key, followed=True),
            name=name,
            descriptor=descriptor,
            place=place_of(status),
            number=start.number,
            skipped=start.offset if start.is_skipped else -1,
            original=original,
        )
        self._logs[log.place] = log
        self.open[log] = None
        if original is None:
            log.begin_at(start.offset)
            return log
        if size:
            LOGGER.warning(
                "%s: so far repeats %s; its first %d bytes are not evaluated again,"
                " unless it becomes different",
                *(path, original.name, size),
            )
        return log

    def _original(self, root: str, descriptor: int, names: list[str]) -> Log | None:
        """The log that a file repeats so far."""
        key = self.keys.original(root)
        for log in self.open if names or key else ():
            if log.name in names or log.file.key == key:
                is_copy = repeated(descriptor, log.descriptor) is not None
                # Unless the log was truncated a moment ago.
                if is_copy or (not log.is_intact() and log.is_in(descriptor)):
                    return log.original or log
        return None

    def _compare(self, log: Log, original: Log) -> None:
        """Read a copy that has grown, unless it is still equal to its original."""
        root = f"{log.place[1]:x}"
        if original.descriptor == CLOSED:  # The added data cannot have been read yet.
            begin = line_start(log.descriptor, log.offset)
        elif (size := repeated(log.descriptor, original.descriptor, log.offset)) is not None:
            if size == log.offset or not log.offset:  # Not while it is being written.
                lines = line_start(log.descriptor, size)
                self.keys.note_repeated(root, original.file.key, log.descriptor, lines)
            log.offset = size
            return
        elif original.is_intact():
            begin = max(0, log.skipped)
            LOGGER.warning("%s: no longer repeats %s; read from byte %d", log.name, original.name, begin)
        else:  # It was truncated just now.
            log.seen = (-1, -1)
            return
        log.original = None
        log.begin_at(begin)
        self.keys.forget_copy(root)
        self.keys.note_start(Start(log.file.key, begin, is_skipped=begin > 0))

    def _restart(self, log: Log, now: float) -> None:
        """Start again with a truncated file. Its earlier lines may be in a copy."""
        self.unread.pop(log, None)
        self.open.pop(log, None)
        del self._logs[log.place]
        names = [name for name in self.named if self.named[name] is log]
        for name in names:
            del self.named[name]
        descriptor, log.descriptor = log.descriptor, CLOSED
        place = log.place
        if not self._find_copy(log, now):
            LOGGER.warning(
                "%s: was truncated or rewritten after %d bytes were read, %d of them of an unfinished line;"
                " unread data is lost",
                *(log.name, log.offset, 0 if log.splitter is None else log.splitter.held),
            )
        status = os.fstat(descriptor)
        rotated = (each.path for each in self.paths.rotated() if place_of(each.status) == place)
        name = names[0] if names else log.name
        new = self.add(descriptor, name if names else next(rotated, name), name, status)
        new.gone = None if names else now
        self.named.update(dict.fromkeys(names, new))
        self.check(new, status, now)

    def _find_copy(self, log: Log, now: float) -> bool:
        """Resume a log whose file was truncated in a copy that has all that was read of it."""
        self.paths.look(now, at_once=True)
        copies = [path for _, path, name in self.paths.rotated() if name == log.name]
        copies += [name for name in self.paths.names if log.name in former_names(name)]
        for path in copies if log.trace else ():
            with suppress(OSError):
                descriptor = open_file(path)
                status = os.fstat(descriptor)
                other = self._logs.get(place_of(status))
                is_read = other is not None and other.original is None and other.is_in(descriptor)
                if is_read or not log.is_in(descriptor):
                    os.close(descriptor)
                    continue
                if other is not None:
                    self.unread.pop(other, None)
                    self.release(other)
                self._move(log, descriptor, status)
                log.gone = now
                for name in [name for name, named in self.named.items() if named is other]:
                    self._name(log, name)
                self.keys.note_copy(root_of(status), log.file.key)
                self.check(log, status, now)
                return True
        return False

    def finish(self, log: Log) -> None:
        """Give up an unfinished line, and close the file."""
        self.ended += log.end()
        if log.descriptor != CLOSED and not os.fstat(log.descriptor).st_nlink:
            self._logs.pop(log.place, None)  # Another file may get its inode number.
        self.unread.pop(log, None)
        self.release(log)

    def release(self, log: Log) -> None:
        self.open.pop(log, None)
        if log.descriptor != CLOSED:
            os.close(log.descriptor)
            log.descriptor = CLOSED

    def limit(self) -> None:
        """If too many files are open, close those idle longest; those that have lost their names for good."""
        if len(self.open) <= self.max_open // 2:
            return
        gone = [log for log in self.open if log.gone is not None]
        for log in gone[: max(0, len(gone) - self.max_open // 2)]:
            if log not in self.unread:
                self.finish(log)
        excess = len(self.open) - self.max_open
        if excess > 0 and not self._is_limited:
            self._is_limited = True
            LOGGER.warning(
                "more than %d files are followed, too many to hold all open: one that is deleted or moved"
                " between two looks may lose its last lines; raise the limit on open files (ulimit -n)",
                self.max_open,
            )
        for log in [log for log in self.open if log.gone is None][: max(0, excess)]:
            self.release(log)

    def reopen(self, log: Log) -> bool:
        with suppress(*GONE):
            descriptor = open_file(log.name)
            status = os.fstat(descriptor)
            if place_of(status) == log.place:
                log.descriptor = descriptor
                self.open[log] = None
                return True
            os.close(descriptor)
        return False

    def end(self) -> None:
        """Give up all unfinished lines."""
        for log in list(self._logs.values()):
            self.finish(log)


def open_limit() -> int:
    """Number of files to keep open. A file that is not open is lost if it is deleted before it is read."""
    import resource  # Only POSIX systems have it.

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MAX_OPEN if soft == resource.RLIM_INFINITY else max(2, min(MAX_OPEN, int(soft * OPEN_SHARE)))
