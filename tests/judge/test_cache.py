from __future__ import annotations

import asyncio
import os
import random
import resource
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
from contextlib import aclosing, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag_eval_async.config.secrecy import expand
from graphrag_eval_async.errors import ConfigError
from graphrag_eval_async.judge import cache as module
from graphrag_eval_async.judge.cache import CallCache, check_cache, digest
from tests.conftest import leaving_nothing
from tests.deadlines import WAIT_SECONDS, join, killing, wait

if TYPE_CHECKING:
    from collections.abc import Iterator

KEY = digest("a call")


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("judge-cache")]


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Another process, or as good as one, writes all the while."""
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield


async def test_what_is_kept_is_found(tmp_path: Path) -> None:
    path = tmp_path / "cache?#%41.sqlite"
    async with leaving_nothing(), aclosing(await CallCache.open(str(path))) as cache:
        assert await cache.get(KEY) is None
        await cache.put(KEY, b"one")
        assert await cache.get(KEY) == b"one"
        await cache.put(KEY, b"")
        await cache.put(b"", b"\0" * 3_000_000)
    assert [*tmp_path.iterdir()] == [path]
    async with aclosing(await CallCache.open(path)) as cache:
        assert await cache.get(KEY) == b""
        assert await cache.get(b"") == b"\0" * 3_000_000
        assert cache.failures == 0
    assert threads() == []


async def test_calls_that_wait_for_the_thread_go_together(tmp_path: Path) -> None:
    async with aclosing(await CallCache.open(tmp_path / "cache")) as cache:
        keys = [digest(number) for number in range(500)]
        await asyncio.gather(*(cache.put(key, key) for key in keys))
        mixed = [cache.put(KEY, b"new"), *map(cache.get, keys), cache.get(KEY)]
        assert await asyncio.gather(*mixed) == [None, *keys, b"new"]


async def test_two_caches_of_one_file(tmp_path: Path) -> None:
    first, second = await asyncio.gather(*(CallCache.open(tmp_path / "cache") for _ in range(2)))
    await first.put(KEY, b"one")
    assert (tmp_path / "cache-wal").exists()
    assert await second.get(KEY) == b"one"
    await first.aclose()
    await second.put(KEY, b"two")
    assert await second.get(KEY) == b"two"
    await second.aclose()
    assert second.failures == 0


def test_the_module_is_light() -> None:
    script = "import sys; import graphrag_eval_async.judge.cache; print('sqlite3' in sys.modules)"
    assert (
        subprocess.check_output([sys.executable, "-c", script], cwd=ROOT, timeout=WAIT_SECONDS) == b"False\n"
    )


# Files that cannot be used


def foreign(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as db:
        for statement in statements:
            db.execute(statement)
        db.commit()


def make_foreign(path: Path, kind: str) -> None:
    if kind == "text":
        path.write_text("llm: {cache: x}\n" * 100)
    elif kind == "byte":
        path.write_bytes(b"\0")
    elif kind == "table":
        foreign(path, "CREATE TABLE t (a)")
    elif kind == "ids":
        foreign(path, "PRAGMA application_id = 7", "PRAGMA user_version = 1")
    elif kind == "version":
        foreign(path, f"PRAGMA application_id = {module.APPLICATION_ID}", "PRAGMA user_version = 99")
    elif kind == "header":
        foreign(path, *module.SCHEMA, "CREATE TABLE other (a)")
        path.write_bytes(path.read_bytes()[:100])
    elif kind == "unrepaired":  # as after a crash: SQLite would copy the log into the file, and remove it
        foreign(path, "PRAGMA journal_mode = WAL", "CREATE TABLE t (a)")
        with closing(sqlite3.connect(path)) as db:
            db.execute("INSERT INTO t VALUES (1)")
            db.commit()
            log = path.with_name(path.name + "-wal").read_bytes()
        path.with_name(path.name + "-wal").write_bytes(log)


async def test_another_version_is_named_with_the_cure(tmp_path: Path) -> None:
    make_foreign(tmp_path / "cache", "version")
    with pytest.raises(ConfigError, match=r"format 99, this one reads 2.*; delete the file"):
        await CallCache.open(tmp_path / "cache")


@pytest.mark.parametrize("kind", ["text", "byte", "table", "ids", "version", "header", "unrepaired"])
async def test_a_file_that_is_something_else_stays_as_it_is(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "cache"
    make_foreign(path, kind)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    with pytest.raises(ConfigError, match=r"configuration:\n  llm\.cache: '/.*/cache': .+"):
        await CallCache.open(path)
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


@pytest.mark.parametrize(
    "path", [".", "", "missing/cache", "/dev/null", "file/cache", "a\0b", "\ud800", "x" * 5000]
)
async def test_a_path_that_cannot_be_a_file(
    tmp_path: Path, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    with pytest.raises(ConfigError, match=r"llm\.cache: "):
        await CallCache.open(path)
    assert [*tmp_path.iterdir()] == [tmp_path / "file"]


async def test_a_path_from_the_environment_is_shown_as_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WHERE", str(tmp_path))
    (tmp_path / "file").touch()
    for path in ("${WHERE}/missing/cache", "${WHERE}", "${WHERE}/file/cache"):
        with pytest.raises(ConfigError, match=r"llm\.cache: '\$\{WHERE\}") as caught:
            check_cache(expand(path))
        assert str(tmp_path) not in str(caught.value)


async def test_names_with_a_meaning_for_sqlite_are_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in (":memory:", "file:x?mode=memory"):
        await (await CallCache.open(name)).aclose()
        assert Path(name).is_file()


async def test_an_empty_file_is_a_new_cache(tmp_path: Path) -> None:
    (tmp_path / "cache").touch()
    async with aclosing(await CallCache.open(tmp_path / "cache")) as cache:
        await cache.put(KEY, b"one")
        assert await cache.get(KEY) == b"one"


@contextmanager
def unprivileged() -> Iterator[Path]:
    """A directory of a user whom the modes of files bind."""
    with tempfile.TemporaryDirectory() as directory:
        root = os.getuid() == 0
        if root:
            os.chown(directory, 65534, -1)
            os.setresuid(65534, 65534, 0)
        try:
            yield Path(directory)
        finally:
            if root:
                os.setresuid(0, 0, 0)


@pytest.mark.parametrize("journal", ["WAL", "DELETE"])
async def test_files_and_directories_that_are_read_only(journal: str) -> None:
    with unprivileged() as directory:
        path = directory / "cache"
        await (await CallCache.open(path)).aclose()
        foreign(path, f"PRAGMA journal_mode = {journal}")
        for target, mode in ((path, 0o444), (path, 0o000), (directory, 0o555), (directory, 0o000)):
            usual = target.stat().st_mode
            target.chmod(mode)
            with pytest.raises(ConfigError, match=r"llm\.cache: "):
                await CallCache.open(path)
            target.chmod(usual)
        await (await CallCache.open(path)).aclose()


async def test_a_file_that_others_hold_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BUSY_SEC", 0.01)
    path = tmp_path / "cache"
    async with aclosing(await CallCache.open(path)) as cache:
        with held(path):
            with pytest.raises(ConfigError, match="locked"):
                await CallCache.open(path)
            await asyncio.gather(cache.put(KEY, b"one"), cache.put(b"other", b"one"), cache.get(KEY))
            assert cache.failures == 2
        await cache.put(KEY, b"two")
        assert await cache.get(KEY) == b"two"
        assert cache.failures == 2


async def test_lookups_that_are_locked_out_wait_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BUSY_SEC", 0.01)
    path = tmp_path / "cache"
    tries = []
    find = CallCache._find

    def counted(cache: CallCache, key: bytes) -> Any:
        tries.append(key)
        return find(cache, key)

    monkeypatch.setattr(CallCache, "_find", counted)
    async with aclosing(await CallCache.open(path)) as cache:
        await cache.put(KEY, b"one")
        cache._thread.submit(lambda: cache._db.execute("PRAGMA journal_mode = DELETE")).result()
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN EXCLUSIVE")
            assert await asyncio.gather(*map(cache.get, [KEY] * 50)) == [None] * 50
        assert cache.failures == 50
        assert len(tries) == 2
        assert await cache.get(KEY) == b"one"


async def test_a_table_that_went_away(tmp_path: Path) -> None:
    path = tmp_path / "cache"
    async with aclosing(await CallCache.open(path)) as cache:
        foreign(path, "DROP TABLE calls")
        await cache.put(KEY, b"one")
        assert await cache.get(KEY) is None
        assert cache.failures == 2


# Failures later on


async def test_a_value_that_is_no_bytes_is_not_found(tmp_path: Path) -> None:
    path = tmp_path / "cache"
    async with aclosing(await CallCache.open(path)) as cache:
        await cache.put(KEY, b"value")
        foreign(path, "UPDATE calls SET value = 'value'")
        assert await cache.get(KEY) is None
        await cache.put(KEY, b"again")
        assert await cache.get(KEY) == b"again"


@pytest.mark.parametrize("seed", range(8))
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


async def test_a_full_disk(tmp_path: Path) -> None:
    async with aclosing(await CallCache.open(tmp_path / "cache")) as cache:
        await cache.put(KEY, b"one")
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
        try:
            await cache.put(b"large", b"x" * 1_000_000)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert cache.failures == 1
        assert await cache.get(b"large") is None
        await cache.put(b"small", b"two")
        assert (await cache.get(KEY), await cache.get(b"small")) == (b"one", b"two")
        assert cache.failures == 1


# Cancellation


class Gate:
    """Keeps the thread of a cache busy until it is opened."""

    def __init__(self, cache: CallCache) -> None:
        self.entered, self.opened = threading.Event(), threading.Event()
        cache._thread.submit(self._wait)
        wait(self.entered, "the thread of the cache")

    def _wait(self) -> None:
        self.entered.set()
        wait(self.opened)


async def test_cancelled_calls(tmp_path: Path) -> None:
    async with leaving_nothing(), aclosing(await CallCache.open(tmp_path / "cache")) as cache:
        gate = Gate(cache)
        keys = [digest(number) for number in range(10)]
        tasks = [asyncio.create_task(cache.put(key, key)) for key in keys]
        lookups = [asyncio.create_task(cache.get(key)) for key in keys]
        await asyncio.sleep(0)
        for task in [*tasks[:5], *lookups[:5]]:
            task.cancel()
        gate.opened.set()
        outcomes = await asyncio.gather(*tasks, *lookups, return_exceptions=True)
        expected = [*[True] * 5, *[False] * 5] * 2
        assert [isinstance(outcome, asyncio.CancelledError) for outcome in outcomes] == expected
        assert await asyncio.gather(*map(cache.get, keys)) == keys
        assert cache.failures == 0


async def test_closing_keeps_what_is_queued(tmp_path: Path) -> None:
    cache = await CallCache.open(tmp_path / "cache")
    gate = Gate(cache)
    first, second = (asyncio.create_task(cache.put(digest(number), b"value")) for number in range(2))
    await asyncio.sleep(0)
    first.cancel()
    second.cancel()
    closing_task = asyncio.create_task(cache.aclose())
    await asyncio.sleep(0)
    closing_task.cancel()
    await asyncio.wait([first, second, closing_task])
    gate.opened.set()
    for thread in threads():
        join(thread)
    async with aclosing(await CallCache.open(tmp_path / "cache")) as cache:
        assert [await cache.get(digest(number)) for number in range(2)] == [b"value"] * 2


# Several processes


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """As are the other processes."""
    monkeypatch.setattr(module, "BUSY_SEC", 100)


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


def start(path: Path, worker: int, count: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-W", "error", "-c", WORKER, str(path), str(worker), str(count)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE)


async def check(path: Path, worker: int, numbers: list[int]) -> None:
    """See that the values that a worker printed are there."""
    keys = [digest([worker, number]) for number in numbers if number % 2 == 0]
    async with aclosing(await CallCache.open(path)) as cache:
        assert await asyncio.gather(*map(cache.get, keys)) == [key * 100 for key in keys]
        assert cache.failures == 0


@pytest.mark.usefixtures("patient")
async def test_processes_share_a_file(tmp_path: Path) -> None:
    path, count = tmp_path / "cache", 600
    processes = [start(path, worker, count) for worker in range(5)]
    for worker, process in enumerate(processes):
        numbers = [*map(int, process.communicate(timeout=WAIT_SECONDS)[0].split())]
        assert (sorted(numbers), process.returncode) == ([*range(count)], 0)
        await check(path, worker, numbers)


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("lines", [1, 200, 400])
async def test_processes_that_are_killed(tmp_path: Path, lines: int) -> None:
    path = tmp_path / "cache"
    processes = [start(path, worker, 1_000_000) for worker in range(2)]
    printed = []
    for process in processes:
        assert process.stdout
        with killing(process, f"{lines} lines"):
            printed.append([int(process.stdout.readline()) for _ in range(lines)])
    for process in processes:
        process.kill()
    for process in processes:
        process.communicate(timeout=WAIT_SECONDS)
        assert process.returncode == -signal.SIGKILL
    for worker, numbers in enumerate(printed):
        await check(path, worker, numbers)
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


# Digests

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 2)
    | st.integers()
    | st.floats()
    | st.text(st.sampled_from('a",:[]{}\\\x001\ud83d\ude00\U0001f600'), max_size=4)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=6,
)


def plain(value: Any) -> Any:
    """The same value for equal JSON values, and only for them."""
    if isinstance(value, list | tuple):
        return ("list", *map(plain, value))
    if isinstance(value, dict):
        return ("object", frozenset((key, plain(inner)) for key, inner in value.items()))
    return (type(value), repr(value))


@given(st.lists(JSON, max_size=3), st.lists(JSON, max_size=3))
def test_digests_are_equal_for_equal_values_only(some: list[Any], others: list[Any]) -> None:
    assert (digest(*some) == digest(*others)) == (plain(some) == plain(others))
    assert len(digest(*some)) == 32


@given(st.dictionaries(st.text(), JSON), st.randoms(use_true_random=False))
def test_the_order_of_keys_is_nothing(values: dict[str, Any], chance: random.Random) -> None:
    items = [*values.items()]
    chance.shuffle(items)
    assert digest(dict(items)) == digest(values)


def test_values_that_are_easily_confused() -> None:
    parts: list[tuple[Any, ...]] = [
        (one,) for one in (1, 1.0, "1", True, "true", None, "null", [1], {"1": 1})
    ]
    parts += [(), ([],), ({},), ("",), ("ab", "c"), ("a", "bc"), (["ab", "c"],), ("abc",), ('ab","c',)]
    parts += [(0.0,), (-0.0,), (float("nan"),), (float("inf"),), ("NaN",), (10**30,), (1e30,)]
    parts += [("\ud83d\ude00",), ("\U0001f600",), ("\\ud83d",), ("\ud83d",), ("\ufffd",), ("?",)]
    assert len({digest(*each) for each in parts}) == len(parts)
    assert digest((1, 2)) == digest([1, 2])


@pytest.mark.parametrize("part", [b"bytes", {1}, {1: 2, "1": 2}, object()])
def test_parts_that_are_not_json(part: Any) -> None:
    with pytest.raises(TypeError):
        digest(part)


def test_a_digest_never_changes() -> None:
    assert digest("gpt", {"b": [1, 2.5, None], "a": "\u00e9\ud800"}, True).hex() == (
        "3bebf13dda51fe55a243f5265d60f97344ae74a9c8ed391c71415760c4342941"
    )
