"""Options of a journal."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from graphrag_eval_async.errors import UsageError, check_boolean, check_integer
from graphrag_eval_async.posix import require_posix
from graphrag_eval_async.sinks.rejects import MAX_REJECT_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

SUFFIXES = (".run", ".run.tmp", ".rejects", ".rejects.tmp", ".damaged", ".watch", ".tmp")
"""Suffixes of the files beside a journal."""

Fsync = Literal["never", "interval", "always"]


@dataclass(frozen=True, slots=True)
class Journal:
    """A JSONL file of results, to which a stream appends and from which it resumes.

    Beside ``results.jsonl``, it creates ``results.jsonl.run`` (fingerprints of the reference set, the
    configuration and the version), ``results.jsonl.rejects`` and, if needed, ``results.jsonl.damaged``
    (unreadable lines of the journal, which are evaluated again).

    Attributes:
        path: path of the file; it is created if it does not exist.
        force: whether to resume a journal that was started under other conditions.
        fsync: when to flush to disk, which decides what a power failure or system crash can lose. A killed
            process loses nothing written. "always": flush each result before the consumer sees it.
            "interval": lose at most the last `fsync_interval`. "never": leave it to the system, usually at
            most the last half minute is lost.
        fsync_interval: seconds between flushes, more than 0.
        rejects: path of the file of rejects, instead of the one above.
        on_restored: called with each result of an earlier run after the aggregates count it; must not raise.
        max_reject_bytes: maximum size of the file of rejects; beyond it, rejects are written without content.
    """

    path: str | os.PathLike[str]
    force: bool = False
    fsync: Fsync = "interval"
    fsync_interval: float = 1.0
    rejects: str | os.PathLike[str] | None = None
    on_restored: Callable[[Mapping[str, Any]], object] | None = None
    max_reject_bytes: int = MAX_REJECT_BYTES

    @property
    def paths(self) -> list[str]:
        """The journal and all files that may be beside it; none of them is ever read as a source."""
        path = os.fspath(self.path)
        beside = [f"{path}{suffix}" for suffix in SUFFIXES]
        return [path, *beside, *([] if self.rejects is None else [os.fspath(self.rejects)])]

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            UsageError: a value is invalid, or this system has no file locks.
        """
        require_posix("a journal")
        if not isinstance(self.path, str | os.PathLike):
            raise UsageError(f"journal: expected a path or a Journal, got {self.path!r}")
        if not isinstance(self.rejects, str | os.PathLike | None):
            raise UsageError(f"journal.rejects: expected a path, got {self.rejects!r}")
        check_boolean("journal.force", self.force)
        check_integer("journal.max_reject_bytes", self.max_reject_bytes, 0)
        if self.fsync not in ("never", "interval", "always"):
            raise UsageError(f'journal.fsync: expected "never", "interval" or "always", got {self.fsync!r}')
        if self.on_restored is not None and not callable(self.on_restored):
            raise UsageError(f"journal.on_restored: expected a function, got {self.on_restored!r}")
        interval = self.fsync_interval
        if not isinstance(interval, int | float) or isinstance(interval, bool) or not 0 < interval < 1e9:
            raise UsageError(f"journal.fsync_interval: expected seconds, more than 0, got {interval!r}")
