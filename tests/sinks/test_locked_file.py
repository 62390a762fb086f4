"""Files that one process at a time appends to: whole lines or nothing, and who may open them."""

from __future__ import annotations

import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag_eval_async import JournalError
from graphrag_eval_async.errors import JournalLocked
from graphrag_eval_async.sinks.files import LockedFile
from tests.sinks.disks import full_at
from tests.support.deadlines import WAIT_SECONDS, killing, running

ROOT = Path(__file__).parents[2]


@given(st.lists(st.binary(max_size=20), max_size=5), st.integers(0, 60))
def test_a_line_is_there_whole_or_not_at_all(tmp_path: Path, lines: list[bytes], room: int) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"")
    written = b""
    with closing(LockedFile(path)) as file:
        for line in lines:
            with full_at(room):
                if len(written) + len(line) <= room:
                    file.write(line)
                    written += line
                else:
                    with pytest.raises(JournalError, match="lines: cannot be written: File too large"):
                        file.write(line)
            assert path.read_bytes() == written
            assert file.size == len(written)
    with closing(LockedFile(path)) as file:
        file.write(b"more")
    assert path.read_bytes() == written + b"more"


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
