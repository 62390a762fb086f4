"""Tables of several systems on the same questions, in text, Markdown, HTML and LaTeX."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from graphrag_eval_async.catalogue.metrics import ERROR_RATE
from graphrag_eval_async.helpers.text import interval_cell, number, percent, plural
from graphrag_eval_async.inference.verdicts import NO_CHANGE, is_decided
from graphrag_eval_async.reports.comparison_words import (
    NO_SCORE_TO_COMPARE,
    change_of,
    ends,
    short_p,
    signed,
)
from graphrag_eval_async.reports.latex import PREAMBLE, render_latex_table
from graphrag_eval_async.reports.markdown_text import sentence
from graphrag_eval_async.reports.tables import Table, fold, render_markdown_table, render_terminal

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Format: TypeAlias = Literal["text", "markdown", "html", "latex"]

TITLE = "Comparison of systems"


def render_systems(snapshot: Mapping[str, Any], format: Format) -> str:  # noqa: A002  (as users name it)
    """Return a comparison of systems as text: its verdicts and warnings, and its tables.

    LaTeX has the tables only. HTML needs the extra `web`.

    Args:
        snapshot: a snapshot of `RunningSystems`.
        format: the format of the text.
    """
    tables = tables_of_systems(snapshot)
    sentences = [*_verdicts(snapshot), *_notes_on_questions(snapshot)]
    if format == "html":
        return _render_page(tables, sentences)
    if format == "markdown":
        lines = [f"## {TITLE}", "", *(f"- {sentence(text)}" for text in sentences)]
        for table in tables:
            lines += ["", *render_markdown_table(table)]
        return "\n".join(lines)
    if format == "latex":
        blocks = ["\n".join(render_latex_table(table)) for table in tables]
        return "\n\n".join([PREAMBLE, *blocks])
    # Plain text, for a terminal.
    return "\n".join(fold(sentences)) + "\n\n" + render_terminal(tables)


def tables_of_systems(snapshot: Mapping[str, Any]) -> list[Table]:
    """Return a table of the systems for each primary metric, the best system first.

    Notes on all tables stand below the last one.
    """
    tables = []
    for place, metric in enumerate(_metrics_in_order(snapshot), start=1):
        table = _table_of_metric(snapshot, metric)
        tables.append(replace(table, key=f"metric-{place}"))
    # There is at least one primary metric, and so one table.
    tables[-1] = replace(tables[-1], notes=_notes(snapshot))
    return tables


def _metrics_in_order(snapshot: Mapping[str, Any]) -> list[str]:
    """Return the metrics of a snapshot in their order, but the error rate last."""
    # The sort keeps the order of equals, and False comes before True.
    return sorted(snapshot["ranking"], key=lambda metric: metric == ERROR_RATE)


def _table_of_metric(snapshot: Mapping[str, Any], metric: str) -> Table:
    """Return the table of the systems that have a metric, the best system first."""
    rows = [_row_of_system(snapshot, metric, system) for system in snapshot["ranking"][metric]]
    direction = "lower is better" if metric in snapshot["lower_is_better"] else "higher is better"
    return Table(
        title=f"{metric} ({direction}), best first",
        headings=["system", "mean", "interval", "change", "interval of change", "p", "verdict"],
        rows=rows,
    )


def _row_of_system(snapshot: Mapping[str, Any], metric: str, system: str) -> list[str]:
    """Return the cells of a system in the table of a metric.

    They are its name, its mean and interval, then the change from the first system, the interval
    and p of the change, and the verdict.
    """
    stats = snapshot["systems"][system]["metrics"][metric]
    interval = stats.get("interval")
    interval_of_mean = ""
    if interval is not None:
        interval_of_mean = interval_cell(interval["low"], interval["high"])

    change = stats.get("change")
    if change is not None:
        cells_of_change = [
            signed(change["difference"]),
            ends(change.get("interval")),
            short_p(change["p_adjusted"]),
            change["verdict"].replace("_", " "),
        ]
    elif system == snapshot["first"]:
        cells_of_change = ["", "", "", "first"]
    else:
        # No question has the metric in both systems.
        cells_of_change = ["", "", "", ""]
    return [system, _mean(stats["mean"]), interval_of_mean, *cells_of_change]


def _mean(mean: float) -> str:
    """Return a mean for a table: with three decimals or, from 1,000 on, without any."""
    if abs(mean) >= 1000:
        return number(mean)
    return f"{mean:.3f}"


def _notes(snapshot: Mapping[str, Any]) -> list[str]:
    """Return sentences on what the numbers in the tables mean."""
    level = percent(snapshot["level"])
    first = snapshot["first"]
    return [
        f"Each mean is over the questions of its system, and its interval is at {level} alone.",
        f"Changes are from {first}, over the questions that both systems have.",
        f"Verdicts, p and intervals of changes hold for all systems and metrics together: {level}.",
    ]


def _verdicts(snapshot: Mapping[str, Any]) -> list[str]:
    """Return sentences about the systems that are better or worse than the first system, by metric.

    If there are none, return a sentence that says so. If no score can be compared, return a
    sentence about that, too.
    """
    first = snapshot["first"]
    sentences = []
    verdicts = set()
    has_score = False
    for metric in _metrics_in_order(snapshot):
        change_by_system = _changes_of_metric(snapshot, metric)
        verdicts |= {change["verdict"] for change in change_by_system.values()}
        if change_by_system and metric != ERROR_RATE:
            has_score = True
        decided_changes = [
            f"{system} is {change['verdict']} ({change_of(change)})"
            for system, change in change_by_system.items()
            if is_decided(change)
        ]
        if decided_changes:
            sentences.append(f"Compared with {first} in {metric}: {', '.join(decided_changes)}.")

    if not has_score:
        sentences.append(f"No score to compare: {NO_SCORE_TO_COMPARE}.")
    if sentences:
        return sentences
    if verdicts == {NO_CHANGE}:
        return [f"No difference: all systems have the same values as {first}."]
    return [f"Undecided: differences from {first} may be due to chance."]


def _changes_of_metric(snapshot: Mapping[str, Any], metric: str) -> dict[str, Mapping[str, Any]]:
    """Return for each system how a metric differs from the first system, the best system first.

    Systems without a difference to show, such as the first one, are left out.
    """
    change_by_system = {}
    for system in snapshot["ranking"][metric]:
        change = snapshot["systems"][system]["metrics"][metric].get("change")
        if change is not None:
            change_by_system[system] = change
    return change_by_system


def _notes_on_questions(snapshot: Mapping[str, Any]) -> Iterator[str]:
    """Yield how many questions each system has, then which systems lack questions, and warnings."""
    counts = [
        f"{name} {plural(facts['questions'], 'question')}"
        for name, facts in snapshot["systems"].items()
    ]
    yield f"compared: {', '.join(counts)}"
    first = snapshot["first"]
    for name, facts in snapshot["systems"].items():
        if facts["missing"]:
            questions = plural(len(facts["missing"]), "question")
            yield f"warning: {name} lacks {questions} of {first}"
    for warning in snapshot["warnings"]:
        yield f"warning: {warning}"


def _render_page(tables: list[Table], sentences: list[str]) -> str:
    """Return a page in HTML that needs no other file."""
    from markupsafe import Markup

    from graphrag_eval_async.reports.rendering import csp_hash, render, static

    style = static("style.css")
    policy = f"default-src 'none'; style-src {csp_hash(style)}; base-uri 'none'; form-action 'none'"
    return render(
        "systems.html",
        title=TITLE,
        made=f"Made {datetime.now(UTC).isoformat(sep=' ', timespec='seconds')}",
        base="",
        inline={"policy": policy, "style": Markup(style), "script": ""},  # noqa: S704  (our own)
        sentences=sentences,
        tables=tables,
    )
