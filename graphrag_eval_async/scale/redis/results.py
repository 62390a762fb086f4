"""Results of all workers of a consumer group, and their aggregates."""

from __future__ import annotations

import asyncio
from collections import deque
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeAlias

import orjson

from graphrag_eval_async.errors import AggregationError, SourceError, UsageError
from graphrag_eval_async.inference.running import RunningAggregates
from graphrag_eval_async.judge.usage import JudgeUsage
from graphrag_eval_async.records import Rejects
from graphrag_eval_async.redis_client import check_redis
from graphrag_eval_async.reference import NoReference, load_reference
from graphrag_eval_async.scale.redis.group import (
    CLAIM_SECONDS,
    MAX_OUTAGE_SEC,
    Connection,
    Settings,
    keys_of,
    merge,
    server_address,
)
from graphrag_eval_async.scale.redis.worker import LEFT
from graphrag_eval_async.threads import run_in_thread
from graphrag_eval_async.traces.grouping import LateSpans

if TYPE_CHECKING:
    import os
    from collections.abc import AsyncGenerator, Mapping

    from graphrag_eval_async.redis_client import RedisAddress
    from graphrag_eval_async.reference import Reference, Templates
    from graphrag_eval_async.stream import EvaluationStream

Run: TypeAlias = "EvaluationStream | RedisRun"
"""An iterator of results that also has the state of the run."""

PAGE = 500  # Results per request.
LATEST = 200  # How many earlier results a watched run begins with.
LOOK_SECONDS = 1.0  # Seconds between two requests for the state of the group.


def redis_results(url: str, results: str) -> AsyncGenerator[dict[str, Any]]:
    """Yield the results in a stream of a Redis server, in the order in which they were committed.

    `compute_aggregates`, given all of them, equals the aggregates of all workers.

    Args:
        url: address of the server, as for `redis_stream`.
        results: name of the stream of results.

    Raises:
        UsageError: the address is none, or the extra ``redis`` is not installed.
        SourceError: the server cannot be used, there is no such stream, or an entry is not a result.
    """
    address = server_address(url)
    check_redis()
    return results_on(address, results)


async def results_on(address: RedisAddress, results: str) -> AsyncGenerator[dict[str, Any]]:
    """Yield the results in a stream; see `redis_results`."""
    link = Connection(address, MAX_OUTAGE_SEC)
    await link.open()
    try:
        after = b"-"
        if not await link.do("EXISTS", results):
            raise SourceError(f"{address}/{results}: there is no such stream; name the one workers write to")
        while page := await link.do("XRANGE", results, after, "+", "COUNT", PAGE):
            for id_, fields in page:
                yield _result(f"{address}/{results}", id_, fields)
            after = b"(" + page[-1][0]
    finally:
        await link.aclose()


class Backlog(NamedTuple):
    """How many entries wait for the workers of a group, and how many of these were active recently."""

    unread: int | None = None  # that no worker has taken; None if the server does not know
    in_work: int = 0  # that a worker took and has not finished
    lost: int = 0  # that were deleted after a worker took them, and before they were evaluated
    workers: int = 0


class RedisRun:
    """The results of all workers of a consumer group, as they are committed; made by `watch_redis`.

    Used like an `EvaluationStream`: an asynchronous iterator and context manager, also by `Dashboard`.

    Attributes:
        reference: the reference set, if it is known.
        aggregates: of all results of the group; complete before the first result comes.
        backlog: how far the workers are.
        rejects: counts of what could not be evaluated.
        missing: ids of questions without a response so far, in the order of the reference set.
        in_flight: entries in work.
        is_restored: true, since aggregates are complete before the first result comes.
        has_begun: whether a worker has ever joined the group; known after `look`.
    """

    def __init__(self, settings: Settings, reference: Reference) -> None:
        """See `watch_redis`."""
        self.reference = reference
        self.aggregates = RunningAggregates(templates=reference.templates, steps=reference.step_names)
        self.backlog = Backlog()
        self.rejects = Rejects()
        self.missing: list[str] = [*reference.questions]
        self.usage = JudgeUsage()
        self.skipped, self.journal, self.decision, self.late = 0, None, None, LateSpans()
        self.is_restored = True
        self.has_begun = False
        self._settings = settings
        self._keys = settings.keys
        self._link = Connection(settings.address, settings.max_outage_sec)
        self._ready: deque[dict[str, Any]] = deque()
        self._last, self._due = b"", 0.0
        self._counted = self._total = 0
        self._is_stopped = False
        self._reading: asyncio.Timeout | None = None

    @property
    def in_flight(self) -> int:
        return self.backlog.in_work

    def __str__(self) -> str:
        return f"{self._settings}?group={self._keys.group}"

    def stop(self) -> None:
        """Stop reading results, also if the server is away; the workers continue."""
        if self._reading is not None and not self._is_stopped:
            self._reading.reschedule(-inf)
        self._is_stopped = True

    def drop_unsent(self) -> None:
        """There is nothing to drop."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connection."""
        self._is_stopped = True
        await self._link.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> dict[str, Any]:
        while not self._ready:
            if self._is_stopped:
                raise StopAsyncIteration
            try:
                async with asyncio.timeout(None) as self._reading:  # `stop` ends its time.
                    await self._advance()
            except TimeoutError:
                if not self._is_stopped:
                    raise
            finally:
                self._reading = None
        return self._ready.popleft()

    async def refresh(self) -> None:
        """Read the current aggregates."""
        await self._link.open()
        if (known := await self._link.do("HGET", self._keys.counts, "conditions")) is not None:
            self._keys = self._keys._replace(results=orjson.loads(known)["results"])
        keys = self._keys
        counted, latest, parts = await self._link.at_once(
            ("HGET", keys.counts, "results"),
            ("XREVRANGE", keys.results, "+", "-", "COUNT", 1),
            ("HGETALL", keys.parts),
        )
        self._counted = int(counted or 0)
        self._last = latest[0][0] if latest else b"0-0"
        if parts:
            try:
                found = [part for name, part in parts.items() if not name.startswith(b"commit:")]
                merged = await run_in_thread(partial(merge, found))
            except AggregationError as error:
                raise SourceError(f"{self}: {error}") from error
            merged.order_templates(self.reference.templates)
            self.aggregates = merged

    async def _advance(self) -> None:
        if not self._last:
            await self.refresh()
            await self.look()
            # The latest results, which are counted already.
            latest = await self._link.do("XREVRANGE", self._keys.results, self._last, "-", "COUNT", LATEST)
            self._ready.extend(_result(self._place, *entry) for entry in reversed(latest))
        now = asyncio.get_running_loop().time()
        if now >= self._due:
            await self.look()
            self._due = now + LOOK_SECONDS
        expected, block = self._total, round(LOOK_SECONDS * 500)
        command = ("XREAD", "COUNT", PAGE, "BLOCK", block, "STREAMS", self._keys.results, self._last)
        found = [entry for _, entries in await self._link.do(*command) or () for entry in entries]
        for id_, fields in found:
            result = _result(self._place, id_, fields)
            self.aggregates.add(result)
            self._ready.append(result)
            self._last = id_
        self._counted += len(found)
        if len(found) < PAGE and self._counted < expected:  # Some were deleted before they were read.
            await self.refresh()

    @property
    def _place(self) -> str:
        return f"{self._settings.address}/{self._keys.results}"

    async def answered(self) -> set[str]:
        """Return the ids of the questions that have a result."""
        return {id_.decode() for id_ in await self._link.do("SMEMBERS", self._keys.answered)}

    async def look(self) -> None:
        """Update `backlog`, `has_begun`, `rejects` and `missing`."""
        keys = self._keys
        counts, about, groups, workers = await self._link.at_once(
            ("HGETALL", keys.counts),
            ("XINFO STREAM", keys.stream),
            ("XINFO GROUPS", keys.stream),
            ("XINFO CONSUMERS", keys.stream, keys.group),
        )
        self._total, self.has_begun = int(counts.get(b"results", 0)), b"conditions" in counts
        self.rejects.counts.clear()
        for name, count in counts.items():
            kind, _, reason = name.decode().partition(":")
            if kind == "rejected":
                self.rejects.counts[reason] = int(count)
        if self.reference.questions:
            answered = await self.answered()
            self.missing = [id_ for id_ in self.reference.questions if id_ not in answered]
        lost = int(counts.get(b"lost", 0))
        group = next((one for one in groups or () if one["name"] == keys.group.encode()), None)
        if group is None:
            self.backlog = Backlog(lost=lost)
            return
        heard = (self._settings.claim_after_sec or CLAIM_SECONDS) * 1000
        alive = sum(one["idle"] < heard and one["name"] != LEFT.encode() for one in workers)
        last, delivered = about["last-entry"], group["last-delivered-id"]
        # The server does not know how many there are of which some were deleted.
        all_read = last is None or _numbers(delivered) >= _numbers(last[0])
        self.backlog = Backlog(0 if all_read else group["lag"], group["pending"], lost, alive)


def watch_redis(
    url: str,
    stream: str,
    *,
    group: str,
    reference: str | os.PathLike[str] | Templates | Reference | None = None,
    max_outage_sec: float | None = MAX_OUTAGE_SEC,
) -> RedisRun:
    """Watch the results of all workers of a consumer group, without evaluating anything.

    Iterating begins with up to 200 of the latest results, then yields each new one. `aggregates` are those of
    all workers from the first result on.

    Args:
        url: address of the server, as for `redis_stream`.
        stream: name of the stream of responses.
        group: name of the consumer group.
        reference: the reference set, to know which questions are missing, and the texts of questions.
        max_outage_sec: seconds without the server after which watching ends; None never ends it.

    Raises:
        UsageError: an argument has an invalid value, or the extra ``redis`` is not installed.
        ReferenceDataError: the reference set is invalid.
    """
    address = server_address(url)
    check_redis()
    if not stream or not group:
        raise UsageError("stream and group: expected names")
    settings = Settings(address=address, keys=keys_of(stream, group, None), max_outage_sec=max_outage_sec)
    return RedisRun(settings, NoReference() if reference is None else load_reference(reference))


def _numbers(id_: bytes) -> tuple[int, int]:
    """Return an id as numbers, for comparing."""
    time, _, number = id_.partition(b"-")
    return int(time), int(number)


def _result(place: str, id_: bytes, fields: Mapping[bytes, bytes]) -> dict[str, Any]:
    try:
        result = orjson.loads(fields[b"result"])
        if isinstance(result, dict):
            return result
    except (KeyError, ValueError):
        pass
    raise SourceError(f"{place}: entry {id_.decode()} is not a result; name the stream that workers write to")
