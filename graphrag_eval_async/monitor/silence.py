"""Alerts on logs that have fallen silent."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Literal

NO_LINES = "no lines"
"""The metric of such an alert: the seconds since the last line."""


class Silence:
    """An alert that starts when no line has come for `seconds`, and ends at the next line."""

    def __init__(self, text: str, seconds: float) -> None:
        self.text = text
        self.started: dict[str, Any] | None = None
        self._seconds = seconds
        self._since: float | None = None
        self._now = 0.0
        self._lines: object = None

    def resume(self, kept: dict[str, Any] | None, _now: float) -> None:
        """Restore the alert: it stays on until a line comes."""
        self.started = kept

    def look(self, now: float, lines: object) -> dict[str, Any] | None:
        """What changed, if anything; `lines` is another value than before if lines were read."""
        is_first, self._now = self._since is None, now
        if is_first or lines != self._lines:
            self._since, self._lines = now, lines
            if not is_first and self.started is not None:
                self.started = None
                return self.change("ended")
        elif self.started is None and self._silent >= self._seconds:
            self.started = self.change("started")
            return self.started
        return None

    @property
    def _silent(self) -> float:
        return self._now - (self._now if self._since is None else self._since)

    def change(self, state: Literal["started", "ended"]) -> dict[str, Any]:
        return {
            "alert": self.text,
            "state": state,
            "template": None,
            "metric": NO_LINES,
            "statistic": None,
            "value": self._silent,
            "bound": self._seconds,
            "window": {"seconds": self._seconds},
            "samples": 0,
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
        }
