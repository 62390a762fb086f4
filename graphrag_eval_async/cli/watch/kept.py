"""Which alerts are on, in a file beside the journal: the next run ends those that no longer hold."""

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

    from graphrag_eval_async.cli.watch.alerts import Alerts, Change

SUFFIX = ".alerts"
"""Of the name of the file, after that of the journal."""


class Kept:
    """The alerts that are on, which outlive the process.

    Attributes:
        changed: to be set when an alert starts or ends.
    """

    def __init__(self, path: str | None, alerts: Alerts, has_begun: Callable[[], bool]) -> None:
        """Read the file, if there is a path.

        `has_begun` says whether the results of an earlier run are restored.

        Raises:
            UsageError: the file cannot be read, or has something else.
        """
        self.changed = asyncio.Event()
        self._path = path
        self._alerts = alerts
        self._has_begun = has_begun
        self._earlier: dict[str, Change] | None = {} if path is None else _read(path)

    def resume(self) -> bool:
        """Go on with the alerts of an earlier run once its results are restored; returns whether they are."""
        if self._earlier is not None and self._has_begun():
            earlier, self._earlier = self._earlier, None
            self._alerts.resume(earlier, monotonic())
        return self._earlier is None

    async def keep(self) -> NoReturn:
        """Write the file at each change.

        Raises:
            OSError: it cannot be written.
        """
        while True:
            await self.changed.wait()
            await self.write()

    async def write(self) -> None:
        """Write the file, if something has changed.

        Raises:
            OSError: it cannot be written.
        """
        is_due = self.changed.is_set()
        self.changed.clear()
        if is_due and self._path is not None:
            await write_report(self._path, json.dumps(self._alerts.facts()) + "\n")


def _read(path: str) -> dict[str, Change]:
    """The alerts that were on when the last run ended, however it ended, by their text."""
    if not os.path.exists(path):
        return {}
    try:
        kept = json.loads(Path(path).read_bytes())
        return {change["alert"]: change | {"time": str(change["time"])} for change in kept}
    except OSError as error:
        raise UsageError(f"{path!r} cannot be read: {error.strerror}") from error
    except (ValueError, TypeError, KeyError, RecursionError):
        raise UsageError(
            f"{path!r} does not hold the alerts of an earlier run; without this file, none is taken to be on"
        ) from None
