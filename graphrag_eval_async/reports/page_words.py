"""Words and numbers of the live page, which its parts share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphrag_eval_async.catalogue.metrics import is_score, metric_position
from graphrag_eval_async.helpers.text import counted, number
from graphrag_eval_async.reports.progress import duration_in_words

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_CARDS = 6
"""Maximum number of scores that have a card and a column in the table of templates."""

LEAST_CHANGE = 0.0005
"""Least change that is shown: a smaller one is 0 in three digits."""


def window_in_words(window: Mapping[str, Any]) -> str:
    """Return which results are recent, such as "last 200 results" or "last 5 min"."""
    if "last" in window:
        return f"last {counted(window['last'], 'result')}"
    return f"last {duration_in_words(window['seconds'])}"


def score_text(value: float) -> str:
    """Return a mean as text: with three decimals or, from 100 on, with four digits or more."""
    if abs(value) < 100:
        return f"{value:.3f}"
    return number(value)


def amount_text(value: float) -> str:
    """Return an amount, such as a number of tokens or seconds, in three digits or more.

    Such as "0.123", "12,345" or "1.23 million".
    """
    for size, name in ((1e9, "billion"), (1e6, "million")):
        if abs(value) >= size:
            return f"{value / size:,.3g} {name}"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def share_text(value: float) -> str:
    """Return a share from 0 to 1 in percent, such as "12.5%"."""
    return f"{value:.1%}"


def signed_change(change: float) -> str:
    """Return a change with its sign; "±0" for one too small to be seen."""
    if abs(change) < LEAST_CHANGE:
        return "±0"
    return f"{change:+.3f}".replace("-", "\N{MINUS SIGN}")


def covers_all(facts: Mapping[str, Any]) -> bool:
    """Return whether all results are recent, so that the recent mean is the mean of all results.

    Args:
        facts: the state of the run.
    """
    samples = facts["overall"]["samples"]
    has_window = bool(facts["window"])
    return not has_window or samples["window"] == samples["total"]


def scores_of(overall: Mapping[str, Any]) -> list[str]:
    """Return the names of the scores that have a value, the most important first.

    Args:
        overall: the state of all results.
    """
    return sorted(filter(is_score, overall["metrics"]), key=metric_position)
