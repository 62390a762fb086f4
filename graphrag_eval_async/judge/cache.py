"""A cache of finished calls in an SQLite file, so that equal calls are paid for only once."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.errors import ConfigError

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator

APPLICATION_ID = 0x67726576
SCHEMA_VERSION = 2
SCHEMA = [
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {SCHEMA_VERSION}",
    "CREATE TABLE IF NOT EXISTS calls (key BLOB PRIMARY KEY, value BLOB NOT NULL)",
]
"""The header identifies our files; increase the version when the table changes."""

BUSY_SEC = 5.0
"""How long to wait while another process locks the file, in seconds."""

SQLITE_HEADER = b"SQLite format 3\0"
HEADER_BYTES = 100

# Where the header has the version and the id of the application, as big-endian numbers:
# https://www.sqlite.org/fileformat.html#the_database_header
USER_VERSION_BYTES = slice(60, 64)
APPLICATION_ID_BYTES = slice(68, 72)


def digest(*parts: Any) -> bytes:
    """Return a hash of JSON values, which does not depend on the order of keys in objects."""
    text = json.dumps(parts, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


class CallCache:
    """A table of calls by digest, in a file that several caches and processes may share.

    Once the file is open, errors only count as `failures`: a lookup finds nothing, a write is
    skipped.

    Attributes:
        failures: lookups and writes that failed.
    """

    def __init__(self, db: sqlite3.Connection, thread: ThreadPoolExecutor) -> None:
        """Wrap a connection to the file; `open` makes the connection and calls this.

        Args:
            db: the connection.
            thread: the one thread in which all work on `db` runs, in the order of submission.
        """
        self.failures = 0
        self._db = db
        self._thread = thread

    @classmethod
    async def open(cls, path: str | os.PathLike[str]) -> CallCache:
        """Open the cache in a file; create the file if it does not exist.

        Raises:
            ConfigError: the file is no cache, or cannot be written.
        """
        thread = ThreadPoolExecutor(1, thread_name_prefix="judge-cache")
        try:
            db = await asyncio.get_running_loop().run_in_executor(thread, _connect, path)
        except ConfigError:
            thread.shutdown(wait=False)
            raise
        return cls(db, thread)

    async def get(self, key: bytes) -> bytes | None:
        """Return the value of a key; None if the cache has no such key, or cannot be read."""
        return await self._run("SELECT value FROM calls WHERE key = ?", key)

    async def put(self, key: bytes, value: bytes) -> None:
        """Store a value under a key. When this returns, the value is in the file.

        The value is stored even if the task that calls this is cancelled.
        """
        await self._run("INSERT OR REPLACE INTO calls VALUES (?, ?)", key, value)

    async def aclose(self) -> None:
        """Wait for queued work, and close the file; may be called only once."""
        closed = asyncio.get_running_loop().run_in_executor(self._thread, self._db.close)
        # Take no more work, let the loop run until the file is closed, then join the thread.
        self._thread.shutdown(wait=False)
        await asyncio.wait([closed])
        self._thread.shutdown()

    async def _run(self, statement: str, *values: bytes) -> bytes | None:
        """Run a statement in the thread of the cache; return the first value of the first row.

        The statement runs even if the current task is cancelled. None is returned if there is no
        such value, or if the statement fails.
        """
        loop = asyncio.get_running_loop()
        running = loop.run_in_executor(self._thread, self._execute, statement, values)
        return await asyncio.shield(running)

    def _execute(self, statement: str, values: tuple[bytes, ...]) -> bytes | None:
        """Run a statement, and return the first value of the first row.

        The result is None if there is no such value, or if the statement fails. Failures are
        counted in `failures`.
        """
        import sqlite3

        try:
            row = self._db.execute(statement, values).fetchone()
        except sqlite3.Error as error:
            self.failures += 1
            if isinstance(error, sqlite3.OperationalError):
                # The file may be locked. Wait for it only this time, not again for every key.
                self._db.execute("PRAGMA busy_timeout = 0")
            return None
        if row is None or not isinstance(row[0], bytes):
            return None
        return row[0]


def check_cache(path: str | os.PathLike[str]) -> None:
    """Check that a file is a cache, or that a cache could be created there. Creates nothing.

    Raises:
        ConfigError: the file is something else, or cannot be written.
    """
    with _errors_of_configuration(path):
        _check_file(Path(path))


def _connect(path: str | os.PathLike[str]) -> sqlite3.Connection:
    """Return a connection to the cache in a file, which is created if it does not exist.

    Raises:
        ConfigError: the file is no cache, or cannot be written.
    """
    import sqlite3

    with _errors_of_configuration(path):
        _check_file(Path(path))
        # Without an isolation level, each statement is committed at once.
        db = sqlite3.connect(Path(path).absolute(), timeout=BUSY_SEC, isolation_level=None)
        try:
            with db:
                # Several processes may create the table at the same time.
                db.execute("BEGIN IMMEDIATE")
                for statement in SCHEMA:
                    db.execute(statement)
            # With this mode, readers do not wait for a writer. It is no error if a file system
            # does not support the mode, or if the file is locked just now.
            with suppress(sqlite3.OperationalError):
                db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = NORMAL")
        except sqlite3.Error:
            db.close()
            raise
        return db


@contextmanager
def _errors_of_configuration(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn errors of the file system or of SQLite into a `ConfigError` with the configured path."""
    import sqlite3

    key = f"llm.cache: {os.fspath(path)!r}"
    try:
        yield
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise ConfigError([f"{key}: {reason}"]) from None
    except (sqlite3.Error, ValueError) as error:
        raise ConfigError([f"{key}: {error}"]) from None


def _check_file(path: Path) -> None:
    """Check that a file is a cache that SQLite can write, or that a cache can be created there.

    This reads the file itself: SQLite would open any database, and might change it to repair it.

    Raises:
        ValueError: the file is something else, or cannot be written.
    """
    # The directory must be writable, since SQLite creates more files beside the database.
    if not path.parent.is_dir():
        raise ValueError("its directory does not exist")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise ValueError("its directory is not writable")
    if not path.exists():
        return

    foreign = ValueError("not a cache of judge calls; the file was not changed")
    if not path.is_file():
        raise foreign
    if not os.access(path, os.W_OK):
        raise ValueError("the file is not writable")

    with path.open("rb") as file:
        header = file.read(HEADER_BYTES)
    if not header:
        # Another process is just creating the cache.
        return
    application_id = int.from_bytes(header[APPLICATION_ID_BYTES])
    if not header.startswith(SQLITE_HEADER) or application_id != APPLICATION_ID:
        raise foreign
    version = int.from_bytes(header[USER_VERSION_BYTES])
    if version != SCHEMA_VERSION:
        raise ValueError(
            f"written by another version of the library (format {version}, this one reads "
            f"{SCHEMA_VERSION}); delete the file: `graphrag-eval-async evaluate` fills it again"
        )
