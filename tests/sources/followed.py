"""Following files without a clock or an event loop: looks happen when a test says so."""

from __future__ import annotations

import os
import stat
import tempfile
from math import inf
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.records import Known
from graphrag_eval_async.sources.follow.logs import Logs
from graphrag_eval_async.sources.follow.names import Paths
from graphrag_eval_async.sources.follow.unread import Unread

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from graphrag_eval_async.records import Copy, Position

POLL = 0.05


class Reader:
    """What a follower would deliver."""

    def __init__(
        self,
        *paths: str | os.PathLike[str],
        start: str | Position = "beginning",
        known: Mapping[str, Known] | None = None,
        copies: Mapping[str, Copy] | None = None,
        is_first: bool | None = None,
        rotate_wait: float = 5.0,
        now: float = 0.0,
        patterns: Sequence[str] = (),
        ignore_older: float = inf,
    ) -> None:
        self.now = now
        self.lines: list[Any] = []
        unread = Unread()
        followed = Paths([os.fspath(path) for path in paths], patterns, unread)
        self.logs = Logs(followed, unread, ignore_older=ignore_older, rotate_wait=rotate_wait)
        is_first = not known if is_first is None else is_first
        self.origins: dict[str, int] = {}
        self.copies: dict[str, Copy] = dict(copies or {})
        self.logs.begin(known or {}, self.copies, start if is_first else None, now)
        self._keep()

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self.logs.close()

    def poll(self) -> list[Any]:
        """The lines that one look finds, with all that can be read then."""
        self.now += POLL
        self.logs.look(self.now)
        _, lines = self.logs.read()
        while self.logs.unread_bytes:
            lines += self.logs.read()[1]
        self.lines += lines
        self._keep()
        return lines

    def glance(self) -> None:
        """Look without the time to read."""
        self.now += POLL
        self.logs.look(self.now)
        self._keep()

    def _keep(self) -> None:
        """As a journal does."""
        if changes := self.logs.identities.changes():
            self.origins |= changes[0]
            self.copies = dict(changes[1])

    def texts(self) -> list[str]:
        return [text(line) for line in self.poll()]

    def wait(self, seconds: float) -> None:
        """Let time pass, for the file system, too, whose stamps may be some milliseconds apart."""
        tick()
        self.now += seconds

    def known(self) -> dict[str, Known]:
        """What a journal would say of the lines that were delivered, and of where the reading
        began.
        """
        found = {key: Known(offset, 1, None) for key, offset in self.origins.items()}
        for line in self.lines:
            position = line.position
            begin = line.offset + position.length + 1 if line.whole else line.offset
            found[position.file] = Known(begin, line.number + line.whole, position)
        return found


def text(line: Any) -> str:
    """Of a line; what has no newline is followed by three dots."""
    return str(line.data.decode() + ("" if line.whole else "..."))


def append(path: Path, *texts: str) -> None:
    """Add text as it is."""
    with path.open("a") as file:
        file.write("".join(texts))


def tick() -> None:
    """Wait until what happens to files now gets another time stamp than what has happened
    before.
    """
    with tempfile.TemporaryFile(buffering=0) as file:
        before = os.fstat(file.fileno()).st_mtime_ns
        while os.fstat(file.fileno()).st_mtime_ns == before:
            file.write(b"x")


def open_files() -> int:
    """How many files, directories and pipes are open. Sockets may be closed at any time by other
    threads.
    """
    return sum(map(_is_file, os.listdir("/dev/fd")))


def _is_file(descriptor: str) -> bool:
    try:
        kind = stat.S_IFMT(os.fstat(int(descriptor)).st_mode)
    except OSError:  # It was that of the list.
        return False
    return kind in {stat.S_IFREG, stat.S_IFDIR, stat.S_IFIFO, stat.S_IFCHR}
