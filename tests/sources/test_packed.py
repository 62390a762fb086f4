"""Logs that were rotated and compressed while nobody looked."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import shutil
import subprocess
from time import process_time
from typing import TYPE_CHECKING, Any

import pytest

from graphrag_eval_async import evaluate_stream, follow_jsonl
from graphrag_eval_async.sources import packed
from tests.conftest import answer, templates
from tests.sources.followed import Reader, append, open_files, text
from tests.sources.test_resume import fresh, run
from tests.sources.test_tails import copytruncate, rotate

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


def test_several_are_read_from_the_oldest_on(log: Path) -> None:
    log.write_text("0\n")
    first = resume(log)
    for number in range(1, 5):
        append(log, f"{number} a\n{number} b\n")
        log.rename(log.with_name(f"log.jsonl-2026010{number}"))
        os.utime(log.with_name(f"log.jsonl-2026010{number}"), (number, number))
        if number < 4:
            compress(log.with_name(f"log.jsonl-2026010{number}"))
    append(log, "5\n")
    second = resume(log, first)
    assert fresh(second) == [f"{number} {part}" for number in range(1, 5) for part in "ab"] + ["5"]
    assert len({line.file.key for line in second.lines}) == 5
    assert fresh(resume(log, second)) == []


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


def test_a_last_line_that_was_half_written(log: Path) -> None:
    log.write_text("1\nha")
    with Reader(log, is_first=False) as first:
        assert [text(line) for line in first.end()] == ["1", "ha..."]
    append(log, "lf\n2\n")
    rotate(log)
    compress(log.with_name("log.jsonl.1"))
    second = run(log, first)
    assert fresh(second) == ["half", "2"]
    assert [line.number for line in second.lines] == [1, 2, 2, 3]


def test_copytruncate_and_compress(log: Path) -> None:
    log.write_text("1\n2\n")
    first = resume(log)
    append(log, "3\n")
    compress(copytruncate(log, "4\n"))
    second = resume(log, first)
    assert fresh(second) == ["3", "4"]
    assert fresh(resume(log, second)) == []


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


@pytest.mark.parametrize(
    "end", [b"\0" * 100, gzip.compress(b""), gzip.compress(b"1\n")], ids=["zeros", "empty", "short"]
)
def test_a_wrong_size_in_the_gzip_trailer(log: Path, end: bytes) -> None:
    log.write_text("1\n2\n")
    log.with_name("log.jsonl.9.gz").write_bytes(gzip.compress(b"skipped\n"))
    first = run(log, start="end", is_first=True)
    log.with_name("log.jsonl.9.gz").unlink()
    log.with_name("log.jsonl.1.gz").write_bytes(gzip.compress(b"1\n2\n") + end)
    second = resume(log, first)
    assert fresh(second)[:2] == ["1", "2"]
    assert fresh(resume(log, second)) == []


def test_logs_that_begin_alike_are_not_confused(log: Path) -> None:
    log.write_text("same\n")
    first = resume(log)
    other = log.with_name("log.jsonl.1")
    other.write_text("same\nother\n")
    compress(other)
    append(log, "more\n")
    second = resume(log, first)
    assert sorted(fresh(second)) == ["more", "other", "same"]
    assert fresh(resume(log, second)) == []


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


def test_a_file_skipped_before_it_was_compressed_is_read(log: Path) -> None:
    """Nothing tells it from a log that nobody has read."""
    log.with_name("log.jsonl.1").write_text("old\n")
    log.write_text("1\n2\n")
    first = run(log, start="end", is_first=True)
    append(log, "3\n")
    second = resume(log, first)
    assert fresh(second) == ["3"]
    compress(log.with_name("log.jsonl.1"))
    log.rename(log.with_name("log.jsonl.0"))
    compress(log.with_name("log.jsonl.0"))
    third = resume(log, second)
    assert fresh(third) == ["old"]
    assert fresh(resume(log, third)) == []


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


@pytest.mark.parametrize("fault", ["cut", "flipped", "no gzip", "empty"])
def test_damaged_files(log: Path, fault: str, caplog: pytest.LogCaptureFixture) -> None:
    lines = [f"{number:02} {os.urandom(4000).hex()}" for number in range(20)]
    data = bytearray(gzip.compress("\n".join([*lines, ""]).encode()))
    if fault == "cut":
        del data[len(data) // 2 :]
    elif fault == "flipped":
        data[len(data) // 2 : len(data) // 2 + 100] = b"\0" * 100
    else:
        data = bytearray(b"" if fault == "empty" else b"no gzip at all")
    log.with_name("log.jsonl.1.gz").write_bytes(data)
    log.write_text("after\n")
    first = resume(log)
    found = [line for line in fresh(first) if line != "after"]
    assert found[:5] == lines[: len(found[:5])]  # That more is not as it was, its checksum says at the end.
    assert (len(found) > 0) == (fault in {"cut", "flipped"})
    assert "after" in fresh(first)
    assert ("log.jsonl.1.gz: cannot be decompressed" in caplog.text) == (fault != "empty")
    assert fresh(resume(log, first)) == []


def test_members_and_lines_of_any_size(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed, "BLOCK_BYTES", 7)
    lines = ["x" * 200_000, "y", "é" * 70_000, "z"]
    members = [gzip.compress(piece.encode()) for piece in ("\n".join([*lines, ""]), "1\n", "2\n")]
    log.with_name("log.jsonl.1.gz").write_bytes(b"".join(members) + b"\0" * 100)
    first = resume(log)
    assert fresh(first) == [*lines, "1", "2"]
    for count in range(6):
        some = resume(log, None)
        some.lines = first.lines[:count]
        assert fresh(resume(log, some)) == [*lines, "1", "2"][count:]


def test_a_bomb_does_not_block_other_files(log: Path) -> None:
    """Each look reads a little of it, so that a follower can be stopped."""
    log.with_name("log.jsonl.1.gz").write_bytes(gzip.compress(b"\n" * (256 << 20) + b"1\n"))
    log.with_name("other.jsonl").write_text("")
    with Reader(log, log.with_name("other.jsonl"), is_first=False) as reader:
        reader.tails.look(1.0)
        for _ in range(100):
            before = process_time()
            assert sum(event.size for event in reader.tails.read()) <= 1 << 20
            assert process_time() - before < 1.0
        assert reader.tails.unread > 0


def test_they_are_not_decompressed_once_they_are_known(log: Path) -> None:
    for number in range(1, 9):
        log.with_name(f"log.jsonl.{number}.gz").write_bytes(
            gzip.compress(b"\n" * (4 << 20) + b"%d\n" % number)
        )
    first = resume(log)
    assert sorted(fresh(first)) == [*"12345678"]
    before = process_time()
    assert fresh(resume(log, first)) == []
    assert process_time() - before < 1.0


def test_more_than_can_be_open(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graphrag_eval_async.sources.registry.open_limit", lambda: 10)
    for number in range(12):
        log.with_name(f"log.jsonl.{number}.gz").write_bytes(gzip.compress(b"%d\n" % number))
    before = open_files()
    with Reader(log, is_first=False) as reader:
        assert open_files() <= before + 6
        reader.poll()
    reader_, found = reader, sorted(map(text, reader.lines), key=int)
    while len(found) < 12:
        reader_ = resume(log, reader_)
        assert fresh(reader_)
        found = sorted([*found, *fresh(reader_)], key=int)
    assert found == [str(number) for number in range(12)]
    assert fresh(resume(log, reader_)) == []


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


async def test_leaving_a_compressed_file_takes_effect_at_once(tmp_path: Path) -> None:
    """The text of a bomb is searched for known lines, which would take an hour."""
    log = tmp_path / "log.jsonl"
    log.write_text("1\n")
    first = resume(log)
    append(log, "2\n")
    bomb = gzip.compress(b"\n" * (64 << 20))
    log.with_name("log.jsonl.1.gz").write_bytes(bomb * 200)
    follower = follow_jsonl([log, tmp_path / "other.jsonl"], poll_interval=0.001)
    await follower.begin(first.known(), is_first=False)
    append(tmp_path / "other.jsonl", "other\n")
    before = process_time()
    lines = aiter(follower)
    assert text(await anext(lines)) == "other"
    waiting = asyncio.ensure_future(anext(lines))
    await asyncio.sleep(0.1)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await follower.aclose()
    assert process_time() - before < 5.0
