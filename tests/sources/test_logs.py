from __future__ import annotations

import logging
import os
import shutil
from time import time
from typing import TYPE_CHECKING

import pytest

from graphrag_eval_async.sources import logs
from tests.sources.followed import Reader, append, open_files, text

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("nothing_left_open")


def rotate(log: Path, keep: int = 5) -> None:
    """As many loggers do."""
    for number in range(keep, 0, -1):
        older = log.with_name(f"{log.name}.{number}")
        if older.exists():
            older.rename(log.with_name(f"{log.name}.{number + 1}"))
    log.rename(log.with_name(f"{log.name}.1"))


def test_rotation_the_old_file_is_read_to_its_end_first(log: Path) -> None:
    log.write_text("1\n2\n")
    with Reader(log) as reader:
        assert reader.texts() == ["1", "2"]
        writer = log.open("a")
        append(log, "3\n")
        rotate(log)
        log.write_text("5\n")
        writer.write("4\n6")
        writer.flush()
        assert reader.texts() == ["3", "4", "5"]
        writer.write("\n7\n")
        writer.flush()
        append(log, "8\n")
        assert sorted(reader.texts()) == ["6", "7", "8"]
        reader.wait(4)
        writer.write("9")
        writer.flush()
        assert reader.texts() == []
        reader.wait(4.9)
        assert reader.texts() == []
        reader.wait(0.1)
        assert reader.texts() == ["9..."]
        writer.close()
        assert len({line.file.key for line in reader.lines}) == 2


def test_files_rotated_earlier_are_skipped(log: Path) -> None:
    for name in ("log.jsonl.1", "log.jsonl.2", "log-20260101.jsonl", "log.old"):
        log.with_name(name).write_text("old\n")
    log.write_text("new\n")
    with Reader(log) as reader:
        assert reader.texts() == ["new"]
        rotate(log)
        log.write_text("newer\n")
        assert reader.texts() == ["newer"]


@pytest.mark.parametrize("content", ["", "x\n", "longer\nthan\nit\nwas\nbefore\n"])
def test_a_truncated_file_is_read_from_its_start(
    log: Path, content: str, caplog: pytest.LogCaptureFixture
) -> None:
    log.write_text("1\n2\n3\n4\n5\nhalf a")
    with Reader(log) as reader:
        assert reader.texts() == list("12345")
        log.write_text(content)
        assert reader.texts() == content.split("\n")[:-1]
        append(log, "end\n")
        assert reader.texts() == ["end"]
        keys = list(dict.fromkeys(line.file.key for line in reader.lines))
        assert [key.split("-")[-1] for key in keys] == ["0", "1"]
        assert [record.levelno for record in caplog.records] == [logging.WARNING]
        assert f"{log}: was truncated or rewritten after 16 bytes were read, 6 of them" in caplog.text


@pytest.mark.parametrize("name", ["log.1.jsonl", "log.jsonl.1"])
@pytest.mark.parametrize("stopped", [False, True])
def test_a_log_that_begins_like_another_is_not_a_copy_once_it_differs(
    log: Path, name: str, stopped: bool, caplog: pytest.LogCaptureFixture
) -> None:
    other = log.with_name(name)
    log.write_text("same\n")
    with Reader(log.parent) as first:
        assert first.texts() == ["same"]
        other.write_text("same\n")
        assert first.texts() == []
        assert f"{other}: repeats {log}; skipped unless it differs" in caplog.text
        if not stopped:
            append(other, "2\n")
            assert first.texts() == ["same", "2"]
    with Reader(log.parent, known=first.known(), copies=first.copies) as second:
        if stopped:
            append(other, "2\n")
            assert second.texts() == ["same", "2"]
        append(other, "3\n")
        assert second.texts() == ["3"]


def test_a_directory_that_comes_and_goes(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    with Reader(folder) as reader:
        assert reader.texts() == []
        folder.mkdir()
        assert reader.texts() == []
        (folder / "a.jsonl").write_text("1\n")
        (folder / "b.txt").write_text("no\n")
        (folder / ".c.jsonl").write_text("no\n")
        (folder / "d.jsonl").mkdir()
        assert reader.texts() == ["1"]
        (folder / "b.jsonl").write_text("2\n")
        append(folder / "a.jsonl", "3\n")
        assert sorted(reader.texts()) == ["2", "3"]
        shutil.rmtree(folder)
        assert reader.texts() == []
        folder.mkdir()
        (folder / "a.jsonl").write_text("6\n")
        assert reader.texts() == ["6"]


def test_globs(tmp_path: Path) -> None:
    with Reader(tmp_path / "*" / "[ab]*.log") as reader:
        assert reader.texts() == []
        (tmp_path / "x").mkdir()
        (tmp_path / "x" / "a.log").write_text("1\n")
        (tmp_path / "x" / "c.log").write_text("no\n")
        reader.wait(1)
        assert reader.texts() == ["1"]
        (tmp_path / "y").mkdir()
        (tmp_path / "y" / "b1.log").write_text("2\n")
        reader.wait(1)
        assert reader.texts() == ["2"]
        append(tmp_path / "x" / "a.log", "4\n")
        rotate(tmp_path / "x" / "a.log")
        (tmp_path / "x" / "a.log").write_text("5\n")
        assert reader.texts() == ["4", "5"]


def test_excluded_patterns(tmp_path: Path) -> None:
    folder = tmp_path / "debug"
    folder.mkdir()
    for path in (tmp_path, folder):
        for name in ("a.jsonl", "a.debug.jsonl", "a.debug.jsonl.1", "debug.jsonl"):
            (path / name).write_text(f"{path.name} {name}\n")
    paths = (tmp_path, folder)
    with Reader(*paths, patterns=["*.debug.jsonl", f"{folder}/a*"], is_first=False) as reader:
        assert sorted(reader.texts()) == [
            "debug debug.jsonl",
            f"{tmp_path.name} a.jsonl",
            f"{tmp_path.name} debug.jsonl",
        ]
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
        known, origins = reader.known(), reader.origins
    assert [*origins.values()] == [4]
    os.utime(tmp_path / "old.jsonl", (now - 7200, now - 7200))
    append(tmp_path / "young.jsonl", "\n")
    with Reader(tmp_path, ignore_older=3600, known=known) as reader:
        assert reader.texts() == ["half"]


def test_a_file_that_cannot_be_read_for_a_while(
    log: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.write_text("1\n")
    with Reader(log) as reader:
        assert reader.texts() == ["1"]
        append(log, "2\n")

        def fail(*_: object) -> bytes:
            raise OSError(5, "Input/output error")

        with monkeypatch.context() as patch:
            patch.setattr(os, "pread", fail)
            for _ in range(5):
                assert reader.texts() == []
                reader.wait(1)
        assert [record.getMessage() for record in caplog.records] == [
            f"{log}: not readable yet; retrying: Input/output error"
        ]
        assert reader.texts() == ["2"]


def test_many_files_with_few_descriptors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "open_limit", lambda: 5)
    files = [tmp_path / f"{number:03}.jsonl" for number in range(50)]
    before = open_files()
    for file in files:
        file.write_text("1\n2")
    with Reader(tmp_path) as reader:
        assert open_files() <= before + 6
        assert reader.texts() == ["1"] * 50
        assert open_files() <= before + 6
        for file in files:
            append(file, "x\n")
        for _ in range(25):
            reader.poll()
        assert [text(line) for line in reader.lines[50:]] == ["2x"] * 50
        append(files[4], "last")
        assert [text(line) for line in reader.end()] == ["last..."]
