"""Which files are followed, from where, and what comes of them once they are rotated or a run
resumes.
"""

from __future__ import annotations

import gzip
import json
import logging
import os
import resource
import shutil
from time import time
from typing import TYPE_CHECKING, Any

import pytest

from graphrag_eval_async import evaluate_stream, follow_jsonl
from graphrag_eval_async.sources.follow.names import rotated_from
from tests.sources.followed import Reader, append, open_files, text, tick
from tests.support.data import answer, templates

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def _nothing_left_open() -> Iterator[None]:
    before = open_files()
    yield
    assert open_files() == before


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log.jsonl"


def rotate(log: Path, keep: int = 5) -> None:
    """As many loggers do."""
    for number in range(keep, 0, -1):
        older = log.with_name(f"{log.name}.{number}")
        if older.exists():
            older.rename(log.with_name(f"{log.name}.{number + 1}"))
    log.rename(log.with_name(f"{log.name}.1"))


def compress(path: Path, *, keep: bool = False) -> None:
    """As gzip and logrotate do."""
    packed = path.with_name(f"{path.name}.gz")
    packed.write_bytes(gzip.compress(path.read_bytes()))
    shutil.copystat(path, packed)
    if not keep:
        path.unlink()


NAMES = {
    "log.jsonl": "log.jsonl.1 log.jsonl.2026-01-31_12-00 log.jsonl.20260131T120000Z "
    "log.jsonl-20260131 log-20260131.jsonl log-2026-01-31T12-00-00.000.jsonl "
    "log.2026-01-31_12-00-00_123456.jsonl log.1.jsonl log.jsonl.old log.rotated.jsonl",
    "log.1.jsonl": "log.1.jsonl.2",
    "log.jsonl.gz": "log.jsonl.1.gz",
    "": "log.jsonl log.results.jsonl log.jsonl.gz log-7.jsonl log.jsonl.1x",
}


def test_names_before_rotation() -> None:
    for former, names in NAMES.items():
        for name in names.split():
            assert rotated_from(name) == [former] * bool(former), name


def test_rotation_the_old_file_is_read_to_its_end_first(log: Path) -> None:
    log.write_text("1\n2\n")
    with Reader(log) as reader:
        assert reader.texts() == ["1", "2"]
        writer = log.open("a")
        append(log, "3\n")
        rotate(log)
        log.write_text("5\n")
        writer.write("4\n6")
        writer.close()
        assert reader.texts() == ["3", "4", "5"]
        reader.wait(4.7)
        assert reader.texts() == []
        reader.wait(0.3)
        assert reader.texts() == ["6..."]


def test_files_rotated_earlier_are_skipped(log: Path) -> None:
    for name in ("log.jsonl.1", "log.jsonl.2", "log-20260101.jsonl", "log.old"):
        log.with_name(name).write_text("old\n")
    log.write_text("new\n")
    with Reader(log) as reader:
        assert reader.texts() == ["new"]
        rotate(log)
        log.write_text("newer\n")
        assert reader.texts() == ["newer"]


def test_a_truncated_file_is_read_from_its_start(
    log: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log.write_text("1\n2\n3\n4\n5\nhalf a")
    with Reader(log) as reader:
        assert reader.texts() == list("12345")
        log.write_text("longer\nthan\nit\nwas\n")
        assert reader.texts() == ["longer", "than", "it", "was"]
        keys = list(dict.fromkeys(line.file.key for line in reader.lines))
        assert [key.split("-")[-1] for key in keys] == ["0", "1"]
        assert [record.levelno for record in caplog.records] == [logging.WARNING]
        assert (
            f"{log}: was truncated or rewritten after 16 bytes were read, 6 of them" in caplog.text
        )


def test_directories_and_globs(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    with Reader(folder) as of_folder, Reader(tmp_path / "*" / "[ab]*.log") as of_glob:
        assert of_folder.texts() == of_glob.texts() == []
        folder.mkdir()
        for name in ("a.jsonl", "b.txt", ".c.jsonl", "a.log", "c.log"):
            (folder / name).write_text(f"{name}\n")
        (folder / "d.jsonl").mkdir()
        assert of_folder.texts() == ["a.jsonl"]
        of_glob.wait(1)
        assert of_glob.texts() == ["a.log"]
        (folder / "b.jsonl").write_text("2\n")
        append(folder / "a.jsonl", "3\n")
        assert sorted(of_folder.texts()) == ["2", "3"]
        append(folder / "a.log", "4\n")
        rotate(folder / "a.log")
        (folder / "a.log").write_text("5\n")
        assert of_glob.texts() == ["4", "5"]
        shutil.rmtree(folder)
        assert of_folder.texts() == []
        folder.mkdir()
        (folder / "a.jsonl").write_text("6\n")
        assert of_folder.texts() == ["6"]


def test_excluded_patterns(tmp_path: Path) -> None:
    folder = tmp_path / "debug"
    folder.mkdir()
    for path in (tmp_path, folder):
        for name in ("a.jsonl", "a.debug.jsonl", "a.debug.jsonl.1", "debug.jsonl"):
            (path / name).write_text(f"{path.name} {name}\n")
    paths, patterns = (tmp_path, folder), ["*.debug.jsonl", f"{folder}/a*"]
    with Reader(*paths, patterns=patterns, is_first=False) as reader:
        expected = "debug debug.jsonl", f"{tmp_path.name} a.jsonl", f"{tmp_path.name} debug.jsonl"
        assert sorted(reader.texts()) == [*expected]
        rotate(tmp_path / "a.debug.jsonl")
        (tmp_path / "b.debug.jsonl").write_text("new\n")
        assert reader.texts() == []


def test_files_that_are_older_are_ignored_until_they_are_written_to(tmp_path: Path) -> None:
    now = time()
    for name, age in (("old", 3601), ("young", 2400)):
        (tmp_path / f"{name}.jsonl").write_text(f"{name}\nhalf")
        os.utime(tmp_path / f"{name}.jsonl", (now - age, now - age))
    with Reader(tmp_path, ignore_older=3600) as reader:
        assert reader.texts() == ["young"]
        append(tmp_path / "old.jsonl", " done\nmore\n")
        assert reader.texts() == ["half done", "more"]
    assert [*reader.origins.values()] == [4]
    os.utime(tmp_path / "old.jsonl", (now - 7200, now - 7200))
    append(tmp_path / "young.jsonl", "\n")
    with Reader(tmp_path, ignore_older=3600, known=reader.known()) as reader:
        assert reader.texts() == ["half"]


def test_a_file_that_cannot_be_read_for_a_while(
    log: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> bytes:
        raise OSError(5, "Input/output error")

    log.write_text("1\n")
    with Reader(log) as reader:
        assert reader.texts() == ["1"]
        append(log, "2\n")
        with monkeypatch.context() as patch:
            patch.setattr(os, "pread", fail)  # Only a disk that fails gives this error otherwise.
            for _ in range(5):
                assert reader.texts() == []
                reader.wait(1)
        told = f"{log}: not readable yet; retrying: Input/output error"
        assert [record.getMessage() for record in caplog.records] == [told]
        assert reader.texts() == ["2"]


@pytest.mark.parametrize("fails", [False, True], ids=["", "and a disk that fails now and then"])
def test_many_files_with_few_descriptors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    calls = 0
    pread = os.pread

    def fail_now_and_then(*args: int) -> bytes:
        nonlocal calls
        calls += 1
        if calls % 2 == 0:
            raise OSError(5, "Input/output error")
        return pread(*args)

    taken = max(map(int, os.listdir("/dev/fd"))) + 20
    limits, before = resource.getrlimit(resource.RLIMIT_NOFILE), open_files()
    files = [tmp_path / f"{number:04}.jsonl" for number in range(3 * taken + 50)]
    for file in files:
        file.write_text("1\n2")
    resource.setrlimit(resource.RLIMIT_NOFILE, (4 * taken, limits[1]))
    try:
        with Reader(tmp_path) as reader:
            assert reader.texts() == ["1"] * len(files)
            assert open_files() <= before + 3 * taken + 1
            for file in files:
                append(file, "x\n")
            if fails:
                with monkeypatch.context() as patch:
                    patch.setattr(os, "pread", fail_now_and_then)
                    for _ in range(10):
                        reader.poll()
                        reader.wait(1)
            while reader.poll():
                pass
            assert [text(line) for line in reader.lines[len(files) :]] == ["2x"] * len(files)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


# Runs after one another


class Run(Reader):
    """A run with a journal that looks a few times and is killed then."""

    def __init__(self, path: Path, before: Reader | None = None, **options: Any) -> None:
        if before is not None:
            options = {"known": before.known(), "copies": before.copies, **options}
        super().__init__(path, **{"is_first": False, **options})
        for _ in range(3):
            self.poll()
        self.fresh = [text(line) for line in self.lines]
        if before is not None:
            self.lines[:0] = before.lines
            self.origins = {**before.origins, **self.origins}
        self.logs.close()


def test_the_end(log: Path) -> None:
    log.with_name("log.jsonl.1").write_text("old\nhalf")
    log.write_text("1\n2\nhalf")
    first = Run(log, start="end", is_first=True)
    assert first.fresh == []
    assert sorted(first.origins.values()) == [4, 4]
    append(log, " done\n3\n")
    second = Run(log, first, start="end")
    assert second.fresh == ["half done", "3"]
    assert [(line.number, line.offset) for line in second.lines] == [(1, 4), (2, 14)]
    rotate(log)
    log.write_text("4\n")
    third = Run(log, second, start="end")
    assert third.fresh == ["4"]
    assert Run(log, third, start="end").fresh == []


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


def test_compressed_files_that_are_skipped(log: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What gzip has not finished, and those that are excluded or old."""
    log.write_text("1\n2\n3\n")
    first = Run(log)
    rotate(log)
    compress(log.with_name("log.jsonl.1"), keep=True)
    os.truncate(log.with_name("log.jsonl.1.gz"), 15)
    log.write_text("4\n")
    assert Run(log, first).fresh == ["4"]
    assert "cannot be decompressed" not in caplog.text
    compress(log.with_name("log.jsonl.1"))
    assert Run(log, start="end", is_first=True).fresh == []
    assert Run(log, patterns=["*.gz"]).fresh == ["4"]
    os.utime(log.with_name("log.jsonl.1.gz"), (1, 1))
    assert Run(log, ignore_older=1000).fresh == ["4"]
    assert Run(log).fresh == ["1", "2", "3", "4"]


async def test_a_stream_with_a_journal_reads_each_line_once(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    found: list[float] = []
    for day in range(1, 6):
        append(
            log, *(json.dumps({**answer(0), "elapsed_sec": 10 * day + n}) + "\n" for n in range(2))
        )
        follower = follow_jsonl(log, poll_interval=0.001, idle_timeout=0.01)
        stream = evaluate_stream(templates(), follower, journal=tmp_path / "results", ordered=True)
        found += [result["elapsed_sec"] async for result in stream]
        assert follower.lag.bytes == stream.skipped == 0
        assert found == sorted(
            {*range(10 * day + 2)} & {10 * n + k for n in range(1, 6) for k in range(5)}
        )
        append(
            log,
            *(json.dumps({**answer(0), "elapsed_sec": 10 * day + n}) + "\n" for n in range(2, 5)),
        )
        log.rename(tmp_path / f"log-2026010{day}.jsonl")
        compress(tmp_path / f"log-2026010{day}.jsonl")


def test_no_descriptor_for_a_compressed_log(log: Path) -> None:
    """All open logs wait for it, so none can be closed: it is named, and the others are read."""
    append(log, "1\n")
    rotate(log)
    compress(log.with_name("log.jsonl.1"))
    append(log, "2\n")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with Reader(log, is_first=False) as reader:
        free = os.dup(0)
        os.close(free)
        resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
        try:
            lines = [text(line) for _ in range(5) for line in reader.logs.read().lines]
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert lines == ["2"]
        assert reader.logs.unread_bytes == 0
        assert list(reader.logs.unread.reasons.values()) == ["cannot be read: Too many open files"]


@pytest.mark.parametrize("fault", ["cut", "no gzip", "empty"])
def test_damaged_files(log: Path, fault: str, caplog: pytest.LogCaptureFixture) -> None:
    lines = [f"{number:02} {os.urandom(4000).hex()}" for number in range(20)]
    data = gzip.compress("\n".join([*lines, ""]).encode())
    texts = {"cut": data[: len(data) // 2], "no gzip": b"no gzip at all", "empty": b""}
    log.with_name("log.jsonl.1.gz").write_bytes(texts[fault])
    log.write_text("after\n")
    caplog.clear()
    found = [line for line in Run(log).fresh if line != "after"]
    assert found[:5] == lines[: 5 if fault == "cut" else 0]
    assert ("log.jsonl.1.gz: cannot be decompressed" in caplog.text) == (fault != "empty")
