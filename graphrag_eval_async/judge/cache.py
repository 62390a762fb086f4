"""Finished calls, kept in an SQLite file so that equal ones need not be paid for again."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import zlib
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from graphrag_eval_async.errors import ConfigError

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator, Sequence

    _Outcome: TypeAlias = bytes | BaseException | None

APPLICATION_ID = 0x67726576
SCHEMA_VERSION = 1
SCHEMA = [
    # Written even where they are there already, to find out whether the file can be written.
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {SCHEMA_VERSION}",
    "CREATE TABLE IF NOT EXISTS calls (key BLOB PRIMARY KEY, value BLOB NOT NULL, checksum INTEGER NOT NULL)",
]
"""The header says whose file it is; another table asks for another version."""

BUSY_SEC = 5.0
"""How long to wait while others hold the file."""

CLOSE_SEC = 15.0
"""How long to wait for what is queued, on a file that others may hold."""


def digest(*parts: Any) -> bytes:
    """A hash of JSON-like values: equal for equal ones, whatever the order of the keys of objects.

    1, 1.0, True, "1" and None are five values; a tuple is a list, and keys are strings, as they are in JSON.

    Raises:
        TypeError, ValueError, RecursionError: a part cannot be written as JSON.
    """
    text = json.dumps(parts, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


class CallCache:
    """A table of calls by their digest, in a file that any number of them and of processes may share.

    Once it is open, what goes wrong is no error: the value is not found, or not kept.

    Attributes:
        failures: how many values could not be looked up or kept.
        last_error: why the last of them could not.
    """

    def __init__(self) -> None:
        """Without a file; `open` makes a usable one."""
        self.failures = 0
        self.last_error: str | None = None
        self._file = _File()
        # One thread does all the work, in the order in which it is given.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="judge-cache")
        self._queued: list[_Call] = []
        self._running = False
        self._closed: asyncio.Future[None] | None = None

    @classmethod
    async def open(cls, path: str | os.PathLike[str]) -> CallCache:
        """The cache in a file, which is made if there is none.

        Raises:
            ConfigError: the file cannot be written, or holds something else, which is left as it is.
        """
        cache = cls()
        with ExitStack() as on_failure:
            on_failure.callback(cache._close)
            await asyncio.get_running_loop().run_in_executor(cache._thread, cache._file.open, path)
            on_failure.pop_all()
        return cache

    async def get(self, key: bytes) -> bytes | None:
        """The value kept under a key, or None."""
        return await self._do(key, None)

    async def put(self, key: bytes, value: bytes) -> None:
        """Keep a value: once this returns, it outlives the process. If cancelled, it is kept all the same."""
        await self._do(key, value)

    async def aclose(self) -> None:
        """Wait for what is queued, up to `CLOSE_SEC`, and close the file. Calls that come later fail."""
        closed, _ = await asyncio.wait([self._close()], timeout=CLOSE_SEC)
        self._thread.shutdown(wait=bool(closed))

    async def _do(self, key: bytes, value: bytes | None) -> bytes | None:
        call = _Call(key, value, asyncio.get_running_loop().create_future())
        if self._closed:
            self._settle(call, RuntimeError("the cache is closed"))
        else:
            self._queued.append(call)
            if not self._running:
                self._start()
        return await call.outcome

    def _start(self) -> None:
        """Let the thread do all that is queued; what comes meanwhile waits, and then goes together."""
        calls, self._queued = self._queued, []
        work = [(call.key, call.value) for call in calls]
        running = asyncio.get_running_loop().run_in_executor(self._thread, self._file.run, work)
        running.add_done_callback(partial(self._finish, calls))
        self._running = True

    def _finish(self, calls: list[_Call], done: asyncio.Future[list[_Outcome]]) -> None:
        self._running = False
        error = done.exception()
        for call, outcome in zip(calls, [error] * len(calls) if error else done.result(), strict=True):
            self._settle(call, outcome)
        if self._queued:
            self._start()

    def _settle(self, call: _Call, outcome: _Outcome) -> None:
        if isinstance(outcome, BaseException):
            self.failures += 1
            self.last_error = str(outcome)
            outcome = None
        if not call.outcome.done():
            call.outcome.set_result(outcome)

    def _close(self) -> asyncio.Future[None]:
        """Have the thread close the file, and end, when it has done what it was given."""
        if self._closed is None:
            if self._queued:
                self._start()
            self._closed = asyncio.get_running_loop().run_in_executor(self._thread, self._file.close)
            self._thread.shutdown(wait=False)
        return self._closed


class _Call(NamedTuple):
    """A value to be looked up, or to be kept if there is one."""

    key: bytes
    value: bytes | None
    outcome: asyncio.Future[bytes | None]


class _File:
    """The SQLite file; everything is done in one thread."""

    def __init__(self) -> None:
        self._resources = ExitStack()
        self._db: sqlite3.Connection

    def open(self, path: str | os.PathLike[str]) -> None:
        import sqlite3

        with _located(path):
            _check_file(Path(path))
            self._db = sqlite3.connect(Path(path).absolute(), timeout=BUSY_SEC, isolation_level=None)
            self._resources.callback(self._db.close)
            with self._db:
                self._db.execute("BEGIN IMMEDIATE")
                _check_owner(self._db)
                for statement in SCHEMA:
                    self._db.execute(statement)
            with suppress(sqlite3.OperationalError):  # not on every file system, nor while others hold it
                self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = NORMAL")

    def close(self) -> None:
        self._resources.close()

    def run(self, work: Sequence[tuple[bytes, bytes | None]]) -> list[_Outcome]:
        """Keep the values, in one transaction; then look up the keys that come without one."""
        kept = self._keep([(key, value) for key, value in work if value is not None])
        found = iter(self._find([key for key, value in work if value is None]))
        return [next(found) if value is None else kept for _, value in work]

    def _keep(self, items: Sequence[tuple[bytes, bytes]]) -> Exception | None:
        import sqlite3

        rows = [(key, value, _checksum(key, value)) for key, value in items]
        try:
            with self._db:
                if rows:
                    self._db.execute("BEGIN IMMEDIATE")
                    self._db.executemany("INSERT OR REPLACE INTO calls VALUES (?, ?, ?)", rows)
        except sqlite3.Error as error:
            return error
        return None

    def _find(self, keys: Sequence[bytes]) -> list[_Outcome]:
        """What is kept under each key; a file that others hold is waited for once, not for every key."""
        import sqlite3

        outcomes: list[_Outcome] = []
        for key in keys:
            is_held = outcomes and isinstance(outcomes[-1], sqlite3.OperationalError)
            outcomes.append(outcomes[-1] if is_held else self._find_one(key))
        return outcomes

    def _find_one(self, key: bytes) -> _Outcome:
        import sqlite3

        try:
            row = self._db.execute("SELECT value, checksum FROM calls WHERE key = ?", [key]).fetchone()
        except sqlite3.Error as error:
            return error
        if row is None:
            return None
        value: object = row[0]
        if isinstance(value, bytes) and row[1] == _checksum(key, value):
            return value
        return ValueError("a value in the cache is damaged")


def check_cache(path: str | os.PathLike[str]) -> None:
    """See that a file could be a cache, or be made one, without making it.

    Raises:
        ConfigError: it cannot.
    """
    with _located(path):
        _check_file(Path(path))


@contextmanager
def _located(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turns errors of the file into a `ConfigError` that shows the path as it was written."""
    import sqlite3

    shown = repr(path if isinstance(path, str) else os.fspath(path))
    try:
        yield
    except OSError as error:
        raise ConfigError([f"llm.cache: {shown}: {error.strerror or type(error).__name__}"]) from None
    except (sqlite3.Error, ValueError) as error:
        raise ConfigError([f"llm.cache: {shown}: {error}"]) from None


def _check_file(path: Path) -> None:
    """See that a file may be opened by SQLite, without opening it for good.

    Raises:
        ValueError: it is not a cache, or cannot be written.
        OSError: it cannot be looked at.
    """
    import sqlite3

    if not path.parent.is_dir():
        raise ValueError("its directory does not exist")
    if not os.access(path.parent, os.W_OK | os.X_OK):  # SQLite makes files of its own beside it.
        raise ValueError("its directory cannot be written")
    if not path.exists():
        return
    if not path.is_file() or path.stat().st_size == 1:  # which SQLite takes for empty
        raise ValueError("not a cache of judge calls; it is left as it is")
    if not os.access(path, os.W_OK):  # for what SQLite leaves beside such a file is as read-only
        raise ValueError("it cannot be written")
    # SQLite may repair what it opens, unless it is told that nothing can change. Our own files do change, so
    # that errors mean nothing here; if they are true, they will come again.
    uri = f"{path.absolute().as_uri()}?immutable=1&mode=ro"
    with suppress(sqlite3.Error), closing(sqlite3.connect(uri, uri=True)) as db:
        _check_owner(db)


def _check_owner(db: sqlite3.Connection) -> None:
    """See that a database is one of ours, or new.

    Raises:
        ValueError: it is not.
    """
    ids = [db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")]
    new = ids == [0, 0] and not db.execute("SELECT * FROM sqlite_master").fetchone()
    if not new and ids != [APPLICATION_ID, SCHEMA_VERSION]:
        raise ValueError("not a cache of judge calls, or one of another version; it is left as it is")


def _checksum(key: bytes, value: bytes) -> int:
    return zlib.crc32(value, zlib.crc32(key))
