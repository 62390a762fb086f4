"""Aggregates as tables: means with intervals, and on demand how far to trust them and how values spread."""

from __future__ import annotations

import os
import re
from io import BytesIO, TextIOWrapper
from textwrap import wrap
from typing import TYPE_CHECKING, Any, TextIO, TypeAlias

from rich import box
from rich.console import Console
from rich.table import Table

from graphrag_eval_async.monitor.wording import RESOURCE_HEADINGS, VALIDITY, mean_cell, not_run_in_words
from graphrag_eval_async.records.metrics import counts_of, is_score, mean_of_questions, own_interval
from graphrag_eval_async.records.outcomes import NOT_RUN, OF_AGENT
from graphrag_eval_async.steps.failure import failure_counts
from graphrag_eval_async.text import by_frequency, counts, interval_cell, name_cell, number, one_line, percent

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

WIDTH = 80  # where there is no terminal to ask
HEADING_WIDTH = 12  # of one metric, if its words allow it
GAP = 2  # between columns
NAME_WIDTH = 16  # of a template's name, at least: on a narrower terminal, the table overflows
MAX_WIDTH = 10_000

INTERVALS = 3  # beside each other in a table, so that there is room for the names of templates

Cells: TypeAlias = "tuple[list[str], list[list[str]]]"
"""The headings and the rows of a table."""

ALL_RESULTS = "all results"


def render_means(snapshot: Mapping[str, Any], stream: TextIO) -> str:
    """A row for each template and one for all results: samples, errors, and means with intervals."""
    groups = {**snapshot["per_template"], ALL_RESULTS: snapshot["micro"]}
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
    names = ["template", *map(name_cell, groups)]
    tables = []
    for part in _parts(columns):
        headings, *rows = zip(names, *part, strict=True)
        tables.append(table_of(headings, rows, _width(stream), apart=1))
    lines = [draw(tables, stream), *_captions(snapshot["micro"], shown)]
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


def _captions(micro: Mapping[str, Any], shown: Iterable[str]) -> list[str]:
    """What the intervals are, those of first answers, and what the means are over."""
    stats = {metric: micro[metric] for metric in shown}
    kinds: dict[str, list[str]] = {}
    for metric, each in stats.items():
        if "interval" in each:
            kinds.setdefault(each["interval"]["kind"], []).append(metric)
    captions = []
    for kind, metrics in kinds.items():
        interval = stats[metrics[0]]["interval"]
        of = f" of {', '.join(metrics)}" if len(kinds) > 1 else ""
        captions.append(
            f"[low, high]: {percent(interval['level'])} interval{of}, {VALIDITY[kind]} "
            f"({interval['questions']} questions)."
        )
    firsts = [
        f"{metric} {interval['mean']:.3f} {interval_cell(interval['low'], interval['high'])}"
        for metric, each in stats.items()
        if (interval := each.get("interval")) is not None and own_interval(each) is None
    ]
    if firsts:
        captions.append(f"First answer to each question: {', '.join(firsts)}.")
    if any(f"{mean_of_questions(each):.3f}" != f"{each['mean']:.3f}" for each in stats.values()):
        captions.append("Means are over questions, each the mean of its samples.")
    return folded(captions)


def _parts(columns: Iterable[Sequence[str]]) -> list[list[Sequence[str]]]:
    """As many columns in each table as leave `NAME_WIDTH` of `WIDTH` to the templates' names."""
    parts: list[list[Sequence[str]]] = [[]]
    room = WIDTH - NAME_WIDTH
    for column in columns:
        width = GAP + max(len(line) for cell in column for line in cell.split("\n"))
        if width > room:
            parts.append([])
            room = WIDTH - NAME_WIDTH
        room -= width
        parts[-1].append(column)
    return parts


def render_detail(snapshot: Mapping[str, Any], stream: TextIO) -> str:
    """Tables of all means, of coverage, bounds and intervals, and of quantiles."""
    metrics = {
        metric: stats
        for metric, stats in snapshot["micro"].items()
        if isinstance(stats, dict) and "coverage" in stats
    }
    tables = [_every_mean(snapshot), _trust(metrics), *_intervals(snapshot, metrics), _spread(metrics)]
    width = _width(stream)
    return "\n\n".join(draw([table_of(*table, width)], stream) for table in tables if table[1])


def _every_mean(snapshot: Mapping[str, Any]) -> Cells:
    """The means of all metrics, over results, over questions, and over the templates' means."""
    rows = []
    for metric, stats in snapshot["macro"].items():
        if "mean" in stats:
            micro = snapshot["micro"][metric]
            of_questions = micro.get("mean_of_questions")
            cells = (of_questions, micro["mean"], mean_of_questions(stats))
            rows.append([name_cell(metric), *("" if mean is None else number(mean) for mean in cells)])
    return ["mean", "of questions", "of all results", "of templates"], rows


def failure_reasons(snapshot: Mapping[str, Any]) -> list[str]:
    """How often each reason of failure occurred, and why scores have no value, in a line each, if any did."""
    reasons = failure_counts(snapshot["micro"])
    lines = [one_line(f"failure: {by_frequency(reasons)}")] if reasons else []
    if unscored := not_run_in_words(snapshot["micro"].get("steps_score", {}).get("coverage", {})):
        lines.append(f"steps without a score: {unscored}; see execution_error in the results")
    lacking: dict[str, list[str]] = {}
    for name, stats in snapshot["micro"].items():
        failed = stats.get("coverage", {}).get("failed", {}) if isinstance(stats, dict) else {}
        if failed and "mean" not in stats and {*failed} - OF_AGENT - {NOT_RUN}:
            lacking.setdefault(counts(failed), []).append(name)
    return lines + [one_line(f"no value of {', '.join(names)}: {why}") for why, names in lacking.items()]


def draw(tables: Iterable[Table], stream: TextIO | None = None) -> str:
    """Tables as plain text in the encoding of `stream`, which decides whether there are lines of boxes."""
    encoding = (stream and stream.encoding) or "utf-8"  # A `StringIO` has none.
    written = BytesIO()
    file = TextIOWrapper(written, encoding, "backslashreplace", newline="\n", write_through=True)
    console = Console(file=file, width=MAX_WIDTH, color_system=None, markup=False, emoji=False)
    for table in tables:
        console.print(table)
    lines = written.getvalue().decode(encoding).split("\n")
    return "\n".join(map(str.rstrip, lines)).strip("\n")


def _width(stream: TextIO) -> int:
    if not stream.isatty():
        return WIDTH
    return os.get_terminal_size(stream.fileno()).columns or WIDTH


def table_of(
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    width: int = WIDTH,
    *,
    names: int = 1,
    apart: int = 0,
    has_lines: bool = True,
) -> Table:
    """A table of columns with names, wrapped so that the table fits into `width`, and of numbers.

    The last `apart` rows are set apart; `has_lines` draws a line below the headings.
    """
    columns = [[*column] for column in zip(headings, *rows, strict=True)]
    room = width - has_lines - sum(GAP + max(map(_longest, column)) for column in columns[names:])
    for place in range(names):
        left = names - place
        own = max(NAME_WIDTH, (room - GAP * (left - 1)) // left)
        columns[place] = [wrap_name(cell, own) for cell in columns[place]]
        room -= GAP + max(map(_longest, columns[place]))
    table = Table(
        box=box.SIMPLE_HEAD if has_lines else None,
        padding=(0, 1, 0, 0) if has_lines else (0, GAP, 0, 0),
        show_edge=False,
        pad_edge=has_lines,
    )
    for place, (heading, *_) in enumerate(columns):
        left_aligned = place < names or heading in LEFT
        table.add_column(heading, justify="left" if left_aligned else "right", no_wrap=True)
    for number_, row in enumerate(zip(*(column[1:] for column in columns), strict=True)):
        if number_ and number_ == len(rows) - apart:
            table.add_section()
        table.add_row(*row)
    return table


LEFT = {"missing", "result"}
"""The headings of columns besides names that hold words."""


def _longest(cell: str) -> int:
    return max(map(len, cell.split("\n")))


def folded(lines: Iterable[str]) -> list[str]:
    """Lines wrapped at `WIDTH`."""
    return [part for line in lines for part in wrap(one_line(line), WIDTH, subsequent_indent="  ")]


def _heading(metric: str) -> str:
    """The words of a metric's name, one below the other."""
    words = name_cell(metric).split("_")
    return "\n".join(_cut(word, 2 * HEADING_WIDTH) for word in words if word) or name_cell(metric)


def wrap_name(name: str, width: int) -> str:
    """A name on several lines, broken at spaces and after other separators; longer words are cut off."""
    lines = [""]
    for word in re.findall(r"[^\s_./:-]*[\s_./:-]*", name):
        if len(lines[-1]) + len(word.rstrip()) <= width:
            lines[-1] += word
        else:
            lines.append(word.lstrip())
    return "\n".join(_cut(line.strip(), width) for line in lines if line.strip()) or name


def _cut(line: str, width: int) -> str:
    return line if len(line) <= width or width < 4 else line[: width - 3] + "..."


def _trust(metrics: Mapping[str, Mapping[str, Any]]) -> Cells:
    """Metrics from 0 to 1, and all others that lack some values."""
    levels = {stats["interval"]["level"] for stats in metrics.values() if "interval" in stats}
    interval = "\n".join([percent(level) for level in levels] + ["interval"])
    rows = []
    for metric, stats in metrics.items():
        coverage = stats["coverage"]
        failed, pending = coverage["failed"], coverage["pending"]
        missing = {**failed, **({"pending": pending} if pending else {})}
        if missing or "interval" in stats:
            own = own_interval(stats) if "mean" in stats else None
            cells = [
                name_cell(metric),
                str(coverage["values"]),
                _range(own),
                _range(stats.get("bounds") if failed else None),
                # One below the other, since they are many words where a judge is in trouble.
                "\n".join(f"{count} {one_line(kind)}" for kind, count in missing.items()),
            ]
            rows.append(cells)
            if own is None and (first := stats.get("interval")) is not None:
                rows.append(["  first answers", str(first["questions"]), _range(first), "", ""])
    return ["of all results", "values", interval, "if failed\nwere 0 or 1", "missing"], rows


def _intervals(snapshot: Mapping[str, Any], metrics: Mapping[str, Mapping[str, Any]]) -> Iterable[Cells]:
    """The intervals of each template, of some metrics in each table."""
    bounded = [metric for metric, stats in metrics.items() if "interval" in stats]
    for start in range(0, len(bounded), INTERVALS):
        part = bounded[start : start + INTERVALS]
        level = percent(metrics[bounded[0]]["interval"]["level"])
        rows = [
            [name_cell(template), *(_range(group.get(metric, {}).get("interval")) for metric in part)]
            for template, group in snapshot["per_template"].items()
        ]
        of_first = any(own_interval(metrics[metric]) is None for metric in part)
        yield [f"{level} interval{', first answers' * of_first}", *map(_heading, part)], rows


def _spread(metrics: Mapping[str, Mapping[str, Any]]) -> Cells:
    spread = {metric: stats["quantiles"] for metric, stats in metrics.items() if "quantiles" in stats}
    rows = [[name_cell(metric), *map(number, quantiles.values())] for metric, quantiles in spread.items()]
    return ["of all results", *next(iter(spread.values()), {})], rows


def _range(ends: Mapping[str, float] | None) -> str:
    return "" if ends is None else f"{ends['low']:.3f} to {ends['high']:.3f}"
