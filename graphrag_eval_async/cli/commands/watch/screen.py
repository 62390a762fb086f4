"""Lays out a run for a terminal: is it good, did it fall, since when, where and why."""

from __future__ import annotations

import os
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.text import Text

from graphrag_eval_async.catalogue.metrics import (
    ERROR_RATE,
    is_score,
    metric_position,
)
from graphrag_eval_async.catalogue.outcomes import REASON
from graphrag_eval_async.cli.commands.watch.layout import (
    Column,
    Section,
    flow,
    lines_of,
    stack_sections,
    table_lines,
    text_column,
)
from graphrag_eval_async.records.snapshots import interval_of_mean, mean_of_questions
from graphrag_eval_async.reports.groups import main_scores
from graphrag_eval_async.reports.windows import duration_name
from graphrag_eval_async.reports.wording import FAILURES, value_of
from graphrag_eval_async.steps.failure import NO_FAILURE, failure_counts
from graphrag_eval_async.text import counts, dollars, number, one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from graphrag_eval_async.reports.history import Course, Courses

TREND_BARS = "▁▂▃▄▅▆▇█"
BAR_PARTS = " ▏▎▍▌▋▊▉"
"""Beginnings of a cell, from none of it to seven eighths."""

BAR_CELLS = 10
"""Width of a bar whose value is 1."""

TREND_POINTS = 16
"""Maximum number of points of a trend on a narrow screen, and of a template's trend."""

WIDE_TREND_POINTS = 24
"""Maximum number of points of a trend on a wide screen."""

WIDE = 110
"""Width from which a screen is wide; chosen."""

TREND_SHARE = 8
"""Each point of a trend is over this part of all results: few values vary by chance alone."""

MAX_STATE_LINES = 3
MAX_PROGRESS_LINES = 3

MAX_ALERTS = 3
"""Maximum number of alerts that are shown; a line says how many more there are."""

MAX_METRICS = 12
MAX_FAILURES = 6

TEMPLATE_SCORES = 4
"""Maximum number of scores with a column in the table of templates."""

RESULT_SCORES = 3
"""Maximum number of scores with a column in the table of results."""

LEAST_CHANGE = 0.0005
"""Least change of a score that is shown: a smaller one is 0 in three digits."""

LEAST_TWO_DIGITS = 0.025
"""Half-width of an interval from which two digits are enough."""

ERROR_RATE_HEADING = "error rate"

COST = "cost"
"""The key of the cost of judging a result, in the facts of a group of results."""

RESOURCE_HEADINGS = {"total_tokens": "tokens", "elapsed_sec": "seconds", COST: "cost"}
"""The resources that are shown, with their names on the screen."""

STATE_STYLES = {"worse": "bold red", "better": "bold green", "steady": "bold green"}
"""Styles of the line of the state, by its kind; that of other kinds is bold."""


def render(
    facts: Mapping[str, Any],
    courses: Courses,
    width: int,
    height: int,
    address: str | None = None,
) -> list[Text]:
    """Return the facts of a run as at most `height` lines, none wider than `width` cells.

    The state of the run comes first, then active alerts, the progress, the metrics, the templates
    from the one that fell most, the reasons of failures, and results. What does not fit is left
    out.

    Args:
        facts: what `Facts` collects, with what `complete` adds.
        courses: how the scores moved.
        width: number of columns.
        height: number of rows.
        address: the address of the page in the browser, if there is one.
    """
    head = [
        *_state_lines(facts["state"], width),
        *_alert_lines(facts["alerts"]),
        *_progress_lines(facts, width),
        _title(facts, width, address),
    ]
    sections = [
        _metrics_section(facts, courses, width),
        _templates_section(facts, courses, width),
        _failures_section(facts, width),
        _results_section(facts, width),
    ]
    lines = [*head, *stack_sections(sections, height - len(head))]
    lines = lines[: max(0, height)]
    for line in lines:
        line.truncate(width, overflow="ellipsis")
        line.rstrip()
    return lines


def _state_lines(state: Mapping[str, Any], width: int) -> list[Text]:
    """Return whether the run got worse, which scores, how far and since when."""
    style = STATE_STYLES.get(state["kind"], "bold")
    return lines_of(Text(_printable(state["text"]), style), width)[:MAX_STATE_LINES]


def _alert_lines(alerts: Sequence[Mapping[str, Any]]) -> list[Text]:
    """Return the active alerts, each with the value that it watches."""
    lines = [
        Text(f"ALERT {_printable(alert['alert'])}: {value_of(alert)}", "bold red")
        for alert in alerts[:MAX_ALERTS]
    ]
    hidden = len(alerts) - MAX_ALERTS
    if hidden > 0:
        lines.append(Text(f"... and {hidden} more alerts", "bold red"))
    return lines


def _progress_lines(facts: Mapping[str, Any], width: int) -> list[Text]:
    """Return how far the run and its judge are, and what is wrong with the input."""
    parts = [
        facts["progress"]["text"],
        *_input_in_words(facts),
        *_judge_in_words(facts["judge"]),
    ]
    return flow([Text(_printable(part)) for part in parts], width)[:MAX_PROGRESS_LINES]


def _input_in_words(facts: Mapping[str, Any]) -> Iterator[str]:
    """Yield what of the input is not evaluated, or not yet, and what an earlier run evaluated."""
    lag = facts["lag"]
    if lag is not None and lag["bytes"]:
        yield f"behind by {lag['bytes']:,} bytes"
    if facts["rejects"]:
        yield f"rejected lines: {counts(facts['rejects'])}"
    if facts["skipped"]:
        yield f"skipped as done: {facts['skipped']:,}"
    if facts["journal"] is not None:
        yield f"restored: {facts['journal']['restored']:,}"
    if facts["late"]:
        yield facts["late"]["text"]
    if facts["misnamed"]:
        yield facts["misnamed"]
    for path in facts["not_found"]:
        yield f"not there yet: {path}"


def _judge_in_words(judge: Mapping[str, Any] | None) -> Iterator[str]:
    """Yield what the judge costs, what failed, and what it waits for; nothing without a judge."""
    if judge is None:
        return
    spent = dollars(judge["dollars"])
    if judge["budget_usd"] is not None:
        spent += f" of {dollars(judge['budget_usd'])}"
    yield f"judge {judge['model'] or ''}: {spent}"
    if judge["errors"]:
        yield f"judge errors: {counts(judge['errors'])}"
    if judge["retries"]:
        yield f"retries: {counts(judge['retries'])}"
    if judge["waiting"]:
        yield f"calls waiting: {judge['waiting']:,}"
    if judge["paused_sec"]:
        yield f"paused for {judge['paused_sec']:.0f} s"


def _title(facts: Mapping[str, Any], width: int, address: str | None) -> Text:
    """Return what is watched, for how long, and the address of the page in the browser."""
    minutes, seconds = divmod(int(facts["elapsed_sec"]), 60)
    end = f" for {minutes // 60}:{minutes % 60:02}:{seconds:02}"
    if address is not None:
        end += f"   {address}"

    paths = [_printable(path).rstrip("/") for path in facts["paths"]]
    title = Text(f"watching {' '.join(paths)}", "dim")
    if title.cell_len + cell_len(end) > width:
        names = [os.path.basename(path) for path in paths]
        title = Text(f"watching {' '.join(names)}", "dim")
    # The address is worth more than the last of many names.
    title.truncate(max(0, width - cell_len(end)), overflow="ellipsis")
    return title.append(end)


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


def _metrics_section(facts: Mapping[str, Any], courses: Courses, width: int) -> Section:
    """Return the table of metrics: scores with bars from 0 to 1, the error rate, and resources."""
    overall = facts["overall"]
    main = main_scores(overall)
    scores = sorted(filter(is_score, overall["metrics"]), key=metric_position)
    # The error rate stands next to the main scores, so that it is there on a small screen.
    names = [*main, ERROR_RATE, *(name for name in scores if name not in main)]
    statistics = {**overall["metrics"], ERROR_RATE: overall[ERROR_RATE]}
    if COST in overall:
        statistics[COST] = overall[COST]
    names += [name for name in RESOURCE_HEADINGS if name in statistics]

    points = WIDE_TREND_POINTS if width >= WIDE else TREND_POINTS
    rows = []
    for name in names:
        trend = _trend(courses.overall, name, points) if _is_quality(name) else ""
        rows.append(_metric_row(name, statistics[name], trend, facts))

    def draw(row_count: int) -> list[Text]:
        return table_lines(_metric_columns(rows[:row_count], facts), width)

    return Section(rows=len(rows), least=len(main) + 1, most=MAX_METRICS, draw=draw)


def _metric_row(
    name: str, statistics: Mapping[str, Any], trend: str, facts: Mapping[str, Any]
) -> MetricRow:
    """Return the row of a metric, given its statistics over all results and its trend."""
    mean = mean_of_questions(statistics) if statistics["mean"] is not None else None
    recent = statistics["window"] if _has_window(facts) else None
    is_bounded = _is_quality(name)
    shown = mean if recent is None else recent
    share = shown if is_bounded and shown is not None and 0 <= shown <= 1 else None
    return MetricRow(
        name=_heading(name),
        recent=Text(_value(name, recent), "bold"),
        change=_change(facts["state"], None, name, recent=recent, mean=mean),
        mean=Text(_value(name, mean), "" if _has_window(facts) else "bold"),
        half_width=_half_width(name, statistics),
        share=share,
        trend=trend,
    )


def _metric_columns(rows: Sequence[MetricRow], facts: Mapping[str, Any]) -> list[Column]:
    """Return the columns of the table of metrics, without those that say nothing."""
    total = f"all {facts['overall']['samples']['total']:,}"
    columns = [
        text_column("", [Text(row.name) for row in rows]),
        Column(
            heading=window_in_words(facts["window"]),
            cells=[row.recent for row in rows],
            importance=6,
        ),
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


def _templates_section(facts: Mapping[str, Any], courses: Courses, width: int) -> Section:
    """Return the table of templates: those that fell, the most fallen first, then the lowest."""
    templates = facts["templates"]
    main = main_scores(facts["overall"])
    falls = _falls_of_templates(facts["state"])

    def rank(name: str) -> tuple[float, float]:
        return -falls.get(name, 0.0), recent_quality(templates[name], main)

    names = sorted(templates, key=rank)

    def draw(row_count: int) -> list[Text]:
        if row_count < len(names):
            heading = f"{'most fallen' if falls else 'lowest'} of {len(names)} templates"
        else:
            heading = f"templates, {'fallen' if falls else 'lowest'} first"
        return table_lines(_template_columns(heading, names[:row_count], facts, courses), width)

    # A single template has the values of all results.
    row_count = len(names) if len(names) > 1 else 0
    return Section(rows=row_count, least=3, draw=draw)


def _template_columns(
    heading: str, names: Sequence[str], facts: Mapping[str, Any], courses: Courses
) -> list[Column]:
    """Return the columns of the table of templates."""
    groups = [facts["templates"][name] for name in names]
    columns = [
        text_column(heading, [Text(_printable(name)) for name in names]),
        Column(
            heading="results",
            cells=[Text(f"{group['samples']['total']:,}") for group in groups],
            importance=1,
        ),
        Column(
            heading="errors", cells=[_error_cell(group, facts) for group in groups], importance=18
        ),
    ]
    scores = main_scores(facts["overall"])[:TEMPLATE_SCORES]
    for place, score in enumerate(scores):
        importance = 20 - 3 * place
        columns.append(
            Column(
                heading=_heading(score),
                cells=[_score_cell(group, score, facts) for group in groups],
                importance=importance,
            )
        )
        changes = [
            _template_change(name, group, score, facts)
            for name, group in zip(names, groups, strict=True)
        ]
        columns.append(Column(heading="change", cells=changes, importance=importance - 1))
        trends = [
            _trend(courses.templates[name], score, TREND_POINTS)
            if name in courses.templates
            else ""
            for name in names
        ]
        columns.append(
            Column(
                heading="trend, 0 to 1",
                cells=[Text(trend, "cyan") for trend in trends],
                justify="left",
                importance=-place,
            )
        )
    return [column for column in columns if any(column.cells)]


def _error_cell(group: Mapping[str, Any], facts: Mapping[str, Any]) -> Text:
    """Return the recent error rate of a template."""
    rate = _recent_or_mean(group["error_rate"], facts)
    return Text(_value(ERROR_RATE, rate), "red" if rate else "")


def _score_cell(group: Mapping[str, Any], score: str, facts: Mapping[str, Any]) -> Text:
    """Return the recent mean of a score of a template, or that of all its results, dimmed."""
    statistics = group["metrics"].get(score)
    if statistics is None:
        return Text()
    is_old = _has_window(facts) and statistics["window"] is None
    return Text(_value(score, _recent_or_mean(statistics, facts)), "dim" if is_old else "bold")


def _template_change(
    name: str, group: Mapping[str, Any], score: str, facts: Mapping[str, Any]
) -> Text:
    """Return how the recent mean of a score of a template differs from that of all its results."""
    statistics = group["metrics"].get(score)
    if statistics is None or not _has_window(facts):
        return Text()
    if statistics["window"] is None:
        return Text("none recent", "dim")
    return _change(
        facts["state"],
        name,
        score,
        recent=statistics["window"],
        mean=mean_of_questions(statistics),
    )


def _recent_or_mean(statistics: Mapping[str, Any], facts: Mapping[str, Any]) -> float | None:
    """Return the recent mean of a metric; without one, that of all results."""
    recent: float | None = statistics["window"]
    if recent is not None and _has_window(facts):
        return recent
    if statistics["mean"] is None:
        return None
    return mean_of_questions(statistics)


def _falls_of_templates(state: Mapping[str, Any]) -> dict[str, float]:
    """Return by how much the scores of templates clearly fell: for each template, the most."""
    falls: dict[str, float] = {}
    for change in state["changes"]:
        if change["is_loss"] and change["template"] is not None:
            fall = abs(change["after"] - change["before"])
            falls[change["template"]] = max(fall, falls.get(change["template"], 0.0))
    return falls


def recent_quality(group: Mapping[str, Any], scores: Iterable[str]) -> float:
    """Return the mean of the recent means of scores, with 0 for recent errors.

    Where nothing is recent, all results count. A group without scores and errors has 1.
    """

    def recent(statistics: Mapping[str, Any]) -> float:
        if statistics["window"] is not None:
            return float(statistics["window"])
        return mean_of_questions(statistics) if statistics["mean"] is not None else 0.0

    means = [recent(group["metrics"][name]) for name in scores if name in group["metrics"]]
    mean = sum(means) / len(means) if means else 1.0
    return mean * (1 - recent(group["error_rate"]))


def _failures_section(facts: Mapping[str, Any], width: int) -> Section:
    """Return the table of the reasons of failures, the most frequent first, with their texts."""
    failures = list(failure_counts(facts["overall"]).items())
    texts = facts["failure_texts"]

    def draw(row_count: int) -> list[Text]:
        shown = failures[:row_count]
        explanations = [
            Text(_printable(texts.get(reason) or FAILURES.get(reason, ""))) for reason, _ in shown
        ]
        return table_lines(
            [
                Column(heading="failures", cells=[Text(f"{count:,}") for _, count in shown]),
                text_column("", [Text(_printable(reason), "red") for reason, _ in shown]),
                text_column("", explanations),
            ],
            width,
        )

    return Section(rows=len(failures), most=MAX_FAILURES, draw=draw)


def _results_section(facts: Mapping[str, Any], width: int) -> Section:
    """Return the table of the latest or the worst results, with why they failed."""
    results = facts["results"]
    scores = main_scores(facts["overall"])[:RESULT_SCORES]
    heading = "worst results" if facts["show"] == "worst" else "latest results"

    def draw(row_count: int) -> list[Text]:
        shown = results[:row_count]
        columns = [
            text_column(heading, [Text(_printable(result["question_id"])) for result in shown]),
            Column(heading="", cells=[Text(f"#{result['sample']}") for result in shown]),
        ]
        for place, name in enumerate([*scores, "elapsed_sec"]):
            values = [result["metrics"].get(name) for result in shown]
            columns.append(
                Column(
                    heading=_heading(name),
                    cells=[Text(_value(name, value)) for value in values],
                    importance=-place,
                )
            )
        columns.append(text_column("", [Text(_why_failed(result), "red") for result in shown]))
        return table_lines([column for column in columns if any(column.cells)], width)

    return Section(rows=len(results), draw=draw)


def _why_failed(result: Mapping[str, Any]) -> str:
    """Return the error of a result, or why it failed; empty if it did not."""
    if result["status"] == "error":
        return _printable(result.get("error", "error"))
    reason = result.get(REASON, NO_FAILURE)
    return "" if reason == NO_FAILURE else _printable(reason)


def _change(
    state: Mapping[str, Any],
    template: str | None,
    metric: str,
    *,
    recent: float | None,
    mean: float | None,
) -> Text:
    """Return how a metric changed: in colour if this is clear, otherwise its recent difference.

    Args:
        state: the state of the run, with its clear changes.
        template: the template; None for all results.
        metric: the metric.
        recent: its mean over the window; None without one.
        mean: its mean over all results.
    """
    for change in state["changes"]:
        if (change["template"], change["metric"]) == (template, metric):
            arrow = "▼" if change["after"] < change["before"] else "▲"
            style = "bold red" if change["is_loss"] else "bold green"
            before = _value(metric, change["before"], digits=2)
            return Text(f"{arrow} from {before}", style)
    if recent is None or mean is None or not _is_quality(metric):
        return Text()
    difference = recent - mean
    if abs(difference) < LEAST_CHANGE:
        return Text("±0", "dim")
    if metric == ERROR_RATE:
        return Text(f"{difference:+.1%}", "dim")
    return Text(f"{difference:+.3f}", "dim")


def _half_width(name: str, statistics: Mapping[str, Any]) -> str:
    """Return how sure the mean of a score is, such as "±0.05".

    It is the distance from the mean to the farther end of its confidence interval. It is empty if
    there is no interval, or only one of another mean: that of first samples, if questions repeat.
    """
    interval = interval_of_mean(statistics, "confidence")
    if interval is None or not _is_quality(name):
        return ""
    mean = mean_of_questions(statistics)
    distance = max(interval["high"] - mean, mean - interval["low"])
    digits = 2 if distance >= LEAST_TWO_DIGITS else 3
    return f"±{distance:.{digits}f}"


def _value(metric: str, value: float | None, *, digits: int = 3) -> str:
    """Return a value of a metric as text, scores with so many digits; empty for None."""
    if value is None:
        return ""
    if metric == ERROR_RATE:
        return f"{value:.1%}"
    if metric == COST:
        return dollars(value)
    if is_score(metric) and abs(value) <= 1:
        return f"{value:.{digits}f}"
    return number(value)


def _is_quality(metric: str) -> bool:
    """Return whether a metric measures how good answers are: a score, or the error rate."""
    return is_score(metric) and metric != COST


def _heading(metric: str) -> str:
    """Return the name of a metric on the screen."""
    if metric == ERROR_RATE:
        return ERROR_RATE_HEADING
    return RESOURCE_HEADINGS.get(metric) or _printable(metric)


def _has_window(facts: Mapping[str, Any]) -> bool:
    """Return whether the window has fewer results than the run, so that recent means differ."""
    samples = facts["overall"]["samples"]
    return bool(samples["window"] != samples["total"])


def window_in_words(window: Mapping[str, float]) -> str:
    """Return the window of recent results, such as "last 200" or "last 5m"."""
    if "last" in window:
        return f"last {window['last']:,}"
    return f"last {duration_name(window['seconds'])}"


def bar(value: float | None, *, is_bad: bool = False) -> Text:
    """Return a bar from 0 to 1, `BAR_CELLS` wide; blank for None.

    Args:
        value: a value from 0 to 1.
        is_bad: whether the bar is red.
    """
    if value is None:
        return Text()
    eighths = round(value * BAR_CELLS * 8)
    full_cells, rest = divmod(eighths, 8)
    filled = "█" * full_cells
    if rest:
        filled += BAR_PARTS[rest]
    text = Text(filled, "red" if is_bad else "cyan")
    return text.append("·" * (BAR_CELLS - len(filled)), "dim")


def _trend(course: Course, metric: str, most: int) -> str:
    """Return the course of the recent mean of a metric as at most so many bars from 0 to 1."""
    means = course.recents(metric, course.results // TREND_SHARE)
    if not any(mean is not None for mean in means):
        return ""
    # The latest point and, with too many points, every second, third, ... one before it.
    step = ceil(len(means) / most)
    return trend_bars(means[::-1][::step][::-1])


def trend_bars(points: Iterable[float | None]) -> str:
    """Return points as bars from 0 to 1; blank where there is none, or another value."""
    bars = ""
    for point in points:
        if point is None or not 0 <= point <= 1:
            bars += " "
        else:
            bars += TREND_BARS[round(point * (len(TREND_BARS) - 1))]
    return bars


def _printable(text: str) -> str:
    """Return text in one line without control characters, at most as long as a line may be."""
    return one_line(text, limit=300)
