"""An event loop whose clock jumps to the next timer as soon as nothing else is to be done."""

from __future__ import annotations

import asyncio
import selectors
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine

T = TypeVar("T")


class _Selector(selectors.DefaultSelector):
    now = 0.0

    def select(self, timeout: float | None = None) -> Any:
        if timeout is None:  # No timers: a thread may still call.
            events = super().select(10)
            assert events, "every task waits for something that never comes"
            return events
        self.now += timeout
        return super().select(0)


class PatientLoop(asyncio.SelectorEventLoop):
    """One that gives its threads all the time they need at its end: its minutes may be very short."""

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:  # noqa: ARG002, ASYNC109
        await super().shutdown_default_executor()


class _Loop(PatientLoop):
    def __init__(self) -> None:
        self._clock = _Selector()
        super().__init__(self._clock)
        self._clock_resolution = 1e-6

    def time(self) -> float:
        return self._clock.now


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run to the end without waiting."""
    with asyncio.Runner(loop_factory=_Loop) as runner:
        return runner.run(main)


def now() -> float:
    """In seconds since the loop started."""
    return asyncio.get_running_loop().time()
