"""The tables of the screen: metrics, templates, reasons of failures, and results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.text import Text

from graphrag_eval_async.catalogue.metrics import ERROR_RATE, is_score, metric_position
from graphrag_eval_async.catalogue.outcomes import REASON
from graphrag_eval_async.cli.commands.watch.cells import (
    COST,
    ERROR_RATE_HEADING,
    RESOURCE_HEADINGS,
    bar,
    change_text,
    half_width,
    has_window,
    heading_of,
    is_quality,
    printable,
    trend_of,
    value_text,
    window_in_words,
)
from graphrag_eval_async.cli.commands.watch.layout import Column, Section, table_lines, text_column
from graphrag_eval_async.records.snapshots import mean_of_questions
from graphrag_eval_async.reports.group_tables import falls_of_templates, sort_groups
from graphrag_eval_async.reports.groups import main_scores
from graphrag_eval_async.reports.wording import MEANING_BY_REASON
from graphrag_eval_async.steps.failure import NO_FAILURE, failure_counts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphrag_eval_async.reports.history import Courses

MAX_METRICS = 12
MAX_FAILURES = 6

TEMPLATE_SCORES = 4
"""Maximum number of scores with a column in the table of templates."""

RESULT_SCORES = 3
"""Maximum number of scores with a column in the table of results."""

# How important columns of the table of templates are; trends have 0 and less.
RESULTS_IMPORTANCE = 1
FIRST_SCORE_IMPORTANCE = 20
SCORE_STEP = 3
ERRORS_IMPORTANCE = FIRST_SCORE_IMPORTANCE - 2

TREND_POINTS = 16
"""Maximum number of points of a trend on a narrow screen, and of a template's trend."""

WIDE_TREND_POINTS = 24
"""Maximum number of points of a trend on a wide screen."""

WIDE = 110
"""Width from which a screen is wide; chosen."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MetricRow:
    """A row of the table of metrics.

    Attributes:
        name: the name of the metric.
        recent: its mean over the window; empty if the window has all results, or none.
        change: how the recent mean differs from that of all results.
        mean: its mean over all results.
        half_width: half of the width of the mean's confidence interval, about.
        share: the recent mean, or that of all, for a bar; None if the metric is not from 0 to 1.
        trend: the course of the recent mean, as bars.
    """

    name: str
    recent: Text
    change: Text
    mean: Text
    half_width: str
    share: float | None
    trend: str


def metrics_section(facts: Mapping[str, Any], courses: Courses, width: int) -> Section:
    """Return the table of metrics: scores with bars from 0 to 1, the error rate, and resources."""
    overall = facts["overall"]
    main = main_scores(overall)
    scores = sorted(filter(is_score, overall["metrics"]), key=metric_position)
    minor_scores = [name for name in scores if name not in main]
    # A small screen shows the first rows only; the error rate is to be one of them.
    names = [*main, ERROR_RATE, *minor_scores]
    statistics = {**overall["metrics"], ERROR_RATE: overall[ERROR_RATE]}
    if COST in overall:
        statistics[COST] = overall[COST]
    names += [name for name in RESOURCE_HEADINGS if name in statistics]

    points = WIDE_TREND_POINTS if width >= WIDE else TREND_POINTS
    rows = []
    for name in names:
        trend = trend_of(courses.overall, name, points) if is_quality(name) else ""
        rows.append(_metric_row(name, statistics[name], trend, facts))

    def draw(row_count: int) -> list[Text]:
        """Return the headings and the first `row_count` metrics as lines."""
        return table_lines(_metric_columns(rows[:row_count], facts), width)

    # Before the first result, the rows have names but no values, and are not shown.
    row_count = len(rows) if overall["samples"]["total"] else 0
    # At least the main scores and the error rate are shown.
    return Section(rows=row_count, least=len(main) + 1, most=MAX_METRICS, draw=draw)


def _metric_row(
    name: str, statistics: Mapping[str, Any], trend: str, facts: Mapping[str, Any]
) -> MetricRow:
    """Return the row of a metric in the table of metrics.

    Args:
        name: the metric.
        statistics: its statistics over all results.
        trend: its course, as bars.
        facts: the facts of the run.
    """
    mean = mean_of_questions(statistics) if statistics["mean"] is not None else None
    recent = statistics["window"] if has_window(facts) else None

    # Only a quality from 0 to 1 has a bar: that of the recent mean or, without one, of the mean.
    current = mean if recent is None else recent
    share = None
    if is_quality(name) and current is not None and 0 <= current <= 1:
        share = current
    return MetricRow(
        name=heading_of(name),
        recent=Text(value_text(name, recent), "bold"),
        change=change_text(facts["state"], None, name, recent=recent, mean=mean),
        mean=Text(value_text(name, mean), "" if has_window(facts) else "bold"),
        half_width=half_width(name, statistics),
        share=share,
        trend=trend,
    )


def _metric_columns(rows: Sequence[MetricRow], facts: Mapping[str, Any]) -> list[Column]:
    """Return the columns of the table of metrics, without columns whose cells are all empty.

    On a narrow screen, the columns with the lowest importance are left out.
    """
    total = f"all {facts['overall']['samples']['total']:,}"
    columns = [
        text_column("", [Text(row.name) for row in rows]),
        Column(
            heading=window_in_words(facts["window"]),
            cells=[row.recent for row in rows],
            importance=6,
        ),
        # A column of bars; its heading is the scale.
        Column(
            heading="0        1",
            cells=[bar(row.share, is_bad=row.name == ERROR_RATE_HEADING) for row in rows],
            justify="left",
            importance=3,
        ),
        Column(heading="change", cells=[row.change for row in rows], importance=4),
        Column(heading=total, cells=[row.mean for row in rows], importance=5),
        Column(
            heading="", cells=[Text(row.half_width) for row in rows], justify="left", importance=2
        ),
        Column(
            heading="trend, 0 to 1",
            cells=[Text(row.trend, "cyan") for row in rows],
            justify="left",
            importance=1,
        ),
    ]
    return [column for column in columns if any(column.cells)]


def templates_section(facts: Mapping[str, Any], courses: Courses, width: int) -> Section:
    """Return the table of templates, the worst first.

    Templates of which a score clearly fell come first, from the greatest fall on. The others
    follow, from the lowest recent quality on.
    """
    templates = facts["templates"]
    main = main_scores(facts["overall"])
    falls = falls_of_templates(facts)
    names = sort_groups(templates, main, falls)

    def draw(row_count: int) -> list[Text]:
        """Return the heading and the first `row_count` templates as lines."""
        if row_count < len(names):
            heading = f"{'most fallen' if falls else 'lowest'} of {len(names)} templates"
        else:
            heading = f"templates, {'fallen' if falls else 'lowest'} first"
        return table_lines(_template_columns(heading, names[:row_count], facts, courses), width)

    # The table of metrics already shows the values of a single template.
    row_count = len(names) if len(names) > 1 else 0
    return Section(rows=row_count, least=3, draw=draw)


def _template_columns(
    heading: str, names: Sequence[str], facts: Mapping[str, Any], courses: Courses
) -> list[Column]:
    """Return the columns of the table of templates, without columns whose cells are all empty.

    Their importance makes a narrow screen leave out the trends first, then the number of results,
    then each score with its changes, from the last score to the second, and then the errors.
    """
    groups = [facts["templates"][name] for name in names]
    columns = [
        text_column(heading, [Text(printable(name)) for name in names]),
        # These are the results that the error rate beside them is of.
        Column(
            heading="recent" if has_window(facts) else "results",
            cells=[Text(f"{_count_of_results(group, facts):,}") for group in groups],
            importance=RESULTS_IMPORTANCE,
        ),
        Column(
            heading="errors",
            cells=[_error_cell(name, facts) for name in names],
            importance=ERRORS_IMPORTANCE,
        ),
    ]
    for place, score in enumerate(main_scores(facts["overall"])[:TEMPLATE_SCORES]):
        columns += _columns_of_score(place, score, names, facts, courses)
    return [column for column in columns if any(column.cells)]


def _columns_of_score(
    place: int, score: str, names: Sequence[str], facts: Mapping[str, Any], courses: Courses
) -> list[Column]:
    """Return the columns of a score in the table of templates: value, change and trend.

    Args:
        place: the place of the score among those that are shown, from 0.
        score: the score.
        names: the templates that are shown.
        facts: the facts of the run.
        courses: how the scores moved.
    """
    values = []
    changes = []
    trends = []
    for name in names:
        group = facts["templates"][name]
        values.append(_score_cell(group, score, facts))
        changes.append(_template_change(name, group, score, facts))
        trend = ""
        if name in courses.templates:
            trend = trend_of(courses.templates[name], score, TREND_POINTS)
        trends.append(Text(trend, "cyan"))

    importance = FIRST_SCORE_IMPORTANCE - SCORE_STEP * place
    return [
        Column(heading=heading_of(score), cells=values, importance=importance),
        Column(heading="change", cells=changes, importance=importance - 1),
        Column(heading="trend, 0 to 1", cells=trends, justify="left", importance=-place),
    ]


def _count_of_results(group: Mapping[str, Any], facts: Mapping[str, Any]) -> int:
    """Return how many results the means of a template are of: the recent ones or, if none, all."""
    samples = group["samples"]
    if has_window(facts) and samples["window"]:
        return int(samples["window"])
    return int(samples["total"])


def _error_cell(name: str, facts: Mapping[str, Any]) -> Text:
    """Return the recent error rate of a template, with an arrow if it clearly changed."""
    rate = _recent_or_mean(facts["templates"][name][ERROR_RATE], facts)
    text = value_text(ERROR_RATE, rate)
    for change in facts["state"]["changes"]:
        if change["template"] == name and change["metric"] == ERROR_RATE:
            # More errors are a loss, so that the arrow of a loss points up.
            if change["is_loss"]:
                return Text(f"▲ {text}", "bold red")
            return Text(f"▼ {text}", "bold green")
    return Text(text, "red" if rate else "")


def _score_cell(group: Mapping[str, Any], score: str, facts: Mapping[str, Any]) -> Text:
    """Return the recent mean of a score of a template, in bold.

    If the template has no recent results, it is the mean of all its results, dimmed.
    """
    statistics = group["metrics"].get(score)
    if statistics is None:
        return Text()
    mean = _recent_or_mean(statistics, facts)
    is_old = has_window(facts) and statistics["window"] is None
    return Text(value_text(score, mean), "dim" if is_old else "bold")


def _template_change(
    name: str, group: Mapping[str, Any], score: str, facts: Mapping[str, Any]
) -> Text:
    """Return how a score of a template changed, from all its results to the recent ones.

    Args:
        name: the template.
        group: its statistics.
        score: the score.
        facts: the facts of the run.
    """
    statistics = group["metrics"].get(score)
    if statistics is None or not has_window(facts):
        return Text()
    if statistics["window"] is None:
        return Text("none recent", "dim")
    return change_text(
        facts["state"],
        name,
        score,
        recent=statistics["window"],
        mean=mean_of_questions(statistics),
    )


def _recent_or_mean(statistics: Mapping[str, Any], facts: Mapping[str, Any]) -> float | None:
    """Return the mean of a metric over the window, or over all results.

    All results count if the window has none with the metric, or if it contains all of them.

    Returns:
        None if no result has the metric.
    """
    recent: float | None = statistics["window"]
    if recent is not None and has_window(facts):
        return recent
    if statistics["mean"] is None:
        return None
    return mean_of_questions(statistics)


def failures_section(facts: Mapping[str, Any], width: int) -> Section:
    """Return the table of the reasons of failures, the most frequent first, with explanations."""
    failures = list(failure_counts(facts["overall"]).items())
    texts_of_run = facts["failure_texts"]

    def draw(row_count: int) -> list[Text]:
        """Return the heading and the first `row_count` reasons as lines."""
        counts = []
        reasons = []
        explanations = []
        for reason, count in failures[:row_count]:
            counts.append(Text(f"{count:,}"))
            reasons.append(Text(printable(reason), "red"))
            # Reasons that are not built in have no general explanation.
            explanation = texts_of_run.get(reason) or MEANING_BY_REASON.get(reason, "")
            explanations.append(Text(printable(explanation)))
        columns = [
            Column(heading="failures", cells=counts),
            text_column("", reasons),
            text_column("", explanations),
        ]
        return table_lines(columns, width)

    return Section(rows=len(failures), most=MAX_FAILURES, draw=draw)


def results_section(facts: Mapping[str, Any], width: int) -> Section:
    """Return the table of the latest or the worst results, with the reasons of failures."""
    results = facts["results"]
    scores = main_scores(facts["overall"])[:RESULT_SCORES]
    heading = "worst results" if facts["show"] == "worst" else "latest results"

    def draw(row_count: int) -> list[Text]:
        """Return the heading and the first `row_count` results as lines."""
        shown = results[:row_count]
        columns = [
            text_column(heading, [Text(printable(result["question_id"])) for result in shown]),
            Column(heading="", cells=[Text(f"#{result['sample']}") for result in shown]),
        ]
        for place, name in enumerate([*scores, "elapsed_sec"]):
            values = [result["metrics"].get(name) for result in shown]
            columns.append(
                Column(
                    heading=heading_of(name),
                    cells=[Text(value_text(name, value)) for value in values],
                    # On a narrow screen, the last of these columns is left out first.
                    importance=-place,
                )
            )
        columns.append(text_column("", [Text(_why_failed(result), "red") for result in shown]))
        return table_lines([column for column in columns if any(column.cells)], width)

    return Section(rows=len(results), draw=draw)


def _why_failed(result: Mapping[str, Any]) -> str:
    """Return the error of a result or the reason why it failed; "" if it did not fail."""
    if result["status"] == "error":
        return printable(result.get("error", "error"))
    reason = result.get(REASON, NO_FAILURE)
    return "" if reason == NO_FAILURE else printable(reason)
