"""Lays out a run for a terminal: is it good, did it fall, since when, where and why."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.text import Text

from graphrag_eval_async.cli.commands.watch.cells import printable
from graphrag_eval_async.cli.commands.watch.layout import flow, lines_of, stack_sections
from graphrag_eval_async.cli.commands.watch.sections import (
    failures_section,
    metrics_section,
    results_section,
    templates_section,
)
from graphrag_eval_async.helpers.text import counts, dollars
from graphrag_eval_async.reports.wording import value_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from graphrag_eval_async.reports.history import Courses

MAX_STATE_LINES = 3
MAX_PROGRESS_LINES = 3

MAX_ALERTS = 3
"""Maximum number of alerts that are shown; a line says how many more there are."""

STATE_STYLES = {
    "worse": "bold red",
    "perhaps_worse": "bold yellow",
    "better": "bold green",
    "steady": "bold green",
}
"""Styles of the line of the state, by its kind; that of other kinds is bold."""


def render(
    facts: Mapping[str, Any],
    courses: Courses,
    width: int,
    height: int,
    address: str | None = None,
) -> list[Text]:
    """Return the facts of a run as at most `height` lines, none wider than `width` cells.

    The lines show, from top to bottom, the state of the run, active alerts, the progress, a title,
    and tables of metrics, templates, reasons of failures, and results. Tables that do not fit are
    shortened or left out.

    Args:
        facts: what `Facts` collects, with what `complete` adds.
        courses: how the scores moved.
        width: number of columns.
        height: number of rows.
        address: the address of the page in the browser, if there is one.
    """
    head = [
        *_state_lines(facts["state"], width),
        *_alert_lines(facts["alerts"]),
        *_progress_lines(facts, width),
        _title(facts, width, address),
    ]
    sections = [
        metrics_section(facts, courses, width),
        templates_section(facts, courses, width),
        failures_section(facts, width),
        results_section(facts, width),
    ]
    lines = [*head, *stack_sections(sections, height - len(head))]
    lines = lines[: max(0, height)]
    for line in lines:
        line.truncate(width, overflow="ellipsis")
        line.rstrip()
    return lines


def _state_lines(state: Mapping[str, Any], width: int) -> list[Text]:
    """Return whether the run got worse, which scores, how far and since when."""
    style = STATE_STYLES.get(state["kind"], "bold")
    return lines_of(Text(printable(state["text"]), style), width)[:MAX_STATE_LINES]


def _alert_lines(alerts: Sequence[Mapping[str, Any]]) -> list[Text]:
    """Return the active alerts, each with the value that it watches."""
    lines = [
        Text(f"ALERT {printable(alert['alert'])}: {value_of(alert)}", "bold red")
        for alert in alerts[:MAX_ALERTS]
    ]
    hidden = len(alerts) - MAX_ALERTS
    if hidden > 0:
        lines.append(Text(f"... and {hidden} more alerts", "bold red"))
    return lines


def _progress_lines(facts: Mapping[str, Any], width: int) -> list[Text]:
    """Return lines about the progress of the run, its input and its judge."""
    parts = [
        facts["progress"]["text"],
        *_input_in_words(facts),
        *_judge_in_words(facts["judge"]),
    ]
    return flow([Text(printable(part)) for part in parts], width)[:MAX_PROGRESS_LINES]


def _input_in_words(facts: Mapping[str, Any]) -> Iterator[str]:
    """Yield which part of the input is not evaluated, and what was taken from an earlier run."""
    lag = facts["lag"]
    if lag is not None and lag["bytes"]:
        yield f"behind by {lag['bytes']:,} bytes"
    if facts["rejects"]:
        yield f"rejected lines: {counts(facts['rejects'])}"
    if facts["skipped"]:
        yield f"skipped as done: {facts['skipped']:,}"
    if facts["journal"] is not None:
        yield f"restored: {facts['journal']['restored']:,}"
    if facts["late"]:
        yield facts["late"]["text"]
    if facts["misnamed"]:
        yield facts["misnamed"]
    for path in facts["not_found"]:
        yield f"not there yet: {path}"


def _judge_in_words(judge: Mapping[str, Any] | None) -> Iterator[str]:
    """Yield the cost, the errors and the waiting times of the judge; nothing without a judge."""
    if judge is None:
        return
    spent = dollars(judge["dollars"])
    if judge["budget_usd"] is not None:
        spent += f" of {dollars(judge['budget_usd'])}"
    yield f"judge {judge['model'] or ''}: {spent}"
    if judge["errors"]:
        yield f"judge errors: {counts(judge['errors'])}"
    if judge["retries"]:
        yield f"retries: {counts(judge['retries'])}"
    if judge["waiting"]:
        yield f"calls waiting: {judge['waiting']:,}"
    if judge["paused_sec"]:
        yield f"paused for {judge['paused_sec']:.0f} s"


def _title(facts: Mapping[str, Any], width: int, address: str | None) -> Text:
    """Return a line with the watched paths, the elapsed time, and the address of the page."""
    minutes, seconds = divmod(int(facts["elapsed_sec"]), 60)
    end = f" for {minutes // 60}:{minutes % 60:02}:{seconds:02}"
    if address is not None:
        end += f"   {address}"

    paths = [printable(path).rstrip("/") for path in facts["paths"]]
    title = Text(f"watching {' '.join(paths)}", "dim")
    # If the line is too long, it names the files without their folders.
    if title.cell_len + cell_len(end) > width:
        names = [os.path.basename(path) for path in paths]
        title = Text(f"watching {' '.join(names)}", "dim")
    # The address is worth more than the last of many names.
    title.truncate(max(0, width - cell_len(end)), overflow="ellipsis")
    return title.append(end)
