"""The files that a run writes."""

from __future__ import annotations

import glob
import os
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, NamedTuple

from graphrag_eval_async.cli.files import check_distinct
from graphrag_eval_async.errors import UsageError
from graphrag_eval_async.sinks.journal import Journal

if TYPE_CHECKING:
    from collections.abc import Iterable

    from graphrag_eval_async.sinks.journal import Fsync


IN_DIRECTORY = ("*.jsonl", "*.jsonl.gz")
"""What is read of a directory."""


class Outputs(NamedTuple):
    """What the options say of them: paths, None where nothing is to be written, ``-`` for standard output."""

    results: str | None
    aggregates: str | None
    rejects: str | None
    resume: bool = False
    force: bool = False
    fsync: Fsync | None = None

    def check(self, read: Iterable[str | None], *, stages: bool) -> None:
        """See that they can be written, and that nothing is overwritten that is needed.

        Args:
            read: paths of what the run reads.
            stages: whether results come twice.

        Raises:
            UsageError: they cannot, or something would be.
        """
        written = [self.results, self.rejects, self.aggregates]
        if self.resume:
            if self.results in (None, "-") or self.rejects == "-":
                raise UsageError("--resume needs -o FILE, and no --rejects on standard output")
            if stages:
                raise UsageError("--stages does not go with --resume: a journal has whole results only")
            written += [f"{self.results}.run", f"{self.results}.damaged"]
            written += [] if self.rejects else [f"{self.results}.rejects"]
        elif self.fsync is not None:
            raise UsageError("--fsync needs --resume, which makes a journal of the output")
        elif self.results is not None and os.path.exists(f"{self.results}.run"):
            raise UsageError(
                f"{self.results!r} is a journal, which would be overwritten; --resume goes on with it, "
                f"without {self.results}.run it is a file like others"
            )
        paths = [path for path in read if path is not None]
        check_distinct(paths, written)
        for path in paths:
            for file in self.read_again():
                if _stands_for(path, file):
                    raise UsageError(f"{file!r} is among the files of {path!r}, which are read")

    def read_again(self) -> list[str]:
        """What is written and would be read if it stood among the sources; a journal's files would not."""
        lines = [] if self.resume else [self.results, self.rejects]
        return [path for path in (self.aggregates, *lines) if path is not None and path != "-"]

    def journal(self) -> Journal | None:
        """The journal, if there is to be one."""
        if not self.resume or self.results is None:
            return None
        fsync = self.fsync or "interval"
        return Journal(self.results, force=self.force, fsync=fsync, rejects=self.rejects)


def _stands_for(path: str, file: str) -> bool:
    """Whether a directory or pattern that is read has a file in it, or will have it."""
    patterns = [os.path.join(glob.escape(path), name) for name in IN_DIRECTORY]
    if not os.path.isdir(path):
        patterns = [path] if glob.has_magic(path) and not os.path.exists(path) else []
    return any(fnmatchcase(os.path.realpath(file), os.path.realpath(pattern)) for pattern in patterns)
