"""What changes of alerts cause: a command that runs, and a file beside the journal that keeps
them.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections import Counter, defaultdict
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, NoReturn

from graphrag_eval_async.errors import UsageError
from graphrag_eval_async.sinks import write_report

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphrag_eval_async.monitor.alerts import Change
    from graphrag_eval_async.monitor.watched import Alerts

LOGGED = ("alert", "state", "value", "time")
"""Keys of the changes of alerts that are restored."""

COMMAND_SECONDS = 30.0
"""How long a command may run, and how long the end of a run waits for commands; chosen."""

MAX_WAITING = 100
"""How many changes of one alert may wait for their command; chosen."""


class AlertCommand:
    """Runs a shell command at each change of an alert, with the change as JSON on standard input.

    Commands for the same alert run one after another, those for different alerts concurrently.
    Their output
    is discarded: on a terminal, it would go through the view.
    """

    def __init__(
        self,
        command: str,
        say: Callable[[str], object],
        *,
        kill_after: float = COMMAND_SECONDS,
        wait_at_end: float = COMMAND_SECONDS,
    ) -> None:
        """Prepare to run `command`; `say` gets a message about each problem. Times are in
        seconds.
        """
        self._command = command
        self._say = say
        self._kill_after = kill_after
        self._wait_at_end = wait_at_end
        self._turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._waiting: Counter[str] = Counter()
        self._tasks: set[asyncio.Task[None]] = set()

    def add(self, change: Change) -> None:
        """Run the command for a change soon; must be called on the event loop."""
        alert = change["alert"]
        if self._waiting[alert] > MAX_WAITING:  # One of these is running.
            self._complain(change, f"is skipped, since {MAX_WAITING} are waiting")
            return
        self._waiting[alert] += 1
        task = asyncio.create_task(self._run_in_turn(change))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def finish(self) -> None:
        """Wait for commands that have not ended, but not for long."""
        if not self._tasks:
            return
        _, unfinished = await asyncio.wait(self._tasks, timeout=self._wait_at_end)
        if unfinished:
            self._say("--on-alert: not all were finished at the end")

    async def aclose(self) -> None:
        """Kill the commands that still run."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _run_in_turn(self, change: Change) -> None:
        alert = change["alert"]
        async with self._turns[alert]:
            try:
                problem = await self._run(change)
            finally:
                self._waiting[alert] -= 1
            if problem is not None:
                self._complain(change, problem)

    async def _run(self, change: Change) -> str | None:
        """Run the command; return what went wrong, if anything."""
        try:
            process = await asyncio.create_subprocess_shell(
                self._command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
                # Ctrl-C is not for it, and what it starts can be ended with it.
                start_new_session=True,
            )
        except OSError as error:
            return f"cannot run: {error.strerror or error}"
        try:
            async with asyncio.timeout(self._kill_after):
                await process.communicate(json.dumps(change).encode() + b"\n")
        except TimeoutError:
            return f"took more than {self._kill_after:g} s, and was killed"
        finally:
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                await process.wait()
        if process.returncode:
            return f"ended with exit code {process.returncode}"
        return None

    def _complain(self, change: Change, problem: str) -> None:
        self._say(f"--on-alert {problem}: {change['alert']}, {change['state']}")


class Kept:
    """The alerts that are on, and the latest changes, in a file beside the journal."""

    def __init__(self, journal: str | None, alerts: Alerts, has_begun: Callable[[], bool]) -> None:
        """Read the file, if there is a journal; `has_begun` says whether its results are
        restored.
        """
        self.changed = asyncio.Event()  # Set when an alert starts or ends.
        self._path = None if journal is None else Path(f"{journal}.watch")
        self._alerts, self._has_begun = alerts, has_begun
        self._earlier: dict[str, Change] | None = {}
        if self._path is not None and self._path.exists():
            self._earlier = _read(self._path, alerts)

    def resume(self) -> bool:
        """Restore the alerts of an earlier run once its results are restored; return whether
        they are.
        """
        if self._earlier is not None and self._has_begun():
            earlier, self._earlier = self._earlier, None
            self._alerts.resume(earlier, monotonic())
        return self._earlier is None

    async def keep(self) -> NoReturn:
        """Write the file at each change."""
        while True:
            await self.changed.wait()
            await self.write()

    async def write(self) -> None:
        """Write the file, if something has changed."""
        is_due = self.changed.is_set()
        self.changed.clear()
        if is_due and self._path is not None:
            kept = {"alerts": self._alerts.facts(), "log": [*self._alerts.log]}
            await write_report(self._path, json.dumps(kept) + "\n")


def _read(path: Path, alerts: Alerts) -> dict[str, Change]:
    """The alerts that were on when the last run ended, however it ended, by their text; loads
    the log.
    """
    try:
        kept = json.loads(path.read_bytes())
        active = {
            change["alert"]: change | {"time": str(change["time"])} for change in kept["alerts"]
        }
        alerts.log.extend({key: change[key] for key in LOGGED} for change in kept.get("log", ()))
        return active
    except OSError as error:
        raise UsageError(f"{str(path)!r} cannot be read: {error.strerror}") from error
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        problem = "was not written by watch; delete it to begin without active alerts"
        raise UsageError(f"{str(path)!r} {problem}") from None
