"""Equal calls that are in flight at the same time are one call."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.errors import JudgeError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable

    from graphrag_eval_async.judge.usage import JudgeUsage


class Shared:
    """The calls in flight, by key; `usage` counts those that were answered by another."""

    def __init__(self, usage: JudgeUsage) -> None:
        self._usage = usage
        self._running: dict[Hashable, asyncio.Future[tuple[Any, JudgeError | None]]] = {}

    async def call(self, key: Hashable, make: Callable[[], Awaitable[Any]]) -> Any:
        """What `make()` returns or raises, or the call with that key that is already running.

        Where the one who makes the call does not finish it, another who waits for it makes it again.
        """
        while (running := self._running.get(key)) is not None:
            await asyncio.wait([running])
            if not running.cancelled():
                self._usage.shared_calls += 1
                value, error = running.result()
                if error is not None:
                    raise error.with_traceback(None)
                return value
        running = self._running[key] = asyncio.get_running_loop().create_future()
        try:
            value = await make()
            running.set_result((value, None))
            return value
        except JudgeError as error:
            running.set_result((None, error))
            raise
        finally:
            del self._running[key]
            running.cancel()  # Where it was not finished: others look again.
