from __future__ import annotations

import logging
import os
import resource
import shutil
from time import process_time, time
from typing import TYPE_CHECKING

import pytest

from graphrag_eval_async.sources import checkpoints, registry, rotation
from graphrag_eval_async.sources.identity import repeated
from tests.sources.followed import Reader, append, open_files, text

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("nothing_left_open")

LOGGER = "graphrag_eval_async.follow"


def rotate(log: Path, keep: int = 5) -> None:
    """As many loggers do."""
    for number in range(keep, 0, -1):
        older = log.with_name(f"{log.name}.{number}")
        if older.exists():
            older.rename(log.with_name(f"{log.name}.{number + 1}"))
    log.rename(log.with_name(f"{log.name}.1"))


def test_a_line_is_read_once_its_newline_is_written(log: Path) -> None:
    with Reader(log) as reader:
        assert reader.texts() == []
        for piece in ("a", "b", "c\nd", ""):
            append(log, piece)
        assert reader.texts() == ["abc"]
        assert reader.texts() == []
        append(log, "\n\ne\n")
        assert reader.texts() == ["d", "e"]
        assert [(line.number, line.offset) for line in reader.lines] == [(1, 0), (2, 4), (4, 7)]
        assert {line.file.key for line in reader.lines} == {reader.lines[0].file.key}
        assert {(line.file.path, line.file.followed) for line in reader.lines} == {(str(log), True)}


def test_a_character_may_be_cut_anywhere(log: Path) -> None:
    data = "é\u2028\U0001f600\n".encode() * 3
    with Reader(log) as reader:
        for byte in data:
            with log.open("ab") as file:
                file.write(bytes([byte]))
            reader.poll()
        assert [line.data for line in reader.lines] == data.split(b"\n")[:-1]


def test_unfinished_lines_come_at_the_end(log: Path) -> None:
    log.write_text("a\nb")
    with Reader(log) as reader:
        assert reader.texts() == ["a"]
        append(log, "c\nd")
        assert [text(line) for line in reader.end()] == ["bc", "d..."]


def test_long_lines(log: Path) -> None:
    log.write_text("x" * 30)
    with Reader(log, limit=10) as reader:
        assert reader.texts() == []
        append(log, "x" * 30 + "\nshort\n")
        assert reader.texts() == ["<60 bytes>", "short"]
        assert reader.lines[0].position.length == 60
        append(log, "y" * 20)
        assert [text(line) for line in reader.end()] == ["<20 bytes>..."]


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
        rotate(log)
        assert reader.texts() == []
        assert len({line.file.key for line in reader.lines}) == 2


def test_a_large_old_file_is_read_to_its_end_before_a_new_one_begins(log: Path) -> None:
    log.write_text("first\n")
    with Reader(log) as reader:
        assert reader.texts() == ["first"]
        size = 5 * registry.PASS_BYTES
        append(log, *(f"{number:9}\n" for number in range(size // 10)))
        rotate(log)
        log.write_text("new\n")
        lines = reader.texts()
        assert lines == [*(f"{number:9}" for number in range(size // 10)), "new"]


def test_several_rotations_between_two_polls(log: Path) -> None:
    log.write_text("1\n")
    with Reader(log) as reader:
        assert reader.texts() == ["1"]
        for number in range(2, 5):
            append(log, f"{number}\n")
            rotate(log)
            log.write_text(f"first of {number}\n")
        assert reader.texts() == ["2", "first of 2", "3", "first of 3", "4", "first of 4"]
        rotate(log)
        assert reader.texts() == []
        rotated = log.with_name("log.jsonl.4")
        assert rotated.exists()
        reader.wait(6)
        assert reader.texts() == []
        log.write_text("5\n")
        rotate(log)
        assert reader.texts() == ["5"]
        reader.wait(6)
        assert reader.texts() == []


def test_late_writes_to_a_file_that_was_empty_when_it_was_rotated(log: Path) -> None:
    with Reader(log) as reader, log.open("a") as writer:
        rotate(log)
        assert reader.texts() == []
        reader.wait(4)
        assert reader.texts() == []
        print("late", file=writer, flush=True)
        reader.wait(10)  # It is met when the directory is listed again.
        assert reader.texts() == ["late"]


def test_files_rotated_earlier_are_skipped(log: Path) -> None:
    for name in ("log.jsonl.1", "log.jsonl.2", "log-20260101.jsonl", "log.old"):
        log.with_name(name).write_text("old\n")
    log.write_text("new\n")
    with Reader(log) as reader:
        assert reader.texts() == ["new"]
        rotate(log)
        log.write_text("newer\n")
        assert reader.texts() == ["newer"]
        assert sorted(reader.origins.values()) == [4, 4, 4]


@pytest.mark.parametrize(
    "name", ["log.jsonl.1", "log.jsonl-20260101", "log-2026-01-01.jsonl", "log.7.jsonl", "log.jsonl.old"]
)
def test_names_of_rotated_files(log: Path, name: str) -> None:
    with Reader(log) as reader:
        log.write_text("1\n")
        log.rename(log.with_name(name))  # Nobody has looked meanwhile.
        log.write_text("2\n")
        assert reader.texts() == ["1", "2"]


@pytest.mark.parametrize(
    "name",
    ["log.results.jsonl", "log.jsonl.gz", "log.jsonl.1.gz", "log-7.jsonl", "other.jsonl.1", "log.jsonl~"],
)
def test_names_of_other_files(log: Path, name: str) -> None:
    with Reader(log) as reader:
        log.with_name(name).write_text("1\n")
        log.write_text("2\n")
        assert reader.texts() == ["2"]


def test_a_deleted_file_is_read_to_its_end(log: Path) -> None:
    log.write_text("1\n")
    with Reader(log) as reader:
        assert reader.texts() == ["1"]
        with log.open("a") as writer:
            writer.write("2\n3")
            log.unlink()
        assert reader.texts() == ["2"]
        log.write_text("4\n")
        assert reader.texts() == ["4"]
        reader.wait(5)
        assert reader.texts() == ["3..."]


def test_a_reused_inode_number(log: Path) -> None:
    with Reader(log) as reader:
        for round_ in range(3):
            log.write_text(f"same\n{round_}\n")
            assert reader.texts() == ["same", str(round_)]
            log.unlink()
        assert len({line.file.key for line in reader.lines}) == 3
        reader.wait(6)  # From now on nothing holds the old ones open.
        reader.poll()
        numbers = {line.file.key.split("-")[0] for line in reader.lines}
        for _ in range(20):
            log.write_text("same\n")
            number = f"{log.stat().st_ino:x}"
            assert reader.texts() == ["same"]
            log.unlink()
            reader.wait(6)
            reader.poll()
            if number in numbers:
                break
        else:
            pytest.skip("this file system does not use inode numbers again")


def test_replaced_by_a_copy_with_a_reused_inode_number(log: Path) -> None:
    gone = [log.with_name(f"gone{number}") for number in range(50)]
    with Reader(log, *gone) as reader:
        for path in gone:
            path.touch()
        reader.poll()
        numbers = {path.stat().st_ino for path in gone}
        log.write_text("1\n")
        for path in gone:
            path.unlink()
        reader.poll()
        reader.wait(6)
        assert reader.texts() == []
        draft = shutil.copyfile(log, log.with_name("draft"))
        if draft.stat().st_ino not in numbers:
            pytest.skip("this file system does not use inode numbers again")
        draft.rename(log)
        assert reader.texts() == []
        append(log, "2\n")
        assert reader.texts() == ["2"]


@pytest.mark.parametrize(
    "content", ["", "x\n", "same\n", "other\nlines\n", "longer\nthan\nit\nwas\nbefore\n"]
)
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


def test_a_file_rewritten_with_the_same_size(log: Path) -> None:
    log.write_text("1\n2\n")
    with Reader(log) as reader:
        assert reader.texts() == ["1", "2"]
        log.write_text("3\n4\n")
        assert reader.texts() == ["3", "4"]
        reader.wait(10)
        assert reader.texts() == []
        log.write_text("5\n6\n")
        reader.wait(1)
        assert reader.texts() == ["5", "6"]


def test_a_file_rewritten_with_an_old_time_stamp_soon_after_a_change(log: Path) -> None:
    log.write_text("1\n2\n")
    os.utime(log, ns=(0, 0))
    with Reader(log) as reader:
        assert reader.texts() == ["1", "2"]
        log.write_text("3\n4\n")
        os.utime(log, ns=(0, 0))
        assert reader.texts() == ["3", "4"]


def test_a_file_cut_down_to_a_part(log: Path) -> None:
    log.write_text("1\n2\n3\n")
    with Reader(log) as reader:
        assert reader.texts() == ["1", "2", "3"]
        os.truncate(log, 3)
        assert reader.texts() == ["1"]
        append(log, "4\n")
        assert reader.texts() == ["24"]


def test_truncated_before_anything_was_read(log: Path, caplog: pytest.LogCaptureFixture) -> None:
    with Reader(log) as reader:
        log.write_text("1\n")
        log.write_text("2\n")
        assert reader.texts() == ["2"]
    assert not caplog.records


def copytruncate(log: Path, more: str = "") -> Path:
    """As logrotate does, with what is written meanwhile."""
    for number in range(5, 0, -1):
        older = log.with_name(f"{log.name}.{number}")
        if older.exists():
            older.rename(log.with_name(f"{log.name}.{number + 1}"))
    copy = log.with_name(f"{log.name}.1")
    shutil.copyfile(log, copy)
    os.truncate(log, 0)
    append(log, more)
    return copy


@pytest.mark.parametrize("more", ["", "new\n", "new\n" * 100])
@pytest.mark.parametrize("place", ["file", "directory"])
def test_a_copy_of_a_truncated_file_is_resumed(
    log: Path, more: str, place: str, caplog: pytest.LogCaptureFixture
) -> None:
    log.write_text("1\n2\nha")
    with Reader(log if place == "file" else log.parent) as reader:
        assert reader.texts() == ["1", "2"]
        append(log, "lf\n3\n")
        copytruncate(log, more)
        new = more.split("\n")[:-1]
        assert reader.texts() == ["half", "3", *new]
        append(log, "4\n")
        assert reader.texts() == ["4"]
        reader.wait(6)
        assert reader.texts() == []
        copytruncate(log)
        append(log, "5\n")
        assert reader.texts() == ["5"]
        reader.wait(6)
        assert reader.texts() == []
        assert len({line.file.key for line in reader.lines}) == 3
    assert not caplog.records


def test_an_unreadable_copy(
    log: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> bool:
        raise OSError(5, "Input/output error")

    log.write_text("1\n")
    with Reader(log) as reader:
        assert reader.texts() == ["1"]
        copytruncate(log, "2\n")
        with monkeypatch.context() as patch:
            patch.setattr(rotation, "has", fail)
            assert reader.texts() == ["1", "2"]  # It is read as a file that nobody has met.
        assert "was truncated or rewritten" in caplog.text


def test_a_copy_of_data_truncated_before_it_was_seen(log: Path) -> None:
    log.write_text("1\n2\n")
    with Reader(log) as reader:
        assert reader.texts() == ["1", "2"]
        log.write_text("3\n")
        copytruncate(log, "4\n")
        assert sorted(reader.texts()) == ["3", "4"]


@pytest.mark.parametrize("name", ["log-20260101.jsonl", "log.1.jsonl"])
def test_a_copy_that_is_itself_a_name_of_the_directory(log: Path, name: str) -> None:
    log.write_text("1\n2\n")
    with Reader(log.parent) as reader:
        assert reader.texts() == ["1", "2"]
        append(log, "3\n")
        shutil.copyfile(log, log.with_name(name))
        log.write_text("4\n")
        assert sorted(reader.texts()) == ["3", "4"]
        reader.wait(6)
        append(log, "5\n")
        assert reader.texts() == ["5"]


@pytest.mark.parametrize("place", ["file", "directory"])
def test_a_copy_beside_a_file_that_keeps_growing(log: Path, place: str) -> None:
    log.write_text("1\n2\n")
    with Reader(log if place == "file" else log.parent) as reader:
        assert reader.texts() == ["1", "2"]
        shutil.copyfile(log, log.with_name("log.jsonl.bak"))
        append(log, "3\n")
        assert reader.texts() == ["3"]
        rotate(log)
        append(log, "4\n")
        assert reader.texts() == ["4"]


@pytest.mark.parametrize("name", ["log.jsonl.1", "log-20260101.jsonl", "log.1.jsonl"])
def test_a_copy_made_before_the_truncation(log: Path, name: str, caplog: pytest.LogCaptureFixture) -> None:
    log.write_text("1\n2\n3\n")
    with Reader(log.parent) as reader:
        assert reader.texts() == ["1", "2", "3"]
        copy = log.with_name(name)
        copy.write_text("")
        assert reader.texts() == []
        append(copy, "1\n2")
        assert reader.texts() == []
        append(copy, "\n3\n")
        assert reader.texts() == []
        log.write_text("4\n")
        assert reader.texts() == ["4"]
    assert [f"{copy}: so far repeats {log}" in record.getMessage() for record in caplog.records] == [True]


@pytest.mark.parametrize("name", ["log.jsonl.1", "log-20260101.jsonl"])
def test_truncated_while_its_copy_is_checked(
    log: Path, name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def compare_late(descriptor: int, other: int, begin: int = 0) -> int | None:
        os.truncate(log, 0)
        return repeated(descriptor, other, begin)

    monkeypatch.setattr(checkpoints, "repeated", compare_late)
    log.write_text("1\n2\n")
    with Reader(log.parent) as reader:
        assert reader.texts() == ["1", "2"]
        append(log, "3\n4")
        shutil.copyfile(log, log.with_name(name))
        reader.poll()
        append(log, "5\n")
        reader.end()
        assert sorted(map(text, reader.lines)) == ["1", "2", "3", "4...", "5"]
    assert not caplog.records


@pytest.mark.parametrize("size", [10, 4 << 20])
def test_a_hole_that_a_writer_leaves_after_its_log_was_truncated(
    log: Path, size: int, caplog: pytest.LogCaptureFixture
) -> None:
    """It keeps its place in the file, since it did not open the log to append."""
    with log.open("wb", buffering=0) as writer, Reader(log) as reader:
        writer.write(b"1\n" * (size // 2))
        reader.poll()
        del reader.lines[:]
        os.truncate(log, 0)
        writer.write(b"2\n3")
        assert reader.texts() == ["2"]
        writer.write(b"\n")
        assert reader.texts() == ["3"]
        assert [(line.number, line.offset) for line in reader.lines] == [(1, size), (2, size + 2)]
        os.truncate(log, 0)
        os.truncate(log, 8)
        assert reader.texts() == []
        assert reader.end() == []
    assert f"{log}: skipped {size} NUL bytes at its start" in caplog.text


@pytest.mark.parametrize("name", ["log.1.jsonl", "log-2026-01-31.jsonl", "log.jsonl.1"])
@pytest.mark.parametrize("stopped", [False, True])
def test_a_log_that_begins_like_another_is_not_a_copy_once_it_differs(
    log: Path, name: str, stopped: bool, caplog: pytest.LogCaptureFixture
) -> None:
    other = log.with_name(name)
    log.write_text("same\n")
    with Reader(log.parent) as reader:
        assert reader.texts() == ["same"]
        other.write_text("same\n")
        assert reader.texts() == []
        assert f"{other}: so far repeats {log}; its first 5 bytes are not evaluated again" in caplog.text
        append(log, "1\n")
        assert reader.texts() == ["1"]
        if stopped:
            before, reader = (
                reader,
                Reader(log.parent, known=reader.known(), copies=reader.copies, now=reader.now),
            )
            before.tails.close()
            append(other, "2\n")
            reader.wait(10)
        else:
            append(other, "2\n")
            reader.wait(10)
        assert reader.texts() == ["same", "2"]
        append(other, "3\n")
        assert reader.texts() == ["3"]
        assert reader.copies == {}
        reader.tails.close()


def test_a_copy_that_grows_like_its_original_stays_a_copy(log: Path) -> None:
    log.write_text("1\n2\n3\n")
    other = log.with_name("log.1.jsonl")
    with Reader(log.parent) as reader:
        reader.poll()
        for piece in ("1", "\n", "2\n3", "\n"):
            append(other, piece)
            assert reader.texts() == []
        append(other, "4\n")
        assert reader.texts() == ["1", "2", "3", "4"]


@pytest.mark.parametrize("pattern", ["log*", "**/*", "log.jsonl.1*"])
@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".xz", ".zst"])
def test_globs_do_not_match_compressed_files(log: Path, pattern: str, suffix: str) -> None:
    log.with_name("log.jsonl.1").write_text("1\n")
    for name in ("log.jsonl", "log.jsonl.1", "log.jsonl.2"):
        log.with_name(name + suffix).write_text("compressed\n")
    with Reader(log.parent / pattern, is_first=False) as reader:
        assert reader.texts() == ["1"]


def test_a_partial_line_is_not_taken_for_a_copy(log: Path) -> None:
    log.write_text('{"line": 1}\n')
    with Reader(log) as reader:
        reader.poll()
        rotate(log)
        with log.open("w") as writer:
            writer.write('{"line')
            writer.flush()
            rotate(log)
            assert reader.texts() == []
            writer.write('": 2}\n')
        assert reader.texts() == ['{"line": 2}']


def test_a_new_file_that_begins_like_one_that_was_rotated_unseen(log: Path) -> None:
    with Reader(log) as reader:
        log.write_text("same\n1\n")
        rotate(log)
        log.write_text("same\n")
        assert reader.texts() == ["same", "1", "same"]


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
        folder.rename(tmp_path / "away")
        append(tmp_path / "away" / "a.jsonl", "4\n")
        assert reader.texts() == ["4"]
        reader.wait(6)
        assert reader.texts() == []
        append(tmp_path / "away" / "a.jsonl", "5\n")
        (tmp_path / "away").rename(folder)
        assert reader.texts() == ["5"]
        shutil.rmtree(folder)
        assert reader.texts() == []
        folder.mkdir()
        (folder / "a.jsonl").write_text("6\n")
        assert reader.texts() == ["6"]
        reader.wait(10)
        assert reader.texts() == []
        (folder / "e.jsonl").write_text("7\n")
        assert reader.texts() == ["7"]


def test_a_file_that_is_renamed_within_its_directory(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("1\n")
    with Reader(tmp_path) as reader:
        assert reader.texts() == ["1"]
        append(tmp_path / "a.jsonl", "2\n3")
        (tmp_path / "a.jsonl").rename(tmp_path / "b.jsonl")
        assert reader.texts() == ["2"]
        reader.wait(6)
        append(tmp_path / "b.jsonl", "4\n")
        assert reader.texts() == ["34"]
        (tmp_path / "b.jsonl").rename(tmp_path / "c.jsonl")
        (tmp_path / "b.jsonl").write_text("5\n")
        append(tmp_path / "c.jsonl", "6\n")
        assert sorted(reader.texts()) == ["5", "6"]


def test_several_paths_and_names_of_one_file(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text("1\n")
    (tmp_path / "link.jsonl").symlink_to(file)
    os.link(file, tmp_path / "hard.jsonl")
    with Reader(tmp_path, file, tmp_path / "link.jsonl", f"{tmp_path}/[ab]*.jsonl") as reader:
        assert reader.texts() == ["1"]
        append(file, "2\n")
        assert reader.texts() == ["2"]
        file.unlink()
        append(tmp_path / "hard.jsonl", "3\n")
        assert reader.texts() == ["3"]
        reader.wait(6)
        append(tmp_path / "hard.jsonl", "4\n")
        assert reader.texts() == ["4"]


def test_a_link_that_is_pointed_elsewhere(tmp_path: Path) -> None:
    link = tmp_path / "current.jsonl"
    for name in ("a", "b"):
        (tmp_path / name).write_text(f"{name}\n")
    link.symlink_to(tmp_path / "a")
    with Reader(link) as reader:
        assert reader.texts() == ["a"]
        append(tmp_path / "a", "late\n")
        link.unlink()
        link.symlink_to(tmp_path / "b")
        assert reader.texts() == ["late", "b"]
        link.unlink()
        link.symlink_to(tmp_path / "a")
        append(tmp_path / "a", "again\n")
        assert reader.texts() == ["again"]


def test_globs(tmp_path: Path) -> None:
    with Reader(tmp_path / "*" / "[ab]*.log") as deep, Reader(tmp_path / "x" / "[ab]*.log") as flat:
        assert flat.texts() == deep.texts() == []
        (tmp_path / "x").mkdir()
        (tmp_path / "x" / "a.log").write_text("1\n")
        (tmp_path / "x" / "c.log").write_text("no\n")
        deep.wait(1)
        assert flat.texts() == deep.texts() == ["1"]
        (tmp_path / "y").mkdir()
        (tmp_path / "y" / "b1.log").write_text("2\n")
        append(tmp_path / "x" / "a.log", "3\n")
        assert deep.texts() == ["3"]
        deep.wait(1)
        assert deep.texts() == ["2"]
        assert flat.texts() == ["3"]
        append(tmp_path / "x" / "a.log", "4\n")
        rotate(tmp_path / "x" / "a.log")
        (tmp_path / "x" / "a.log").write_text("5\n")
        assert flat.texts() == deep.texts() == ["4", "5"]


def test_a_name_that_looks_like_a_glob(tmp_path: Path) -> None:
    log = tmp_path / "log[1].jsonl"
    log.write_text("1\n")
    (tmp_path / "log1.jsonl").write_text("no\n")
    with Reader(log) as reader:
        assert reader.texts() == ["1"]
        append(log, "2\n")
        rotate(log)
        log.write_text("3\n")
        assert reader.texts() == ["2", "3"]


def test_excluded_files(tmp_path: Path) -> None:
    for name in ("a.jsonl", "results.jsonl", "results.jsonl.1"):
        (tmp_path / name).write_text(f"{name}\n")
    (tmp_path / "link.jsonl").symlink_to(tmp_path / "results.jsonl")
    with Reader(tmp_path, exclude=[tmp_path / "results.jsonl"]) as reader:
        assert reader.texts() == ["a.jsonl"]
        rotate(tmp_path / "results.jsonl")
        (tmp_path / "results.jsonl").write_text("new\n")
        assert reader.texts() == []


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


def test_not_a_regular_file(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    os.mkfifo(tmp_path / "a.jsonl")
    with Reader(tmp_path / "a.jsonl") as reader:
        assert reader.texts() == reader.texts() == []
        assert [record.getMessage() for record in caplog.records] == [
            f"{tmp_path / 'a.jsonl'}: not readable yet; retrying: not a regular file"
        ]
        (tmp_path / "a.jsonl").unlink()
        (tmp_path / "a.jsonl").write_text("1\n")
        assert reader.texts() == ["1"]


def test_unreadable_files_are_logged_once(
    log: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.write_text("1\n")
    with Reader(log.parent) as reader:
        assert reader.texts() == ["1"]
        opened = os.open

        def refuse(path: object, *_: object) -> int:
            raise PermissionError(13, "Permission denied", path)

        monkeypatch.setattr(os, "open", refuse)
        log.with_name("other.jsonl").write_text("2\n")
        assert reader.texts() == reader.texts() == []
        assert [record.getMessage() for record in caplog.records] == [
            f"{log.with_name('other.jsonl')}: not readable yet; retrying: Permission denied"
        ]
        monkeypatch.setattr(os, "open", opened)
        assert reader.texts() == ["2"]


def test_a_directory_that_cannot_be_listed_for_a_while(
    log: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.write_text("1\n2")
    with Reader(log.parent) as reader:
        assert reader.texts() == ["1"]

        def refuse(path: str) -> list[str]:
            raise PermissionError(13, "Permission denied", path)

        with monkeypatch.context() as patch:
            patch.setattr(os, "listdir", refuse)
            log.with_name("other.jsonl").write_text("3\n")
            assert reader.texts() == reader.texts() == []
            append(log, "x\n")
            assert reader.texts() == ["2x"]
            assert [record.getMessage() for record in caplog.records] == [
                f"{log.parent}: not readable yet; retrying: Permission denied"
            ]
        assert reader.texts() == ["3"]


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


def test_reading_is_fair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "CHUNK_BYTES", 20)
    monkeypatch.setattr(registry, "PASS_BYTES", 60)
    for name in "abcde":
        (tmp_path / f"{name}.jsonl").write_text(f"{name}\n" * 100)
    with Reader(tmp_path) as reader:
        reader.tails.look(0)
        passes = []
        while reader.tails.unread:
            events = reader.tails.read()
            assert sum(len(event.data or b"") for event in events) <= 60
            passes.append([event.tail.name[-7] for event in events])
            reader._split(events)
        assert passes[:4] == [list("abc"), list("dea"), list("bcd"), list("eab")]
        assert len(reader.lines) == 500
        for name in "abcde":
            assert [line.number for line in reader.lines if text(line) == name] == [*range(1, 101)]


def test_many_files_with_few_descriptors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "open_limit", lambda: 5)
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
        files[0].write_text("rewritten\n")
        files[1].rename(tmp_path / "renamed.jsonl")
        append(tmp_path / "renamed.jsonl", "more\n")
        files[2].unlink()
        files[2].write_text("new\n")
        append(files[3], "un")
        files[3].rename(tmp_path / "003.jsonl.1")
        append(tmp_path / "003.jsonl.1", "rotated\n")
        del reader.lines[:]
        for _ in range(25):
            reader.poll()
        assert sorted(map(text, reader.lines)) == ["more", "new", "rewritten", "unrotated"]
        assert open_files() <= before + 6 + 1
        append(files[4], "last")
        assert [text(line) for line in reader.end()] == ["last..."]


def test_last_lines_of_many_files_that_are_deleted_or_moved(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    files = [folder / f"{number:03}.jsonl" for number in range(300)]
    for file in files:
        file.write_text("1\n")
    with Reader(folder) as reader:
        assert reader.texts() == ["1"] * 300
        for number, file in enumerate(files):
            append(file, f"{number}\n")
            file.unlink() if number % 2 else file.rename(tmp_path / file.name)
        assert sorted(map(int, reader.texts())) == [*range(300)]


def test_polling_many_files_takes_little_time(tmp_path: Path) -> None:
    for number in range(700):
        (tmp_path / f"{number:03}.jsonl").write_text("1\n")
    with Reader(tmp_path) as reader:
        assert len(reader.poll()) == 700
        began = process_time()
        for _ in range(10):
            assert reader.poll() == []
        assert process_time() - began < 1.0, "a tenth of that is a fifth of the polling intervals"


def test_the_limit_on_open_files_follows_that_of_the_process(
    log: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for soft, expected in ((1024, 768), (resource.RLIM_INFINITY, 65_536), (1 << 20, 65_536), (1, 2)):
        monkeypatch.setattr(resource, "getrlimit", lambda _, soft=soft: (soft, soft))
        assert registry.open_limit() == expected
    for name in "abc":
        log.with_name(f"{name}.jsonl").write_text("1\n")
    with Reader(log.parent) as reader:
        assert reader.texts() == ["1"] * 3
        reader.poll()
    [record] = caplog.records
    assert "more than 2 files are followed, too many to hold all open" in record.getMessage()


def test_few_descriptors_for_many_rotated_files(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "open_limit", lambda: 10)
    log.write_text("now\n")
    with Reader(log) as first:
        first.poll()
        known = first.known()
    for number in range(40):
        log.with_name(f"log.jsonl.{number}").write_text(f"{number}\n")
    before = open_files()
    with Reader(log, known=known) as second:
        assert sorted(map(int, second.texts())) == [*range(40)]
        known |= second.known()
    with Reader(log, known=known) as third:
        assert open_files() <= before + 6
        assert third.texts() == []


def test_many_rotations_within_rotate_wait(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "open_limit", lambda: 10)
    before = open_files()
    with Reader(log) as reader:
        for number in range(20):
            append(log, f"{number}\n")
            writer = log.open("a")
            rotate(log, number)
            assert reader.texts() == [str(number)]
            with writer:
                writer.write(f"late {number}\n")
            assert reader.texts() == [f"late {number}"]
            assert open_files() <= before + 6


def test_lost_bytes_of_an_idle_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(registry, "open_limit", lambda: 1)
    monkeypatch.setattr(registry, "PASS_BYTES", 1)
    for name in "ab":
        (tmp_path / f"{name}.jsonl").write_text("12\n")
    with Reader(tmp_path) as reader:
        reader.tails.look(0)
        reader._split(reader.tails.read())
        for name in "ab":
            (tmp_path / f"{name}.jsonl").unlink()
        reader.poll()
        reader.wait(6)
        reader.poll()
    assert "gone; lost" in caplog.text
