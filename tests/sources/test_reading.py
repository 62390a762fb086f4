from __future__ import annotations

import gzip
import hashlib
import os
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from graphrag_eval_async import read_jsonl
from graphrag_eval_async.errors import SourceError, UsageError
from graphrag_eval_async.records import Line
from graphrag_eval_async.sources.files import PIECE_BYTES
from tests.deadlines import PROCESS_SECONDS
from tests.sources.followed import open_files

LINES = [b'{"a":1}', b"", "é\u2028".encode(), b"x" * 100]
TEXT = b"\n".join(LINES) + b"\n"


async def read(path: Any, **options: Any) -> list[bytes]:
    before = open_files()
    lines = [line.data async for line in read_jsonl(path, **options)]
    assert open_files() == before
    return lines


async def read_until_error(path: Any) -> tuple[list[bytes], str]:
    lines: list[bytes] = []
    before = open_files()
    try:
        async for line in read_jsonl(path):
            lines.append(line.data)  # noqa: PERF401
    except SourceError as error:
        assert open_files() == before
        return lines, str(error)
    raise AssertionError("no error")


async def test_lines_know_their_positions(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(TEXT + b"last")
    lines = [line async for line in read_jsonl(path, max_line_bytes=99)]
    assert [(line.number, line.offset) for line in lines] == [(1, 0), (3, 9), (4, 15), (5, 116)]
    files = {line.file for line in lines}
    assert [(file.path, file.followed) for file in files] == [(str(path), False)]
    for line in lines:
        position = line.position
        content = path.read_bytes()[position.offset :][: position.length]
        assert position.sha256 == hashlib.sha256(content).hexdigest()
        assert content == line.data if isinstance(line, Line) else content.startswith(line.head)
        assert not isinstance(line, Line) or line.whole


@pytest.mark.parametrize("content", [b"", b"\n", TEXT, TEXT[:-1], os.urandom(300_000)])
async def test_gzip(tmp_path: Path, content: bytes) -> None:
    plain, packed = tmp_path / "a.jsonl", tmp_path / "b.jsonl.gz"
    plain.write_bytes(content)
    packed.write_bytes(gzip.compress(content))
    expected = [line async for line in read_jsonl(plain, max_line_bytes=1000)]
    lines = [line async for line in read_jsonl(packed, max_line_bytes=1000)]

    assert [line._replace(file=None) for line in lines] == [line._replace(file=None) for line in expected]
    assert {line.file.path for line in lines} <= {str(packed)}


async def test_lines_before_the_end_of_a_truncated_gzip_file(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    lines = [b"%d" % number for number in range(100_000)]
    packed = gzip.compress(b"\n".join(lines))
    path.write_bytes(packed[: len(packed) // 2])
    found, problem = await read_until_error(path)
    assert problem.startswith(f"{path}: cannot be decompressed: Compressed file ended before")
    assert 30_000 < len(found) < 80_000
    assert found == lines[: len(found)]


@pytest.mark.parametrize("garbage", [b"garbage", b"\0\0garbage"])
async def test_trailing_data_after_a_gzip_file(tmp_path: Path, garbage: bytes) -> None:
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(b"1\n2\n") + garbage)
    found, message = await read_until_error(path)
    assert found == [b"1", b"2"]
    assert message.startswith(f"{path}: cannot be decompressed: ")


async def test_all_lines_before_corrupt_data(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    packed = bytearray(gzip.compress(b"1\n2\n3"))
    packed[-8] ^= 1  # The checksum.
    path.write_bytes(gzip.compress(b"0\n") + packed)
    found, message = await read_until_error(path)
    assert found == [b"0", b"1", b"2"]
    assert "cannot be decompressed: CRC check failed" in message
    path.write_bytes(b"plain text")
    assert (await read_until_error(path))[0] == []


async def test_highly_compressed_files_are_not_kept_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        for _ in range(200):
            file.write(b"x" * (1 << 20))
    tracemalloc.start()
    try:
        lines = [line async for line in read_jsonl(path, max_line_bytes=1 << 20)]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert lines[0].length == 200 << 20
    assert peak < 70 << 20


async def test_several_files(tmp_path: Path) -> None:
    for name in ("b.jsonl", "a.jsonl", "c.txt", ".d.jsonl", "[e].jsonl"):
        (tmp_path / name).write_text(f"{name}\n")
    (tmp_path / "f.jsonl.gz").write_bytes(gzip.compress(b"f.jsonl.gz\n"))
    (tmp_path / "g.d").mkdir()
    assert await read(tmp_path) == [b"[e].jsonl", b"a.jsonl", b"b.jsonl", b"f.jsonl.gz"]
    assert await read(f"{tmp_path}/[ab]*") == [b"a.jsonl", b"b.jsonl"]
    assert await read(f"{tmp_path}/*.[dt]*") == [b"c.txt"]
    assert await read(f"{tmp_path}/**/c.txt") == [b"c.txt"]
    assert await read(tmp_path / "[e].jsonl") == [b"[e].jsonl"]
    assert await read([tmp_path / "c.txt", tmp_path / "b.jsonl", f"{tmp_path}/*.jsonl"]) == [
        b"c.txt",
        b"b.jsonl",
        b"[e].jsonl",
        b"a.jsonl",
    ]


async def test_unreadable_files(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1\n")
    empty = tmp_path / "empty"
    empty.mkdir()
    for path, problem in [
        (tmp_path / "absent", "cannot be read: No such file or directory"),
        (empty, "cannot be read: there is no *.jsonl, *.jsonl.gz or *.parquet in it"),
        (f"{empty}/*", "there is no such file, and none that it fits as a pattern"),
    ]:
        assert await read_until_error(path) == ([], f"{path}: {problem}")
    assert (await read_until_error([tmp_path / "a", tmp_path / "absent"]))[0] == [b"1"]
    assert (await read_until_error([tmp_path / "a", f"{empty}/*"]))[0] == []
    assert (await read_until_error("a\0b"))[1].endswith("cannot be read: embedded null byte")


@pytest.mark.parametrize("limit", [0, -1, True, 1.5, None, "1"])
def test_arguments(limit: Any) -> None:
    with pytest.raises(UsageError, match="max_line_bytes: expected an integer of 1 or more"):
        read_jsonl("a", max_line_bytes=limit)
    with pytest.raises(UsageError, match="path: expected a path"):
        read_jsonl([])


async def test_size_and_consumed_bytes(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"x" * (3 * PIECE_BYTES - 1) + b"\n")
    (tmp_path / "b.jsonl").write_bytes(b"1\n" * PIECE_BYTES)
    packed = gzip.compress(TEXT)
    (tmp_path / "c.jsonl.gz").write_bytes(packed)
    files = read_jsonl(tmp_path)
    assert files.size == 5 * PIECE_BYTES + len(packed)
    assert files.consumed == 0
    consumed = []
    async for batch in files.batches(max_line_bytes=10):
        consumed += [files.consumed] * bool(batch)
    assert consumed == [3 * PIECE_BYTES, 4 * PIECE_BYTES, 5 * PIECE_BYTES, files.size]
    assert len([line async for line in files]) == 3 + 2 * PIECE_BYTES // 2 + 1
    assert files.consumed == files.size


async def test_lines_of_other_than_regular_files_have_no_positions() -> None:
    source, target = os.pipe()
    os.write(target, b"1\n2\n")
    os.close(target)
    try:
        lines = [line async for line in read_jsonl(f"/dev/fd/{source}")]
    finally:
        os.close(source)
    assert [(line.data, line.offset, line.position) for line in lines] == [(b"1", 0, None), (b"2", 2, None)]


READ_STDIN = """
import asyncio, sys
from graphrag_eval_async import read_jsonl
async def main():
    files = read_jsonl("-")
    print(files.size, [line async for line in files], files.consumed, sys.stdin.fileno())
asyncio.run(main())
"""


@pytest.mark.parametrize("kind", ["pipe", "file"])
def test_standard_input(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "input"
    path.write_bytes(b"skipped\n1\n2")
    command = [sys.executable, "-c", READ_STDIN]
    root = Path(__file__).parents[2]
    with path.open("rb") as file:
        file.seek(8)
        os.lseek(file.fileno(), 8, os.SEEK_SET)
        given: Any = {"stdin": file} if kind == "file" else {"input": b"1\n2"}
        done = subprocess.run(
            command, capture_output=True, check=True, cwd=root, timeout=PROCESS_SECONDS, **given
        )
    size = 3 if kind == "file" else None
    lines = [Line(1, 0, b"1"), Line(2, 2, b"2")]
    assert done.stdout.decode() == f"{size} {lines} 3 0\n"
