"""Results on their way to the output."""

from __future__ import annotations

import asyncio
from math import inf
from typing import TYPE_CHECKING, Any

import anyio
import orjson

from graphrag_eval_async.sinks.line_file import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from graphrag_eval_async.sinks import LineFile


class Sending:
    """Sends results, and gives up on a reader that does not read once the run is to end."""

    def __init__(self, lines: LineFile | None, stop: Callable[[], object]) -> None:
        """`lines` is where results go, if anywhere; `stop` makes the run read no more."""
        self._lines = lines
        self._stop = stop
        self._patience = inf
        self._scope: anyio.CancelScope | None = None

    def drain(self) -> None:
        """Stop reading; from now on, a line has `PATIENCE_SECONDS` to be sent."""
        self._stop()
        self._patience = PATIENCE_SECONDS
        if self._scope is not None:
            self._scope.deadline = asyncio.get_running_loop().time() + self._patience

    async def send(self, result: Mapping[str, Any]) -> None:
        """Send one result, as JSONL.

        Raises:
            InterruptedError: nobody reads it, and the run is to end.
            OSError: it cannot be written.
        """
        if self._lines is not None:
            await self.send_lines(orjson.dumps(result, option=orjson.OPT_APPEND_NEWLINE))

    async def send_lines(self, lines: bytes) -> None:
        """Send results that are lines of JSON already.

        Raises:
            InterruptedError, OSError: as of `send`.
        """
        if self._lines is None:
            return
        with anyio.move_on_after(self._patience) as self._scope:
            await self._lines.send(lines)
            return
        raise InterruptedError
