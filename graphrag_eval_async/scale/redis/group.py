"""A consumer group of a stream: its keys and aggregates on the server, its settings, and connections."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from random import uniform
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from graphrag_eval_async.errors import SourceError, UsageError
from graphrag_eval_async.inference.running import RunningAggregates
from graphrag_eval_async.redis_client import connect, is_final, redis_address, without_secrets

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from graphrag_eval_async.redis_client import RedisAddress

R = TypeVar("R")

LOGGER = logging.getLogger("graphrag_eval_async.redis")

ANSWER_SECONDS = 30.0  # Time for one answer of the server.
MAX_BACKOFF = 5.0  # Maximum seconds between two attempts to reach the server.

CLAIM_SECONDS = 60.0
"""Seconds, besides those for judging, after which an untouched entry goes to another worker."""

MAX_DELIVERIES = 5
MAX_OUTAGE_SEC = 300.0

CURES = {
    "permission": "allow the user of the server this; entries without a result stay in the stream",
    "WRONGTYPE": "delete this key, or name another; entries without a result stay in the stream",
    "needs Redis": "update the server",
    "same slot": "on a cluster, name both streams with a common part in braces: {name} and {name}:results",
    "": "check the address, its database and its password",
}
"""What to do about errors of the server, by a part of their text; the first counts."""

SHAPE = "redis://HOST[:PORT]/[DB/]STREAM?group=GROUP"

NUMBERS = ("claim_after_sec", "max_deliveries", "max_outage_sec", "max_results")
FLAGS = ("drain", "force")
OPTIONS = (*NUMBERS, *FLAGS, "consumer", "group", "results")
"""Options of an address; `NUMBERS` are numbers, `FLAGS` yes or no."""


class Keys(NamedTuple):
    """The keys of a group on the server; a common hash tag keeps all on one node of a cluster."""

    stream: str  # of responses
    group: str
    results: str  # a stream
    rejects: str  # a stream
    counts: str  # a hash with the number of results, of rejects by reason, and of lost entries
    answered: str  # the set of the ids of answered questions
    parts: str  # a hash with the aggregates, in parts of workers


@dataclass(kw_only=True)
class Settings:
    """Settings of a group and of one worker; see `redis_stream`."""

    address: RedisAddress
    keys: Keys
    consumer: str | None = None
    drain: bool = False
    claim_after_sec: float | None = None
    max_deliveries: int = MAX_DELIVERIES
    max_results: int | None = None
    max_outage_sec: float | None = MAX_OUTAGE_SEC
    force: bool = False

    def __str__(self) -> str:
        return f"{self.address}/{self.keys.stream}"


def keys_of(stream: str, group: str, results: str | None) -> Keys:
    """Return the names for a group of a stream."""
    prefix = f"{stream if '{' in stream else f'{{{stream}}}'}:{group}"
    return Keys(
        stream,
        group,
        results or f"{prefix}:results",
        f"{prefix}:rejects",
        f"{prefix}:counts",
        f"{prefix}:answered",
        f"{prefix}:parts",
    )


def server_address(url: str) -> RedisAddress:
    """Read the address of a server, without the name of a stream."""
    try:
        address = redis_address(url, "redis://HOST[:PORT][/DB]")
        if address.name:
            raise ValueError(f"expected redis://HOST[:PORT][/DB], not the name {address.name!r} after it")
    except ValueError as error:
        raise UsageError(f"url: {error}") from None
    return address


class Connection:
    """Sends commands to a server; retries while the server is away."""

    def __init__(self, address: RedisAddress, max_outage_sec: float | None) -> None:
        self.address = address
        self.outages = 0  # how often the server was away
        self._longest = max_outage_sec
        self._client: Any = None

    async def open(self) -> None:
        """Import the package, unless that has been done."""
        if self._client is None:
            self._client = await asyncio.to_thread(connect, self.address, ANSWER_SECONDS)

    async def aclose(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def do(self, *command: Any, **options: Any) -> Any:
        """Return the server's answer; raise a `SourceError` if it refuses, or is away for too long.

        `options` say how the client is to read the answer.
        """
        return await self._try(lambda: self._client.execute_command(*command, **options))

    async def run(self, script: str, keys: Sequence[str], args: Sequence[Any]) -> Any:
        """Run a script, perhaps twice, and return its result; errors are as in `do`."""
        return await self._try(lambda: self._client.register_script(script)(keys=keys, args=args))

    async def at_once(self, *commands: Sequence[Any]) -> list[Any]:
        """Return the answers to commands, as of one moment; None for what the server does not know."""

        async def send() -> list[Any]:
            async with self._client.pipeline(transaction=True) as pipeline:
                for command in commands:
                    pipeline.execute_command(*command)
                answers = await pipeline.execute(raise_on_error=False)
            for answer in answers:
                if isinstance(answer, Exception) and not str(answer).startswith(UNKNOWN):
                    raise answer
            return [None if isinstance(answer, Exception) else answer for answer in answers]

        return await self._try(send)

    async def _try(self, send: Callable[[], Awaitable[R]]) -> R:
        from redis.exceptions import RedisError

        loop = asyncio.get_running_loop()
        since, failures = 0.0, 0
        while True:
            try:
                answer = await send()
                self.outages += failures > 0
                return answer
            except (RedisError, OSError, TimeoutError) as error:
                if "NOGROUP" in str(error) or str(error).startswith("UNBLOCKED"):
                    raise NoGroup from None
                if "BUSYGROUP" in str(error):
                    raise GroupExists from None
                now = loop.time()
                since = since if failures else now
                failures += 1
                trouble = f"{self.address}: {without_secrets(error, self.address)}"
                if is_final(error):
                    cure = next(cure for sign, cure in CURES.items() if sign in str(error))
                    raise SourceError(f"{trouble}; {cure}") from None
                if self._longest is not None and now - since > self._longest:
                    raise SourceError(
                        f"{trouble}; not reached for {now - since:.0f} s; check that the server works"
                    ) from None
                if failures == 1 or failures % 10 == 0:
                    LOGGER.warning("%s; trying again", trouble)
            await asyncio.sleep(min(MAX_BACKOFF, 0.05 * 2 ** min(failures, 9)) * uniform(0.5, 1))  # noqa: S311


UNKNOWN = ("no such key", "NOGROUP")  # Beginnings of errors about keys that do not exist.


class NoGroup(Exception):  # noqa: N818
    """The stream or its group does not exist, or no longer."""


class GroupExists(Exception):  # noqa: N818
    """The group is there already."""


def merge(parts: Iterable[bytes]) -> RunningAggregates:
    """Return parts of aggregates as one."""
    merged, *others = map(RunningAggregates.from_bytes, parts)
    for other in others:
        merged.merge(other)
    return merged
