"""Tables of several systems on the same questions, in text, Markdown, HTML and LaTeX."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from graphrag_eval_async.catalogue.metrics import ERROR_RATE
from graphrag_eval_async.helpers.text import interval_cell, number, percent, plural
from graphrag_eval_async.inference.verdicts import NO_CHANGE, is_decided
from graphrag_eval_async.reports.comparison_words import (
    NO_SCORE,
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
    """Return a snapshot of `RunningSystems` as text in a format.

    Pages in HTML need the extra `web`.
    """
    tables = tables_of_systems(snapshot)
    sentences = [*_verdicts(snapshot), *_doubts(snapshot)]
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
    return "\n".join(fold(sentences)) + "\n\n" + render_terminal(tables)


def tables_of_systems(snapshot: Mapping[str, Any]) -> list[Table]:
    """Return a table of the systems for each primary metric, the best system first.

    Notes on all tables stand below the last one.
    """
    *tables, last_table = [
        replace(_table_of_metric(snapshot, metric), key=f"metric-{place}")
        for place, metric in enumerate(_metrics_in_order(snapshot), start=1)
    ]
    return [*tables, replace(last_table, notes=_notes(snapshot))]


def _metrics_in_order(snapshot: Mapping[str, Any]) -> list[str]:
    """Return the metrics of a snapshot, scores before the error rate."""
    return sorted(snapshot["ranking"], key=lambda metric: metric == ERROR_RATE)


def _table_of_metric(snapshot: Mapping[str, Any], metric: str) -> Table:
    """Return the table of the systems that have a metric, the best first."""
    rows = []
    for name in snapshot["ranking"][metric]:
        stats = snapshot["systems"][name]["metrics"][metric]
        interval = stats.get("interval")
        interval_of_mean = ""
        if interval is not None:
            interval_of_mean = interval_cell(interval["low"], interval["high"])
        change = stats.get("change")
        cells_of_change = ["", "", "", ""]
        if change is not None:
            cells_of_change = [
                signed(change["difference"]),
                ends(change.get("interval")),
                short_p(change["p_adjusted"]),
                change["verdict"].replace("_", " "),
            ]
        elif name == snapshot["first"]:
            cells_of_change[-1] = "first"
        rows.append([name, _mean(stats["mean"]), interval_of_mean, *cells_of_change])
    direction = "lower is better" if metric in snapshot["lower_is_better"] else "higher is better"
    return Table(
        title=f"{metric} ({direction}), best first",
        headings=["system", "mean", "interval", "change", "interval of change", "p", "verdict"],
        rows=rows,
    )


def _mean(mean: float) -> str:
    """Return a mean for a table, in three decimals unless it is large."""
    return number(mean) if abs(mean) >= 1000 else f"{mean:.3f}"


def _notes(snapshot: Mapping[str, Any]) -> list[str]:
    """Return what the numbers of the tables mean."""
    level = percent(snapshot["level"])
    first = snapshot["first"]
    return [
        f"Each mean is over the questions of its system, and its interval is at {level} alone.",
        f"Changes are from {first}, over the questions that both systems have.",
        f"Verdicts, p and intervals of changes hold for all systems and metrics together: {level}.",
    ]


def _verdicts(snapshot: Mapping[str, Any]) -> list[str]:
    """Return sentences about the systems that are better or worse than the first, by metric.

    If there are none, return a sentence that says so.
    """
    first = snapshot["first"]
    sentences = []
    verdicts = set()
    has_score = False
    for metric in _metrics_in_order(snapshot):
        changes = _changes_of_metric(snapshot, metric)
        verdicts |= {change["verdict"] for change in changes.values()}
        if changes and metric != ERROR_RATE:
            has_score = True
        decided = [
            f"{name} is {change['verdict']} ({change_of(change)})"
            for name, change in changes.items()
            if is_decided(change)
        ]
        if decided:
            sentences.append(f"Compared with {first} in {metric}: {', '.join(decided)}.")

    if not has_score:
        sentences.append(f"No score to compare: {NO_SCORE}.")
    if sentences:
        return sentences
    if verdicts == {NO_CHANGE}:
        return [f"No difference: all systems have the same values as {first}."]
    return [f"Undecided: differences from {first} may be due to chance."]


def _changes_of_metric(snapshot: Mapping[str, Any], metric: str) -> dict[str, Mapping[str, Any]]:
    """Return the changes of a metric from the first system, by name of the other, the best first.

    A system without the metric is left out.
    """
    changes = {}
    for name in snapshot["ranking"][metric]:
        change = snapshot["systems"][name]["metrics"][metric].get("change")
        if change is not None:
            changes[name] = change
    return changes


def _doubts(snapshot: Mapping[str, Any]) -> Iterator[str]:
    """Yield how many questions each system has, where they differ, and the warnings."""
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
