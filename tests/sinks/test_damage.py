"""Journals that a process left at any moment, or that were damaged: nothing is lost, nothing comes twice."""

from __future__ import annotations

import logging
import shutil
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson
import pytest

from graphrag_eval_async.sinks.journal import seal
from tests.journals import CONFIG, Judge, bits, complete, lines_of, names, names_of, responses

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from graphrag_eval_async import EvaluationStream

LINES = responses(24)


class Quiet(NamedTuple):
    """A run that nothing happened to."""

    journal: Path
    lines: list[bytes]
    aggregates: bytes


@pytest.fixture(scope="module")
def quiet(tmp_path_factory: pytest.TempPathFactory) -> Quiet:
    path = tmp_path_factory.mktemp("quiet") / "results.jsonl"
    _, stream = judged(path)
    return Quiet(path, lines_of(path), bits(stream.aggregates))


def judged(path: Path) -> tuple[list[dict[str, Any]], EvaluationStream]:
    return complete(LINES, path, config=CONFIG, judge=Judge())


def copy_of(quiet: Quiet, folder: Path) -> Path:
    path = folder / "results.jsonl"
    for suffix in ("", ".run", ".rejects"):
        shutil.copy(f"{quiet.journal}{suffix}", f"{path}{suffix}")
    return path


def assert_whole(path: Path, quiet: Quiet) -> EvaluationStream:
    """Started again, and again, it is as if nothing had happened."""
    streams = []
    for _ in range(2):
        _, stream = judged(path)
        streams.append(stream)
        assert sorted(lines_of(path)) == sorted(quiet.lines)
        assert bits(stream.aggregates) == quiet.aggregates
        assert stream.rejects.total == 3
        assert names_of(path) == names(LINES)
    assert stream.journal is not None
    assert (stream.journal.damaged, stream.journal.restored) == (0, len(quiet.lines))
    return streams[0]


# Cut off


@pytest.mark.parametrize("step", [79, pytest.param(1, marks=pytest.mark.soak)])
def test_a_journal_that_was_cut_off_anywhere(tmp_path: Path, quiet: Quiet, step: int) -> None:
    data = quiet.journal.read_bytes()
    ends = [len(data) - back for back in range(0, min(2001, len(data) + 1), step)]
    first_of_last = len(data) - len(quiet.lines[-1])
    for size in sorted({*ends, *range(first_of_last - 2, first_of_last + 2), len(data) - 1, 1, 0}):
        path = copy_of(quiet, tmp_path)
        path.write_bytes(data[:size])
        stream = assert_whole(path, quiet)
        assert stream.journal is not None
        assert (stream.journal.restored, stream.journal.damaged) == (data[:size].count(b"\n"), 0)
    assert not path.with_name("results.jsonl.damaged").exists()


def test_rejects_that_were_cut_off_anywhere(tmp_path: Path, quiet: Quiet) -> None:
    data = quiet.journal.with_name("results.jsonl.rejects").read_bytes()
    for size in range(0, len(data), 31):
        path = copy_of(quiet, tmp_path)
        path.with_name("results.jsonl.rejects").write_bytes(data[:size])
        assert_whole(path, quiet)
        assert path.with_name("results.jsonl.rejects").read_bytes() == data


# Damaged


def sealed(record: dict[str, Any]) -> bytes:
    """The line of a record, with its checksum: only what it says is wrong."""
    record.pop("crc32", None)
    return seal(orjson.dumps(record) + b"\n")


def flipped(data: bytes, bit: int) -> bytes:
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


@pytest.mark.parametrize("suffix", ["", ".rejects"])
@pytest.mark.parametrize("step", [3001, pytest.param(61, marks=pytest.mark.soak)])
def test_a_bit_that_is_another(tmp_path: Path, quiet: Quiet, suffix: str, step: int) -> None:
    """Its line is set aside and evaluated again, whatever JSON it still is."""
    whole = quiet.journal.with_name(f"results.jsonl{suffix}").read_bytes()
    for bit in range(0, 8 * (len(whole) - 1), step):
        path = copy_of(quiet, tmp_path)
        data = flipped(whole, bit)
        path.with_name(f"results.jsonl{suffix}").write_bytes(data)
        stream = assert_whole(path, quiet)
        assert stream.journal is not None
        assert stream.journal.damaged == 1 + data.count(b"\n") - whole.count(b"\n") or (
            stream.journal.damaged == 1 and data.count(b"\n") < whole.count(b"\n")
        )


def result_without(*keys: str) -> Callable[[bytes], bytes]:
    def leave_out(line: bytes) -> bytes:
        result = orjson.loads(line)
        for key in keys:
            del result[key]
        return sealed(result)

    return leave_out


def result_with(**more: Any) -> Callable[[bytes], bytes]:
    return lambda line: sealed(orjson.loads(line) | more)


def source_with(**more: Any) -> Callable[[bytes], bytes]:
    return lambda line: result_with(source=orjson.loads(line)["source"] | more)(line)


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "garbage": lambda line: b"\xff\xfe" + line,
    "half of it": lambda line: line[: len(line) // 2] + b"\n",
    "no newline": lambda line: line[:-1],
    "blank": lambda _: b"\n",
    "null": lambda _: b"null\n",
    "too deep": lambda _: b"[" * 5000 + b"]" * 5000 + b"\n",
    "another object": lambda _: b'{"a": 1}\n',
    "no source": result_without("source"),
    "no question": result_without("question_id"),
    "no sample": result_without("sample"),
    "a pending one": result_with(pending=["answer_correctness"]),
    "a status of its own": result_with(status="fine"),
    "a metric of text": result_with(steps_score="1"),
    "steps of text": result_with(actual_steps="none"),
    "no digest": source_with(sha256="00"),
    "no occurrence": source_with(occurrence=0),
    "an endless place": source_with(file="key", path="p", offset=2**63, length=2**63),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_line(
    tmp_path: Path, quiet: Quiet, damage: Callable[[bytes], bytes], caplog: pytest.LogCaptureFixture
) -> None:
    path = copy_of(quiet, tmp_path)
    lines = quiet.lines.copy()
    lines[3] = damage(lines[3])
    broken = lines[3] if lines[3].endswith(b"\n") else lines[3] + lines[4]
    path.write_bytes(b"".join(lines))
    path.chmod(0o640)
    with caplog.at_level(logging.WARNING, "graphrag_eval_async"):
        stream = assert_whole(path, quiet)
    assert path.with_name("results.jsonl.damaged").read_bytes() == broken
    (record,) = caplog.records
    start = sum(map(len, lines[:3]))
    assert record.getMessage().startswith(
        f"{path}: byte {start}: not a result or reject; the line is set aside: "
    )
    assert stream.journal is not None
    assert stream.journal.damaged == 1
    assert stream.journal.restored == len(quiet.lines) - (1 if lines[3].endswith(b"\n") else 2)
    assert path.stat().st_mode & 0o777 == 0o640
    assert not path.with_name("results.jsonl.tmp").exists()


def test_a_result_that_stands_there_twice(
    tmp_path: Path, quiet: Quiet, caplog: pytest.LogCaptureFixture
) -> None:
    path = copy_of(quiet, tmp_path)
    rejects = path.with_name("results.jsonl.rejects")
    again = [quiet.lines[2], lines_of(rejects)[0]]
    path.write_bytes(b"".join([*quiet.lines, again[0]]))
    rejects.write_bytes(b"".join([*lines_of(rejects), again[1]]))
    stream = assert_whole(path, quiet)
    assert path.with_name("results.jsonl.damaged").read_bytes() == b"".join(again)
    assert ["there already" in record.getMessage() for record in caplog.records] == [True, True]
    assert stream.journal is not None
    assert stream.journal.damaged == 2


def test_damaged_rejects(tmp_path: Path, quiet: Quiet) -> None:
    path = copy_of(quiet, tmp_path)
    rejects = path.with_name("results.jsonl.rejects")
    lines = lines_of(rejects)
    damages = [result_with(reason="whim"), result_with(reason=["x"]), result_without("source")]
    broken = [damage(line) for damage, line in zip(damages, lines, strict=True)]
    rejects.write_bytes(b"".join(broken))
    assert_whole(path, quiet)
    assert path.with_name("results.jsonl.damaged").read_bytes() == b"".join(broken)
