"""Journals that were damaged, and links where their files should be; `tests/fuzz` has more."""

from __future__ import annotations

import logging
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from graphrag_eval_async import JournalError
from graphrag_eval_async.sinks.checksums import seal
from graphrag_eval_async.sinks.journal import Journal
from tests.support.journals import (
    CONFIG,
    Judge,
    bits,
    complete,
    lines_of,
    names,
    names_of,
    responses,
)

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


def assert_mended(path: Path, whole: list[bytes], *, damaged: int) -> EvaluationStream:
    """Started again, and again, it is as if nothing had happened."""
    quiet = judged(path.with_name("quiet.jsonl"))
    streams = [judged(path) for _ in range(2)]
    for stream, found in zip(streams, (damaged, 0), strict=True):
        assert sorted(lines_of(path)) == sorted(whole)
        assert bits(stream.aggregates) == bits(quiet.aggregates)
        assert stream.rejects.counts == quiet.rejects.counts
        assert stream.journal is not None
        assert stream.journal.damaged == found
    assert names_of(path) == names(LINES)
    assert streams[1].journal is not None
    assert (streams[1].journal.restored, streams[1].journal.rejected) == (
        len(whole),
        len(LINES) - len(whole),
    )
    return streams[0]


def changed(change: Callable[[dict[str, Any]], object]) -> Callable[[bytes], bytes]:
    """A record that says something else under a checksum that is right."""

    def damage(line: bytes) -> bytes:
        record = orjson.loads(line)
        del record["crc32"]
        change(record)
        return seal(orjson.dumps(record) + b"\n")

    return damage


DAMAGES: list[Callable[[bytes], bytes]] = [
    lambda line: b"\xff\xfe" + line,
    lambda line: line.replace(b'"steps_score":1', b'"steps_score":0'),
    lambda _: b"\n",
    lambda _: b"[" * 5000 + b"]" * 5000 + b"\n",
    changed(lambda record: record.pop("source")),
    changed(lambda record: record.pop("question_id")),
    changed(lambda record: record.update(steps_score="1")),
    changed(lambda record: record["source"].update(sha256="00")),
    changed(lambda record: record["source"].update(file="key", path="p", offset=2**63)),
    lambda line: line[:-1],  # So the next one is lost, too.
]


def test_damaged_lines_are_set_aside_and_evaluated_again(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    whole = lines_of(path)
    lines = [damage(line) for damage, line in zip(DAMAGES, whole[1:], strict=False)]
    content = b"".join([whole[0], *lines, *whole[1 + len(lines) :]])
    path.write_bytes(content + b"torn")
    path.chmod(0o640)
    with caplog.at_level(logging.WARNING, "graphrag_eval_async.journal"):
        stream = assert_mended(path, whole, damaged=len(DAMAGES))
    damaged = path.with_name("results.jsonl.damaged")
    lost = b"".join([*lines, whole[1 + len(lines)]])
    assert damaged.read_bytes() == lost
    assert stream.skipped == len(LINES) - len(DAMAGES) - 1
    assert {file.stat().st_mode & 0o777 for file in (path, damaged)} == {0o640}
    told = [record.getMessage() for record in caplog.records if record.name.endswith("journal")]
    starts = accumulate(map(len, [whole[0], *lines[:-1]]))
    for text, start in zip(told, starts, strict=True):
        assert text.startswith(
            f"{path}: byte {start}: not a result or reject; the line is set aside: "
        )


def test_lines_that_are_there_twice(path: Path) -> None:
    whole, rejects = lines_of(path), path.with_name("results.jsonl.rejects")
    again = [whole[2], lines_of(rejects)[0]]
    path.write_bytes(b"".join([*whole, again[0]]))
    rejects.write_bytes(b"".join([*lines_of(rejects), again[1]]))
    assert_mended(path, whole, damaged=2)
    assert path.with_name("results.jsonl.damaged").read_bytes() == b"".join(again)


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
        with pytest.raises(
            JournalError, match=f"{beside}: cannot be .*: Too many levels of symbolic links"
        ):
            judged(path)
    assert victim.read_bytes() == before
