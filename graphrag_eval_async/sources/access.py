"""Opens the files that may be followed, and logs once why one cannot be read."""

from __future__ import annotations

import os
import stat
from fnmatch import fnmatchcase
from time import time
from typing import TYPE_CHECKING

from graphrag_eval_async.sources.identity import GONE, identify
from graphrag_eval_async.sources.lines import LOGGER

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from graphrag_eval_async.sources.identity import Opened


class Access:
    """Which files are followed; see `follow_jsonl`."""

    def __init__(self, patterns: Sequence[str] = (), ignore_older: float | None = None) -> None:
        self._patterns = patterns
        self._ignore_older = ignore_older
        self._excluded: set[str] = set()
        self._told: dict[str, str] = {}

    def exclude(self, paths: Iterable[str]) -> None:
        """Never open these."""
        self._excluded.update(map(os.path.realpath, paths))

    def is_excluded(self, path: str) -> bool:
        """Patterns with a slash match whole paths, others names."""
        names = path, os.path.basename(path)
        if any(fnmatchcase(names["/" not in pattern], pattern) for pattern in self._patterns):
            return True
        return bool(self._excluded) and os.path.realpath(path) in self._excluded

    def is_old(self, descriptor: int) -> bool:
        return self._ignore_older is not None and time() - os.fstat(descriptor).st_mtime > self._ignore_older

    def status(self, path: str) -> os.stat_result | None:
        """The status of a regular file; None if there is none.

        Raises:
            OSError: it cannot be looked at.
        """
        try:
            status = os.stat(path)
        except GONE:
            return None
        if not stat.S_ISREG(status.st_mode):
            self.tell(path, "it is not a regular file")
            return None
        return status

    def open_file(self, path: str) -> Opened | None:
        """The regular file of that name, if there is one that can be opened."""
        try:
            # Should it have become a named pipe just now, this does not wait for a writer.
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
        except GONE:
            return None
        except OSError as error:
            self.tell(path, error)
            return None
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OSError("it is not a regular file")
            identity = identify(descriptor)
        except OSError as error:
            os.close(descriptor)
            self.tell(path, error)
            return None
        self._told.pop(path, None)
        return descriptor, identity

    def tell(self, path: str, problem: OSError | str) -> None:
        """Log why a file is not read, unless the same was logged last."""
        reason = problem if isinstance(problem, str) else problem.strerror or str(problem)
        if self._told.get(path) != reason:
            self._told[path] = reason
            LOGGER.warning("%s: cannot be read as yet: %s", path, reason)
