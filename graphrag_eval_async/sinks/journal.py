"""The journal: keeps the results and rejects of a stream on disk, so that it can be resumed."""

from __future__ import annotations

import asyncio
import logging
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import orjson
from aiofiles.threadpool.binary import AsyncBufferedReader, AsyncFileIO

from graphrag_eval_async.errors import (
    AggregationError,
    JournalError,
    UsageError,
    check_boolean,
    check_integer,
)
from graphrag_eval_async.posix import require_posix
from graphrag_eval_async.removed import without_removed
from graphrag_eval_async.sinks.checksums import seal, unseal
from graphrag_eval_async.sinks.conditions import (
    FORMAT,
    Conditions,
    mismatch,
    read_conditions,
    write_conditions,
)
from graphrag_eval_async.sinks.done import DoneLine
from graphrag_eval_async.sinks.files import LockedFile, drafted, flush
from graphrag_eval_async.sinks.rejects import MAX_REJECT_BYTES, Rejected, reject_line
from graphrag_eval_async.threads import outlast, run_to_end, work_in_slices, write_in_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence

    from graphrag_eval_async.records import Copy
    from graphrag_eval_async.records.evaluation import Evaluation
    from graphrag_eval_async.sinks.done import Done

LOGGER = logging.getLogger("graphrag_eval_async.journal")

BESIDE = (".run", ".rejects", ".damaged", ".late", ".watch")
"""Suffixes of the files beside a journal."""

READ_BYTES = 1 << 20
"""Bytes of lines that are read at once when a journal is resumed."""

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
        """The journal and all files that may be beside it, none of which is read as a source."""
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


@dataclass(slots=True)
class _RestoreProgress:
    """How far a file of an earlier run is restored."""

    offset: int = 0  # Of the next line.
    staying: int = 0  # Number of lines that stay in the file.
    set_aside: set[int] = field(default_factory=set)  # Offsets of lines to set aside.


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

        Args:
            options: what the user has chosen.
            done: where the lines of earlier results and rejects are added.
            count_result: called with each result of an earlier run; returns whether a metric
                failed. Raises a ValueError, KeyError, TypeError or AggregationError if it is none.
            count_reject: called with the reason of each reject, likewise.
            fingerprints: returns what must be the same in all runs of the journal, by name.
            retry_errors: whether to set aside failed results and rejects, so that they are
                evaluated again.
        """
        self.path = os.fspath(options.path)
        self.is_restored = False
        self.restored = 0
        self.rejected = 0
        self.damaged = 0
        self.failed = 0
        self.conditions = Conditions()
        self._conditions_path = Path(f"{self.path}.run")
        self._options = options
        self._done = done
        self._count_result = count_result
        self._count_reject = count_reject
        self._fingerprints = fingerprints
        self._retry_errors = retry_errors
        # The files, and what writes to them in threads, once they are open.
        self._results: LockedFile
        self._rejects: LockedFile
        self._results_writer: AsyncFileIO
        self._rejects_writer: AsyncFileIO
        self._locked_files: list[LockedFile] = []  # To be closed at the end.
        # One writes while the other flushes. The event loop's own may all be waiting for results.
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="graphrag-eval-async journal")
        self._in_thread = partial(write_in_thread, threads=self._threads)
        self._flushing: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Lock or create the files, count what they hold, and mend them.

        Truncates a last line without newline. Moves lines that are damaged, or there already, to
        the ``.damaged`` file and logs a warning.

        Raises:
            JournalLocked: another stream writes to one of the files.
            JournalMismatch: the journal was started under other conditions.
            JournalError: a file cannot be read or written.
        """
        await self._in_thread(self._open_files)
        self.restored = await self._restore(self._results, self._restore_result)
        self.rejected = await self._restore(self._rejects, self._restore_reject)
        self.is_restored = True
        self._results_writer = AsyncFileIO(self._results, loop=None, executor=self._threads)
        self._rejects_writer = AsyncFileIO(self._rejects, loop=None, executor=self._threads)
        self._flushing = asyncio.create_task(self._flush_regularly())

    def _open_files(self) -> None:
        """Lock or create the files, and check or write the conditions of the journal."""
        is_new = not os.path.exists(self.path)
        self._results = LockedFile(self.path)
        self._locked_files.append(self._results)

        if not is_new and self._conditions_path.exists():
            self.conditions = read_conditions(self._conditions_path)
        fingerprints = {"format": FORMAT, **self._fingerprints()}
        has_changed = self.conditions.fingerprints != fingerprints
        is_forced = self._options.force and self.conditions.format == FORMAT
        if has_changed:
            if self._results.size > 0 and not is_forced:
                raise mismatch(self.path, self.conditions, fingerprints)
            self.conditions.fingerprints = fingerprints
            write_conditions(self._conditions_path, self.conditions)

        if self._options.rejects:
            self._rejects = LockedFile(self._options.rejects)
        else:
            # Others can predict the usual name and make it a link to some other file.
            self._rejects = LockedFile(f"{self.path}.rejects", flags=os.O_NOFOLLOW)
        self._locked_files.append(self._rejects)
        if has_changed and self._results.size == 0:
            # The rejects belong to a journal that no longer exists.
            self._rejects.cut_to(0)
        _flush_folder(os.path.dirname(self.path) or ".")

    async def note(self, origins: Mapping[str, int], copies: Mapping[str, Copy]) -> None:
        """Store which files are copies, and the offsets at which reading of new files starts.

        Args:
            origins: by key of a followed file, bytes before the first line to read.
            copies: by inode, the files that repeat a followed file.
        """
        self.conditions.origins |= origins
        self.conditions.copies = dict(copies)
        self.conditions.followed = True
        await self._in_thread(partial(write_conditions, self._conditions_path, self.conditions))

    # Earlier runs

    async def _restore(self, file: LockedFile, restore_line: Callable[[bytes], bool]) -> int:
        """Count what a file holds, and set aside the lines that are damaged or evaluated again.

        Args:
            file: the file of results or of rejects.
            restore_line: counts one of its lines, and returns whether it stays in the file.

        Returns:
            the number of lines that stay in the file.
        """
        progress = _RestoreProgress()
        try:
            # Opens at once.
            with open(file.path, "rb", READ_BYTES) as earlier_lines:  # noqa: ASYNC230
                reader = AsyncBufferedReader(earlier_lines, loop=None, executor=self._threads)
                # A cancellation waits for the thread, so that the file is not closed beneath it.
                while lines := await run_to_end(reader.readlines(READ_BYTES)):
                    await work_in_slices(self._restore_lines(lines, file, restore_line, progress))
            if progress.set_aside:
                await self._in_thread(partial(self._set_aside, file, progress.set_aside))
        except OSError as error:
            path = error.filename or file.path
            raise JournalError(f"{path}: cannot be repaired: {error.strerror or error}") from error
        return progress.staying

    def _restore_lines(
        self,
        lines: Iterable[bytes],
        file: LockedFile,
        restore_line: Callable[[bytes], bool],
        progress: _RestoreProgress,
    ) -> Iterator[None]:
        """Count the next lines of a file in `progress`; yield after each of them."""
        for line in lines:
            if not line.endswith(b"\n"):
                # A crash has cut off the last line.
                file.cut_to(progress.offset)
            elif self._stays(line, restore_line, path=file.path, offset=progress.offset):
                progress.staying += 1
            else:
                progress.set_aside.add(progress.offset)
            progress.offset += len(line)
            yield

    def _stays(
        self, line: bytes, restore_line: Callable[[bytes], bool], *, path: str, offset: int
    ) -> bool:
        """Return whether a line stays in its file; of a damaged one, log a warning."""
        try:
            return restore_line(line)
        except (ValueError, TypeError, KeyError, AggregationError) as error:
            LOGGER.warning(
                "%s: byte %d: not a result or reject; the line is set aside: %r",
                path,
                offset,
                error,
            )
            self.damaged += 1
            return False

    def _restore_result(self, line: bytes) -> bool:
        """Count a result of an earlier run; return whether it stays."""
        result = unseal(line)
        done_line = msgspec.convert(result["source"], DoneLine)
        if self._retry_errors and result["status"] == "error":
            return False
        self._check_new(done_line)
        has_failed = self._count_result(done_line, result)
        if has_failed:
            self.failed += 1
            if self._options.retry_failed:
                return False
        self._done.restore(done_line)
        return True

    def _restore_reject(self, line: bytes) -> bool:
        """Count a reject of an earlier run; return whether it stays."""
        reject = unseal(line)
        done_line = msgspec.convert(reject["source"], DoneLine)
        reason = reject["reason"]
        # A line that was incomplete may be complete by now.
        if self._retry_errors or reason == "incomplete":
            return False
        self._check_new(done_line)
        self._count_reject(done_line, reason)
        self._done.restore(done_line)
        return True

    def _check_new(self, line: DoneLine) -> None:
        """Raise a ValueError if a line has been restored already."""
        if line in self._done:
            raise ValueError("the line is there already, here or among the results")

    def _set_aside(self, file: LockedFile, offsets: Container[int]) -> None:
        """Move the lines at these offsets of a file to the ``.damaged`` file.

        A crash may leave some of them in both files.
        """
        mode = stat.S_IMODE(os.stat(file.path).st_mode)

        def open_damaged(path: str, flags: int) -> int:
            return os.open(path, flags | os.O_NOFOLLOW, mode)

        with (
            open(f"{self.path}.damaged", "ab", opener=open_damaged) as damaged,
            drafted(file.path) as draft,
            open(draft, "wb") as staying,
            open(file.path, "rb") as lines,
        ):
            offset = 0
            for line in lines:
                if offset in offsets:
                    damaged.write(line)
                else:
                    staying.write(line)
                offset += len(line)
            # In this order, a crash loses no line.
            flush(damaged)
            flush(staying)
        # The draft has replaced the file.
        file.reopen()

    # This run

    async def commit(self, items: Sequence[Evaluation | Rejected]) -> list[Evaluation | None]:
        """Append complete results, then rejects.

        Returns:
            the results, with None in place of the rejects.

        Raises:
            JournalError: a file cannot be written or flushed.
        """
        if self._flushing is not None and self._flushing.done():
            # Raises why nothing is flushed any more.
            self._flushing.result()
        rejects = []
        evaluations: list[Evaluation | None] = []
        results = []
        for item in items:
            if isinstance(item, Rejected):
                rejects.append(item)
                evaluations.append(None)
            else:
                results.append(item.as_dict())
                evaluations.append(item)
        # Only the end of the event loop cancels this; closing then waits for the thread. The lines
        # are encoded in the thread, too, while `writelines` takes them.
        if results:
            await self._results_writer.writelines(_lines_of_results(results))
        if rejects:
            await self._rejects_writer.writelines(self._lines_of_rejects(rejects))
        return evaluations

    def _lines_of_rejects(self, rejects: Iterable[Rejected]) -> Iterator[bytes]:
        """Yield the line of each reject, once the one before is written."""
        for reject, source in rejects:
            room = self._options.max_reject_bytes - self._rejects.size
            yield seal(reject_line(reject, {"source": source}, room))

    def _flush(self) -> None:
        for file in self._locked_files:
            file.flush_to_disk()

    async def _flush_regularly(self) -> None:
        """Flush to disk, until the first failure, after which the system may drop data silently."""
        while True:
            await asyncio.sleep(FLUSH_SECONDS)
            await self._in_thread(self._flush)

    async def aclose(self) -> None:
        """Flush everything, and release the locks."""
        try:
            if self._flushing is not None:
                self._flushing.cancel()
                await outlast(self._flushing, inf)
                if not self._flushing.cancelled():
                    # Raises why nothing was flushed any more.
                    self._flushing.result()
            if self.is_restored:
                await self._in_thread(self._flush)
        finally:
            for file in self._locked_files:
                file.close()
            self._threads.shutdown(wait=False)


def _lines_of_results(results: Iterable[Mapping[str, Any]]) -> Iterator[bytes]:
    """Yield the lines of all results together, so that one write appends them."""
    yield b"".join(
        seal(orjson.dumps(result, option=orjson.OPT_APPEND_NEWLINE)) for result in results
    )


def _flush_folder(path: str) -> None:
    """Flush the names of the files in a folder to disk, if the system can."""
    # Not every folder can be opened and flushed.
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
