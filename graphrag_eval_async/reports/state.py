"""The state of a run in one line: whether scores fell or rose, which, how far and since when."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.reports.history import EVERY, getting_worse

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from graphrag_eval_async.reports.history import Courses

RESULTS_BEFORE_VERDICT = 2 * EVERY
"""Number of results before which nothing is said about changes."""


class StateKind(StrEnum):
    """What the results so far say about changes of the scores."""

    WORSE = "worse"
    BETTER = "better"
    STEADY = "steady"
    TOO_EARLY = "too_early"
    NO_SCORES = "no_scores"


@dataclass(frozen=True, kw_only=True, slots=True)
class ScoreChange:
    """A score, or the error rate, that clearly changed during a run.

    Attributes:
        template: the template whose score changed; None for all results.
        metric: the name of the score, or ``error_rate``.
        before: the mean over the results before the change.
        after: the mean over the results since the change.
        since: when the first result after the change arrived; None if an earlier run made it.
        since_result: number of that result in the run, from 1.
        is_loss: whether the change is for the worse.
    """

    template: str | None
    metric: str
    before: float
    after: float
    since: datetime | None
    since_result: int
    is_loss: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class RunState:
    """The state of a run.

    Attributes:
        kind: whether the run got worse or better; worse, if it did both.
        text: the state in one line.
        since: when the first of the `changes` began; None without a change, or without its time.
        changes: what changed, losses first.
    """

    kind: StateKind
    text: str
    since: datetime | None = None
    changes: tuple[ScoreChange, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return the state as JSON has it; times are in ISO 8601."""
        state = asdict(self)
        state["kind"] = self.kind.value
        state["since"] = _iso_time(self.since)
        state["changes"] = [
            asdict(change) | {"since": _iso_time(change.since)} for change in self.changes
        ]
        return state


def _iso_time(time: datetime | None) -> str | None:
    """Return a time in ISO 8601, to the second; None for None."""
    if time is None:
        return None
    return time.isoformat(timespec="seconds")


def run_state(courses: Courses, scores: Sequence[str], level: float) -> RunState:
    """Return the state of a run.

    Args:
        courses: how the scores of all results and of templates moved.
        scores: the scores that are watched for changes.
        level: confidence level of "worse" and "better", for all looks and changes together.
    """
    results = courses.overall.results
    if results < RESULTS_BEFORE_VERDICT:
        return RunState(
            kind=StateKind.TOO_EARLY,
            text=f"Too early to say: {results} of about {RESULTS_BEFORE_VERDICT} results",
        )
    if not scores:
        return RunState(kind=StateKind.NO_SCORES, text="No result has a score")
    verdict = getting_worse(courses, scores, level)
    if verdict.startswith("yes: "):
        text = verdict.removeprefix("yes: ")
        return RunState(kind=StateKind.WORSE, text=f"Getting worse: {text}")
    if verdict.startswith("no, better: "):
        text = verdict.removeprefix("no, better: ")
        return RunState(kind=StateKind.BETTER, text=f"Getting better: {text}")
    return RunState(kind=StateKind.STEADY, text="Steady")
