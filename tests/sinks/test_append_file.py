from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag_eval_async import JournalError
from graphrag_eval_async.errors import JournalLocked
from graphrag_eval_async.sinks import append_file
from graphrag_eval_async.sinks.append_file import AppendFile
from tests.deadlines import WAIT_SECONDS, killing
from tests.sinks.faults import Crash, CrashAt, ErrorAt, Faults

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[2]


@pytest.fixture
def faults(monkeypatch: pytest.MonkeyPatch) -> Faults:
    layer = Faults()
    monkeypatch.setattr(append_file, "os", layer)
    return layer


def run(script: str, *arguments: object) -> subprocess.Popen[str]:
    """A process in which `script` runs; it is to print a line when it is ready."""
    command = [sys.executable, "-c", script, *map(str, arguments)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, cwd=ROOT, text=True)


def test_lines_are_added_to_what_is_there(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    for text in (b"one\n", b"two\n"):
        with closing(AppendFile(path)) as lines:
            assert lines.size == len(path.read_bytes() if path.exists() else b"")
            lines.write(text)
            assert path.read_bytes().endswith(text)
            lines.sync()
    assert path.read_bytes() == b"one\ntwo\n"


# Faults


@given(
    st.lists(st.binary(max_size=20), max_size=5),
    st.integers(0, 60) | st.none(),
    st.integers(1, 7) | st.none(),
)
def test_a_line_is_there_whole_or_not_at_all(
    tmp_path: Path, faults: Faults, lines: list[bytes], room: int | None, most: int | None
) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"")
    faults.room, faults.most = room, most
    written = b""
    with closing(AppendFile(path)) as file:
        for line in lines:
            if room is None or len(written) + len(line) <= room:
                file.write(line)
                written += line
            else:
                with pytest.raises(JournalError, match="cannot be written: No space left on device"):
                    file.write(line)
                faults.room = room - len(written)
            assert path.read_bytes() == written
            assert file.size == len(written)


@pytest.mark.parametrize("name", ["EIO", "EDQUOT", "EROFS", "ESTALE"])
def test_a_disk_that_fails(tmp_path: Path, faults: Faults, name: str) -> None:
    path = tmp_path / "lines"
    number = getattr(errno, name)
    with closing(AppendFile(path)) as file:
        file.write(b"one\n")
        faults.errors |= {"write": number, "fdatasync": number}
        with pytest.raises(JournalError, match=f"cannot be written: {os.strerror(number)}"):
            file.write(b"two\n")
        with pytest.raises(JournalError, match=f"cannot be flushed to disk: {os.strerror(number)}"):
            file.sync()
    assert path.read_bytes() == b"one\n"


# What can be opened


def directory(path: Path) -> None:
    path.mkdir()


def fifo(path: Path) -> None:
    os.mkfifo(path)


def link_to_nowhere(path: Path) -> None:
    path.symlink_to(path.parent / "missing" / "file")


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (directory, "Is a directory"),
        (fifo, "it is not a regular file"),
        (link_to_nowhere, "No such file or directory"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_is_no_file(tmp_path: Path, make: Callable[[Path], None], reason: str) -> None:
    path = tmp_path / "lines"
    make(path)
    with pytest.raises(JournalError) as caught:
        AppendFile(path)
    assert str(caught.value) == f"{path}: cannot be opened for writing: {reason}"


# The lock


def test_two_writers_in_one_process(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    (tmp_path / "link").symlink_to("lines")
    with closing(AppendFile(path)):
        for name in ("lines", "link"):
            with pytest.raises(JournalLocked, match=f"{name}: another process, or another stream"):
                AppendFile(tmp_path / name)
    AppendFile(path).close()


HOLD = """
import sys
from graphrag_eval_async.sinks.append_file import AppendFile

file = AppendFile(sys.argv[1])
print("ready", flush=True)
sys.stdin.read()
"""

FORK = """
import os, sys
from graphrag_eval_async.sinks.append_file import AppendFile

file = AppendFile(sys.argv[1])
if not os.fork():
    print("ready", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("script", [HOLD, FORK], ids=["alone", "with a child"])
def test_the_lock_dies_with_its_process(tmp_path: Path, script: str) -> None:
    path = tmp_path / "lines"
    with run(script, path) as process:
        assert process.stdout is not None
        with killing(process, "the lock"):
            assert process.stdout.readline() == "ready\n"
        with pytest.raises(JournalLocked):
            AppendFile(path)
        process.send_signal(signal.SIGKILL)
        process.wait(WAIT_SECONDS)
        AppendFile(path).close()


def test_a_file_that_is_replaced_while_it_is_opened(tmp_path: Path, faults: Faults) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"older\n")

    def replace(name: str) -> None:
        if name == "stat" and faults.counts["stat"] == 1:
            (tmp_path / "newer").write_bytes(b"newer, and longer\n")
            (tmp_path / "newer").replace(path)
        if name == "stat" and faults.counts["stat"] == 2:
            path.unlink()

    faults.before = replace
    with closing(AppendFile(path)) as file:
        assert file.size == 0
        assert faults.counts["stat"] == 3
        file.write(b"mine\n")
    assert path.read_bytes() == b"mine\n"
    assert faults.counts["open"] == faults.counts["close"]


@pytest.mark.parametrize("change", ["remove", "rename", "replace"])
def test_a_file_that_is_gone_while_it_is_written(tmp_path: Path, change: str) -> None:
    path, other = tmp_path / "lines", tmp_path / "other"
    with closing(AppendFile(path)) as file:
        file.write(b"1\n")
        if change == "remove":
            path.unlink()
        elif change == "rename":
            path.rename(other)
        else:
            other.write_bytes(b"")
            other.replace(path)
        with pytest.raises(
            JournalError, match="lines: was removed, renamed or replaced while it was written"
        ):
            file.write(b"2\n")


# Moving lines to another file

WHOLE = [b"one\n", b"two\n", b"three\n"]
DAMAGED = b"one\nno\ntwo\n\nthree\nno, neither\n"
BAD = [(4, 7), (11, 12), (18, 30)]


def move(path: Path) -> None:
    with closing(AppendFile(path)) as file:
        file.move(BAD if file.size == len(DAMAGED) else [], f"{path}.damaged")
        file.write(b"")
        with pytest.raises(JournalLocked):
            AppendFile(path)
        assert file.size == path.stat().st_size


def test_lines_that_are_moved(tmp_path: Path) -> None:
    path, link = tmp_path / "lines", tmp_path / "link"
    link.symlink_to("lines")
    path.write_bytes(DAMAGED)
    path.chmod(0o640)
    move(link)
    assert path.read_bytes() == b"".join(WHOLE)
    assert (tmp_path / "link.damaged").read_bytes() == b"no\n\nno, neither\n"
    assert {file.stat().st_mode & 0o777 for file in (path, tmp_path / "link.damaged")} == {0o640}
    assert link.is_symlink()


@pytest.mark.parametrize("layer", [CrashAt, ErrorAt])
def test_a_fault_at_any_step_of_moving(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layer: Callable[[int], CrashAt | ErrorAt]
) -> None:
    """Nothing is gone, and the next start has it done."""
    path, other = tmp_path / "lines", tmp_path / "lines.damaged"
    failures = 0
    for step in range(40):
        other.unlink(missing_ok=True)
        path.write_bytes(DAMAGED)
        with monkeypatch.context() as context, layer(step) as faults:
            context.setattr(append_file, "os", faults)
            try:
                move(path)
            except (Crash, JournalError, OSError):
                failures += 1
        move(path)
        assert path.read_bytes() == b"".join(WHOLE)
        assert {*other.read_bytes().splitlines()} == {b"no", b"", b"no, neither"}
        assert not (tmp_path / "lines.tmp").exists()
    assert failures > 15
