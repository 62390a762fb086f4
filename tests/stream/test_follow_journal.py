"""A followed log and a journal together: whatever happens between two runs, each line is
evaluated once.
"""

from __future__ import annotations

import shutil
import threading
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from graphrag_eval_async import evaluate_stream, follow_jsonl
from tests.support.data import REFERENCE, answer

if TYPE_CHECKING:
    from pathlib import Path

    from graphrag_eval_async import EvaluationStream


class Log:
    """A log in a folder of its own, and the journal of those who follow it."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.path = folder / "log.jsonl"
        self.journal = folder.parent / "journal"
        self._lines = 0

    def text(self, question: int = 0) -> bytes:
        self._lines += 1
        return orjson.dumps(answer(question, id=f"r{self._lines}")) + b"\n"

    def append(self, *pieces: bytes) -> None:
        with self.path.open("ab") as file:
            file.writelines(pieces)

    def rotate(self, name: str = "log.jsonl.1") -> None:
        self.path.rename(self.path.with_name(name))

    def copy(self, name: str) -> None:
        shutil.copyfile(self.path, self.path.with_name(name))

    async def follow(self, path: Path | None = None, **options: Any) -> list[str]:
        """The ids of the responses that one run evaluates, which reads all that there is."""
        stop = threading.Event()
        stop.set()
        source = follow_jsonl(path or self.path, stop=stop, poll_interval=0.001, **options)
        self.stream: EvaluationStream = evaluate_stream(REFERENCE, source, journal=self.journal)
        async with self.stream:
            return [result["response_id"] async for result in self.stream]

    def kept(self) -> list[str]:
        """The ids of the responses whose results the journal has."""
        return [
            orjson.loads(line)["response_id"] for line in self.journal.read_bytes().splitlines()
        ]


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path / "logs")


async def test_rotated_between_looks(log: Log) -> None:
    log.append(log.text(), log.text(1))
    log.rotate("log.jsonl.7")
    assert await log.follow() == ["r1", "r2"], (
        "or a run that was killed at its beginning would have lost it"
    )
    log.append(log.text())
    log.rotate("log.jsonl.2")
    log.append(log.text())
    log.rotate()
    log.append(log.text())
    assert await log.follow() == ["r3", "r4", "r5"]
    assert await log.follow() == []
    assert log.kept() == ["r1", "r2", "r3", "r4", "r5"]


async def test_an_equal_line_after_a_truncation(log: Log) -> None:
    """The truncation was seen, so the line is no longer the one that was evaluated before it."""
    line = log.text()
    log.append(line)
    assert await log.follow() == ["r1"]
    log.path.write_bytes(b"")
    assert await log.follow() == []
    log.append(line)
    assert await log.follow() == ["r1"]
    assert await log.follow() == []
    assert log.kept() == ["r1", "r1"]


async def test_start_at_the_end_skips_what_is_there(log: Log) -> None:
    log.append(log.text())
    log.rotate("log.jsonl.7")
    log.append(log.text())
    assert await log.follow(start="end") == []
    log.append(log.text())
    log.rotate("log.jsonl.1")
    log.append(log.text())
    assert await log.follow(start="end") == ["r3", "r4"], (
        "though there is no result by which it is known"
    )
    log.append(log.text())
    assert await log.follow(start="end") == ["r5"]


async def test_an_unfinished_line_is_evaluated_once_it_is_whole(log: Log) -> None:
    line = log.text()
    log.append(log.text(), line[:20])
    assert await log.follow() == ["r2"]
    assert log.stream.rejects.counts == {"incomplete": 1}
    log.append(line[20:])
    assert await log.follow() == ["r1"]
    assert log.stream.rejects.counts == {}


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b" \n"])
async def test_a_line_without_its_newline_is_evaluated_once(log: Log, end: bytes) -> None:
    log.append(log.text(), log.text()[:-1])
    assert await log.follow() == ["r1", "r2"]
    assert await log.follow() == []
    log.append(end, log.text())
    assert await log.follow() == ["r3"]
    assert await log.follow() == []


async def test_a_journal_in_the_followed_directory_is_no_log(log: Log) -> None:
    log.append(log.text())
    log.journal = log.path.with_name("results.jsonl")
    for found in (["r1"], []):
        assert await log.follow(log.path.parent) == found


@pytest.mark.parametrize(
    ("place", "name"), [("log.jsonl", "log.jsonl.1"), (".", "log-20260101.jsonl")]
)
async def test_copied_and_truncated_between_looks(log: Log, place: str, name: str) -> None:
    path = log.path.parent / place
    log.append(log.text(), log.text())
    assert await log.follow(path) == ["r1", "r2"]
    log.append(log.text())
    log.copy(name)
    log.path.write_bytes(b"")
    log.append(log.text())
    assert sorted(await log.follow(path)) == ["r3", "r4"]
    log.path.write_bytes(log.text())
    assert await log.follow(path) == ["r5"], "the copy is still known as one"
    assert await log.follow(path) == []


async def test_copied_before_the_last_line_and_truncated_after_it(log: Log) -> None:
    """Another run finds a copy that lacks the last line that was read."""
    log.append(log.text())
    assert await log.follow() == ["r1"]
    log.copy("log.jsonl.1")
    log.append(log.text())
    assert await log.follow() == ["r2"]
    log.path.write_bytes(b"")
    assert await log.follow() == []
    log.append(log.text())
    assert await log.follow() == ["r3"]
    assert log.kept() == ["r1", "r2", "r3"]


async def test_the_journal_of_an_earlier_version(log: Log) -> None:
    """It has the key of the original only, under the inode of the copy."""
    log.append(log.text(), log.text())
    assert await log.follow() == ["r1", "r2"]
    log.copy("log.jsonl.1")
    assert await log.follow() == []
    run = log.journal.with_name("journal.run")
    conditions = orjson.loads(run.read_bytes())
    [(root, copy)] = conditions["copies"].items()
    assert int(root, 16) == log.path.with_name("log.jsonl.1").stat().st_ino
    conditions["copies"] = {root: copy["original"]}
    run.write_bytes(orjson.dumps(conditions))
    log.path.write_bytes(b"")
    log.append(log.text())
    assert await log.follow() == ["r3"]
    assert await log.follow() == []
