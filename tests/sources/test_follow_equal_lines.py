"""Short histories of a log that repeats its lines: each line that a look can see comes once.

Lines that are equal cannot be told apart, so the lines of each text are counted.
"""

from __future__ import annotations

import logging
import shutil
from collections import Counter
from dataclasses import dataclass, field
from itertools import product
from random import Random
from typing import TYPE_CHECKING

import pytest

from tests.sources.followed import Reader, append, text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

STEPS = ("first", "second", "look", "glance", "restart", "crash", "copy", "truncate", "rotate")
"""What happens to a log and its reader; see the methods of `History`."""


@dataclass(eq=False)
class Content:
    """The lines of a log from its start or its last truncation to the next one.

    Attributes:
        file: where it is; None once it was truncated.
        lines: all lines that were written.
        copied: number of lines in its longest copy.
        due: number of lines that were in a file at a look, and so must have come.
        journaled: the same for the looks before the last one, whose lines outlive a crash.
        glanced: number of lines that were in a file at a look or a glance, and so may have come.
        excused: number of lines from the first one that need not come, since nobody can tell them
            from those of another content.
        is_followed: whether the reader has seen the file with these lines.
    """

    file: Path | None
    lines: list[str] = field(default_factory=list)
    copied: int = 0
    due: int = 0
    journaled: int = 0
    glanced: int = 0
    excused: int = 0
    is_followed: bool = False

    @property
    def there(self) -> int:
        """How many lines are in a file."""
        return self.copied if self.file is None else len(self.lines)


class History:
    """A log, and a reader whose journal knows what it has delivered."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self.log = folder / "log.jsonl"
        self.log.touch()
        self._content = Content(self.log)
        self._contents = [self._content]
        self._rotations = 0
        # The truncated content whose lines the reader may still take for those of the log.
        self._unseen: Content | None = None
        self._latest = 0  # How many lines the last look has delivered.
        self.reader = Reader(self.log, is_first=False)

    def do(self, step: str) -> None:
        getattr(self, step)()

    def first(self) -> None:
        self._write("first\n")

    def second(self) -> None:
        self._write("second\n")

    def _write(self, line: str) -> None:
        append(self.log, line)
        self._content.lines.append(line)

    def copy(self) -> None:
        """Do the first half of a copytruncate."""
        shutil.copyfile(self.log, self._next_name())
        self._content.copied = len(self._content.lines)

    def truncate(self) -> None:
        """Do its second half."""
        self.log.write_bytes(b"")
        if self._unseen is None:
            self._unseen = self._content
        else:
            # The copy of this content, if any, looks like that of what the log had before.
            self._content.excused = _common(self._unseen.lines, self._content.lines)
        self._content.file = None
        self._begin_content()

    def rotate(self) -> None:
        self._excuse_lines_of_before()
        path = self._next_name()
        self.log.rename(path)
        self._content.file = path
        self.log.touch()
        self._begin_content()

    def _next_name(self) -> Path:
        self._rotations += 1
        return self.log.with_name(f"log.jsonl.{self._rotations}")

    def _begin_content(self) -> None:
        self._content = Content(self.log)
        self._contents.append(self._content)

    def glance(self) -> None:
        """Look without the time to read."""
        self._before_look()
        self.reader.glance()

    def look(self) -> None:
        """Look and read; check that all lines have come that had to, and no others."""
        self._before_look()
        self._latest = len(self.reader.poll())
        for content in self._contents:
            content.journaled = content.due
            content.due = max(content.due, content.there)
        delivered = Counter(text(line) + "\n" for line in self.reader.lines)
        due = Counter[str]()
        possible = Counter[str]()
        for content in self._contents:
            due.update(content.lines[content.excused : content.due])
            possible.update(content.lines[: content.glanced])
        assert due <= delivered, f"not read: {due - delivered}"
        assert delivered <= possible, f"twice: {delivered - possible}"

    def _before_look(self) -> None:
        for content in self._contents:
            content.glanced = max(content.glanced, content.there)
        self._excuse_lines_of_before()
        for content in self._contents:
            if content.is_followed or content.due > 0:
                continue
            if self._looks_like_a_copy(content):
                content.excused = content.there
            elif content.file is not None:
                # A truncated log may have been replaced by a new file with its lines.
                truncated = [other.lines for other in self._contents if other.file is None]
                equal = [_common(content.lines, lines) for lines in truncated]
                content.excused = max(equal, default=0)
        for content in self._contents:
            content.is_followed = content.there > 0

    def _excuse_lines_of_before(self) -> None:
        """Expect no lines that look like those that the log had before it was truncated."""
        if self._unseen is not None:
            self._content.excused = _common(self._unseen.lines, self._content.lines)
            self._unseen = None

    def _looks_like_a_copy(self, content: Content) -> bool:
        """Check whether a rotated file repeats another one from its start."""
        if content is self._content:
            return False
        lines = content.lines[: content.there]
        return any(
            other.lines[: other.there][: len(lines)] == lines
            for other in self._contents
            if other is not content
        )

    def restart(self) -> None:
        """Kill the reader and start another one, whose journal has all lines that were
        delivered.
        """
        for content in self._contents:
            content.is_followed = False
        self._before_look()
        before = self.reader
        before.logs.close()
        self.reader = Reader(
            self.log,
            known=before.known(),
            copies=before.copies,
            now=before.now,
            is_first=False,
        )
        self.reader.lines = before.lines
        self.reader.origins = before.origins | self.reader.origins
        self._latest = 0

    def crash(self) -> None:
        """Restart after the lines of the last look came too late for the journal."""
        if self._latest:
            del self.reader.lines[-self._latest :]
        for content in self._contents:
            content.due = content.journaled
        self.restart()


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    """Return how many first lines are equal."""
    for number, (line, other_line) in enumerate(zip(one, other, strict=False)):
        if line != other_line:
            return number
    return min(len(one), len(other))


def _check(folder: Path, histories: Iterable[Sequence[str]]) -> list[str]:
    """Return those of the histories that lose or repeat a line, each with what happened."""
    failures = []
    for number, steps in enumerate(histories):
        history = History(folder / str(number))
        try:
            for step in (*steps, "look", "restart", "look"):
                history.do(step)
        except AssertionError as error:
            failures.append(f"{' '.join(steps)}: {error}")
        finally:
            history.reader.logs.close()
        shutil.rmtree(folder / str(number))
    return failures


@pytest.mark.parametrize(
    "steps",
    [
        "first look truncate look first restart",
        "first look truncate glance first restart",
        "first look truncate look restart first restart",
        "first look truncate restart first restart",
        "first look rotate first restart",
        "first look truncate look first second restart",
    ],
)
def test_the_first_line_again(tmp_path: Path, steps: str) -> None:
    """The line comes again though it looks like the one that the journal has."""
    assert _check(tmp_path, [steps.split()]) == []


@pytest.mark.parametrize(
    "count", [300, pytest.param(20_000, marks=pytest.mark.soak)], ids=["some", "many"]
)
def test_each_line_comes_once(tmp_path: Path, count: int, caplog: pytest.LogCaptureFixture) -> None:
    """All histories of two steps after a line was read, and random ones of up to twelve.

    Soak, two minutes: 20,000 histories.
    """
    caplog.set_level(logging.CRITICAL, "graphrag_eval_async.follow")
    random = Random(count)
    short = [("first", "look", *steps) for steps in product(STEPS, repeat=2)]
    long = [random.choices(STEPS, k=random.randint(3, 12)) for _ in range(count)]
    failures = _check(tmp_path, [*short, *long])
    assert failures == []
