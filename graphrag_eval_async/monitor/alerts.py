"""Alerts on the windowed mean or quantile of a metric, or on logs that have fallen silent."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from graphrag_eval_async.aggregates.series import QUANTILES
from graphrag_eval_async.catalogue.conditions import parse_condition
from graphrag_eval_async.catalogue.metrics import (
    ERROR_RATE,
    RESULT_KEYS,
    is_metric,
    metric_position,
)
from graphrag_eval_async.errors import UsageError
from graphrag_eval_async.helpers.durations import parse_duration
from graphrag_eval_async.helpers.text import did_you_mean
from graphrag_eval_async.reports.windows import parse_window, window_facts
from graphrag_eval_async.reports.wording import value_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from graphrag_eval_async.aggregates import Last, Seconds

NO_LINES = "no lines"  # The metric of alerts on silence: the seconds since the last line.

Change: TypeAlias = dict[str, Any]
"""An alert that has started or ended, as JSON.

`value` is the `statistic` of the `samples` in its window; None before the window is full, or
without samples.
"""

_QUANTILE = re.compile(
    r"(?P<template>(?:.*:)?\s*)p(?P<percent>\d+(?:\.\d+)?)\s+(?P<condition>[^\s:<>=!]+\s*[<>].*)",
    re.ASCII | re.DOTALL,
)
_NO_LINES = re.compile(r"\s*no\s+lines\s+for\s+(\S+)\s*")


class Alert(NamedTuple):
    """A condition on the mean or a quantile of the last values of a metric, of all results or a
    template.
    """

    text: str  # as it was given
    template: str | None  # None for all results
    metric: str  # or ``error_rate``, or `NO_LINES`
    operator: str  # one of `OPERATORS`
    bound: float  # what the mean or quantile is compared with
    window: Last | Seconds | None  # of the values that count; None for the window of the view
    percent: int | None = None  # one of `QUANTILES`; None for the mean

    def change(
        self,
        state: Literal["started", "ended"],
        *,
        value: float | None,
        window: Last | Seconds,
        samples: int = 0,
    ) -> Change:
        """Return what there is to tell when the alert starts or ends, which is now."""
        statistic = "mean" if self.percent is None else f"p{self.percent}"
        return {
            "alert": self.text,
            "state": state,
            "template": self.template,
            "metric": self.metric,
            "statistic": None if self.metric == NO_LINES else statistic,
            "value": value,
            "bound": self.bound,
            "window": window_facts(window),
            "samples": samples,
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
        }


def parse_alert(text: str) -> Alert:
    """Parse ``[TEMPLATE:] [pNN] METRIC <|<=|>|>= VALUE [over WINDOW]`` or ``no lines for TIME``.

    NN is one of `QUANTILES`. A template's name may hold colons and spaces.
    """
    silence = _NO_LINES.fullmatch(text)
    if silence is not None:
        return Alert(
            text=text.strip(),
            template=None,
            metric=NO_LINES,
            operator=">=",
            bound=parse_duration(silence[1]),
            window=None,
        )

    condition_text, window = _split_window(text)
    percent = None
    quantile = _QUANTILE.fullmatch(condition_text)
    if quantile is not None:
        condition_text = quantile["template"] + quantile["condition"]
        percent = _parse_percent(quantile["percent"], text)
    try:
        condition = parse_condition(condition_text)
    except UsageError:
        # The condition has the right form, and something else is wrong.
        raise
    except ValueError as error:
        raise ValueError(f"{error}; then optionally: over WINDOW. Or: no lines for TIME") from None
    if percent is not None and condition.metric == ERROR_RATE:
        raise ValueError(f"{text!r}: {ERROR_RATE} has no quantiles")
    return Alert(
        text=text.strip(),
        template=condition.template,
        metric=condition.metric,
        operator=condition.operator,
        bound=condition.bound,
        window=window,
        percent=percent,
    )


def _split_window(text: str) -> tuple[str, Last | Seconds | None]:
    """Return the condition of an alert, and the window after ``over``; None without a window.

    Raises:
        ValueError: nothing, or no window, follows ``over``.
    """
    words = text.rsplit(maxsplit=2)
    if words[-1:] == ["over"]:
        raise ValueError(f"{text!r}: expected a window after over, such as: over 200, or: over 5m")
    if len(words) == 3 and words[1] == "over":
        return words[0], parse_window(words[2])
    return text, None


def _parse_percent(percent: str, text: str) -> int:
    """Return one of `QUANTILES`; any other is a `ValueError` about the alert `text`."""
    for known in QUANTILES:
        if percent == str(known):
            return known
    *others, last = QUANTILES
    expected = ", ".join(f"p{known}" for known in others)
    raise ValueError(f"{text!r}: there is no quantile p{percent}, only {expected} and p{last}")


def check_known(
    option: str,
    template: str | None,
    metric: str | None,
    templates: Collection[str],
    outputs: Iterable[str] | None = None,
) -> None:
    """Raise a `UsageError` that begins with `option` if no result can have this template or metric.

    Without the `outputs` of custom evaluations, only a metric nearly named as a built-in one is an
    error.
    """
    if template is not None and templates and template not in templates:
        hint = did_you_mean(template, templates)
        raise UsageError(f"{option}: no template {template!r} in the reference set; {hint}")
    known = {ERROR_RATE, *filter(is_metric, RESULT_KEYS), *(outputs or ())}
    if metric is None or metric in known:
        return
    if outputs is not None or get_close_matches(metric, known, 1, 0.9):
        raise UsageError(
            f"{option}: no metric {metric!r}; "
            f"{did_you_mean(metric, sorted(known, key=metric_position))}"
        )


def message(change: Change) -> str:
    """A change in one line, after its time."""
    return f"{change['time']} alert {change['state']}: {change['alert']}: {value_of(change)}"
