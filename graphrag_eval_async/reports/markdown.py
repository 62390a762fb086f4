"""A summary as GitHub-flavoured Markdown, for a pull request or a run of GitHub Actions."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from graphrag_eval_async.catalogue.metrics import ERROR_RATE, is_score
from graphrag_eval_async.inference.verdicts import is_decided
from graphrag_eval_async.records.snapshots import counts_of, cut_note, tags_of
from graphrag_eval_async.reports.comparison_words import (
    change_of,
    ends,
    headline,
    one_sided,
    short_p,
    validity,
)
from graphrag_eval_async.reports.wording import (
    VALIDITY,
    mean_cell,
    not_run_in_words,
    published_lines,
    repeats_rows,
    right_in_words,
    unscored,
    variances,
)
from graphrag_eval_async.steps.failure import failure_counts
from graphrag_eval_async.text import NAME_CHARACTERS, counts, number, one_line, percent, plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from graphrag_eval_async.reports.summary import Summary

MAX_CHARACTERS = 60_000  # of a page; GitHub refuses comments of more than 65,536
MAX_ROWS = 300  # of each table or list
SHOWN_SCORES = 6  # columns in the table of templates
# of a sentence about a gate or a line, and of a question
SENTENCE_CHARACTERS, TEXT_CHARACTERS = (
    500,
    100,
)
OUTCOMES = {"passed": "passed", "failed": "failed", "error": "with an error", "skipped": "skipped"}
FAILED, HELD = "\N{CROSS MARK}", "\N{WHITE HEAVY CHECK MARK}"
CHANGE = [">change", ">interval of the change", ">p", "verdict"]


def render_markdown(summary: Summary) -> str:
    """Return a page of at most `MAX_CHARACTERS`; long tables are cut, and say so."""
    sections = [*_sections(summary)]

    def page(most: int) -> str:
        return "\n".join(line for section in sections for line in section.lines(most))

    rows = bisect_right(range(1, MAX_ROWS + 1), MAX_CHARACTERS, key=lambda most: len(page(most)))
    return page(rows)[:MAX_CHARACTERS]


class Section(NamedTuple):
    """A part of a page; if it is too long, its rows are cut."""

    head: Sequence[str]
    rows: Sequence[str]
    tail: Sequence[str] = ()

    def lines(self, most: int) -> Iterator[str]:
        yield from (*self.head, *self.rows[:most])
        if (left := len(self.rows) - most) > 0:
            yield from (
                "",
                f"*Cut: the last {left} lines; a page has at most {MAX_CHARACTERS:,} characters.*",
            )
        yield from (*self.tail, "")


def code(text: str, *, limit: int = NAME_CHARACTERS) -> str:
    """Return text from data as a code span: nothing in it is markup, a link or a mention."""
    # A command to GitHub Actions, if printed.
    shown = one_line(text, limit=limit).replace("##[", r"##\x5b")
    if not shown:
        return "(empty)"
    ticks = "`" * (1 + max(map(len, re.findall("`+", shown)), default=0))
    pad = " " * (shown[0] == "`" or shown[-1] == "`")
    return f"{ticks}{pad}{shown}{pad}{ticks}"


def cell(text: str, *, limit: int = NAME_CHARACTERS) -> str:
    """Do the same for a cell of a table, whose rows are split at pipes first, also within code
    spans.
    """
    # A backslash before an escaped pipe would be ambiguous.
    return re.sub(r"\\(?=\|)", r"\\x5c", code(text, limit=limit)).replace("|", r"\|")


def _sentence(text: str) -> str:
    return code(text, limit=SENTENCE_CHARACTERS)


def _table(
    title: str, headings: Sequence[str], rows: Sequence[Sequence[str]], *tail: str
) -> Iterator[Section]:
    """A section with a table, if it has rows; columns whose heading begins with > are
    right-aligned.
    """
    if rows:
        marks = ["---:" if heading.startswith(">") else "---" for heading in headings]
        cells = [[heading.lstrip(">") for heading in headings], marks, *rows]
        lines = [f"| {' | '.join(row)} |" for row in cells]
        yield Section([f"### {title}", "", *lines[:2]], lines[2:], ["", *tail] if tail else [])


def _sections(summary: Summary) -> Iterator[Section]:
    """The verdict, then tables."""
    yield _verdict(summary)
    yield from _scores(summary)
    repeats, micro = ["k", ">pass@k", ">pass^k", ">questions"], summary.snapshot["micro"]
    told = [f"Right: {_sentence(right_in_words(summary.right))}."]
    told += [f"{code(name)}: {each}." for name, each in variances(micro).items()]
    yield from _table(
        "Repeats: k samples of a question", repeats, repeats_rows(micro), " ".join(told)
    )
    published = published_lines(micro)
    if published:
        yield Section(["### As benchmarks publish it", ""], [f"- {line}" for line in published])
    yield from _groups(summary, "Templates", "template", summary.snapshot["per_template"])
    yield from _groups(
        summary,
        "Tags",
        "tag",
        tags_of(summary.snapshot, summary.by),
        cut_note(summary.snapshot, summary.by),
    )
    yield from _questions(summary)
    failures = failure_counts(summary.snapshot["micro"]).items()
    rows = [[cell(kind), str(count)] for kind, count in failures]
    yield from _table("Failures by reason", ["reason", ">results"], rows)
    if summary.rejected:
        lines = [f"- {_sentence(told)}" for told in summary.rejects]
        yield Section([f"### Rejected lines: {counts(summary.rejected)}", ""], lines)


def _verdict(summary: Summary) -> Section:
    """Gates, outcomes of questions, and the comparison in a sentence."""
    failed, gates, comparison = summary.failed_gates, summary.gates, summary.comparison
    title, micro = "## Evaluation", summary.snapshot["micro"]
    if gates:
        title = f"## {HELD} Evaluation: {plural(len(gates), 'gate')} held"
    if failed:
        title = f"## {FAILED} Evaluation: {len(failed)} of {len(gates)} gates failed"
    head = [title, "", _counts(summary)]
    if nothing := unscored(micro):
        head += ["", f"**{nothing}**"]
    rows = [
        f"- {f'{HELD} held' if gate.holds else f'{FAILED} failed'}: {_sentence(gate.explanation)}"
        for gate in sorted(gates, key=lambda gate: gate.holds)
    ]
    if summary.misnamed is not None:
        rows.append(f"- warning: {_sentence(summary.misnamed)}")
    if told := not_run_in_words(micro.get("steps_score", {}).get("coverage", {})):
        rows.append(f"- warning: {told}; the first: {_sentence(str(summary.not_run))}")
    if comparison is not None:
        head += ["", f"**Compared with the baseline:** {headline(comparison, name=code)}"]
        rows += [f"- warning: {_sentence(warning)}" for warning in comparison["warnings"]]
        rows += [f"- {_sentence(told)}" for told in one_sided(comparison)]
    return Section([*head, *([""] if rows else [])], rows)


def _counts(summary: Summary) -> str:
    """How many results and questions there are."""
    results, errors = counts_of(summary.snapshot["micro"])
    outcomes = Counter[str](question.outcome for question in summary.questions)
    told = ", ".join(
        f"{outcomes[each]} {words}" for each, words in OUTCOMES.items() if outcomes[each]
    )
    rejected = plural(sum(summary.rejected.values()), "rejected line")
    questions = f"{plural(len(summary.questions), 'question')}{': ' * bool(told)}{told}."
    return f"{plural(results, 'result')}, {plural(errors, 'error')}, {rejected}; {questions}"


def _scores_of(groups: Mapping[str, Any]) -> list[str]:
    return [name for name, stats in groups.items() if is_score(name) and "mean" in stats]


def _scores(summary: Summary) -> Iterator[Section]:
    """Means over all results, and how they changed, also those of templates."""
    micro, comparison = summary.snapshot["micro"], summary.comparison
    results, _ = counts_of(micro)
    rows = (
        {ERROR_RATE: [cell(ERROR_RATE), number(micro[ERROR_RATE]), str(results)]} if results else {}
    )
    for metric in summary.snapshot["macro"]:
        if "mean" in (stats := micro[metric]) and metric not in {"input_tokens", "output_tokens"}:
            values, applied = (
                stats.get("coverage", {}).get(key, "") for key in ("values", "applied")
            )
            of = str(values) if values == applied else f"{values} of {applied}"
            rows[metric] = [cell(metric), mean_cell(stats), of]
    intervals = [
        each["interval"] for each in micro.values() if isinstance(each, dict) and "interval" in each
    ]
    kinds = dict.fromkeys((each["level"], each["kind"]) for each in intervals)
    captions = [
        f"[low, high]: {percent(level)} interval, {VALIDITY[kind]}." for level, kind in kinds
    ]
    headings = ["metric", ">mean", ">values"]
    if comparison is None:
        yield from _table("Metrics", headings, [*rows.values()], " ".join(captions))
        return
    changes = comparison["overall"]
    for metric, row in rows.items():
        row += _change(changes[metric]) if metric in changes else [""] * len(CHANGE)
    shared = plural(comparison["questions"], "question")
    captions.append(f"Changes are of the means over {shared} that both runs have.")
    captions.append(validity(changes, comparison["level"]))
    yield from _table("Metrics", headings + CHANGE, [*rows.values()], " ".join(captions))
    compared = [("Templates", "template", comparison["per_template"])]
    compared.append(("Tags", "tag", tags_of(comparison)))
    for title, heading, groups in compared:
        changed = [
            [cell(name), cell(metric), *_change(row)]
            for name, group in groups.items()
            for metric, row in group.items()
            if is_decided(row)
        ]
        title = f"{title} that changed significantly"
        yield from _table(title, [heading, "metric", *CHANGE], changed)


def _change(row: Mapping[str, Any]) -> list[str]:
    interval, p = ends(row.get("interval")), short_p(row.get("p_adjusted"))
    return [change_of(row), interval, p, row.get("verdict", "")]


def _groups(
    summary: Summary, title: str, heading: str, groups: Mapping[str, Any], note: str = ""
) -> Iterator[Section]:
    scores = _scores_of(summary.snapshot["macro"])
    shown, rest = scores[:SHOWN_SCORES], [*map(code, scores[SHOWN_SCORES : 2 * SHOWN_SCORES])]
    rows = [
        [
            cell(name),
            *map(str, counts_of(group)),
            *(mean_cell(group.get(metric, {})) for metric in shown),
        ]
        for name, group in groups.items()
    ]
    headings = [heading, ">results", ">errors", *(f">{cell(metric)}" for metric in shown)]
    more = (
        [f"Not shown: {', '.join(rest)}{', ...' * (len(scores) > 2 * SHOWN_SCORES)}"]
        if rest
        else []
    )
    yield from _table(title, headings, rows, *more, *filter(None, [note]))


def _questions(summary: Summary) -> Iterator[Section]:
    """The questions that got worse, and the worst ones."""

    def named(question: str, template: str) -> list[str]:
        text = summary.texts.get(question)
        shown = (
            [cell(question)]
            if text is None
            else [cell(question), cell(text, limit=TEXT_CHARACTERS)]
        )
        return [" ".join(shown), cell(template)]

    def place(question: str) -> str:
        return cell(summary.places[question]) if question in summary.places else ""

    rows = []
    for metric, row in summary.got_worse:
        names = named(row["question_id"], row["template_id"])
        metrics = cell(metric)
        if row["further_metrics"]:
            metrics += f", also {', '.join(map(cell, row['further_metrics']))}"
        rows.append([*names, metrics, change_of(row), place(row["question_id"])])
    headings = ["question", "template", "metric", ">change", "result"]
    yield from _table("Questions that got worse", headings, rows)
    rows = []
    for each in summary.worst:
        mean = summary.means.get((each.template_id, each.question_id)) if summary.by_means else None
        score = each.score if mean is None else (mean.metric, mean.mean)
        why = each.kind if each.is_explained else f"{each.kind}: {each.told}"
        shown = "" if score is None else f"{cell(score[0])} {number(score[1])}"
        names = named(each.question_id, each.template_id)
        rows.append([*names, shown, cell(why, limit=SENTENCE_CHARACTERS), place(each.question_id)])
    total = sum(question.outcome in {"failed", "error"} for question in summary.questions)
    title = f"Worst questions: {len(rows)} of {total} that did not pass"
    note = ["An error counts as 0."] * any(each.errors for each in summary.lowest)
    yield from _table(title, ["question", "template", ">score", "why", "result"], rows, *note)
