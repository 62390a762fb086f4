"""The cells of tables on the screen: values, changes, bars and trends as text."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Any

from rich.text import Text

from graphrag_eval_async.catalogue.metrics import ERROR_RATE, is_score
from graphrag_eval_async.helpers.durations import duration_name
from graphrag_eval_async.helpers.text import dollars, number, one_line
from graphrag_eval_async.records.snapshots import interval_of_mean, mean_of_questions

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from graphrag_eval_async.reports.history import Course

TREND_BARS = "▁▂▃▄▅▆▇█"
"""Bars for values from 0 to 1."""

BAR_PARTS = " ▏▎▍▌▋▊▉"
"""Beginnings of a cell, from none of it to seven eighths."""

BAR_CELLS = 10
"""Width of a bar whose value is 1."""

TREND_SHARE = 8
"""Each point of a trend is over this part of all results: few values vary by chance alone."""

LEAST_CHANGE = 0.0005
"""Least change of a score that is shown: a smaller one is 0 in three digits."""

LEAST_TWO_DIGITS = 0.025
"""Half-width of an interval from which two digits are enough."""

MAX_CHARACTERS = 300
"""Maximum number of characters of a text: more than a line has."""

COST = "cost"
"""The key of the cost of judging a result, in the facts of a group of results."""

ERROR_RATE_HEADING = "error rate"
RESOURCE_HEADINGS = {"total_tokens": "tokens", "elapsed_sec": "seconds", COST: "cost"}
"""The resources that are shown, with their names on the screen."""


def value_text(metric: str, value: float | None, *, digits: int = 3) -> str:
    """Return a value of a metric as text; "" for None.

    Args:
        metric: the metric, on which the unit depends.
        value: the value.
        digits: number of decimal places of a score.
    """
    if value is None:
        return ""
    if metric == ERROR_RATE:
        return f"{value:.1%}"
    if metric == COST:
        return dollars(value)
    # Custom evaluations may have greater scores, which need fewer decimal places.
    if is_score(metric) and abs(value) <= 1:
        return f"{value:.{digits}f}"
    return number(value)


def heading_of(metric: str) -> str:
    """Return the name of a metric on the screen."""
    if metric == ERROR_RATE:
        return ERROR_RATE_HEADING
    return RESOURCE_HEADINGS.get(metric) or printable(metric)


def is_quality(metric: str) -> bool:
    """Return whether a metric measures how good answers are: a score, or the error rate."""
    return is_score(metric) and metric != COST


def change_text(
    state: Mapping[str, Any],
    template: str | None,
    metric: str,
    *,
    recent: float | None,
    mean: float | None,
) -> Text:
    """Return how a metric changed.

    - If it clearly changed, the text is an arrow and the value before, in colour.
    - Otherwise, it is the recent mean minus the mean of all results, dimmed.

    Args:
        state: the state of the run, with its clear changes.
        template: the template; None for all results.
        metric: the metric.
        recent: its mean over the window; None if there is no window.
        mean: its mean over all results; None if no result has the metric.
    """
    for change in state["changes"]:
        if change["template"] == template and change["metric"] == metric:
            arrow = "▼" if change["after"] < change["before"] else "▲"
            style = "bold red" if change["is_loss"] else "bold green"
            before = value_text(metric, change["before"], digits=2)
            return Text(f"{arrow} from {before}", style)
    if recent is None or mean is None or not is_quality(metric):
        return Text()
    difference = recent - mean
    # A smaller difference would be shown as 0.000, with a sign that says nothing.
    if abs(difference) < LEAST_CHANGE:
        return Text("±0", "dim")
    if metric == ERROR_RATE:
        return Text(f"{difference:+.1%}", "dim")
    return Text(f"{difference:+.3f}", "dim")


def half_width(name: str, statistics: Mapping[str, Any]) -> str:
    """Return how far the mean of a score may be off, such as "±0.05".

    It is the distance from the mean to the farther end of its confidence interval. It is "" if the
    mean has no interval. If questions repeat, there is an interval of another mean only, that of
    the first samples.
    """
    interval = interval_of_mean(statistics, "confidence")
    if interval is None or not is_quality(name):
        return ""
    mean = mean_of_questions(statistics)
    distance = max(interval["high"] - mean, mean - interval["low"])
    digits = 2 if distance >= LEAST_TWO_DIGITS else 3
    return f"±{distance:.{digits}f}"


def has_window(facts: Mapping[str, Any]) -> bool:
    """Return whether the window has fewer results than the run, so that recent means differ."""
    samples = facts["overall"]["samples"]
    return bool(samples["window"] != samples["total"])


def window_in_words(window: Mapping[str, float]) -> str:
    """Return the window of recent results, such as "last 200" or "last 5m"."""
    if "last" in window:
        return f"last {window['last']:,}"
    return f"last {duration_name(window['seconds'])}"


def bar(value: float | None, *, is_bad: bool = False) -> Text:
    """Return a horizontal bar for a value from 0 to 1, filled up with dots to `BAR_CELLS` cells.

    Args:
        value: a value from 0 to 1; None for a blank cell.
        is_bad: whether the bar is red.
    """
    if value is None:
        return Text()
    # There are characters for each eighth of a cell.
    eighths = round(value * BAR_CELLS * 8)
    full_cells, eighths_of_last_cell = divmod(eighths, 8)
    filled = "█" * full_cells
    if eighths_of_last_cell:
        filled += BAR_PARTS[eighths_of_last_cell]
    text = Text(filled, "red" if is_bad else "cyan")
    return text.append("·" * (BAR_CELLS - len(filled)), "dim")


def trend_of(course: Course, metric: str, most: int) -> str:
    """Return how the recent mean of a metric moved, as bars from 0 to 1.

    Args:
        course: the course of a group of results.
        metric: the metric.
        most: the greatest number of bars.

    Returns:
        "" if no result of the group has the metric.
    """
    # Each point is the mean of an eighth of all results: those of fewer vary by chance.
    means = course.recents(metric, course.results // TREND_SHARE)
    if all(mean is None for mean in means):
        return ""
    # If there are too many points, every `step`-th one is shown, among them the latest.
    step = ceil(len(means) / most)
    newest_first = means[::-1]
    shown_newest_first = newest_first[::step]
    return trend_bars(reversed(shown_newest_first))


def trend_bars(points: Iterable[float | None]) -> str:
    """Return a bar for each point; a blank for a point that is None or not from 0 to 1."""
    bars = ""
    for point in points:
        if point is None or not 0 <= point <= 1:
            bars += " "
        else:
            bars += TREND_BARS[round(point * (len(TREND_BARS) - 1))]
    return bars


def printable(text: str) -> str:
    """Return text in one line without control characters, at most as long as a line may be."""
    return one_line(text, limit=MAX_CHARACTERS)
