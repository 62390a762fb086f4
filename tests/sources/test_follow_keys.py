"""Keys of logs that were truncated or replaced, where later runs have no line to recognise the file
by, or one that misleads.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from tests.sources.followed import Reader

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log.jsonl"


def _resume(log: Path, before: Reader) -> Reader:
    """Return a reader that has the journal of another one, which was killed."""
    reader = Reader(log, known=before.known(), copies=before.copies, now=before.now, is_first=False)
    reader.lines = before.lines
    reader.origins = before.origins | reader.origins
    return reader


def test_a_log_that_was_truncated_in_two_runs(log: Path) -> None:
    """The second run knows only the second key: the next one must be the third, not the first."""
    log.write_text("unfinished")
    with Reader(log, is_first=False) as first_run:
        first_run.poll()
        log.write_text("short")
        assert first_run.texts() == []

    with _resume(log, first_run) as second_run:
        log.write_text("line\n")
        assert second_run.texts() == ["line"]

    with _resume(log, second_run) as third_run:
        assert third_run.texts() == []


def test_another_file_with_the_inode_of_a_replacement(log: Path) -> None:
    """A log of which nothing was read was replaced; a copy gets the inode of the replacement."""
    log.write_text("unfinished")
    with Reader(log, is_first=False) as first_run:
        first_run.poll()
        log.write_text("short")
        first_run.poll()
        replacement = log.with_name("replacement")
        replacement.write_text("shorter")
        replacement.replace(log)
        assert first_run.texts() == []

    # While nothing follows it, the log becomes another file.
    former = log.with_name("former")
    log.rename(former)
    log.write_text("line\n")
    with _resume(log, first_run) as second_run:
        assert second_run.texts() == ["line"]
        # Written to the former file, the copy has its inode for sure.
        shutil.copyfile(log, former)
        former.rename(log.with_name("log.jsonl.1"))
        assert second_run.texts() == []


def test_a_replacement_of_a_log_that_is_read_from_its_end(log: Path) -> None:
    """No line was read of it either, but those that were skipped stay skipped."""
    log.write_text("old\n")
    with Reader(log, start="end") as first_run:
        replacement = log.with_name("replacement")
        replacement.write_text("old\n")
        replacement.replace(log)
        assert first_run.texts() == []

    with _resume(log, first_run) as second_run, log.open("a") as file:
        file.write("new\n")
        file.flush()
        assert second_run.texts() == ["new"]


def test_a_log_that_was_truncated_and_rotated_between_two_looks(log: Path) -> None:
    """Its new lines come again if they came too late for the journal, though the last line that the
    journal has is at its place again.
    """
    log.write_text("1\n2\n")
    with Reader(log, is_first=False) as first_run:
        assert first_run.texts() == ["1", "2"]
        log.write_text("3\n2\n")
        log.rename(log.with_name("log.jsonl.1"))
        log.write_text("4\n")
        assert first_run.texts() == ["3", "2", "4"]

    del first_run.lines[2:]
    with _resume(log, first_run) as second_run:
        assert second_run.texts() == ["3", "2", "4"]
