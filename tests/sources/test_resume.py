from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from graphrag_eval_async import evaluate_stream, follow_jsonl
from tests.sources.followed import Reader, append, text, tick
from tests.sources.test_logs import rotate
from tests.support.data import answer, templates

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("nothing_left_open")


class Run(Reader):
    """A run that looks a few times and is killed then."""

    def __init__(self, path: Path, before: Reader | None = None, **options: Any) -> None:
        if before is not None:
            options = {"known": before.known(), "copies": before.copies, **options}
        super().__init__(path, **options)
        for _ in range(3):
            self.poll()
        self.fresh = [text(line) for line in self.lines]
        if before is not None:
            self.lines[:0] = before.lines
            self.origins = {**before.origins, **self.origins}
        self.logs.close()


def test_the_end(log: Path) -> None:
    log.write_text("1\n2\nhalf")
    with Reader(log, start="end") as reader:
        assert reader.texts() == []
        assert [*reader.origins.values()] == [4]
        append(log, " done\n3\n")
        assert reader.texts() == ["half done", "3"]
        assert [(line.number, line.offset) for line in reader.lines] == [(1, 4), (2, 14)]
        log.with_name("log.jsonl.1").write_text("old\n")
        rotate(log)
        log.write_text("4\n")
        assert sorted(reader.texts()) == ["4", "old"]


def test_the_end_is_kept(log: Path) -> None:
    log.with_name("log.jsonl.1").write_text("old\nhalf")
    log.write_text("1\n2\n")
    first = Run(log, start="end")
    assert first.fresh == []
    assert sorted(first.origins.values()) == [4, 4]
    append(log, "3\n")
    second = Run(log, first, start="end")
    assert second.fresh == ["3"]
    rotate(log)
    log.write_text("4\n")
    third = Run(log, second, start="end")
    assert third.fresh == ["4"]
    assert Run(log, third, start="end").fresh == []
    with Reader(log, known=third.known()) as reader:
        assert reader.end() == []


def test_start_after_a_line_of_a_rotated_file(log: Path) -> None:
    log.write_text("0\n")
    rotate(log)
    tick()
    log.write_text("1\n2\n")
    with Reader(log) as reader:
        position = reader.poll()[0].position
    for number in (3, 4):
        tick()
        rotate(log)
        log.write_text(f"{number}\n")
    log.with_name("other.jsonl.1").write_text("no\n")
    with Reader(log, start=position) as reader:
        assert reader.texts() == ["2", "3", "4"]


# Logs that were rotated and compressed while nobody looked


def compress(path: Path) -> Path:
    """As gzip and logrotate do."""
    subprocess.run(["gzip", str(path)], check=True)
    return path.with_name(f"{path.name}.gz")


def resume(path: Path, before: Reader | None = None, **options: Any) -> Run:
    """With a journal."""
    return Run(path, before, **{"is_first": False, **options})


@pytest.mark.parametrize("name", ["log.jsonl.1", "log-20260101.jsonl"])
@pytest.mark.parametrize("place", ["log.jsonl", "."])
@pytest.mark.parametrize("read", [0, 2, 3])
def test_the_rest_of_a_log_that_was_rotated_and_compressed(
    log: Path, place: str, name: str, read: int
) -> None:
    path = log.parent / place
    log.write_text("1\n2\n3\n"[: 2 * read])
    first = resume(path)
    assert len(first.fresh) == read
    append(log, "1\n2\n3\n"[2 * read :])
    log.rename(log.with_name(name))
    compress(log.with_name(name))
    log.write_text("4\n")
    second = resume(path, first)
    assert second.fresh == ["1", "2", "3", "4"][read:]
    assert [line.number for line in second.lines] == [1, 2, 3, 1]
    assert [line.offset for line in second.lines] == [0, 2, 4, 0]
    assert len({line.file.key for line in second.lines}) == 2
    assert resume(path, second).fresh == []


def test_files_that_also_exist_uncompressed(log: Path) -> None:
    """A compressed backup of a log that goes on; and one that gzip has not finished as yet."""
    log.write_text("1\n2\n")
    first = resume(log)
    shutil.copyfile(log, log.with_name("log.jsonl.bak"))
    compress(log.with_name("log.jsonl.bak"))
    append(log, "3\n")
    second = resume(log, first)
    assert second.fresh == ["3"]
    rotate(log)
    subprocess.run(["gzip", "-kf", str(log.with_name("log.jsonl.1"))], check=True)
    log.write_text("4\n")
    assert resume(log, second).fresh == ["4"]


def test_files_skipped_by_the_first_run_stay_skipped(log: Path) -> None:
    log.with_name("log.jsonl.1").write_text("old\n")
    compress(log.with_name("log.jsonl.1"))
    log.write_text("1\n")
    first = Run(log, start="end", is_first=True)
    append(log, "2\n")
    second = resume(log, first)
    assert second.fresh == ["2"]


def test_excluded_and_old_ones(log: Path) -> None:
    for number in (1, 2):
        log.with_name(f"log.jsonl.{number}").write_text(f"{number}\n")
        compress(log.with_name(f"log.jsonl.{number}"))
    assert resume(log, patterns=["*.2.gz"]).fresh == ["1"]
    assert resume(log, patterns=["*.gz"]).fresh == []
    os.utime(log.with_name("log.jsonl.2.gz"), (1, 1))
    first = resume(log, ignore_older=1000)
    assert first.fresh == ["1"]
    assert resume(log, first).fresh == []


async def test_a_stream_with_a_journal_reads_each_line_once(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    found: list[float] = []
    for day in range(1, 6):
        append(log, *(json.dumps({**answer(0), "elapsed_sec": 10 * day + n}) + "\n" for n in range(2)))
        follower = follow_jsonl(log, poll_interval=0.001, idle_timeout=0.01)
        stream = evaluate_stream(templates(), follower, journal=tmp_path / "results", ordered=True)
        found += [result["elapsed_sec"] async for result in stream]
        assert follower.lag.bytes == stream.skipped == 0
        assert found == sorted({*range(10 * day + 2)} & {10 * n + k for n in range(1, 6) for k in range(5)})
        append(log, *(json.dumps({**answer(0), "elapsed_sec": 10 * day + n}) + "\n" for n in range(2, 5)))
        log.rename(tmp_path / f"log-2026010{day}.jsonl")
        compress(tmp_path / f"log-2026010{day}.jsonl")


@pytest.mark.parametrize("fault", ["cut", "no gzip", "empty"])
def test_damaged_files(log: Path, fault: str, caplog: pytest.LogCaptureFixture) -> None:
    lines = [f"{number:02} {os.urandom(4000).hex()}" for number in range(20)]
    data = gzip.compress("\n".join([*lines, ""]).encode())
    texts = {"cut": data[: len(data) // 2], "no gzip": b"no gzip at all", "empty": b""}
    log.with_name("log.jsonl.1.gz").write_bytes(texts[fault])
    log.write_text("after\n")
    found = [line for line in resume(log).fresh if line != "after"]
    assert found[:5] == lines[: 5 if fault == "cut" else 0]
    assert ("log.jsonl.1.gz: cannot be decompressed" in caplog.text) == (fault != "empty")
