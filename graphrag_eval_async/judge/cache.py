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
    """Return a hash of JSON-like values, which ignores the order of object keys."""
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
        """See `open`; all work on `db` runs in `thread`, in submission order."""
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
        """Return the value of a key, or None."""
        return await self._run("SELECT value FROM calls WHERE key = ?", key)

    async def put(self, key: bytes, value: bytes) -> None:
        """Store a value; once this returns, the value outlives the process.

        A cancelled call stores the value, too.
        """
        await self._run("INSERT OR REPLACE INTO calls VALUES (?, ?)", key, value)

    async def aclose(self) -> None:
        """Finish queued calls and close the file; call only once."""
        closed = asyncio.get_running_loop().run_in_executor(self._thread, self._db.close)
        self._thread.shutdown(wait=False)
        await asyncio.wait([closed])
        self._thread.shutdown()

    async def _run(self, statement: str, *values: bytes) -> bytes | None:
        """Run a statement in the thread of the cache, and return the first value of its result.

        If the task is cancelled, the statement is run all the same.
        """
        loop = asyncio.get_running_loop()
        running = loop.run_in_executor(self._thread, self._execute, statement, values)
        return await asyncio.shield(running)

    def _execute(self, statement: str, values: tuple[bytes, ...]) -> bytes | None:
        """Run a statement, and return the first value of its result.

        The result is None if there is no value, or if the statement fails, which is counted.
        """
        import sqlite3

        try:
            row = self._db.execute(statement, values).fetchone()
        except sqlite3.Error as error:
            self.failures += 1
            if isinstance(error, sqlite3.OperationalError):
                # Wait for a locked file once, not for every key.
                self._db.execute("PRAGMA busy_timeout = 0")
            return None
        if row is None or not isinstance(row[0], bytes):
            return None
        return row[0]


def check_cache(path: str | os.PathLike[str]) -> None:
    """Check that a file is a cache or could be created as one; creates nothing.

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
            # Readers do not wait for a writer. Some file systems lack it, and the file may be
            # locked.
            with suppress(sqlite3.OperationalError):
                db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = NORMAL")
        except sqlite3.Error:
            db.close()
            raise
        return db


@contextmanager
def _errors_of_configuration(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn errors of a file into a `ConfigError` that shows its path as configured."""
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
    """Check that SQLite may open a file as a cache, or create it.

    SQLite opens a foreign database without a word; it could repair, and so change it.

    Raises:
        ValueError: the file is something else, or cannot be written.
    """
    # SQLite creates more files beside the database.
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
