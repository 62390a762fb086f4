"""Files read in an order of chance."""

from __future__ import annotations

import gzip
import os
import tracemalloc
from contextlib import aclosing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag_eval_async import read_jsonl
from graphrag_eval_async.errors import SourceError, UsageError
from graphrag_eval_async.records import Line, LongLine
from tests.sources.followed import open_files

if TYPE_CHECKING:
    from graphrag_eval_async.records import Record
    from graphrag_eval_async.sources import JsonlFiles


async def read(path: Any, seed: int | None, **options: Any) -> list[Record]:
    before = open_files()
    lines = [line async for line in read_jsonl(path, shuffle=seed, **options)]
    assert open_files() == before
    return lines


def plain(line: Record) -> tuple[Any, ...]:
    """All that is known of a line but where it came in the order."""
    assert isinstance(line, Line | LongLine)
    text = line.data if isinstance(line, Line) else (line.head, line.length, line.sha256)
    return line.number, line.offset, text, line.file, line.position


def write(path: Path, count: int) -> Path:
    path.write_text("".join(f"line {i}\n" for i in range(count)))
    return path


pieces = st.sampled_from(
    [b"a", b"bc", b"\n", b"\n\n", b"\r\n", b" ", b"\t \n", b"\xef\xbb\xbf", b"x" * 9]
)


async def lines_of(files: JsonlFiles, limit: int) -> list[Record]:
    return [line async for batch in files.batches(max_line_bytes=limit) for line in batch]


async def check(paths: list[Path], seed: int, limit: int) -> None:
    """The same lines in another order, with their numbers, offsets and positions."""
    source = read_jsonl(paths, shuffle=seed)
    assert source.lines is None
    lines = await lines_of(source, limit)
    expected = await lines_of(read_jsonl(paths), limit)
    assert sorted(map(repr, map(plain, lines))) == sorted(map(repr, map(plain, expected)))
    assert source.lines == len(expected)


@given(st.lists(st.lists(pieces, max_size=20), min_size=1, max_size=3), st.integers(0))
def test_whatever_the_files_look_like(files: list[list[bytes]], seed: int) -> None:
    with TemporaryDirectory() as folder:
        paths = [Path(folder, f"{i}.jsonl") for i in range(len(files))]
        for path, parts in zip(paths, files, strict=True):
            path.write_bytes(b"".join(parts))
        anyio.run(check, paths, seed, 5)


async def test_long_lines_and_more_files_than_are_kept_open(tmp_path: Path) -> None:
    paths = [tmp_path / f"{i}.jsonl" for i in range(70)]
    for i, path in enumerate(paths):
        path.write_bytes(
            b"".join(b"x" * (size + i) + b"\n" for size in (1, 65_500, 10, 131_072, 200_000))
        )
    await check(paths, 1, 150_000)


async def test_the_same_seed_gives_the_same_order(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", 500)
    orders = [[line.number for line in await read(path, seed)] for seed in (0, 0, 1, 2**70, None)]
    assert orders[0] == orders[1]
    assert orders[0] != orders[2] != orders[3]
    assert orders[4] == sorted(orders[0]) == list(range(1, 501))
    assert orders[0][:8] == [420, 460, 131, 432, 371, 27, 202, 57]


async def test_memory_is_two_numbers_per_line(tmp_path: Path) -> None:
    count = 100_000
    path = write(tmp_path / "a.jsonl", count)
    tracemalloc.start()
    try:
        async with aclosing(read_jsonl(path, shuffle=1).batches(max_line_bytes=100)) as batches:
            await anext(batches)
            _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # While an array grows, it is there twice; and a chunk is cut into its lines.
    assert peak < 16 * count * 1.7 + (1 << 20)


async def test_sources_that_cannot_be_shuffled(tmp_path: Path) -> None:
    zipped = tmp_path / "a.jsonl.gz"
    zipped.write_bytes(gzip.compress(b"{}\n"))
    os.mkfifo(pipe := tmp_path / "pipe")
    problems = {tmp_path: "shuffled: it is compressed", pipe: "shuffled: it is not a regular file"}
    for path, problem in (problems | {tmp_path / "missing": "No such file"}).items():
        with pytest.raises(SourceError, match=problem):
            await read(path, 0)
    for paths in ("-", [tmp_path, zipped]):
        with pytest.raises(
            UsageError, match="cannot be shuffled, only files that are not compressed"
        ):
            read_jsonl(paths, shuffle=0)


@pytest.mark.parametrize("change", ["rewritten", "cut short"])
async def test_files_that_change_while_being_read(tmp_path: Path, change: str) -> None:
    path = write(tmp_path / "a.jsonl", 1000)
    source = read_jsonl(path, shuffle=1)
    lines = aiter(source)
    await anext(lines)
    if change == "rewritten":
        path.write_text("\n" * path.stat().st_size)
    else:
        os.truncate(path, 20)
    with pytest.raises(SourceError, match="it changed while"):
        [line async for line in lines]
