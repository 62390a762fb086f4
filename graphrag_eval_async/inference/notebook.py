"""What a notebook shows of aggregates: means with intervals, and why results failed, as HTML."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphrag_eval_async.catalogue.outcomes import CAUSED_BY_AGENT
from graphrag_eval_async.helpers.text import counts, interval_cell, number, percent
from graphrag_eval_async.records.snapshots import (
    ALL_RESULTS,
    INTERVAL_KINDS,
    counts_of,
    interval_of_mean,
    mean_of_questions,
    means_of,
)
from graphrag_eval_async.records.tabular import html_list, html_table
from graphrag_eval_async.steps.failure import failure_counts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


def aggregates_html(snapshot: Mapping[str, Any]) -> str:
    """Return a detailed snapshot of aggregates as HTML, in which all text is escaped.

    It has a table of means with their intervals, with a row for each template and one for all
    results; a table of the reasons of failures, if there are any; and a list of notes.
    """
    all_results = snapshot["micro"]
    metrics = list(means_of(all_results))
    rows = [_row(template, group, metrics) for template, group in snapshot["per_template"].items()]
    rows.append(_row(ALL_RESULTS, all_results, metrics))
    html = html_table(("template", "results", "errors", *metrics), rows)

    failures = failure_counts(all_results)
    if failures:
        html += html_table(("failure", "results"), failures.items())

    notes = [*_notes_on_intervals(all_results), *_notes_on_missing_values(all_results)]
    if notes:
        html += html_list(notes)
    return html


def _row(name: str, group: Mapping[str, Any], metrics: Iterable[str]) -> list[str | int]:
    """Return the cells of a row of the table of means: name, results, errors, and the metrics."""
    results, errors = counts_of(group)
    cells: list[str | int] = [name, results, errors]
    for metric in metrics:
        statistics = group.get(metric, {})
        cells.append(_mean_with_interval(statistics))
    return cells


def _mean_with_interval(statistics: Mapping[str, Any]) -> str:
    """Return the mean of a metric and its interval, such as ``0.83 [0.02, 1.00]``.

    If there is no mean, the text is "". If there is no interval of this mean, it is left out.
    """
    if "mean" not in statistics:
        return ""
    mean = mean_of_questions(statistics)
    interval = interval_of_mean(statistics)
    if interval is None:
        return number(mean)
    return f"{mean:.3f} {interval_cell(interval['low'], interval['high'])}"


def _notes_on_intervals(all_results: Mapping[str, Any]) -> Iterator[str]:
    """Yield a note on the intervals in the table of means, and the intervals that it omits.

    If questions have several samples, an interval may be about the mean of first samples. The table
    omits it, since its mean is another one.
    """
    intervals = {}
    for metric, statistics in means_of(all_results).items():
        if "interval" in statistics:
            intervals[metric] = statistics["interval"]
    if not intervals:
        return

    first = next(iter(intervals.values()))
    yield f"[low, high]: {percent(first['level'])} interval, {INTERVAL_KINDS[first['kind']]}"
    for metric, interval in intervals.items():
        if interval_of_mean(all_results[metric]) is None:
            ends = interval_cell(interval["low"], interval["high"])
            yield f"first samples: {metric} {interval['mean']:.3f} {ends}"


def _notes_on_missing_values(all_results: Mapping[str, Any]) -> Iterator[str]:
    """Yield a note on each metric that some results lack: how many have it, and the reasons.

    If all values are missing because of the agent, such as by errors, there is no note: the tables
    show these failures.
    """
    for metric, statistics in all_results.items():
        if not isinstance(statistics, dict) or "coverage" not in statistics:
            continue
        coverage = statistics["coverage"]
        if set(coverage["failed"]) - CAUSED_BY_AGENT:
            values = f"{coverage['values']} of {coverage['applied']} values"
            yield f"{metric}: only {values}; missing: {counts(coverage['failed'])}"
