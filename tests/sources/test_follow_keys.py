"""Keys of a log that was truncated before a whole line of it was read: later runs know the keys,
but have no line to recognise the file by.
"""

from __future__ import annotations

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
