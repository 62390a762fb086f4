"""Finding and reading of followed logs: which file is which, however logs are rotated.

Nothing here runs on the event loop, since disks may be slow.
"""

from __future__ import annotations

import gzip
import os
import tempfile
import zlib
from collections import deque
from contextlib import suppress
from itertools import islice
from math import inf
from time import time
from typing import TYPE_CHECKING

from graphrag_eval_async.records import Position
from graphrag_eval_async.sources.file_keys import FileKeys, Start
from graphrag_eval_async.sources.lines import LOGGER, MAX_LINE_BYTES
from graphrag_eval_async.sources.log import CLOSED, Chunk, Log, place_of, root_of, seen_of
from graphrag_eval_async.sources.paths import GONE, GZIP, Paths, former_names
from graphrag_eval_async.sources.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Mapping

    from graphrag_eval_async.records import Known, Record

CHUNK_BYTES = 1 << 18
"""Bytes read of a file before the next file gets a turn."""

PASS_BYTES = 1 << 20
"""Bytes read of all files in one pass."""


class Logs:
    """Follows files. The caller decides when to look at them, and passes the time.

    Attributes:
        max_line_bytes: maximum length of a line.
    """

    def __init__(self, paths: Paths, *, ignore_older: float, rotate_wait: float) -> None:
        """See `follow_jsonl`."""
        self.max_line_bytes = MAX_LINE_BYTES
        self._paths = paths
        self._registry = Registry(paths, ignore_older)
        self._ignore_older = ignore_older
        self._rotate_wait = rotate_wait
        self._packed: deque[tuple[str, Generator[None]]] = deque()

    def begin(
        self,
        known: Mapping[str, Known],
        start: str | Position,
        exclude: Iterable[str],
        *,
        now: float,
        is_first: bool,
        copies: Mapping[str, str],
    ) -> None:
        """See `Follower.begin`. `start` only applies if `is_first`."""
        line = start if is_first and isinstance(start, Position) else None
        registry = self._registry
        registry.keys = FileKeys(known, copies, line)
        self._paths.exclude(exclude)
        registry.skips = is_first and start == "end"
        self._look_at_names(now, at_once=True)
        if is_first:
            self._skip_rotated(now)
        else:
            self._look_at_rotated(now)
        for status, path, name in self._paths.rotated(packed=True):
            registry.skips = is_first or time() - status.st_mtime > self._ignore_older
            if len(self._packed) >= registry.max_open // 2:
                self._paths.tell(path, "too many compressed logs; the next start reads more")
                break
            steps = self._unpack(status, path, name)
            if any(True for _ in islice(steps, 1)):
                self._packed.append((name, steps))
        registry.skips = False
        if line is not None and line.file not in registry.keys.claimed:
            LOGGER.warning("%s: line to start after not found; reading from the start", line.path)

    def _skip_rotated(self, now: float) -> None:
        """Skip files rotated earlier than the file with the line to start after."""
        begun: set[str] = set()
        for _, path, name in self._paths.rotated():
            self._registry.skips = name not in begun
            log = self._registry.enter(path, name, now)
            if log is not None and log.skipped < 0:
                begun.add(name)

    def _unpack(self, status: os.stat_result, path: str, name: str) -> Generator[None]:
        """Open a compressed log; then decompress it step by step into a temporary file, and read that."""
        registry, root, size = self._registry, root_of(status, path), 0
        try:
            with open(path, "rb") as packed:
                packed.seek(max(0, status.st_size - 4))
                text_size = int.from_bytes(packed.read(), "little")  # Modulo 4 GiB.
                is_read = registry.keys.is_packed_read(root, text_size)
                if is_read or os.path.exists(path.removesuffix(GZIP)):  # Or gzip has not finished it.
                    return
                if registry.skips:
                    start = Start(registry.keys.new(root), text_size, is_skipped=True)
                    registry.keys.note_copy(root, start.key)
                    registry.keys.note_start(start)
                    return
                packed.seek(0)
                yield
                with tempfile.TemporaryFile() as file:
                    try:
                        text = gzip.GzipFile(fileobj=packed)
                        while piece := text.read1(CHUNK_BYTES):
                            size += file.write(piece)
                            yield
                    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
                        told = "%s: cannot be decompressed; lost the text after %d bytes: %s"
                        LOGGER.warning(told, path, size, error)
                    file.flush()
                    log = registry.add(os.dup(file.fileno()), path, name, status)
        except OSError as error:
            LOGGER.warning("%s: cannot be read: %s", path, error)
            return
        if log.original is None:
            registry.keys.note_copy(root, log.file.key)
        log.gone = -inf
        registry.check(log, os.fstat(log.descriptor), -inf)

    # Looking

    def look(self, now: float, *, at_once: bool = False) -> None:
        """Find changes. `at_once` also checks what is otherwise checked less often."""
        is_listed = self._look_at_names(now, at_once=at_once)
        named = set(self._registry.named.values())
        for log in [log for log in self._registry.open if log not in named]:
            self._look_at_gone(log, now)
        if is_listed:
            self._look_at_rotated(now)

    def _look_at_names(self, now: float, *, at_once: bool) -> bool:
        """Look at the files that are followed by their names. Returns whether the names may have changed."""
        is_listed = self._paths.look(now, at_once=at_once)
        for name in self._registry.named.keys() - set(self._paths.names) if is_listed else ():
            del self._registry.named[name]
        new: list[tuple[bool, bool, str]] = []
        for name in self._paths.names:
            try:
                status = os.stat(name)
            except GONE:
                self._registry.named.pop(name, None)
                continue
            except OSError as error:
                self._paths.tell(name, error)
                continue
            log = self._registry.named.get(name)
            if log is None or log.place != place_of(status):
                # Known files come before their copies, and originals before theirs.
                new.append(
                    (not self._registry.keys.is_known(root_of(status)), bool(former_names(name)), name)
                )
            elif log.descriptor != CLOSED:
                self._registry.check(log, status, now)
            elif log.seen != seen_of(status):
                new.append((False, False, name))
        for _, _, name in sorted(new):
            self._registry.enter(name, name, now)
        return is_listed

    def _look_at_rotated(self, now: float) -> None:
        found = self._paths.rotated()
        for _, path, name in sorted(
            found, key=lambda each: not self._registry.keys.is_known(root_of(each.status))
        ):
            self._registry.enter(path, name, now)

    def _look_at_gone(self, log: Log, now: float) -> None:
        """Keep reading a file that has lost its name, as long as it may still be written to."""
        registry = self._registry
        if log not in registry.open:  # It was closed a moment ago.
            return
        if log.gone is None:
            log.gone = now
        registry.check(log, os.fstat(log.descriptor), now)
        is_done = log.gone is not None and log in registry.open and log not in registry.unread
        if is_done and now - max(log.gone or now, log.changed) >= self._rotate_wait:
            registry.finish(log)

    def end(self) -> list[Record]:
        """Give up all unfinished lines. Call it after everything was read."""
        self._registry.end()
        lines, self._registry.ended = self._registry.ended, []
        return lines

    def close(self) -> None:
        """Close all files."""
        while self._packed:
            self._packed.pop()[1].close()
        for log in list(self._registry.open):
            self._registry.release(log)

    # Reading

    @property
    def not_found(self) -> list[str]:
        """Given paths for which no file has been found."""
        return self._paths.not_found

    @property
    def left(self) -> int:
        """Bytes to read, as far as is known."""
        return sum(log.unread for log in self._registry.unread) + len(self._packed)

    def changes(self) -> tuple[Mapping[str, int], Mapping[str, str]] | None:
        """What later runs need, if it has changed since the last call: see `Follower.begin`."""
        return self._registry.keys.changes()

    def measure(self) -> int:
        """Unread bytes of the open files."""
        return sum(log.measure() for log in self._registry.open)

    def read(self) -> list[Chunk]:
        """A chunk of each file in turn, up to `PASS_BYTES` in total; rotated logs before later ones."""
        lines, self._registry.ended = self._registry.ended, []
        chunks = [Chunk(0, lines)] if lines else []
        budget = PASS_BYTES
        blocked = {name for name, _ in self._packed}
        for log in sorted(self._registry.unread, key=lambda log: log.order):
            if budget <= 0 or (log.family in blocked and log.gone != -inf):
                continue
            del self._registry.unread[log]
            chunk = self._read(log, min(CHUNK_BYTES, budget))
            if chunk is not None:
                chunks.append(chunk)
                budget -= chunk.size
                if log.unread:
                    self._registry.unread[log] = None
                    blocked.add(log.family)
        if self._packed and not any(log.gone == -inf for log in self._registry.unread):
            with suppress(StopIteration):
                next(self._packed[0][1])
                return chunks
            self._packed.popleft()
        return chunks

    def _read(self, log: Log, limit: int) -> Chunk | None:
        try:
            if log.descriptor == CLOSED and not self._registry.reopen(log):
                LOGGER.warning("%s: gone; lost %d unread bytes", log.name, log.unread)
            elif log.is_intact():
                del self._registry.open[log]
                self._registry.open[log] = None
                chunk = log.read(limit, self.max_line_bytes)
                self._registry.limit()
                return chunk if chunk.size else None
        except OSError as error:
            self._paths.tell(log.name, error)
        log.seen = (log.seen[0], -1)  # The next look finds out why.
        return None
