"""A followed log and a journal together: whatever happens between two runs, each line is evaluated once."""

from __future__ import annotations

import os
import shutil
import threading
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from graphrag_eval_async import evaluate_stream, follow_jsonl, load_reference
from graphrag_eval_async.errors import JournalError
from graphrag_eval_async.stream import MAX_LINE_BYTES
from tests.conftest import answer, templates

if TYPE_CHECKING:
    from pathlib import Path

    from graphrag_eval_async import EvaluationStream

REFERENCE = load_reference(templates(3))


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

    def misuse(self, way: str) -> list[str]:
        """Let nothing be left of it; returns the ids of what is written anew."""
        if way == "truncated":
            self.path.write_bytes(b"")
        else:
            self.path.unlink()
        if way == "deleted":
            return []
        self.append(self.text())
        return [f"r{self._lines}"]

    async def follow(
        self, path: Path | None = None, max_line_bytes: int = MAX_LINE_BYTES, **options: Any
    ) -> list[str]:
        """The ids of the responses that one run evaluates, which reads all that there is."""
        stop = threading.Event()
        stop.set()
        source = follow_jsonl(path or self.path, stop=stop, poll_interval=0.001, **options)
        self.stream: EvaluationStream = evaluate_stream(
            REFERENCE, source, journal=self.journal, max_line_bytes=max_line_bytes
        )
        async with self.stream:
            return [result["response_id"] async for result in self.stream]

    def kept(self) -> list[str]:
        """The ids of the responses whose results the journal has."""
        return [orjson.loads(line)["response_id"] for line in self.journal.read_bytes().splitlines()]


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path / "logs")


async def test_rotated_between_looks(log: Log) -> None:
    log.append(log.text(), log.text(1))
    assert await log.follow() == ["r1", "r2"]
    log.append(log.text())
    log.rotate("log.jsonl.2")
    log.append(log.text())
    log.rotate()
    log.append(log.text())
    assert await log.follow() == ["r3", "r4", "r5"]
    assert await log.follow() == []
    assert log.kept() == ["r1", "r2", "r3", "r4", "r5"]


async def test_rotated_before_the_first_run(log: Log) -> None:
    log.append(log.text())
    log.rotate("log.jsonl.7")
    assert await log.follow() == ["r1"], "or a run that was killed at its beginning would have lost it"
    log.append(log.text())
    log.rotate("log.jsonl.1")
    log.append(log.text())
    assert await log.follow() == ["r2", "r3"]


async def test_start_at_the_end_skips_rotated_files(log: Log) -> None:
    log.append(log.text())
    log.rotate("log.jsonl.7")
    assert await log.follow(start="end") == []
    log.append(log.text())
    log.rotate("log.jsonl.1")
    log.append(log.text())
    assert await log.follow(start="end") == ["r2", "r3"], "though there is no result by which it is known"


async def test_a_journal_that_is_gone_begins_anew(log: Log) -> None:
    log.append(log.text(), b"{}\n")
    assert await log.follow(start="end") == []
    log.journal.unlink()
    assert await log.follow() == ["r1"]
    log.journal.unlink()
    log.append(log.text())
    assert await log.follow() == ["r1", "r2"]
    assert log.stream.rejects.counts == {"missing_question_id": 1}


async def test_first_evaluated_and_then_followed(log: Log) -> None:
    log.append(log.text())
    log.rotate()
    log.append(log.text())
    async with evaluate_stream(REFERENCE, log.path, journal=log.journal) as stream:
        assert [result["response_id"] async for result in stream] == ["r2"]
    log.append(log.text())
    assert await log.follow(start="end") == ["r3"], "what was begun goes on"
    log.rotate("log.jsonl.2")
    assert await log.follow(start="end") == []


async def test_followed_from_the_end(log: Log) -> None:
    line = log.text()
    log.append(log.text(), line[:-9])
    assert await log.follow(start="end") == []
    log.append(line[-9:], log.text())
    assert await log.follow(start="end") == ["r1", "r3"], "a line counts when it is complete"


async def test_an_unfinished_line_is_evaluated_once_it_is_whole(log: Log) -> None:
    line = log.text()
    log.append(log.text(), line[:20])
    assert await log.follow() == ["r2"]
    assert log.stream.rejects.counts == {"incomplete": 1}
    log.append(line[20:])
    assert await log.follow() == ["r1"]
    assert log.stream.rejects.counts == {}


async def test_a_line_that_stays_unfinished_is_kept_as_a_reject_once(log: Log) -> None:
    line = log.text()
    for end in (20, 20, 30, 30, 30):
        log.path.write_bytes(line[:end])
        assert await log.follow() == []
        assert log.stream.rejects.counts == {"incomplete": 1}
    rejects = log.journal.with_name(f"{log.journal.name}.rejects").read_bytes().splitlines()
    assert [orjson.loads(reject)["source"]["length"] for reject in rejects] == [30]


async def test_an_unfinished_line_whose_newline_is_all_that_came(log: Log) -> None:
    """It is rejected for another reason then, and for good."""
    log.append(log.text()[:20])
    assert await log.follow() == []
    log.append(b"\n")
    for _ in range(2):
        assert await log.follow() == []
        assert log.stream.rejects.counts == {"invalid_json": 1}
    rejects = log.journal.with_name(f"{log.journal.name}.rejects").read_bytes().splitlines()
    assert [orjson.loads(reject)["reason"] for reject in rejects] == ["invalid_json"]


async def test_a_hole_at_the_start(log: Log) -> None:
    log.append(bytes(3000), log.text(), log.text())
    assert await log.follow(max_line_bytes=1000) == ["r1", "r2"]
    assert await log.follow(max_line_bytes=1000) == []
    log.append(log.text())
    assert await log.follow(max_line_bytes=1000) == ["r3"]
    assert log.stream.rejects.counts == {}


async def test_a_long_line_that_is_half_written_when_the_stream_stops(log: Log) -> None:
    log.append(log.text(), log.text(), b"x" * 2000)
    assert await log.follow(max_line_bytes=1000) == ["r1", "r2"]
    assert log.stream.rejects.counts == {"incomplete": 1}
    for end in (b"x" * 2000, b"x\n"):
        log.append(end)
        assert await log.follow(max_line_bytes=1000) == []
    assert log.stream.rejects.counts == {"too_long": 1}
    log.append(log.text())
    assert await log.follow(max_line_bytes=1000) == ["r3"]
    assert await log.follow(max_line_bytes=1000) == []
    assert log.stream.rejects.counts == {"too_long": 1}


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b" \n"])
async def test_a_line_without_its_newline_is_evaluated_once(log: Log, end: bytes) -> None:
    log.append(log.text(), log.text()[:-1])
    assert await log.follow() == ["r1", "r2"]
    assert await log.follow() == []
    log.append(end, log.text())
    assert await log.follow() == ["r3"]
    assert await log.follow() == []


async def test_an_unfinished_line_that_goes_on_otherwise_is_another(log: Log) -> None:
    log.append(log.text()[:-1])
    assert await log.follow() == ["r1"]
    log.append(b"}\n")
    assert await log.follow() == []
    assert log.stream.rejects.counts == {"invalid_json": 1}


async def test_a_journal_in_the_followed_directory_is_no_log(log: Log) -> None:
    log.append(log.text())
    log.journal = log.path.with_name("results.jsonl")
    for found in (["r1"], []):
        assert await log.follow(log.path.parent) == found


@pytest.mark.parametrize("pattern", [".", "*"])
async def test_a_journal_in_the_directory_that_is_read_is_no_source(log: Log, pattern: str) -> None:
    log.append(log.text(), b"{}\n")
    log.journal = log.path.with_name("results.jsonl")
    source = log.path.parent if pattern == "." else str(log.path.with_name(pattern))
    for _ in range(3):
        async with evaluate_stream(REFERENCE, source, journal=log.journal) as stream:
            async for _result in stream:
                pass
        assert log.kept() == ["r1"]
        assert stream.rejects.total == 1


async def test_the_files_beside_a_journal_are_no_logs(log: Log) -> None:
    log.append(log.text(), b"{}\n")
    log.journal = log.path.with_name("results")
    for _ in range(3):
        await log.follow(log.path.with_name("*"))
        assert log.kept() == ["r1"]
        assert log.stream.rejects.total == 1


async def test_equal_lines_are_samples(log: Log) -> None:
    line = log.text()
    log.append(line, line)
    assert await log.follow() == ["r1", "r1"]
    log.append(line)
    assert await log.follow() == ["r1"]
    results = [orjson.loads(text) for text in log.journal.read_bytes().splitlines()]
    assert [result["source"]["occurrence"] for result in results] == [1, 2, 3]
    assert [result["sample"] for result in results] == [1, 2, 3]


@pytest.mark.parametrize("way", ["truncated", "made anew"])
async def test_another_file_with_the_same_first_line(log: Log, way: str) -> None:
    first = log.text()
    log.append(first, log.text())
    assert await log.follow() == ["r1", "r2"]
    before = os.stat(log.path).st_ino
    if way == "truncated":
        log.path.write_bytes(b"")
    else:
        log.path.unlink()
    log.append(first, log.text(), log.text())
    if way == "truncated":
        assert os.stat(log.path).st_ino == before
    assert await log.follow() == ["r1", "r3", "r4"]
    assert await log.follow() == []


@pytest.mark.parametrize("stops", [False, True])
async def test_replaced_by_a_longer_version_of_itself(log: Log, stops: bool) -> None:
    """As rsync and `sed -i` do."""
    log.append(log.text(), log.text())
    stop = threading.Event()
    source = follow_jsonl(log.path, stop=stop, poll_interval=0.001)
    async with evaluate_stream(REFERENCE, source, journal=log.journal) as stream:
        ids = [(await anext(stream))["response_id"] for _ in range(2)]
        if stops:
            stop.set()
            assert await anext(stream, None) is None
        for _ in range(2):
            log.append(log.text())
            log.copy("draft")
            log.path.with_name("draft").replace(log.path)
        if not stops:
            log.append(log.text())
            ids += [(await anext(stream))["response_id"] for _ in range(3)]
            stop.set()
            assert await anext(stream, None) is None
    assert ids == ["r1", "r2", "r3", "r4", "r5"][: 2 if stops else 5]
    assert await log.follow() == (["r3", "r4"] if stops else [])
    log.append(log.text())
    assert len(await log.follow()) == 1
    assert await log.follow() == []


async def test_a_log_that_was_missing_for_a_while_is_another_one(log: Log) -> None:
    """Agents that are started again may begin with the same error."""
    first = log.text()
    log.append(first)
    other = log.path.with_name("other.jsonl")
    source = follow_jsonl([log.path, other], poll_interval=0.001)
    async with evaluate_stream(REFERENCE, source, journal=log.journal) as stream:
        assert (await anext(stream))["response_id"] == "r1"
        log.path.unlink()
        other.write_bytes(log.text())
        assert (await anext(stream))["response_id"] == "r2", "a look has seen that the log is missing"
        log.append(first, log.text())
        assert [(await anext(stream))["response_id"] for _ in range(2)] == ["r1", "r3"]


@pytest.mark.parametrize("left", [False, True])
async def test_copied_folder(log: Log, left: bool) -> None:
    for name in ("a.jsonl", "b.jsonl", "log.jsonl"):
        log.append(log.text(), log.text())
        log.copy(name) if name != "log.jsonl" else None
        if name != "log.jsonl":
            log.path.unlink()
    assert len(await log.follow(log.path.parent)) == 6
    copied = log.path.parent.with_name("copied")
    shutil.copytree(log.path.parent, copied)
    if not left:
        shutil.rmtree(log.path.parent)
    log.path = copied / "log.jsonl"
    log.append(log.text())
    assert await log.follow(copied) == ["r7"]
    assert await log.follow(copied) == []


@pytest.mark.parametrize("live", [False, True])
async def test_a_copy_of_an_earlier_run_that_becomes_different(log: Log, live: bool) -> None:
    """Its lines are evaluated from the first on, at once."""
    log.append(log.text(), log.text())
    log.copy("log.1.jsonl")
    folder = log.path.parent
    assert await log.follow(folder) == ["r1", "r2"]
    if live:
        source = follow_jsonl(folder, poll_interval=0.001)
        async with evaluate_stream(REFERENCE, source, journal=log.journal) as stream:
            log.append(log.text())
            assert (await anext(stream))["response_id"] == "r3"
            with (folder / "log.1.jsonl").open("ab") as other:
                other.write(log.text())
            assert [(await anext(stream))["response_id"] for _ in range(3)] == ["r1", "r2", "r4"]
    else:
        with (folder / "log.1.jsonl").open("ab") as other:
            other.write(log.text())
        assert await log.follow(folder) == ["r1", "r2", "r3"]
    assert await log.follow(folder) == []


async def test_a_file_that_claims_its_key_itself(log: Log) -> None:
    log.append(log.text())
    assert await log.follow(log.path.parent) == ["r1"]
    log.copy("a.jsonl")
    log.append(log.text())
    assert sorted(await log.follow(log.path.parent)) == ["r1", "r2"]
    assert await log.follow(log.path.parent) == []


MEMBER = "log-20260101.jsonl"


@pytest.mark.parametrize("way", ["deleted", "made anew", "truncated"])
@pytest.mark.parametrize("name", [MEMBER, "log.jsonl.1"])
@pytest.mark.parametrize("place", ["log.jsonl", "."])
async def test_copied_and_truncated_between_looks(log: Log, place: str, name: str, way: str) -> None:
    path = log.path.parent / place
    log.append(log.text(), log.text())
    assert await log.follow(path) == ["r1", "r2"]
    log.append(log.text())
    log.copy(name)
    log.path.write_bytes(b"")
    log.append(log.text())
    assert sorted(await log.follow(path)) == ["r3", "r4"]
    new = log.misuse(way)
    assert await log.follow(path) == new, "the copy is still known as one"
    assert await log.follow(path) == []


async def test_copies_that_cannot_be_kept(log: Log) -> None:
    log.append(log.text())
    source = follow_jsonl(log.path, poll_interval=0.001)
    async with evaluate_stream(REFERENCE, source, journal=log.journal) as stream:
        await anext(stream)
        log.journal.with_name("journal.run").unlink()
        log.journal.with_name("journal.run").mkdir()
        log.copy("log.jsonl.1")
        with pytest.raises(JournalError, match=r"journal\.run: cannot be written"):
            await anext(stream)


@pytest.mark.parametrize("followed", [True, False])
async def test_a_name_that_is_not_utf8(tmp_path: Path, followed: bool) -> None:
    name = os.fsdecode(os.fsencode(tmp_path) + b"/log\xff.jsonl")
    try:
        with open(name, "wb") as file:
            file.write(orjson.dumps(answer(0)) + b"\nno JSON\n")
    except OSError as error:
        pytest.skip(f"this file system has no such names: {error}")
    counts = []
    for _ in range(2):
        source = follow_jsonl(name, poll_interval=0.01, idle_timeout=0.1) if followed else name
        async with evaluate_stream(REFERENCE, source, journal=tmp_path / "journal.jsonl") as stream:
            results = [result async for result in stream]
        assert stream.rejects.counts == {"invalid_json": 1}
        counts.append(len(results))
    assert counts == [1, 0]
    assert b"log\\\\udcff.jsonl" in (tmp_path / "journal.jsonl").read_bytes()
