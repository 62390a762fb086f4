"""The journal: keeps the results and rejects of a stream on disk, so that it can be resumed."""

from __future__ import annotations

import asyncio
import logging
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from math import inf
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any
from zlib import crc32

import msgspec
import orjson

from graphrag_eval_async.errors import (
    AggregationError,
    JournalError,
    JournalMismatch,
    UsageError,
    check_boolean,
    check_integer,
)
from graphrag_eval_async.posix import require_posix
from graphrag_eval_async.records import Copy  # noqa: TC001  (msgspec reads annotations)
from graphrag_eval_async.removed import without_removed
from graphrag_eval_async.sinks.done import DoneLine, Size
from graphrag_eval_async.sinks.files import LockedFile, drafted, flush
from graphrag_eval_async.sinks.rejects import MAX_REJECT_BYTES, Rejected, reject_line
from graphrag_eval_async.threads import SLICE_SECONDS, outlast, write_in_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping, Sequence

    from graphrag_eval_async.records.evaluation import Evaluation
    from graphrag_eval_async.sinks.done import Done

LOGGER = logging.getLogger("graphrag_eval_async.journal")

FORMAT = "2"
"""Format version of the journal and of the files beside it."""

BESIDE = (".run", ".rejects", ".damaged", ".late", ".watch")
"""Suffixes of the files beside a journal."""

PIECE_BYTES = 1 << 20

CHECKSUM = b'%b,"crc32":"%08x"}\n'
CHECKSUM_BYTES = len(CHECKSUM % (b"", 0))

FLUSH_SECONDS = 1.0
"""Seconds between flushes to disk: what a power failure can lose. A killed process loses
nothing.
"""


@dataclass(frozen=True, slots=True)
class Journal:
    """A JSONL file of results, to which a stream appends and from which it resumes.

    Beside ``results.jsonl``, it creates ``results.jsonl.run`` (fingerprints of the reference set,
    the configuration and the version), ``results.jsonl.rejects`` and, if needed,
    ``results.jsonl.damaged`` (unreadable lines of the journal, which are evaluated again,
    duplicates and replaced lines). A killed process loses nothing that was written; results are
    flushed to disk once a second and at the end, so that a power failure loses about the last
    second.

    The `source` of each result identifies its line: by position and content in followed files, by
    trace id in spans of OpenTelemetry, and otherwise by content and `occurrence`, which counts
    equal lines.

    Attributes:
        path: path of the file; it is created if it does not exist.
        force: whether to resume a journal that was started under other conditions.
        rejects: path of the file of rejects, instead of the one above.
        max_reject_bytes: maximum size of the file of rejects; beyond it, rejects are written
            without content.
        retry_failed: whether to set aside the results in which a judge, a metric in code or a query
            failed, so that their lines are evaluated again. What they cost still counts in this
            run.
    """

    path: str | os.PathLike[str]
    force: bool = False
    rejects: str | os.PathLike[str] | None = None
    max_reject_bytes: int = MAX_REJECT_BYTES
    retry_failed: bool = False

    @property
    def paths(self) -> list[str]:
        """The journal and all files that may be beside it; none of them is ever read as a
        source.
        """
        path = os.fspath(self.path)
        beside = [path + suffix for suffix in BESIDE]
        return [path, *beside, os.fspath(self.rejects or path)]

    def __post_init__(self) -> None:
        """Raise a `UsageError` if a value is invalid, or if this system has no file locks."""
        require_posix("a journal")
        if not isinstance(self.path, str | os.PathLike):
            raise UsageError(f"journal: expected a path or a Journal, got {self.path!r}")
        check_boolean("journal.force", self.force)
        check_boolean("journal.retry_failed", self.retry_failed)
        check_integer("journal.max_reject_bytes", self.max_reject_bytes, 0)
        if not isinstance(self.rejects, str | os.PathLike | None):
            raise UsageError(f"journal.rejects: expected a path, got {self.rejects!r}")


setattr(Journal, "__init__", without_removed("fsync", "fsync_interval")(Journal.__init__))  # noqa: B010


class Conditions(msgspec.Struct, kw_only=True):
    """The contents of the ``.run`` file: the conditions under which a journal was started."""

    fingerprints: dict[str, str] = {}  # By name; empty if there is no file.
    origins: dict[str, Size] = {}  # Bytes before the first line to read, by key of a followed file.
    # Files that repeat a followed file, by inode; older journals only have the key of that file.
    copies: dict[str, Copy | str] = {}
    followed: bool = False  # Whether files were followed.


class OpenJournal:
    """The journal of one stream: restores earlier results, then appends those of this run.

    Attributes:
        path: path of the results.
        is_restored: whether the results of earlier runs are counted.
        restored: number of results found in the journal.
        rejected: number of rejects found in the file of rejects.
        damaged: number of unreadable lines, which were set aside.
        failed: number of results found with a failed metric, also of those set aside by
            `retry_failed`.
        conditions: contents of the ``.run`` file.
    """

    def __init__(
        self,
        options: Journal,
        done: Done,
        count_result: Callable[[DoneLine, dict[str, Any]], bool],
        count_reject: Callable[[DoneLine, Any], object],
        fingerprints: Callable[[], Mapping[str, str]],
        *,
        retry_errors: bool = False,
    ) -> None:
        """Prepare to `open` the files.

        `count_result` is called with each result of an earlier run, and returns whether a metric
        failed; `count_reject` is called with the reason of each reject. They raise a ValueError,
        KeyError, TypeError or AggregationError if it is none. With `retry_errors`, failed results
        and rejects are set aside.
        """
        self.path = os.fspath(options.path)
        self.is_restored = False
        self.restored = self.rejected = self.damaged = self.failed = 0
        self.conditions = Conditions()
        self._options, self._done, self._retry_errors = options, done, retry_errors
        self._count_result, self._count_reject = count_result, count_reject
        self._fingerprints = fingerprints
        self._files: list[LockedFile] = []  # Of results and of rejects.
        # One writes while the other flushes. The event loop's own may all be waiting for results.
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="graphrag-eval-async journal")
        self._in_thread = partial(write_in_thread, threads=self._threads)
        self._flushing: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Lock or create the files, count what they hold, and mend them.

        Truncates a last line without newline. Moves lines that are damaged, or there already, to
        the ``.damaged`` file and logs a warning.
        """
        await self._in_thread(self._open)
        self.restored, self.rejected = await self._restore(0), await self._restore(1)
        self.is_restored = True
        self._flushing = asyncio.create_task(self._flush())

    def _open(self) -> None:
        is_new, rejects = not os.path.exists(self.path), self._options.rejects
        self._files.append(LockedFile(self.path))
        run = Path(f"{self.path}.run")
        if not is_new and run.exists():
            try:
                self.conditions = msgspec.json.decode(run.read_bytes(), type=Conditions)
            except (OSError, ValueError, RecursionError) as error:
                raise JournalError(f"{run}: cannot be read: {error}") from error
        before, now = self.conditions.fingerprints, {"format": FORMAT, **self._fingerprints()}
        is_forced = self._options.force and before.get("format", FORMAT) == FORMAT
        if before != now:
            if self._files[0].size and not is_forced:
                raise _mismatch(self.path, before, now)
            self.conditions.fingerprints = now
            self._write_conditions()
        # Others can predict the usual name and make it a link to some other file.
        flags = 0 if rejects else os.O_NOFOLLOW
        self._files.append(LockedFile(rejects or f"{self.path}.rejects", flags=flags))
        # They belong to a journal that no longer exists.
        if before != now and not self._files[0].size:
            self._files[1].truncate(0)
        with suppress(OSError):  # Not every directory can be opened and flushed.
            folder = os.open(os.path.dirname(self.path) or ".", os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)

    def _write_conditions(self) -> None:
        path = f"{self.path}.run"
        try:
            with drafted(path, follow_links=False) as draft, open(draft, "wb") as file:
                file.write(
                    msgspec.json.format(msgspec.json.encode(self.conditions), indent=2) + b"\n"
                )
                flush(file)
        except OSError as error:
            raise JournalError(f"{path}: cannot be written: {error.strerror}") from error

    async def note(self, origins: Mapping[str, int], copies: Mapping[str, Copy]) -> None:
        """Store which files are copies, and the offsets at which reading of new files starts."""
        self.conditions.origins |= origins
        self.conditions.copies = dict(copies)
        self.conditions.followed = True
        await self._in_thread(self._write_conditions)

    # Earlier runs

    async def _restore(self, index: int) -> int:
        """Count what a file holds, set the other lines aside, and return the number of lines
        that stay.
        """
        file = self._files[index]
        refused: set[int] = set()
        count = end = 0
        due = monotonic() + SLICE_SECONDS
        try:
            with open(file.path, "rb") as source:  # noqa: ASYNC230  (opens at once)
                while lines := await self._in_thread(partial(source.readlines, PIECE_BYTES)):
                    for line in lines:
                        if not line.endswith(b"\n"):
                            file.truncate(end)
                        elif self._is_counted(line, file.path, end, is_reject=index == 1):
                            count += 1
                        else:
                            refused.add(end)
                        end += len(line)
                        if monotonic() >= due:
                            await asyncio.sleep(0)
                            due = monotonic() + SLICE_SECONDS
            if refused:
                await self._in_thread(partial(self._set_aside, index, refused))
        except OSError as error:
            path = error.filename or file.path
            raise JournalError(f"{path}: cannot be repaired: {error.strerror or error}") from error
        return count

    def _is_counted(self, text: bytes, path: str, start: int, *, is_reject: bool) -> bool:
        """Count a result or reject of an earlier run, unless it is damaged or its line is
        evaluated again.
        """
        try:
            record = unseal(text)
            line = msgspec.convert(record["source"], DoneLine)
            reason = record["reason"] if is_reject else None
            if reason == "incomplete" or (
                self._retry_errors and (reason or record["status"] == "error")
            ):
                return False
            if line in self._done:
                raise ValueError("the line is there already, here or among the results")
            if is_reject:
                self._count_reject(line, reason)
            elif self._count_result(line, record):
                self.failed += 1
                if self._options.retry_failed:
                    return False
            self._done.restore(line)
            return True
        except (ValueError, TypeError, KeyError, AggregationError) as error:
            message = "%s: byte %d: not a result or reject; the line is set aside: %r"
            LOGGER.warning(message, path, start, error)
            self.damaged += 1
            return False

    def _set_aside(self, index: int, starts: Container[int]) -> None:
        """Move the lines that start at these offsets to the ``.damaged`` file.

        A crash may leave some of them in both files.
        """
        file = self._files[index]
        mode, end = stat.S_IMODE(os.stat(file.path).st_mode), 0

        def opener(path: str, flags: int) -> int:
            return os.open(path, flags | os.O_NOFOLLOW, mode)

        with (
            open(f"{self.path}.damaged", "ab", opener=opener) as damaged,
            drafted(file.path) as draft,
            open(draft, "wb") as rest,
            open(file.path, "rb") as lines,
        ):
            for line in lines:
                (damaged if end in starts else rest).write(line)
                end += len(line)
            flush(damaged)
            flush(rest)
        file.close()
        self._files[index] = LockedFile(file.path)

    # This run

    async def commit(self, items: Sequence[Evaluation | Rejected]) -> list[Evaluation | None]:
        """Append complete results and rejects; return the results, with None in place of the
        rejects.
        """
        if self._flushing is not None and self._flushing.done():
            self._flushing.result()
        kept = [None if isinstance(item, Rejected) else item for item in items]
        results = [evaluation.as_dict() for evaluation in kept if evaluation is not None]
        rejects = [item for item in items if isinstance(item, Rejected)]
        await self._in_thread(partial(self._append, results, rejects))
        return kept

    def _append(self, results: Sequence[Mapping[str, Any]], rejected: Sequence[Rejected]) -> None:
        to_results, to_rejects = self._files
        if results:
            lines = (
                seal(orjson.dumps(result, option=orjson.OPT_APPEND_NEWLINE)) for result in results
            )
            to_results.write(b"".join(lines))
        for reject, source in rejected:
            room = self._options.max_reject_bytes - to_rejects.size
            to_rejects.write(seal(reject_line(reject, {"source": source}, room)))

    def _sync(self) -> None:
        for file in self._files:
            file.sync()

    async def _flush(self) -> None:
        """Flush to disk, until the first failure, after which the system may drop data silently."""
        while True:
            await asyncio.sleep(FLUSH_SECONDS)
            await self._in_thread(self._sync)

    async def aclose(self) -> None:
        """Flush everything, and release the locks."""
        try:
            if self._flushing is not None:
                self._flushing.cancel()
                await outlast(self._flushing, inf)
                if not self._flushing.cancelled():
                    self._flushing.result()
            if self.is_restored:
                await self._in_thread(self._sync)
        finally:
            for file in self._files:
                file.close()
            self._threads.shutdown(wait=False)


def seal(line: bytes) -> bytes:
    """Return the line of a nonempty JSON object with its CRC-32 added as the last member."""
    body = memoryview(line)[:-2]
    return CHECKSUM % (body, crc32(body))


def unseal(line: bytes) -> Any:
    """Return the object in a line made by `seal`; raise a ValueError if it is damaged."""
    if not line.endswith(CHECKSUM % (b"", crc32(memoryview(line)[:-CHECKSUM_BYTES]))):
        raise ValueError("its checksum is missing or wrong")
    record = orjson.loads(line)
    del record["crc32"]
    return record


def _mismatch(journal: str, before: Mapping[str, str], now: Mapping[str, str]) -> JournalMismatch:
    """Return the error for a journal that was started under other conditions."""
    if not before:
        text = (
            f"was not started with --resume (its file {journal}.run is missing), so it has no "
            "checksums"
        )
        return JournalMismatch(
            f"{journal}: {text}; use another output file, with --resume from the start"
        )
    if before.get("format", FORMAT) != FORMAT:
        text = (
            f"written by another version of the library (format {before['format']}, this one "
            f"reads {FORMAT})"
        )
        return JournalMismatch(f"{journal}: {text}; evaluate again into a new file", ["format"])
    names = [name for name in {**before, **now} if before.get(name) != now.get(name)]
    shown = [f"{name} ({before.get(name)!s:.12}, now {now.get(name)!s:.12})" for name in names]
    if "agent" in names:  # Its fingerprint says nothing.
        shown[names.index("agent")] = "agent (its URL, method, params, body or paths changed)"
    text = (
        f"was started with another {', another '.join(shown)}; results would not be comparable. "
        "Use "
    )
    return JournalMismatch(
        f"{journal}: {text}another journal, or resume with force (--resume=force)", names
    )
