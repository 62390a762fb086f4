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

BUSY_SEC = 5.0  # How long to wait while another process locks the file.


def digest(*parts: Any) -> bytes:
    """Return a hash of JSON-like values, which ignores the order of object keys."""
    text = json.dumps(parts, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


class CallCache:
    """A table of calls by digest, in a file that several caches and processes may share.

    Once the file is open, errors only count as `failures`: a lookup finds nothing, a write is
    skipped.
    """

    def __init__(self, db: sqlite3.Connection, thread: ThreadPoolExecutor) -> None:
        """See `open`; all work on `db` runs in `thread`, in submission order."""
        self.failures = 0
        self._db, self._thread = db, thread

    @classmethod
    async def open(cls, path: str | os.PathLike[str]) -> CallCache:
        """Open the cache in a file; create the file if it does not exist."""
        thread = ThreadPoolExecutor(1, thread_name_prefix="judge-cache")
        try:
            db = await asyncio.get_running_loop().run_in_executor(thread, _connect, path)
        except ConfigError:
            thread.shutdown(wait=False)
            raise
        return cls(db, thread)

    async def get(self, key: bytes) -> bytes | None:
        """Return the value of a key, or None."""
        return await self._do("SELECT value FROM calls WHERE key = ?", key)

    async def put(self, key: bytes, value: bytes) -> None:
        """Store a value; once this returns, it outlives the process. Cancelling does not undo
        it.
        """
        await self._do("INSERT OR REPLACE INTO calls VALUES (?, ?)", key, value)

    async def aclose(self) -> None:
        """Finish queued calls and close the file; call only once."""
        closed = asyncio.get_running_loop().run_in_executor(self._thread, self._db.close)
        self._thread.shutdown(wait=False)
        await asyncio.wait([closed])
        self._thread.shutdown()

    async def _do(self, statement: str, *values: bytes) -> bytes | None:
        doing = asyncio.get_running_loop().run_in_executor(
            self._thread, self._execute, statement, values
        )
        return await asyncio.shield(doing)

    def _execute(self, statement: str, values: tuple[bytes, ...]) -> bytes | None:
        import sqlite3

        try:
            row = self._db.execute(statement, values).fetchone()
        except sqlite3.Error as error:
            self.failures += 1
            # Wait for a locked file once, not for every key.
            if isinstance(error, sqlite3.OperationalError):
                self._db.execute("PRAGMA busy_timeout = 0")
            return None
        return row[0] if row and isinstance(row[0], bytes) else None


def check_cache(path: str | os.PathLike[str]) -> None:
    """Check that a file is a cache or could be created as one; creates nothing."""
    with _located(path):
        _check_file(Path(path))


def _connect(path: str | os.PathLike[str]) -> sqlite3.Connection:
    import sqlite3

    with _located(path):
        _check_file(Path(path))
        db = sqlite3.connect(Path(path).absolute(), timeout=BUSY_SEC, isolation_level=None)
        try:
            with db:
                db.execute("BEGIN IMMEDIATE")
                for statement in SCHEMA:
                    db.execute(statement)
            # Some file systems lack WAL; the file may be locked.
            with suppress(sqlite3.OperationalError):
                db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = NORMAL")
        except sqlite3.Error:
            db.close()
            raise
        return db


@contextmanager
def _located(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn file errors into a `ConfigError` that shows the path as configured."""
    import sqlite3

    shown = repr(path if isinstance(path, str) else os.fspath(path))
    try:
        yield
    except OSError as error:
        raise ConfigError(
            [f"llm.cache: {shown}: {error.strerror or type(error).__name__}"]
        ) from None
    except (sqlite3.Error, ValueError) as error:
        raise ConfigError([f"llm.cache: {shown}: {error}"]) from None


def _check_file(path: Path) -> None:
    """Check that SQLite may open a file: opening a foreign database could repair, and so change,
    it.

    Header format: https://www.sqlite.org/fileformat.html#the_database_header
    """
    if not path.parent.is_dir():
        raise ValueError("its directory does not exist")
    if not os.access(path.parent, os.W_OK | os.X_OK):  # SQLite creates more files beside it.
        raise ValueError("its directory is not writable")
    if not path.exists():
        return
    foreign = ValueError("not a cache of judge calls; the file was not changed")
    if not path.is_file():
        raise foreign
    if not os.access(path, os.W_OK):
        raise ValueError("the file is not writable")
    with path.open("rb") as file:
        header = file.read(100)
    found, version = (int.from_bytes(header[start : start + 4]) for start in (68, 60))
    if header and not (header.startswith(b"SQLite format 3\0") and found == APPLICATION_ID):
        raise foreign
    if header and version != SCHEMA_VERSION:
        raise ValueError(
            f"written by another version of the library (format {version}, this one reads "
            f"{SCHEMA_VERSION}); delete the file: `graphrag-eval-async evaluate` fills it again"
        )
