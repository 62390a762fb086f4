"""Keeps the results and rejects of a stream in a journal on disk, so that it can be resumed."""

from __future__ import annotations

import asyncio
import logging
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
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
from graphrag_eval_async.helpers.posix import require_posix
from graphrag_eval_async.helpers.threads import outlast, run_to_end, work_in_slices, write_in_thread
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

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from graphrag_eval_async.records import Copy
    from graphrag_eval_async.records.evaluation import Evaluation
    from graphrag_eval_async.sinks.done import Done

LOGGER = logging.getLogger("graphrag_eval_async.journal")

DAMAGED = ".damaged"
"""Suffix of the file for lines that cannot be read, and for duplicates."""

REPLACED = ".replaced"
"""Suffix of the file for results and rejects whose responses are evaluated again."""

BESIDE = (".run", ".rejects", DAMAGED, REPLACED, ".late", ".watch")
"""Suffixes of the files beside a journal."""

READ_BYTES = 1 << 20
"""Bytes of lines that are read at once when a journal is resumed."""

FLUSH_SECONDS = 1.0
"""Seconds between flushes to disk. A power failure can lose what was written in this time."""


@dataclass(frozen=True, slots=True)
class Journal:
    """A JSONL file of results, to which a stream appends and from which it resumes.

    Beside ``results.jsonl``, it creates up to four files:

    - ``results.jsonl.run`` has fingerprints of reference set, configuration and version;
    - ``results.jsonl.rejects`` has the rejects;
    - ``results.jsonl.damaged``, if needed, has lines that cannot be read, whose responses are
      evaluated again, and duplicates;
    - ``results.jsonl.replaced``, if needed, has results and rejects whose responses are evaluated
      again because `retry_failed` or `retry_errors` asks for it.

    A killed process loses nothing that was written. Results are flushed to disk once a second and
    at the end, so a power failure loses about the last second.

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
        """The paths of the journal and of all files beside it; a stream must not read these."""
        path = os.fspath(self.path)
        paths_beside = [path + suffix for suffix in BESIDE]
        return [path, *paths_beside, os.fspath(self.rejects or path)]

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            UsageError: a value is invalid, or this system has no file locks.
        """
        require_posix("a journal")
        if not isinstance(self.path, str | os.PathLike):
            raise UsageError(f"journal: expected a path or a Journal, got {self.path!r}")
        check_boolean("journal.force", self.force)
        check_boolean("journal.retry_failed", self.retry_failed)
        check_integer("journal.max_reject_bytes", self.max_reject_bytes, least=0)
        if not isinstance(self.rejects, str | os.PathLike | None):
            raise UsageError(f"journal.rejects: expected a path, got {self.rejects!r}")


setattr(Journal, "__init__", without_removed("fsync", "fsync_interval")(Journal.__init__))  # noqa: B010


@dataclass(slots=True)
class _RestoreProgress:
    """How far the lines of a journal were restored.

    Attributes:
        offset: offset of the next line.
        staying: number of lines that stay in the file.
        set_aside: for each line to move to another file, the suffix of that file, by the offset
            of the line.
    """

    offset: int = 0
    staying: int = 0
    set_aside: dict[int, str] = field(default_factory=dict)


class OpenJournal:
    """The open journal of one stream: restores earlier results, then appends those of this run.

    Attributes:
        path: path of the results.
        is_restored: whether all results of earlier runs were restored.
        restored: number of results of earlier runs.
        rejected: number of rejects of earlier runs.
        damaged: number of lines that could not be read, and were set aside.
        failed: number of results of earlier runs in which a metric failed. It includes those that
            `retry_failed` has set aside.
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
            options: the options that the user has chosen.
            done: the lines that are done, to which the lines of earlier runs are added.
            count_result: called with each result of an earlier run; returns whether a metric
                failed. Raises a ValueError, KeyError, TypeError or AggregationError if it is not a
                result.
            count_reject: called with the reason of each reject of an earlier run. Raises the same
                errors.
            fingerprints: returns digests of all that must be the same in each run of the journal,
                by name.
            retry_errors: whether to evaluate the lines of failed results and of rejects again.
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
        # `open` sets the files and their asynchronous writers.
        self._results: LockedFile
        self._rejects: LockedFile
        self._results_writer: AsyncFileIO
        self._rejects_writer: AsyncFileIO
        # The files to close at the end.
        self._locked_files: list[LockedFile] = []
        # Two threads, so that one can write while the other flushes. The threads of the event loop
        # are not used, since all of them may be waiting for results.
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="graphrag-eval-async journal")
        self._in_thread = partial(write_in_thread, threads=self._threads)
        self._flushing: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Open and lock the files, and restore the results and rejects of earlier runs.

        A last line without a newline is removed. Lines that are damaged or duplicate are moved to
        the ``.damaged`` file, with a warning in the log.

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
        """Open and lock the files, and check the conditions under which the journal was started.

        A new journal gets the conditions of this run.

        Raises:
            JournalLocked: another stream writes to one of the files.
            JournalMismatch: the journal was started under other conditions.
            JournalError: a file cannot be read or written.
        """
        is_new = not os.path.exists(self.path)
        self._results = LockedFile(self.path)
        self._locked_files.append(self._results)

        # Check the conditions before anything else is written.
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
            # Other users can predict this name, and make it a link to another file of this user.
            self._rejects = LockedFile(f"{self.path}.rejects", flags=os.O_NOFOLLOW)
        self._locked_files.append(self._rejects)
        if has_changed and self._results.size == 0:
            # The rejects belong to a journal that no longer exists.
            self._rejects.cut_to(0)
        _flush_folder(os.path.dirname(self.path) or ".")

    async def note(self, origins: Mapping[str, int], copies: Mapping[str, Copy]) -> None:
        """Store in the ``.run`` file where reading of followed files began, and which are copies.

        Args:
            origins: for each followed file, by its key, the offset of the first line to read.
            copies: the files that repeat a followed file, by inode.
        """
        self.conditions.origins |= origins
        self.conditions.copies = dict(copies)
        self.conditions.followed = True
        await self._in_thread(partial(write_conditions, self._conditions_path, self.conditions))

    # Earlier runs

    async def _restore(self, file: LockedFile, restore_line: Callable[[bytes], bool]) -> int:
        """Restore the lines of a file, and move lines that do not stay to another file.

        Args:
            file: the file of results or of rejects.
            restore_line: restores one of its lines, and returns whether it stays in the file.

        Returns:
            the number of lines that stay in the file.
        """
        progress = _RestoreProgress()
        try:
            # Opening a regular file does not block.
            with open(file.path, "rb", READ_BYTES) as earlier_lines:  # noqa: ASYNC230
                reader = AsyncBufferedReader(earlier_lines, loop=None, executor=self._threads)
                # A cancellation takes effect after the read, since it would close the file while
                # the thread reads it.
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
        """Restore the next lines of a file, and yield after each so that other tasks can run.

        Args:
            lines: the lines.
            file: the file that they are in.
            restore_line: restores a line, and returns whether it stays in the file.
            progress: how far the file was restored; this updates it.
        """
        for line in lines:
            if line.endswith(b"\n"):
                suffix = self._suffix_of_new_file(
                    line, restore_line, path=file.path, offset=progress.offset
                )
                if suffix is None:
                    progress.staying += 1
                else:
                    progress.set_aside[progress.offset] = suffix
            else:
                # A crash has cut off the last line.
                file.cut_to(progress.offset)
            progress.offset += len(line)
            yield

    def _suffix_of_new_file(
        self, line: bytes, restore_line: Callable[[bytes], bool], *, path: str, offset: int
    ) -> str | None:
        """Restore a line, and return the suffix of the file that it moves to; None if it stays.

        This logs a warning about a damaged line.

        Args:
            line: the line.
            restore_line: restores the line, and returns whether it stays.
            path: path of the file, for the warning.
            offset: offset of the line, for the warning.
        """
        try:
            stays = restore_line(line)
        except (ValueError, TypeError, KeyError, AggregationError) as error:
            LOGGER.warning(
                "%s: byte %d: not a result or reject; the line is set aside: %r",
                path,
                offset,
                error,
            )
            self.damaged += 1
            return DAMAGED
        return None if stays else REPLACED

    def _restore_result(self, line: bytes) -> bool:
        """Restore a result of an earlier run, and return whether it stays in the journal.

        A result whose response is to be evaluated again does not stay.

        Raises:
            ValueError: the line is damaged, or was restored already.
            TypeError, KeyError, AggregationError: it is not a result.
        """
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
        """Restore a reject of an earlier run, and return whether it stays in the file of rejects.

        A reject whose line is to be evaluated again does not stay.

        Raises:
            ValueError: the line is damaged, or was restored already.
            TypeError, KeyError: it is not a reject.
        """
        reject = unseal(line)
        done_line = msgspec.convert(reject["source"], DoneLine)
        reason = reject["reason"]
        # The rest of an incomplete line may have been written since.
        may_be_complete_now = reason == "incomplete"
        if self._retry_errors or may_be_complete_now:
            return False
        self._check_new(done_line)
        self._count_reject(done_line, reason)
        self._done.restore(done_line)
        return True

    def _check_new(self, line: DoneLine) -> None:
        """Check that no result or reject of the same line was restored before.

        Raises:
            ValueError: it was.
        """
        if line in self._done:
            raise ValueError("the line is there already, here or among the results")

    def _set_aside(self, file: LockedFile, suffixes: Mapping[int, str]) -> None:
        """Move lines of a file to other files beside the journal.

        If the process crashes meanwhile, some of the lines may be in both files.

        Args:
            file: the file.
            suffixes: for each line to move, the suffix of the other file, by the offset of the
                line.
        """
        mode = stat.S_IMODE(os.stat(file.path).st_mode)

        def open_with_mode(path: str, flags: int) -> int:
            """Open a file with the mode of the journal, unless it is a link."""
            return os.open(path, flags | os.O_NOFOLLOW, mode)

        with ExitStack() as files:
            moved = {
                suffix: files.enter_context(
                    open(f"{self.path}{suffix}", "ab", opener=open_with_mode)
                )
                for suffix in sorted({*suffixes.values()})
            }
            draft = files.enter_context(drafted(file.path))
            staying = files.enter_context(open(draft, "wb"))
            lines = files.enter_context(open(file.path, "rb"))
            offset = 0
            for line in lines:
                suffix = suffixes.get(offset)
                destination = staying if suffix is None else moved[suffix]
                destination.write(line)
                offset += len(line)
            # The moved lines must be on disk before the draft replaces the file, or a crash could
            # lose them.
            for new_file in moved.values():
                flush(new_file)
            flush(staying)
        # The draft has replaced the file, so the new file has to be locked.
        file.reopen()

    # This run

    async def commit(self, items: Sequence[Evaluation | Rejected]) -> list[Evaluation | None]:
        """Append the complete results and the rejects among `items` to their files.

        Returns:
            the items, with None in place of each reject.

        Raises:
            JournalError: a file cannot be written or flushed.
        """
        if self._flushing is not None and self._flushing.done():
            # Flushing ends only with an error, which this raises.
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

        # `writelines` runs in a thread and takes lines from a generator, so they are encoded in the
        # thread, too. Only the end of the event loop cancels this; closing then waits for the
        # thread.
        if results:
            await self._results_writer.writelines(_lines_of_results(results))
        if rejects:
            await self._rejects_writer.writelines(self._lines_of_rejects(rejects))
        return evaluations

    def _lines_of_rejects(self, rejects: Iterable[Rejected]) -> Iterator[bytes]:
        """Yield each reject as a line, after the line before it is written.

        Only then is it known how many bytes the file may still grow.
        """
        for reject, source in rejects:
            remaining_bytes = self._options.max_reject_bytes - self._rejects.size
            line = reject_line(reject, {"source": source}, remaining_bytes)
            yield seal(line)

    def _flush(self) -> None:
        for file in self._locked_files:
            file.flush_to_disk()

    async def _flush_regularly(self) -> None:
        """Flush the files to disk at regular intervals, until flushing fails for the first time.

        After a failure, the system may lose data without another error.
        """
        while True:
            await asyncio.sleep(FLUSH_SECONDS)
            await self._in_thread(self._flush)

    async def aclose(self) -> None:
        """Flush everything to disk, close the files, and release their locks.

        Raises:
            JournalError: a file cannot be flushed.
        """
        try:
            if self._flushing is not None:
                self._flushing.cancel()
                await outlast(self._flushing, inf)
                if not self._flushing.cancelled():
                    # Flushing had failed before. This raises its error.
                    self._flushing.result()
            if self.is_restored:
                await self._in_thread(self._flush)
        finally:
            for file in self._locked_files:
                file.close()
            self._threads.shutdown(wait=False)


def _lines_of_results(results: Iterable[Mapping[str, Any]]) -> Iterator[bytes]:
    """Yield the lines of all results as one item, so that a single write appends them.

    It is a generator so that the lines are encoded only when they are written.
    """
    yield b"".join(
        seal(orjson.dumps(result, option=orjson.OPT_APPEND_NEWLINE)) for result in results
    )


def _flush_folder(path: str) -> None:
    """Flush a folder to disk, so that new files in it survive a power failure.

    Some systems cannot do that for some folders. Then this does nothing.
    """
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
