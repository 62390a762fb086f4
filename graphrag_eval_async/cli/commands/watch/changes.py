"""What follows when an alert starts or ends: a command runs, and a file keeps the alerts."""

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

KEYS_OF_CHANGES = ("alert", "state", "value", "time")
"""The keys of a change of an alert that are restored from the file."""

COMMAND_SECONDS = 30.0
"""How long a command may run, and how long the end of a run waits for commands; chosen."""

MAX_WAITING = 100
"""How many changes of one alert may wait for their command; chosen."""


class AlertCommand:
    """Runs a shell command at each change of an alert, with the change as JSON on standard input.

    Commands for the same alert run one after another, those for different alerts concurrently.
    Their output is discarded: on a terminal, it would go through the view.
    """

    def __init__(
        self,
        command: str,
        say: Callable[[str], object],
        *,
        kill_after: float = COMMAND_SECONDS,
        wait_at_end: float = COMMAND_SECONDS,
    ) -> None:
        """Prepare to run a command.

        Args:
            command: the command, which a shell runs.
            say: gets a message about each problem.
            kill_after: seconds after which the command is killed.
            wait_at_end: seconds for which the end of the run waits for commands.
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
        # One of these is running, the others wait.
        if self._waiting[alert] > MAX_WAITING:
            self._complain(change, f"is skipped, since {MAX_WAITING} are waiting")
            return
        self._waiting[alert] += 1
        task = asyncio.create_task(self._run_in_turn(change))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def finish(self) -> None:
        """Wait for commands that have not ended, at most `wait_at_end` seconds."""
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
        """Run the command after those for earlier changes of the same alert."""
        alert = change["alert"]
        async with self._turns[alert]:
            try:
                problem = await self._run(change)
            finally:
                self._waiting[alert] -= 1
            if problem is not None:
                self._complain(change, problem)

    async def _run(self, change: Change) -> str | None:
        """Run the command, and return what went wrong; None if nothing did."""
        try:
            process = await asyncio.create_subprocess_shell(
                self._command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
                # Ctrl-C does not reach it, and the processes that it starts can be ended with it.
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
        """Say what went wrong with the command for a change."""
        self._say(f"--on-alert {problem}: {change['alert']}, {change['state']}")


class AlertFile:
    """Keeps the alerts of a run in a file beside its journal, so that a later run resumes them.

    Without a journal, there is no file, and nothing to resume.

    Attributes:
        changed: is set when an alert starts or ends.
    """

    def __init__(
        self, journal: str | None, alerts: Alerts, is_restored: Callable[[], bool]
    ) -> None:
        """Read the file, if there is one, and load the log of changes from it.

        Args:
            journal: the path of the journal; None without one.
            alerts: the alerts of the run.
            is_restored: returns whether the results of the journal are counted.

        Raises:
            UsageError: the file cannot be read, or was not written by `watch`.
        """
        self.changed = asyncio.Event()
        self._path: Path | None = None
        self._alerts = alerts
        self._is_restored = is_restored
        # The active alerts of the earlier run, by their texts; None once they are resumed.
        self._earlier: dict[str, Change] | None = {}
        if journal is not None:
            self._path = Path(f"{journal}.watch")
            if self._path.exists():
                self._earlier = _read_active_alerts(self._path, alerts)

    def resume(self) -> bool:
        """Resume the alerts of the earlier run once its results are counted.

        Returns:
            Whether they are resumed, now or before.
        """
        if self._earlier is not None and self._is_restored():
            earlier = self._earlier
            self._earlier = None
            self._alerts.resume(earlier, monotonic())
        return self._earlier is None

    async def write_changes(self) -> NoReturn:
        """Write the file at each change."""
        while True:
            await self.changed.wait()
            await self.write()

    async def write(self) -> None:
        """Write the file, if something has changed since it was written."""
        has_changed = self.changed.is_set()
        self.changed.clear()
        if has_changed and self._path is not None:
            content = {"alerts": self._alerts.facts(), "log": [*self._alerts.log]}
            await write_report(self._path, json.dumps(content) + "\n")


def _read_active_alerts(path: Path, alerts: Alerts) -> dict[str, Change]:
    """Return the alerts that were active when the last run ended, however it ended, by their texts.

    Also adds the changes in the file to the log of `alerts`.

    Raises:
        UsageError: the file cannot be read, or was not written by `watch`.
    """
    try:
        content = json.loads(path.read_bytes())
        active = {
            change["alert"]: change | {"time": str(change["time"])} for change in content["alerts"]
        }
        for change in content.get("log", ()):
            alerts.log.append({key: change[key] for key in KEYS_OF_CHANGES})
    except OSError as error:
        raise UsageError(f"{str(path)!r} cannot be read: {error.strerror}") from error
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        problem = "was not written by watch; delete it to begin without active alerts"
        raise UsageError(f"{str(path)!r} {problem}") from None
    return active
