"""What moved between the baseline and a run: by template, and by question."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphrag_eval_async.catalogue.metrics import ERROR_RATE
from graphrag_eval_async.inference.verdicts import is_decided
from graphrag_eval_async.records.snapshots import tags_of
from graphrag_eval_async.reports.comparison_words import ends, short_p, signed, validity
from graphrag_eval_async.reports.tables import Table
from graphrag_eval_async.text import number

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

ALL_QUESTIONS = "all questions"
"""The name of the rows of all questions that both runs have."""

VERDICTS_IN_WORDS = {"no_change": "no change", "non_inferior": "not worse"}
"""The verdicts that are written otherwise than they are named."""


def moved_templates(comparison: Mapping[str, Any]) -> Table:
    """Return how each template moved in the primary metrics, the most fallen first.

    The last rows are about all questions that both runs have, in all metrics.
    """
    overall = comparison["overall"]
    groups = comparison["per_template"]
    rows: list[tuple[str, str, Mapping[str, Any]]] = []
    if len(groups) > 1:
        rows = [
            (template, metric, row)
            for template, group in groups.items()
            for metric, row in group.items()
            if "verdict" in row and _is_worth_a_row(metric, row)
        ]
        rows.sort(key=lambda template_metric_and_row: _loss_rank(template_metric_and_row[2]))

    totals = [
        (ALL_QUESTIONS, metric, row)
        for metric, row in overall.items()
        if _is_worth_a_row(metric, row)
    ]
    note = validity(overall, comparison["level"])
    return _table_of_changes("What moved, by template", "template", rows, totals, [note], "moved")


def moved_tags(comparison: Mapping[str, Any]) -> Table:
    """Return the tags whose primary metrics changed beyond chance, the most fallen first."""
    rows = [
        (tag, metric, row)
        for tag, group in tags_of(comparison).items()
        for metric, row in group.items()
        if is_decided(row)
    ]
    rows.sort(key=lambda tag_metric_and_row: _loss_rank(tag_metric_and_row[2]))
    return _table_of_changes("What moved, by tag", "tag", rows, [], [], "moved-tags")


def _is_worth_a_row(metric: str, row: Mapping[str, Any]) -> bool:
    """Return whether a metric is shown: the error rate only if it moved, since it mostly is 0."""
    return metric != ERROR_RATE or row["ties"] != row["pairs"]


def _loss_rank(row: Mapping[str, Any]) -> float:
    """Return the change of a metric, negative for a loss, so that the greatest loss is first."""
    change: float = row["difference"]
    return -change if row["direction"].startswith("lower") else change


def _table_of_changes(
    title: str,
    heading: str,
    rows: Iterable[tuple[str, str, Mapping[str, Any]]],
    totals: Iterable[tuple[str, str, Mapping[str, Any]]],
    notes: list[str],
    key: str,
) -> Table:
    """Return a table with a row for each group and metric, whose totals stand at its end.

    Args:
        title: the title of the table.
        heading: what the groups are.
        rows: the name of a group, a metric, and the change of the metric in the group.
        totals: the same for all questions.
        notes: what stands below the table.
        key: the id of the table on a page.
    """
    total_rows = [_row_of_change(*total) for total in totals]
    all_rows = [*(_row_of_change(*row) for row in rows), *total_rows]
    return Table(
        title=title,
        headings=[
            heading,
            "metric",
            "questions",
            "baseline",
            "this run",
            "change",
            "interval",
            "p",
            "verdict",
        ],
        rows=all_rows,
        words=2,
        totals=len(total_rows) if len(all_rows) > len(total_rows) else 0,
        notes=notes,
        key=key,
    )


def _row_of_change(group: str, metric: str, row: Mapping[str, Any]) -> list[str]:
    """Return the cells of the change of a metric in a group."""
    verdict = row.get("verdict", "")
    return [
        group,
        metric,
        str(row["pairs"]),
        _mean(row["baseline"]),
        _mean(row["candidate"]),
        signed(row["difference"]),
        ends(row.get("interval")),
        short_p(row.get("p_adjusted")),
        VERDICTS_IN_WORDS.get(verdict, verdict),
    ]


def _mean(value: float) -> str:
    """Return a mean as tables of changes show it: in three decimals if it is below 1,000."""
    return f"{value:.3f}" if abs(value) < 1000 else number(value)


def changed_questions(comparison: Mapping[str, Any]) -> dict[str, str]:
    """Return how each question that changed did, in words, by its id.

    Questions that became worse come first, the worst first.
    """
    changes: dict[str, str] = {}
    for question, metric, row in _losses(comparison):
        change = f"{metric} {number(row['baseline'])} -> {number(row['candidate'])}"
        changes[question] = f"{changes[question]}; {change}" if question in changes else change
    for question in comparison["regressions"]:
        changes.setdefault(question, "no longer right")
    for question in comparison["improvements"]:
        changes.setdefault(question, "now right")
    return changes


def _losses(comparison: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Yield the question, the metric and the change of each loss in a primary metric."""
    losses = [
        (row["question_id"], metric, row)
        for metric, rows in comparison["worse"].items()
        if "verdict" in comparison["overall"][metric]
        for row in rows
    ]
    losses.sort(key=lambda loss: -abs(loss[2]["difference"]))
    yield from losses
