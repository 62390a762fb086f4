"""Watches alerts: they start when their condition holds, and end when it no longer does."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from graphrag_eval_async.aggregates import Last, Seconds
from graphrag_eval_async.aggregates.exact import mean, to_fixed_point
from graphrag_eval_async.aggregates.ordered import quantile
from graphrag_eval_async.aggregates.questions import ValueSum, mean_and_count
from graphrag_eval_async.catalogue.conditions import OPERATORS
from graphrag_eval_async.catalogue.metrics import ERROR_RATE
from graphrag_eval_async.monitor.alerts import NO_LINES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from graphrag_eval_async.monitor.alerts import Alert, Change
    from graphrag_eval_async.records.evaluation import Evaluation

MAX_LOGGED = 50
"""Maximum number of changes of alerts that are kept: the latest."""

Question: TypeAlias = object
"""The id of a question; for a result that does not name its question, anything unique."""

NO_VALUES = ValueSum(exact_sum=0, count=0)


class WindowedValue(NamedTuple):
    """A value of a metric in the window of an alert.

    Attributes:
        position: when it came, in seconds, or its number among the values of the metric.
        question: its question.
        value: the value.
    """

    position: float
    question: Question
    value: float


class QuestionMean:
    """The mean over the questions in a window, each the mean of its values there."""

    def __init__(self) -> None:
        self._sums: dict[Question, ValueSum] = {}
        # The exact sum of the questions' means.
        self._sum_of_means = 0

    def add(self, question: Question, value: float) -> None:
        """Add a value of a question."""
        self._change(question, to_fixed_point(value), 1)

    def remove(self, question: Question, value: float) -> None:
        """Remove a value of a question, which was added before."""
        self._change(question, -to_fixed_point(value), -1)

    def value(self) -> float:
        """Return the mean; there must be a value."""
        return mean(self._sum_of_means, len(self._sums), integral=False)

    def _change(self, question: Question, sum_change: int, count_change: int) -> None:
        """Change the values of a question, and the sum of the means of all questions with them.

        Args:
            question: the question.
            sum_change: what is added to the sum of its values; negative to remove a value.
            count_change: what is added to the number of its values.
        """
        before = self._sums.pop(question, NO_VALUES)
        after = ValueSum(before.exact_sum + sum_change, before.count + count_change)
        if before.count:
            self._sum_of_means -= to_fixed_point(mean_and_count(before)[0])
        if after.count:
            self._sums[question] = after
            self._sum_of_means += to_fixed_point(mean_and_count(after)[0])


class Quantile:
    """A quantile of the values in a window, interpolated as in aggregates."""

    def __init__(self, percent: int) -> None:
        self._percent = percent
        self._sorted: list[float] = []

    def add(self, _question: Question, value: float) -> None:
        """Add a value."""
        insort(self._sorted, float(value))

    def remove(self, _question: Question, value: float) -> None:
        """Remove a value, which was added before."""
        del self._sorted[bisect_left(self._sorted, float(value))]

    def value(self) -> float:
        """Return the quantile; there must be a value."""
        return quantile(self._sorted.__getitem__, len(self._sorted), self._percent)


class Watched:
    """An alert on a metric, and the values of the metric in its window.

    The alert starts when its condition holds for a full window. A window of n values is full with n
    values; a window of s seconds is full s seconds after its first value. The alert ends when the
    condition has not held for n values or s seconds; then the window has to fill again. The
    condition never holds for a window without values.

    Attributes:
        alert: the alert.
        window: its window.
        started: what was told when it started; None if it is not active.
    """

    def __init__(self, alert: Alert, window: Last | Seconds) -> None:
        """Start with an inactive alert and an empty window."""
        self.alert = alert
        self.window = window
        self.started: Change | None = None
        # The size of the window: in seconds or, for a window of the last values, their number.
        # Positions have the same unit.
        self._size = window.count if isinstance(window, Last) else window.seconds
        self._values: deque[WindowedValue] = deque()
        self._statistic = QuestionMean() if alert.percent is None else Quantile(alert.percent)
        # Number of values so far, also those that have left the window.
        self._added = 0
        # The position from which on the window fills; None before the first value.
        self._filling_since: float | None = None
        self._is_full = False
        # The last position at which the condition held; None if it never did.
        self._last_held: float | None = None

    def add(self, value: float, now: float, question: Question = None) -> Change | None:
        """Count a value.

        Args:
            value: the value of the metric.
            now: the time in seconds, of any monotonic clock.
            question: the id of its question; None if the result does not name it.

        Returns:
            The change if the alert starts or ends; None if it does not.
        """
        if self._filling_since is None:
            self._filling_since = self._position(now)
        self._added += 1
        if not question:
            # The value counts as a question of its own. Ids are texts, so a number is no other id.
            question = self._added
        self._values.append(WindowedValue(self._position(now), question, value))
        self._statistic.add(question, value)
        return self.look(now)

    def look(self, now: float, _lines: object = None) -> Change | None:
        """Drop the values that have left the window, and start or end the alert.

        Args:
            now: the time in seconds.

        Returns:
            The change if the alert starts or ends; None if it does not.
        """
        position = self._position(now)
        while self._values and self._values[0].position <= position - self._size:
            old = self._values.popleft()
            self._statistic.remove(old.question, old.value)
        if self._filling_since is not None:
            self._is_full = position - self._filling_since >= self._size

        is_active = self.started is not None
        # An alert starts only over a full window. An active one may have an unfilled window after
        # the run was resumed.
        if (self._is_full or is_active) and self.holds():
            self._last_held = position
            if not is_active:
                self.started = self.change("started")
                return self.started
        elif is_active and self._has_recovered(position):
            self.started = None
            self._filling_since = position
            return self.change("ended")
        return None

    def resume(self, started: Change, now: float) -> None:
        """Make the alert active, as it was when an earlier run ended. Its window is empty.

        The alert ends unless its condition holds again before the window is full once.

        Args:
            started: the change with which the alert started in the earlier run.
            now: the time in seconds.
        """
        self.started = started
        self._filling_since = self._position(now)
        self._last_held = self._filling_since

    def change(self, state: Literal["started", "ended"]) -> Change:
        """Return what there is to tell when the alert starts or ends, which is now."""
        value = self._value() if self._is_full else None
        return self.alert.change(state, value=value, window=self.window, samples=len(self._values))

    def holds(self) -> bool:
        """Return whether the condition holds for the values in the window."""
        value = self._value()
        return value is not None and OPERATORS[self.alert.operator](value, self.alert.bound)

    def _has_recovered(self, position: float) -> bool:
        """Return whether the condition of an active alert has not held for a whole window."""
        return self._last_held is None or position - self._last_held >= self._size

    def _value(self) -> float | None:
        """Return the mean or the quantile of the values in the window; None without values."""
        if not self._values:
            return None
        return self._statistic.value()

    def _position(self, now: float) -> float:
        """Return the time or, in a window of values, the number of values so far."""
        return self._added if isinstance(self.window, Last) else now


class Silence:
    """An alert that starts when no line has arrived for `bound` seconds, and ends at the next line.

    Attributes:
        alert: the alert.
        started: what was told when it started; None if it is not active.
    """

    def __init__(self, alert: Alert) -> None:
        """Start with an inactive alert that has not been looked at."""
        self.alert = alert
        self.started: Change | None = None
        # The times of the first look at the present lines and of the latest look, in seconds of a
        # monotonic clock; None before the first look.
        self._silent_since: float | None = None
        self._latest_look: float | None = None
        self._lines: object = None

    def resume(self, started: Change, _now: float) -> None:
        """Make the alert active, as it was when an earlier run ended, until a line arrives."""
        self.started = started

    def look(self, now: float, lines: object) -> Change | None:
        """Start the alert if no line was read for its time, or end it if one was.

        Args:
            now: the time in seconds, of any monotonic clock.
            lines: any value that differs from that of the last call if lines were read since then.

        Returns:
            The change if the alert starts or ends; None if it does not.
        """
        is_first_look = self._silent_since is None
        self._latest_look = now
        if self._silent_since is None or lines != self._lines:
            self._silent_since = now
            self._lines = lines
            if self.started is not None and not is_first_look:
                self.started = None
                return self.change("ended")
        elif self.started is None and now - self._silent_since >= self.alert.bound:
            self.started = self.change("started")
            return self.started
        return None

    def change(self, state: Literal["started", "ended"]) -> Change:
        """Return the change that the alert starts or ends now, with the seconds without a line."""
        seconds = 0.0
        if self._silent_since is not None and self._latest_look is not None:
            seconds = self._latest_look - self._silent_since
        return self.alert.change(state, value=seconds, window=Seconds(self.alert.bound))

    def holds(self) -> bool:
        """Return whether no line has arrived for too long, which is so while it is active."""
        return self.started is not None


class Alerts:
    """All alerts of a run.

    Attributes:
        on_change: called when an alert starts or ends, with what there is to tell.
        log: the latest of these changes, the newest first.
    """

    def __init__(self, alerts: Iterable[Alert], window: Last | Seconds) -> None:
        """Watch alerts.

        Args:
            alerts: the alerts.
            window: the window of alerts that do not name one.
        """
        self.on_change: Callable[[Change], object] = lambda _: None
        self.log: deque[Change] = deque(maxlen=MAX_LOGGED)
        self._on_metrics: list[Watched] = []
        self._on_silence: list[Silence] = []
        for alert in alerts:
            if alert.metric == NO_LINES:
                self._on_silence.append(Silence(alert))
            else:
                self._on_metrics.append(Watched(alert, alert.window or window))

    @property
    def _all(self) -> list[Watched | Silence]:
        """All alerts that are watched."""
        return [*self._on_metrics, *self._on_silence]

    def resume(self, active: Mapping[str, Change], now: float) -> None:
        """Resume the alerts that were active at the end of an earlier run.

        Args:
            active: the changes with which they started, by the text of the alert.
            now: the time in seconds, of the clock of `add` and `look`.
        """
        for watched in self._all:
            started = active.get(watched.alert.text)
            if started is not None:
                watched.resume(started, now)

    def add(self, evaluation: Evaluation, now: float) -> None:
        """Count a result for the alerts on metrics.

        Args:
            evaluation: the result.
            now: the time at which it came, in seconds of any monotonic clock.
        """
        for watched in self._on_metrics:
            alert = watched.alert
            # An alert without a template is about all of them.
            if alert.template not in (None, evaluation.template_id):
                continue
            for value in _values_of(evaluation, alert.metric):
                self._tell(watched.add(value, now, evaluation.question_id))

    def look(self, now: float, lines: object = None) -> None:
        """Start and end the alerts that change with time alone, without a new result.

        Args:
            now: the time in seconds, of the clock of `add`.
            lines: any value that differs from that of the last call if lines were read since then.
        """
        for watched in self._all:
            self._tell(watched.look(now, lines))

    def facts(self) -> list[Change]:
        """Return the active alerts with their values as they are now, and when they started.

        `holds` tells whether the condition holds now: an alert stays active for a whole window.
        """
        return [
            watched.change("started") | {"time": watched.started["time"], "holds": watched.holds()}
            for watched in self._all
            if watched.started is not None
        ]

    def states(self) -> dict[str, bool]:
        """Return whether each alert is active, by its text."""
        return {watched.alert.text: watched.started is not None for watched in self._all}

    def _tell(self, change: Change | None) -> None:
        """Log a change and call `on_change` with it; None if there is none."""
        if change is not None:
            self.log.appendleft(change)
            self.on_change(change)


def _values_of(evaluation: Evaluation, metric: str) -> list[float]:
    """Return the values of a metric in a result: several if it is of retrieval steps.

    The value of the error rate is 1 for an error, and 0 for any other result.
    """
    if metric == ERROR_RATE:
        return [float(evaluation.failed)]
    return [value for name, value in evaluation.values if name == metric]
