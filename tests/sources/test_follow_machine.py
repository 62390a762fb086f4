"""Any sequence of writes, rotations, deletions, truncations and restarts, against a model of the files."""

from __future__ import annotations

import gzip
import logging
import os
import shutil
import tempfile
from pathlib import Path
from typing import IO, Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.sources.followed import Reader, text

ROTATE_WAIT = 20.0


class File:
    """What was written to a file since it was made or truncated."""

    def __init__(self, handle: IO[bytes]) -> None:
        self.handle = handle
        self.pending: list[str] = []
        self.partial = b""
        self.rest = b""
        self.is_open = False
        self.is_lost = False
        self.is_packed = False
        self.left = 0.0

    def write(self, lines: list[bytes], cut: int) -> None:
        """Finish the last line, and write others, of the last one at least 8 bytes, and all but so many."""
        *whole, last = lines
        end = max(8, len(last) - cut)
        data = self.rest + b"".join(whole) + last[:end]
        self.rest = last[end:]
        self.handle.write(data)
        *lines, self.partial = (self.partial + data).split(b"\n")
        self.pending += [line.decode() for line in lines]


class Following(RuleBasedStateMachine):
    """Reading happens only in polls, so the model knows of each line whether anybody can have seen it."""

    @initialize(
        place=st.sampled_from(["file", "directory", "glob"]),
        by_copy=st.booleans(),
        rotated=st.sampled_from(["log.jsonl.{}", "log.{}.jsonl", "log-202601{:02}.jsonl"]),
    )
    def begin(self, place: str, by_copy: bool, rotated: str) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.log = self.folder / "log.jsonl"
        self.path = {"file": self.log, "directory": self.folder, "glob": self.folder / "l*.jsonl"}[place]
        self.by_copy = by_copy
        self.rotated = rotated
        self.has_members = place != "file" and rotated.endswith(".jsonl")
        self.reader = Reader(self.path, rotate_wait=ROTATE_WAIT)
        self.current: File | None = None
        self.twin: File | None = None
        self.former: list[File] = []
        self.count = 0
        self.rotations = 0
        self.done: list[tuple[File, Any]] = []
        self.places: set[tuple[str, int]] = set()
        self.latest = 0
        self.origins: dict[str, int] = {}
        self.copies: dict[str, str] = {}

    def teardown(self) -> None:
        if hasattr(self, "reader"):
            self.reader.tails.close()
            for file in (*self.former, self.current, self.twin):
                if file is not None:
                    file.handle.close()
            shutil.rmtree(self.folder)

    # What the writer does.

    def line(self) -> bytes:
        """No two begin alike, so that no file is a copy of another by chance."""
        self.count += 1
        return f"{self.count:07} é\u2028 xxxxx\n".encode()

    @rule(lines=st.integers(1, 5), cut=st.integers(0, 20))
    def write(self, lines: int, cut: int) -> None:
        if self.current is None:
            self.current = File(self.log.open("ab", buffering=0))
        self.current.write([self.line() for _ in range(lines)], cut)

    @rule(lines=st.integers(1, 300))
    def write_much(self, lines: int) -> None:
        self.write(lines, 0)

    @precondition(lambda self: self.late_file() is not None)
    @rule(lines=st.integers(1, 2), cut=st.integers(0, 20))
    def write_late(self, lines: int, cut: int) -> None:
        file = self.late_file()
        assert file is not None
        file.write([self.line() for _ in range(lines)], cut)

    def late_file(self) -> File | None:
        """The one that lost its name last, if that is not too long ago."""
        if (
            self.former
            and not (file := self.former[-1]).is_lost
            and self.reader.now < file.left + ROTATE_WAIT
        ):
            return file
        return None

    @precondition(lambda self: self.current is not None and not self.by_copy)
    @rule()
    def rotate(self) -> None:
        assert self.current is not None
        self.shift()
        self.log.rename(self.name(1))
        self.leave()

    def name(self, number: int) -> Path:
        return self.log.with_name(self.rotated.format(number))

    def compress(self, *, is_read: bool) -> None:
        """The file that was rotated last, unless it was skipped; nobody can write to it any more."""
        path = self.name(1)
        inodes = {os.fstat(file.handle.fileno()).st_ino: file for file in self.former if not file.is_lost}
        if (file := inodes.get(path.stat().st_ino)) is None:
            return
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
        file.is_packed = True
        file.is_lost = not is_read
        file.left = float("-inf")

    def shift(self) -> None:
        for number in range(self.rotations, 0, -1):
            for suffix in ("", ".gz"):
                path = Path(f"{self.name(number)}{suffix}")
                if path.exists():
                    path.rename(f"{self.name(number + 1)}{suffix}")
        self.rotations += 1

    def leave(self) -> None:
        assert self.current is not None
        self.current.left = self.reader.now
        self.former.append(self.current)
        self.current = None

    @precondition(lambda self: self.current is not None)
    @rule()
    def delete(self) -> None:
        assert self.current is not None
        self.log.unlink()
        self.current.is_lost = not self.current.is_open
        self.leave()

    @precondition(lambda self: self.current is not None)
    @rule()
    def truncate(self) -> None:
        assert self.current is not None
        handle = self.current.handle
        is_open = self.current.is_open
        self.current.is_lost = True
        self.current = File(handle)
        self.current.is_open = is_open
        os.truncate(self.log, 0)

    @precondition(lambda self: self.current is not None)
    @rule(more=st.integers(0, 3))
    def rewrite(self, more: int) -> None:
        """As long as it was, or longer."""
        lines = self.log.stat().st_size // len(self.line())
        self.truncate()
        self.write(max(1, lines + more), 0)
        if not more:
            self.reader.wait(1)  # That its size is the same may be all that is looked at before.

    @precondition(lambda self: self.current is not None and self.by_copy)
    @rule()
    def copy_and_truncate(self) -> None:
        assert self.current is not None
        self.shift()
        copy = self.name(1)
        shutil.copyfile(self.log, copy)
        handle = self.current.handle
        self.current.handle = copy.open("ab", buffering=0)
        is_open = self.current.is_open
        self.leave()
        self.former[-1].left = float("-inf")  # Nobody writes to a copy.
        self.current = File(handle)
        self.current.is_open = is_open
        os.truncate(self.log, 0)

    @precondition(lambda self: self.current is not None)
    @rule(lines=st.integers(0, 3), restarted=st.booleans())
    def replace(self, lines: int, restarted: bool) -> None:
        """By a longer version of itself, as rsync does."""
        assert self.current is not None
        draft = self.folder / "draft"
        shutil.copyfile(self.log, draft)
        self.current.handle.close()
        self.current.handle = draft.open("ab", buffering=0)
        if lines:
            self.current.write([self.line() for _ in range(lines)], 0)
        draft.replace(self.log)
        if restarted:
            self.restart(0)
        else:
            self.poll()

    @precondition(lambda self: self.current is not None and self.has_members and self.twin is None)
    @rule(polled=st.booleans())
    def begin_twin(self, polled: bool) -> None:
        """Another agent's log, with the name of a rotated one and the same first line."""
        first, newline, _ = self.log.read_bytes().partition(b"\n")
        if not newline:
            return
        self.check(self.reader.poll())
        self.twin = File(self.name(20).open("ab", buffering=0))
        self.twin.write([first + newline], 0)
        if polled:
            assert [line for line in self.reader.poll() if line.whole] == []
        self.twin.write([self.line()], 0)
        self.check(self.reader.poll())

    @precondition(lambda self: self.twin is not None)
    @rule(lines=st.integers(1, 5), cut=st.integers(0, 20))
    def write_twin(self, lines: int, cut: int) -> None:
        assert self.twin is not None
        self.twin.write([self.line() for _ in range(lines)], cut)

    # What the follower does.

    @rule()
    def poll(self) -> None:
        self.check(self.reader.poll())

    @rule(seconds=st.integers(1, 30))
    def wait(self, seconds: int) -> None:
        self.check(self.reader.poll())
        self.reader.wait(seconds)
        self.check(self.reader.poll())

    def check(self, lines: list[Any]) -> None:
        """All that can be seen has come, once and in order."""
        self.latest = 0
        files = [file for file in (*self.former, self.current, self.twin) if file is not None]
        for line in lines:
            if not line.whole:
                assert line.data in {file.partial for file in self.former}
                continue
            file = next(file for file in files if not file.is_lost and text(line) in file.pending)
            assert file.pending.pop(0) == text(line)
            place = (line.file.key, line.offset)
            assert place not in self.places
            self.places.add(place)
            self.done.append((file, line))
            self.latest += 1
        for file in files:
            assert file.is_lost or file.pending == []
            file.is_open = True

    @rule(undone=st.integers(0, 4), packed=st.booleans())
    def restart(self, undone: int, packed: bool = False) -> None:
        """Killed, with what came last not yet journaled; a rotated file may be compressed meanwhile."""
        for _ in range(min(undone, self.latest)):
            if self.done[-1][0] is self.twin:
                break  # By its first line, it could be the other log.
            file, line = self.done.pop()
            self.places.remove((line.file.key, line.offset))
            file.pending.insert(0, text(line))
        self.latest = 0
        self.origins |= self.reader.origins
        self.reader.lines = [line for _, line in self.done]
        self.reader.origins = self.origins
        self.copies = self.reader.copies
        known = self.reader.known()
        self.reader.tails.close()
        if packed and self.name(1).exists():
            self.compress(is_read=bool(known))
        self.reader = Reader(
            self.path, rotate_wait=ROTATE_WAIT, known=known, copies=self.copies, now=self.reader.now
        )
        names = {os.stat(path).st_ino for path in self.folder.iterdir()}
        for file in self.former:
            was_before = not known and not self.has_members  # Rotated before the first start.
            if file.is_packed:
                continue
            if was_before or os.fstat(file.handle.fileno()).st_ino not in names:
                file.is_lost = True  # Or deleted while it was down.
            if os.fstat(file.handle.fileno()).st_size == 0:
                file.left = float("-inf")
        if self.current is not None:
            self.current.is_open = True


SETTINGS = settings(deadline=None, suppress_health_check=list(HealthCheck), stateful_step_count=40)


@pytest.mark.parametrize("examples", [60, pytest.param(3000, marks=pytest.mark.soak)])
def test_following(examples: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    run_state_machine_as_test(Following, settings=settings(SETTINGS, max_examples=examples))
