"""Merges changes of the aggregates of a group."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from graphrag_eval_async.errors import SourceError
from graphrag_eval_async.inference.running import RunningAggregates
from graphrag_eval_async.scale.redis import scripts
from graphrag_eval_async.scale.redis.group import LOGGER
from graphrag_eval_async.threads import run_in_thread

if TYPE_CHECKING:
    from collections.abc import Iterable

    from graphrag_eval_async.scale.redis.group import Connection, Keys

FAN = 64
"""So many changes of the aggregates become one of the next level."""

MERGED_BYTES = 64 << 20
"""Changes of more bytes are not merged, since the server holds at most 512 MB in one value."""

MERGING_SECONDS = 30
"""How long others leave the merging of changes to a worker that has begun."""


async def merge_changes(link: Connection, keys: Keys, consumer: str, count: int) -> None:
    """Merge changes of the aggregates, so that they stay few; the first level has `count` changes."""
    try:
        lock = ("SET", keys.merging, consumer, "NX", "EX", MERGING_SECONDS)
        if not await link.do(*lock):
            return
        for level in range(len(keys.changes) - 1):
            while count >= FAN:
                count = await _merge_level(link, keys, level)
            count = await link.do("LLEN", keys.changes[level + 1])
        await link.do("DEL", keys.merging)
    except SourceError as error:
        LOGGER.warning("changes of the aggregates were not merged: %s", error)


async def _merge_level(link: Connection, keys: Keys, level: int) -> int:
    """Merge the first changes of a level; return how many it has then, 0 if they are left."""
    changes, name = keys.changes[level], f"merged:{level}"
    number = await link.do("HGET", keys.counts, name) or b"0"
    found = await link.do("LRANGE", changes, 0, FAN - 1)
    if len(found) < FAN or sum(map(len, found)) > MERGED_BYTES:
        return 0
    merged = await run_in_thread(partial(merge, found))
    names = [keys.counts, changes, keys.changes[level + 1]]
    if await link.run(scripts.MERGE, names, [name, number, FAN, merged.to_bytes()]) < 0:
        return 0
    return int(await link.do("LLEN", changes))


def merge(changes: Iterable[bytes]) -> RunningAggregates:
    """Return changes of aggregates as one."""
    merged, *others = map(RunningAggregates.from_bytes, changes)
    for other in others:
        merged.merge(other)
    return merged
