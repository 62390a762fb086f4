"""Aggregates as tables: the means, then how far to trust them and how the values spread."""

from __future__ import annotations

import os
from io import BytesIO, TextIOWrapper
from textwrap import wrap
from typing import TYPE_CHECKING, Any, TextIO

from rich import box
from rich.console import Console
from rich.table import Table

from graphrag_eval_async.cli.text import by_frequency, number, one_line, percent
from graphrag_eval_async.records.outcomes import REASON
from graphrag_eval_async.records.tabular import rows_of_means

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

WIDTH = 80  # where there is no terminal to ask
HEADING_WIDTH = 12  # of one metric; longer words of its name are broken
NAME_CHARACTERS = 160  # of a template's name, which is folded
GAP = 2  # between columns
NAME_WIDTH = 16  # of a template's name, at least: on a narrower terminal, the table overflows
MAX_WIDTH = 10_000

INTERVALS = 3  # beside each other in a table, so that there is room for the names of templates


def render_table(snapshot: Mapping[str, Any], stream: TextIO) -> str:
    """Counts of samples and means of metrics: a row for each template, one for micro and one for macro."""
    metrics, rows = rows_of_means(snapshot)
    names, samples, errors, *means = zip(*rows, strict=True)
    columns = [_column("samples", str, samples), _column("errors", str, errors)]
    columns += [_column(_heading(each), number, mean) for each, mean in zip(metrics, means, strict=True)]
    return draw((_means([*map(name_cell, names)], part) for part in _parts(columns)), stream)


def _column(heading: str, show: Callable[[Any], str], values: Iterable[Any]) -> list[str]:
    return [heading, *("" if value is None else show(value) for value in values)]


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


def _means(names: Sequence[str], columns: Sequence[Sequence[str]]) -> Table:
    """A table of columns that begin with their headings."""
    table = _table("template", *(heading for heading, *_ in columns))
    for row, name in enumerate(names, 1):
        if row == len(names) - 1:  # of micro, before macro
            table.add_section()
        table.add_row(name, *(column[row] for column in columns))
    return table


def render_detail(snapshot: Mapping[str, Any], stream: TextIO) -> str:
    """Tables of coverage, bounds and confidence of all results, confidence of templates, and quantiles."""
    metrics = {
        metric: stats
        for metric, stats in snapshot["micro"].items()
        if isinstance(stats, dict) and "coverage" in stats
    }
    tables = [_trust(metrics), *_intervals(snapshot, metrics), _spread(metrics)]
    return "\n\n".join(draw([table], stream) for table in tables if table.row_count)


def failure_reasons(snapshot: Mapping[str, Any]) -> list[str]:
    """How often each reason of failure occurred, in a line, if any did."""
    reasons = snapshot["micro"].get(REASON)
    return [one_line(f"failure: {by_frequency(reasons)}")] if reasons else []


def draw(tables: Iterable[Table], stream: TextIO | None = None) -> str:
    """Tables as plain text, as wide as the terminal that `stream` is, if it is one."""
    encoding = (stream and stream.encoding) or "utf-8"  # A `StringIO` has none.
    written = BytesIO()
    # With the encoding of the stream, which decides whether there are lines of boxes.
    file = TextIOWrapper(written, encoding, "backslashreplace", newline="\n", write_through=True)
    console = Console(file=file, width=MAX_WIDTH, color_system=None, markup=False, emoji=False)
    for table in tables:
        console.print(table, width=max(_width(stream), _least_width(table, console)))
    lines = written.getvalue().decode(encoding).split("\n")
    return "\n".join(map(str.rstrip, lines)).strip("\n")


def _width(stream: TextIO | None) -> int:
    if stream is None or not stream.isatty():
        return WIDTH
    return os.get_terminal_size(stream.fileno()).columns or WIDTH


def _least_width(table: Table, console: Console) -> int:
    """The width of a table with its names folded to `NAME_WIDTH`."""
    names = table.columns[0]
    names.max_width = NAME_WIDTH
    width = console.measure(table).maximum
    names.max_width = None
    return width


def _table(first: str, *headings: str) -> Table:
    """A table with a `first` column of names, and columns of numbers."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    table.add_column(first, overflow="fold")
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def name_cell(name: str) -> str:
    """A name on one line, short enough to be folded in its column."""
    return one_line(name, limit=NAME_CHARACTERS)


def _heading(metric: str) -> str:
    """The words of a metric's name, one below the other."""
    words = name_cell(metric).split("_")
    return "\n".join(line for word in words for line in wrap(word, HEADING_WIDTH)) or name_cell(metric)


def _trust(metrics: Mapping[str, Mapping[str, Any]]) -> Table:
    """Metrics from 0 to 1, and all others that lack some values."""
    levels = {stats["confidence"]["level"] for stats in metrics.values() if "confidence" in stats}
    interval = "\n".join([percent(level) for level in levels] + ["interval"])
    table = _table("of all results", "values", interval, "if failed\nwere 0 or 1")
    table.add_column("missing", no_wrap=True)
    for metric, stats in metrics.items():
        coverage = stats["coverage"]
        failed, pending = coverage["failed"], coverage["pending"]
        missing = {**failed, **({"pending": pending} if pending else {})}
        if missing or "confidence" in stats:
            table.add_row(
                name_cell(metric),
                str(coverage["values"]),
                _range(stats.get("confidence")),
                _range(stats.get("bounds") if failed else None),
                # One below the other, since they are many words where a judge is in trouble.
                "\n".join(f"{count} {one_line(kind)}" for kind, count in missing.items()),
            )
    return table


def _intervals(snapshot: Mapping[str, Any], metrics: Mapping[str, Mapping[str, Any]]) -> Iterable[Table]:
    """The confidence of each template, of some metrics in each table."""
    bounded = [metric for metric, stats in metrics.items() if "confidence" in stats]
    for start in range(0, len(bounded), INTERVALS):
        part = bounded[start : start + INTERVALS]
        level = percent(metrics[bounded[0]]["confidence"]["level"])
        table = _table(f"{level} interval", *map(_heading, part))
        for template, group in snapshot["per_template"].items():
            ends = (_range(group.get(metric, {}).get("confidence")) for metric in part)
            table.add_row(name_cell(template), *ends)
        yield table


def _spread(metrics: Mapping[str, Mapping[str, Any]]) -> Table:
    spread = {metric: stats["quantiles"] for metric, stats in metrics.items() if "quantiles" in stats}
    table = _table("of all results", *next(iter(spread.values()), {}))
    for metric, quantiles in spread.items():
        table.add_row(name_cell(metric), *map(number, quantiles.values()))
    return table


def _range(ends: Mapping[str, float] | None) -> str:
    return "" if ends is None else f"{ends['low']:.3f} to {ends['high']:.3f}"
