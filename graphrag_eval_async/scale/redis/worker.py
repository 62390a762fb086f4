"""A worker of a consumer group: takes entries, keeps its claim on them, and commits their results."""

from __future__ import annotations

import asyncio
import os
import socket
from contextlib import suppress
from functools import partial
from secrets import token_hex
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import orjson

from graphrag_eval_async.errors import JournalMismatch, SourceError, in_utf8
from graphrag_eval_async.inference.running import RunningAggregates
from graphrag_eval_async.records import FileId, Unwritable
from graphrag_eval_async.reference import NoReference
from graphrag_eval_async.scale.redis import scripts
from graphrag_eval_async.scale.redis.group import (
    CLAIM_SECONDS,
    LOGGER,
    Connection,
    GroupExists,
    NoGroup,
    merge,
)
from graphrag_eval_async.sinks.rejects import Rejected, reject_line
from graphrag_eval_async.sources.lines import line_of
from graphrag_eval_async.threads import run_in_thread

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence

    from graphrag_eval_async.evaluator import Evaluator
    from graphrag_eval_async.records import Record
    from graphrag_eval_async.records.evaluation import Evaluation
    from graphrag_eval_async.scale.redis.group import Settings
    from graphrag_eval_async.stream.options import StreamOptions

T = TypeVar("T")

FIELD = b"response"  # The field of an entry with the response. A single field may have any name.
MOST_ENTRIES = 64  # Maximum number of entries that are read at once.
BLOCK_MS = 500  # Milliseconds to wait for new entries before looking for those of dead workers.
LOOK_SECONDS = 3.0  # Maximum seconds between two looks for entries of dead workers.
COMMIT_ENTRIES = 256  # Maximum number of entries in one commit.

PART_BYTES = 1 << 13
"""Size from which a part of the aggregates is full, and another begins. Each commit sends the last."""

FAN = 16  # So many full parts become one.
MERGED_BYTES = 64 << 20  # Larger parts are not merged, since the server holds at most 512 MB in one value.
REJECT_BYTES = 1 << 20  # Maximum size of a reject's content, in bytes; longer content is only in the entry.
CLOSING_SECONDS = 10.0  # Time at the end to keep what is left, and to leave unfinished entries to others.
MOST_HELD = 100_000  # Entries released at the end at most; those beyond are claimed once they are idle.
LEFT = "left"  # The consumer that holds entries of workers that have ended, until others claim them.

LONG_IDLE = 1000 * 3600 * 24 * 365
"""Idle time of such entries in milliseconds, so that any worker claims them at once."""


class Finished(NamedTuple):
    """An entry to acknowledge, by its id, with the line to store: the result or the reject as JSON."""

    entry: str
    question: str  # its id; empty without a reference set, and for rejects
    reason: str  # why it was rejected; empty if it has a result
    line: bytes


class RedisWorker:
    """The work of one stream of results for a consumer group."""

    def __init__(
        self,
        settings: Settings,
        evaluator: Evaluator,
        options: StreamOptions,
        include_errors: bool,
        result_timeout_sec: float,
    ) -> None:
        self.skipped = 0
        self._settings = settings
        self._evaluator, self._options, self._include_errors = evaluator, options, include_errors
        self._keys = settings.keys
        self._link = Connection(settings.address, settings.max_outage_sec)
        self._consumer = settings.consumer or f"{socket.gethostname()}-{os.getpid()}-{token_hex(4)}"
        self._full: list[list[str]] = []
        self._part, self._is_ahead = b"", False
        self._begin_part()
        keys = self._keys
        self._names = [keys.stream, keys.results, keys.rejects, keys.parts, keys.counts, keys.answered]
        self._claim_after = settings.claim_after_sec or CLAIM_SECONDS + result_timeout_sec
        self._knows_questions = not isinstance(evaluator.reference, NoReference)
        self._held: dict[str, None] = {}
        self._tending: asyncio.Task[None] | None = None

    # Reading

    async def batches(self) -> AsyncGenerator[list[Record]]:
        """Yield new entries, and those of dead workers."""
        await self._link.open()
        await self._begin()
        self._tending = asyncio.create_task(self._tend(), name="graphrag-eval-async redis")
        loop = asyncio.get_running_loop()
        count = min(MOST_ENTRIES, self._options.max_in_flight)
        look, outages = 0.0, self._link.outages
        while True:
            if outages != self._link.outages:
                # While the server was away, no worker could refresh its claims.
                outages, look = self._link.outages, loop.time() + self._claim_after
                await self._refresh()
            if loop.time() >= look:
                found = await self._claim(count)
                # There may be more of them.
                look = 0.0 if found else loop.time() + min(LOOK_SECONDS, self._claim_after / 3)
                if found:
                    yield [self._record(*entry) for entry in found]
                    continue
            found = await self._read(count)
            if found:
                yield [self._record(*entry) for entry in found]
            elif self._settings.drain and await self._is_drained():
                return

    async def _begin(self) -> None:
        """Create the group if it does not exist; check that it was created under the same conditions."""
        keys, evaluator = self._keys, self._evaluator
        own = {**evaluator.fingerprints(), "results": keys.results, "errors": self._include_errors}
        conditions = orjson.dumps(own, option=orjson.OPT_SORT_KEYS)
        base = self._empty()
        base.order_templates(evaluator.reference.templates)
        # Without entries, it says what the server will refuse, and stores the order of the templates.
        args = [keys.group, "base", base.to_bytes(), "", "", 0]
        await self._link.run(scripts.COMMIT, self._names, args)
        self._begin_part()
        with suppress(GroupExists):
            await self._link.do("XGROUP", "CREATE", keys.stream, keys.group, "0", "MKSTREAM")
        await self._link.do("HSETNX", keys.counts, "conditions", conditions)
        if self._settings.force:
            await self._link.do("HSET", keys.counts, "conditions", conditions)
        before = await self._link.do("HGET", keys.counts, "conditions")
        if before != conditions:
            kept = orjson.loads(before)
            hashes = ("configuration", "reference")
            changed = [
                key if key in hashes else f"{key} (was {kept.get(key)}, now {own.get(key)})"
                for key in {**kept, **own}
                if kept.get(key) != own.get(key)
            ]
            raise JournalMismatch(
                f"{self._settings}: group {keys.group!r} has begun under other conditions: "
                f"{', '.join(changed)}; its results and new ones would not be comparable. Use another "
                "group, or force=yes in the address, in Python force=True",
                changed,
            )

    async def _read(self, count: int) -> list[tuple[bytes, Any, int]]:
        block = min(BLOCK_MS, round(self._claim_after * 300))
        command = ("XREADGROUP", "GROUP", self._keys.group, self._consumer, "COUNT", count, "BLOCK", block)
        try:
            reply = await self._link.do(*command, "STREAMS", self._keys.stream, ">")
        except NoGroup:
            LOGGER.warning("%s: the group is gone; a new one reads the stream from its start", self._settings)
            await self._begin()
            return []
        return [(id_, fields, 0) for _, entries in reply or () for id_, fields in entries]

    async def _claim(self, count: int) -> list[tuple[bytes, Any, int]]:
        """Take over entries of dead workers."""
        args = [self._keys.group, self._consumer, round(self._claim_after * 1000), count]
        try:
            taken, lost = await self._link.run(scripts.CLAIM, [self._keys.stream, self._keys.counts], args)
        except NoGroup:
            return []
        if lost:
            LOGGER.warning("%s: entries deleted before they were evaluated: %d", self._settings, lost)
        # Its own are there if they could not be refreshed in time.
        return [
            (id_, dict(zip(fields[::2], fields[1::2], strict=True)), times)
            for id_, fields, times in taken
            if id_.decode() not in self._held
        ]

    async def _is_drained(self) -> bool:
        """Whether no other worker has an entry in work."""
        try:
            # By their ids: of those held, some are acknowledged while the answer is on its way.
            command = ("XPENDING", self._keys.stream, self._keys.group, "-", "+", len(self._held) + 1)
            pending = await self._link.do(*command, parse_detail=True)
        except NoGroup:
            return False
        return all(one["message_id"].decode() in self._held for one in pending)

    def _record(self, id_: bytes, fields: Mapping[bytes, bytes], delivered: int) -> Record:
        """Return an entry as a line, which is rejected if it was delivered too often."""
        entry = id_.decode()
        self._held[entry] = None
        file = FileId(f"{self._settings} entry {entry}", entry, is_part=True)
        data = fields.get(FIELD) or (next(iter(fields.values())) if len(fields) == 1 else None)
        if delivered >= self._settings.max_deliveries:
            times = "once" if delivered == 1 else f"{delivered} times"
            text = f"delivered {times} and never finished; it may crash its workers, or raise max_deliveries"
            return Unwritable(0, 0, data or b"", "poison", text, file)
        if data is None:
            shown = {
                in_utf8(name.decode(errors="replace")): value[:1000].decode(errors="replace")
                for name, value in fields.items()
            }
            text = f"expected one field `response` with the response as JSON, not {', '.join(shown)}"
            return Unwritable(0, 0, orjson.dumps(shown), "invalid_field", text, file)
        return line_of(data, 0, 0, self._options.max_line_bytes, file)

    # Committing

    def admit(self, record: Record) -> dict[str, str]:
        """Return what a result says of its origin."""
        assert record.file is not None  # noqa: S101  (each entry has one)
        return {"stream": self._keys.stream, "entry": record.file.key}

    async def commit(self, items: Sequence[Evaluation | Rejected]) -> Sequence[Evaluation | None]:
        """Store results and rejects, and acknowledge their entries.

        Returns:
            the results, with None in place of rejects and of those that another worker has finished.
        """
        gone = set[str]()
        for piece in _pieces(items):
            left = piece
            while left:
                if self._is_ahead:  # Without what was not committed.
                    self._aggregates = self._empty()
                    if self._part:
                        self._aggregates = RunningAggregates.from_bytes(self._part)
                self._is_ahead = True
                newly = await self._send(*await run_in_thread(partial(self._encode, left)))
                if newly is None:
                    self._begin_part()
                    continue
                gone |= newly
                left = [one for one in left if newly and _entry(one) not in gone]
            for one in piece:
                self._held.pop(_entry(one), None)
        return [None if isinstance(one, Rejected) or _entry(one) in gone else one for one in items]

    def _encode(self, items: Sequence[Evaluation | Rejected]) -> tuple[list[Finished], bytes]:
        finished = []
        for one in items:
            entry = _entry(one)
            if isinstance(one, Rejected):
                more = {"entry": entry, "stream": self._keys.stream}
                line = reject_line(one.reject, more, REJECT_BYTES).removesuffix(b"\n")
                finished.append(Finished(entry, "", one.reject.reason, line))
            else:
                self._aggregates.add(one)
                question = one.question_id if self._knows_questions else ""
                finished.append(Finished(entry, question, "", orjson.dumps(one.as_dict())))
        return finished, self._aggregates.to_bytes()

    def _empty(self) -> RunningAggregates:
        names = self._evaluator.reference.step_names
        return RunningAggregates(include_errors=self._include_errors, steps=names)

    def _begin_part(self) -> None:
        self._aggregates = self._empty()
        self._part, self._is_ahead = b"", False  # As it was committed, and whether more was added since.
        self._name, self._commit = token_hex(8), ""

    async def _send(self, finished: Sequence[Finished], part: bytes) -> set[str] | None:
        """Commit all, or nothing if some entries are not pending; return those.

        None if the server has lost an earlier commit to the part, and nothing is committed.
        """
        name = token_hex(8)
        most = self._settings.max_results or 0
        args: list[Any] = [self._keys.group, self._name, part, self._commit, name, most]
        for one in finished:
            args += one
        while True:
            try:
                answer = await self._link.run(scripts.COMMIT, self._names, args)
                break
            except NoGroup:
                await self._begin()
        if answer == 0:
            return None
        if answer:
            LOGGER.warning("%s: entries that another worker has finished: %d", self._settings, len(answer))
            return {id_.decode() for id_ in answer}
        self._part, self._commit, self._is_ahead = part, name, False
        if len(part) >= PART_BYTES:
            full = self._name
            self._begin_part()
            try:
                await self._merge(full, 0)
            except SourceError as error:
                LOGGER.warning("parts of the aggregates were not merged: %s", error)
        return set()

    async def _merge(self, name: str, level: int) -> None:
        """Merge full parts of this worker, so that they stay few; `name` is a new one."""
        if level == len(self._full):
            self._full.append([])
        self._full[level].append(name)
        if len(self._full[level]) < FAN:
            return
        names, self._full[level] = self._full[level], []
        parts = self._keys.parts
        found = [part for part in await self._link.do("HMGET", parts, *names) if part is not None]
        if found and sum(map(len, found)) <= MERGED_BYTES:
            merged = await run_in_thread(partial(merge, found))
            one, own = f"{name}:{level}", [f"{kind}{each}" for kind in ("", "commit:") for each in names]
            await self._link.at_once(("HSET", parts, one, merged.to_bytes()), ("HDEL", parts, *own))
            await self._merge(one, level + 1)

    # In the background

    async def _tend(self) -> None:
        """Refresh the claims on entries in work."""
        with suppress(SourceError):  # Reading and committing raise it, too.
            while True:
                await asyncio.sleep(self._claim_after / 3)
                await self._refresh()

    async def _refresh(self, owner: str = "") -> None:
        """Say that entries are in work or, with a new owner, that they are not."""
        for held in _pieces([*self._held]):
            args = [self._keys.group, self._consumer, owner, LONG_IDLE, *held]
            try:
                await self._link.run(scripts.KEEP, [self._keys.stream], args)
            except NoGroup:
                return

    async def aclose(self) -> None:
        """Release unfinished entries to other workers."""
        try:
            async with asyncio.timeout(CLOSING_SECONDS):
                if self._tending is not None:
                    group = self._keys.stream, self._keys.group
                    pending = "XPENDING", *group, "-", "+", MOST_HELD, self._consumer
                    # Also entries that the server delivered while reading was cancelled.
                    for one in await self._link.do(*pending, parse_detail=True):
                        self._held[one["message_id"].decode()] = None
                    await self._refresh(LEFT)
                    if not await self._link.do(*pending, parse_detail=True):
                        await self._link.do("XGROUP", "DELCONSUMER", *group, self._consumer)
        except (NoGroup, SourceError, TimeoutError) as error:
            LOGGER.warning("%s: entries in work are left to be claimed: %s", self._settings, error)
        finally:
            if self._tending is not None:
                self._tending.cancel()
                await asyncio.gather(self._tending, return_exceptions=True)
            await self._link.aclose()


def _entry(item: Evaluation | Rejected) -> str:
    assert item.source is not None  # noqa: S101  (`admit` gave it)
    return str(item.source["entry"])


def _pieces(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """Yield the items in pieces of `COMMIT_ENTRIES`."""
    return (items[start : start + COMMIT_ENTRIES] for start in range(0, len(items), COMMIT_ENTRIES))
