"""Opening files that may be missing, forbidden, or none at all, and saying so once."""

from __future__ import annotations

import logging
import os
import stat
from typing import TYPE_CHECKING, NamedTuple

from graphrag_eval_async.sources.directory import GONE
from graphrag_eval_async.sources.identity import Identity, identify

if TYPE_CHECKING:
    from collections.abc import Iterable

LOGGER = logging.getLogger("graphrag_eval_async.follow")


class Opened(NamedTuple):
    """A file that is open for reading."""

    descriptor: int
    identity: Identity


class Opener:
    """Opens regular files, but for those that are excluded."""

    def __init__(self) -> None:
        self._excluded: set[str] = set()
        self._told: dict[str, str] = {}

    def exclude(self, paths: Iterable[str]) -> None:
        """Never open these."""
        self._excluded.update(map(os.path.realpath, paths))

    def is_excluded(self, name: str) -> bool:
        return bool(self._excluded) and os.path.realpath(name) in self._excluded

    def status(self, name: str) -> os.stat_result | None:
        """Of a regular file; None if that is not there."""
        try:
            status = os.stat(name)
        except GONE:
            return None
        if not stat.S_ISREG(status.st_mode):
            self.tell(name, "it is not a regular file")
            return None
        return status

    def open(self, name: str) -> Opened | None:
        """The regular file of that name, if there is one that can be opened."""
        try:
            # Should it have become a named pipe just now, this does not wait for a writer.
            descriptor = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
        except GONE:
            return None
        except OSError as error:
            self.tell(name, error)
            return None
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OSError("it is not a regular file")
            identity = identify(descriptor)
        except OSError as error:
            os.close(descriptor)
            self.tell(name, error)
            return None
        self._told.pop(name, None)
        return Opened(descriptor, identity)

    def tell(self, name: str, problem: OSError | str) -> None:
        """Log why a file is not read, unless that was said last of it."""
        reason = problem if isinstance(problem, str) else problem.strerror or str(problem)
        if self._told.get(name) != reason:
            self._told[name] = reason
            LOGGER.warning("%s: cannot be read as yet: %s", name, reason)
