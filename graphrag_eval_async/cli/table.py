"""Aggregates as tables: means with intervals, and on demand how far to trust them and how values
spread.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from textwrap import wrap
from typing import TYPE_CHECKING, Any, TextIO, TypeAlias

from rich.cells import cell_len

from graphrag_eval_async.catalogue.metrics import is_score
from graphrag_eval_async.catalogue.outcomes import CAUSED_BY_AGENT, NOT_RUN
from graphrag_eval_async.records.snapshots import (
    counts_of,
    cut_note,
    interval_of_mean,
    mean_of_questions,
    tags_of,
)
from graphrag_eval_async.reports.wording import (
    RESOURCE_HEADINGS,
    VALIDITY,
    mean_cell,
    not_run_in_words,
    published_lines,
    repeats_rows,
    variances,
)
from graphrag_eval_async.steps.failure import failure_counts
from graphrag_eval_async.text import (
    by_frequency,
    counts,
    interval_cell,
    name_cell,
    number,
    one_line,
    percent,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

WIDTH = 80  # where there is no terminal to ask
HEADING_WIDTH = 24  # of a word of a metric's name
GAP = 2  # between columns
NAME_WIDTH = 16  # of a template's name, at least: on a narrower terminal, the table overflows
INTERVALS = 3  # beside each other in a table, so that there is room for the names of templates
ALL_RESULTS = "all results"
LEFT = {"missing", "result"}  # headings of columns besides names that hold words

Cells: TypeAlias = "tuple[list[str], list[list[str]]]"
"""The headings and the rows of a table."""


def render_means(snapshot: Mapping[str, Any], stream: TextIO, by: str | None = None) -> str:
    """A row for each template, or tag of the key `by`, and one for all results: samples, errors
    and means.
    """
    groups = {**_groups(snapshot, by), ALL_RESULTS: snapshot["micro"]}
    shown = [
        metric
        for metric, stats in snapshot["macro"].items()
        if "mean" in stats and (is_score(metric) or metric in RESOURCE_HEADINGS)
    ]
    samples, errors = zip(*map(counts_of, groups.values()), strict=True)
    columns = [["samples", *map(str, samples)], ["errors", *map(str, errors)]]
    for metric in shown:
        stats = [group.get(metric, {}) for group in groups.values()]
        columns.append([RESOURCE_HEADINGS.get(metric) or _heading(metric), *map(mean_cell, stats)])
    # As many columns in each table as leave room for the templates' names.
    parts: list[list[list[str]]] = [[]]
    for column in columns:
        if sum(GAP + _longest(each) for each in [*parts[-1], column]) > WIDTH - NAME_WIDTH:
            parts.append([])
        parts[-1].append(column)
    tables = []
    for part in parts:
        headings, *rows = zip(
            ["tag" if by else "template", *map(name_cell, groups)], *part, strict=True
        )
        tables.append(table_of(headings, rows, _width(stream), apart=1))
    lines = [
        draw(tables, stream),
        *_captions({metric: snapshot["micro"][metric] for metric in shown}),
    ]
    lines += folded([note]) if by is not None and (note := cut_note(snapshot, by)) else []
    if repeats := repeats_rows(snapshot["micro"]):
        table = table_of(["samples", "pass@k", "pass^k", "questions"], repeats, _width(stream))
        lines += ["", draw([table], stream)]
    lines += folded(
        f"{name_cell(name)}: {told}." for name, told in variances(snapshot["micro"]).items()
    )
    lines += published_lines(snapshot["micro"])
    if "agreement" in snapshot:
        lines += ["", draw([table_of(*_agreement(snapshot["agreement"]), _width(stream))], stream)]
    return "\n".join(lines)


def _agreement(agreement: Mapping[str, Any]) -> Cells:
    """The mean of each judge, and how far they agree, by metric."""
    judges = list(dict.fromkeys(judge for each in agreement.values() for judge in each["judges"]))
    measures = {"krippendorff_alpha": "Krippendorff's alpha", "cohen_kappa": "Cohen's kappa"}
    shown = [key for key in measures if any(key in each for each in agreement.values())]
    rows = []
    for metric, each in agreement.items():
        values = [*map(each["judges"].get, judges), *map(each.get, shown)]
        rows.append([metric, *("" if value is None else f"{value:.3f}" for value in values)])
    return ["agreement of judges", *map(one_line, judges), *(measures[key] for key in shown)], rows


def _captions(shown: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """What the intervals are, those of first samples, and what the means are over."""
    bounded = {metric: stats["interval"] for metric, stats in shown.items() if "interval" in stats}
    kinds: dict[str, list[str]] = defaultdict(list)
    for metric, interval in bounded.items():
        kinds[interval["kind"]].append(metric)
    captions = []
    for kind, metrics in kinds.items():
        interval = bounded[metrics[0]]
        of = f" of {', '.join(metrics)}" if len(kinds) > 1 else ""
        captions.append(
            f"[low, high]: {percent(interval['level'])} interval{of}, {VALIDITY[kind]} "
            f"({interval['questions']} questions)."
        )
    firsts = [
        f"{metric} {interval['mean']:.3f} {interval_cell(interval['low'], interval['high'])}"
        for metric, interval in bounded.items()
        if interval_of_mean(shown[metric]) is None
    ]
    if firsts:
        captions.append(f"First samples: {', '.join(firsts)}.")
    if any(f"{mean_of_questions(each):.3f}" != f"{each['mean']:.3f}" for each in shown.values()):
        captions.append("Means are over questions, each the mean of its samples.")
    return folded(captions)


def render_detail(snapshot: Mapping[str, Any], stream: TextIO, by: str | None = None) -> str:
    """Tables of all means, of coverage, bounds and intervals, and of quantiles."""
    micro = snapshot["micro"]
    metrics = {
        name: each for name, each in micro.items() if isinstance(each, dict) and "coverage" in each
    }
    means = [
        [name_cell(metric), *("" if mean is None else number(mean) for mean in each)]
        for metric, stats in snapshot["macro"].items()
        if "mean" in stats
        for each in [
            (
                micro[metric].get("mean_of_questions"),
                micro[metric]["mean"],
                mean_of_questions(stats),
            )
        ]
    ]
    spread = {
        metric: stats["quantiles"] for metric, stats in metrics.items() if "quantiles" in stats
    }
    tables: list[Cells] = [
        (["mean", "of questions", "of all results", "of templates"], means),
        _trust(metrics),
        *_intervals(_groups(snapshot, by), metrics),
        (
            ["of all results", *next(iter(spread.values()), {})],
            [
                [name_cell(metric), *map(number, quantiles.values())]
                for metric, quantiles in spread.items()
            ],
        ),
    ]
    width = _width(stream)
    return "\n\n".join(draw([table_of(*table, width)], stream) for table in tables if table[1])


def _groups(snapshot: Mapping[str, Any], by: str | None) -> Mapping[str, Any]:
    return tags_of(snapshot, by) if by else {**snapshot["per_template"]}


def _trust(metrics: Mapping[str, Mapping[str, Any]]) -> Cells:
    """Metrics from 0 to 1, and all others that lack some values."""
    levels = {stats["interval"]["level"] for stats in metrics.values() if "interval" in stats}
    interval = "\n".join([*map(percent, levels), "interval"])
    rows = []
    for metric, stats in metrics.items():
        values, failed = stats["coverage"]["values"], stats["coverage"]["failed"]
        pending = stats["coverage"]["pending"]
        missing = {**failed, "pending": pending} if pending else failed
        if missing or "interval" in stats:
            own = interval_of_mean(stats) if "mean" in stats else None
            bounds = stats.get("bounds") if failed else None
            # One below the other, since they are many words where a judge is in trouble.
            told = "\n".join(f"{count} {one_line(kind)}" for kind, count in missing.items())
            rows.append([name_cell(metric), str(values), _range(own), _range(bounds), told])
            if own is None and (first := stats.get("interval")) is not None:
                rows.append(["  first samples", str(first["questions"]), _range(first), "", ""])
    return ["of all results", "values", interval, "if errors\nwere 0 or 1", "missing"], rows


def _intervals(
    groups: Mapping[str, Mapping[str, Any]], metrics: Mapping[str, Mapping[str, Any]]
) -> Iterator[Cells]:
    """The intervals of each template, of some metrics in each table."""
    bounded = [metric for metric, stats in metrics.items() if "interval" in stats]
    for start in range(0, len(bounded), INTERVALS):
        part = bounded[start : start + INTERVALS]
        rows = [
            [
                name_cell(template),
                *(_range(group.get(metric, {}).get("interval")) for metric in part),
            ]
            for template, group in groups.items()
        ]
        of_first = ", first samples" * any(
            interval_of_mean(metrics[metric]) is None for metric in part
        )
        level = percent(metrics[bounded[0]]["interval"]["level"])
        yield [f"{level} interval{of_first}", *map(_heading, part)], rows


def _range(ends: Mapping[str, float] | None) -> str:
    return "" if ends is None else f"{ends['low']:.3f} to {ends['high']:.3f}"


def failure_reasons(snapshot: Mapping[str, Any]) -> list[str]:
    """How often each reason of failure occurred, and why scores have no value, in a line each,
    if any did.
    """
    reasons = failure_counts(snapshot["micro"])
    lines = [one_line(f"failure: {by_frequency(reasons)}")] if reasons else []
    if unscored := not_run_in_words(snapshot["micro"].get("steps_score", {}).get("coverage", {})):
        lines.append(f"steps without a score: {unscored}; see execution_error in the results")
    lacking: dict[tuple[str, str], list[str]] = defaultdict(list)
    for name, stats in snapshot["micro"].items():
        covered = stats.get("coverage", {}) if isinstance(stats, dict) else {}
        if {*(failed := covered.get("failed", {}))} - CAUSED_BY_AGENT - {NOT_RUN}:
            of_all = f"{covered['values']} of {covered['applied']} values"
            how = f"only {of_all}" if "mean" in stats else "no value"
            lacking[how, counts(failed)].append(name)
    return lines + [
        one_line(f"{how} of {', '.join(names)}: {why}") for (how, why), names in lacking.items()
    ]


def table_of(
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    width: int = WIDTH,
    *,
    names: int = 1,
    apart: int = 0,
    has_lines: bool = True,
) -> str:
    """A table of columns with names, wrapped so that the table fits into `width`, and of numbers.

    The last `apart` rows are set apart; `has_lines` draws a line below the headings.
    """
    columns = [[*column] for column in zip(headings, *rows, strict=True)]
    room = width - has_lines - sum(GAP + _longest(column) for column in columns[names:])
    for place in range(names):
        left = names - place
        own = max(NAME_WIDTH, (room - GAP * (left - 1)) // left)
        columns[place] = [wrap_name(cell, own) for cell in columns[place]]
        room -= GAP + _longest(columns[place])
    widths = [*map(_longest, columns)]
    lefts = [place < names or heading in LEFT for place, heading in enumerate(headings)]
    lines = []
    for place, row in enumerate(zip(*columns, strict=True)):
        cells = [cell.split("\n") for cell in row]
        height = max(map(len, cells))
        for i in range(height):
            # Headings stand at the bottom, other cells at the top.
            parts = [
                ([""] * (height - len(cell)) * (not place) + cell + [""] * height)[i]
                for cell in cells
            ]
            padded = [_pad(*each) for each in zip(parts, widths, lefts, strict=True)]
            lines.append((" " * GAP).join(padded).rstrip())
        if not place and has_lines:
            lines.append("─" * (sum(widths) + GAP * len(widths) - 1))
        if apart and 0 < place == len(rows) - apart:
            lines.append("")
    return "\n".join(lines)


def draw(tables: Iterable[str], stream: TextIO | None = None) -> str:
    """Tables below each other, with lines that the encoding of `stream` has."""
    encoding = (stream and stream.encoding) or "utf-8"  # A `StringIO` has none.
    text = "\n".join(tables)
    return text if encoding.lower().startswith("utf") else text.replace("─", "-")


def folded(lines: Iterable[str]) -> list[str]:
    """Lines wrapped at `WIDTH`."""
    # Ids stay whole.
    options: dict[str, Any] = {
        "subsequent_indent": "  ",
        "break_on_hyphens": False,
    }
    return [part for line in lines for part in wrap(one_line(line), WIDTH, **options)]


def wrap_name(name: str, width: int) -> str:
    """A name on several lines, broken at spaces and after other separators; longer words are cut
    off.
    """
    lines = [""]
    for word in re.findall(r"[^\s_./:-]*[\s_./:-]*", name):
        if len(lines[-1]) + len(word.rstrip()) <= width:
            lines[-1] += word
        else:
            lines.append(word.lstrip())
    return "\n".join(_cut(line.strip(), width) for line in lines if line.strip()) or name


def _heading(metric: str) -> str:
    """The words of a metric's name, one below the other."""
    words = name_cell(metric).split("_")
    return "\n".join(_cut(word, HEADING_WIDTH) for word in words if word) or name_cell(metric)


def _cut(line: str, width: int) -> str:
    return line if len(line) <= width or width < 4 else line[: width - 3] + "..."


def _pad(text: str, width: int, left: bool) -> str:
    blank = " " * (width - cell_len(text))
    return text + blank if left else blank + text


def _longest(column: Iterable[str]) -> int:
    return max(cell_len(line) for cell in column for line in cell.split("\n"))


def _width(stream: TextIO) -> int:
    columns = os.get_terminal_size(stream.fileno()).columns if stream.isatty() else WIDTH
    return columns or WIDTH
