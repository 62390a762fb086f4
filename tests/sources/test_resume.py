from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.sources.followed import Reader, append, text, tick
from tests.sources.test_logs import rotate

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("nothing_left_open")


def run(path: Path, before: Reader | None = None, **options: Any) -> Reader:
    """What a run delivers that looks a few times and is killed then."""
    done, copies = ({}, {}) if before is None else (before.known(), before.copies)
    with Reader(path, known=done, copies=copies, **options) as reader:
        if before is not None:
            reader.lines += before.lines
            reader.origins = {**before.origins, **reader.origins}
        before_lines = len(reader.lines)
        for _ in range(3):
            reader.poll()
        reader.fresh = [text(line) for line in reader.lines[before_lines:]]  # type: ignore[attr-defined]
    return reader


def fresh(reader: Reader) -> list[str]:
    return reader.fresh  # type: ignore[attr-defined,no-any-return]


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


def test_an_unfinished_line_at_the_start_is_skipped_until_complete(log: Path) -> None:
    log.write_text("1\nhalf")
    with Reader(log, start="end") as reader:
        assert reader.end() == []
    with Reader(log, start="end") as reader:
        append(log, " and more")
        assert reader.texts() == reader.end() == []
    with Reader(log, start="end") as reader:
        append(log, " done\nother")
        assert reader.texts() == ["half and more done"]
        assert [text(line) for line in reader.end()] == ["other..."]


def test_the_end_is_kept(log: Path) -> None:
    log.with_name("log.jsonl.1").write_text("old\nhalf")
    log.write_text("1\n2\n")
    first = run(log, start="end")
    assert fresh(first) == []
    assert sorted(first.origins.values()) == [4, 4]
    append(log, "3\n")
    second = run(log, first, start="end")
    assert fresh(second) == ["3"]
    rotate(log)
    log.write_text("4\n")
    third = run(log, second, start="end")
    assert fresh(third) == ["4"]
    assert fresh(run(log, third, start="end")) == []
    with Reader(log, known=third.known()) as reader:
        assert reader.end() == []


def test_a_finished_file_that_grows_again(log: Path) -> None:
    log.write_text("1\nhalf")
    away = log.with_name("away")
    with Reader(log, rotate_wait=1) as reader:
        assert reader.texts() == ["1"]
        log.rename(away)
        reader.poll()
        reader.wait(1)
        assert reader.texts() == ["half..."]
        append(away, " done\n")
        away.rename(log)
        assert reader.texts() == ["half done"]
        assert [(line.number, line.offset) for line in reader.lines] == [(1, 0), (2, 2), (2, 2)]


def test_start_after_a_line(log: Path) -> None:
    log.write_text("1\n2\n3\n")
    with Reader(log) as reader:
        reader.poll()
    for line, rest in zip(reader.lines, (["2", "3"], ["3"], []), strict=True):
        with Reader(log, start=line.position) as again:
            assert again.texts() == rest
            assert [*again.origins.values()] == [line.offset + 2]
            append(log, "")


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
