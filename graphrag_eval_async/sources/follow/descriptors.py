"""The files that are open, no more than the process can have."""

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
    """The logs that are open, the least recently read first.

    Where too many are open, one is closed that has nothing to read. It is opened again when it
    grows. A file that is not open is lost if it is deleted before it is read.
    """

    def __init__(self, end: Callable[[Log], object]) -> None:
        """Begin without logs.

        Args:
            end: called with a log that has lost its name before it is closed, since nothing can
                open it again.
        """
        self._logs: dict[Log, None] = {}
        self._end = end
        self._limit = open_limit()

    def __iter__(self) -> Iterator[Log]:
        return iter(self._logs)

    def __len__(self) -> int:
        return len(self._logs)

    def add(self, log: Log) -> None:
        """Add a log that was opened, or put one last."""
        # Keys of a dictionary keep the order in which they were added.
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
        """Return whether a log can be opened, after closing an idle one if there are too many."""
        if len(self._logs) >= self._limit:
            self._close_idle()
        return len(self._logs) < self._limit

    def open(self, path: str) -> int:
        """Open a file to read, without waiting for the writer of a named pipe.

        Raises:
            OSError: it cannot be opened. `lacks_descriptor` tells whether it can be once others are
                closed.
        """
        return self.with_room(lambda: open_at_once(path, os.O_RDONLY | os.O_CLOEXEC))

    def with_room(self, open_file: Callable[[], R]) -> R:
        """Call a function that opens files; where the process has no descriptor left, close idle
        logs.
        """
        while True:
            try:
                return open_file()
            except OSError as error:
                if not lacks_descriptor(error):
                    raise
                # The process has opened other files meanwhile, and may need some more.
                self._limit = max(1, len(self._logs) - 1)
                if not self._close_idle():
                    raise

    def _close_idle(self) -> bool:
        """Close a log that has nothing to read, one with a name if possible; return whether
        there was one.
        """
        idle_logs = [log for log in self._logs if log.unread == 0]
        if not idle_logs:
            return False

        named_logs = [log for log in idle_logs if log.nameless_since is None]
        if named_logs:
            self.close(named_logs[0])
        else:
            self._end(idle_logs[0])
            self.close(idle_logs[0])
        return True


def lacks_descriptor(error: OSError) -> bool:
    """Return whether a file could not be opened because too many are open."""
    return error.errno in NO_DESCRIPTOR


def open_limit() -> int:
    """Return how many logs to keep open, given what else the process has open now."""
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
