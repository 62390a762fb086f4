"""What an HTML report shows, made of the summary of a run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.catalogue.metrics import metric_position
from graphrag_eval_async.reports.comparison_words import change_of, greatest_losses, signed
from graphrag_eval_async.reports.movement import (
    changed_questions,
    clearly_moved_templates,
    moved_tags,
    unmoved_templates,
)
from graphrag_eval_async.reports.overview import judge_facts
from graphrag_eval_async.reports.run_tables import run_tables
from graphrag_eval_async.reports.verdict import verdict_on, warnings_of
from graphrag_eval_async.reports.wording import reason_in_words
from graphrag_eval_async.reports.worst import explained
from graphrag_eval_async.steps.failure import failure_counts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from graphrag_eval_async.aggregates.questions import QuestionScore
    from graphrag_eval_async.reports.examples import Example
    from graphrag_eval_async.reports.questions import Question
    from graphrag_eval_async.reports.report_results import Detail, ReportResults
    from graphrag_eval_async.reports.summary import Summary
    from graphrag_eval_async.reports.tables import Table

LISTED = 20_000
"""How many questions a report lists: the worst ones."""

MAX_LOSSES = 5
"""How many of the questions that got worse stand above the tables."""

MAX_MOVED_TEMPLATES = 12
"""How many rows of templates that moved are shown at once; the others are folded."""

OUTCOME_ORDER = {"error": 0, "failed": 0, "skipped": 1, "passed": 2}
"""The place of a question in the list, by its outcome."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Reason:
    """A reason of failure, how many results have it, and the first of them."""

    words: str
    count: int
    example: Example | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Loss:
    """A question that got worse; `text` is that of the question, or its id."""

    question_id: str
    text: str
    template_id: str
    difference: str
    change: str
    example: Example | None


@dataclass(frozen=True, kw_only=True, slots=True)
class QuestionRow:
    """A row of the list of questions.

    Attributes:
        question_id: the id of the question.
        text: its text, or else the id.
        template_id: its template.
        outcome: whether it passed.
        kinds: the filters that show the row, separated by blanks.
        means: its means in the listed metrics; None for no value.
        change: how it changed from the baseline; "" if it did not.
        why: why it did not pass.
        samples: number of complete results.
        anchors: the ids of the details of its results.
    """

    question_id: str
    text: str
    template_id: str
    outcome: str
    kinds: str
    means: Sequence[float | None]
    change: str
    why: str
    samples: int
    anchors: Sequence[str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    """A filter of the list of questions, and how many questions it shows."""

    kind: str
    name: str
    count: int


def report_names(
    summary: Summary,
    results: ReportResults,
    *,
    judge: Mapping[str, Any] | None,
    late: str,
) -> dict[str, Any]:
    """Return the names that ``report.html`` takes, besides its title, style and script.

    Args:
        summary: what is said of the run.
        results: the results that the summary counts.
        judge: the state of the judge; None without one.
        late: a warning of spans that came too late; "" without any.
    """
    details = results.details()
    first_details = _first_by_question(details)
    warnings = list(warnings_of(summary))
    if late:
        warnings.append(late)
    tables = run_tables(
        summary.snapshot, by=summary.by, right=summary.right, questions=summary.asked
    )
    return {
        "verdict": verdict_on(summary),
        # Failed gates come first, since False is less than True.
        "gates": sorted(summary.gates, key=lambda gate: gate.holds),
        "warnings": warnings,
        **_names_of_movement(summary, results, details),
        "reasons": list(_reasons(summary)),
        "worst": explained(results.reasons, _lowest_of_other_questions(summary)),
        "examples_of": {question: detail.example for question, detail in first_details.items()},
        "anchors": {question: detail.anchor for question, detail in first_details.items()},
        # The reasons of failure have a section of their own.
        "tables": [table for table in tables if table.key != "failures"],
        "judge": judge_facts(judge),
        "details": details,
        **_names_of_questions(summary, results, details),
    }


def _lowest_of_other_questions(summary: Summary) -> list[QuestionScore]:
    """Return the questions with the lowest means, without those that changed from the baseline.

    The report lists the changed questions elsewhere.
    """
    changes: Mapping[str, str] = {}
    if summary.comparison is not None:
        changes = changed_questions(summary.comparison)
    others = [score for score in summary.lowest if score.question not in changes]
    return others[: summary.listed]


def _first_by_question(details: Sequence[Detail]) -> dict[str, Detail]:
    """Return the details of the worst result of each question, by the id of the question.

    Args:
        details: the details of results, the worst first.
    """
    first: dict[str, Detail] = {}
    for detail in details:
        first.setdefault(detail.question_id, detail)
    return first


def _names_of_movement(
    summary: Summary, results: ReportResults, details: Sequence[Detail]
) -> dict[str, Any]:
    """Return the names that the section on changes from the baseline uses.

    Args:
        summary: what is said of the run.
        results: the results of the run.
        details: the details of the worst results, the worst first.
    """
    comparison = summary.comparison
    if comparison is None:
        return {"moved": None, "losses": [], "hidden_losses": 0}
    shown_table, folded_table = _fold_rows(clearly_moved_templates(comparison))
    unmoved_table = unmoved_templates(comparison)
    losses = greatest_losses(comparison, LISTED)
    first_details = _first_by_question(details)
    shown_losses = []
    for metric, row in losses[:MAX_LOSSES]:
        question = row["question_id"]
        detail = first_details.get(question)
        shown_losses.append(
            Loss(
                question_id=question,
                text=results.texts.get(question, question),
                template_id=row["template_id"],
                difference=signed(row["difference"]),
                change=f"{metric} {change_of(row)}",
                example=None if detail is None else detail.example,
            )
        )
    return {
        "moved": shown_table,
        "moved_rest": folded_table,
        "unmoved": unmoved_table,
        "unmoved_templates": len({row[0] for row in unmoved_table.rows}),
        "moved_tags": moved_tags(comparison),
        "losses": shown_losses,
        "hidden_losses": len(losses) - len(shown_losses),
    }


def _fold_rows(table: Table) -> tuple[Table, Table]:
    """Divide a table into the part that is shown at once, and the part that is folded.

    The first part has the first `MAX_MOVED_TEMPLATES` rows and the totals. The second part has the
    rows between them; it may have no rows.
    """
    first_total = len(table.rows) - table.totals
    if first_total <= MAX_MOVED_TEMPLATES:
        return table, replace(table, rows=[], totals=0)
    first_rows = table.rows[:MAX_MOVED_TEMPLATES]
    folded_rows = table.rows[MAX_MOVED_TEMPLATES:first_total]
    totals = table.rows[first_total:]
    shown_table = replace(table, rows=[*first_rows, *totals])
    folded_table = replace(
        table,
        title="Further templates that moved",
        rows=folded_rows,
        totals=0,
        notes=(),
        key=f"{table.key}-rest",
    )
    return shown_table, folded_table


def _reasons(summary: Summary) -> Iterator[Reason]:
    """Yield the reasons of failure, the most frequent first."""
    for reason, count in failure_counts(summary.snapshot["micro"]).items():
        yield Reason(
            words=reason_in_words(reason), count=count, example=summary.examples.get(reason)
        )


def _names_of_questions(
    summary: Summary, results: ReportResults, details: Sequence[Detail]
) -> dict[str, Any]:
    """Return the names that the list of questions and its filters use.

    Args:
        summary: what is said of the run.
        results: the results of the run.
        details: the details of the worst results.
    """
    changes: dict[str, str] = {}
    if summary.comparison is not None:
        changes = changed_questions(summary.comparison)
    questions = sorted(
        summary.questions, key=lambda question: (OUTCOME_ORDER[question.outcome], question.rank)
    )
    metrics_with_mean = {metric for question in questions for metric in question.means}
    metrics = sorted(metrics_with_mean, key=metric_position)
    anchors: dict[str, list[str]] = {}
    for detail in details:
        anchors.setdefault(detail.question_id, []).append(detail.anchor)

    rows = [
        _question_row(
            question,
            text=results.texts.get(question.question_id, question.question_id),
            metrics=metrics,
            change=changes.get(question.question_id, ""),
            anchors=anchors.get(question.question_id, []),
        )
        for question in questions[:LISTED]
    ]
    title = "Questions"
    hidden = len(questions) - len(rows)
    if hidden > 0:
        title = f"Questions, without the {hidden} best"
    return {
        "questions": rows,
        "questions_title": title,
        "question_metrics": metrics,
        "has_changes": bool(changes),
        "has_samples": any(row.samples > 1 for row in rows),
        "choices": _choices(rows),
    }


def _question_row(
    question: Question,
    *,
    text: str,
    metrics: Sequence[str],
    change: str,
    anchors: Sequence[str],
) -> QuestionRow:
    """Return the row of a question in the list of questions.

    Args:
        question: the question.
        text: its text, or else its id.
        metrics: the metrics that have a column.
        change: how it changed from the baseline, in words; "" if it did not.
        anchors: the ids of the details of its results.
    """
    kinds = []
    if question.outcome in ("failed", "error"):
        kinds.append("failures")
    if change:
        kinds.append("changed")
    return QuestionRow(
        question_id=question.question_id,
        text=text,
        template_id=question.template_id,
        outcome=question.outcome,
        kinds=" ".join(kinds),
        means=[question.means.get(metric) for metric in metrics],
        change=change,
        why="" if question.outcome == "passed" else question.why,
        samples=question.samples,
        anchors=anchors,
    )


def _choices(rows: Sequence[QuestionRow]) -> list[Choice]:
    """Return the filters of the list of questions that show at least one row, then "All"."""
    choices = []
    for kind, name in (("failures", "Failures"), ("changed", "Changed")):
        count = sum(kind in row.kinds.split() for row in rows)
        if count:
            choices.append(Choice(kind=kind, name=name, count=count))
    choices.append(Choice(kind="all", name="All", count=len(rows)))
    return choices
