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
    VALIDITY,
    mean_cell,
    reason_in_words,
    repeats_rows,
    right_in_words,
    variances,
)
from graphrag_eval_async.steps.failure import failure_counts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

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
) -> list[Table]:
    """Return the tables of a run; those that would say nothing are not among them.

    Args:
        snapshot: a detailed snapshot of aggregates, with intervals.
        by: the key of the tags that have a row in the table of tags; None for all keys.
        right: the conditions that a right sample meets.
        detail: whether tables of bounds and quantiles are added.
    """
    tables = [
        means_by_template(snapshot),
        means_by_tag(snapshot, by),
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


def means_by_template(snapshot: Mapping[str, Any]) -> Table:
    """Return the means of each template, and in the last row those of all results."""
    return _means_table(
        snapshot,
        snapshot["per_template"],
        title="Means by template",
        heading="template",
        key="templates",
        # The only template has all results.
        has_totals=len(snapshot["per_template"]) > 1,
    )


def means_by_tag(snapshot: Mapping[str, Any], by: str | None = None) -> Table:
    """Return the means of the results with each tag of the key `by`; None for all keys."""
    groups = tags_of(snapshot, by)
    table_note = cut_note(snapshot, by)
    return _means_table(
        snapshot,
        groups,
        title="Means by tag",
        heading="tag",
        key="tags",
        has_totals=False,
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
    notes: Sequence[str] = (),
) -> Table:
    """Return a row of means for each group.

    Args:
        snapshot: the snapshot of the groups.
        groups: the aggregates of each group, by name.
        title: the title of the table.
        heading: what a group is.
        key: the id of the table on a page.
        has_totals: whether the last row is about all results.
        notes: what stands below the table, besides what its intervals are.
    """
    rows = dict(groups)
    if has_totals:
        rows[ALL_RESULTS] = snapshot["micro"]

    columns = {"results": [str(counts_of(group)[0]) for group in rows.values()]}
    errors = [counts_of(group)[1] for group in rows.values()]
    if any(errors):
        columns["errors"] = [str(count) for count in errors]
    metrics = _metrics_with_column(snapshot)
    for metric in metrics:
        column_heading = RESOURCE_HEADINGS.get(metric, metric)
        columns[column_heading] = [mean_cell(group.get(metric, {})) for group in rows.values()]
    repeated = _drop_repeated_columns(columns)

    return Table(
        title=title,
        headings=[heading, *columns],
        rows=[list(row) for row in zip(rows, *columns.values(), strict=True)],
        totals=1 if has_totals else 0,
        notes=[
            *_interval_notes({metric: snapshot["micro"][metric] for metric in metrics}),
            *_notes_on_questions_without_value(snapshot, metrics),
            *(f"{metric} has the values of {same} in each row." for metric, same in repeated),
            *notes,
        ],
        key=key,
    )


def _metrics_with_column(snapshot: Mapping[str, Any]) -> list[str]:
    """Return the scores and resources of a run that have a mean, in their order."""
    return [
        metric
        for metric, stats in snapshot["macro"].items()
        if "mean" in stats and (is_score(metric) or metric in RESOURCE_HEADINGS)
    ]


def _drop_repeated_columns(columns: dict[str, list[str]]) -> list[tuple[str, str]]:
    """Remove from `columns` scores that equal a score to their left in each row.

    Returns:
        The heading of each column that was removed, and that of the column that it repeats.
    """
    heading_by_cells: dict[tuple[str, ...], str] = {}
    repeated: list[tuple[str, str]] = []
    for heading, cells in list(columns.items()):
        if not is_score(heading):
            continue
        first = heading_by_cells.setdefault(tuple(cells), heading)
        if first != heading:
            repeated.append((heading, first))
            del columns[heading]
    return repeated


def _interval_notes(metrics: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return sentences on what the intervals in a table are, and how its means are made.

    Args:
        metrics: the statistics of all results, by metric.
    """
    intervals = {name: stats["interval"] for name, stats in metrics.items() if "interval" in stats}
    metrics_by_kind: dict[str, list[str]] = defaultdict(list)
    for metric, interval in intervals.items():
        metrics_by_kind[interval["kind"]].append(metric)

    notes: list[str] = []
    for kind, of_kind in metrics_by_kind.items():
        interval = intervals[of_kind[0]]
        level = percent(interval["level"])
        which = f" of {', '.join(of_kind)}" if len(metrics_by_kind) > 1 else ""
        questions = f"{interval['questions']} questions"
        notes.append(f"[low, high]: {level} interval{which}, {VALIDITY[kind]} ({questions}).")

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
    snapshot: Mapping[str, Any], metrics: Iterable[str]
) -> Iterator[str]:
    """Yield which scores are means over some of the questions only, and of how many."""
    run = run_counts(snapshot["micro"])
    metrics_by_questions: dict[str, list[str]] = defaultdict(list)
    for metric in filter(is_score, metrics):
        scored = run.scored_questions.get(metric)
        if scored is not None and run.questions is not None and scored < run.questions:
            metrics_by_questions[run.over(metric)].append(metric)
    for over, names in metrics_by_questions.items():
        yield f"{', '.join(names)}: {over}."


def _mean_depends_on_questions(stats: Mapping[str, Any]) -> bool:
    """Return whether the mean over questions is shown as another one than that over results."""
    return f"{mean_of_questions(stats):.3f}" != f"{stats['mean']:.3f}"


def other_means_table(snapshot: Mapping[str, Any]) -> Table:
    """Return the means of metrics that have no column in the tables of means, such as costs."""
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
    """Return how likely any and all of k samples of a question are right.

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
        rows=rows if len(rows) > 1 else [],
        words=0,
        notes=notes,
        key="repeats",
    )


def published_table(snapshot: Mapping[str, Any]) -> Table:
    """Return the means of all results as benchmarks publish them."""
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
    """Return the mean of each judge, and how well the judges agree, by metric."""
    agreement = snapshot.get("agreement", {})
    judges = list(
        dict.fromkeys(judge for metric in agreement.values() for judge in metric["judges"])
    )
    measures = [
        measure
        for measure in AGREEMENT_HEADINGS
        if any(measure in metric for metric in agreement.values())
    ]
    rows = []
    for name, metric in agreement.items():
        values = [metric["judges"].get(judge) for judge in judges]
        values += [metric.get(measure) for measure in measures]
        rows.append([name, *("" if value is None else f"{value:.3f}" for value in values)])
    return Table(
        title="Agreement of judges",
        headings=["metric", *judges, *(AGREEMENT_HEADINGS[measure] for measure in measures)],
        rows=rows,
        key="agreement",
    )


def failures_table(
    snapshot: Mapping[str, Any], examples: Mapping[str, Example] | None = None
) -> Table:
    """Return how many results failed for each reason, the most frequent reason first.

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
        sides = ["", "", ""]
        if example is not None:
            sides = [example.question_id, example.expected, example.actual]
        rows.append([reason_in_words(reason), *sides, str(count)])
    return Table(
        title="Why questions failed",
        headings=["reason", "example", "expected", "got", "results"],
        rows=rows,
        words=4,
        key="failures",
    )


def missing_values_table(snapshot: Mapping[str, Any]) -> Table:
    """Return which metrics lack values, of how many results, and why.

    Metrics that lack the same values for the same reasons share a row. Metrics that lack values
    only since the agent failed have none: the errors are counted elsewhere.
    """
    metrics_by_causes: dict[tuple[str, str], list[str]] = defaultdict(list)
    for metric, stats in _covered_metrics(snapshot).items():
        if not (is_score(metric) or metric.endswith(COST)):
            continue
        coverage = stats["coverage"]
        causes = dict(coverage["failed"])
        if coverage["pending"]:
            causes["pending"] = coverage["pending"]
        if not CAUSED_BY_AGENT.issuperset(causes):
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
    """Return the statistics of all results for each metric whose values are counted."""
    return {
        metric: stats
        for metric, stats in snapshot["micro"].items()
        if isinstance(stats, dict) and "coverage" in stats
    }


def bounds_table(snapshot: Mapping[str, Any]) -> Table:
    """Return the interval of each metric in full, its bounds, and other ways to average it.

    Bounds are the means if all missing values were 0 and if all were 1.
    """
    metrics = means_of(snapshot["micro"])
    levels = {
        percent(stats["interval"]["level"]) for stats in metrics.values() if "interval" in stats
    }
    headings = [
        "metric",
        "values",
        "mean of questions",
        f"{' '.join(sorted(levels))} interval",
        "bounds",
        "mean of results",
        "mean of templates",
    ]
    rows = [
        _bounds_row(metric, stats, mean_of_templates=snapshot["macro"].get(metric, {}))
        for metric, stats in metrics.items()
    ]
    table = Table(title="Means in detail", headings=headings, rows=rows, key="bounds")
    table = _without_needless_columns(table)
    if "bounds" in table.headings:
        note = "Bounds: the means of results if all missing values were 0, and if all were 1."
        table = replace(table, notes=[note])
    return table


def _bounds_row(
    metric: str, stats: Mapping[str, Any], *, mean_of_templates: Mapping[str, Any]
) -> list[str]:
    """Return the cells of a metric in the table of bounds.

    Args:
        metric: the name of the metric.
        stats: its statistics over all results.
        mean_of_templates: its mean over the means of templates; empty if it has none.
    """
    coverage = stats.get("coverage", {})
    # Without missing values, both bounds are the mean.
    bounds = stats.get("bounds") if coverage.get("failed") else None
    over_templates = ""
    if "mean" in mean_of_templates:
        over_templates = number(mean_of_questions(mean_of_templates))
    return [
        metric,
        str(coverage.get("values", "")),
        number(mean_of_questions(stats)),
        _range(stats.get("interval")),
        _range(bounds),
        number(stats["mean"]),
        over_templates,
    ]


def _range(ends: Mapping[str, float] | None) -> str:
    """Return the two ends of an interval in three digits; "" without an interval."""
    return "" if ends is None else f"{ends['low']:.3f} to {ends['high']:.3f}"


def quantiles_table(snapshot: Mapping[str, Any]) -> Table:
    """Return the quantiles of each metric over all results."""
    quantiles_by_metric = {
        metric: stats["quantiles"]
        for metric, stats in _covered_metrics(snapshot).items()
        if "quantiles" in stats
    }
    names: Mapping[str, float] = next(iter(quantiles_by_metric.values()), {})
    return Table(
        title="Quantiles of all results",
        headings=["metric", *names],
        rows=[
            [metric, *map(number, quantiles.values())]
            for metric, quantiles in quantiles_by_metric.items()
        ],
        key="quantiles",
    )


def _without_needless_columns(table: Table) -> Table:
    """Return a table without columns of numbers that are empty or repeat one to their left."""
    kept: list[int] = []
    seen: set[tuple[str, ...]] = set()
    for place in range(len(table.headings)):
        cells = tuple(row[place] for row in table.rows)
        if place < table.words or (any(cells) and cells not in seen):
            kept.append(place)
        seen.add(cells)
    return replace(
        table,
        headings=[table.headings[place] for place in kept],
        rows=[[row[place] for place in kept] for row in table.rows],
    )
