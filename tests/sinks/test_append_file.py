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
from tests.sinks.faults import Faults

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
            lines.write([text[:2], b"", text[2:]])
            assert path.read_bytes().endswith(text)
            lines.sync()
    assert path.read_bytes() == b"one\ntwo\n"


def test_closing_twice_closes_nothing_else(tmp_path: Path) -> None:
    lines = AppendFile(tmp_path / "lines")
    lines.close()
    with (tmp_path / "other").open("wb") as other:
        lines.close()
        other.write(b"there")
    assert (tmp_path / "other").read_bytes() == b"there"


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
                file.write([line[:3], line[3:]])
                written += line
            else:
                with pytest.raises(JournalError, match="cannot be written: No space left on device"):
                    file.write([line[:3], line[3:]])
                faults.room = room - len(written)
            assert path.read_bytes() == written
            assert file.size == len(written)


def test_what_cannot_be_taken_back_is_no_other_error(tmp_path: Path, faults: Faults) -> None:
    path = tmp_path / "lines"
    with closing(AppendFile(path)) as file:
        file.write([b"one\n"])
        faults.room = 2
        faults.errors["ftruncate"] = errno.EIO
        with pytest.raises(JournalError, match="cannot be written: No space left on device"):
            file.write([b"two\n"])
    assert path.read_bytes() == b"one\ntw"


@pytest.mark.parametrize("name", ["EIO", "EDQUOT", "EROFS", "ESTALE"])
def test_a_disk_that_fails(tmp_path: Path, faults: Faults, name: str) -> None:
    path = tmp_path / "lines"
    number = getattr(errno, name)
    with closing(AppendFile(path)) as file:
        file.write([b"one\n"])
        faults.errors |= {"write": number, "fdatasync": number}
        with pytest.raises(JournalError, match=f"cannot be written: {os.strerror(number)}"):
            file.write([b"two\n"])
        with pytest.raises(JournalError, match=f"cannot be flushed to disk: {os.strerror(number)}"):
            file.sync()
    assert path.read_bytes() == b"one\n"


def test_a_file_that_may_not_grow(tmp_path: Path) -> None:
    script = """
import resource, sys
from graphrag_eval_async.sinks.append_file import AppendFile

file = AppendFile(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
file.write([b"x" * 599 + b"\\n"])
try:
    file.write([b"y" * 599 + b"\\n"])
except Exception as error:
    print(type(error).__name__, error)
file.write([b"z" * 399 + b"\\n"])
"""
    with run(script, tmp_path / "lines") as process:
        out, err = process.communicate(timeout=WAIT_SECONDS)
    assert (out, err) == (f"JournalError {tmp_path}/lines: cannot be written: File too large\n", "")
    assert (tmp_path / "lines").read_bytes() == b"x" * 599 + b"\n" + b"z" * 399 + b"\n"


def test_only_what_was_written_is_brought_to_the_disk(tmp_path: Path, faults: Faults) -> None:
    with closing(AppendFile(tmp_path / "lines")) as file:
        file.sync()  # What an earlier process has written may not be there yet.
        before = faults.counts["fdatasync"]
        file.sync()
        assert faults.counts["fdatasync"] == before
        file.write([b"one\n"])
        faults.errors["fdatasync"] = errno.EIO
        with pytest.raises(JournalError):
            file.sync()
        faults.errors.clear()
        file.sync()
        assert faults.counts["fdatasync"] == before + 2


# What can be opened


def directory(path: Path) -> None:
    path.mkdir()


def fifo(path: Path) -> None:
    os.mkfifo(path)


def link_to_nowhere(path: Path) -> None:
    path.symlink_to(path.parent / "missing" / "file")


def link_to_itself(path: Path) -> None:
    path.symlink_to(path)


def link_to_null(path: Path) -> None:
    path.symlink_to("/dev/null")


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (directory, "Is a directory"),
        (fifo, "it is not a regular file"),
        (link_to_nowhere, "No such file or directory"),
        (link_to_itself, "Too many levels of symbolic links"),
        (link_to_null, "it is not a regular file"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_is_no_file(tmp_path: Path, make: Callable[[Path], None], reason: str) -> None:
    path = tmp_path / "lines"
    make(path)
    with pytest.raises(JournalError) as caught:
        AppendFile(path)
    assert str(caught.value) == f"{path}: cannot be opened for writing: {reason}"


def test_a_path_that_no_file_can_have() -> None:
    with pytest.raises(JournalError, match="cannot be opened for writing"):
        AppendFile("a\0b")


def test_a_file_that_may_not_be_written(tmp_path: Path, faults: Faults) -> None:
    faults.errors["open"] = errno.EACCES  # Root may write anywhere.
    with pytest.raises(JournalError, match="cannot be opened for writing: Permission denied"):
        AppendFile(tmp_path / "lines")


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
        file.write([b"mine\n"])
    assert path.read_bytes() == b"mine\n"
    assert faults.counts["open"] == faults.counts["close"]


@pytest.mark.parametrize("change", ["remove", "rename", "replace"])
def test_a_file_that_is_gone_while_it_is_written(tmp_path: Path, change: str) -> None:
    path, other = tmp_path / "lines", tmp_path / "other"
    with closing(AppendFile(path)) as file:
        file.write([b"1\n"])
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
            file.write([b"2\n"])


def test_a_directory_that_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with closing(AppendFile("lines")) as file:
        monkeypatch.chdir("/")
        file.write([b"1\n"])
    assert (tmp_path / "lines").read_bytes() == b"1\n"


def test_another_file_in_its_place(tmp_path: Path) -> None:
    path, other = tmp_path / "lines", tmp_path / "other"
    link = tmp_path / "link"
    path.write_bytes(b"older\n")
    path.chmod(0o640)
    link.symlink_to("lines")
    with closing(AppendFile(link)) as file, closing(AppendFile(other)) as draft:
        draft.write([b"newer\n"])
        file.replace_by(draft)
        draft.close()
        with pytest.raises(JournalLocked):
            AppendFile(path)
        file.write([b"and more\n"])
        assert file.size == len(path.read_bytes())
    assert path.read_bytes() == b"newer\nand more\n"
    assert path.stat().st_mode & 0o777 == 0o640
    assert link.is_symlink()
    assert not other.exists()
    AppendFile(path).close()
