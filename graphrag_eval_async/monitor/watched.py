"""Watches alerts: they start at a bound, and end when what they watch recovers."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from math import inf
from typing import TYPE_CHECKING, Literal

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

LOGGED = 50  # changes that are kept


class Watched:
    """One alert, and the values in its `window`.

    It starts when the condition holds for a full window. A window of n values is full with n
    values; a window of s seconds is full s seconds after its first value. It ends when the
    condition has not held for n values or s seconds; then the window has to fill again. The
    condition never holds for a window without values. A mean is over the questions in the window,
    each the mean of its values there.
    """

    def __init__(self, alert: Alert, window: Last | Seconds) -> None:
        self.alert, self.window = alert, window
        self.started: Change | None = None
        # In the unit of positions: values or seconds.
        self._size = window.count if isinstance(window, Last) else window.seconds
        self._values: deque[tuple[float, object, float]] = deque()
        self._questions: dict[object, ValueSum] = {}
        self._units = 0  # The sum of the questions' means.
        self._sorted: list[float] = []  # The values, for a quantile.
        self._added = 0
        self._begin = inf  # of the window, as it fills
        self._is_full = False
        self._held = -inf

    def add(self, value: float, now: float, question: object = None) -> Change | None:
        """Count a value and return what changed; `now` is in seconds, of any monotonic clock."""
        self._begin = min(self._begin, self._position(now))
        self._added += 1
        question = question or self._added  # One of its own, if the result does not name it.
        self._values.append((self._position(now), question, value))
        self._move(question, value, 1)
        return self.look(now)

    def _move(self, question: object, value: float, count: int) -> None:
        """Add a value of a question, or with a `count` of -1 remove it."""
        if self.alert.percent is not None:
            if count > 0:
                insort(self._sorted, float(value))
            else:
                del self._sorted[bisect_left(self._sorted, float(value))]
            return
        before = self._questions.pop(question, ValueSum(exact_sum=0, count=0))
        after = ValueSum(before.exact_sum + count * to_fixed_point(value), before.count + count)
        if before.count:
            self._units -= to_fixed_point(mean_and_count(before)[0])
        if after.count:
            self._questions[question] = after
            self._units += to_fixed_point(mean_and_count(after)[0])

    def look(self, now: float, _: object = None) -> Change | None:
        """Return what changed, if anything: time may also pass without values."""
        position = self._position(now)
        while self._values and self._values[0][0] <= position - self._size:
            _, question, gone = self._values.popleft()
            self._move(question, gone, -1)
        value, alert = self._value(), self.alert
        self._is_full = position - self._begin >= self._size
        counts = self._is_full or self.started is not None
        if counts and value is not None and OPERATORS[alert.operator](value, alert.bound):
            self._held = position
            if self.started is None:
                self.started = self.change("started")
                return self.started
        elif self.started is not None and position - self._held >= self._size:
            self.started, self._begin = None, position
            return self.change("ended")
        return None

    def resume(self, started: Change, now: float) -> None:
        """Resume an alert that was active when an earlier run ended, with an empty window.

        It ends if its condition does not hold again within a window, for the values that are there.
        """
        self.started = started
        self._begin = self._held = self._position(now)

    def change(self, state: Literal["started", "ended"]) -> Change:
        value = self._value() if self._is_full else None
        return self.alert.change(state, value=value, window=self.window, samples=len(self._values))

    def _value(self) -> float | None:
        """The mean or quantile of the values, interpolated as in aggregates; None without
        values.
        """
        if not self._values:
            return None
        if self.alert.percent is None:
            return mean(self._units, len(self._questions), integral=False)
        return quantile(self._sorted.__getitem__, len(self._sorted), self.alert.percent)

    def _position(self, now: float) -> float:
        return self._added if isinstance(self.window, Last) else now


class Silence:
    """An alert that starts when no line has arrived for `bound` seconds, and ends at the next
    line.
    """

    def __init__(self, alert: Alert) -> None:
        self.alert = alert
        self.started: Change | None = None
        self._since = self._now = -inf
        self._lines: object = None

    def resume(self, started: Change, _now: float) -> None:
        """Resume an active alert: it stays active until a line arrives."""
        self.started = started

    def look(self, now: float, lines: object) -> Change | None:
        """What changed, if anything; `lines` is another value than before if lines were read."""
        is_first, self._now = self._since == -inf, now
        if is_first or lines != self._lines:
            self._since, self._lines = now, lines
            if not is_first and self.started is not None:
                self.started = None
                return self.change("ended")
        elif self.started is None and now - self._since >= self.alert.bound:
            self.started = self.change("started")
            return self.started
        return None

    def change(self, state: Literal["started", "ended"]) -> Change:
        silent = 0.0 if self._since == -inf else self._now - self._since
        return self.alert.change(state, value=silent, window=Seconds(self.alert.bound))


class Alerts:
    """All alerts of a run; `window` is for those without one, and `on_change` is called with
    each change.
    """

    def __init__(self, alerts: Iterable[Alert], window: Last | Seconds) -> None:
        self.on_change: Callable[[Change], object] = lambda _: None
        self.log: deque[Change] = deque(maxlen=LOGGED)  # The newest first.
        alerts = [*alerts]
        self._watched = [
            Watched(each, each.window or window) for each in alerts if each.metric != NO_LINES
        ]
        silences = [Silence(each) for each in alerts if each.metric == NO_LINES]
        self._all: list[Watched | Silence] = [*self._watched, *silences]

    def resume(self, kept: Mapping[str, Change], now: float) -> None:
        """Resume the alerts that were active at the end of an earlier run, by their texts."""
        for each in self._all:
            if (started := kept.get(each.alert.text)) is not None:
                each.resume(started, now)

    def add(self, seen: Evaluation, now: float) -> None:
        """Count one result."""
        values, failed = seen.values, [(ERROR_RATE, int(seen.failed))]
        for watched in self._watched:
            template, metric = watched.alert.template, watched.alert.metric
            if template is None or template == seen.template_id:
                for name, value in failed if metric == ERROR_RATE else values:
                    if (
                        name == metric
                        and (change := watched.add(value, now, seen.question_id)) is not None
                    ):
                        self._tell(change)

    def look(self, now: float, lines: object = None) -> None:
        """Update what time alone changes; `lines` differs from before if lines were read."""
        for each in self._all:
            if (change := each.look(now, lines)) is not None:
                self._tell(change)

    def _tell(self, change: Change) -> None:
        self.log.appendleft(change)
        self.on_change(change)

    def facts(self) -> list[Change]:
        """The alerts that have started and not ended: as they are now, with the time of their
        start.
        """
        return [
            each.change("started") | {"time": each.started["time"]}
            for each in self._all
            if each.started is not None
        ]

    def states(self) -> dict[str, bool]:
        """Whether each alert has started and not ended, by its text."""
        return {each.alert.text: each.started is not None for each in self._all}
