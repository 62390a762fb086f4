"""Logs that were rotated and compressed while nobody looked."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from graphrag_eval_async import evaluate_stream, follow_jsonl
from tests.conftest import answer, templates
from tests.sources.followed import Reader, append, text
from tests.sources.test_logs import rotate
from tests.sources.test_resume import fresh, run

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("nothing_left_open")

NAMES = ["log.jsonl.1", "log-20260101.jsonl", "log.1.jsonl", "log.jsonl.old"]


def compress(path: Path) -> Path:
    """As gzip and logrotate do."""
    subprocess.run(["gzip", str(path)], check=True)
    return path.with_name(f"{path.name}.gz")


def resume(path: Path, before: Reader | None = None, **options: Any) -> Reader:
    """With a journal."""
    return run(path, before, **{"is_first": False, **options})


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("place", ["log.jsonl", ".", "l*.jsonl"])
@pytest.mark.parametrize("read", [0, 1, 2, 3])
def test_the_rest_of_a_log_that_was_rotated_and_compressed(
    log: Path, place: str, name: str, read: int
) -> None:
    path = log.parent / place
    log.write_text("1\n2\n3\n"[: 2 * read])
    first = resume(path)
    assert len(fresh(first)) == read
    append(log, "1\n2\n3\n"[2 * read :])
    log.rename(log.with_name(name))
    compress(log.with_name(name))
    log.write_text("4\n")
    second = resume(path, first)
    assert fresh(second) == ["1", "2", "3", "4"][read:]
    assert [line.number for line in second.lines] == [1, 2, 3, 1]
    assert [line.offset for line in second.lines] == [0, 2, 4, 0]
    assert len({line.file.key for line in second.lines}) == 2
    assert fresh(resume(path, second)) == []


def test_lines_read_by_an_earlier_run_are_not_read_again(log: Path) -> None:
    log.with_name("log.jsonl.1").write_text("1\n2\n3\nhalf")
    packed = compress(log.with_name("log.jsonl.1"))
    with Reader(log, is_first=False) as first:
        assert [text(line) for line in first.end()] == ["1", "2", "3", "half..."]
        assert first.lines[0].position.path == str(packed)
    packed.rename(log.with_name("log.jsonl.2.gz"))
    del first.lines[2:]
    with Reader(log, known=first.known(), copies=first.copies) as second:
        assert [(line.number, text(line)) for line in second.end()] == [(3, "3"), (4, "half...")]


@pytest.mark.parametrize("name", ["log.jsonl.1", "log.jsonl.bak"])
@pytest.mark.parametrize("read", [0, 2])
def test_files_that_also_exist_uncompressed(log: Path, name: str, read: int) -> None:
    """A compressed backup of a log that goes on; and one that gzip has not finished as yet."""
    log.write_text("1\n2\n"[: 2 * read])
    first = resume(log)
    append(log, "1\n2\n"[2 * read :])
    shutil.copyfile(log, log.with_name(name))
    backup = compress(log.with_name(name))
    append(log, "3\n")
    second = resume(log, first)
    assert fresh(second) == ["1", "2", "3"][read:]
    rotate(log)
    subprocess.run(["gzip", "-kf", str(log.with_name("log.jsonl.1"))], check=True)
    log.write_text("4\n")
    third = resume(log, second)
    assert fresh(third) == ["4"]
    backup.unlink(missing_ok=True)
    log.with_name("log.jsonl.1").unlink()
    assert fresh(resume(log, third)) == []


def test_without_a_journal_they_are_skipped(log: Path) -> None:
    log.with_name("log.jsonl.1").write_text("old\n")
    compress(log.with_name("log.jsonl.1"))
    log.write_text("1\n")
    with Reader(log) as reader:
        assert reader.texts() == ["1"]


def test_files_skipped_by_the_first_run_stay_skipped(log: Path) -> None:
    log.with_name("log.jsonl.1").write_text("old\n")
    compress(log.with_name("log.jsonl.1"))
    log.write_text("1\n")
    first = run(log, start="end", is_first=True)
    append(log, "2\n")
    second = resume(log, first)
    assert fresh(second) == ["2"]


def test_excluded_and_old_ones(log: Path) -> None:
    for number in (1, 2):
        log.with_name(f"log.jsonl.{number}").write_text(f"{number}\n")
        compress(log.with_name(f"log.jsonl.{number}"))
    assert fresh(resume(log, patterns=["*.2.gz"])) == ["1"]
    assert fresh(resume(log, patterns=["*.gz"])) == []
    os.utime(log.with_name("log.jsonl.2.gz"), (1, 1))
    first = resume(log, ignore_older=1000)
    assert fresh(first) == ["1"]
    assert fresh(resume(log, first)) == []


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
    found = [line for line in fresh(resume(log)) if line != "after"]
    assert found[:5] == lines[: 5 if fault == "cut" else 0]
    assert ("log.jsonl.1.gz: cannot be decompressed" in caplog.text) == (fault != "empty")
