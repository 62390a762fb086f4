"""All logs that were found so far, by device and inode, by name and by family."""

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
        open: the open logs.
        by_place: all logs but those that were truncated, by device and inode.
        by_name: the logs whose files have a followed path, by this path.
        truncated: the log that was truncated last, for each name. A copy may have the rest of it.
        lost: logs that the current look has found to be truncated, unless it has found a copy, too.
            Only the keys are used.
        now: the time of the current look.
    """

    def __init__(self, unread: Unread) -> None:
        self.open = OpenLogs(self._keep_unfinished_line)
        self.by_place: dict[tuple[int, int], Log] = {}
        self.by_name: dict[str, Log] = {}
        self.truncated: dict[str, Log] = {}
        self.lost: dict[Log, None] = {}
        self.now = -inf
        self._unread = unread
        self._by_family: defaultdict[str, dict[Log, None]] = defaultdict(dict)
        self._unfinished_lines: list[Record] = []

    def attach(self, log: Log, descriptor: int, status: os.stat_result) -> None:
        """Read a log from an open file from now on, and add it to the table.

        The log is new, was closed, or continues in another file: a copy or a replacement.

        Args:
            log: the log.
            descriptor: the open file.
            status: the status of the file.

        Raises:
            OSError: the file cannot be read. The log stays in the table as it was, but is closed.
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
        """Change the name of a log, and move it to the family of the new name."""
        family = self._by_family.get(log.family, {})
        is_listed = log in family
        self._leave_family(log)
        log.name = name
        if is_listed:
            self._by_family[log.family][log] = None

    def _leave_family(self, log: Log) -> None:
        """Remove a log from the list of its family."""
        family = self._by_family.get(log.family)
        if family is None:
            return
        family.pop(log, None)
        if not family:
            del self._by_family[log.family]

    def check(self, log: Log, status: os.stat_result | None = None) -> None:
        """Update the stamp of an open log. If its file was truncated, remove it from the table.

        Args:
            log: the log.
            status: the status of its file; None to look it up.
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
        """Close a log that was truncated, and remove it from the table.

        Its file is a new log from now on. The old one stays among `truncated`, since a copy of the
        file may have the lines that were not read.
        """
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
        """Return whether a log was truncated and does not continue in a copy."""
        return self.truncated.get(log.name) is log

    def keep_names(self, followed: Collection[str]) -> None:
        """Remove the names that are no longer followed."""
        for name in self.by_name.keys() - followed:
            del self.by_name[name]

    def nameless(self) -> list[Log]:
        """Return the open logs whose files have no followed path: they were rotated or deleted."""
        named = set(self.by_name.values())
        return [log for log in self.open if log not in named]

    def relatives(self, former_paths: Iterable[str]) -> list[Log]:
        """Return the logs with these paths, and all open logs of the same families.

        A rotated file may be a copy of one of them.

        Args:
            former_paths: the paths that the rotated file may have had.
        """
        # A dictionary instead of a set, since it keeps the order. Only the keys are used.
        relatives: dict[Log, None] = {}
        for former_path in former_paths:
            if former_path in self.by_name:
                relatives[self.by_name[former_path]] = None
            family = self._by_family.get(former_path, {})
            relatives.update(dict.fromkeys(log for log in family if log.is_open))
        return list(relatives)

    def finish(self, log: Log) -> None:
        """Close a log to which nobody writes any more, and keep its unfinished last line."""
        self._keep_unfinished_line(log)
        self.open.close(log)
        self._leave_family(log)

    def _keep_unfinished_line(self, log: Log) -> None:
        """Keep the unfinished last line of a log, which the caller closes after that."""
        self._unfinished_lines += log.take_unfinished_line()
        is_deleted = log.is_open and os.fstat(log.descriptor).st_nlink == 0
        if is_deleted:
            # Once it is closed, another file may get its inode number.
            self.by_place.pop(log.place, None)

    def take_unfinished_lines(self) -> list[Record]:
        """Remove and return the unfinished last lines of logs that were closed."""
        lines = self._unfinished_lines
        self._unfinished_lines = []
        return lines
