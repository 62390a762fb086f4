from __future__ import annotations

import asyncio
import random
import sqlite3
import subprocess
import sys
import threading
from contextlib import aclosing, closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag_eval_async.errors import ConfigError
from graphrag_eval_async.judge import cache as module
from graphrag_eval_async.judge.cache import CallCache, digest
from tests.support.deadlines import WAIT_SECONDS
from tests.support.loop import leaving_nothing

KEY = digest("a call")
VERSION = "format 99, this one reads 2.*; delete the file"


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


def foreign(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as db:
        for statement in statements:
            db.execute(statement)
        db.commit()


def make_foreign(path: Path, kind: str) -> None:
    match kind:
        case "text":
            path.write_text("llm: {cache: x}\n" * 100)
        case "table":
            foreign(path, "CREATE TABLE t (a)")
        case "ids":
            foreign(path, "PRAGMA application_id = 7", "PRAGMA user_version = 1")
        case _ if kind == VERSION:
            foreign(path, f"PRAGMA application_id = {module.APPLICATION_ID}", "PRAGMA user_version = 99")
        case "unrepaired":  # as after a crash: SQLite would copy the log into the file, and remove it
            log = path.with_name(path.name + "-wal")
            foreign(path, "PRAGMA journal_mode = WAL", "CREATE TABLE t (a)")
            with closing(sqlite3.connect(path)) as db:
                db.execute("INSERT INTO t VALUES (1)")
                db.commit()
                data = log.read_bytes()
            log.write_bytes(data)


@pytest.mark.parametrize(
    ("kind", "words"),
    [("text", ""), ("table", ""), ("ids", ""), ("unrepaired", ""), (VERSION, VERSION)],
)
async def test_a_file_that_is_something_else_stays_as_it_is(tmp_path: Path, kind: str, words: str) -> None:
    path = tmp_path / "cache"
    make_foreign(path, kind)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    with pytest.raises(ConfigError, match=r"configuration:\n  llm\.cache: '/.*/cache': .*" + words):
        await CallCache.open(path)
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


async def test_a_file_that_others_hold_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BUSY_SEC", 0.01)
    path = tmp_path / "cache"
    async with aclosing(await CallCache.open(path)) as cache:
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(ConfigError, match="locked"):
                await CallCache.open(path)
            await asyncio.gather(cache.put(KEY, b"one"), cache.put(b"other", b"one"), cache.get(KEY))
            assert cache.failures == 2
        await cache.put(KEY, b"two")
        assert await cache.get(KEY) == b"two"
        assert cache.failures == 2


@pytest.mark.parametrize("seed", range(4))
async def test_a_damaged_file(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "cache"
    keys = [digest(number) for number in range(200)]
    async with aclosing(await CallCache.open(path)) as cache:
        await asyncio.gather(*(cache.put(key, key * 20) for key in keys))
    chance = random.Random(seed)
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


ROOT = Path(__file__).parents[2]

WORKER = """
import asyncio, sys
from contextlib import aclosing
from graphrag_eval_async.judge import cache as module
from graphrag_eval_async.judge.cache import CallCache, digest

module.BUSY_SEC = 100  # Locks go to anyone, so on a busy machine one may have to wait long.

async def work(path, worker, count):
    async with aclosing(await CallCache.open(path)) as cache:
        async def one(number):
            key = digest(number % 97 if number % 2 else [worker, number])
            if await cache.get(key) is None:
                await cache.put(key, key * 100)
            assert await cache.get(key) == key * 100
            print(number, flush=True)
        for start in range(0, count, 20):
            await asyncio.gather(*map(one, range(start, min(start + 20, count))))
        assert cache.failures == 0

asyncio.run(work(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
"""


async def test_processes_share_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BUSY_SEC", 100)  # As in the other processes.
    path, count = tmp_path / "cache", 600
    command = [sys.executable, "-W", "error", "-c", WORKER, str(path)]
    workers = [
        subprocess.Popen([*command, str(worker), str(count)], cwd=ROOT, stdout=subprocess.PIPE)
        for worker in range(5)
    ]
    for worker, process in enumerate(workers):
        numbers = [*map(int, process.communicate(timeout=WAIT_SECONDS)[0].split())]
        assert (sorted(numbers), process.returncode) == ([*range(count)], 0)
        keys = [digest([worker, number]) for number in range(0, count, 2)]
        async with aclosing(await CallCache.open(path)) as cache:
            assert await asyncio.gather(*map(cache.get, keys)) == [key * 100 for key in keys]
            assert cache.failures == 0


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 2)
    | st.floats()
    | st.text('a",:[]{}\\\x001\ud83d\ude00', max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=6,
)


def plain(value: Any) -> Any:
    """The same value for equal JSON values, and only for them."""
    if isinstance(value, list):
        return ("list", *map(plain, value))
    if isinstance(value, dict):
        return ("object", frozenset((key, plain(inner)) for key, inner in value.items()))
    return (type(value), repr(value))


@given(st.lists(JSON, max_size=3), st.lists(JSON, max_size=3))
def test_digests_are_equal_for_equal_values_only(some: list[Any], others: list[Any]) -> None:
    assert (digest(*some) == digest(*others)) == (plain(some) == plain(others))
    assert digest({"a": some, "b": others}) == digest({"b": others, "a": some})
