"""Whatever has happened to a journal: each line is evaluated once, and none is lost."""

from __future__ import annotations

import asyncio
import itertools
import shutil
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from graphrag_eval_async import JournalError, evaluate_stream, follow_jsonl
from graphrag_eval_async.sinks.checksums import seal
from graphrag_eval_async.sinks.journal import Journal
from tests.fuzz.seeds import repeat, spoil
from tests.support.cpu import affordable
from tests.support.deadlines import in_time
from tests.support.journals import REFERENCE, lines_of, names, names_of, responses

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from graphrag_eval_async import EvaluationStream

sizes = pytest.mark.parametrize("count", [60, pytest.param(4000, marks=pytest.mark.soak)])

FOREIGN = [
    *(b"", b"\n\n\n", b"null\n", b"{}\n", b"\xff\xfe\n", b"[" * 1200 + b"\n", b"\0" * 5000 + b"\n"),
    *(
        b'{"crc32":"00000000"}\n',
        seal(b'{"a": 1}\n'),
        seal(b'{"source": null}\n'),
        b"x" * 300_000 + b"\n",
    ),
    seal(b'{"source": {"offset": 1e400}}\n'),
]


def flip(data: bytes, rng: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice([1, 1, 5])):
        changed[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def cut(data: bytes, rng: random.Random) -> bytes:
    start, end = sorted(rng.randrange(len(data) + 1) for _ in range(2))
    return data[:start] if rng.random() < 0.5 else data[:start] + data[end:]


def rearrange(data: bytes, rng: random.Random) -> bytes:
    """Lines are lost, repeated, moved, and among others."""
    lines = data.splitlines(keepends=True)
    kept = [each for each in lines if rng.random() < 0.8]
    again = rng.choices(lines, k=rng.randrange(9)) if rng.random() < 0.5 else []
    found = [*kept, *again, *rng.sample(FOREIGN, rng.randrange(2))]
    return b"".join(found if rng.random() < 0.5 else rng.sample(found, len(found)))


def rewrite(data: bytes, rng: random.Random) -> bytes:
    """A record that says something else, under a checksum that is right."""
    lines = data.splitlines(keepends=True)
    place = rng.randrange(len(lines))
    try:
        record = orjson.loads(lines[place])
        lines[place] = seal(
            orjson.dumps(spoil(record, rng, times=rng.randint(1, 3)), default=str) + b"\n"
        )
    except (ValueError, TypeError):  # It was damaged before, or is no JSON by now.
        pass
    return b"".join(lines)


def damage(
    path: Path, rng: random.Random, ways: Sequence[Callable[[bytes, random.Random], bytes]]
) -> None:
    data = path.read_bytes()
    for _ in range(rng.randint(1, 3)):
        if data:
            data = rng.choice(ways)(data, rng)
    path.write_bytes(data)


async def run(
    lines: list[bytes], path: Path, journal: Path, *, most: int | None = None
) -> EvaluationStream:
    """A run that ends after so many results; with a path, of a file that is followed."""
    source: Any = lines
    if path.exists():
        stop = asyncio.Event()
        stop.set()
        source = follow_jsonl(path, stop=stop)
    options = Journal(journal, force=True)
    async with evaluate_stream(REFERENCE, source, journal=options) as stream:
        taken = 0
        async for _ in stream:
            taken += 1
            if taken == most:
                break
    return stream


def counted(stream: EvaluationStream) -> int:
    micro = stream.aggregates.snapshot()["micro"]
    return int(micro["number_of_error_samples"] + micro["number_of_success_samples"])


@sizes
def test_a_damaged_journal_has_each_line_once_in_the_end(count: int, tmp_path: Path) -> None:
    """Those who may write to a journal are trusted with what it says; it may say anything."""

    async def check(rng: random.Random, folder: Path, *, trusted: bool) -> None:
        lines, path, journal = (
            responses(rng.choice([1, 5, 30])),
            folder / "log.jsonl",
            folder / "journal",
        )
        if rng.random() < 0.5:
            path.write_bytes(b"".join(line + b"\n" for line in lines))
        await run(lines, path, journal, most=rng.choice([None, 1, 10]))
        ways = [flip, cut, rearrange, *([rewrite, rewrite] if trusted else [])]
        for suffix in ("", ".rejects", ".run") if trusted else ("", ".rejects"):
            if (beside := folder / f"journal{suffix}").exists() and rng.random() < 0.7:
                damage(beside, rng, ways)
        try:
            stream = await run(lines, path, journal)
        except JournalError:
            assert trusted
            return
        assert counted(stream) == len(lines_of(journal))
        assert stream.rejects.total == len(lines_of(folder / "journal.rejects"))
        assert stream.journal is not None
        assert not stream.journal.damaged or lines_of(folder / "journal.damaged")
        if not trusted:
            assert names_of(journal) == names(lines)
            again = await run(lines, path, journal)
            assert again.aggregates.snapshot() == stream.aggregates.snapshot()
            assert again.journal is not None
            assert (again.journal.damaged, counted(again)) == (0, counted(stream))

    numbers = itertools.count()

    def check_both(rng: random.Random) -> None:
        for trusted in (False, True):
            folder = tmp_path / str(next(numbers))
            folder.mkdir()
            with affordable(1):
                asyncio.run(in_time(check)(rng, folder, trusted=trusted))
            shutil.rmtree(folder)

    repeat(check_both, count)
