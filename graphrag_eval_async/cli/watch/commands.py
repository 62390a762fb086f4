"""Runs a command when an alert starts or ends."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import tempfile
from contextlib import suppress
from typing import TYPE_CHECKING

import anyio

from graphrag_eval_async.monitor.deliveries import DELIVERY_SECONDS

if TYPE_CHECKING:
    from typing import BinaryIO

    from graphrag_eval_async.monitor.alerts import Change


class ShellCommand:
    """Runs a shell command for a change of an alert, with the facts of the change as JSON on stdin.

    Its output is discarded: on a terminal, it would go through the view.
    """

    def __init__(self, command: str, *, seconds: float = DELIVERY_SECONDS) -> None:
        """The command is killed after `seconds`."""
        self._command = command
        self._seconds = seconds

    async def __call__(self, change: Change) -> str | None:
        """Run the command; return what went wrong, if anything."""
        try:
            # A file, since a pipe would have to be written while the command may not read it.
            with tempfile.TemporaryFile() as facts:
                facts.write(json.dumps(change).encode() + b"\n")
                facts.seek(0)
                return await self._run(facts)
        except OSError as error:
            return f"cannot run: {error.strerror or error}"

    async def _run(self, facts: BinaryIO) -> str | None:
        process = await asyncio.create_subprocess_shell(
            self._command,
            stdin=facts,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is not for it, and what it starts can be ended with it.
        )
        try:
            async with asyncio.timeout(self._seconds):
                code = await process.wait()
                return f"ended with exit code {code}" if code else None
        except TimeoutError:
            return f"took more than {self._seconds:g} s, and was killed"
        finally:
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                with anyio.CancelScope(shield=True):
                    await process.wait()
