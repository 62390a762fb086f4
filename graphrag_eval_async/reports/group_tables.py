"""The tables of templates and of tags on the live page."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from math import fsum, inf
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.catalogue.metrics import ERROR_RATE, is_score
from graphrag_eval_async.records.snapshots import interval_of_mean, mean_of_questions
from graphrag_eval_async.reports.charts import sparkline
from graphrag_eval_async.reports.kept import SCORES
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
from graphrag_eval_async.text import percent

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from graphrag_eval_async.reports.history import Course, Courses


@dataclass(frozen=True, kw_only=True, slots=True)
class Cell:
    """A metric of a template.

    Attributes:
        value: the recent mean or, without one, the mean of all results.
        text: the value.
        change: how the value changed, or which results it is of.
        kind: "worse" or "better" if it clearly changed, otherwise empty.
        trend: path of a sparkline of recent means; empty if there is nothing to see.
    """

    value: float | None
    text: str = ""
    change: str = ""
    kind: str = ""
    trend: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupRow:
    """The results of a template or a tag.

    Attributes:
        name: the template or the tag.
        results: number of its results.
        errors: how many of these are errors of the agent.
        error_change: how the share of errors clearly changed; empty if it did not.
        error_kind: "worse" or "better" if it clearly changed, otherwise empty.
        cells: its metrics.
    """

    name: str
    results: int
    errors: int
    cells: Sequence[Cell]
    error_change: str = ""
    error_kind: str = ""


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


def template_table(facts: Mapping[str, Any], courses: Courses, *, most: float = inf) -> GroupTable:
    """Return the table of templates, the most fallen and then the lowest first.

    One template says nothing that the cards do not say: then the table is empty. At most `most`
    templates are shown.
    """
    groups = facts["templates"]
    if len(groups) < 2:
        return GroupTable(headings=[], rows=[])
    falls = _falls_of_templates(facts)
    names = sorted(groups, key=lambda name: (-falls.get(name, 0.0), quality(groups[name]), name))
    shown = names if most >= len(names) else names[: int(most)]
    metrics = _columns(facts["overall"])
    rows = [
        _group_row(name, groups[name], metrics, facts, courses.templates.get(name))
        for name in shown
    ]
    return GroupTable(
        headings=[RESOURCE_HEADINGS.get(metric, metric) for metric in metrics],
        rows=rows,
        hidden=len(names) - len(shown),
        note=_note_on_groups(facts),
    )


def tag_table(facts: Mapping[str, Any]) -> GroupTable:
    """Return the table of tags, the lowest first."""
    groups = facts.get("tags", {})
    names = sorted(groups, key=lambda name: (quality(groups[name]), name))
    metrics = _columns(facts["overall"])
    return GroupTable(
        headings=[RESOURCE_HEADINGS.get(metric, metric) for metric in metrics],
        rows=[_group_row(name, groups[name], metrics, facts, None) for name in names],
        note=_note_on_groups(facts),
    )


def _note_on_groups(facts: Mapping[str, Any]) -> str:
    """Return what the numbers of a table of templates or tags are."""
    if covers_all(facts):
        return f"Means of all results; in brackets, the {percent(facts['level'])} interval."
    return (
        f"Large: the mean of the {window_in_words(facts['window'])}. Below it: the change from the "
        "overall mean or, in colour, a clear change and since when."
    )


def _columns(overall: Mapping[str, Any]) -> list[str]:
    """Return the metrics that tables of templates and tags show."""
    resources = [name for name in RESOURCE_HEADINGS if name in overall["metrics"]]
    return [*scores_of(overall)[:MAX_CARDS], *resources]


def _falls_of_templates(facts: Mapping[str, Any]) -> dict[str, float]:
    """Return how far each template that clearly got worse fell, in its worst metric."""
    falls: dict[str, float] = {}
    for change in facts["state"]["changes"]:
        if change["is_loss"] and change["template"] is not None:
            fall = abs(change["after"] - change["before"])
            falls[change["template"]] = max(fall, falls.get(change["template"], 0.0))
    return falls


def _group_row(
    name: str,
    group: Mapping[str, Any],
    metrics: Sequence[str],
    facts: Mapping[str, Any],
    course: Course | None,
) -> GroupRow:
    """Return the row of a template or a tag."""
    error_change = ""
    error_kind = ""
    for change in facts["state"]["changes"]:
        if change["template"] == name and change["metric"] == ERROR_RATE:
            error_change = _change_in_words(change)
            error_kind = "worse" if change["is_loss"] else "better"
    return GroupRow(
        name=name,
        results=group["samples"]["total"],
        errors=group["errors"]["total"],
        cells=[_cell(name, metric, group, facts, course) for metric in metrics],
        error_change=error_change,
        error_kind=error_kind,
    )


def _cell(
    name: str,
    metric: str,
    group: Mapping[str, Any],
    facts: Mapping[str, Any],
    course: Course | None,
) -> Cell:
    """Return a metric of a template or a tag."""
    stats = group["metrics"].get(metric)
    if stats is None:
        return Cell(value=None)
    mean = mean_of_questions(stats)
    recent = mean if covers_all(facts) else stats["window"]
    if not is_score(metric):
        value = mean if recent is None else recent
        return Cell(value=value, text=amount_text(value))
    if recent is None:
        return Cell(value=mean, text=score_text(mean), change="none recent")

    trend = ""
    if course is not None and 0 <= mean <= 1:
        # A quarter of the results at each point, since the mean of a few varies by chance alone.
        trend = sparkline(course.recents(metric, course.results // 4))
    for change in facts["state"]["changes"]:
        if change["template"] == name and change["metric"] == metric:
            return Cell(
                value=recent,
                text=score_text(recent),
                change=_change_in_words(change),
                kind="worse" if change["is_loss"] else "better",
                trend=trend,
            )
    if covers_all(facts):
        interval = interval_of_mean(stats, "confidence")
        ends = "" if interval is None else f"[{interval['low']:.2f}, {interval['high']:.2f}]"
        return Cell(value=recent, text=score_text(recent), change=ends, trend=trend)
    return Cell(
        value=recent, text=score_text(recent), change=signed_change(recent - mean), trend=trend
    )


def _change_in_words(change: Mapping[str, Any]) -> str:
    """Return a clear change of a score or of the error rate, and since when it is there."""
    arrow = "▼" if change["after"] < change["before"] else "▲"
    before = f"{change['before']:.2f}"
    if change["metric"] == ERROR_RATE:
        before = f"{change['before']:.0%}"
    text = f"{arrow} from {before}"
    if change["since"] is not None:
        text += f" since {datetime.fromisoformat(change['since']):%H:%M}"
    return text


def quality(group: Mapping[str, Any], names: Iterable[str] = SCORES) -> float:
    """Return the mean of some scores of a group, in which errors count as 0.

    It is 1 if the group has neither scores nor errors.
    """
    scores = [
        mean_of_questions(group["metrics"][name]) for name in names if name in group["metrics"]
    ]
    mean = fsum(scores) / len(scores) if scores else 1.0
    error_rate = mean_of_questions(group["error_rate"]) or 0.0
    return mean * (1 - error_rate)
