"""Following files without a clock or an event loop: looks happen when a test says so."""

from __future__ import annotations

import os
import stat
import tempfile
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.records import Known, LongLine
from graphrag_eval_async.sources.identity import Access
from graphrag_eval_async.sources.tails import Tails

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from graphrag_eval_async.records import Position, Record
    from graphrag_eval_async.sources.checkpoints import FollowState
    from graphrag_eval_async.sources.tail import Event

LINE_BYTES = 1 << 20
POLL = 0.05


class Reader:
    """What a follower would deliver."""

    def __init__(
        self,
        *paths: str | os.PathLike[str],
        start: str | Position = "beginning",
        known: Mapping[str, Known] | None = None,
        copies: Mapping[str, str] | None = None,
        exclude: Iterable[str | os.PathLike[str]] = (),
        is_first: bool | None = None,
        rotate_wait: float = 5.0,
        limit: int = LINE_BYTES,
        now: float = 0.0,
        patterns: Sequence[str] = (),
        ignore_older: float | None = None,
    ) -> None:
        self.now = now
        self.limit = limit
        self.lines: list[Any] = []
        access = Access(patterns, ignore_older)
        self.tails = Tails([os.fspath(path) for path in paths], access, rotate_wait=rotate_wait)
        excluded = [os.fspath(path) for path in exclude]
        is_first = not known if is_first is None else is_first
        self.origins: dict[str, int] = {}
        self.copies: dict[str, str] = dict(copies or {})
        self._keep(
            self.tails.begin(
                known or {}, start, excluded, now=self.now, is_first=is_first, copies=self.copies
            )
        )

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self.tails.close()

    def poll(self, *, at_once: bool = False) -> list[Any]:
        """The lines that one look finds, with all that can be read then."""
        self.now += POLL
        self.tails.look(self.now, at_once=at_once)
        lines = self.drain()
        self._keep(self.tails.registry.checkpoints.changes())
        return lines

    def _keep(self, kept: FollowState | None) -> None:
        """As a journal does."""
        if kept is not None:
            self.origins |= kept.origins
            self.copies = dict(kept.copies)

    def drain(self) -> list[Any]:
        lines = self._split(self.tails.read())
        while self.tails.unread:
            lines += self._split(self.tails.read())
        return lines

    def texts(self) -> list[str]:
        return [text(line) for line in self.poll()]

    def wait(self, seconds: float) -> None:
        """Let time pass, for the file system, too, whose stamps may be some milliseconds apart."""
        tick()
        self.now += seconds

    def end(self) -> list[Any]:
        return self.poll(at_once=True) + self._split(self.tails.end())

    def _split(self, events: list[Event]) -> list[Any]:
        lines: list[Record] = []
        for event in events:
            lines += event.lines(self.limit)
        self.lines += lines
        return lines

    def known(self) -> dict[str, Known]:
        """What a journal would say of the lines that were delivered, and of where the reading began."""
        return known(self.lines, self.origins)


def known(lines: Iterable[Any], origins: Mapping[str, int]) -> dict[str, Known]:
    """What is known of files whose lines came without gaps."""
    found = {key: Known(offset, 1, None) for key, offset in origins.items()}
    for line in lines:
        position = line.position
        begin = line.offset + position.length + 1 if line.whole else line.offset
        found[position.file] = Known(begin, line.number + line.whole, position)
    return found


def text(line: Any) -> str:
    """Of a line; what has no newline is followed by three dots."""
    content = f"<{line.length} bytes>" if isinstance(line, LongLine) else line.data.decode()
    return str(content + ("" if line.whole else "..."))


def append(path: Path, *texts: str) -> None:
    """Add text as it is."""
    with path.open("a") as file:
        file.write("".join(texts))


def tick() -> None:
    """Wait until what happens to files now gets another time stamp than what has happened before."""
    with tempfile.TemporaryFile(buffering=0) as file:
        before = os.fstat(file.fileno()).st_mtime_ns
        while os.fstat(file.fileno()).st_mtime_ns == before:
            file.write(b"x")


def open_files() -> int:
    """How many files, directories and pipes are open. Sockets may be closed at any time by other threads."""
    return sum(map(_is_file, os.listdir("/dev/fd")))


def _is_file(descriptor: str) -> bool:
    try:
        kind = stat.S_IFMT(os.fstat(int(descriptor)).st_mode)
    except OSError:  # It was that of the list.
        return False
    return kind in {stat.S_IFREG, stat.S_IFDIR, stat.S_IFIFO, stat.S_IFCHR}
