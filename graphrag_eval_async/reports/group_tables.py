"""The tables of templates and of tags on the live page."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from math import inf
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.catalogue.metrics import ERROR_RATE, is_score
from graphrag_eval_async.helpers.text import percent
from graphrag_eval_async.records.snapshots import interval_of_mean, mean_of_questions
from graphrag_eval_async.reports.charts import sparkline
from graphrag_eval_async.reports.page_words import (
    MAX_CARDS,
    amount_text,
    covers_all,
    score_text,
    scores_of,
    signed_change,
    window_in_words,
)
from graphrag_eval_async.reports.wording import RESOURCE_HEADINGS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphrag_eval_async.reports.history import Course, Courses


@dataclass(frozen=True, slots=True)
class ChangeText:
    """How a number changed, in words; empty if there is nothing to say.

    Attributes:
        text: the words.
        kind: "worse" or "better" if the number clearly changed; otherwise empty.
    """

    text: str = ""
    kind: str = ""


NO_CHANGE = ChangeText()


@dataclass(frozen=True, kw_only=True, slots=True)
class Cell:
    """A metric of a template or a tag.

    Attributes:
        value: the recent mean or, without one, the mean of all results; None without any.
        text: the value in words.
        change: how the value changed or, if it is of all results, its interval.
        trend: path of a sparkline of recent means; empty if there is nothing to see.
    """

    value: float | None
    text: str = ""
    change: ChangeText = NO_CHANGE
    trend: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupRow:
    """The results of a template or a tag.

    Attributes:
        name: the template or the tag.
        results: number of its results.
        errors: how many of these are errors of the agent.
        error_change: how the share of errors clearly changed.
        cells: its metrics.
    """

    name: str
    results: int
    errors: int
    error_change: ChangeText
    cells: Sequence[Cell]


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupTable:
    """The table of templates or tags.

    Attributes:
        headings: the names of the metrics.
        rows: the rows that are shown.
        hidden: number of rows that are not shown.
        note: what the numbers are.
    """

    headings: Sequence[str]
    rows: Sequence[GroupRow]
    hidden: int = 0
    note: str = ""


def template_table(
    facts: Mapping[str, Any], courses: Courses, *, most: int | None = None
) -> GroupTable:
    """Return the table of templates: first those that got worse, then those with the lowest scores.

    The table is empty if there is one template only, of which the cards say the same.

    Args:
        facts: the state of the run.
        courses: how the scores of templates moved.
        most: the maximum number of templates that are shown; None for all.
    """
    groups = facts["templates"]
    if len(groups) < 2:
        return GroupTable(headings=[], rows=[])
    templates = sort_groups(groups, scores_of(facts["overall"]), falls_of_templates(facts))
    metrics = _columns(facts["overall"])
    rows = []
    for template in templates[:most]:
        changes = [change for change in facts["state"]["changes"] if change["template"] == template]
        course = courses.templates.get(template)
        rows.append(_group_row(template, groups[template], metrics, facts, changes, course))
    return GroupTable(
        headings=[RESOURCE_HEADINGS.get(metric, metric) for metric in metrics],
        rows=rows,
        hidden=len(templates) - len(rows),
        note=_note_on_groups(facts),
    )


def tag_table(facts: Mapping[str, Any]) -> GroupTable:
    """Return the table of tags, the tag with the lowest scores first."""
    groups = facts.get("tags", {})
    tags = sort_groups(groups, scores_of(facts["overall"]), {})
    metrics = _columns(facts["overall"])
    return GroupTable(
        headings=[RESOURCE_HEADINGS.get(metric, metric) for metric in metrics],
        # Nobody knows how tags changed.
        rows=[
            _group_row(tag, groups[tag], metrics, facts, changes=(), course=None) for tag in tags
        ],
        note=_note_on_groups(facts),
    )


def _note_on_groups(facts: Mapping[str, Any]) -> str:
    """Return a note on what the numbers in a table of templates or tags mean."""
    if covers_all(facts):
        return f"Means of all results; in brackets, the {percent(facts['level'])} interval."
    return (
        f"Large: the mean of the {window_in_words(facts['window'])}. Below it: the change from the "
        "overall mean or, in colour, a clear change and since when."
    )


def _columns(overall: Mapping[str, Any]) -> list[str]:
    """Return the metrics that are columns of tables of templates and tags.

    These are the first `MAX_CARDS` scores, then resources such as tokens and seconds.
    """
    resources = [name for name in RESOURCE_HEADINGS if name in overall["metrics"]]
    return [*scores_of(overall)[:MAX_CARDS], *resources]


def falls_of_templates(facts: Mapping[str, Any]) -> dict[str, float]:
    """Return how far each template fell that clearly or perhaps got worse, in the metric that fell
    most.
    """
    state = facts["state"]
    falls: dict[str, float] = {}
    for change in [*state["changes"], *state["tentative_losses"]]:
        if change["is_loss"] and change["template"] is not None:
            fall = abs(change["after"] - change["before"])
            falls[change["template"]] = max(fall, falls.get(change["template"], 0.0))
    return falls


def _group_row(
    name: str,
    group: Mapping[str, Any],
    metrics: Sequence[str],
    facts: Mapping[str, Any],
    changes: Sequence[Mapping[str, Any]],
    course: Course | None,
) -> GroupRow:
    """Return the row of a template or a tag.

    Args:
        name: the template or the tag.
        group: the state of its results.
        metrics: the metrics that have a column.
        facts: the state of the run.
        changes: the clear changes of its scores and of its error rate.
        course: how its scores moved; None if nobody knows.

    Returns:
        the row; the cell of a metric without a value is empty.
    """
    change_by_metric = {change["metric"]: _clear_change(change) for change in changes}
    cells = []
    for metric in metrics:
        cell = Cell(value=None)
        stats = group["metrics"].get(metric)
        if stats is not None and is_score(metric):
            cell = _score_cell(stats, facts, change_by_metric.get(metric))
            # Sparklines have an axis from 0 to 1, on which not all scores have a place.
            fits_sparkline = 0 <= mean_of_questions(stats) <= 1
            if course is not None and fits_sparkline:
                cell = replace(cell, trend=_trend(metric, course))
        elif stats is not None:
            cell = _resource_cell(stats)
        cells.append(cell)
    return GroupRow(
        name=name,
        results=group["samples"]["total"],
        errors=group["errors"]["total"],
        error_change=change_by_metric.get(ERROR_RATE, NO_CHANGE),
        cells=cells,
    )


def _score_cell(
    stats: Mapping[str, Any], facts: Mapping[str, Any], clear_change: ChangeText | None
) -> Cell:
    """Return the cell of a score of a template or a tag, without a trend.

    - If all results are recent, the cell has the mean and its interval.
    - Otherwise, it has the recent mean and its difference from the mean of all results.

    If the score clearly changed, the clear change replaces the interval or the difference.

    Args:
        stats: the means of the score.
        facts: the state of the run.
        clear_change: how the score clearly changed; None if it did not.
    """
    mean = mean_of_questions(stats)
    if covers_all(facts):
        change = NO_CHANGE
        interval = interval_of_mean(stats, "confidence")
        if interval is not None:
            change = ChangeText(f"[{interval['low']:.2f}, {interval['high']:.2f}]")
        return Cell(value=mean, text=score_text(mean), change=clear_change or change)

    recent = stats["window"]
    if recent is None:
        return Cell(value=mean, text=score_text(mean), change=ChangeText("none recent"))
    change = ChangeText(signed_change(recent - mean))
    return Cell(value=recent, text=score_text(recent), change=clear_change or change)


def _resource_cell(stats: Mapping[str, Any]) -> Cell:
    """Return the cell of a resource, such as tokens: its recent mean or else the mean of all."""
    value = stats["window"]
    if value is None:
        value = mean_of_questions(stats)
    return Cell(value=value, text=amount_text(value))


def _trend(metric: str, course: Course) -> str:
    """Return the sparkline of a score, each point of which is a mean over recent results.

    A quarter of all results is recent: means of fewer results would vary by chance alone.
    """
    recent_results = course.results // 4
    return sparkline(course.recents(metric, recent_results))


def _clear_change(change: Mapping[str, Any]) -> ChangeText:
    """Return a clear change of a score or of the error rate as a table shows it."""
    return ChangeText(_change_in_words(change), "worse" if change["is_loss"] else "better")


def _change_in_words(change: Mapping[str, Any]) -> str:
    """Return a clear change in words, such as "▼ from 0.95 since 14:30"."""
    arrow = "▼" if change["after"] < change["before"] else "▲"
    before = f"{change['before']:.2f}"
    if change["metric"] == ERROR_RATE:
        before = f"{change['before']:.0%}"
    text = f"{arrow} from {before}"
    if change["since"] is not None:
        text += f" since {datetime.fromisoformat(change['since']):%H:%M}"
    return text


def sort_groups(
    groups: Mapping[str, Mapping[str, Any]], scores: Sequence[str], falls: Mapping[str, float]
) -> list[str]:
    """Return the names of templates or tags in the order in which tables list them.

    Those that clearly got worse come first, the most fallen first. The others are sorted by the
    first score, as it is shown, then by the next scores and by the error rate. A group without
    scores comes first if all that it has is errors, or else last.

    Args:
        groups: the facts of each template or tag, by its name.
        scores: the scores, the most important first.
        falls: by how much templates clearly got worse.
    """

    def rank(name: str) -> tuple[float, list[float], float, str]:
        group = groups[name]
        error_rate = _shown_mean(group["error_rate"]) or 0.0
        without_score = 0.0 if error_rate > 0 else inf
        means = []
        for score in scores:
            mean = _shown_mean(group["metrics"].get(score))
            means.append(without_score if mean is None else mean)
        return -falls.get(name, 0.0), means, -error_rate, name

    return sorted(groups, key=rank)


def _shown_mean(stats: Mapping[str, Any] | None) -> float | None:
    """Return the recent mean of a metric or, if there is none, that of all results."""
    if stats is None:
        return None
    if stats["window"] is not None:
        return float(stats["window"])
    return None if stats["mean"] is None else mean_of_questions(stats)
