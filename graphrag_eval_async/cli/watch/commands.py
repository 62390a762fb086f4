"""Runs commands when an alert starts or ends."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import tempfile
from contextlib import suppress
from typing import TYPE_CHECKING

import anyio

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import BinaryIO

    from graphrag_eval_async.monitor.alerts import Change

COMMAND_SECONDS = 30.0  # how long a command may take, and how long to wait for the last ones at the end
MAX_WAITING = 100  # how many changes of one alert may wait for their command


class Commands:
    """Runs a shell command for each change of an alert, with the facts of the change as JSON on stdin.

    The commands of one alert run one after the other; those of different alerts run at the same time, and
    nothing waits for them. Their output is discarded: on a terminal, it would go through the view.
    """

    def __init__(
        self, command: str | None, say: Callable[[str], object], *, seconds: float = COMMAND_SECONDS
    ) -> None:
        """`say` is called with a line about each command that fails or takes more than `seconds`."""
        self._command = command
        self._say = say
        self._seconds = seconds
        self._queues: dict[str, asyncio.Queue[Change]] = {}
        self._workers: list[asyncio.Task[None]] = []

    def run(self, change: Change) -> None:
        if self._command is None:
            return
        queue = self._queues.get(change["alert"])
        if queue is None:
            queue = self._queues[change["alert"]] = asyncio.Queue(MAX_WAITING)
            self._workers.append(asyncio.create_task(self._work_off(self._command, queue)))
        try:
            queue.put_nowait(change)
        except asyncio.QueueFull:
            self._complain(change, f"does not run, since {MAX_WAITING} are waiting")

    async def finish(self) -> None:
        """Wait for the commands, for no longer than one may take."""
        try:
            async with asyncio.timeout(self._seconds):
                for queue in self._queues.values():
                    await queue.join()
        except TimeoutError:
            self._say("--on-alert: not all commands were run to their end")

    async def aclose(self) -> None:
        """Kill running commands and start no more."""
        for worker in self._workers:
            worker.cancel()
        await asyncio.gather(*self._workers, return_exceptions=True)

    async def _work_off(self, command: str, queue: asyncio.Queue[Change]) -> None:
        while True:
            change = await queue.get()
            try:
                # A file, since a pipe would have to be written while the command may not read it.
                with tempfile.TemporaryFile() as facts:
                    facts.write(json.dumps(change).encode() + b"\n")
                    facts.seek(0)
                    await self._run(command, change, facts)
            except OSError as error:
                self._complain(change, f"cannot run: {error.strerror or error}")
            finally:
                queue.task_done()

    async def _run(self, command: str, change: Change, facts: BinaryIO) -> None:
        process = await asyncio.create_subprocess_shell(
            command,
            stdin=facts,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is not for it, and what it starts can be ended with it.
        )
        try:
            async with asyncio.timeout(self._seconds):
                if code := await process.wait():
                    self._complain(change, f"ended with exit code {code}")
        except TimeoutError:
            self._complain(change, f"took more than {self._seconds:g} s, and was killed")
        finally:
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                with anyio.CancelScope(shield=True):
                    await process.wait()

    def _complain(self, change: Change, what: str) -> None:
        self._say(f"--on-alert {what}: {change['alert']}, {change['state']}")
