"""Where a journal is and how it is kept."""

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
"""Of the names of the files beside a journal."""

Fsync = Literal["never", "interval", "always"]


@dataclass(frozen=True, slots=True)
class Journal:
    """A JSONL file of results, which a stream appends to and resumes from when it is started again.

    Beside ``results.jsonl`` stand ``results.jsonl.run`` (fingerprints of the reference set, the configuration
    and the version), ``results.jsonl.rejects`` and, if need be, ``results.jsonl.damaged`` (lines of the
    journal that could not be read, which are evaluated again).

    Attributes:
        path: of the file, which is made if there is none.
        force: whether to resume a journal that was begun under other conditions.
        fsync: what outlives a power failure or a crash of the system; a process that is killed loses nothing
            that was written. "always": each result, before the consumer sees it. "interval": all but those
            of the last `fsync_interval`. "never": what the system has written by then, usually all but those
            of the last half a minute.
        fsync_interval: in seconds, more than 0.
        rejects: path of the file of rejects, in place of the one above.
        on_restored: called with each result of an earlier run once the aggregates have it; it must not raise.
        max_reject_bytes: how long that file may become before rejects are written without their lines.
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
        """The journal and all files that may stand beside it: none of them is ever read as a source."""
        path = os.fspath(self.path)
        beside = [f"{path}{suffix}" for suffix in SUFFIXES]
        return [path, *beside, *([] if self.rejects is None else [os.fspath(self.rejects)])]

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            UsageError: one is not possible, or this system has no file locks.
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
