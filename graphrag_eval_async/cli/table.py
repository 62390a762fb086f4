"""The aggregates as a table."""

from __future__ import annotations

import os
from io import BytesIO, TextIOWrapper
from textwrap import wrap
from typing import TYPE_CHECKING, Any, TextIO

from rich import box
from rich.console import Console
from rich.table import Table

from graphrag_eval_async.cli.text import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

WIDTH = 80
"""Where there is no terminal to ask."""

HEADING_WIDTH = 12
"""Of one metric: longer words of its name, as custom outputs may have them, are broken."""

NAME_CHARACTERS = 160
"""Of a template's name, which is folded."""

GAP = 2
"""Between columns."""

NAME_WIDTH = 16
"""Of a template's name, at least: where the terminal is too narrow for that, the table overflows."""

MAX_WIDTH = 10_000


def render_table(snapshot: Mapping[str, Any], stream: TextIO) -> str:
    """Counts of samples and means of metrics: a row for each template, one for micro and one for macro."""
    return draw([_table(snapshot, part, counts=i == 0) for i, part in enumerate(_parts(snapshot))], stream)


def draw(tables: Iterable[Table], stream: TextIO) -> str:
    """Tables as plain text, as wide as the terminal that `stream` is, if it is one."""
    written = BytesIO()
    # Of the same encoding, which decides whether there are lines of boxes.
    file = TextIOWrapper(written, stream.encoding, "backslashreplace", newline="\n", write_through=True)
    console = Console(file=file, width=MAX_WIDTH, color_system=None, markup=False, emoji=False)
    for table in tables:
        console.print(table, width=max(_width(stream), _least_width(table, console)))
    lines = written.getvalue().decode(stream.encoding).split("\n")
    return "\n".join(map(str.rstrip, lines)).strip("\n")


def plain_table(first: str) -> Table:
    """A table without columns but the `first`, which is of names."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    table.add_column(first, overflow="fold")
    return table


def _parts(snapshot: Mapping[str, Any]) -> list[list[str]]:
    """The metrics, as many in each table as leave `NAME_WIDTH` of `WIDTH` to the templates' names."""
    parts: list[list[str]] = [[]]
    room = WIDTH - NAME_WIDTH - sum(map(_column_width, (["samples"], ["errors"])))
    for metric in [metric for metric, stats in snapshot["macro"].items() if "mean" in stats]:
        groups = [*snapshot["per_template"].values(), snapshot["micro"], snapshot["macro"]]
        width = _column_width([*heading(metric), *(_cells(group, [metric])[0] for group in groups)])
        if width > room:
            parts.append([])
            room = WIDTH - NAME_WIDTH
        room -= width
        parts[-1].append(metric)
    return parts


def _column_width(lines: Iterable[str]) -> int:
    return GAP + max(map(len, lines))


def heading(metric: str) -> list[str]:
    """The words of a metric's name, one below the other."""
    words = metric.split("_")
    return [line for word in words for line in wrap(word, HEADING_WIDTH)] or [metric]


def _table(snapshot: Mapping[str, Any], metrics: Sequence[str], *, counts: bool) -> Table:
    table = plain_table("template")
    headings = [["samples"], ["errors"]] if counts else []
    for lines in [*headings, *map(heading, metrics)]:
        table.add_column("\n".join(lines), justify="right", no_wrap=True)
    for template, group in snapshot["per_template"].items():
        table.add_row(one_line(template, limit=NAME_CHARACTERS), *_cells(group, metrics, counts=counts))
    table.add_section()
    for name in ("micro", "macro"):
        table.add_row(name, *_cells(snapshot[name], metrics, counts=counts))
    return table


def _least_width(table: Table, console: Console) -> int:
    """How wide a table is whose names are folded to `NAME_WIDTH`."""
    names = table.columns[0]
    names.max_width = NAME_WIDTH
    width = console.measure(table).maximum
    names.max_width = None
    return width


def _cells(group: Mapping[str, Any], metrics: Sequence[str], *, counts: bool = False) -> list[str]:
    cells = [number(group[metric]["mean"]) if "mean" in group.get(metric, ()) else "" for metric in metrics]
    if not counts:
        return cells
    errors = group.get("number_of_error_samples")
    if errors is None:
        return ["", "", *cells]
    return [str(errors + group["number_of_success_samples"]), str(errors), *cells]


def number(value: float) -> str:
    """A value in four digits, or the whole ones of a larger one."""
    return f"{value:.0f}" if 1000 <= abs(value) < 1e9 else f"{value:.4g}"


def _width(stream: TextIO) -> int:
    return (stream.isatty() and os.get_terminal_size(stream.fileno()).columns) or WIDTH
