"""Files at addresses, read by `read_jsonl` in ranges."""

from __future__ import annotations

import gzip
import time
from itertools import chain
from typing import TYPE_CHECKING, Any

import fsspec
import pytest

from graphrag_eval_async import SourceError, UsageError, read_jsonl
from tests.sources.served import serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TEXT = b"\n".join(b'{"question_id": "q%d"%s}' % (i, b" " * (i * 37 % 90)) for i in range(400)) + b"\n\n[]"
LONG = TEXT.replace(b'"q', b'"' + b"q" * 25_000)
"""More than two ranges."""


@pytest.fixture(autouse=True)
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long was waited before each further attempt; nothing waits."""
    seconds: list[float] = []
    monkeypatch.setattr(time, "sleep", seconds.append)
    return seconds


@pytest.fixture
def memory() -> Iterator[Any]:
    files = fsspec.filesystem("memory")
    yield files
    files.rm("/", recursive=True)


async def read(path: Any, **options: Any) -> list[tuple[int, bytes]]:
    return [(line.offset, line.data) async for line in read_jsonl(path, **options)]


async def test_shards_of_an_address_are_the_file(tmp_path: Path, slept: list[float]) -> None:
    local = tmp_path / "log.jsonl"
    local.write_bytes(LONG)
    expected = await read(local)
    with serving(LONG) as served:
        for count in (1, 3):
            served.failures = 4
            parts = [await read(served.address, shard=(i, count)) for i in range(count)]
            assert [*chain(*parts)] == expected
            assert min(map(len, parts)) > 300 // count
    assert slept == [0.25, 0.5, 1, 2] * 2


async def test_a_directory_of_an_address(memory: Any) -> None:
    for name, text in {"b.jsonl": b"{}\n[]", "a.jsonl.gz": gzip.compress(TEXT), "c.txt": b"no"}.items():
        memory.pipe_file(f"/logs/{name}", text)
    whole = await read("memory://logs")
    assert len(whole) == 403
    assert await read("memory://logs/*.jsonl*") == whole
    (first, _) = [line.position async for line in read_jsonl("memory://logs/b.jsonl")]
    assert first.path == "memory://logs/b.jsonl"
    memory.pipe_file("/logs/b.jsonl", b"{}")  # Another version is another file.
    assert first.file not in [line.position.file async for line in read_jsonl("memory://logs/b.jsonl")]
    with pytest.raises(SourceError, match=r"memory://none/x\.jsonl: cannot be read: there is no such file"):
        await read("memory://none/x.jsonl")


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"status": 403}, "access was refused"),
    ({"status": 404}, "there is no such file"),
    ({"failures": 1000}, "status 503"),
    ({"changes": True}, "was changed while it was read"),
    ({"ranges": False}, "download the file"),
]


async def test_errors_name_the_address_without_secrets() -> None:
    for wrong, message in WRONG:
        with serving(LONG) as served:
            vars(served).update(wrong)
            address = served.address.replace("://", "://user:secret@") + "?signature=secret"
            with pytest.raises(SourceError, match=message) as caught:
                await read(address)
            assert served.address in str(caught.value)
        assert "secret" not in str(caught.value)


async def test_addresses_that_cannot_be_read() -> None:
    with pytest.raises(UsageError, match="x: there is no file system of this kind"):
        await read("nothing://x")
    with pytest.raises(SourceError, match="cannot be shuffled"):
        await read("http://127.0.0.1:9/x.jsonl", shuffle=1)
