"""Files, pipes, reports and locked files: whole lines, and old content until the new is
complete.
"""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path

import pytest

from graphrag_eval_async import JournalError
from graphrag_eval_async.errors import JournalLocked
from graphrag_eval_async.sinks import LineFile, write_report
from graphrag_eval_async.sinks.files import LockedFile, WholeFile
from tests.sinks.disks import full_at
from tests.support import virtual_time
from tests.support.deadlines import WAIT_SECONDS, killing, running
from tests.support.loop import settle

LINE = bytes(range(11, 256)) * 4000 + b"\n"
"""More than a pipe holds."""


@pytest.mark.parametrize("cancelled", [False, True])
def test_a_slow_reader_gets_whole_lines(tmp_path: Path, cancelled: bool) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)

    async def main(reader: int) -> None:
        def read() -> bytes:
            content = b""
            with suppress(BlockingIOError):
                while piece := os.read(reader, 1 << 20):
                    content += piece
            return content

        with LineFile(path) as lines:
            await lines.send(b"one\n")
            task = asyncio.create_task(lines.send(LINE))
            await settle()
            assert not task.done()
            if cancelled:
                task.cancel()
                await settle()
            content = b""
            while not task.done():
                content += read()
                await asyncio.sleep(0)
            assert content + read() == b"one\n" + LINE
            assert task.cancelled() == cancelled
            await lines.send(b"two\n")
            assert read() == b"two\n"

    with open(
        path, "rb", 0, opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)
    ) as reader:
        virtual_time.run(main(reader.fileno()))  # Else a cancelled line has half a second.


@pytest.mark.parametrize("line", [b"b" * 600 + b"\n", LINE], ids=["small", "large"])
async def test_a_line_that_does_not_fit_is_removed(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "lines"
    with LineFile(path) as lines:
        lines.write(b"one\n")
        await lines.send(line)
        for _ in range(2):
            with pytest.raises(OSError, match="lines") as error, full_at(len(line) + 500):
                await lines.send(line)
            assert error.value.errno == errno.EFBIG
            assert path.read_bytes() == b"one\n" + line
        lines.write(b"two\n")
    assert path.read_bytes() == b"one\n" + line + b"two\n"


def test_closing_waits_for_a_write_in_a_thread() -> None:
    """Otherwise the write could go on in another file with the same descriptor."""
    reader, writer = os.pipe()
    file = WholeFile(writer)
    with ThreadPoolExecutor(2) as threads, open(reader, "rb") as written:
        writing = threads.submit(file.write, LINE)
        start = written.read(1)
        close = threads.submit(file.close)
        with pytest.raises(TimeoutError):
            close.result(0.1)
        assert start + written.read() == LINE
        assert writing.result(WAIT_SECONDS) == len(LINE)
        close.result(WAIT_SECONDS)
    assert (file.closed, file.size) == (True, len(LINE))


async def test_a_report_replaces_the_one_before(tmp_path: Path) -> None:
    path, link = tmp_path / ("x" * 250 + ".html"), tmp_path / "link"
    link.symlink_to(path.name)
    await write_report(path, "older \u00e9, and longer")
    path.chmod(0o640)
    await write_report(link, "newer \u00e9")
    assert path.read_text(encoding="utf-8") == "newer \u00e9"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert link.is_symlink()
    assert sorted(tmp_path.iterdir()) == sorted([path, link])


async def test_a_report_that_cannot_be_written_leaves_the_one_before(tmp_path: Path) -> None:
    path = tmp_path / "report"
    path.write_text("older")
    with pytest.raises(OSError, match="report") as error, full_at(1000):
        await write_report(path, "x" * 1001)
    assert (error.value.errno, error.value.filename) == (errno.EFBIG, str(path))
    with pytest.raises(FileNotFoundError, match="absent"):
        await write_report(tmp_path / "absent" / "report", "text")
    assert path.read_text() == "older"
    assert list(tmp_path.iterdir()) == [path]


# Files that one process at a time appends to


ROOT = Path(__file__).parents[2]
HOLD = """
import os, sys
from graphrag_eval_async.sinks.files import LockedFile

file = LockedFile(sys.argv[1])
if not os.fork():
    print("ready", flush=True)
sys.stdin.read()
"""


def test_the_lock_dies_with_its_process_though_a_child_lives(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    command, pipe = [sys.executable, "-c", HOLD, str(path)], subprocess.PIPE
    with running(command, stdin=pipe, stdout=pipe, cwd=ROOT, text=True) as process:
        assert process.stdout is not None
        with killing(process, "the lock"):
            assert process.stdout.readline() == "ready\n"
        with pytest.raises(JournalLocked):
            LockedFile(path)
        process.send_signal(signal.SIGKILL)
        process.wait(WAIT_SECONDS)
        LockedFile(path).close()


def test_a_file_that_is_gone_while_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    with closing(LockedFile(path)) as file:
        file.write(b"1\n")
        path.rename(f"{path}.1")
        with pytest.raises(JournalError, match="lines: was removed, renamed or replaced"):
            file.write(b"2\n")
