"""What moved between the baseline and a run: by template, and by question."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from graphrag_eval_async.catalogue.metrics import ERROR_RATE, RESOURCES
from graphrag_eval_async.helpers.text import number
from graphrag_eval_async.inference.verdicts import is_decided
from graphrag_eval_async.records.snapshots import tags_of
from graphrag_eval_async.reports.comparison_words import ends, short_p, signed, validity
from graphrag_eval_async.reports.tables import Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

ALL_QUESTIONS = "all questions"
"""The name of the rows of all questions that both runs have."""

VERDICTS_IN_WORDS = {"no_change": "no change", "non_inferior": "not worse"}
"""The verdicts that are written otherwise than they are named."""


class GroupChange(NamedTuple):
    """The change of a metric in a group of questions.

    Attributes:
        group: the name of the group.
        metric: the metric.
        row: the change, as a comparison has it.
    """

    group: str
    metric: str
    row: Mapping[str, Any]

    @property
    def gain(self) -> float:
        """The change of the metric: above 0 if it got better, below 0 if it got worse."""
        difference: float = self.row["difference"]
        lower_is_better = self.row["direction"].startswith("lower")
        return -difference if lower_is_better else difference

    @property
    def is_worth_a_row(self) -> bool:
        """Whether the change is shown: errors, tokens, time and cost only if they changed."""
        is_optional = self.metric == ERROR_RATE or self.metric in RESOURCES
        return not is_optional or self.row["ties"] != self.row["pairs"]


def moved_templates(comparison: Mapping[str, Any]) -> Table:
    """Return the table of the changes in each template, the greatest loss first.

    It has the changes of primary metrics, the only ones with a verdict. The last rows are the
    changes of all metrics over all questions that both runs have. They are the only rows if there
    is one template.
    """
    overall = comparison["overall"]
    return _table_of_changes(
        _changes_of_templates(comparison),
        [GroupChange(ALL_QUESTIONS, metric, row) for metric, row in overall.items()],
        title="What moved, by template",
        heading="template",
        notes=[validity(overall, comparison["level"])],
        key="moved",
    )


def clearly_moved_templates(comparison: Mapping[str, Any]) -> Table:
    """Return the rows of `moved_templates` with a decided verdict, and those of all questions."""
    overall = comparison["overall"]
    changes = _changes_of_templates(comparison)
    return _table_of_changes(
        [change for change in changes if is_decided(change.row)],
        [GroupChange(ALL_QUESTIONS, metric, row) for metric, row in overall.items()],
        title="What moved, by template",
        heading="template",
        notes=[validity(overall, comparison["level"])],
        key="moved",
    )


def unmoved_templates(comparison: Mapping[str, Any]) -> Table:
    """Return the rows of the templates none of whose primary metrics has a decided verdict."""
    changes = _changes_of_templates(comparison)
    moved = {change.group for change in changes if is_decided(change.row)}
    return _table_of_changes(
        [change for change in changes if change.group not in moved],
        [],
        title="Templates without a clear change",
        heading="template",
        notes=[],
        key="unmoved",
    )


def _changes_of_templates(comparison: Mapping[str, Any]) -> list[GroupChange]:
    """Return the changes of each template in the primary metrics.

    There are none if all questions have the same template, whose rows repeat those of all
    questions.
    """
    groups = comparison["per_template"]
    if len(groups) < 2:
        return []
    return [
        GroupChange(template, metric, row)
        for template, rows in groups.items()
        for metric, row in rows.items()
        if "verdict" in row
    ]


def moved_tags(comparison: Mapping[str, Any]) -> Table:
    """Return the table of the changes in tags that are beyond chance, the greatest loss first."""
    changes = [
        GroupChange(tag, metric, row)
        for tag, rows in tags_of(comparison).items()
        for metric, row in rows.items()
        if is_decided(row)
    ]
    return _table_of_changes(
        changes,
        totals=[],
        title="What moved, by tag",
        heading="tag",
        notes=[],
        key="moved-tags",
    )


def _table_of_changes(
    changes: Iterable[GroupChange],
    totals: Iterable[GroupChange],
    *,
    title: str,
    heading: str,
    notes: Sequence[str],
    key: str,
) -> Table:
    """Return a table with a row for each change that is worth one, the greatest losses first.

    Args:
        changes: the changes in groups of questions.
        totals: the changes over all questions, which stand at the end.
        title: the title of the table.
        heading: what the groups are, such as "template".
        notes: what stands below the table.
        key: the id of the table on a page.
    """
    shown_changes = [change for change in changes if change.is_worth_a_row]
    shown_changes.sort(key=lambda change: change.gain)
    shown_totals = [total for total in totals if total.is_worth_a_row]
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
        rows=[_row_of_change(change) for change in [*shown_changes, *shown_totals]],
        words=2,
        # Without rows above them, they sum up nothing.
        totals=len(shown_totals) if shown_changes else 0,
        notes=notes,
        key=key,
    )


def _row_of_change(change: GroupChange) -> list[str]:
    """Return the cells of a change in a table of changes."""
    row = change.row
    verdict = row.get("verdict", "")
    return [
        change.group,
        change.metric,
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
    """Return the changes of questions from the baseline in words, by the id of the question.

    Questions that did not change are left out. Those that got worse in a primary metric come first,
    the greatest loss first. Questions that became wrong follow, then those that became right.
    """
    overall = comparison["overall"]
    losses: list[tuple[str, Mapping[str, Any]]] = []
    for metric, rows in comparison["worse"].items():
        is_primary = "verdict" in overall[metric]
        if is_primary:
            losses += [(metric, row) for row in rows]

    def size_of_loss(loss: tuple[str, Mapping[str, Any]]) -> float:
        _, row = loss
        difference: float = row["difference"]
        return abs(difference)

    losses.sort(key=size_of_loss, reverse=True)
    changes_by_question: dict[str, list[str]] = {}
    for metric, row in losses:
        change = f"{metric} {number(row['baseline'])} -> {number(row['candidate'])}"
        changes_by_question.setdefault(row["question_id"], []).append(change)

    # A question with a loss keeps the words about the loss, even if it became right as well.
    for question in comparison["regressions"]:
        changes_by_question.setdefault(question, ["no longer right"])
    for question in comparison["improvements"]:
        changes_by_question.setdefault(question, ["now right"])
    return {question: "; ".join(changes) for question, changes in changes_by_question.items()}
