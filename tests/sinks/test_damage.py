"""Journals that were damaged, and links where their files should be; `tests/fuzz` has more."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from graphrag_eval_async import JournalError
from graphrag_eval_async.sinks.journal import Journal, seal
from tests.support.journals import CONFIG, Judge, bits, complete, lines_of, names, names_of, responses

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from graphrag_eval_async import EvaluationStream

LINES = responses(24)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The journal of a run that nothing happened to."""
    path = tmp_path / "results.jsonl"
    judged(path)
    return path


def judged(path: Path) -> EvaluationStream:
    return complete(LINES, path, config=CONFIG, judge=Judge())[1]


def assert_whole(path: Path, whole: list[bytes]) -> EvaluationStream:
    """Started again, and again, it is as if nothing had happened."""
    quiet = judged(path.with_name("quiet.jsonl"))
    streams = [judged(path) for _ in range(2)]
    for stream in streams:
        assert sorted(lines_of(path)) == sorted(whole)
        assert bits(stream.aggregates) == bits(quiet.aggregates)
        assert stream.rejects.counts == quiet.rejects.counts
    assert names_of(path) == names(LINES)
    assert streams[1].journal is not None
    assert (streams[1].journal.damaged, streams[1].journal.restored) == (0, len(whole))
    return streams[0]


def changed(change: Callable[[dict[str, Any]], object]) -> Callable[[bytes], bytes]:
    """A record that says something else under a checksum that is right."""

    def damage(line: bytes) -> bytes:
        record = orjson.loads(line)
        del record["crc32"]
        change(record)
        return seal(orjson.dumps(record) + b"\n")

    return damage


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "garbage": lambda line: b"\xff\xfe" + line,
    "no newline": lambda line: line[:-1],
    "blank": lambda _: b"\n",
    "too deep": lambda _: b"[" * 5000 + b"]" * 5000 + b"\n",
    "no source": changed(lambda record: record.pop("source")),
    "no question": changed(lambda record: record.pop("question_id")),
    "a metric of text": changed(lambda record: record.update(steps_score="1")),
    "no digest": changed(lambda record: record["source"].update(sha256="00")),
    "an endless place": changed(lambda record: record["source"].update(file="key", path="p", offset=2**63)),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_line(
    path: Path, damage: Callable[[bytes], bytes], caplog: pytest.LogCaptureFixture
) -> None:
    whole = lines_of(path)
    lines = whole.copy()
    lines[3] = damage(lines[3])
    broken = lines[3] if lines[3].endswith(b"\n") else lines[3] + lines[4]
    path.write_bytes(b"".join([*lines, b"torn"]))
    path.chmod(0o640)
    with caplog.at_level(logging.WARNING, "graphrag_eval_async.journal"):
        stream = assert_whole(path, whole)
    damaged = path.with_name("results.jsonl.damaged")
    assert damaged.read_bytes() == broken
    (record,) = [record for record in caplog.records if record.name.endswith("journal")]
    start = sum(map(len, lines[:3]))
    assert record.getMessage().startswith(f"{path}: byte {start}: not a result or reject; the line is set")
    assert stream.journal is not None
    lost = 1 if lines[3].endswith(b"\n") else 2
    assert (stream.journal.damaged, stream.skipped) == (1, len(LINES) - lost)
    assert {file.stat().st_mode & 0o777 for file in (path, damaged)} == {0o640}


def test_lines_that_are_there_twice(path: Path) -> None:
    whole, rejects = lines_of(path), path.with_name("results.jsonl.rejects")
    again = [whole[2], lines_of(rejects)[0]]
    path.write_bytes(b"".join([*whole, again[0]]))
    rejects.write_bytes(b"".join([*lines_of(rejects), again[1]]))
    stream = assert_whole(path, whole)
    assert path.with_name("results.jsonl.damaged").read_bytes() == b"".join(again)
    assert stream.journal is not None
    assert stream.journal.damaged == 2


@pytest.mark.parametrize("suffix", [".damaged", ".rejects", ".run"])
def test_links_that_others_put_there(tmp_path: Path, path: Path, suffix: str) -> None:
    """Names that others can foresee never lead to a file of somebody else."""
    victim, beside = tmp_path / "victim", path.with_name(f"results.jsonl{suffix}")
    path.write_bytes(b"no result\n" + path.read_bytes())
    before = beside.read_bytes() if suffix == ".run" else b"of somebody else\n"
    victim.write_bytes(before)
    beside.unlink(missing_ok=True)
    beside.symlink_to(victim)
    if suffix == ".run":  # Written anew, in place of the link, under other conditions.
        complete(LINES, Journal(path, force=True))
    else:
        with pytest.raises(JournalError, match=f"{beside}: cannot be .*: Too many levels of symbolic links"):
            judged(path)
    assert victim.read_bytes() == before
