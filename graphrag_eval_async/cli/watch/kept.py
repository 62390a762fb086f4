"""Keeps the state of `watch` beside its journal: which alerts are on, and were."""

from __future__ import annotations

import asyncio
import json
import os
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

SUFFIX = ".watch"
"""Of the name of the file, after that of the journal."""


class Kept:
    """The alerts that are on, and were, in a file beside the journal.

    Attributes:
        changed: to be set when an alert starts or ends.
    """

    def __init__(self, journal: str | None, alerts: Alerts, has_begun: Callable[[], bool]) -> None:
        """Read the file, if there is a journal; `has_begun` says whether its results are restored."""
        self.changed = asyncio.Event()
        self._path = None if journal is None else f"{journal}{SUFFIX}"
        self._alerts = alerts
        self._has_begun = has_begun
        self._earlier: dict[str, Change] | None = {} if self._path is None else _read(self._path, alerts)

    def resume(self) -> bool:
        """Restore the alerts of an earlier run once its results are restored; return whether they are."""
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


def _read(path: str, alerts: Alerts) -> dict[str, Change]:
    """The alerts that were on when the last run ended, however it ended, by their text; loads the log."""
    if not os.path.exists(path):
        return {}
    try:
        kept = json.loads(Path(path).read_bytes())
        active = {change["alert"]: change | {"time": str(change["time"])} for change in kept["alerts"]}
        alerts.log.extend({key: change[key] for key in LOGGED} for change in kept.get("log", ()))
        return active
    except OSError as error:
        raise UsageError(f"{path!r} cannot be read: {error.strerror}") from error
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        raise UsageError(
            f"{path!r} was not written by watch; delete it to begin without active alerts"
        ) from None
