"""Equal calls that are in flight at the same time are one call."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.errors import JudgeError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable, Iterator

    from anyio import CancelScope

    from graphrag_eval_async.judge.gate import Deadlines
    from graphrag_eval_async.judge.turns import Turns
    from graphrag_eval_async.judge.usage import JudgeUsage


class Sharers:
    """The results that wait for one call; the time of each runs from its first request at the latest."""

    def __init__(self, deadlines: Deadlines) -> None:
        self._deadlines = deadlines
        self._scopes: list[CancelScope] = []
        self._is_sent = False
        self.outcome: asyncio.Future[tuple[Any, JudgeError | None]] = (
            asyncio.get_running_loop().create_future()
        )

    @contextmanager
    def joined(self, scope: CancelScope) -> Iterator[None]:
        """Within it, the result with this scope is one of them."""
        self._scopes.append(scope)
        if self._is_sent:
            self._deadlines.start(scope)
        try:
            yield
        finally:
            self._scopes.remove(scope)

    def sent(self) -> None:
        """Note that a request is being sent."""
        self._is_sent = True
        for scope in self._scopes:
            self._deadlines.start(scope)


class Shared:
    """The calls in flight, by key; `usage` counts those that were answered by another.

    Who only waits for another's call takes no place among those that are admitted by `turns`.
    """

    def __init__(self, usage: JudgeUsage, deadlines: Deadlines, turns: Turns) -> None:
        self._usage = usage
        self._deadlines = deadlines
        self._turns = turns
        self._running: dict[Hashable, Sharers] = {}

    async def call(self, key: Hashable, scope: CancelScope, make: Callable[[Sharers], Awaitable[Any]]) -> Any:
        """What `make` returns or raises, or the call with that key that is already running.

        Where the one who makes the call does not finish it, another who waits for it makes it again.

        Args:
            key: equal for equal calls.
            scope: of the result that it is for.
            make: makes the call, and tells those who share it when a request is sent.
        """
        while (running := self._running.get(key)) is not None:
            with running.joined(scope), self._turns.resting():
                await asyncio.wait([running.outcome])
            if not running.outcome.cancelled():
                self._usage.shared_calls += 1
                value, error = running.outcome.result()
                if error is not None:
                    raise error.with_traceback(None)
                return value
        running = self._running[key] = Sharers(self._deadlines)
        try:
            with running.joined(scope):
                value = await make(running)
            running.outcome.set_result((value, None))
            return value
        except JudgeError as error:
            running.outcome.set_result((None, error))
            raise
        finally:
            del self._running[key]
            running.outcome.cancel()  # Where it was not finished: others look again.
