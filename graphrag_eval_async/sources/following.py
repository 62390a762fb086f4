"""Following of files while they are written. Each line is read once it is complete."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any, Literal

from graphrag_eval_async.errors import UsageError, check_integer
from graphrag_eval_async.posix import require_posix
from graphrag_eval_async.records import Position
from graphrag_eval_async.sources.checkpoints import FollowState
from graphrag_eval_async.sources.identity import Access
from graphrag_eval_async.sources.lines import MAX_LINE_BYTES, lines_of
from graphrag_eval_async.sources.listing import as_logs
from graphrag_eval_async.sources.tails import Tails
from graphrag_eval_async.sources.waiting import Stop, Waiting

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from graphrag_eval_async.records import Known, Record
    from graphrag_eval_async.sources.waiting import Lag

MEASURING_SECONDS = 0.5
"""Maximum age of a lag, in seconds, before it is measured again."""

Keep = Callable[[Mapping[str, int], Mapping[str, str]], Awaitable[object]]
"""See `Follower.begin`."""


def follow_jsonl(
    path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    start: Literal["beginning", "end"] | Position = "beginning",
    poll_interval: float = 0.05,
    idle_timeout: float | None = None,
    stop: Stop | None = None,
    rotate_wait: float = 5.0,
    exclude: Sequence[str] = (),
    ignore_older: float | None = None,
    max_line_bytes: int = MAX_LINE_BYTES,
) -> Follower:
    """Follow JSONL files like `tail -F`. Each line is read once its newline is written.

    Waits for a file that is missing or disappears. Reads a file that is rotated by renaming to its end, then
    the new file from its start. Reads a file that is truncated or rewritten from its start again. Lines lost
    in this way are logged by the logger ``graphrag_eval_async.follow``, unless they are in a copy with the
    name of a rotated file, as made by ``copytruncate`` of logrotate.

    Limitations. A follower cannot

    - read a file that was deleted, or compressed by anything but gzip, after its rotation while no follower
      ran; late writes to the former target of a link; or files that exist only between two polls;
    - distinguish a new file from a deleted one if both have the last line that was read at the same place.
      It skips the lines up to there and logs this;
    - detect that a file was rewritten if the last bytes before the place up to which it was read are the
      same: 1,024 bytes or, while no follower ran, the last line that was read;
    - distinguish a rotated file that it has never seen from a copy, while another file of that name begins
      with all of its content;
    - keep more files open than three quarters of the process's limit on open files. With more files, those
      that are deleted or moved between two polls may lose their last lines.

    Args:
        path: a file, a directory (its ``*.jsonl`` files), a glob, or a list of these. A path that exists is
            never read as a glob. Files that appear later are read from their start. Rotated files have names
            such as ``log.jsonl.1``, ``log.jsonl-20260131``, ``log-20260131.jsonl``, ``log.1.jsonl`` or
            ``log.jsonl.old``. With a journal, compressed files that exist at the start, such as
            ``log.jsonl.1.gz``, are read once, without the lines that an earlier run has read.
        start: "beginning" reads all lines; "end" only lines completed from now on. A position reads the lines
            after it, in the file that now contains it, and all other files; if it is not found, all files.
            Files rotated earlier are skipped, except files newer than that of the position; with a journal,
            "beginning" reads them too. Lines are numbered from where reading begins.
        poll_interval: seconds between two polls, more than 0.
        idle_timeout: seconds without new data after which to end; None for never.
        stop: an event of asyncio, anyio or threading, or any object with `is_set`, which a thread calls at
            each poll. The follower ends once it is set. Before it ends, on `stop` or `idle_timeout`, it reads
            all complete lines, then last lines without a newline, with `whole` False. `evaluate_stream`
            evaluates such a line if it parses, and otherwise rejects it as `incomplete`.
        rotate_wait: seconds after the last write for which a rotated or deleted file is still read. Its last
            line is then read even without a newline, with `whole` False.
        exclude: globs of files to skip, including rotated ones, such as ``["*.debug.jsonl"]``. A glob with a
            slash must match the whole path, any other the name.
        ignore_older: seconds. If a file was last written longer ago when it is found, only lines added later
            are read, unless an earlier run has read some of it. None for no limit.
        max_line_bytes: maximum length of a line; only the head of a longer line is read. `evaluate_stream`
            uses its own limit.

    Returns:
        an asynchronous iterable of lines with their `position`, which `evaluate_stream` accepts.

    Raises:
        UsageError: an argument has an invalid value, or the system is not POSIX.
    """
    require_posix("follow_jsonl")
    older = None if ignore_older is None else _seconds("ignore_older", ignore_older)
    access = Access(_patterns(exclude), older)
    tails = Tails(as_logs(path), access, rotate_wait=_seconds("rotate_wait", rotate_wait))
    if not isinstance(start, Position) and start not in ("beginning", "end"):
        raise UsageError(f'start: expected "beginning", "end" or a Position, got {start!r}')
    if stop is not None and not callable(getattr(stop, "is_set", None)):
        raise UsageError(f"stop: expected an event, got {stop!r}")
    waiting = Waiting(
        tails,
        interval=_seconds("poll_interval", poll_interval, more_than=0),
        timeout=None if idle_timeout is None else _seconds("idle_timeout", idle_timeout),
        stop=stop,
    )
    check_integer("max_line_bytes", max_line_bytes)
    return Follower(waiting, start, max_line_bytes)


class Follower:
    """Lines of followed files, to be iterated over once; made by `follow_jsonl`.

    Attributes:
        start: the argument of `follow_jsonl`.
    """

    def __init__(self, waiting: Waiting, start: Literal["beginning", "end"] | Position, limit: int) -> None:
        self.start = start
        self._max_line_bytes = limit
        self._waiting = waiting
        self._begun = self._reading = False
        self._keep: Keep | None = None
        self._measured = monotonic()

    async def begin(
        self,
        known: Mapping[str, Known],
        exclude: Iterable[str | os.PathLike[str]] = (),
        *,
        is_first: bool | None = None,
        copies: Mapping[str, str] | None = None,
        keep: Keep | None = None,
    ) -> None:
        """Find the existing files. Called by reading if it was not called before.

        Args:
            known: how far earlier runs have read, by `FileId.key`; reading resumes there.
            exclude: files that are not followed even if they are in the directory or match the glob.
            is_first: whether no earlier run has followed these files; None means that `known` is empty. In
                the first run, reading of unknown files begins at `start`; later, at their start, even in
                rotated files.
            copies: copies that an earlier run has recorded.
            keep: awaited at once with the state that later runs need, a `FollowState`, and again whenever
                it changes, before lines that were read since are delivered.

        Raises:
            UsageError: the follower has already begun.
        """
        if self._begun:
            raise UsageError("a follower can begin only once; make another with follow_jsonl")
        self._begun = True
        state = await self._waiting.call(
            partial(
                Tails.begin,
                known=known,
                start=self.start,
                exclude=[os.fspath(path) for path in exclude],
                now=monotonic(),
                is_first=not known if is_first is None else is_first,
                copies=copies or {},
            )
        )
        self._keep = keep
        if keep is not None:
            await keep(*(state or FollowState({}, copies or {})))

    def __aiter__(self) -> AsyncGenerator[Any]:
        return lines_of(self.batches(max_line_bytes=self._max_line_bytes))

    async def batches(self, *, max_line_bytes: int) -> AsyncGenerator[list[Record]]:
        """Complete lines, in batches of those found together.

        Args:
            max_line_bytes: maximum length of a line; only the head of a longer line is kept in memory.

        Raises:
            UsageError: the follower was iterated over before, or is closed.
        """
        if self._reading:
            raise UsageError("a follower can be iterated over only once; make another with follow_jsonl")
        self._reading = True
        waiting = self._waiting
        try:
            if not self._begun:
                await self.begin({})
            while not waiting.closed.is_set():
                events, unread, state, is_over = await waiting.poll()
                if state is not None and self._keep is not None:
                    await self._keep(*state)
                if is_over and not unread and not any(event.data for event in events):
                    events += await waiting.call(Tails.end)
                self._measured = monotonic()
                for event in events:
                    waiting.backlog.hand_out(event.size)
                    if lines := event.lines(max_line_bytes):
                        yield lines
                if any(event.data for event in events):
                    waiting.restart_clock()
                elif is_over and not unread:
                    return
        finally:
            await self.aclose()

    def _is_stopped(self) -> bool:
        """Whether its `stop` is set."""
        return self._waiting.is_stopped()

    @property
    def lag(self) -> Lag:
        """How much is left to read, measured a moment ago even if no lines are requested."""
        now = monotonic()
        if self._reading and now - self._measured >= MEASURING_SECONDS:
            self._measured = now
            self._waiting.measure()
        return self._waiting.backlog.lag(now)

    @property
    def not_found(self) -> list[str]:
        """The given paths for which no file has been found yet; empty before the follower begins."""
        return self._waiting.not_found

    async def aclose(self) -> None:
        """Close all files; if they are being polled, as soon as the poll ends."""
        self._waiting.close()


def _patterns(exclude: Any) -> list[str]:
    is_list = not isinstance(exclude, str | bytes) and isinstance(exclude, Iterable)
    patterns: list[str] = list(exclude) if is_list else [""]
    if not all(isinstance(pattern, str) and pattern for pattern in patterns):
        raise UsageError(f'exclude: expected a list of globs, such as ["*.debug.jsonl"], got {exclude!r}')
    return patterns


def _seconds(name: str, value: Any, *, more_than: float | None = None) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 <= value < float("inf") or value == more_than:
        least = "more than 0" if more_than == 0 else "0 or more"
        raise UsageError(f"{name}: expected seconds, {least}, got {value!r}")
    return float(value)
