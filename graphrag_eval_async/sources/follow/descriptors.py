"""Keeps followed files open, but no more of them than the process may have open."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, TypeVar

from graphrag_eval_async.sources.files import open_at_once

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from graphrag_eval_async.sources.follow.log import Log

R = TypeVar("R")

OPEN_SHARE = 0.75
"""Share of the file descriptors that the process has left which followed files may take."""

MAX_OPEN = 65_536
"""Maximum number of logs that are kept open. Chosen: more than anybody follows."""

NO_DESCRIPTOR = {errno.EMFILE, errno.ENFILE}
"""Numbers of the errors that mean that the process, or the system, has no file descriptor left."""


class OpenLogs:
    """The open logs, the least recently read one first.

    If too many are open, an idle one is closed: one whose bytes are all read. It is opened again
    when it grows. Logs are kept open as far as possible, since a closed log cannot be read any more
    once it is deleted.
    """

    def __init__(self, before_close: Callable[[Log], object]) -> None:
        """Begin without logs.

        Args:
            before_close: called with a log that was renamed or deleted, before it is closed to make
                room. Such a log is not opened again, so its unfinished last line has to be kept.
        """
        # Only the keys are used: they keep the order in which they were added.
        self._logs: dict[Log, None] = {}
        self._before_close = before_close
        self._limit = open_limit()

    def __iter__(self) -> Iterator[Log]:
        return iter(self._logs)

    def __len__(self) -> int:
        return len(self._logs)

    def add(self, log: Log) -> None:
        """Add a log that was opened, as the most recently read one."""
        self.mark_recently_read(log)

    def mark_recently_read(self, log: Log) -> None:
        """Move a log to the end, since it is the most recently read one now."""
        self._logs.pop(log, None)
        self._logs[log] = None

    def close(self, log: Log) -> None:
        """Close a log, if it is open."""
        self._logs.pop(log, None)
        log.detach()

    def close_all(self) -> None:
        """Close all logs."""
        for log in list(self._logs):
            self.close(log)

    def make_room(self) -> bool:
        """Close an idle log if too many are open; return whether another one can be opened now."""
        if len(self._logs) >= self._limit:
            self._close_idle()
        return len(self._logs) < self._limit

    def open(self, path: str) -> int:
        """Open a file to read, and return its descriptor. Idle logs are closed if necessary.

        Raises:
            OSError: the file cannot be opened. If `lacks_descriptor` is true for the error, it can
                be opened once other files are closed.
        """
        return self.call_with_room(lambda: open_at_once(path, os.O_RDONLY | os.O_CLOEXEC))

    def call_with_room(self, open_file: Callable[[], R]) -> R:
        """Return `open_file()`. If the process has no descriptor left, close idle logs for it.

        Args:
            open_file: a function that opens files. It is called again after each closed log.

        Raises:
            OSError: the function failed for another reason, or no log is idle.
        """
        while True:
            try:
                return open_file()
            except OSError as error:
                if not lacks_descriptor(error):
                    raise
                # The rest of the process has opened more files than before, and may need even
                # more: keep fewer logs open from now on.
                self._limit = max(1, len(self._logs) - 1)
                if not self._close_idle():
                    raise

    def _close_idle(self) -> bool:
        """Close the least recently read log that is idle; return whether there was one.

        Logs with a followed name come first, since they can be opened again.
        """
        idle_logs = [log for log in self._logs if log.unread == 0]
        if not idle_logs:
            return False

        named_logs = [log for log in idle_logs if log.nameless_since is None]
        if named_logs:
            self.close(named_logs[0])
        else:
            self._before_close(idle_logs[0])
            self.close(idle_logs[0])
        return True


def lacks_descriptor(error: OSError) -> bool:
    """Return whether an error means that too many files are open."""
    return error.errno in NO_DESCRIPTOR


def open_limit() -> int:
    """Return the maximum number of logs to keep open.

    It is `OPEN_SHARE` of the descriptors that the process may have and does not use now.
    """
    import resource  # Only POSIX systems have it.

    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return MAX_OPEN
    try:
        used = len(os.listdir("/dev/fd"))
    except OSError:
        # There is no such directory, or no descriptor left to list it.
        used = 0
    share = int((limit - used) * OPEN_SHARE)
    return max(1, min(share, MAX_OPEN))
