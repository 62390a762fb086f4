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
        # For each alert, a lock that the running command holds, and the number of commands that
        # run or wait.
        self._turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._unfinished: Counter[str] = Counter()
        self._tasks: set[asyncio.Task[None]] = set()

    def add(self, change: Change) -> None:
        """Start a task that runs the command for a change; must be called on the event loop."""
        alert = change["alert"]
        # One of the unfinished commands is running, so that one less is waiting.
        if self._unfinished[alert] - 1 >= MAX_WAITING:
            self._complain(change, f"is skipped, since {MAX_WAITING} are waiting")
            return
        self._unfinished[alert] += 1
        task = asyncio.create_task(self._run_in_turn(change))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def finish(self) -> None:
        """Wait at most `wait_at_end` seconds for the commands that have not ended."""
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
                self._unfinished[alert] -= 1
            if problem is not None:
                self._complain(change, problem)

    async def _run(self, change: Change) -> str | None:
        """Run the command with `change` as its input.

        Returns:
            What went wrong; None if the command ended with exit code 0.
        """
        try:
            process = await asyncio.create_subprocess_shell(
                self._command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
                # In a session of its own, the command does not get Ctrl-C, and the processes that
                # it starts can be killed together with it.
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
        """Read the file, if it exists, and add its changes to the log of `alerts`.

        Args:
            journal: the path of the journal, beside which the file stands; None for no file.
            alerts: the alerts of the run.
            is_restored: returns whether the results of the journal are counted.

        Raises:
            UsageError: the file cannot be read, or was not written by `watch`.
        """
        self.changed = asyncio.Event()
        self._path: Path | None = None
        self._alerts = alerts
        self._is_restored = is_restored
        # The alerts that were active at the end of the earlier run, by their texts; None once
        # `resume` has handed them to `alerts`.
        self._earlier: dict[str, Change] | None = {}
        if journal is not None:
            self._path = Path(f"{journal}.watch")
            if self._path.exists():
                self._earlier = _read_active_alerts(self._path, alerts)

    def resume(self) -> bool:
        """Resume the alerts of the earlier run, if its results are counted by now.

        Returns:
            Whether the alerts are resumed, by this call or an earlier one.
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
        """Write the file, if an alert has started or ended since it was last written."""
        has_changed = self.changed.is_set()
        # A change that comes while the file is written is for the next call.
        self.changed.clear()
        if has_changed and self._path is not None:
            content = {"alerts": self._alerts.facts(), "log": [*self._alerts.log]}
            await write_report(self._path, json.dumps(content) + "\n")


def _read_active_alerts(path: Path, alerts: Alerts) -> dict[str, Change]:
    """Read the active alerts and the log of changes that an earlier run has written.

    The changes are added to the log of `alerts`.

    Returns:
        The change that started each active alert, by the text of the alert.

    Raises:
        UsageError: the file cannot be read, or was not written by `watch`.
    """
    try:
        content = json.loads(path.read_bytes())
        active = {}
        for change in content["alerts"]:
            active[change["alert"]] = change | {"time": str(change["time"])}
        # A file of an older version has no log.
        for change in content.get("log", ()):
            alerts.log.append({key: change[key] for key in KEYS_OF_CHANGES})
    except OSError as error:
        raise UsageError(f"{str(path)!r} cannot be read: {error.strerror}") from error
    # These are the errors of text that is not JSON, or JSON of another kind.
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        problem = "was not written by watch; delete it to begin without active alerts"
        raise UsageError(f"{str(path)!r} {problem}") from None
    return active
