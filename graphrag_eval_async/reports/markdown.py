"""A summary as GitHub-flavoured Markdown, for a pull request or a run of GitHub Actions."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.helpers.text import counts, number, one_line
from graphrag_eval_async.reports.comparison_words import change_of, greatest_losses, one_sided
from graphrag_eval_async.reports.markdown_text import code_span, sentence
from graphrag_eval_async.reports.movement import changed_questions, moved_tags, moved_templates
from graphrag_eval_async.reports.run_tables import failures_table, run_tables
from graphrag_eval_async.reports.tables import Table, render_markdown_table
from graphrag_eval_async.reports.verdict import verdict_on, warnings_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from graphrag_eval_async.reports.questions import Question
    from graphrag_eval_async.reports.summary import Summary

MAX_CHARACTERS = 60_000
"""Maximum length of a page: GitHub refuses comments of more than 65,536 characters."""

MAX_ROWS = 300
"""Maximum number of rows of each table or list."""

MAX_SENTENCE = 500
"""Maximum number of characters of a sentence about a gate or a line."""

MAX_QUESTION = 100
"""Maximum number of characters of the text of a question."""

GOOD = "\N{WHITE HEAVY CHECK MARK}"
BAD = "\N{CROSS MARK}"
MARK_BY_TONE = {"good": f"{GOOD} ", "bad": f"{BAD} ", "neutral": ""}
"""What stands before the title, by the tone of the verdict."""


@dataclass(frozen=True, kw_only=True)
class TextSection:
    """A part of a page that is no table: paragraphs in Markdown, then a list that may be cut."""

    paragraphs: list[str]
    items: list[str] = field(default_factory=list)


def render_markdown(summary: Summary) -> str:
    """Return a summary as a page in Markdown of at most `MAX_CHARACTERS` characters.

    Long tables and lists are cut, and say how many of their rows are hidden.
    """
    sections = list(_sections(summary))

    def length_of_page(max_rows: int) -> int:
        return len(_page(sections, max_rows))

    # The greatest number of rows with which the page fits. Pages grow with the number, so that it
    # can be found by bisection.
    max_rows = bisect_right(range(1, MAX_ROWS + 1), MAX_CHARACTERS, key=length_of_page)
    # Even a page without any rows could be too long.
    return _page(sections, max_rows)[:MAX_CHARACTERS]


def _page(sections: list[Table | TextSection], max_rows: int) -> str:
    """Return a page in Markdown with at most `max_rows` rows of each table and each list."""
    lines: list[str] = []
    for section in sections:
        if isinstance(section, Table):
            section_lines = render_markdown_table(section, max_rows=max_rows)
        else:
            section_lines = _text_lines(section, max_rows)
        if section_lines:
            lines += [*section_lines, ""]
    return "\n".join(lines)


def _text_lines(section: TextSection, max_rows: int) -> list[str]:
    """Return the lines of a section in Markdown, with at most `max_rows` items of its list."""
    lines: list[str] = []
    for paragraph in section.paragraphs:
        if lines:
            lines.append("")
        lines.append(paragraph)
    if not section.items:
        return lines

    lines.append("")
    lines += [f"- {item}" for item in section.items[:max_rows]]
    hidden = len(section.items) - max_rows
    if hidden > 0:
        lines += ["", f"*Cut: the last {hidden} lines.*"]
    return lines


def _sections(summary: Summary) -> Iterator[Table | TextSection]:
    """Yield the parts of a page in order: what a reader wants to know first comes first."""
    yield _verdict_section(summary)
    if summary.comparison is not None:
        yield moved_templates(summary.comparison)
        yield moved_tags(summary.comparison)

    yield failures_table(summary.snapshot, summary.examples)
    yield _losses_table(summary)
    yield _worst_table(summary)

    for table in run_tables(
        summary.snapshot, by=summary.by, right=summary.right, questions=summary.asked
    ):
        # The table of failures, with examples, stands above already.
        if table.key != "failures":
            yield table
    if summary.rejected:
        yield TextSection(
            paragraphs=[f"### Rejected lines: {counts(summary.rejected)}"],
            items=[_quoted_sentence(reject) for reject in summary.rejects],
        )


def _verdict_section(summary: Summary) -> TextSection:
    """Return the first section of a page: the verdict, the main scores, the gates and warnings."""
    verdict = verdict_on(summary)
    mark = MARK_BY_TONE[verdict.tone]
    paragraphs = [f"## {mark}Evaluation: {verdict.title}"]
    if verdict.scores:
        paragraphs.append(" ".join(sentence(score.in_words) for score in verdict.scores))
    paragraphs += [sentence(text) for text in verdict.sentences]

    items = []
    # Failed gates come first, since False is less than True.
    for gate in sorted(summary.gates, key=lambda gate: gate.holds):
        outcome = f"{GOOD} held" if gate.holds else f"{BAD} failed"
        items.append(f"{outcome}: {_quoted_sentence(gate.explanation)}")
    items += [f"warning: {_quoted_sentence(warning)}" for warning in warnings_of(summary)]
    if summary.comparison is not None:
        items += [_quoted_sentence(text) for text in one_sided(summary.comparison)]
    return TextSection(paragraphs=paragraphs, items=items)


def _quoted_sentence(text: str) -> str:
    """Return a sentence with text from the data as a code span, so that nothing in it is markup."""
    return code_span(text, limit=MAX_SENTENCE)


def _losses_table(summary: Summary) -> Table:
    """Return the table of the questions that got worse, each once, the worst first.

    It has no rows if there is no baseline.
    """
    losses: list[tuple[str, Mapping[str, Any]]] = []
    if summary.comparison is not None:
        losses = greatest_losses(summary.comparison, summary.listed)
    kinds = {question.question_id: question.kind for question in summary.questions}
    rows = []
    for metric, row in losses:
        question_id = row["question_id"]
        rows.append(
            [
                _name_question(summary, question_id),
                row["template_id"],
                kinds.get(question_id, ""),
                summary.places.get(question_id, ""),
                f"{metric} {change_of(row)}{_further_metrics(row)}",
            ]
        )
    return Table(
        title="Questions that got worse",
        headings=["question", "template", "why", "result", "change"],
        rows=rows,
        words=4,
    )


def _further_metrics(loss: Mapping[str, Any]) -> str:
    """Return the other metrics in which a question got worse, such as ", also in answer_match".

    Returns:
        "" if there are no others.
    """
    metrics = loss["further_metrics"]
    if not metrics:
        return ""
    return f", also in {', '.join(metrics)}"


def _worst_table(summary: Summary) -> Table:
    """Return the table of the worst questions that did not pass, the worst first.

    Questions that changed from the baseline are left out.
    """
    changes: Mapping[str, str] = {}
    if summary.comparison is not None:
        changes = changed_questions(summary.comparison)
    failed = [
        question
        for question in summary.questions
        if question.did_not_pass and question.question_id not in changes
    ]
    rows = [
        _row_of_worst(summary, question)
        for question in summary.worst
        if question.question_id not in changes
    ]
    title = "Worst of the other questions" if changes else "Worst questions"
    has_errors = any(score.errors for score in summary.lowest)
    return Table(
        title=f"{title}: {len(rows)} of {len(failed)} that did not pass",
        headings=["question", "template", "why", "result", "score"],
        rows=rows,
        words=4,
        notes=["An error counts as 0."] if has_errors else [],
    )


def _row_of_worst(summary: Summary, question: Question) -> list[str]:
    """Return the cells of a question in the table of the worst questions."""
    score_text = ""
    lowest_mean = summary.means.get((question.template_id, question.question_id))
    if summary.by_means and lowest_mean is not None:
        # The mean by which the question is among the worst ones.
        score_text = f"{lowest_mean.metric} {number(lowest_mean.mean)}"
    elif question.score is not None:
        metric, mean = question.score
        score_text = f"{metric} {number(mean)}"
    return [
        _name_question(summary, question.question_id),
        question.template_id,
        question.why,
        summary.places.get(question.question_id, ""),
        score_text,
    ]


def _name_question(summary: Summary, question_id: str) -> str:
    """Return the id of a question, and the beginning of its text if the summary has it."""
    text = summary.texts.get(question_id)
    if text is None:
        return question_id
    return f"{question_id}: {one_line(text, limit=MAX_QUESTION)}"
