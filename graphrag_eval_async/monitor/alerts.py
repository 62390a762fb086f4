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

LEAST_SIMILARITY = 0.9
"""Similarity, from 0 to 1, from which on a name looks like another one with a typing error."""

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
        """Return the change that the alert starts or ends now, as JSON.

        Args:
            state: whether the alert starts or ends.
            value: the value of the watched statistic; None if the window has no values.
            window: the window.
            samples: number of values in the window.
        """
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

    NN is one of `QUANTILES`. The name of a template may hold colons and spaces.

    Raises:
        ValueError: the text has another form.
        UsageError: the text has the right form, but one of its parts is invalid.
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
    """Split the text of an alert into its condition and its window, which follows ``over``.

    Returns:
        The text of the condition, and the window; None if the alert names no window.

    Raises:
        ValueError: ``over`` is the last word, or what follows it is not a window.
    """
    # The last two words, and the text before them.
    words = text.rsplit(maxsplit=2)
    if words and words[-1] == "over":
        raise ValueError(f"{text!r}: expected a window after over, such as: over 200, or: over 5m")
    if len(words) == 3 and words[1] == "over":
        condition = words[0]
        return condition, parse_window(words[2])
    return text, None


def _parse_percent(percent: str, text: str) -> int:
    """Parse the number of a quantile.

    Args:
        percent: the digits after "p".
        text: the text of the alert, for messages.

    Raises:
        ValueError: the number is not one of `QUANTILES`.
    """
    for quantile in QUANTILES:
        if percent == str(quantile):
            return quantile
    names = [f"p{quantile}" for quantile in QUANTILES]
    all_but_last = ", ".join(names[:-1])
    raise ValueError(
        f"{text!r}: there is no quantile p{percent}, only {all_but_last} and {names[-1]}"
    )


def check_known(
    option: str,
    template: str | None,
    metric: str | None,
    templates: Collection[str],
    outputs: Iterable[str] | None = None,
) -> None:
    """Check that results can have the template and the metric that an option names.

    Args:
        option: the option, with which messages begin.
        template: the template; None if the option names no template.
        metric: the metric; None if the option names no metric.
        templates: the templates of the reference set; empty if they are not known.
        outputs: the outputs of custom evaluations; None if they are not known. Then an unknown
            metric may be one of them, and is an error only if it looks like a typing error in the
            name of a built-in metric.

    Raises:
        UsageError: no result can have the template or the metric.
    """
    if template is not None and templates and template not in templates:
        hint = did_you_mean(template, templates)
        raise UsageError(f"{option}: no template {template!r} in the reference set; {hint}")
    built_in = {ERROR_RATE, *filter(is_metric, RESULT_KEYS)}
    known = built_in.union(outputs or ())
    if metric is None or metric in known:
        return
    if outputs is not None or get_close_matches(metric, known, n=1, cutoff=LEAST_SIMILARITY):
        raise UsageError(
            f"{option}: no metric {metric!r}; "
            f"{did_you_mean(metric, sorted(known, key=metric_position))}"
        )


def message(change: Change) -> str:
    """A change in one line, after its time."""
    return f"{change['time']} alert {change['state']}: {change['alert']}: {value_of(change)}"
