"""How far a run is: its phase, the questions answered, the rate, and the time left."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.helpers.text import counted

if TYPE_CHECKING:
    from datetime import datetime


class Phase(StrEnum):
    """What a run does at the moment."""

    RESTORING = "restoring"
    """It counts the results of an earlier run."""
    RUNNING = "running"
    WAITING = "waiting for lines"
    """All that was read is evaluated, and nothing more has arrived for a while."""
    ENDED = "ended"


@dataclass(frozen=True, kw_only=True, slots=True)
class RunProgress:
    """How far a run is.

    Attributes:
        phase: what the run does at the moment.
        results: number of results, with those of earlier runs.
        errors: how many of the results are errors of the agent.
        rejected: number of lines that were not evaluated.
        done: number of questions of the reference set with a response.
        total: number of questions of the reference set; None without one.
        missing: number of questions without a response.
        rate: results per second of late.
        eta_seconds: about how many seconds are left until each question has a response; None if
            nobody knows.
        since: when the phase began; None if nobody knows.
    """

    phase: Phase
    results: int
    errors: int = 0
    rejected: int = 0
    done: int = 0
    total: int | None = None
    missing: int = 0
    rate: float = 0.0
    eta_seconds: float | None = None
    since: datetime | None = None

    @property
    def text(self) -> str:
        """The progress in one line."""
        match self.phase:
            case Phase.RESTORING:
                return f"restoring the results of an earlier run: {self.results:,} so far"
            case Phase.ENDED:
                return f"ended after {counted(self.results, 'result')}"
            case Phase.WAITING:
                since = "" if self.since is None else f" since {self.since:%H:%M} UTC"
                return f"waiting for lines{since}, after {counted(self.results, 'result')}"
        return ", ".join(self._running_parts())

    def _running_parts(self) -> list[str]:
        """Return the parts of the line of a run that goes on."""
        parts = [self._counts(), f"{self.rate:.1f} results/s"]
        if self.eta_seconds is not None:
            parts.append(f"about {duration_in_words(self.eta_seconds)} left")
        return parts

    def _counts(self) -> str:
        """Return how many questions were answered and, if some were several times, how many results
        there are.
        """
        results = counted(self.results, "result")
        if self.total is None:
            return results
        questions = counted(self.total, "question")
        if self.results <= self.done:
            return f"{self.done:,} of {questions}"
        if self.done == self.total:
            return f"{results} of {questions}"
        return f"{results}, {self.done:,} of {questions}"

    def as_dict(self) -> dict[str, Any]:
        """Return the progress as JSON has it, with its `text`; times are in ISO 8601."""
        progress = asdict(self)
        progress["phase"] = self.phase.value
        if self.since is not None:
            progress["since"] = self.since.isoformat(timespec="seconds")
        progress["text"] = self.text
        return progress


def duration_in_words(seconds: float) -> str:
    """Return about how long a duration is, such as "40 s", "3 min" or "1 h 20 min"."""
    if seconds < 60:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"
