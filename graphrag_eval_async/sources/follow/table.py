"""All logs that were found so far, by where they are and by their names."""

from __future__ import annotations

import os
from collections import defaultdict
from math import inf
from typing import TYPE_CHECKING

from graphrag_eval_async.sources.follow.descriptors import OpenLogs
from graphrag_eval_async.sources.follow.log import place_of, stamp_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from graphrag_eval_async.records import Record
    from graphrag_eval_async.sources.follow.log import Log
    from graphrag_eval_async.sources.follow.unread import Unread


class LogTable:
    """All logs that were found so far, and which of them are open.

    Attributes:
        open: those that are open.
        by_place: all of them, by device and inode, without those that were truncated.
        by_name: those that have followed names.
        truncated: the log that was truncated last, by its name. What was not read of it may be in a
            copy.
        lost: logs that were truncated, and of which no copy was found so far in this look.
        now: the time of the current look.
    """

    def __init__(self, unread: Unread) -> None:
        self.open = OpenLogs(self._end)
        self.by_place: dict[tuple[int, int], Log] = {}
        self.by_name: dict[str, Log] = {}
        self.truncated: dict[str, Log] = {}
        self.lost: dict[Log, None] = {}
        self.now = -inf
        self._unread = unread
        self._by_family: defaultdict[str, dict[Log, None]] = defaultdict(dict)
        self._ended: list[Record] = []

    def attach(self, log: Log, descriptor: int, status: os.stat_result) -> None:
        """Read a log on from an open file, whether it is new, was closed, or goes on in another
        file.

        Raises:
            OSError: the file cannot be read; the log is as before, but closed.
        """
        self.open.close(log)
        former_place = log.place
        log.attach(descriptor, place_of(status))
        if self.by_place.get(former_place) is log:
            del self.by_place[former_place]
        if self.is_truncated(log):
            del self.truncated[log.name]
            self.lost.pop(log, None)
        self.by_place[log.place] = log
        self._by_family[log.family][log] = None
        self.open.add(log)

    def rename(self, log: Log, name: str) -> None:
        """Change the name of a log, and with it perhaps its family."""
        family = self._by_family.get(log.family, {})
        is_listed = log in family
        self._leave_family(log)
        log.name = name
        if is_listed:
            self._by_family[log.family][log] = None

    def _leave_family(self, log: Log) -> None:
        """Forget a log as a member of its family."""
        family = self._by_family.get(log.family)
        if family is None:
            return
        family.pop(log, None)
        if not family:
            del self._by_family[log.family]

    def check(self, log: Log, status: os.stat_result | None = None) -> None:
        """Take the size of an open log, and check that it was not truncated.

        Args:
            log: the log.
            status: its status, if it is known.
        """
        if status is None:
            status = os.fstat(log.descriptor)
        stamp = stamp_of(status)
        if log.seen != stamp:
            log.changed = self.now
        try:
            is_same = log.is_same(status)
        except OSError as error:
            # The next look tries again.
            self._unread.retry(log.name, error)
            return
        if not is_same:
            self.leave_truncated(log)
            return

        log.seen = stamp
        if log.unread == 0:
            self._unread.forget(log.name)

    def leave_truncated(self, log: Log) -> None:
        """Forget where a log was that was truncated: another log is there now."""
        self.open.close(log)
        self._leave_family(log)
        if self.by_place.get(log.place) is log:
            del self.by_place[log.place]
        names = [name for name, named_log in self.by_name.items() if named_log is log]
        for name in names:
            del self.by_name[name]
        self.truncated[log.name] = log
        self.lost[log] = None

    def is_truncated(self, log: Log) -> bool:
        """Return whether a log was truncated, and has not gone on in a copy."""
        return self.truncated.get(log.name) is log

    def keep_names(self, followed: Collection[str]) -> None:
        """Forget the names that are followed no more."""
        for name in self.by_name.keys() - followed:
            del self.by_name[name]

    def nameless(self) -> list[Log]:
        """Return the open logs that have no followed name."""
        named = set(self.by_name.values())
        return [log for log in self.open if log not in named]

    def relatives(self, former_paths: Iterable[str]) -> list[Log]:
        """Return the logs, named or open, into which files with these names are rotated."""
        # Keys of a dictionary keep their order, and each comes once.
        relatives: dict[Log, None] = {}
        for former_path in former_paths:
            if former_path in self.by_name:
                relatives[self.by_name[former_path]] = None
            family = self._by_family.get(former_path, {})
            relatives.update(dict.fromkeys(log for log in family if log.is_open))
        return list(relatives)

    def finish(self, log: Log) -> None:
        """Close a log to which nobody writes any more."""
        self._end(log)
        self.open.close(log)
        self._leave_family(log)

    def _end(self, log: Log) -> None:
        """Keep the unfinished last line of a log, which is closed next."""
        self._ended += log.end()
        is_deleted = log.is_open and os.fstat(log.descriptor).st_nlink == 0
        if is_deleted:
            # Another file may get its inode number.
            self.by_place.pop(log.place, None)

    def take_ended(self) -> list[Record]:
        """Return the unfinished last lines of logs that were closed, each once."""
        ended = self._ended
        self._ended = []
        return ended
