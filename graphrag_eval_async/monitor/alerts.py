"""Alerts on the windowed mean or quantile of a metric: they start at a bound, and end when it recovers."""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from math import inf
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from graphrag_eval_async.aggregates import Last
from graphrag_eval_async.monitor.silence import NO_LINES, Silence
from graphrag_eval_async.monitor.statistic import Mean, Quantile
from graphrag_eval_async.monitor.windows import parse_duration, parse_window, window_facts
from graphrag_eval_async.records.conditions import OPERATORS, parse_condition
from graphrag_eval_async.records.metrics import ERROR_RATE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from graphrag_eval_async.aggregates import Seconds
    from graphrag_eval_async.records.results import Values

LOGGED = 50
"""How many changes of alerts are kept."""

Change: TypeAlias = dict[str, Any]
"""An alert that has started or ended, as JSON.

`value` is the `statistic` of the `samples` values in its window.
"""

_QUANTILE = re.compile(
    r"(?P<template>(?:.*:)?\s*)p(?P<percent>\d{1,3}(?:\.\d{1,3})?)\s+(?P<rest>[^\s:<>=!]+\s*[<>].*)",
    re.ASCII | re.DOTALL,
)
_NO_LINES = re.compile(r"\s*no\s+lines\s+for\s+(?P<time>\S+)\s*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """A condition on the mean or a quantile of the last values of one metric, of all results or a template's.

    Attributes:
        text: as it was given.
        template: None for all results.
        metric: its name, or ``error_rate``, or `NO_LINES`.
        operator: one of `OPERATORS`.
        bound: what the mean or quantile is compared with.
        window: which values count; None for the window of the view.
        quantile: between 0 and 1; None for the mean.
    """

    text: str
    template: str | None
    metric: str
    operator: str
    bound: float
    window: Last | Seconds | None
    quantile: Fraction | None = None

    @property
    def statistic(self) -> str:
        """What is compared with the bound, such as "mean" or "p95"."""
        return "mean" if self.quantile is None else f"p{float(self.quantile * 100):g}"


def parse_alert(text: str) -> Alert:
    """Parse ``[TEMPLATE:] [pNN] METRIC <|<=|>|>= VALUE [over WINDOW]`` or ``no lines for TIME``.

    A template's name may hold colons and spaces.

    Raises:
        ValueError: the text has another form.
    """
    if words := _NO_LINES.fullmatch(text):
        seconds = parse_duration(words["time"])
        return Alert(
            text=text.strip(), template=None, metric=NO_LINES, operator=">=", bound=seconds, window=None
        )
    parts = text.rsplit(maxsplit=2)
    has_window = parts[1:2] == ["over"]
    condition, quantile = _without_quantile(parts[0] if has_window else text)
    try:
        parsed = parse_condition(condition)
    except ValueError as error:
        raise ValueError(f"{error}; then optionally: over WINDOW. Or: no lines for TIME") from None
    if quantile is not None and parsed.metric == ERROR_RATE:
        raise ValueError(f"{text!r}: {ERROR_RATE} has no quantiles")
    window = parse_window(parts[2]) if has_window else None
    return Alert(text=text.strip(), **parsed._asdict(), window=window, quantile=quantile)


def _without_quantile(text: str) -> tuple[str, Fraction | None]:
    """Return a condition without the ``pNN`` before its metric, and what that stands for."""
    match = _QUANTILE.fullmatch(text)
    if match is None:
        return text, None
    percent = Fraction(match["percent"])
    if not 0 < percent < 100:
        raise ValueError(f"{text!r}: p{match['percent']} is not between p0 and p100, such as p95")
    return match["template"] + match["rest"], percent / 100


def summary(change: Change) -> str:
    value = "no values" if change["value"] is None else f"{change['value']:.4g}"
    return f"alert {change['state']}: {change['alert']}: {value}"


def message(change: Change) -> str:
    return f"{change['time']} {summary(change)}"


class Watched:
    """One alert, and the values in its window.

    It starts when the condition holds for a full window. A window of n values is full with n values; a window
    of s seconds is full s seconds after its first value. It ends when the condition has not held for n values
    or s seconds; then the window has to fill again. The condition never holds for a window without values.
    """

    def __init__(self, alert: Alert, window: Last | Seconds) -> None:
        self.alert = alert
        self.text = alert.text
        self.started: Change | None = None
        self._window = window
        # In the unit of positions.
        self._size = window.count if isinstance(window, Last) else window.seconds
        self._values: deque[tuple[float, float]] = deque()
        self._statistic = Mean() if alert.quantile is None else Quantile(alert.quantile)
        self._added = 0
        self._begin = inf  # of the window, as it fills
        self._held = -inf

    def add(self, value: float, now: float) -> Change | None:
        """Count a value and return what changed; `now` is in seconds, of any monotonic clock."""
        self._begin = min(self._begin, self._position(now))
        self._added += 1
        self._values.append((self._position(now), value))
        self._statistic.add(value)
        return self.look(now)

    def look(self, now: float) -> Change | None:
        """Return what changed, if anything: time may also pass without values."""
        position = self._position(now)
        while self._values and self._values[0][0] <= position - self._size:
            self._statistic.remove(self._values.popleft()[1])
        value = self.value
        alert = self.alert
        is_full = position - self._begin >= self._size
        if value is not None and is_full and OPERATORS[alert.operator](value, alert.bound):
            self._held = position
            if self.started is None:
                self.started = self.change("started")
                return self.started
        elif self.started is not None and position - self._held >= self._size:
            self.started = None
            self._begin = position
            return self.change("ended")
        return None

    def restore(self, value: float, arrived: float | None) -> None:
        """Count one value of an earlier run; None stands for a time before all windows."""
        if isinstance(self._window, Last):
            self.add(value, 0.0)
        elif arrived is not None:
            self.add(value, arrived)

    def resume(self, kept: Change | None, now: float) -> Change | None:
        """Restore the alert, None if it was off; return what has changed since.

        A window of seconds counts as full at once if the alert was on: it ends if it does not hold again.
        """
        is_on, self.started = self.started, kept
        if isinstance(self._window, Last):
            if is_on is None and kept is not None:
                self.started = None
                return self.change("ended")
            if is_on is not None and kept is None:
                self.started = self.change("started")
                return self.started
        elif kept is not None:
            self._begin, self._held = -inf, now
        return None

    @property
    def value(self) -> float | None:
        """The mean or quantile of the values in the window."""
        return self._statistic.value

    def change(self, state: Literal["started", "ended"]) -> Change:
        return {
            "alert": self.alert.text,
            "state": state,
            "template": self.alert.template,
            "metric": self.alert.metric,
            "statistic": self.alert.statistic,
            "value": self.value,
            "bound": self.alert.bound,
            "window": window_facts(self._window),
            "samples": len(self._values),
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
        }

    def _position(self, now: float) -> float:
        """Return the position in units of the window: values or seconds."""
        return self._added if isinstance(self._window, Last) else now


class Alerts:
    """All alerts of a run.

    Attributes:
        on_change: is called with each change.
        log: the latest changes, the newest first.
    """

    def __init__(self, alerts: Iterable[Alert], window: Last | Seconds) -> None:
        """`window` is for the alerts without one."""
        self.on_change: Callable[[Change], object] = lambda _: None
        self.log: deque[Change] = deque(maxlen=LOGGED)
        alerts = [*alerts]
        self._watched = [
            Watched(alert, alert.window or window) for alert in alerts if alert.metric != NO_LINES
        ]
        self._silences = [Silence(alert.text, alert.bound) for alert in alerts if alert.metric == NO_LINES]

    def _changed(self, change: Change) -> None:
        self.log.appendleft(change)
        self.on_change(change)

    def restore(self, template: str, values: Values, arrived: float | None, *, failed: bool) -> None:
        """Count one result of an earlier run; None stands for a time before all windows."""
        for watched, value in self._seen(template, values, failed=failed):
            watched.restore(value, arrived)

    def resume(self, kept: Mapping[str, Change], now: float) -> None:
        """Restore the alerts that were on at the end of an earlier run, after its results are restored."""
        for silence in self._silences:
            silence.resume(kept.get(silence.text), now)
        for watched in self._watched:
            if change := watched.resume(kept.get(watched.alert.text), now):
                self._changed(change)

    def add(self, template: str, values: Values, now: float, *, failed: bool) -> None:
        """Count one result: its template, its metrics with values, and whether it is an error."""
        for watched, value in self._seen(template, values, failed=failed):
            if change := watched.add(value, now):
                self._changed(change)

    def _seen(self, template: str, values: Values, *, failed: bool) -> Iterator[tuple[Watched, float]]:
        for watched in self._watched:
            alert = watched.alert
            if alert.template in (None, template):
                seen = [(ERROR_RATE, int(failed))] if alert.metric == ERROR_RATE else values
                for metric, value in seen:
                    if metric == alert.metric:
                        yield watched, value

    def look(self, now: float, lines: object = None) -> None:
        """Return what time alone has changed; `lines` differs from before if lines were read."""
        changes = [watched.look(now) for watched in self._watched]
        changes += [silence.look(now, lines) for silence in self._silences]
        for change in filter(None, changes):
            self._changed(change)

    def facts(self) -> list[Change]:
        """The alerts that have started and not ended: as they are now, with the time of their start."""
        return [
            watched.change("started") | {"time": watched.started["time"]}
            for watched in self._all
            if watched.started is not None
        ]

    def states(self) -> dict[str, bool]:
        """Whether each alert has started and not ended, by its text."""
        return {watched.text: watched.started is not None for watched in self._all}

    @property
    def _all(self) -> tuple[Watched | Silence, ...]:
        return *self._watched, *self._silences
