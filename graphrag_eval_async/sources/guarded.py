"""Tails that are worked with in threads."""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from graphrag_eval_async.concurrency import run_in_thread
from graphrag_eval_async.errors import UsageError
from graphrag_eval_async.sources.tails import Tails

if TYPE_CHECKING:
    from collections.abc import Callable

R = TypeVar("R")


class Guarded:
    """Lets one thread at a time work with the tails, and closes them when none does."""

    def __init__(self, tails: Tails) -> None:
        self._tails = tails
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self.is_closed = self._closed.is_set

    async def call(self, function: Callable[[Tails], R]) -> R:
        """What a function of the tails returns, called in a thread.

        Raises:
            UsageError: they are closed.
        """
        if self.is_closed():
            raise UsageError("the follower is closed; follow_jsonl makes another")
        return await run_in_thread(partial(self._call, function), self.close)

    def _call(self, function: Callable[[Tails], R]) -> R:
        try:
            with self._lock:
                return function(self._tails)
        finally:
            if self.is_closed():
                self.close()

    def measure(self) -> int | None:
        """How many bytes there are to be read; None if that cannot be said."""
        try:
            return self._call(Tails.measure)
        except OSError:
            return None

    def close(self) -> None:
        self._closed.set()
        if self._lock.acquire(blocking=False):
            try:
                self._tails.close()
            finally:
                self._lock.release()
