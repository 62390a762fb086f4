"""Short histories of a log that is copied and truncated: each line that a look can see comes
once.
"""

from __future__ import annotations

import gzip
import logging
import shutil
from itertools import product
from random import Random
from typing import TYPE_CHECKING

import pytest

from tests.sources.followed import Reader, append, text

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

FOLLOWED = ("write", "half", "look", "glance", "restart", "crash")
STEPS = {
    "any": (*FOLLOWED, "copy", "truncate", "rotate"),
    "compressed": (*FOLLOWED, "copy_once", "truncate", "pack"),
}
"""What happens to a log and its reader; see the methods of `History`."""

NAMES = ("log.jsonl.{}", "log-202601{:02}.jsonl")


class History:
    """A log, the names of its rotated files, and a reader whose journal knows what it has
    delivered.
    """

    def __init__(self, folder: Path, names: str, *, by_folder: bool) -> None:
        folder.mkdir(parents=True)
        self.log = folder / "log.jsonl"
        self.log.touch()
        self._names = names
        self._followed = folder if by_folder else self.log
        self._written = 0
        self._rest = ""  # Of a line that was written in part.
        self._is_copied = False
        self._rotated: list[Path] = []
        self._latest = 0  # How many lines the last look has delivered.
        self.reader = Reader(self._followed, is_first=False)

    def do(self, step: str) -> None:
        getattr(self, step)()

    def write(self) -> None:
        """Append a line, or the rest of one.

        Each line is longer than all before, so that no file is as long as another by chance.
        """
        if not self._rest:
            self._begin_line()
        append(self.log, self._rest)
        self._rest = ""

    def half(self) -> None:
        """Append the first half of a line."""
        if not self._rest:
            self._begin_line()
            half = len(self._rest) // 2
            append(self.log, self._rest[:half])
            self._rest = self._rest[half:]

    def _begin_line(self) -> None:
        self._written += 1
        self._rest = f"{self._written} {'x' * self._written}\n"

    def copy(self) -> None:
        """Do the first half of a copytruncate."""
        shutil.copyfile(self.log, self._next_name())

    def copy_once(self) -> None:
        """Do the same, unless it is done: what is compressed must not be a part of another file."""
        if not self._is_copied:
            self.copy()
            self._is_copied = True

    def truncate(self) -> None:
        """Do its second half."""
        self._is_copied = False
        self.log.write_bytes(b"")
        self._rest = ""

    def rotate(self) -> None:
        self.log.rename(self._next_name())
        self.log.touch()
        self._rest = ""

    def _next_name(self) -> Path:
        path = self.log.with_name(self._names.format(len(self._rotated) + 1))
        self._rotated.append(path)
        return path

    def glance(self) -> None:
        """Look without the time to read."""
        self.reader.glance()

    def look(self) -> None:
        """Look and read; check that all lines that are in some file have come, and none twice."""
        self._latest = len(self.reader.poll())
        delivered = [text(line) for line in self.reader.lines if line.whole]
        assert len(delivered) == len(set(delivered)), f"twice: {delivered}"
        there = {line for path in (self.log, *self._rotated) for line in _lines(path)}
        assert there <= set(delivered), f"not read: {there - set(delivered)}"

    def restart(self) -> None:
        """Kill the reader and start another one, whose journal has all lines that were
        delivered.
        """
        before = self.reader
        before.logs.close()
        self.reader = Reader(
            self._followed,
            known=before.known(),
            copies=before.copies,
            now=before.now,
            is_first=False,
        )
        self.reader.lines = before.lines
        self.reader.origins = before.origins | self.reader.origins
        self._latest = 0

    def pack(self) -> None:
        """Restart after the copy that was made last was compressed, which the reader has seen
        before.
        """
        self.glance()
        plain = [path for path in self._rotated if path.suffix != ".gz"]
        if plain:
            packed = plain[-1].with_name(f"{plain[-1].name}.gz")
            packed.write_bytes(gzip.compress(plain[-1].read_bytes()))
            plain[-1].unlink()
            self._rotated[self._rotated.index(plain[-1])] = packed
        self.restart()

    def crash(self) -> None:
        """Restart after the lines of the last look came too late for the journal."""
        if self._latest:
            del self.reader.lines[-self._latest :]
        self.restart()


def _lines(path: Path) -> list[str]:
    """Return the complete lines of a file."""
    data = path.read_bytes()
    if path.suffix == ".gz":
        data = gzip.decompress(data)
    return data.decode().split("\n")[:-1]


def _check(
    folder: Path, histories: Iterable[tuple[str, ...]], names: str, *, by_folder: bool
) -> list[str]:
    """Return those of the histories that lose or repeat a line, each with what happened."""
    failures = []
    for number, steps in enumerate(histories):
        history = History(folder / str(number), names, by_folder=by_folder)
        try:
            for step in (*steps, "look", "restart", "look"):
                history.do(step)
        except AssertionError as error:
            failures.append(f"{' '.join(steps)}: {error}")
        finally:
            history.reader.logs.close()
        shutil.rmtree(folder / str(number))
    return failures


LATE = {
    "a line between the copy and the truncation": "look copy write look truncate restart",
    "a line that no look had read before the copy": "look write copy write look truncate",
    "half a line in the copy": "look half copy write look truncate restart",
    "a log of which nothing was read": "glance copy glance truncate",
    "a log of which nothing was read, then a longer one": "glance copy glance truncate write write",
    "two copies, the older one shorter": "copy write copy write look truncate crash",
    "nothing was journaled before the crash": "copy look crash truncate",
    (
        "the copy stays until the next truncation"
    ): "look copy write look truncate write copy write look",
    "the copy is compressed": "look copy write look truncate pack",
    "the copy is compressed before it was read": "glance copy glance truncate pack",
    "the copy is renamed": "look copy write look truncate write copy truncate restart",
}
"""Histories of copies that are not what the log was when it was truncated, after a first line."""


@pytest.mark.parametrize("by_folder", [False, True], ids=["file", "folder"])
@pytest.mark.parametrize("names", NAMES)
@pytest.mark.parametrize("steps", LATE.values(), ids=LATE)
def test_a_late_truncation(tmp_path: Path, steps: str, names: str, by_folder: bool) -> None:
    assert _check(tmp_path / "h", [("write", *steps.split())], names, by_folder=by_folder) == []


@pytest.mark.parametrize(
    "count", [200, pytest.param(5_000, marks=pytest.mark.soak)], ids=["some", "many"]
)
@pytest.mark.parametrize("names", NAMES)
@pytest.mark.parametrize("steps", STEPS.values(), ids=STEPS)
def test_each_line_comes_once(
    tmp_path: Path, steps: tuple[str, ...], names: str, count: int, caplog: pytest.LogCaptureFixture
) -> None:
    """All histories of two steps after a first line, and random ones of up to twelve.

    Soak, three minutes: 20,000 histories.
    """
    caplog.set_level(logging.CRITICAL, "graphrag_eval_async.follow")
    random = Random(count)
    short = list(product(steps, repeat=2))
    long = [random.choices(steps, k=random.randint(3, 12)) for _ in range(count)]
    histories = [("write", *history) for history in (*short, *long)]
    by_folder = names == NAMES[1]
    assert _check(tmp_path, histories, names, by_folder=by_folder) == []
