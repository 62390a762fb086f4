"""The tables of a run, made once from a snapshot of its aggregates, for all screens."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.catalogue.conditions import RIGHT_CONDITIONS
from graphrag_eval_async.catalogue.metrics import COST, is_score
from graphrag_eval_async.catalogue.outcomes import CAUSED_BY_AGENT, NOT_RUN
from graphrag_eval_async.helpers.text import counts, interval_cell, number, percent
from graphrag_eval_async.records.snapshots import (
    INTERVAL_KINDS,
    counts_of,
    cut_note,
    interval_of_mean,
    mean_of_questions,
    means_of,
    tags_of,
)
from graphrag_eval_async.reports.counts import run_counts
from graphrag_eval_async.reports.tables import Table
from graphrag_eval_async.reports.wording import (
    RESOURCE_HEADINGS,
    mean_cell,
    reason_in_words,
    repeats_rows,
    right_in_words,
    variances,
)
from graphrag_eval_async.steps.failure import failure_counts

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from graphrag_eval_async.catalogue.conditions import Condition
    from graphrag_eval_async.reports.examples import Example

ALL_RESULTS = "all results"
"""The name of the row of all results."""

METRICS_WITHOUT_MEAN_SHOWN = frozenset({"input_tokens", "output_tokens"})
"""Metrics whose means are parts of another one, the total of tokens."""

AGREEMENT_HEADINGS = {"krippendorff_alpha": "Krippendorff's alpha", "cohen_kappa": "Cohen's kappa"}
"""The measures of how well judges agree, and their headings."""


def run_tables(
    snapshot: Mapping[str, Any],
    *,
    by: str | None = None,
    right: Iterable[Condition] = RIGHT_CONDITIONS,
    detail: bool = False,
    questions: int | None = None,
) -> list[Table]:
    """Return the tables of a run that have rows.

    Args:
        snapshot: a detailed snapshot of aggregates, with intervals.
        by: the key of the tags that have a row in the table of tags; None for all keys.
        right: the conditions that a right sample meets.
        detail: whether the tables of bounds and quantiles are among them.
        questions: number of questions of the reference set; None without one.
    """
    tables = [
        means_by_template(snapshot, questions),
        means_by_tag(snapshot, by, questions),
        other_means_table(snapshot),
        repeats_table(snapshot, right),
        published_table(snapshot),
        agreement_table(snapshot),
        failures_table(snapshot),
        missing_values_table(snapshot),
    ]
    if detail:
        tables += [bounds_table(snapshot), quantiles_table(snapshot)]
    return [table for table in tables if table.has_rows]


def means_by_template(snapshot: Mapping[str, Any], questions: int | None = None) -> Table:
    """Return the table of the means of each template.

    The last row has the means of all results. A single template has the same means, and no such
    row.

    Args:
        snapshot: a detailed snapshot of aggregates.
        questions: number of questions of the reference set; None without one.
    """
    templates = snapshot["per_template"]
    return _means_table(
        snapshot,
        templates,
        title="Means by template",
        heading="template",
        key="templates",
        has_totals=len(templates) > 1,
        questions=questions,
    )


def means_by_tag(
    snapshot: Mapping[str, Any], by: str | None = None, questions: int | None = None
) -> Table:
    """Return the table of the means of the results with each tag.

    Args:
        snapshot: a detailed snapshot of aggregates.
        by: the key of the tags that have a row; None for all keys.
        questions: number of questions of the reference set; None without one.
    """
    groups = tags_of(snapshot, by)
    # It says that some tags are not shown; it is empty if all are.
    table_note = cut_note(snapshot, by)
    return _means_table(
        snapshot,
        groups,
        title="Means by tag",
        heading="tag",
        key="tags",
        has_totals=False,
        questions=questions,
        notes=[table_note] if table_note else [],
    )


def _means_table(
    snapshot: Mapping[str, Any],
    groups: Mapping[str, Mapping[str, Any]],
    *,
    title: str,
    heading: str,
    key: str,
    has_totals: bool,
    questions: int | None,
    notes: Sequence[str] = (),
) -> Table:
    """Return a table with a row of means for each group of results.

    Args:
        snapshot: the snapshot that has the groups.
        groups: the aggregates of each group, by name.
        title: the title of the table.
        heading: what a group is, such as "template".
        key: the id of the table on a page.
        has_totals: whether the last row is about all results.
        questions: number of questions of the reference set; None without one.
        notes: what stands below the table, besides what its intervals are.
    """
    group_by_row = dict(groups)
    if has_totals:
        group_by_row[ALL_RESULTS] = snapshot["micro"]

    metrics = _metrics_with_column(snapshot)
    columns = _columns_of_means(group_by_row.values(), metrics)
    repeated_columns = _drop_repeated_columns(columns)
    repeated_notes = [
        f"{metric} has the values of {repeated_metric} in each row."
        for metric, repeated_metric in repeated_columns
    ]
    return Table(
        title=title,
        headings=[heading, *columns],
        # Each row takes its name, and one cell of each column.
        rows=[list(row) for row in zip(group_by_row, *columns.values(), strict=True)],
        totals=1 if has_totals else 0,
        notes=[
            *_interval_notes({metric: snapshot["micro"][metric] for metric in metrics}),
            *_notes_on_questions_without_value(snapshot, metrics, questions),
            *repeated_notes,
            *notes,
        ],
        key=key,
    )


def _columns_of_means(
    groups: Collection[Mapping[str, Any]], metrics: Iterable[str]
) -> dict[str, list[str]]:
    """Return the columns of a table of means, with a cell for each group of results.

    They are the number of results, the number of errors, if there are any, and the metrics.

    Args:
        groups: the aggregates of each group.
        metrics: the metrics.

    Returns:
        the cells of each column by its heading.
    """
    columns: dict[str, list[str]] = {"results": []}
    errors = []
    for group in groups:
        results_of_group, errors_of_group = counts_of(group)
        columns["results"].append(str(results_of_group))
        errors.append(errors_of_group)
    if any(errors):
        columns["errors"] = [str(count) for count in errors]
    for metric in metrics:
        heading = RESOURCE_HEADINGS.get(metric, metric)
        columns[heading] = [mean_cell(group.get(metric, {})) for group in groups]
    return columns


def _metrics_with_column(snapshot: Mapping[str, Any]) -> list[str]:
    """Return the metrics that are columns of tables of means: scores, tokens and seconds.

    Metrics without a mean are left out.
    """
    return [
        metric
        for metric, stats in snapshot["macro"].items()
        if "mean" in stats and (is_score(metric) or metric in RESOURCE_HEADINGS)
    ]


def _drop_repeated_columns(columns: dict[str, list[str]]) -> list[tuple[str, str]]:
    """Remove the columns of scores from `columns` that repeat a score to their left in each row.

    Args:
        columns: the cells of each column by its heading, which are changed.

    Returns:
        for each column that was removed, its heading, and the heading of the column that it
        repeats.
    """
    heading_by_cells: dict[tuple[str, ...], str] = {}
    repeated_columns: list[tuple[str, str]] = []
    for heading, cells in list(columns.items()):
        if not is_score(heading):
            continue
        heading_of_equal_column = heading_by_cells.get(tuple(cells))
        if heading_of_equal_column is None:
            heading_by_cells[tuple(cells)] = heading
        else:
            repeated_columns.append((heading, heading_of_equal_column))
            del columns[heading]
    return repeated_columns


def _interval_notes(metrics: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return sentences on what the intervals in a table of means are, and what its means are over.

    Args:
        metrics: the statistics of all results, by metric.
    """
    intervals = {name: stats["interval"] for name, stats in metrics.items() if "interval" in stats}
    metrics_by_kind: dict[str, list[str]] = defaultdict(list)
    for metric, interval in intervals.items():
        metrics_by_kind[interval["kind"]].append(metric)

    notes: list[str] = []
    for kind, names in metrics_by_kind.items():
        interval = intervals[names[0]]
        level = percent(interval["level"])
        # Metrics are listed only if their intervals are of several kinds.
        listed_metrics = f" of {', '.join(names)}" if len(metrics_by_kind) > 1 else ""
        questions = f"{interval['questions']} questions"
        notes.append(
            f"[low, high]: {level} interval{listed_metrics}, {INTERVAL_KINDS[kind]} ({questions})."
        )

    # With several samples of a question, an interval may be of the first samples only.
    first_samples = [
        f"{metric} {interval['mean']:.3f} {interval_cell(interval['low'], interval['high'])}"
        for metric, interval in intervals.items()
        if interval_of_mean(metrics[metric]) is None
    ]
    if first_samples:
        notes.append(f"First samples: {', '.join(first_samples)}.")
    if any(_mean_depends_on_questions(stats) for stats in metrics.values()):
        notes.append("Means are over questions, each the mean of its samples.")
    return notes


def _notes_on_questions_without_value(
    snapshot: Mapping[str, Any], metrics: Iterable[str], questions: int | None
) -> Iterator[str]:
    """Yield sentences on the scores whose means are over some of the questions only.

    Such as "answer_match: over 48 of 50 questions."

    Args:
        snapshot: a detailed snapshot of aggregates.
        metrics: the metrics of a table.
        questions: number of questions of the reference set; None without one.
    """
    run = run_counts(snapshot["micro"], questions=questions)
    metrics_by_questions: dict[str, list[str]] = defaultdict(list)
    for metric in filter(is_score, metrics):
        scored_questions = run.scored_questions.get(metric)
        if scored_questions is None or run.questions is None:
            continue
        if scored_questions < run.questions:
            metrics_by_questions[run.over(metric)].append(metric)
    for questions_in_words, names in metrics_by_questions.items():
        yield f"{', '.join(names)}: {questions_in_words}."


def _mean_depends_on_questions(stats: Mapping[str, Any]) -> bool:
    """Return whether the mean over questions and the mean over results differ in a table."""
    return f"{mean_of_questions(stats):.3f}" != f"{stats['mean']:.3f}"


def other_means_table(snapshot: Mapping[str, Any]) -> Table:
    """Return the table of metrics that have no column in the tables of means, such as costs."""
    shown = {*_metrics_with_column(snapshot), *METRICS_WITHOUT_MEAN_SHOWN}
    means = means_of(snapshot["micro"])
    rows = [
        [metric, mean_cell(stats), str(stats["coverage"]["values"])]
        for metric, stats in means.items()
        if metric not in shown and "coverage" in stats
    ]
    return Table(
        title="Other means", headings=["metric", "mean", "results"], rows=rows, key="other"
    )


def repeats_table(
    snapshot: Mapping[str, Any], right: Iterable[Condition] = RIGHT_CONDITIONS
) -> Table:
    """Return the table of pass@k and pass^k, by the number k of samples of a question.

    They are the chance that any of k samples is right, and the chance that all are right.

    Args:
        snapshot: a detailed snapshot of aggregates.
        right: the conditions that a right sample meets.
    """
    micro = snapshot["micro"]
    rows = repeats_rows(micro)
    notes = [f"A sample is right if it has {right_in_words(right)}."]
    notes += [f"{metric}: {variance}." for metric, variance in variances(micro).items()]
    return Table(
        title="Repeats: pass@k if any, pass^k if all of k samples of a question are right",
        headings=["samples", "pass@k", "pass^k", "questions"],
        # A single sample of each question says nothing about repeats.
        rows=rows if len(rows) > 1 else [],
        words=0,
        notes=notes,
        key="repeats",
    )


def published_table(snapshot: Mapping[str, Any]) -> Table:
    """Return the table of the means of all results as benchmarks publish them."""
    means = snapshot["micro"].get("published_means")
    rows = []
    if means:
        questions = f"{means['questions']:,}"
        rows = [
            ["macro F1 QALD", f"{means['qald_f1']:.3f}", questions],
            ["TEXT2SPARQL", f"{means['published']:.3f}", questions],
        ]
    return Table(
        title="Means as benchmarks publish them",
        headings=["benchmark", "mean", "questions"],
        rows=rows,
        key="published",
    )


def agreement_table(snapshot: Mapping[str, Any]) -> Table:
    """Return the table of the mean of each judge, and of how well the judges agree, by metric.

    It has no rows with a single judge.
    """
    agreement = snapshot.get("agreement", {})
    # The judges of all metrics in their order; a dict has each once.
    mean_by_judge: dict[str, float] = {}
    for statistics in agreement.values():
        mean_by_judge |= statistics["judges"]
    judges = list(mean_by_judge)
    measures = [
        measure
        for measure in AGREEMENT_HEADINGS
        if any(measure in statistics for statistics in agreement.values())
    ]
    rows = []
    for metric, statistics in agreement.items():
        values = [statistics["judges"].get(judge) for judge in judges]
        values += [statistics.get(measure) for measure in measures]
        rows.append([metric, *("" if value is None else f"{value:.3f}" for value in values)])
    return Table(
        title="Agreement of judges",
        headings=["metric", *judges, *(AGREEMENT_HEADINGS[measure] for measure in measures)],
        rows=rows,
        key="agreement",
    )


def failures_table(
    snapshot: Mapping[str, Any], examples: Mapping[str, Example] | None = None
) -> Table:
    """Return the table of how many results failed for each reason, the most frequent first.

    Args:
        snapshot: a detailed snapshot of aggregates.
        examples: a result that failed, by reason; None for a table without examples.
    """
    failures = failure_counts(snapshot["micro"])
    if not examples:
        rows = [[reason_in_words(reason), str(count)] for reason, count in failures.items()]
        return Table(
            title="Why questions failed", headings=["reason", "results"], rows=rows, key="failures"
        )

    rows = []
    for reason, count in failures.items():
        example = examples.get(reason)
        example_cells = ["", "", ""]
        if example is not None:
            example_cells = [example.question_id, example.expected, example.actual]
        rows.append([reason_in_words(reason), *example_cells, str(count)])
    return Table(
        title="Why questions failed",
        headings=["reason", "example", "expected", "got", "results"],
        rows=rows,
        words=4,
        key="failures",
    )


def missing_values_table(snapshot: Mapping[str, Any]) -> Table:
    """Return the table of the scores and costs that lack values, and why.

    Metrics that lack as many values for the same reasons share a row. A metric that lacks values
    only because the agent failed has no row: the errors are counted elsewhere.
    """
    metrics_by_causes: dict[tuple[str, str], list[str]] = defaultdict(list)
    for metric, stats in _covered_metrics(snapshot).items():
        if not (is_score(metric) or metric.endswith(COST)):
            continue
        coverage = stats["coverage"]
        causes = dict(coverage["failed"])
        if coverage["pending"]:
            causes["pending"] = coverage["pending"]
        is_caused_by_agent = CAUSED_BY_AGENT.issuperset(causes)
        if not is_caused_by_agent:
            values = f"{coverage['values']} of {coverage['applied']}"
            metrics_by_causes[_causes_in_words(causes), values].append(metric)
    return Table(
        title="Missing values",
        headings=["metric", "why", "values"],
        rows=[
            [", ".join(metrics), causes, values]
            for (causes, values), metrics in metrics_by_causes.items()
        ],
        words=2,
        key="missing",
    )


def _causes_in_words(causes: Mapping[str, int]) -> str:
    """Return why values are missing, such as "2 timeout", and where to read more."""
    in_words = counts(causes)
    if NOT_RUN in causes:
        in_words += " (see execution_error in the results)"
    return in_words


def _covered_metrics(snapshot: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the statistics over all results of each metric that has a coverage.

    A coverage counts the values of a metric, and the results that lack one.
    """
    return {
        metric: stats
        for metric, stats in snapshot["micro"].items()
        if isinstance(stats, dict) and "coverage" in stats
    }


def bounds_table(snapshot: Mapping[str, Any]) -> Table:
    """Return the table of the interval and bounds of each metric, and of its means in three ways.

    Bounds are the means if all missing values were 0 and if all were 1. A mean may be over
    questions, over results, or over templates.
    """
    metrics = means_of(snapshot["micro"])
    levels = {
        percent(stats["interval"]["level"]) for stats in metrics.values() if "interval" in stats
    }
    # All intervals have the same level; there may be no interval.
    level = " ".join(sorted(levels))
    headings = [
        "metric",
        "values",
        "mean of questions",
        f"{level} interval",
        "bounds",
        "mean of results",
        "mean of templates",
    ]
    rows = [
        _bounds_row(metric, stats, stats_over_templates=snapshot["macro"].get(metric, {}))
        for metric, stats in metrics.items()
    ]
    table = Table(title="Means in detail", headings=headings, rows=rows, key="bounds")
    table = _without_needless_columns(table)
    if "bounds" in table.headings:
        note = "Bounds: the means of results if all missing values were 0, and if all were 1."
        table = replace(table, notes=[note])
    return table


def _bounds_row(
    metric: str, stats: Mapping[str, Any], *, stats_over_templates: Mapping[str, Any]
) -> list[str]:
    """Return the cells of a metric in the table of bounds.

    Args:
        metric: the name of the metric.
        stats: its statistics over all results.
        stats_over_templates: its statistics over the means of templates; empty if it has none.
    """
    coverage = stats.get("coverage", {})
    bounds = None
    if coverage.get("failed"):
        # Without missing values, both bounds would be the mean.
        bounds = stats.get("bounds")

    # In these means, each question, each result or each template counts once.
    mean_over_questions = number(mean_of_questions(stats))
    mean_over_results = number(stats["mean"])
    mean_over_templates = ""
    if "mean" in stats_over_templates:
        mean_over_templates = number(mean_of_questions(stats_over_templates))
    return [
        metric,
        str(coverage.get("values", "")),
        mean_over_questions,
        _range(stats.get("interval")),
        _range(bounds),
        mean_over_results,
        mean_over_templates,
    ]


def _range(ends: Mapping[str, float] | None) -> str:
    """Return the two ends of an interval with three decimals; "" without an interval."""
    if ends is None:
        return ""
    return f"{ends['low']:.3f} to {ends['high']:.3f}"


def quantiles_table(snapshot: Mapping[str, Any]) -> Table:
    """Return the table of the quantiles of each metric over all results."""
    quantiles_by_metric = {
        metric: stats["quantiles"]
        for metric, stats in _covered_metrics(snapshot).items()
        if "quantiles" in stats
    }
    # All metrics have the same quantiles; there may be no metric.
    first_quantiles: Mapping[str, float] = next(iter(quantiles_by_metric.values()), {})
    return Table(
        title="Quantiles of all results",
        headings=["metric", *first_quantiles],
        rows=[
            [metric, *map(number, quantiles.values())]
            for metric, quantiles in quantiles_by_metric.items()
        ],
        key="quantiles",
    )


def _without_needless_columns(table: Table) -> Table:
    """Return a table without the columns of numbers that are empty or repeat a column before."""
    kept_columns: list[int] = []
    earlier_cells: set[tuple[str, ...]] = set()
    for column in range(len(table.headings)):
        cells = tuple(row[column] for row in table.rows)
        holds_words = column < table.words
        says_something_new = any(cells) and cells not in earlier_cells
        if holds_words or says_something_new:
            kept_columns.append(column)
        earlier_cells.add(cells)
    return replace(
        table,
        headings=[table.headings[column] for column in kept_columns],
        rows=[[row[column] for column in kept_columns] for row in table.rows],
    )
