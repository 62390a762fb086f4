"""Random histories of writes, rotations, deletions, truncations, copies and kills: 0 lines lost,
0 twice.
"""

from __future__ import annotations

import gzip
import logging
import os
import shutil
from random import Random
from typing import IO, TYPE_CHECKING, Any

import pytest

from tests.sources.followed import Reader, text

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ROTATE_WAIT = 20.0
STEPS = 40
WAYS = ["log.jsonl.{}", "log.{}.jsonl", "log-202601{:02}.jsonl"]


class File:
    """What was written to a file since it was made or truncated."""

    def __init__(self, handle: IO[bytes]) -> None:
        self.handle = handle
        self.pending: list[str] = []  # Complete lines that the follower has not delivered.
        self.partial = b""
        self.rest = b""  # Of a line that is half written.
        self.is_seen = False
        self.may_be_lost = False
        self.is_packed = False
        self.left = float("inf")  # When it lost its name.

    @property
    def inode(self) -> int:
        return os.fstat(self.handle.fileno()).st_ino

    def write(self, lines: list[bytes], cut: int) -> None:
        """Finish the last line, and write others, of the last one at least 8 bytes, and all but
        so many.
        """
        *whole, last = lines
        end = max(8, len(last) - cut)
        data = self.rest + b"".join(whole) + last[:end]
        self.rest = last[end:]
        self.handle.write(data)
        *complete, self.partial = (self.partial + data).split(b"\n")
        self.pending += [line.decode() for line in complete]


class History:
    """Reading happens only in looks, so the model knows of each line whether anybody can have
    seen it.
    """

    def __init__(self, folder: Path, seed: int) -> None:
        self.random = random = Random(seed)
        self.folder = folder
        self.log = folder / "log.jsonl"
        place = random.choice(["file", "directory", "glob"])
        self.path = {"file": self.log, "directory": folder, "glob": folder / "l*.jsonl"}[place]
        self.by_copy = random.random() < 0.5
        self.way = random.choice(WAYS)
        self.has_members = place != "file" and self.way.endswith(".jsonl")
        self.reader = Reader(self.path, rotate_wait=ROTATE_WAIT)
        self.current: File | None = None
        self.former: list[File] = []
        self.count = self.rotations = 0
        self.done: list[tuple[File, Any]] = []
        self.latest = 0  # How many lines the last look has delivered.
        self.steps: list[str] = [f"{place} {self.way} {self.by_copy=}"]

    def run(self) -> None:
        always: list[Callable[[], object]] = [
            self.write,
            self.write,
            self.poll,
            self.wait,
            self.restart,
        ]
        try:
            for _ in range(STEPS):
                actions = [*always]
                if self.current is not None:
                    rotate = self.copy_and_truncate if self.by_copy else self.rotate
                    actions += [
                        rotate,
                        rotate,
                        self.delete,
                        self.truncate,
                        self.rewrite,
                        self.replace,
                    ]
                if self.late_file() is not None:
                    actions.append(self.write_late)
                action = self.random.choice(actions)
                self.steps.append(action.__name__)
                action()
            self.steps.append("end")
            self.poll()
        except AssertionError as error:
            raise AssertionError("\n".join([str(error), *self.steps])) from error
        finally:
            self.reader.logs.close()
            for file in (*self.former, self.current):
                if file is not None:
                    file.handle.close()

    # What the writer does.

    def line(self) -> bytes:
        """No two begin alike, so that no file is a copy of another by chance."""
        self.count += 1
        return f"{self.count:07} é\u2028 xxxxx\n".encode()

    def lines(self, most: int = 5) -> list[bytes]:
        return [self.line() for _ in range(self.random.randint(1, most))]

    def write(self) -> None:
        if self.current is None:
            self.current = File(self.log.open("ab", buffering=0))
        self.current.write(self.lines(self.random.choice([5, 300])), self.random.randint(0, 20))

    def late_file(self) -> File | None:
        """The one that lost its name last, if that is not too long ago."""
        file = self.former[-1] if self.former else None
        is_late = file is None or file.may_be_lost or self.reader.now >= file.left + ROTATE_WAIT
        return None if is_late else file

    def write_late(self) -> None:
        file = self.late_file()
        assert file is not None
        file.write(self.lines(2), self.random.randint(0, 20))

    def name(self, number: int) -> Path:
        return self.log.with_name(self.way.format(number))

    def shift(self) -> None:
        for number in range(self.rotations, 0, -1):
            for suffix in ("", ".gz"):
                path = self.name(number).with_name(self.name(number).name + suffix)
                if path.exists():
                    path.rename(path.with_name(self.name(number + 1).name + suffix))
        self.rotations += 1

    def leave(self, file: File) -> None:
        is_empty = not os.fstat(file.handle.fileno()).st_size  # Late writes to it may be seen late.
        file.left = float("-inf") if is_empty else self.reader.now
        self.former.append(file)
        self.current = None

    def rotate(self) -> None:
        assert self.current is not None
        self.shift()
        self.log.rename(self.name(1))
        self.leave(self.current)

    def delete(self) -> None:
        assert self.current is not None
        self.log.unlink()
        self.current.may_be_lost = not self.current.is_seen
        self.leave(self.current)

    def truncate(self) -> None:
        assert self.current is not None
        self.current.may_be_lost = True
        self.begin_anew(self.current)

    def begin_anew(self, former: File) -> None:
        os.truncate(self.log, 0)
        self.current = File(self.log.open("ab", buffering=0))
        self.former.append(former)

    def rewrite(self) -> None:
        """As long as it was, or longer."""
        more = self.random.randint(0, 3)
        lines = self.log.stat().st_size // len(self.line())
        self.truncate()
        assert self.current is not None
        self.current.write([self.line() for _ in range(max(1, lines + more))], 0)
        if not more:
            self.reader.wait(1)  # That its size is the same may be all that is looked at before.

    def copy_and_truncate(self) -> None:
        assert self.current is not None
        self.shift()
        copy, file = self.name(1), self.current
        shutil.copyfile(self.log, copy)
        if self.random.random() < 0.3:
            self.poll()  # It may be seen before its original is truncated.
        if self.random.random() < 0.2:
            # One in five is truncated late: lines that a look reads are in no copy.
            file.write(self.lines(3), 0)
            self.poll()
            self.latest = 0  # The journal has them, or they would be lost.
        file.handle.close()
        file.handle = copy.open("ab", buffering=0)
        file.left = float("-inf")  # Nobody writes to a copy.
        self.begin_anew(file)

    def replace(self) -> None:
        """By a longer version of itself, as rsync does."""
        file = self.current
        assert file is not None
        draft = self.folder / "draft"
        shutil.copyfile(self.log, draft)
        file.handle.close()
        file.handle = draft.open("ab", buffering=0)
        if self.random.random() < 0.5:
            file.write(self.lines(3), 0)
        draft.replace(self.log)
        self.random.choice([self.poll, self.restart])()

    # What the follower does.

    def poll(self) -> None:
        self.check(self.reader.poll())

    def wait(self) -> None:
        self.poll()
        self.reader.wait(self.random.randint(1, 30))
        self.poll()

    def check(self, lines: list[Any]) -> None:
        """All that can be seen has come, once and in order."""
        self.latest = 0
        files = [file for file in (*self.former, self.current) if file is not None]
        for line in lines:
            if not line.whole:
                assert line.data in {file.partial for file in self.former}
                continue
            found = [file for file in files if file.pending[:1] == [text(line)]]
            assert found, f"twice or not in order: {text(line)}"
            found[0].pending.pop(0)
            self.done.append((found[0], line))
            self.latest += 1
        for file in files:
            assert file.may_be_lost or file.pending == [], f"lost: {file.pending[0]}"
            file.is_seen = True
        assert len({(line.file.key, line.offset) for _, line in self.done}) == len(self.done)

    def restart(self) -> None:
        """Killed, with what came last not yet journaled; a rotated file may be compressed
        meanwhile.
        """
        for _ in range(min(self.random.randint(0, 4), self.latest)):
            file, line = self.done.pop()
            file.pending.insert(0, text(line))
        self.latest = 0
        before = self.reader
        before.lines = [line for _, line in self.done]
        known = before.known()
        before.logs.close()
        if self.random.random() < 0.5 and self.name(1).exists():
            self.compress(is_read=bool(known))
        self.reader = Reader(
            self.path, rotate_wait=ROTATE_WAIT, known=known, copies=before.copies, now=before.now
        )
        self.reader.origins = before.origins | self.reader.origins
        inodes = {path.stat().st_ino for path in self.folder.iterdir()}
        for file in self.former:
            was_before = not known and not self.has_members  # Rotated before the first start.
            if not file.is_packed and (was_before or file.inode not in inodes):
                file.may_be_lost = True  # Or deleted while no follower ran.
            if not os.fstat(file.handle.fileno()).st_size:
                file.left = float("-inf")
        if self.current is not None:
            self.current.is_seen = True

    def compress(self, *, is_read: bool) -> None:
        """The file that was rotated last, unless it was skipped; nobody can write to it any
        more.
        """
        path = self.name(1)
        file = {file.inode: file for file in self.former if not file.may_be_lost}.get(
            path.stat().st_ino
        )
        if file is not None:
            path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
            path.unlink()
            file.is_packed = True
            file.may_be_lost = not is_read
            file.left = float("-inf")


@pytest.mark.parametrize(
    "seeds",
    [range(80), pytest.param(range(80, 3000), marks=pytest.mark.soak)],
    ids=["some", "many"],
)
def test_each_line_comes_once(
    tmp_path: Path, seeds: range, caplog: pytest.LogCaptureFixture
) -> None:
    """The soak test shows what only rare orders of events lose or repeat, in about a minute."""
    caplog.set_level(logging.CRITICAL, "graphrag_eval_async.follow")
    for seed in seeds:
        folder = tmp_path / str(seed)
        folder.mkdir()
        History(folder, seed).run()
        shutil.rmtree(folder)
