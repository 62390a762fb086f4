"""Alerts on the windowed mean or quantile of a metric, or on logs that have fallen silent."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import get_close_matches
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from graphrag_eval_async.errors import UsageError
from graphrag_eval_async.monitor.windows import parse_duration, parse_window, window_facts
from graphrag_eval_async.records.conditions import parse_condition
from graphrag_eval_async.records.metrics import ERROR_RATE, RESULT_KEYS, is_metric
from graphrag_eval_async.records.shapes import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from graphrag_eval_async.aggregates import Last, Seconds

NO_LINES = "no lines"
"""The metric of alerts on silence: the seconds since the last line."""

Change: TypeAlias = dict[str, Any]
"""An alert that has started or ended, as JSON; `value` is the `statistic` of the `samples` in its window."""

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
    def statistic(self) -> str | None:
        """What is compared with the bound, such as "mean" or "p95"; None for `NO_LINES`."""
        if self.metric == NO_LINES:
            return None
        return "mean" if self.quantile is None else f"p{float(self.quantile * 100):g}"

    def change(
        self,
        state: Literal["started", "ended"],
        *,
        value: float | None,
        window: Last | Seconds,
        samples: int = 0,
    ) -> Change:
        """Return what there is to tell when the alert starts or ends, which is now."""
        return {
            "alert": self.text,
            "state": state,
            "template": self.template,
            "metric": self.metric,
            "statistic": self.statistic,
            "value": value,
            "bound": self.bound,
            "window": window_facts(window),
            "samples": samples,
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
        }


def parse_alert(text: str) -> Alert:
    """Parse ``[TEMPLATE:] [pNN] METRIC <|<=|>|>= VALUE [over WINDOW]`` or ``no lines for TIME``.

    A template's name may hold colons and spaces.
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
    except UsageError:  # Of the right form.
        raise
    except ValueError as error:
        raise ValueError(f"{error}; then optionally: over WINDOW. Or: no lines for TIME") from None
    if quantile is not None and parsed.metric == ERROR_RATE:
        raise ValueError(f"{text!r}: {ERROR_RATE} has no quantiles")
    window = parse_window(parts[2]) if has_window else None
    return Alert(text=text.strip(), **parsed._asdict(), window=window, quantile=quantile)


def _without_quantile(text: str) -> tuple[str, Fraction | None]:
    """A condition without the ``pNN`` before its metric, and what that stands for."""
    match = _QUANTILE.fullmatch(text)
    if match is None:
        return text, None
    percent = Fraction(match["percent"])
    if not 0 < percent < 100:
        raise ValueError(f"{text!r}: p{match['percent']} is not between p0 and p100, such as p95")
    return match["template"] + match["rest"], percent / 100


def check_known(
    option: str,
    template: str | None,
    metric: str | None,
    templates: Collection[str],
    outputs: Iterable[str] | None = None,
) -> None:
    """Raise a `UsageError` that begins with `option` if no result can have this template or metric.

    `outputs` are the metrics of custom evaluations; if they are not known, only a metric whose name is nearly
    that of a built-in one is an error.
    """
    if template is not None and templates and template not in templates:
        hint = did_you_mean(template, templates)
        raise UsageError(f"{option}: no template {template!r} in the reference set; {hint}")
    known = {ERROR_RATE, *filter(is_metric, RESULT_KEYS), *(outputs or ())}
    if metric is None or metric in known:
        return
    if outputs is not None or get_close_matches(metric, known, 1, 0.9):
        raise UsageError(f"{option}: no metric {metric!r}; {did_you_mean(metric, sorted(known))}")


def summary(change: Change) -> str:
    value = "no values" if change["value"] is None else f"{change['value']:.4g}"
    return f"alert {change['state']}: {change['alert']}: {value}"


def message(change: Change) -> str:
    return f"{change['time']} {summary(change)}"
