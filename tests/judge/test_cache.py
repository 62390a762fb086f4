from __future__ import annotations

import asyncio
import random
import sqlite3
import threading
from contextlib import aclosing, closing
from typing import TYPE_CHECKING, Any

import pytest

from graphrag_eval_async.errors import ConfigError
from graphrag_eval_async.judge.cache import APPLICATION_ID, CallCache, digest
from tests.support.loop import leaving_nothing

if TYPE_CHECKING:
    from pathlib import Path

KEY = digest("a call")


async def test_what_is_kept_is_found(tmp_path: Path) -> None:
    path = tmp_path / "cache?#%41.sqlite"
    async with leaving_nothing(), aclosing(await CallCache.open(str(path))) as cache:
        assert await cache.get(KEY) is None
        for value in (b"one", b"", b"\0" * 3_000_000):
            await cache.put(KEY, value)
            assert await cache.get(KEY) == value
    assert [*tmp_path.iterdir()] == [path]
    async with aclosing(await CallCache.open(path)) as cache:
        assert await cache.get(KEY) == value
        assert cache.failures == 0
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("judge-cache")]


def write(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as db:
        for statement in statements:
            db.execute(statement)
        db.commit()


async def test_a_file_that_is_something_else_stays_as_it_is(tmp_path: Path) -> None:
    ours, other = (f"PRAGMA application_id = {number}" for number in (APPLICATION_ID, 7))
    make: list[tuple[Any, str]] = [
        (lambda path: path.write_text("llm: {cache: x}\n" * 100), "not a cache"),
        (lambda path: write(path, other, "PRAGMA user_version = 2"), "not a cache"),
        (
            lambda path: write(path, ours, "PRAGMA user_version = 99"),
            "format 99, this one reads 2.*; delete",
        ),
    ]
    for number, (write_it, words) in enumerate(make):
        path = tmp_path / f"{number}" / "cache"
        path.parent.mkdir()
        write_it(path)
        before = {file.name: file.read_bytes() for file in path.parent.iterdir()}
        with pytest.raises(
            ConfigError, match=r"configuration:\n  llm\.cache: '/.*/cache': .*" + words
        ):
            await CallCache.open(path)
        assert {file.name: file.read_bytes() for file in path.parent.iterdir()} == before


async def test_a_damaged_file(tmp_path: Path) -> None:
    path, chance = tmp_path / "cache", random.Random(1)
    keys = [digest(number) for number in range(200)]
    async with aclosing(await CallCache.open(path)) as cache:
        await asyncio.gather(*(cache.put(key, key * 20) for key in keys))
    data = bytearray(path.read_bytes())
    for _ in range(10):
        position = chance.randrange(4096, len(data) - 512)
        data[position : position + 512] = chance.randbytes(512)
    path.write_bytes(data)
    async with aclosing(await CallCache.open(path)) as cache:
        found = await asyncio.gather(*map(cache.get, keys))
        assert {len(value) for value in found if value is not None} <= {640}
        await asyncio.gather(*(cache.put(key, b"new") for key in keys))
        assert cache.failures > 0


async def test_several_share_a_file(tmp_path: Path) -> None:
    """Each has its own connection and thread; SQLite's locks are those between processes."""

    async def work(worker: int) -> None:
        async with aclosing(await CallCache.open(tmp_path / "cache")) as cache:
            for number in range(60):
                key = digest(number if number % 2 else [worker, number])
                if await cache.get(key) is None:
                    await cache.put(key, key * 100)
                assert await cache.get(key) == key * 100
            assert cache.failures == 0

    await asyncio.gather(*map(work, range(3)))
